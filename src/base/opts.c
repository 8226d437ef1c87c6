/*
 * opts.c: defaults, a file, the environment and argv into a configuration, with errors that say
 * what to do.
 */
#include "base/opts.h"

#include <assert.h>
#include <ctype.h>
#include <stdlib.h>
#include <string.h>

#include "base/compiler.h"
#include "base/opts_file.h"
#include "base/opts_value.h"
#include "base/status.h"

/* Longer words are compared by their first characters only. */
#define WORD_CHARS_MAX 63

/* Levenshtein distance; short words, so a row of the matrix at a time on the stack. */
static unsigned edit_distance(const char *a, const char *b)
{
	unsigned row[WORD_CHARS_MAX + 1];
	size_t a_len = strnlen(a, WORD_CHARS_MAX), b_len = strnlen(b, WORD_CHARS_MAX);

	for (unsigned j = 0; j <= b_len; j++)
		row[j] = j;
	for (size_t i = 1; i <= a_len; i++) {
		unsigned diagonal = row[0];

		row[0] = (unsigned)i;
		for (size_t j = 1; j <= b_len; j++) {
			unsigned replaced = diagonal + (a[i - 1] != b[j - 1]);
			unsigned shorter = row[j - 1] < row[j] ? row[j - 1] : row[j];

			diagonal = row[j];
			row[j] = replaced < shorter + 1 ? replaced : shorter + 1;
		}
	}
	return row[b_len];
}

const char *opts_nearest(const char *typed, const char *const *words, unsigned n, size_t stride)
{
	/* One slip in a word of two or three letters; in a longer one two swapped letters are two.
	 */
	size_t len = strnlen(typed, WORD_CHARS_MAX);
	unsigned best = len < 4 ? 2 : (unsigned)(len / 3 + 2);
	const char *nearest = NULL;

	for (unsigned i = 0; i < n; i++) {
		const char *word = *(const char *const *)((const char *)words + i * stride);
		unsigned distance = edit_distance(typed, word);

		/* A beginning of a word is as good as one slip. */
		if (strlen(typed) >= 2 && strncmp(typed, word, strlen(typed)) == 0)
			distance = 1;
		if (distance < best) {
			best = distance;
			nearest = word;
		}
	}
	return nearest;
}

const char *opts_env_name(const struct opt *o, char *buf, size_t bytes)
{
	snprintf(buf, bytes, "FORGE_%s", o->name);
	for (char *p = buf; *p; p++)
		*p = *p == '-' ? '_' : (char)toupper((unsigned char)*p);
	return buf;
}

static int load_defaults(const struct opts_table *t, void *config, struct opts_parsed *p)
{
	for (unsigned i = 0; i < t->option_count; i++) {
		const struct opt *o = &t->options[i];
		struct opts_source s = {t, p, o->name};
		char name[96];
		const char *value;

		p->origin[i] = OPTS_DEFAULT;
		opts_store_nothing(o, config);
		if (o->preset && opts_store(&s, o, o->preset, opts_field(o, config)))
			return FORGE_E_INVAL;
		value = getenv(opts_env_name(o, name, sizeof(name)));
		if (!value)
			continue;
		s.label = name;
		if (opts_store(&s, o, value, opts_field(o, config)))
			return FORGE_E_INVAL;
		p->origin[i] = OPTS_ENVIRONMENT;
	}
	return 0;
}

static const char *nearest_option(const struct opts_table *t, const char *typed)
{
	return t->option_count ? opts_nearest(typed, &t->options[0].name, t->option_count,
					      sizeof(t->options[0]))
			       : NULL;
}

static int store_line(const struct opts_table *t, const struct opts_line *line, void *config,
		      struct opts_parsed *p)
{
	union {
		bool flag;
		uint64_t integer;
		double real;
		const char *string;
		unsigned choice;
	} unused; /* the value, if the environment or argv has set the option */
	char label[256];
	const struct opts_source s = {t, p, label};
	const char *nearest;
	unsigned i = 0;

	snprintf(label, sizeof(label), "%s:%u: %.*s", p->file, line->number, WORD_CHARS_MAX,
		 line->name);
	if (!line->value)
		return opts_fail(t, p, "%s: not a line 'name = value'", label);
	while (i < t->option_count && strcmp(t->options[i].name, line->name) != 0)
		i++;
	if (i == t->option_count) {
		nearest = nearest_option(t, line->name);
		return opts_fail(t, p, "%s: unknown option%s%s%s", label,
				 nearest ? ", did you mean " : "", nearest ? nearest : "",
				 nearest ? "?" : "");
	}
	if (!*line->value)
		return opts_fail(t, p, "%s needs a value; leave the line out for the default",
				 label);
	if (p->line[i])
		return opts_fail(t, p, "%s: set before, in line %u; remove one of them", label,
				 p->line[i]);
	p->line[i] = line->number;
	if (p->origin[i] != OPTS_DEFAULT)
		return opts_store(&s, &t->options[i], line->value, &unused);
	p->origin[i] = OPTS_FILE;
	return opts_store(&s, &t->options[i], line->value, opts_field(&t->options[i], config));
}

