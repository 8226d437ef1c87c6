/* opts_file.c: the text of an option file, cut into names and values. */
#include "base/opts_file.h"

#include <ctype.h>
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <stdbool.h>
#include <string.h>
#include <unistd.h>

#include "base/status.h"

/* How long whoever is to write to a pipe may take to begin, or to go on. */
#define PIPE_PATIENCE_MS 5000

/* Until there is something to read, which of files is at once.  NULL, or what is wrong. */
static const char *wait_for(int fd)
{
	struct pollfd p = {.fd = fd, .events = POLLIN};
	int n;

	do
		n = poll(&p, 1, PIPE_PATIENCE_MS);
	while (n < 0 && errno == EINTR);
	if (n < 0)
		return strerror(errno);
	return n > 0 ? NULL : "a pipe to which nobody wrote for 5 seconds";
}

/* As much as there is, up to room.  NULL, or what is wrong. */
static const char *read_all(int fd, char *buf, size_t room, size_t *got)
{
	const char *problem;
	ssize_t n = 0;

	*got = 0;
	do {
		problem = wait_for(fd);
		if (problem)
			return problem;
		n = read(fd, buf + *got, room - *got);
		if (n > 0)
			*got += (size_t)n;
	} while ((n > 0 && *got < room) || (n < 0 && (errno == EINTR || errno == EAGAIN)));
	return n < 0 ? strerror(errno) : NULL;
}

int opts_file_read(const char *path, char *buf, size_t bytes, const char **problem)
{
	/* To open a pipe that nobody writes to would wait for ever otherwise. */
	int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
	size_t got = 0;

	*problem = fd < 0 ? strerror(errno) : read_all(fd, buf, bytes, &got);
	if (fd >= 0)
		close(fd);
	if (*problem)
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
