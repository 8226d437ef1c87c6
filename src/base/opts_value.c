/* opts_value.c: the text of a value into a field, or an error that says what it must be. */
#include "base/opts_value.h"

#include <stdarg.h>
#include <string.h>

#include "base/parse.h"
#include "base/status.h"
#include "base/text.h"

#define LOWER "abcdefghijklmnopqrstuvwxyz"

int opts_fail(const struct opts_table *t, struct opts_parsed *p, const char *format, ...)
{
	char what[400];
	va_list args;

	va_start(args, format);
	vsnprintf(what, sizeof(what), format, args);
	va_end(args);
	snprintf(p->error, sizeof(p->error), "%s: %s; see '%s --help'", t->command, what,
		 t->command);
	return FORGE_E_INVAL;
}

/* The choice at *list, whose length is returned; *list moves on to the next. */
static size_t take_choice(const char **list, const char **choice)
{
	size_t len = strcspn(*list, "|");

	*choice = *list;
	*list += len + ((*list)[len] == '|');
	return len;
}

const char *opts_choice_name(const struct opt *o, unsigned index, char *buf, size_t bytes)
{
	const char *list = o->choices, *choice = "";
	size_t len = 0;

	for (unsigned i = 0; i <= index; i++)
		len = take_choice(&list, &choice);
	snprintf(buf, bytes, "%.*s", (int)len, choice);
	return buf;
}

static int store_flag(const struct opts_source *s, const char *value, bool *field)
{
	static const char *const yes[] = {"1", "yes", "true", "on"};
	static const char *const no[] = {"0", "no", "false", "off"};

	for (unsigned i = 0; i < ARRAY_COUNT(yes); i++) {
		if (strcmp(value, yes[i]) == 0 || strcmp(value, no[i]) == 0) {
			*field = strcmp(value, yes[i]) == 0;
			return 0;
		}
	}
	return opts_fail(s->table, s->parsed, "%s=%s: must be yes or no", s->label, value);
}

static int store_choice(const struct opts_source *s, const struct opt *o, const char *value,
			unsigned *field)
{
	const char *list = o->choices, *choice;

	for (unsigned i = 0; *list; i++) {
		size_t len = take_choice(&list, &choice);

		if (strlen(value) == len && memcmp(value, choice, len) == 0) {
			*field = i;
			return 0;
		}
	}
	return opts_fail(s->table, s->parsed, "%s=%s: must be one of %s", s->label, value,
			 o->choices);
}

static const char *expected_form(enum opt_type type)
{
	switch (type) {
	case OPT_TYPE_BYTES:
		return "a size such as 64K, 1.5G or 4096";
	case OPT_TYPE_DURATION:
		return "a duration such as 100us, 5ms or 2s";
	case OPT_TYPE_DOUBLE:
		return "a number such as 0.99";
	default:
		return "a whole number";
	}
}

/* Units of sizes and times with how many of the one before make each, from the smallest. */
static const struct unit {
	const char *name;
	unsigned of;
} sizes[] = {{"", 1}, {"K", 1024}, {"M", 1024}, {"G", 1024}},
  times[] = {{"us", 1}, {"ms", 1000}, {"s", 1000}, {"m", 60}, {"h", 60}};

const char *opts_bound_text(const struct opt *o, uint64_t v, struct text *t)
{
	const struct unit *units = o->type == OPT_TYPE_DURATION ? times : sizes;
	const unsigned count =
	    o->type == OPT_TYPE_DURATION ? ARRAY_COUNT(times) : ARRAY_COUNT(sizes);
	unsigned unit = 0;

	if (o->type != OPT_TYPE_U64)
		for (; v && unit + 1 < count && v % units[unit + 1].of == 0; unit++)
			v /= units[unit + 1].of;
	snprintf(t->s, sizeof(t->s), "%llu%s", (unsigned long long)v,
		 v == 0 || o->type == OPT_TYPE_U64 ? "" : units[unit].name);
	return t->s;
}

/* What a number is of, for a message: a size or time has its unit behind it, a port has none. */
static const char *count_unit(const struct opt *o)
{
	if (o->type == OPT_TYPE_BYTES)
		return "bytes";
	if (o->type != OPT_TYPE_U64 && o->type != OPT_TYPE_DOUBLE)
		return "";
	return o->unit && o->unit[strcspn(o->unit, LOWER "%")] ? o->unit : "";
}

