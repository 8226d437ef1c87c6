/*
 * shm.c: exports in shared memory: their life, and every way in which making one can fail.
 *
 * Checks the status, that the sentence names the thing and the remedy, and that nothing is left
 * behind.  A file system that fills up is a tmpfs of one megabyte, which only root can mount;
 * without it that test says so and is skipped.
 */
#include <errno.h>
#include <fcntl.h>
#include <sched.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/mount.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <sys/sysinfo.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

#include "base/compiler.h"
#include "fabric/shm.h"
#include "support/tempdir.h"
#include "under_test.h"

#ifndef MADV_COLLAPSE
#define MADV_COLLAPSE 25 /* Linux 6.1 */
#endif

static char error[256];
static struct tempdir dir;

static int create(const char *where, uint64_t bytes)
{
	error[0] = '\0';
	return shm_export_create(where, bytes, 0, error, sizeof(error));
}

static int map_open(const char *where, int flags, struct shm_map **out)
{
	error[0] = '\0';
	return shm_map_open(where, flags, error, sizeof(error), out);
}

static int unlink_export(const char *where)
{
	error[0] = '\0';
	return shm_export_unlink(where, error, sizeof(error));
}

static void expect_in_error(const char *words)
{
	if (!strstr(error, words))
		fail_msg("\"%s\" does not say \"%s\"", error, words);
}

static const char *in_dir(const char *name)
{
	static char path[128];

	snprintf(path, sizeof(path), "%s/%s", dir.path, name);
	return path;
}

static const char *posix_name(void)
{
	static char where[64];

	snprintf(where, sizeof(where), "shm:/forge-shm-test-%ld", (long)getpid());
	return where;
}

static void write_file(const char *path, uint64_t bytes)
{
	int fd = open(path, O_RDWR | O_CREAT | O_TRUNC, 0600);

	assert_true(fd >= 0);
	assert_int_equal(ftruncate(fd, (off_t)bytes), 0);
	close(fd);
}

static int make_dir(void **state)
{
	return tempdir_make(&dir);
}

static int remove_dir(void **state)
{
	return tempdir_remove(&dir);
}

/* Another process opens the export by its name and sees, and changes, the same words. */
static void check_life(const char *where)
{
	struct shm_map *map = NULL;
	struct fab *f = NULL;
	struct fab_op op = fab_faa(FAB_CONTROL, 4096, 40);
	int status;
	pid_t child;

	assert_int_equal(create(where, 65536), FORGE_OK);
	assert_int_equal(create(where, 65536), FORGE_E_POOL_EXISTS);
	expect_in_error(where);
	assert_int_equal(map_open(where, 0, &map), FORGE_OK);
	assert_int_equal(shm_map_bytes(map), 65536);
	assert_int_equal(shm_open_connection(map, &f), FORGE_OK);
	assert_int_equal(fab_caps(f)->export_bytes, 65536);
	assert_true(fab_caps(f)->completes_at_post);
	run_ops(f, &op, 1);

	child = fork();
	assert_true(child >= 0);
	if (child == 0) {
		struct shm_map *other = NULL;
		struct fab *g = NULL;
		struct fab_op add = fab_faa(FAB_CONTROL, 4096, 2);

		if (map_open(where, 0, &other) != FORGE_OK ||
		    shm_open_connection(other, &g) != FORGE_OK)
			_exit(1);
		run_ops(g, &add, 1);
		fab_close(g);
		shm_map_close(other);
		_exit(add.status == FORGE_OK && add.old == 40 ? 0 : 2);
	}
	assert_int_equal(waitpid(child, &status, 0), child);
	assert_true(WIFEXITED(status));
	assert_int_equal(WEXITSTATUS(status), 0);
	assert_int_equal(((uint64_t *)shm_map_base(map))[512], 42);

	/* A mapping survives its name. */
	assert_int_equal(unlink_export(where), FORGE_OK);
	run_ops(f, &op, 1);
	assert_int_equal(op.old, 42);
	fab_close(f);
	shm_map_close(map);
	assert_int_equal(map_open(where, 0, &map), FORGE_E_POOL_ABSENT);
	expect_in_error(where);
	assert_int_equal(unlink_export(where), FORGE_E_POOL_ABSENT);
}

static void test_life_posix(void **state)
{
	check_life(posix_name());
}

static void test_life_path(void **state)
{
	check_life(in_dir("pool"));
}

