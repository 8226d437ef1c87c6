/* main.c: the forge command: finds the subcommand and runs it. */
#include <errno.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/log.h"
#include "base/opts.h"
#include "base/text.h"
#include "tool/command.h"

#define COMMAND(name) extern const struct command command_##name;
#include "tool/commands_list.h"
#undef COMMAND

static const struct command *const commands[] = {
#define COMMAND(name) &command_##name,
#include "tool/commands_list.h"
#undef COMMAND
};

#define HELP_COLUMNS 80
#define HELP_INDENT  12

void tool_use_key_file(const char *path)
{
	/* Links ask there, and so do those of processes to come. */
	if (path)
		setenv("FORGE_KEY_FILE", path, 1);
}

int tool_fail(const struct command *c, const char *format, ...)
{
	va_list args;

	fprintf(stderr, "forge %s: ", c->name);
	va_start(args, format);
	vfprintf(stderr, format, args);
	va_end(args);
	fputc('\n', stderr);
	return TOOL_ERROR;
}

static const struct command *find(const char *name)
{
	for (unsigned i = 0; i < ARRAY_COUNT(commands); i++)
		if (strcmp(commands[i]->name, name) == 0)
			return commands[i];
	return NULL;
}

static int unknown(const char *name)
{
	const char *names[ARRAY_COUNT(commands)];
	const char *nearest;

	for (unsigned i = 0; i < ARRAY_COUNT(commands); i++)
		names[i] = commands[i]->name;
	nearest = opts_nearest(name, names, ARRAY_COUNT(names), sizeof(names[0]));
	if (nearest)
		fprintf(stderr, "forge: unknown subcommand '%s', did you mean '%s'?", name,
			nearest);
	else
		fprintf(stderr, "forge: unknown subcommand '%s'", name);
	fprintf(stderr, "; see 'forge --help'\n");
	return TOOL_ERROR;
}

static int help(void)
{
	printf("Usage: forge SUBCOMMAND [options] [arguments]\n\n"
	       "A cache in the memory of other machines.\n\n");
	for (unsigned i = 0; i < ARRAY_COUNT(commands); i++) {
		printf("  %-*s", HELP_INDENT - 2, commands[i]->name);
		text_wrap(stdout, commands[i]->sentence, HELP_INDENT, HELP_COLUMNS);
	}
	printf("\n'forge SUBCOMMAND --help' explains the options of one; 'forge --version' prints "
	       "the\nversion.  The manual is forge(1).\n");
	return TOOL_OK;
}

/* Of a subcommand, or of one of its own: its words are argv[0..argc). */
static int help_on(int argc, char **argv)
{
	const struct command *c = find(argv[0]);
	char option[] = "--help";
	char *words[] = {argv[0], argc > 1 ? argv[1] : option, option, NULL};

	return c ? c->run(argc > 1 ? 3 : 2, words) : unknown(argv[0]);
}

/*
 * A pool's file was cut while it was mapped: what lies behind the new end cannot be read, and
 * nobody below can tell in advance.
 */
static void on_bus_error(int number)
{
	static const char line[] =
	    "forge: a pool of this host was cut short while in use, or its memory failed: 'forge "
	    "check' says which; replace that one alone, by 'forge node --size SIZE --force'\n";

	if (write(STDERR_FILENO, line, sizeof(line) - 1) < 0)
		_exit(number);
	_exit(TOOL_ERROR);
}

static void catch_bus_error(void)
{
	struct sigaction action = {.sa_handler = on_bus_error};

	sigaction(SIGBUS, &action, NULL);
}

/* An answer that could not be written must not look like one that was. */
static int answered(int status)
{
	if (status == TOOL_ERROR || (fflush(stdout) == 0 && !ferror(stdout)))
		return status;
	fprintf(stderr, "forge: cannot write all of the answer to standard output: %s\n",
		strerror(errno));
	return TOOL_ERROR;
}

static int run(int argc, char **argv)
{
	const char *name = argc > 1 ? argv[1] : NULL;
	const struct command *c;

	if (!name) {
		fprintf(stderr, "forge: a subcommand is missing; see 'forge --help'\n");
		return TOOL_ERROR;
	}
	if (strcmp(name, "--help") == 0 || strcmp(name, "-h") == 0)
		return help();
	if (strcmp(name, "--version") == 0) {
		printf("forge %s\n", FORGE_VERSION);
		return TOOL_OK;
	}
	if (strcmp(name, "help") == 0)
		return argc > 2 ? help_on(argc - 2, argv + 2) : help();
	c = find(name);
	if (c)
		return c->run(argc - 1, argv + 1);
	if (name[0] == '-') {
		fprintf(stderr,
			"forge: unknown option %s; options follow the subcommand, see "
			"'forge --help'\n",
			name);
		return TOOL_ERROR;
	}
	return unknown(name);
}

int main(int argc, char **argv)
{
	const struct command *c = argc > 1 ? find(argv[1]) : NULL;
	int status;

	catch_bus_error();
	/* A file that may grow no further is an error that says so (EFBIG), no reason to die. */
	signal(SIGXFSZ, SIG_IGN);
	if (log_init_from_env())
		return TOOL_ERROR;
	status = run(argc, argv);
	/* What those print while they serve is no answer. */
	return c == &command_node || c == &command_serve ? status : answered(status);
}
