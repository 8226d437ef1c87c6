/* keys.c: reading keys, and wiping what they were read from. */
#include "access/keys.h"

#include <fcntl.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/status.h"

struct keys {
	unsigned count;
	struct key keys[];
};

/* Where an error sentence goes, and what it is about. */
struct reading {
	const char *source;
	char *error_text;
	size_t error_bytes;
};

#define REFUSE(r, status, ...) (snprintf((r)->error_text, (r)->error_bytes, __VA_ARGS__), (status))

int key_name_is_valid(const char *name, size_t bytes)
{
	static const char permitted[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZ"
					"abcdefghijklmnopqrstuvwxyz"
					"0123456789._-";

	if (bytes == 0 || bytes >= KEY_NAME_BYTES)
		return 0;
	for (size_t i = 0; i < bytes; i++)
		if (!memchr(permitted, name[i], sizeof(permitted) - 1))
			return 0;
	return 1;
}

static int digit_of(char c)
{
	if (c >= '0' && c <= '9')
		return c - '0';
	if (c >= 'a' && c <= 'f')
		return c - 'a' + 10;
	return c >= 'A' && c <= 'F' ? c - 'A' + 10 : -1;
}

static bool take_secret(const char *digits, struct key *out)
{
	size_t count = strlen(digits);

	if (count % 2 || count < 2 * KEY_SECRET_BYTES_MIN || count > 2 * KEY_SECRET_BYTES_MAX)
		return false;
	for (size_t i = 0; i < count; i += 2) {
		int high = digit_of(digits[i]), low = digit_of(digits[i + 1]);

		if (high < 0 || low < 0)
			return false;
		out->secret[i / 2] = (uint8_t)(high << 4 | low);
	}
	out->secret_bytes = (uint8_t)(count / 2);
	return true;
}

/* One line that is not empty, without its end. */
static int take_line(char *line, unsigned number, struct key *out, const struct reading *r)
{
	static const char space[] = " \t\r";
	char *rest;
	char *name = strtok_r(line, space, &rest);
	char *role = strtok_r(NULL, space, &rest);
	char *secret = strtok_r(NULL, space, &rest);

	if (!secret || strtok_r(NULL, space, &rest))
		return REFUSE(r, FORGE_E_FORMAT,
			      "%s, line %u: a key is NAME ROLE SECRET, with spaces between "
			      "and # before a comment",
			      r->source, number);
	if (!key_name_is_valid(name, strlen(name)))
		return REFUSE(r, FORGE_E_FORMAT,
			      "%s, line %u: the name of a key is 1 to %u of A-Z a-z 0-9 . _ -",
			      r->source, number, KEY_NAME_BYTES - 1);
	strcpy(out->name, name);
	out->role = access_role_of(role);
	if (!out->role)
		return REFUSE(r, FORGE_E_FORMAT,
			      "%s, line %u: the role of a key is full, read-only or metrics",
			      r->source, number);
	if (!take_secret(secret, out))
		return REFUSE(r, FORGE_E_FORMAT,
			      "%s, line %u: a secret is %u to %u hexadecimal digits; make one with "
			      "'openssl rand -hex 32'",
			      r->source, number, 2 * KEY_SECRET_BYTES_MIN,
			      2 * KEY_SECRET_BYTES_MAX);
	return 0;
}

/* Cuts text up. */
static int take_text(char *text, struct keys *out, const struct reading *r)
{
	unsigned number = 0;
	int status = 0;

	while (text && !status) {
		char *line = strsep(&text, "\n");

		number++;
		/* No name, role or secret has one. */
		line[strcspn(line, "#")] = '\0';
		line += strspn(line, " \t\r");
		if (*line == '\0')
			continue;
		if (out->count == KEYS_MAX)
			return REFUSE(r, FORGE_E_FORMAT, "%s has more than %u keys", r->source,
				      KEYS_MAX);
		status = take_line(line, number, &out->keys[out->count++], r);
	}
	if (!status && out->count == 0)
		return REFUSE(
		    r, FORGE_E_FORMAT,
		    "%s has no key, so nobody could come in: write a line NAME ROLE SECRET",
		    r->source);
	return status;
}

/* Lines are no more than there are line feeds, so nothing is allocated for keys there are not. */
static int take(char *text, struct keys **out, const struct reading *r)
{
	size_t lines = 1;

	for (const char *at = text; (at = strchr(at, '\n')); at++)
		lines++;
	struct keys *k =
	    calloc(1, sizeof(*k) + (lines < KEYS_MAX ? lines : KEYS_MAX) * sizeof(k->keys[0]));
	int status = k ? take_text(text, k, r)
		       : REFUSE(r, FORGE_E_NO_MEMORY, "%s", status_sentence(FORGE_E_NO_MEMORY));

	if (status)
		keys_close(k);
	else
		*out = k;
	return status;
}

int keys_open_text(const char *text, const char *source, struct keys **out, char *error_text,
		   size_t error_bytes)
{
	const struct reading r = {source, error_text, error_bytes};
	char *copy = strdup(text);
	int status = copy ? take(copy, out, &r)
			  : REFUSE(&r, FORGE_E_NO_MEMORY, "%s", status_sentence(FORGE_E_NO_MEMORY));

	if (copy)
		explicit_bzero(copy, strlen(text));
	free(copy);
	return status;
}

/* The open file, not its name: nothing can be put in its place between check and reading. */
static int check_mode(int fd, const struct reading *r)
{
	struct stat st;

	if (fstat(fd, &st) != 0)
		return REFUSE(r, FORGE_E_SYSTEM, "%s cannot be looked at: %m", r->source);
	if (!S_ISREG(st.st_mode))
		return REFUSE(r, FORGE_E_DENIED, "%s is no regular file: keep keys in one",
			      r->source);
	if (st.st_uid != 0 && st.st_uid != geteuid())
		return REFUSE(r, FORGE_E_DENIED,
			      "%s belongs to user %u, who could change the keys in it: chown it to "
			      "the user that runs this, or to root",
			      r->source, (unsigned)st.st_uid);
	if (st.st_mode & (S_IRWXO | S_IWGRP))
		return REFUSE(r, FORGE_E_DENIED,
			      "%s has mode %03o, so others than its owner can read or change it: "
			      "chmod 600 it (640 at most)",
			      r->source, (unsigned)st.st_mode & 0777);
	return 0;
}

/* *bytes were read into buf, which has room for one more. */
static int read_all(int fd, char *buf, size_t *bytes, const struct reading *r)
{
	size_t n = 0;

	while (n < KEYS_FILE_BYTES) {
		ssize_t got = read(fd, buf + n, KEYS_FILE_BYTES - n);

		if (got < 0)
			return REFUSE(r, FORGE_E_SYSTEM, "%s cannot be read: %m", r->source);
		*bytes = n += (size_t)got;
		if (got == 0)
			break;
	}
	if (n == KEYS_FILE_BYTES)
		return REFUSE(r, FORGE_E_FORMAT, "%s is longer than %u bytes", r->source,
			      KEYS_FILE_BYTES - 1);
	buf[n] = '\0';
	if (memchr(buf, '\0', n))
		return REFUSE(r, FORGE_E_FORMAT, "%s is no text", r->source);
	return 0;
}

int keys_open(const char *path, struct keys **out, char *error_text, size_t error_bytes)
{
	const struct reading r = {path, error_text, error_bytes};
	/* A pipe of that name must not make us wait for who writes to it. */
	int fd = open(path, O_RDONLY | O_CLOEXEC | O_NOCTTY | O_NONBLOCK);
	size_t bytes = 0;

	if (fd < 0)
		return REFUSE(&r, FORGE_E_SYSTEM, "the key file %s cannot be opened: %m", path);
	char *text = malloc(KEYS_FILE_BYTES + 1);
	int status = text ? check_mode(fd, &r)
			  : REFUSE(&r, FORGE_E_NO_MEMORY, "%s", status_sentence(FORGE_E_NO_MEMORY));

	if (!status)
		status = read_all(fd, text, &bytes, &r);
	if (!status)
		status = take(text, out, &r);
	if (text)
		explicit_bzero(text, bytes);
	free(text);
	close(fd);
	return status;
}

void keys_close(struct keys *k)
{
	if (k)
		explicit_bzero(k->keys, k->count * sizeof(k->keys[0]));
	free(k);
}

unsigned keys_count(const struct keys *k)
{
	return k->count;
}

const struct key *keys_at(const struct keys *k, unsigned index)
{
	return &k->keys[index];
}

const struct key *keys_find(const struct keys *k, const char *name)
{
	for (unsigned i = 0; i < k->count; i++)
		if (!name || strcmp(k->keys[i].name, name) == 0)
			return &k->keys[i];
	return NULL;
}
