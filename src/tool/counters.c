/* counters.c: see counters.h. */
#include "tool/counters.h"

#include <stdlib.h>
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

int counters_take(struct look_at *look, struct counters *out)
{
	char *text = malloc(LINK_COUNTERS_BYTES + 1), *rest = text, *line;
	int status = text ? link_counters(look->link, text) : FORGE_E_NO_MEMORY;

	*out = (struct counters){0};
	while (status >= 0 && (line = strsep(&rest, "\n")))
		take_line(out, line);
	free(text);
	return status < 0 ? status : 0;
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

/* What this build can say of them; a node of another one may count more or less. */
static const struct known {
	const char *name;
	bool is_gauge; /* what there is now, not how often something happened */
	const char *sentence;
} known[] = {
    {"threads", true, "that serve sockets"},
    {"connections", true, "of compute nodes and tools, two or more of each"},
    {"connections_total", false, "accepted, ever"},
    {"connections_refused", false,
     "of these, not welcome: another pool, another protocol, too many"},
    {"strangers", true, "connected, and have not proved yet who they are"},
    {"strangers_failed", false, "that had a wrong key, broke off or took too long"},
    {"strangers_too_many", false, "sent away because too many had come at once"},
    {"strangers_turned_away", false, "sent away for the many that had failed just before"},
    {"instances", true, "processes attached by sockets"},
    {"instances_fenced", false, "processes cut off before what they held was taken back"},
    {"ops_read", false, "READs done"},
    {"ops_write", false, "WRITEs done"},
    {"ops_cas", false, "CASes done, whether they swapped or not"},
    {"ops_faa", false, "FAAs done"},
    {"ops_failed", false, "verbs refused: out of bounds, not aligned, or not permitted"},
    {"control_requests", false, "of locks, time, descriptions and these counts"},
    {"receives", false, "calls that took bytes from a socket"},
    {"bytes_in", false, "received"},
    {"bytes_out", false, "sent"},
    {"cpu_us", false, "processor time of the threads that serve sockets"},
};

static const struct known *known_as(const char *name)
{
	static const struct known other = {"", false, NULL};

	for (unsigned i = 0; i < ARRAY_COUNT(known); i++)
		if (strcmp(name, known[i].name) == 0)
			return &known[i];
	return &other;
}

static void print_name(struct text_table *t, const char *name)
{
	const char *sentence = known_as(name)->sentence;

	text_table_cell(t, "%s%s%s", name, sentence ? ": " : "", sentence ? sentence : "");
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
		print_name(t, c->row[i].name);
	}
	text_table_print(t, stdout);
	text_table_close(t);
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

		if (old && old->value <= row->value && !known_as(row->name)->is_gauge)
			text_table_cell(
			    t, "%s",
			    text_grouped(
				&rate,
				(uint64_t)((double)(row->value - old->value) / seconds + 0.5)));
		else
			text_table_cell(t, "-");
		text_table_cell(t, "%s", text_grouped(&n, row->value));
		print_name(t, row->name);
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
