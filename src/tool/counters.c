/* counters.c: see counters.h. */
#include "tool/counters.h"

#include <string.h>

#include "base/parse.h"
#include "base/text.h"
#include "client/link.h"

/* What can be one's name; anything else is left out. */
static int is_name(const char *name, size_t bytes)
{
	if (bytes == 0 || bytes >= COUNTER_NAME_BYTES)
		return 0;
	return strspn(name, "abcdefghijklmnopqrstuvwxyz0123456789_") >= bytes;
}

static void take_line(struct counters *out, const char *line)
{
	const char *blank = strchr(line, ' ');
	struct counter *row = &out->row[out->count];

	if (!blank || out->count == COUNTERS_MAX || !is_name(line, (size_t)(blank - line)) ||
	    parse_u64(blank + 1, &row->value))
		return;
	memcpy(row->name, line, (size_t)(blank - line));
	row->name[blank - line] = '\0';
	out->count++;
}

int counters_take(const struct command *c, const char *pool_name, struct look_at *look,
		  struct counters *out)
{
	static char text[LINK_COUNTERS_BYTES + 1];
	char *rest = text, *line;
	int status = link_counters(look->link, text);

	*out = (struct counters){0};
	if (status < 0)
		return tool_fail(c, "%s: asking its memory node: %s", pool_name,
				 status_sentence(status));
	while ((line = strsep(&rest, "\n")))
		take_line(out, line);
	return 0;
}

static const struct counter *find(const struct counters *c, const char *name)
{
	for (unsigned i = 0; i < c->count; i++)
		if (strcmp(c->row[i].name, name) == 0)
			return &c->row[i];
	return NULL;
}

void counters_merge(struct counters *into, const struct counters *from)
{
	for (unsigned i = 0; i < from->count; i++) {
		struct counter *row = (struct counter *)find(into, from->row[i].name);

		if (row)
			row->value += from->row[i].value;
		else if (into->count < COUNTERS_MAX)
			into->row[into->count++] = from->row[i];
	}
}

void counters_print(const struct counters *c)
{
	struct text_table *t = c->count ? text_table_open("rl") : NULL;
	struct text n;

	if (!t)
		return;
	text_table_cell(t, "count");
	text_table_cell(t, "of the memory node, for who comes by sockets");
	text_table_rule(t);
	for (unsigned i = 0; i < c->count; i++) {
		text_table_cell(t, "%s", text_grouped(&n, c->row[i].value));
		text_table_cell(t, "%s", c->row[i].name);
	}
	text_table_print(t, stdout);
	text_table_close(t);
}

/* What there is now, not how often something happened. */
static int is_gauge(const char *name)
{
	static const char *const gauges[] = {"threads", "connections", "strangers", "instances"};

	for (unsigned i = 0; i < ARRAY_COUNT(gauges); i++)
		if (strcmp(name, gauges[i]) == 0)
			return 1;
	return 0;
}

/* What goes down, or was counted by a node that was started anew, has no rate. */
void counters_print_rates(const struct counters *before, const struct counters *now, double seconds)
{
	struct text_table *t = text_table_open("rrl");
	struct text rate, n;

	text_table_cell(t, "a second");
	text_table_cell(t, "in all");
	text_table_cell(t, "of the memory node, for who comes by sockets");
	text_table_rule(t);
	for (unsigned i = 0; i < now->count; i++) {
		const struct counter *row = &now->row[i], *old = find(before, row->name);

		if (old && old->value <= row->value && !is_gauge(row->name))
			text_table_cell(
			    t, "%s",
			    text_grouped(
				&rate,
				(uint64_t)((double)(row->value - old->value) / seconds + 0.5)));
		else
			text_table_cell(t, "-");
		text_table_cell(t, "%s", text_grouped(&n, row->value));
		text_table_cell(t, "%s", row->name);
	}
	text_table_print(t, stdout);
	text_table_close(t);
}

json_t *counters_json(const struct counters *c)
{
	json_t *o = json_object();

	for (unsigned i = 0; i < c->count; i++)
		json_object_set_new(o, c->row[i].name, json_integer((json_int_t)c->row[i].value));
	return o;
}