static void test_life_file_url(void **state)
{
	char where[160];

	snprintf(where, sizeof(where), "file:%s", in_dir("pool"));
	check_life(where);
}

static void test_every_byte_is_reserved(void **state)
{
	const char *path = in_dir("pool");
	struct stat s;

	assert_int_equal(create(path, 1 << 20), FORGE_OK);
	assert_int_equal(stat(path, &s), 0);
	assert_int_equal(s.st_size, 1 << 20);
	assert_true((uint64_t)s.st_blocks * 512 >= 1 << 20);
	assert_int_equal(unlink_export(path), FORGE_OK);
}

/* A file with holes, e.g. one that was copied, gets its space when it is opened. */
/* Would the system give a huge page to whoever asks in this way? */
static bool huge_pages_are_given(void)
{
	const size_t huge = 2u << 20;
	int fd = memfd_create("forge-shm-test", MFD_CLOEXEC);
	char *map, *base;
	bool given;

	assert_true(fd >= 0 && ftruncate(fd, (off_t)huge) == 0);
	map = mmap(NULL, 2 * huge, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	base = map + (huge - (uintptr_t)map % huge) % huge;
	assert_ptr_equal(mmap(base, huge, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_FIXED, fd, 0),
			 base);
	base[0] = 1;
	given = madvise(base, huge, MADV_COLLAPSE) == 0;
	munmap(map, 2 * huge);
	close(fd);
	return given;
}

/*
 * An export is in huge pages but for its last part, also where the host gives none by itself, and
 * is as zero as it ever was; so is a second mapping, which has asked for nothing.
 */
static void test_huge_pages(void **state)
{
	const uint64_t bytes = (9u << 20) + 4096 + 8, whole = 8u << 20;
	struct shm_map *map[2];

	if (!huge_pages_are_given()) {
		print_message("skipped: this host has no huge pages, or denies them\n");
		skip();
	}
	assert_int_equal(create(posix_name(), bytes), FORGE_OK);
	for (unsigned i = 0; i < 2; i++) {
		assert_int_equal(map_open(posix_name(), 0, &map[i]), FORGE_OK);
		assert_int_equal(shm_map_bytes(map[i]), bytes);
		assert_int_equal(shm_map_huge_bytes(map[i]), whole);
		for (uint64_t at = 0; at < bytes / 8; at++)
			assert_int_equal(((const uint64_t *)shm_map_base(map[i]))[at], 0);
	}
	for (unsigned i = 0; i < 2; i++)
		shm_map_close(map[i]);
	assert_int_equal(unlink_export(posix_name()), FORGE_OK);
}

static void test_holes_are_filled_at_open(void **state)
{
	const char *path = in_dir("sparse");
	struct shm_map *map = NULL;
	struct stat s;

	write_file(path, 1 << 20);
	assert_int_equal(map_open(path, SHM_MAP_LAZY, &map), FORGE_OK);
	assert_int_equal(stat(path, &s), 0);
	assert_true((uint64_t)s.st_blocks * 512 >= 1 << 20);
	shm_map_close(map);
	unlink(path);
}

static void test_read_only(void **state)
{
	const char *path = in_dir("pool");
	struct shm_map *map = NULL;
	struct fab *f = NULL;

	assert_int_equal(create(path, 4096), FORGE_OK);
	assert_int_equal(map_open(path, SHM_MAP_READ_ONLY, &map), FORGE_OK);
	assert_int_equal(*(uint64_t *)shm_map_base(map), 0);
	assert_int_equal(shm_open_connection(map, &f), FORGE_E_INVAL);
	assert_null(f);
	shm_map_close(map);
	assert_int_equal(unlink_export(path), FORGE_OK);
}

static void test_bad_names(void **state)
{
	static const char *const bad[] = {"",	      "pool",  "shm:",	 "shm:pool", "shm:/",
					  "shm:/a/b", "file:", "file:x", "/"};
	struct shm_map *map = NULL;

	for (unsigned i = 0; i < ARRAY_COUNT(bad); i++) {
		assert_int_equal(create(bad[i], 4096), FORGE_E_INVAL);
		expect_in_error(bad[i]);
		assert_int_equal(map_open(bad[i], 0, &map), FORGE_E_INVAL);
		assert_int_equal(unlink_export(bad[i]), FORGE_E_INVAL);
	}
	assert_null(map);
}

static void test_bad_sizes(void **state)
{
	static const uint64_t bad[] = {0, 8, 4095, 4097, 65540, UINT64_MAX, (uint64_t)1 << 63};

	for (unsigned i = 0; i < ARRAY_COUNT(bad); i++) {
		assert_int_equal(create(posix_name(), bad[i]), FORGE_E_INVAL);
		assert_int_equal(unlink_export(posix_name()), FORGE_E_POOL_ABSENT);
	}
	assert_int_equal(shm_export_create(posix_name(), 4096, 1, error, sizeof(error)),
			 FORGE_E_INVAL);
}

static void test_files_that_are_no_export(void **state)
{
	static const uint64_t sizes[] = {0, 1, 4088, 4095, 8193, 65532};
	const char *path = in_dir("foreign");
	struct shm_map *map = NULL;

	for (unsigned i = 0; i < ARRAY_COUNT(sizes); i++) {
		write_file(path, sizes[i]);
		assert_int_equal(map_open(path, 0, &map), FORGE_E_POOL_TRUNCATED);
		expect_in_error(path);
		expect_in_error(sizes[i] ? "create the pool again" : "forge gc --pool");
		unlink(path);
	}
	assert_int_equal(map_open("/dev/null", 0, &map), FORGE_E_INVAL);
	expect_in_error("not a regular file");
	assert_int_equal(create(in_dir("no/such/dir"), 4096), FORGE_E_POOL_ABSENT);
	assert_null(map);
}

/* As a user who may not: root may everything, so the child gives that up. */
static void test_no_permission(void **state)
{
	const char *path = in_dir("pool");
	int status;
	pid_t child;

	assert_int_equal(create(path, 4096), FORGE_OK);
	assert_int_equal(chmod(path, 0400), 0);
	child = fork();
	assert_true(child >= 0);
	if (child == 0) {
		struct shm_map *map = NULL;

		if (geteuid() == 0 && setuid(65534) != 0)
			_exit(1);
		if (map_open(path, 0, &map) != FORGE_E_SYSTEM)
			_exit(2);
		_exit(strstr(error, "permission") && strstr(error, path) ? 0 : 3);
	}
	assert_int_equal(waitpid(child, &status, 0), child);
	assert_true(WIFEXITED(status));
	assert_int_equal(WEXITSTATUS(status), 0);
	assert_int_equal(unlink_export(path), FORGE_OK);
}

/* More than /dev/shm has: refused at once, without taking what there is. */
static void test_larger_than_dev_shm(void **state)
{
	struct statvfs before, after;
	uint64_t free_bytes;

	assert_int_equal(statvfs("/dev/shm", &before), 0);
	free_bytes = (uint64_t)before.f_bavail * before.f_frsize;
	if (before.f_blocks == 0) {
		print_message("skipped: /dev/shm has no limit here\n");
		skip();
	}
	assert_int_equal(create(posix_name(), (free_bytes + ((uint64_t)1 << 40)) & ~(uint64_t)7),
			 FORGE_E_POOL_SPACE);
	expect_in_error(posix_name());
	expect_in_error("needed");
	expect_in_error("free");
	expect_in_error("remount");
	assert_int_equal(unlink_export(posix_name()), FORGE_E_POOL_ABSENT);
	assert_int_equal(statvfs("/dev/shm", &after), 0);
	/* Others use /dev/shm, too; what must not have happened is that we took it all. */
	assert_true(after.f_bavail >= before.f_bavail / 2);
}

/* More than the host has memory, though /dev/shm may claim to have room for it. */
static void test_larger_than_memory(void **state)
{
	uint64_t memory_bytes = (uint64_t)sysconf(_SC_PHYS_PAGES) * (uint64_t)sysconf(_SC_PAGESIZE);
	struct sysinfo info;

	assert_int_equal(sysinfo(&info), 0);
	memory_bytes += (uint64_t)info.totalswap * info.mem_unit;
	assert_int_equal(create(posix_name(), memory_bytes & ~(uint64_t)7), FORGE_E_POOL_SPACE);
	assert_int_equal(unlink_export(posix_name()), FORGE_E_POOL_ABSENT);
}

/*
 * A tmpfs of 1 MiB: what fits can be written to its last byte, what does not fit is refused, at
 * creation and when the space is gone by the time of opening, and the space comes back.  The
 * mount is in a child's own namespace, so nobody else sees it and it ends with the child.
 */
static int use_up_small_tmpfs(void)
{
	const char *path = in_dir("pool");
	char second[160], sparse[160];
	struct shm_map *map = NULL;
	struct stat s;

	snprintf(second, sizeof(second), "%s2", path);
	snprintf(sparse, sizeof(sparse), "%s3", path);
	if (create(path, 768 << 10) != FORGE_OK || map_open(path, 0, &map) != FORGE_OK)
		return 2;
	memset(shm_map_base(map), 0xff, shm_map_bytes(map));
	if (create(second, 768 << 10) != FORGE_E_POOL_SPACE || !strstr(error, second))
		return 3;
	if (stat(second, &s) == 0 || errno != ENOENT)
		return 4;
	shm_map_close(map);
	if (truncate(path, 0) != 0 || truncate(path, 512 << 10) != 0)
		return 5;
	write_file(sparse, 768 << 10);
	if (map_open(sparse, 0, &map) != FORGE_OK)
		return 6;
	shm_map_close(map);
	if (map_open(path, 0, &map) != FORGE_E_POOL_SPACE || !strstr(error, path))
		return 7;
	unlink(sparse);
	if (map_open(path, 0, &map) != FORGE_OK)
		return 8;
	memset(shm_map_base(map), 0xff, shm_map_bytes(map));
	shm_map_close(map);
	return 0;
}

static void test_small_tmpfs(void **state)
{
	int status;
	pid_t child = fork();

	assert_true(child >= 0);
	if (child == 0) {
		if (unshare(CLONE_NEWNS) != 0 ||
		    mount(NULL, "/", NULL, MS_REC | MS_PRIVATE, NULL) != 0 ||
		    mount("forge-test", dir.path, "tmpfs", 0, "size=1m") != 0)
			_exit(77);
		_exit(use_up_small_tmpfs());
	}
	assert_int_equal(waitpid(child, &status, 0), child);
	assert_true(WIFEXITED(status));
	if (WEXITSTATUS(status) == 77) {
		print_message("skipped: may not mount a tmpfs here (needs root)\n");
		skip();
	}
	assert_int_equal(WEXITSTATUS(status), 0);
}

/* A sentence that does not fit is cut, not overrun. */
static int hold(const char *where, struct shm_hold **out)
{
	error[0] = '\0';
	return shm_hold_open(where, 0, error, sizeof(error), out);
}

static int is_held(const char *where)
{
	return shm_is_held(where, 0, error, sizeof(error));
}

/* One holder at a time, even within a process, and whatever else is opened and closed. */
static void test_hold_excludes(void **state)
{
	const char *where = posix_name();
	struct shm_hold *first, *second;
	struct shm_map *map;

	assert_int_equal(create(where, 8192), 0);
	assert_int_equal(is_held(where), 0);
	assert_int_equal(hold(where, &first), 0);
	assert_int_equal(map_open(where, 0, &map), 0);
	shm_map_close(map);
	assert_int_equal(is_held(where), 1);
	assert_int_equal(hold(where, &second), FORGE_E_AGAIN);
	expect_in_error("held by another");
	assert_int_equal(shm_hold_open(where, 1, error, sizeof(error), &second), 0);
	shm_hold_close(second);
	shm_hold_close(first);
	assert_int_equal(is_held(where), 0);
	assert_int_equal(unlink_export(where), 0);
	assert_int_equal(hold(where, &first), FORGE_E_POOL_ABSENT);
	assert_int_equal(is_held(where), FORGE_E_POOL_ABSENT);
	assert_int_equal(hold(dir.path, &first), FORGE_E_INVAL);
	shm_hold_close(NULL);
}

/* An export that is created to be held has the same life and the same errors as any other. */
static void test_hold_create(void **state)
{
	const char *where = posix_name();
	struct shm_hold *first, *second;
	struct shm_map *map;

	assert_int_equal(shm_hold_create(where, 8192, 0, "made", 4, error, sizeof(error), &first),
			 0);
	assert_int_equal(hold(where, &second), FORGE_E_AGAIN);
	assert_int_equal(map_open(where, 0, &map), 0);
	assert_int_equal(shm_map_bytes(map), 8192);
	assert_memory_equal(shm_map_base(map), "made", 4);
	shm_map_close(map);
	assert_int_equal(shm_hold_create(where, 8192, 0, "made", 4, error, sizeof(error), &second),
			 FORGE_E_POOL_EXISTS);
	assert_int_equal(shm_hold_unlink(first, error, sizeof(error)), 0);
	shm_hold_close(first);
	assert_int_equal(shm_hold_create(where, 12, 0, "made", 4, error, sizeof(error), &first),
			 FORGE_E_INVAL);
	assert_int_equal(
	    shm_hold_create(where, UINT64_C(1) << 50, 0, "made", 4, error, sizeof(error), &first),
	    FORGE_E_POOL_SPACE);
	assert_int_equal(is_held(where), FORGE_E_POOL_ABSENT);
}

/* The kernel lets go for a process that is killed. */
static void test_hold_ends_with_its_process(void **state)
{
	const char *where = posix_name();
	struct shm_hold *h;
	int ready[2], status;
	char byte;
	pid_t child;

	assert_int_equal(create(where, 8192), 0);
	assert_int_equal(pipe(ready), 0);
	child = fork();
	if (child == 0) {
		if (hold(where, &h) == 0 && write(ready[1], "y", 1) == 1)
			pause();
		_exit(1);
	}
	assert_true(child > 0);
	close(ready[1]);
	assert_int_equal(read(ready[0], &byte, 1), 1);
	assert_int_equal(hold(where, &h), FORGE_E_AGAIN);
	kill(child, SIGKILL);
	assert_int_equal(waitpid(child, &status, 0), child);
	assert_int_equal(hold(where, &h), 0);
	shm_hold_close(h);
	close(ready[0]);
	assert_int_equal(unlink_export(where), 0);
}

/* A holder removes its own export and no other that took the name. */
static void test_hold_unlinks_its_own(void **state)
{
	const char *where = in_dir("held");
	struct shm_hold *h;
	uint64_t head = 1;

	assert_int_equal(create(where, 8192), 0);
	assert_int_equal(hold(where, &h), 0);
	assert_int_equal(shm_hold_peek(h, &head, sizeof(head)), sizeof(head));
	assert_int_equal(head, 0);
	assert_int_equal(unlink_export(where), 0);
	assert_int_equal(shm_hold_unlink(h, error, sizeof(error)), FORGE_E_POOL_ABSENT);
	write_file(where, 3);
	assert_int_equal(shm_hold_unlink(h, error, sizeof(error)), FORGE_E_POOL_ABSENT);
	expect_in_error("left alone");
	shm_hold_close(h);
	assert_int_equal(hold(where, &h), 0);
	assert_int_equal(shm_hold_peek(h, &head, sizeof(head)), 3);
	assert_int_equal(shm_hold_unlink(h, error, sizeof(error)), 0);
	shm_hold_close(h);
	assert_int_equal(access(where, F_OK), -1);
}

static void test_short_error_text(void **state)
{
	char text[12];
	struct shm_map *map = NULL;

	memset(text, '#', sizeof(text));
	assert_int_equal(shm_map_open("/no/such/pool", 0, text, 8, &map), FORGE_E_POOL_ABSENT);
	assert_int_equal(strlen(text), 7);
	assert_memory_equal(text + 8, "####", 4);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test(test_life_posix),
	    cmocka_unit_test(test_life_path),
	    cmocka_unit_test(test_life_file_url),
	    cmocka_unit_test(test_every_byte_is_reserved),
	    cmocka_unit_test(test_huge_pages),
	    cmocka_unit_test(test_holes_are_filled_at_open),
	    cmocka_unit_test(test_read_only),
	    cmocka_unit_test(test_bad_names),
	    cmocka_unit_test(test_bad_sizes),
	    cmocka_unit_test(test_files_that_are_no_export),
	    cmocka_unit_test(test_no_permission),
	    cmocka_unit_test(test_larger_than_dev_shm),
	    cmocka_unit_test(test_larger_than_memory),
	    cmocka_unit_test(test_small_tmpfs),
	    cmocka_unit_test(test_hold_excludes),
	    cmocka_unit_test(test_hold_create),
	    cmocka_unit_test(test_hold_ends_with_its_process),
	    cmocka_unit_test(test_hold_unlinks_its_own),
	    cmocka_unit_test(test_short_error_text),
	};

	return cmocka_run_group_tests_name("shm", tests, make_dir, remove_dir);
}
