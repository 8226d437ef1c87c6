/* spread_show.c: `forge spread` without --set: the members, and what a change would do. */
#include <inttypes.h>
#include <stdio.h>

#include "base/text.h"
#include "tool/spread.h"

static void print_members(const struct change *c)
{
	struct text_table *t = text_table_open("lrrrl");
	uint8_t owners[SPREAD_PARTITIONS];
	struct text size, share;

	printf("cache %016" PRIx64 ", epoch %" PRIu64 ", %u memory node%s\n\n", c->before->id,
	       c->before->epoch, c->before->member_count, c->before->member_count == 1 ? "" : "s");
	spread_table(c->before, owners);
	text_table_cell(t, "member");
	text_table_cell(t, "weight");
	text_table_cell(t, "partitions");
	text_table_cell(t, "share");
	text_table_cell(t, "memory node");
	text_table_rule(t);
	for (uint32_t m = 0; m < c->before->member_count; m++) {
		const struct spread_member *member = &c->before->member[m];
		const char *name = "not named", *away = "";
		uint32_t n = 0;

		for (uint32_t p = 0; p < SPREAD_PARTITIONS; p++)
			n += owners[p] == m;
		for (unsigned i = 0; i < c->count; i++)
			if (c->nodes[i]->view.epoch && c->nodes[i]->id == member->id) {
				name = c->nodes[i]->name;
				if (c->nodes[i]->pool.pool_id != member->id)
					away = ": another pool, in a lost one's place";
				/* Shared memory outlives who serves it. */
				if (!link_is_served(c->nodes[i]->link))
					away = ": its memory is there, but no node serves it";
			}
		for (unsigned i = 0; i < c->away_count; i++)
			if (spread_find_away(c, &c->away[i]) == (int)m) {
				name = c->away[i].name;
				away = ": cannot be reached";
			}
		text_table_cell(t, "%016" PRIx64, member->id);
		text_table_cell(t, "%s", text_bytes(&size, member->weight * SPREAD_WEIGHT_UNIT));
		text_table_cell(t, "%u", n);
		text_table_cell(t, "%s", text_percent(&share, (double)n / SPREAD_PARTITIONS));
		text_table_cell(t, "%s%s", name, away);
	}
	text_table_print(t, stdout);
	text_table_close(t);
	printf(
	    "\nmember: its id, for good; weight: the size it joined with, which decides its share; "
	    "share: of all keys\n");
}

/* A node that is no member, and what a change would make of it. */
static void print_other(struct change *c, const struct reached *r, const struct reached *keeper)
{
	struct text share;

	printf("%s: ", r->name);
	if (r->view.epoch)
		printf("it was a memory node before: --set makes it one again, and forgets what it "
		       "holds\n");
	else if (!r->view.was_used)
		printf("new: --set makes it a memory node\n");
	else if (r != keeper)
		printf(
		    "used as a cache of its own: --set refuses it, with --force what it holds is "
		    "forgotten\n");
	else if (c->count + c->away_count == 1)
		printf("a cache of its own\n");
	else if (c->away_count > 0 || spread_next(c))
		printf("used as a cache of its own: --set keeps what does not move to others\n");
	else
		printf(
		    "used as a cache of its own: --set keeps what it holds, but for the %s of its "
		    "keys that move to others and are lost\n",
		    text_percent(&share, spread_moved_share(c, r)));
}

int spread_show(struct change *c)
{
	const struct reached *keeper = c->before ? NULL : spread_first_used(c);

	if (c->before) {
		print_members(c);
		putchar('\n');
	}
	for (unsigned i = 0; i < c->count; i++) {
		const struct reached *r = c->nodes[i];

		if (!c->before || r->view.epoch != c->before->epoch || r->view.member == 0 ||
		    spread_record_find(c->before, r->id) < 0)
			print_other(c, r, keeper);
		if (r->view.claim)
			printf("%s is claimed by a change that runs, or was cut off\n", r->name);
	}
	for (unsigned i = 0; i < c->away_count; i++)
		printf("%s cannot be reached: %s\n", c->away[i].name, c->away[i].why);
	return TOOL_OK;
}