const char *opts_value_form(const struct opt *o, char *buf, size_t bytes)
{
	const char *unit = o->type == OPT_TYPE_BYTES ? "" : count_unit(o);
	bool is_noun = unit[strspn(unit, LOWER)] == '\0';

	if (o->choices)
		return o->choices;
	/* A word in capitals says what it is: FILE, PORT, PID. */
	if (o->unit && (o->type == OPT_TYPE_STRING || (o->type == OPT_TYPE_U64 && !*unit)))
		return o->unit;
	snprintf(buf, bytes, "%s%s%s", expected_form(o->type),
		 !*unit	   ? ""
		 : is_noun ? " of "
			   : ", in ",
		 unit);
	return buf;
}

static int check_range(const struct opts_source *s, const struct opt *o, const char *value,
		       uint64_t v)
{
	const char *unit = count_unit(o), *space = *unit ? " " : "";
	struct text least, most;

	if (v >= o->min && (o->max == 0 || v <= o->max))
		return 0;
	opts_bound_text(o, o->min, &least);
	/* Units are plurals; one thread is no threads. */
	if (o->max == 0)
		return opts_fail(s->table, s->parsed, "%s=%s: must be at least %s%s%.*s", s->label,
				 value, least.s, space,
				 (int)(strlen(unit) - (o->min == 1 && *unit)), unit);
	return opts_fail(s->table, s->parsed, "%s=%s: must be between %s and %s%s%s", s->label,
			 value, least.s, opts_bound_text(o, o->max, &most), space, unit);
}

static int store_integer(const struct opts_source *s, const struct opt *o, const char *value,
			 uint64_t *field)
{
	uint64_t v = 0;
	int status = o->type == OPT_TYPE_BYTES	    ? parse_bytes(value, &v)
		     : o->type == OPT_TYPE_DURATION ? parse_duration_us(value, &v)
						    : parse_count(value, &v);

	/* Of a bounded one it is the bound that helps. */
	if (status == FORGE_E_NO_SPACE && o->max)
		return check_range(s, o, value, UINT64_MAX);
	if (status == FORGE_E_NO_SPACE)
		return opts_fail(s->table, s->parsed, "%s=%s: does not fit 64 bits", s->label,
				 value);
	if (status)
		return opts_fail(s->table, s->parsed, "%s=%s: not %s", s->label, value,
				 expected_form(o->type));
	status = check_range(s, o, value, v);
	if (status == 0)
		*field = v;
	return status;
}

static int store_double(const struct opts_source *s, const struct opt *o, const char *value,
			double *field)
{
	double v;

	if (parse_double(value, &v))
		return opts_fail(s->table, s->parsed, "%s=%s: not %s", s->label, value,
				 expected_form(o->type));
	if (v < o->double_min || v > o->double_max)
		return opts_fail(s->table, s->parsed, "%s=%s: must be between %g and %g%s%s",
				 s->label, value, o->double_min, o->double_max,
				 *count_unit(o) ? " " : "", count_unit(o));
	*field = v;
	return 0;
}

/* Nothing is no name, no path and no list. */
static int store_string(const struct opts_source *s, const struct opt *o, const char *value,
			const char **field)
{
	char form[96];

	if (!*value)
		return opts_fail(s->table, s->parsed, "%s needs a value (%s)", s->label,
				 opts_value_form(o, form, sizeof(form)));
	*field = value;
	return 0;
}

int opts_store(const struct opts_source *s, const struct opt *o, const char *value, void *field)
{
	switch (o->type) {
	case OPT_TYPE_FLAG:
		return store_flag(s, value, field);
	case OPT_TYPE_U64:
	case OPT_TYPE_BYTES:
	case OPT_TYPE_DURATION:
		return store_integer(s, o, value, field);
	case OPT_TYPE_DOUBLE:
		return store_double(s, o, value, field);
	case OPT_TYPE_STRING:
		return store_string(s, o, value, field);
	case OPT_TYPE_CHOICE:
		return store_choice(s, o, value, field);
	}
	return FORGE_E_INVAL;
}

void opts_store_nothing(const struct opt *o, void *config)
{
	void *field = opts_field(o, config);

	switch (o->type) {
	case OPT_TYPE_FLAG:
		*(bool *)field = false;
		break;
	case OPT_TYPE_U64:
	case OPT_TYPE_BYTES:
	case OPT_TYPE_DURATION:
		*(uint64_t *)field = 0;
		break;
	case OPT_TYPE_DOUBLE:
		*(double *)field = 0;
		break;
	case OPT_TYPE_STRING:
		*(const char **)field = NULL;
		break;
	case OPT_TYPE_CHOICE:
		*(unsigned *)field = 0;
		break;
	}
}
