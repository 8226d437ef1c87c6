/* spread_reach.c: reaching the memory nodes that `forge spread` is given, and what they say. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "client/name.h"
#include "tool/at_once.h"
#include "tool/spread.h"

#define REFUSE(text, bytes, name, status)                                                          \
	(snprintf(text, bytes, "%s: %s (%s)", name, status_sentence(status), status_name(status)), \
	 (status))

static int reach(struct reached *r, int flags, char *text, size_t bytes)
{
	struct pool_name parsed;
	int status = name_parse(r->name, &parsed, text, bytes);

	if (status)
		return status;
	r->place = name_place_hash(&parsed);
	if (name_place_text(&parsed, r->text, sizeof(r->text)) || !spread_name_fits(r->text)) {
		snprintf(text, bytes,
			 "%s: a memory node of several has a name of at most %u bytes without its "
			 "options, and no control characters in it: name it by another one",
			 r->name, SPREAD_NAME_BYTES_MAX);
		return FORGE_E_INVAL;
	}
	status = link_open(r->name, flags, &r->link, text, bytes);
	if (status == FORGE_E_POOL_ABSENT)
		tool_absent(r->name, text, bytes);
	if (status)
		return status;
	status = link_connect(r->link, &r->fab);
	if (status)
		return REFUSE(text, bytes, r->name, status);
	worker_init(&r->worker, r->fab, clock_monotonic(), 0);
	char reason[320];

	status = pool_open(&r->worker, &r->pool, reason, sizeof(reason));
	if (status) {
		snprintf(text, bytes, "%s: %s", r->name, reason);
		return status;
	}
	status = spread_read(&r->worker, &r->pool, &r->view);
	if (status)
		return REFUSE(text, bytes, r->name, status);
	r->id = spread_page_member(&r->view.page);
	if (!r->id)
		r->id = r->pool.pool_id;
	return 0;
}

void spread_leave(struct reached *r)
{
	fab_close(r->fab);
	link_close(r->link);
	r->fab = NULL;
	r->link = NULL;
}

/* On a thread of its own, if there are several. */
static void reach_one(void *context, unsigned i)
{
	const struct change *c = context;
	struct reached *r = &c->all[i];

	r->status = reach(r, c->config->set ? 0 : LINK_READ_ONLY, r->why, sizeof(r->why));
	if (r->status)
		spread_leave(r);
}

/* Who cannot be reached is shown as such; in a change it may be a leaver that is lost. */
static int note_away(struct change *c, const struct reached *r)
{
	const struct spread_config *config = c->config;
	struct away *a = &c->away[c->away_count];

	if (!link_is_away(r->status))
		return tool_fail(&command_spread, "%s", r->why);
	if (config->set && r->stays)
		return tool_fail(
		    &command_spread, "%s%s", r->why,
		    config->lost ? "; if it is the one that is lost, name it in --leave" : "");
	if (config->set && !config->lost)
		return tool_fail(&command_spread, "%s; if it is gone for good, add --lost", r->why);
	a->name = r->name;
	a->place = r->place;
	memcpy(a->why, r->why, sizeof(a->why));
	c->away_count++;
	return 0;
}

/* Of those that were not reached a note is left, or the first is an error. */
static int sort(struct change *c, unsigned count)
{
	int status = 0;

	for (unsigned i = 0; i < count; i++) {
		struct reached *r = &c->all[i];

		if (!r->status)
			c->nodes[c->count++] = r;
		else if (!status)
			status = note_away(c, r);
	}
	return status;
}

/* Two names may stand for one, whether it is to stay or to leave. */
static int check_each_is_named_once(const struct change *c)
{
	for (unsigned i = 0; i < c->count; i++)
		for (unsigned j = 0; j < i; j++)
			if (c->nodes[i]->pool.pool_id == c->nodes[j]->pool.pool_id)
				return tool_fail(
				    &command_spread,
				    "%s and %s are the same memory node%s: name it once",
				    c->nodes[j]->name, c->nodes[i]->name,
				    c->nodes[i]->stays == c->nodes[j]->stays
					? ""
					: ", which is to stay and to leave");
	return 0;
}

int spread_reach(struct change *c)
{
	int status = tool_names_open(&command_spread, c->config->pool, &c->names);

	if (!status && c->config->leave)
		status = tool_names_open(&command_spread, c->config->leave, &c->leavers);
	if (status)
		return status;
	unsigned staying = c->names.count, count = staying + c->leavers.count;

	c->all = calloc(count, sizeof(*c->all));
	c->nodes = calloc(count, sizeof(*c->nodes));
	c->away = calloc(count, sizeof(*c->away));
	if (!c->all || !c->nodes || !c->away)
		return tool_fail(&command_spread, "%s", status_sentence(FORGE_E_NO_MEMORY));
	for (unsigned i = 0; i < count; i++) {
		c->all[i].name = i < staying ? c->names.name[i] : c->leavers.name[i - staying];
		c->all[i].stays = i < staying;
	}
	at_once(count, reach_one, c);
	status = sort(c, count);
	if (!status)
		status = check_each_is_named_once(c);
	if (!status && c->count == 0)
		status = tool_fail(&command_spread, "%s", c->away[0].why);
	return status;
}

int spread_find_before(struct change *c)
{
	const char *holder = NULL;

	for (unsigned i = 0; i < c->count; i++) {
		const struct spread_record *r = c->nodes[i]->view.record;

		if (r && !holder)
			holder = c->nodes[i]->name;
		if (r && (!c->before || (r->id == c->before->id && r->epoch > c->before->epoch)))
			c->before = r;
		if (r && r->id != c->before->id && !c->config->force)
			return tool_fail(&command_spread,
					 "%s is a memory node of another cache than %s: with "
					 "--set --force what it holds is forgotten, and the cache "
					 "named first is kept",
					 c->nodes[i]->name, holder);
	}
	return 0;
}

int spread_find_away(const struct change *c, const struct away *a)
{
	for (uint32_t m = 0; c->before && m < c->before->member_count; m++) {
		bool is_there = c->before->member[m].name != a->place;

		for (unsigned i = 0; i < c->count; i++)
			is_there |= c->nodes[i]->id == c->before->member[m].id;
		if (!is_there)
			return (int)m;
	}
	return -1;
}
