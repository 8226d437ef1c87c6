/*
 * opts.h: command-line options as a table, so that parsing, --help, --print-config and the
 * manual cannot disagree.
 *
 * A program describes its options once, as an array of struct opt built with the macros below,
 * which tie each row to a field of a configuration struct and check the field's type.  A value
 * comes from, in rising order of precedence, the row's default, a line "name = value" of the file
 * that --config names (opts_file.h), the environment variable FORGE_<NAME> (upper case, '_' for
 * '-'), and the command line.  --help, --print-config and --config are understood for every table
 * and not listed in it.
 *
 * Tables and their strings are static.  Strings in the configuration point into the table, struct
 * opts_parsed, the environment or argv and live as long as those.  For set-up code, on one thread.
 */
#ifndef FORGE_BASE_OPTS_H
#define FORGE_BASE_OPTS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

enum opt_type {
	OPT_TYPE_FLAG,	   /* bool; --name and --no-name */
	OPT_TYPE_U64,	   /* uint64_t; 4096, 0x1000, 1M */
	OPT_TYPE_BYTES,	   /* uint64_t; 64K, 1.5GiB */
	OPT_TYPE_DURATION, /* uint64_t microseconds; 100us, 5ms, 2s */
	OPT_TYPE_DOUBLE,   /* double */
	OPT_TYPE_STRING,   /* const char *; NULL when there is no default */
	OPT_TYPE_CHOICE,   /* unsigned, the 0-based index into choices */
};

struct opt {
	const char *name; /* without dashes */
	char letter;	  /* short form, or 0 */
	enum opt_type type;
	size_t offset;	     /* of the field in the configuration struct */
	const char *preset;  /* the default as a user would write it; NULL: zero or NULL */
	const char *unit;    /* what the value is, for --help: "N", "FILE", "objects" */
	const char *choices; /* OPT_TYPE_CHOICE: "one|two|three" */
	uint64_t min, max;   /* integers; max 0 means no bound */
	double double_min, double_max;
	const char *sentence;
};

/* The offset of a field, which must be of the type named. */
#define OPT_FIELD(config, field, ctype) \
	_Generic(((config *)0)->field, ctype : offsetof(config, field))

#define OPT_FLAG(config, field, long_name, short_letter, text)                    \
	{                                                                         \
		.name = long_name, .letter = short_letter, .type = OPT_TYPE_FLAG, \
		.offset = OPT_FIELD(config, field, bool), .sentence = text        \
	}
#define OPT_INTEGER_ROW(kind, config, field, long_name, short_letter, preset_text, unit_text, \
			least, most, text)                                                    \
	{                                                                                     \
		.name = long_name, .letter = short_letter, .type = kind,                      \
		.offset = OPT_FIELD(config, field, uint64_t), .preset = preset_text,          \
		.unit = unit_text, .min = least, .max = most, .sentence = text                \
	}
#define OPT_U64(...)	  OPT_INTEGER_ROW(OPT_TYPE_U64, __VA_ARGS__)
#define OPT_BYTES(...)	  OPT_INTEGER_ROW(OPT_TYPE_BYTES, __VA_ARGS__)
#define OPT_DURATION(...) OPT_INTEGER_ROW(OPT_TYPE_DURATION, __VA_ARGS__)
#define OPT_DOUBLE(config, field, long_name, short_letter, preset_text, unit_text, least, most, \
		   text)                                                                        \
	{                                                                                       \
		.name = long_name, .letter = short_letter, .type = OPT_TYPE_DOUBLE,             \
		.offset = OPT_FIELD(config, field, double), .preset = preset_text,              \
		.unit = unit_text, .double_min = least, .double_max = most, .sentence = text    \
	}
#define OPT_STRING(config, field, long_name, short_letter, preset_text, unit_text, text) \
	{                                                                                \
		.name = long_name, .letter = short_letter, .type = OPT_TYPE_STRING,      \
		.offset = OPT_FIELD(config, field, const char *), .preset = preset_text, \
		.unit = unit_text, .sentence = text                                      \
	}
