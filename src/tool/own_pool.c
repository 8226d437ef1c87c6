/* own_pool.c: names, a process that waits for the server's end, and a look round at the start. */
#include "tool/own_pool.h"

#include <dirent.h>
#include <fcntl.h>
#include <signal.h>
#include <spawn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/log.h"
#include "bench/own_pool.h"
#include "fabric/shm.h"
#include "tool/gc.h"

#define PREFIX "forge-serve-"

/* What follows if s begins so and then with a number; NULL: it does not, or is NULL. */
static const char *skip(const char *s, const char *prefix)
{
	size_t digits;

	if (!s || strncmp(s, prefix, strlen(prefix)) != 0)
		return NULL;
	s += strlen(prefix);
	digits = strspn(s, "0123456789");
	return digits ? s + digits : NULL;
}

static bool is_own(const char *file)
{
	const char *end = skip(file, PREFIX);

	return end && *end == '\0';
}

static bool is_of_a_run(const char *file)
{
	const char *end = skip(skip(file, OWN_POOL_PREFIX), "-");

	return end && *end == '\0';
}

void own_pool_name(char *name, size_t bytes)
{
	snprintf(name, bytes, "shm:/" PREFIX "%d", (int)getpid());
}

bool own_pool_is(const char *name)
{
	return strncmp(name, "shm:/", 5) == 0 && (is_own(name + 5) || is_of_a_run(name + 5));
}

/* 0 or an errno. */
static int spawn(char *const argv[])
{
	posix_spawn_file_actions_t files;
	posix_spawnattr_t how;
	sigset_t ignored;
	pid_t child;
	int error;

	sigemptyset(&ignored);
	sigaddset(&ignored, SIGTERM);
	sigaddset(&ignored, SIGINT);
	sigaddset(&ignored, SIGHUP);
	sigaddset(&ignored, SIGQUIT);
	posix_spawnattr_init(&how);
	posix_spawn_file_actions_init(&files);
	posix_spawnattr_setsigmask(&how, &ignored);
	posix_spawnattr_setflags(&how, POSIX_SPAWN_SETSID | POSIX_SPAWN_SETSIGMASK);
	/* Whoever reads what the server prints sees its end when the server ends. */
	for (int fd = 0; fd < 3; fd++)
		posix_spawn_file_actions_addopen(&files, fd, "/dev/null", O_RDWR, 0);
	error = posix_spawn(&child, "/proc/self/exe", &files, &how, argv, environ);
	posix_spawn_file_actions_destroy(&files);
	posix_spawnattr_destroy(&how);
	return error;
}

void own_pool_watch(const char *name)
{
	char pool[128], pid[16];
	char *argv[] = {"forge", "gc", "--warm-too", "--pool", pool, "--after", pid, NULL};
	int error;

	snprintf(pool, sizeof(pool), "%s", name);
	snprintf(pid, sizeof(pid), "%d", (int)getpid());
	error = spawn(argv);
	if (error)
		log_warn("%s: nobody will remove it if this server is killed: %s; 'forge gc' does",
			 name, strerror(error));
}

static int is_candidate(const struct dirent *entry)
{
	return entry->d_type == DT_REG && is_own(entry->d_name);
}

void own_pool_collect(void)
{
	struct dirent **entries;
	int count = scandir(SHM_DIRECTORY, &entries, is_candidate, alphasort);

	for (int i = 0; i < count; i++) {
		char where[8 + sizeof(entries[i]->d_name)], text[768];

		snprintf(where, sizeof(where), "shm:/%s", entries[i]->d_name);
		if (gc_remove(where, text, sizeof(text)))
			log_info("%s: removed; the server that made it was killed", where);
		free(entries[i]);
	}
	if (count >= 0)
		free(entries);
}
