/*
 * opts_file.h: a file of options, a line at a time.
 *
 * A line is "name = value", a comment that begins with '#', or empty.  A '#' after white space
 * begins a comment too, so that "threads = 4  # one per core" is what it looks like; white space
 * around names and values counts for nothing.  What names and values mean is opts.c's business.
 */
#ifndef FORGE_BASE_OPTS_FILE_H
#define FORGE_BASE_OPTS_FILE_H

#include <stddef.h>

struct opts_line {
	unsigned number;   /* from 1 */
	const char *name;  /* or the whole line, if there is no '=' */
	const char *value; /* NULL if there is no '='; may be "" */
};

/*
 * Read the file into buf as a string.  0; or FORGE_E_INVAL, and *problem says what is the matter
 * with the file, in words that follow its name: static, or strerror()'s.
 */
int opts_file_read(const char *path, char *buf, size_t bytes, const char **problem);

/*
 * The next line with something in it, or NULL at the end of the text.  The caller gives a line with
 * number 0 first, and *rest at the beginning.  Writes into the text, which name and value point to.
 */
struct opts_line *opts_file_next(char **rest, struct opts_line *line);

#endif
