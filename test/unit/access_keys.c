/*
 * Key files: what they may hold, who may own them, and that no error tells a word of a line.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cmocka.h>

#include "access/keys.h"
#include "base/status.h"
#include "support/tempdir.h"

#define SECRET	"00112233445566778899aabbccddeeff"
#define SECRET2 "FFEEDDCCBBAA99887766554433221100"

static void lines_are_names_roles_and_secrets(void **state)
{
	char text[256] = "";
	struct keys *k;

	assert_int_equal(keys_open_text("# who may come\n"
					"\n"
					"web\tfull " SECRET "\r\n"
					"  grafana  metrics   " SECRET2 "  \n"
					"web full " SECRET2,
					"here", &k, text, sizeof(text)),
			 0);
	assert_int_equal(keys_count(k), 3);
	assert_string_equal(keys_at(k, 0)->name, "web");
	assert_int_equal(keys_at(k, 0)->role, ACCESS_FULL);
	assert_int_equal(keys_at(k, 0)->secret_bytes, 16);
	assert_int_equal(keys_at(k, 0)->secret[1], 0x11);
	assert_int_equal(keys_at(k, 1)->role, ACCESS_METRICS);
	assert_int_equal(keys_at(k, 1)->secret[0], 0xff);
	assert_ptr_equal(keys_find(k, "web"), keys_at(k, 0));
	assert_ptr_equal(keys_find(k, NULL), keys_at(k, 0));
	assert_ptr_equal(keys_find(k, "grafana"), keys_at(k, 1));
	assert_null(keys_find(k, "graf"));
	keys_close(k);
}

/* Each is refused with these words, and the words repeat nothing of the line. */
static void other_lines_are_refused(void **state)
{
	static const struct {
		const char *line, *words;
	} bad[] = {
	    {"", "has no key"},
	    {"# " SECRET, "has no key"},
	    {SECRET, "line 1: a key is NAME ROLE SECRET"},
	    {"web " SECRET, "line 1: a key is NAME ROLE SECRET"},
	    {"web full " SECRET " more # and more",
	     "line 1: a key is NAME ROLE SECRET, with spaces "
	     "between and # before a comment"},
	    {"web full # " SECRET, "line 1: a key is NAME ROLE SECRET"},
	    {"web full " SECRET " more", "line 1: a key is NAME ROLE SECRET"},
	    {"\nw/b full " SECRET, "line 2: the name"},
	    {"0123456789012345678901234567890123456789012345678901234567890123 full " SECRET,
	     "line 1: the name"},
	    {"web all " SECRET, "line 1: the role"},
	    {SECRET " " SECRET " " SECRET, "line 1: the role"},
	    {"web full 001122334455667788", "32 to 128 hexadecimal digits"},
	    {"web full " SECRET "0", "32 to 128 hexadecimal digits"},
	    {"web full " SECRET SECRET SECRET SECRET "00", "32 to 128 hexadecimal digits"},
	    {"web full 00112233445566778899aabbccddeefg", "32 to 128 hexadecimal digits"},
	};
	struct keys *k;

	for (unsigned i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
		char text[256] = "";

		assert_int_equal(keys_open_text(bad[i].line, "here", &k, text, sizeof(text)),
				 FORGE_E_FORMAT);
		assert_non_null(strstr(text, bad[i].words));
		assert_non_null(strstr(text, "here"));
		assert_null(strstr(text, "0011"));
	}
}

static void more_keys_than_there_may_be_are_refused(void **state)
{
	static const char line[] = "k full " SECRET "\n";
	size_t bytes = sizeof(line) - 1;
	char *text = malloc((KEYS_MAX + 1) * bytes + 1), why[256];
	struct keys *k;

	for (unsigned i = 0; i <= KEYS_MAX; i++)
		memcpy(text + i * bytes, line, bytes + 1);
	assert_int_equal(keys_open_text(text, "here", &k, why, sizeof(why)), FORGE_E_FORMAT);
	text[KEYS_MAX * bytes] = '\0';
	assert_int_equal(keys_open_text(text, "here", &k, why, sizeof(why)), 0);
	assert_int_equal(keys_count(k), KEYS_MAX);
	keys_close(k);
	free(text);
}