/* The file --config into what the environment and argv have left at its default. */
static int load_file(const struct opts_table *t, void *config, struct opts_parsed *p)
{
	struct opts_line line = {0};
	char *rest = p->file_text;
	const char *problem;

	if (opts_file_read(p->file, p->file_text, sizeof(p->file_text), &problem))
		return opts_fail(t, p, "--config=%s: %s", p->file, problem);
	while (opts_file_next(&rest, &line))
		if (store_line(t, &line, config, p))
			return FORGE_E_INVAL;
	return 0;
}

/* What parsing argv carries along. */
struct cursor {
	const struct opts_table *table;
	struct opts_parsed *parsed;
	void *config;
	int argc, next; /* next is the index of the word to be read */
	char **argv;
};

/* Is it an option of memcached's?  0: no; the sentence has been told otherwise. */
static int fail_foreign(struct cursor *c, char letter, const char *name)
{
	const struct opts_table *t = c->table;

	for (unsigned i = 0; i < t->foreign_count; i++) {
		const struct opts_foreign *f = &t->foreign[i];

		if (letter && f->letter == letter)
			return opts_fail(t, c->parsed,
					 "-%c is an option of memcached's that is not here: %s",
					 letter, f->why);
		if (name && f->name && strcmp(f->name, name) == 0)
			return opts_fail(t, c->parsed,
					 "--%s is an option of memcached's that is not here: %s",
					 name, f->why);
	}
	return 0;
}

/* It may have been meant for an operand. */
static const char *dash_hint(const struct opts_table *t)
{
	return t->operands_max ? "; before an argument that begins with a dash write --" : "";
}

static int unknown_option(struct cursor *c, const char *word, size_t len)
{
	const struct opts_table *t = c->table;
	char name[WORD_CHARS_MAX + 1];
	const char *nearest;

	snprintf(name, sizeof(name), "%.*s", (int)min_u64(len, WORD_CHARS_MAX), word + 2);
	if (fail_foreign(c, 0, name))
		return FORGE_E_INVAL;
	nearest = nearest_option(t, name);
	if (nearest)
		return opts_fail(t, c->parsed, "unknown option --%s, did you mean --%s?", name,
				 nearest);
	return opts_fail(t, c->parsed, "unknown option --%s%s", name, dash_hint(t));
}

/* The value of an option that was not attached to it: the next word.  form is what it must be. */
static int take_value(struct cursor *c, const char *form, const char *label, const char **value)
{
	const char *next = c->next < c->argc ? c->argv[c->next] : NULL;

	/* "--trace --threads 3" is a forgotten value, not a file called --threads. */
	if (!next || (strncmp(next, "--", 2) == 0 && next[2]))
		return opts_fail(c->table, c->parsed, "%s needs a value (%s)", label, form);
	c->next++;
	*value = next;
	return 0;
}

static int store_given(struct cursor *c, unsigned index, const char *label, const char *value)
{
	const struct opt *o = &c->table->options[index];
	struct opts_source s = {c->table, c->parsed, label};
	char form[96];

	if (!value && o->type == OPT_TYPE_FLAG)
		value = "yes";
	if (!value && take_value(c, opts_value_form(o, form, sizeof(form)), label, &value))
		return FORGE_E_INVAL;
	if (opts_store(&s, o, value, opts_field(o, c->config)))
		return FORGE_E_INVAL;
	c->parsed->origin[index] = OPTS_COMMAND_LINE;
	return 0;
}

/* "--name", "--name=value" or "--no-name". */
static int parse_long(struct cursor *c, const char *word)
{
	const char *name = word + 2, *equals = strchr(name, '=');
	size_t len = equals ? (size_t)(equals - name) : strlen(name);
	char label[WORD_CHARS_MAX + 3];

	if (strcmp(name, "help") == 0) {
		c->parsed->action = OPTS_HELP;
		return 0;
	}
	if (strcmp(name, "print-config") == 0) {
		c->parsed->action = OPTS_PRINT_CONFIG;
		return 0;
	}
	if (len == strlen("config") && memcmp(name, "config", len) == 0) {
		c->parsed->file = equals ? equals + 1 : NULL;
		return equals ? 0 : take_value(c, "FILE", "--config", &c->parsed->file);
	}
	for (unsigned i = 0; i < c->table->option_count; i++) {
		const struct opt *o = &c->table->options[i];

		snprintf(label, sizeof(label), "--%s", o->name);
		if (strlen(o->name) == len && memcmp(o->name, name, len) == 0)
			return store_given(c, i, label, equals ? equals + 1 : NULL);
		if (o->type == OPT_TYPE_FLAG && !equals && strncmp(name, "no-", 3) == 0 &&
		    strcmp(name + 3, o->name) == 0)
			return store_given(c, i, label, "no");
	}
	return unknown_option(c, word, len);
}

