/* secure.c: see secure.h. */
#include "support/secure.h"

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

#define DAY_S 86400

void secure_write_keys(const struct secure *s, const char *text)
{
	FILE *f = fopen(s->key_path, "w");

	assert_non_null(f);
	assert_int_equal(fchmod(fileno(f), 0600), 0);
	assert_true(fputs(text, f) >= 0);
	fclose(f);
}

struct pass *secure_pass(const struct secure *s, const char *line, int tls)
{
	const struct pass_wish wish = {
	    .key_line = line, .tls = tls, .files.authority = tls ? s->authority.certificate : NULL};
	struct pass *pass;
	char text[256];

	if (pass_open(&wish, &pass, text, sizeof(text)))
		fail_msg("%s", text);
	return pass;
}

void secure_open(struct secure *s, int flags)
{
	struct door_wish wish = {.strangers_max = SECURE_STRANGERS_MAX};
	char text[256];

	memset(s, 0, sizeof(*s));
	assert_int_equal(tempdir_make(&s->directory), 0);
	snprintf(s->key_path, sizeof(s->key_path), "%s/keys", s->directory.path);
	secure_write_keys(s, SECURE_FULL "\n" SECURE_READ_ONLY "\n" SECURE_METRICS "\n");
	cert_authority(s->directory.path, "authority", &s->authority);
	cert_issue(s->directory.path, "node", &s->authority, "IP:127.0.0.1,IP:::1", -DAY_S, DAY_S,
		   &s->node);
	if (flags & SECURE_KEYS)
		wish.key_file = s->key_path;
	if (flags & SECURE_TLS)
		wish.files = (struct tls_files){s->node.certificate, s->node.key, NULL};
	if (door_open(&wish, &s->door, text, sizeof(text)))
		fail_msg("%s", text);
	s->pass =
	    secure_pass(s, flags & SECURE_KEYS ? SECURE_FULL : NULL, (flags & SECURE_TLS) != 0);
}

void secure_close(struct secure *s)
{
	pass_close(s->pass);
	door_close(s->door);
	tempdir_remove(&s->directory);
}
