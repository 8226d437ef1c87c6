/*
 * command.h: what a subcommand of `forge` is, and the few lines that all of them share.
 *
 * A subcommand is one file <name>.c which defines `const struct command command_<name>`, has an
 * option table of its own (base/opts.h), and is listed in this folder's meson.build.  main.c
 * knows nothing else about it.  For programs, on the main thread.
 */
#ifndef FORGE_TOOL_COMMAND_H
#define FORGE_TOOL_COMMAND_H

#include "base/compiler.h"

struct command {
	const char *name;
	const char *sentence; /* for `forge --help` */
	/* argv[0] is the name.  Returns the exit status. */
	int (*run)(int argc, char **argv);
};

/* Exit statuses of every subcommand. */
#define TOOL_OK	   0
#define TOOL_NO	   1 /* done, and the answer is no: a miss, a finding */
#define TOOL_ERROR 2

/* The pool that is meant when no --pool is given. */
#define TOOL_POOL_DEFAULT "shm:/forge"

/* Room for a sentence that names a pool, what is wrong with it and what helps. */
#define TOOL_WHY_BYTES 1024u

/* What may be named, where any way to a pool will do (client/name.h). */
#define TOOL_POOL_NAMES                                                                      \
	"shm:/name, the path of a file, tcp://HOST:PORT, tls://HOST:PORT or unix:/PATH, or " \
	"several "                                                                           \
	"memory nodes with commas between them"

/* A row for tables of options whose struct config has a key_file; then tool_use_key_file(). */
#define TOOL_KEY_FILE_OPTION(config)                                                          \
	OPT_STRING(                                                                           \
	    config, key_file, "key-file", 0, NULL, "FILE",                                    \
	    "The key to show at memory nodes behind sockets that have no key-file= in their " \
	    "name.")

/* From now on; what a node's own name says goes before.  NULL: as the environment says. */
void tool_use_key_file(const char *path);

/* Print "forge <name>: <sentence>" to standard error; returns TOOL_ERROR. */
int tool_fail(const struct command *, const char *format, ...) PRINTF_LIKE(2, 3);

#endif