#define OPT_CHOICE(config, field, long_name, short_letter, preset_text, choice_list, text) \
	{                                                                                  \
		.name = long_name, .letter = short_letter, .type = OPT_TYPE_CHOICE,        \
		.offset = OPT_FIELD(config, field, unsigned), .preset = preset_text,       \
		.choices = choice_list, .sentence = text                                   \
	}

#define OPTS_MAX 64

/* Of a file of options, with the NUL at its end. */
#define OPTS_FILE_BYTES (16 << 10)

/* An option of the program that this one stands in for, which is not here, and why. */
struct opts_foreign {
	char letter;	  /* 0: none */
	const char *name; /* NULL: none */
	const char *why;
};

struct opts_table {
	const char *command;  /* as typed: "forge bench" */
	const char *operands; /* for the usage line: "KEY [VALUE]"; NULL: none are taken */
	const char *sentence; /* what the command does */
	const struct opt *options;
	unsigned option_count; /* at most OPTS_MAX */
	unsigned operands_min, operands_max;
	const struct opts_foreign *foreign; /* NULL: none */
	unsigned foreign_count;
};

enum opts_origin { OPTS_DEFAULT, OPTS_FILE, OPTS_ENVIRONMENT, OPTS_COMMAND_LINE };

enum opts_action { OPTS_RUN, OPTS_HELP, OPTS_PRINT_CONFIG };

struct opts_parsed {
	enum opts_action action;
	char **operands; /* argv, reordered: the words that are no options */
	unsigned operand_count;
	enum opts_origin origin[OPTS_MAX];
	const char *file;		 /* --config, or NULL */
	unsigned line[OPTS_MAX];	 /* of the file, that names the option; or 0 */
	char file_text[OPTS_FILE_BYTES]; /* strings of the file are in here */
	char error[512]; /* a whole sentence with the remedy, if opts_parse failed */
};

/*
 * Read the environment, argv[1..argc) and the file --config into config, which is the struct the
 * table's rows name.  A line of the file that loses to the environment or argv is checked as well.
 * "--" ends the options.  Reorders argv.  Fills every field the table names, or fails.
 * 0, or FORGE_E_INVAL with parsed->error written.
 */
int opts_parse(const struct opts_table *t, int argc, char **argv, void *config,
	       struct opts_parsed *parsed);

/*
 * The same for a main(): prints the error to standard error, or the help or configuration asked
 * for to standard output.  -1: go on; otherwise the exit status (0 or 2) to end with.
 */
int opts_parse_main(const struct opts_table *t, int argc, char **argv, void *config,
		    struct opts_parsed *parsed);

/* Where the value of an option is from.  name must be in the table. */
enum opts_origin opts_origin(const struct opts_table *t, const struct opts_parsed *parsed,
			     const char *name);

/* Was the option named by the file, the environment or the command line?  name must be in the
 * table. */
bool opts_given(const struct opts_table *t, const struct opts_parsed *parsed, const char *name);

/* The word of a choice, into buf. */
const char *opts_choice_name(const struct opt *o, unsigned index, char *buf, size_t bytes);

/* The environment variable of an option, into buf. */
const char *opts_env_name(const struct opt *o, char *buf, size_t bytes);

/* What --help prints. */
void opts_print_help(const struct opts_table *t, FILE *out);

/* What --print-config prints: a line "name = value  (origin)" per option. */
void opts_print_config(const struct opts_table *t, const void *config,
		       const struct opts_parsed *parsed, FILE *out);

/* The options as an mdoc list (.Bl to .El) for the manual page. */
void opts_print_mdoc(const struct opts_table *t, FILE *out);

/*
 * The nearest of n words (words[0], or *(words + stride bytes) and so on) to a mistyped one, or
 * NULL if none is near.
 */
const char *opts_nearest(const char *typed, const char *const *words, unsigned n, size_t stride);

#endif
