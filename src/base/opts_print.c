/* opts_print.c: an option table as help text, as a configuration and as a manual page. */
#include <assert.h>
#include <ctype.h>
#include <string.h>

#include "base/opts.h"
#include "base/opts_value.h"
#include "base/text.h"

#define HELP_COLUMNS 80
#define HELP_INDENT  28

static const char *value_name(const struct opt *o)
{
	switch (o->type) {
	case OPT_TYPE_FLAG:
		return NULL;
	case OPT_TYPE_CHOICE:
		return "NAME";
	case OPT_TYPE_BYTES:
		return "SIZE";
	case OPT_TYPE_DURATION:
		return "TIME";
	case OPT_TYPE_STRING:
		return o->unit ? o->unit : "TEXT";
	case OPT_TYPE_U64:
	case OPT_TYPE_DOUBLE:
		return o->unit ? o->unit : "N";
	}
	return NULL;
}

/* The bounds of a row in words, or "". */
static const char *range_text(const struct opt *o, char *buf, size_t bytes)
{
	struct text low, high;
	unsigned long long least = o->min, most = o->max;

	buf[0] = '\0';
	switch (o->type) {
	case OPT_TYPE_U64:
		if (o->max)
			snprintf(buf, bytes, "%llu to %llu", least, most);
		else if (o->min)
			snprintf(buf, bytes, "at least %llu", least);
		break;
	case OPT_TYPE_BYTES:
		if (o->max)
			snprintf(buf, bytes, "%s to %s", text_bytes(&low, o->min),
				 text_bytes(&high, o->max));
		else if (o->min)
			snprintf(buf, bytes, "at least %s", text_bytes(&low, o->min));
		break;
	case OPT_TYPE_DURATION:
		if (o->max)
			snprintf(buf, bytes, "%s to %s", opts_bound_text(o, o->min, &low),
				 opts_bound_text(o, o->max, &high));
		else if (o->min)
			snprintf(buf, bytes, "at least %s", opts_bound_text(o, o->min, &low));
		break;
	case OPT_TYPE_DOUBLE:
		snprintf(buf, bytes, "%g to %g", o->double_min, o->double_max);
		break;
	default:
		break;
	}
	return buf;
}

/* The sentence of a row with its choices, bounds and default. */
static const char *whole_sentence(const struct opt *o, char *buf, size_t bytes)
{
	char range[128], flag[96];
	const char *preset = o->preset;
	int n;

	range_text(o, range, sizeof(range));
	if (o->type == OPT_TYPE_FLAG && preset) {
		/* Only a flag that is on has a default, and then how to turn it off matters. */
		snprintf(flag, sizeof(flag), "yes; --no-%s", o->name);
		preset = flag;
	}
	n = snprintf(buf, bytes, "%s", o->sentence);
	assert(n > 0 && (size_t)n < bytes);
	if (o->choices || range[0] || preset)
		n += snprintf(buf + n, bytes - (size_t)n, " (%s%s%s%s%s)",
			      o->choices ? "one of " : "", o->choices ? o->choices : range,
			      (o->choices || range[0]) && preset ? "; " : "",
			      preset ? "default " : "", preset ? preset : "");
	assert((size_t)n < bytes);
	return buf;
}

static void print_option(const char *head, const char *sentence, FILE *out)
{
	if (strlen(head) + 2 > HELP_INDENT)
		fprintf(out, "%s\n%*s", head, HELP_INDENT, "");
	else
		fprintf(out, "%-*s", HELP_INDENT, head);
	text_wrap(out, sentence, HELP_INDENT, HELP_COLUMNS);
}