static struct tempdir directory;
static char path[64];

static int make_directory(void **state)
{
	int status = tempdir_make(&directory);

	snprintf(path, sizeof(path), "%s/keys", directory.path);
	return status;
}

static int remove_directory(void **state)
{
	return tempdir_remove(&directory);
}

static void write_file(const char *text, size_t bytes, mode_t mode)
{
	FILE *f = fopen(path, "w");

	assert_non_null(f);
	assert_int_equal(fwrite(text, 1, bytes, f), bytes);
	fclose(f);
	assert_int_equal(chmod(path, mode), 0);
}

static void a_file_must_be_the_owners_alone(void **state)
{
	static const char line[] = "web full " SECRET "\n";
	static const mode_t good[] = {0400, 0600, 0640, 0440, 0700};
	static const mode_t bad[] = {0644, 0604, 0602, 0660, 0620, 0601};
	char text[512], mode[8];
	struct keys *k;

	for (unsigned i = 0; i < sizeof(good) / sizeof(good[0]); i++) {
		unlink(path);
		write_file(line, strlen(line), good[i]);
		assert_int_equal(keys_open(path, &k, text, sizeof(text)), 0);
		keys_close(k);
	}
	for (unsigned i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
		unlink(path);
		write_file(line, strlen(line), bad[i]);
		assert_int_equal(keys_open(path, &k, text, sizeof(text)), FORGE_E_DENIED);
		snprintf(mode, sizeof(mode), "%03o", (unsigned)bad[i]);
		assert_non_null(strstr(text, mode));
		assert_non_null(strstr(text, "chmod 600"));
	}
	if (geteuid() == 0) {
		unlink(path);
		write_file(line, strlen(line), 0600);
		assert_int_equal(chown(path, 12345, 0), 0);
		assert_int_equal(keys_open(path, &k, text, sizeof(text)), FORGE_E_DENIED);
		assert_non_null(strstr(text, "12345"));
	}
	unlink(path);
}

static void what_is_no_file_of_text_is_refused(void **state)
{
	char text[512];
	char *large = calloc(1, KEYS_FILE_BYTES);
	struct keys *k;

	assert_int_equal(keys_open("/tmp/forge-access-none", &k, text, sizeof(text)),
			 FORGE_E_SYSTEM);
	assert_non_null(strstr(text, "/tmp/forge-access-none"));
	write_file("web full\0", 9, 0600);
	assert_int_equal(keys_open(path, &k, text, sizeof(text)), FORGE_E_FORMAT);
	memset(large, '\n', KEYS_FILE_BYTES);
	write_file(large, KEYS_FILE_BYTES, 0600);
	assert_int_equal(keys_open(path, &k, text, sizeof(text)), FORGE_E_FORMAT);
	unlink(path);
	/* Nobody writes to it, and nobody waits. */
	assert_int_equal(mkfifo(path, 0600), 0);
	assert_int_equal(keys_open(path, &k, text, sizeof(text)), FORGE_E_DENIED);
	unlink(path);
	assert_int_equal(keys_open("/tmp", &k, text, sizeof(text)), FORGE_E_DENIED);
	free(large);
}

static void roles_have_names(void **state)
{
	for (uint8_t role = ACCESS_FULL; role <= ACCESS_METRICS; role++)
		assert_int_equal(access_role_of(access_role_name(role)), role);
	assert_int_equal(access_role_of("fool"), 0);
	assert_null(access_role_name(0));
	assert_null(access_role_name(4));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test(lines_are_names_roles_and_secrets),
	    cmocka_unit_test(other_lines_are_refused),
	    cmocka_unit_test(more_keys_than_there_may_be_are_refused),
	    cmocka_unit_test(a_file_must_be_the_owners_alone),
	    cmocka_unit_test(what_is_no_file_of_text_is_refused),
	    cmocka_unit_test(roles_have_names),
	};

	return cmocka_run_group_tests(tests, make_directory, remove_directory);
}