/* "-x", "-xvalue", "-x value", and flags together: "-xyz". */
static int parse_short(struct cursor *c, const char *word)
{
	for (const char *p = word + 1; *p; p++) {
		char label[3] = {'-', *p, '\0'};
		unsigned i = 0;

		if (*p == 'h' && !p[1]) {
			c->parsed->action = OPTS_HELP;
			return 0;
		}
		while (i < c->table->option_count && c->table->options[i].letter != *p)
			i++;
		if (i == c->table->option_count && fail_foreign(c, *p, NULL))
			return FORGE_E_INVAL;
		if (i == c->table->option_count)
			return opts_fail(c->table, c->parsed, "unknown option %s%s", label,
					 dash_hint(c->table));
		if (c->table->options[i].type != OPT_TYPE_FLAG)
			return store_given(c, i, label, p[1] ? p + 1 : NULL);
		if (store_given(c, i, label, NULL))
			return FORGE_E_INVAL;
	}
	return 0;
}

static int parse_words(struct cursor *c)
{
	struct opts_parsed *p = c->parsed;
	bool only_operands = false;

	while (c->next < c->argc) {
		char *word = c->argv[c->next++];
		int status = 0;

		if (only_operands || word[0] != '-' || !word[1])
			p->operands[p->operand_count++] = word;
		else if (strcmp(word, "--") == 0)
			only_operands = true;
		else if (word[1] == '-')
			status = parse_long(c, word);
		else
			status = parse_short(c, word);
		if (status)
			return status;
		if (p->action == OPTS_HELP)
			return 0;
	}
	return 0;
}

int opts_parse(const struct opts_table *t, int argc, char **argv, void *config,
	       struct opts_parsed *parsed)
{
	/* Operands move to the front of argv + 1: never past the word being read. */
	struct cursor c = {t, parsed, config, argc, 1, argv};
	int bad_default;

	assert(t->option_count <= OPTS_MAX);
	memset(parsed, 0, sizeof(*parsed));
	parsed->operands = argv + (argc > 0);
	bad_default = load_defaults(t, config, parsed);
	if (bad_default) {
		/* A bad environment must not keep --help from being shown. */
		for (int i = 1; i < argc; i++)
			if (strcmp(argv[i], "--help") == 0 || strcmp(argv[i], "-h") == 0)
				parsed->action = OPTS_HELP;
		return parsed->action == OPTS_HELP ? 0 : bad_default;
	}
	if (parse_words(&c))
		return FORGE_E_INVAL;
	if (parsed->action != OPTS_HELP && parsed->file && load_file(t, config, parsed))
		return FORGE_E_INVAL;
	if (parsed->action != OPTS_RUN)
		return 0;
	if (parsed->operand_count > t->operands_max)
		return opts_fail(t, parsed, "unexpected argument '%s'",
				 parsed->operands[t->operands_max]);
	if (parsed->operand_count < t->operands_min)
		return opts_fail(t, parsed, "expected %s", t->operands);
	return 0;
}

int opts_parse_main(const struct opts_table *t, int argc, char **argv, void *config,
		    struct opts_parsed *parsed)
{
	if (opts_parse(t, argc, argv, config, parsed)) {
		fprintf(stderr, "%s\n", parsed->error);
		return 2;
	}
	switch (parsed->action) {
	case OPTS_HELP:
		opts_print_help(t, stdout);
		return 0;
	case OPTS_PRINT_CONFIG:
		opts_print_config(t, config, parsed, stdout);
		return 0;
	case OPTS_RUN:
		break;
	}
	return -1;
}

enum opts_origin opts_origin(const struct opts_table *t, const struct opts_parsed *parsed,
			     const char *name)
{
	for (unsigned i = 0; i < t->option_count; i++)
		if (strcmp(t->options[i].name, name) == 0)
			return parsed->origin[i];
	assert(!"an option of this name");
	return OPTS_DEFAULT;
}

bool opts_given(const struct opts_table *t, const struct opts_parsed *parsed, const char *name)
{
	return opts_origin(t, parsed, name) != OPTS_DEFAULT;
}