void opts_print_help(const struct opts_table *t, FILE *out)
{
	char head[128], sentence[1024];

	fprintf(out, "Usage: %s [options]%s%s\n\n", t->command, t->operands ? " " : "",
		t->operands ? t->operands : "");
	text_wrap(out, t->sentence, 0, HELP_COLUMNS);
	fprintf(out, "\n");
	for (unsigned i = 0; i < t->option_count; i++) {
		const struct opt *o = &t->options[i];
		const char *value = value_name(o);
		char letter[8] = "    ";

		if (o->letter)
			snprintf(letter, sizeof(letter), "-%c, ", o->letter);
		snprintf(head, sizeof(head), "  %s--%s%s%s", letter, o->name, value ? " " : "",
			 value ? value : "");
		print_option(head, whole_sentence(o, sentence, sizeof(sentence)), out);
	}
	print_option("      --config FILE",
		     "Read options from FILE: lines 'name = value', comments begin with #.", out);
	print_option("      --print-config", "Print every option with its value and origin.", out);
	print_option("  -h, --help", "Print this text.", out);
	fprintf(out, "\nAn option --some-name may also be set in the environment, as "
		     "FORGE_SOME_NAME.\nThe command line goes before the environment, and that "
		     "before FILE.\n");
}

static void print_value(const struct opt *o, const void *config, FILE *out)
{
	const void *field = (const char *)config + o->offset;
	const char *s;
	char word[64];
	struct text time;

	switch (o->type) {
	case OPT_TYPE_FLAG:
		fputs(*(const bool *)field ? "yes" : "no", out);
		break;
	case OPT_TYPE_U64:
	case OPT_TYPE_BYTES:
		fprintf(out, "%llu", (unsigned long long)*(const uint64_t *)field);
		break;
	case OPT_TYPE_DURATION:
		fputs(opts_bound_text(o, *(const uint64_t *)field, &time), out);
		break;
	case OPT_TYPE_DOUBLE:
		fprintf(out, "%.17g", *(const double *)field);
		break;
	case OPT_TYPE_STRING:
		s = *(const char *const *)field;
		fputs(s ? s : "", out);
		break;
	case OPT_TYPE_CHOICE:
		fputs(opts_choice_name(o, *(const unsigned *)field, word, sizeof(word)), out);
		break;
	}
}

void opts_print_config(const struct opts_table *t, const void *config,
		       const struct opts_parsed *parsed, FILE *out)
{
	for (unsigned i = 0; i < t->option_count; i++) {
		const struct opt *o = &t->options[i];
		char env[96];

		fprintf(out, "%s = ", o->name);
		print_value(o, config, out);
		switch (parsed->origin[i]) {
		case OPTS_DEFAULT:
			fprintf(out, "  (default)\n");
			break;
		case OPTS_FILE:
			fprintf(out, "  (%s:%u)\n", parsed->file, parsed->line[i]);
			break;
		case OPTS_ENVIRONMENT:
			fprintf(out, "  (environment, %s)\n", opts_env_name(o, env, sizeof(env)));
			break;
		case OPTS_COMMAND_LINE:
			fprintf(out, "  (command line)\n");
			break;
		}
	}
}

/* mdoc takes a leading dot or quote for a macro and a backslash for an escape. */
static void print_mdoc_text(const char *s, FILE *out)
{
	if (*s == '.' || *s == '\'')
		fputs("\\&", out);
	for (; *s; s++) {
		if (*s == '\\')
			fputs("\\e", out);
		else
			fputc(*s, out);
	}
	fputc('\n', out);
}

void opts_print_mdoc(const struct opts_table *t, FILE *out)
{
	char sentence[1024];

	fprintf(out, ".Bl -tag -width Ds\n");
	for (unsigned i = 0; i < t->option_count; i++) {
		const struct opt *o = &t->options[i];
		const char *value = value_name(o);

		fprintf(out, ".It ");
		if (o->letter)
			fprintf(out, "Fl %c , ", o->letter);
		fprintf(out, "Fl -%s", o->name);
		if (value)
			fprintf(out, " Ar %s", value);
		fprintf(out, "\n");
		print_mdoc_text(whole_sentence(o, sentence, sizeof(sentence)), out);
	}
	fprintf(out, ".El\n");
}
