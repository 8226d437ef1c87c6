/* opts_file.c: the text of an option file, cut into names and values. */
#include "base/opts_file.h"

#include <ctype.h>
#include <errno.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>

#include "base/status.h"

int opts_file_read(const char *path, char *buf, size_t bytes, const char **problem)
{
	FILE *f = fopen(path, "re");
	size_t got;
	bool bad;

	if (!f) {
		*problem = strerror(errno);
		return FORGE_E_INVAL;
	}
	errno = 0;
	got = fread(buf, 1, bytes, f);
	bad = ferror(f);
	*problem = strerror(errno);
	fclose(f);
	if (bad)
		return FORGE_E_INVAL;
	if (got == bytes) {
		*problem = "too long for a file of options";
		return FORGE_E_INVAL;
	}
	if (memchr(buf, '\0', got)) {
		*problem = "not a text file";
		return FORGE_E_INVAL;
	}
	buf[got] = '\0';
	return 0;
}

static bool is_space(char c)
{
	return isspace((unsigned char)c);
}

/* s without white space at either end, in place. */
static char *trim(char *s)
{
	size_t len;

	while (is_space(*s))
		s++;
	len = strlen(s);
	while (len && is_space(s[len - 1]))
		len--;
	s[len] = '\0';
	return s;
}

static void cut_comment(char *s)
{
	for (char *p = s; *p; p++) {
		if (*p == '#' && (p == s || is_space(p[-1]))) {
			*p = '\0';
			return;
		}
	}
}

struct opts_line *opts_file_next(char **rest, struct opts_line *line)
{
	while (**rest) {
		char *s = *rest, *end = s + strcspn(s, "\n"), *equals;

		*rest = end + (*end == '\n');
		*end = '\0';
		line->number++;
		cut_comment(s);
		s = trim(s);
		if (!*s)
			continue;
		equals = strchr(s, '=');
		if (equals)
			*equals = '\0';
		line->name = trim(s);
		line->value = equals ? trim(equals + 1) : NULL;
		return line;
	}
	return NULL;
}
