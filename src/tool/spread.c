/*
 * spread.c: `forge spread`: which memory nodes a cache lies on, and changing them.
 *
 * What is done on each node, and why nothing old comes back by it, is in pool/spread.h.  Here: all
 * nodes are read and the change is checked before a word is written; then every node is claimed,
 * prepared and committed in turn, and the claims end when no operation can start by the old record
 * any more.  Cut off, it is repeated with --force: until all nodes agree no client attaches.
 */
#include <inttypes.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>
#include <time.h>

#include "base/opts.h"
#include "base/text.h"
#include "cache/cn.h"
#include "client/link.h"
#include "client/name.h"
#include "pool/spread.h"
#include "tool/command.h"
#include "tool/names.h"

struct config {
	const char *pool, *leave;
	bool set, lost, force, dry_run;
	const char *key_file;
};

static const struct opt options[] = {
    OPT_STRING(struct config, pool, "pool", 'p', TOOL_POOL_DEFAULT, "NAMES",
	       "The memory nodes, separated by commas; with --set: those it is to have."),
    TOOL_KEY_FILE_OPTION(struct config),
    OPT_FLAG(struct config, set, "set", 0, "Make these its memory nodes, and no others."),
    OPT_STRING(struct config, leave, "leave", 0, NULL, "NAMES",
	       "With --set: memory nodes that it has and is not to have any more."),
    OPT_FLAG(struct config, lost, "lost", 0,
	     "With --set: go on although some that are to leave cannot be reached; they must never "
	     "come back with their memory."),
    OPT_FLAG(struct config, dry_run, "dry-run", 0,
	     "With --set: say what would become of each memory node, and change nothing."),
    OPT_FLAG(struct config, force, "force", 0,
	     "With --set: also after a change that was cut off, and over what nodes hold that were "
	     "caches of their own."),
};

static const struct opts_table table = {
    .command = "forge spread",
    .sentence =
	"Show which share of a cache lies on each of its memory nodes, or change the nodes. "
	"What stays where it was is kept; programs that are attached go on with the new ones.  "
	"Exit status: 0 done, 2 error.",
    .options = options,
    .option_count = ARRAY_COUNT(options),
};

static int run(int argc, char **argv);

const struct command command_spread = {"spread", "Show or change a cache's memory nodes.", run};

/* A memory node, reached. */
struct reached {
	const char *name;
	struct link *link;
	struct fab *fab;
	struct worker worker;
	struct pool pool;
	struct spread_view view;
	uint64_t id;	/* as a member */
	uint64_t place; /* hash of the name */
	/* The name without options, which is what clients that run reach it by. */
	char text[SPREAD_NAME_BYTES_MAX + 1];
	bool stays; /* or joins */
	struct spread_step step;
};

/* One that cannot be reached. */
struct away {
	const char *name;
	uint64_t place;
	char why[512];
};

struct change {
	const struct config *config;
	struct tool_names names, leavers;
	struct reached *nodes; /* those of names, then those of leavers; without those away */
	unsigned count;
	struct away *away; /* when shown any, in a change leavers */
	unsigned away_count;
	const struct spread_record *before; /* NULL: none */
	struct spread_record next;
	uint64_t token;
};

/* ---- what there is ------------------------------------------------------------------------ */

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

static void leave(struct reached *r)
{
	fab_close(r->fab);
	link_close(r->link);
	*r = (struct reached){0};
}

/* Who cannot be reached is shown as such; in a change it may be a leaver that is lost. */
static int reach_or_note(struct change *c, const char *name, bool stays)
{
	const struct config *config = c->config;
	struct reached *r = &c->nodes[c->count];
	struct away *a = &c->away[c->away_count];

	r->name = name;
	r->stays = stays;
	int status = reach(r, config->set ? 0 : LINK_READ_ONLY, a->why, sizeof(a->why));

	if (!status) {
		c->count++;
		return 0;
	}
	a->name = name;
	a->place = r->place;
	leave(r);
	if (!link_is_away(status))
		return tool_fail(&command_spread, "%s", a->why);
	if (config->set && stays)
		return tool_fail(
		    &command_spread, "%s%s", a->why,
		    config->lost ? "; if it is the one that is lost, name it in --leave" : "");
	if (config->set && !config->lost)
		return tool_fail(&command_spread, "%s; if it is gone for good, add --lost", a->why);
	c->away_count++;
	return 0;
}

static int reach_all(struct change *c)
{
	int status = tool_names_open(&command_spread, c->config->pool, &c->names);

	if (!status && c->config->leave)
		status = tool_names_open(&command_spread, c->config->leave, &c->leavers);
	if (status)
		return status;
	unsigned count = c->names.count + c->leavers.count;

	c->nodes = calloc(count, sizeof(*c->nodes));
	c->away = calloc(count, sizeof(*c->away));
	if (!c->nodes || !c->away)
		return tool_fail(&command_spread, "%s", status_sentence(FORGE_E_NO_MEMORY));
	for (unsigned i = 0; i < c->names.count && !status; i++)
		status = reach_or_note(c, c->names.name[i], true);
	for (unsigned i = 0; i < c->leavers.count && !status; i++)
		status = reach_or_note(c, c->leavers.name[i], false);
	if (!status && c->count == 0)
		status = tool_fail(&command_spread, "%s", c->away[0].why);
	return status;
}

/* The newest record; another cache's only with --force. */
static int find_before(struct change *c)
{
	const char *holder = NULL;

	for (unsigned i = 0; i < c->count; i++) {
		const struct spread_record *r = c->nodes[i].view.record;

		if (r && !holder)
			holder = c->nodes[i].name;
		if (r && (!c->before || (r->id == c->before->id && r->epoch > c->before->epoch)))
			c->before = r;
		if (r && r->id != c->before->id && !c->config->force)
			return tool_fail(&command_spread,
					 "%s is a memory node of another cache than %s: with "
					 "--set --force what it holds is forgotten, and the cache "
					 "named first is kept",
					 c->nodes[i].name, holder);
	}
	return 0;
}

/* The member that had that name, if nobody who was reached is it, or -1. */
static int find_away(const struct change *c, const struct away *a)
{
	for (uint32_t m = 0; c->before && m < c->before->member_count; m++) {
		bool is_there = c->before->member[m].name != a->place;

		for (unsigned i = 0; i < c->count; i++)
			is_there |= c->nodes[i].id == c->before->member[m].id;
		if (!is_there)
			return (int)m;
	}
	return -1;
}

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
			if (c->nodes[i].view.epoch && c->nodes[i].id == member->id) {
				name = c->nodes[i].name;
				if (c->nodes[i].pool.pool_id != member->id)
					away = ": another pool, in a lost one's place";
				/* Shared memory outlives who serves it. */
				if (!link_is_served(c->nodes[i].link))
					away = ": its memory is there, but no node serves it";
			}
		for (unsigned i = 0; i < c->away_count; i++)
			if (find_away(c, &c->away[i]) == (int)m) {
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

/* ---- what there is to be ------------------------------------------------------------------ */

/*
 * Only who is a member can leave; so can one that a change which was cut off took out already.
 * --force does not go over this: it would empty a cache that has nothing to do with the change.
 */
static int check_leaver(const struct change *c, const struct reached *r)
{
	const struct spread_record *own = r->view.record;

	if (r->stays || (c->before && (spread_record_find(c->before, r->id) >= 0 ||
				       (own && own->id == c->before->id))))
		return 0;
	return tool_fail(&command_spread,
			 "%s is no member of this cache, so it cannot leave it: take it out of "
			 "--leave; nothing was changed",
			 r->name);
}

/* A leaver that cannot be reached is known by the name that the record has of it. */
static int check_away(const struct change *c)
{
	for (unsigned i = 0; i < c->away_count; i++)
		if (find_away(c, &c->away[i]) < 0)
			return tool_fail(&command_spread,
					 "%s cannot be reached, and no member of the cache that is "
					 "missing had this name: leave it out of --leave; with "
					 "--lost members that are not named are given up",
					 c->away[i].name);
	return 0;
}

/* Everyone who is a member now stays, leaves, or is given up. */
static int check_members(const struct change *c)
{
	uint32_t reached = 0;
	int status = check_away(c);

	for (unsigned i = 0; i < c->count && !status; i++)
		status = check_leaver(c, &c->nodes[i]);
	if (status)
		return status;
	for (uint32_t m = 0; c->before && m < c->before->member_count; m++) {
		bool is_there = false;

		for (unsigned i = 0; i < c->count; i++)
			is_there |= c->nodes[i].id == c->before->member[m].id;
		reached += is_there;
		if (!is_there && !c->config->lost)
			return tool_fail(&command_spread,
					 "member %016" PRIx64
					 " of the cache is not named: name it in --pool or in "
					 "--leave, or say --lost if it is gone for good",
					 c->before->member[m].id);
	}
	if (c->before && 2 * reached <= c->before->member_count)
		return tool_fail(&command_spread,
				 "only %u of %u memory nodes are there: more than half are needed, "
				 "or a client might work with the others; start a new, empty node "
				 "under a lost one's name, let it take the place by 'forge get' of "
				 "any key with the whole list, then it can leave",
				 reached, c->before->member_count);
	return 0;
}

static int check_claims(const struct change *c)
{
	for (unsigned i = 0; i < c->count; i++)
		if (c->nodes[i].view.claim && !c->config->force)
			return tool_fail(&command_spread,
					 "%s: another change runs, or was cut off: if none runs, "
					 "repeat it with --force",
					 c->nodes[i].name);
	return 0;
}

/* Of those that were caches of their own the first goes on with what it holds.  NULL: none. */
static const struct reached *first_used(const struct change *c)
{
	for (unsigned i = 0; i < c->count; i++)
		if (!c->nodes[i].view.epoch && c->nodes[i].view.was_used)
			return &c->nodes[i];
	return NULL;
}

/* Which node that was a cache of its own is kept?  NULL: none. */
static int find_keeper(const struct change *c, const struct reached **out)
{
	const struct reached *first = first_used(c);

	*out = c->before ? NULL : first;
	for (unsigned i = 0; i < c->count && !c->config->force; i++) {
		const struct reached *r = &c->nodes[i];

		if (r->view.epoch || !r->view.was_used || r == *out)
			continue;
		if (c->before)
			return tool_fail(&command_spread,
					 "%s was used as a cache of its own: with --force what it "
					 "holds is forgotten",
					 r->name);
		return tool_fail(&command_spread,
				 "%s and %s were both used as caches of their own: with --force "
				 "what %s holds, the first, is kept, and what %s holds is "
				 "forgotten; name first what is to be kept",
				 first->name, r->name, first->name, r->name);
	}
	return 0;
}

static int make_next(struct change *c)
{
	struct spread_member members[SPREAD_NODES_MAX];
	const char *names[SPREAD_NODES_MAX];
	struct spread_wish wish = {.members = members, .names = names};
	const struct reached *first = c->before ? NULL : first_used(c);
	uint64_t epoch = 0;
	size_t bytes = 0;
	unsigned n = 0;

	for (unsigned i = 0; i < c->count; i++) {
		const struct reached *r = &c->nodes[i];

		epoch = max_u64(epoch, r->view.epoch);
		if (!r->stays)
			continue;
		names[n] = r->text;
		bytes += strlen(r->text) + 1;
		members[n++] =
		    (struct spread_member){r->id, spread_weight(r->pool.plan.pool_bytes), r->place};
	}
	if (bytes > SPREAD_NAMES_BYTES)
		return tool_fail(&command_spread,
				 "the names have %zu bytes together, %u are possible: name them by "
				 "shorter ones",
				 bytes, SPREAD_NAMES_BYTES);
	wish.id = c->before ? c->before->id : 0;
	wish.kept = c->before ? c->before->kept : first ? first->pool.pool_id : 0;
	wish.epoch = epoch + 1;
	wish.count = n;
	if (epoch >= FENCE_EPOCH_MAX)
		return tool_fail(&command_spread,
				 "epoch %" PRIu64 " is the last: format the nodes "
				 "anew",
				 epoch);
	if (spread_record_make(&c->next, &wish))
		return tool_fail(&command_spread, "two of the names are of the same memory node");
	return 0;
}

/* Which share of the keys that are r's, all of them before there was a record, moves to others? */
static double moved_share(const struct change *c, const struct reached *r)
{
	uint8_t owners[SPREAD_PARTITIONS], before[SPREAD_PARTITIONS] = {0};
	int mine = spread_record_find(&c->next, r->id);
	int was_mine = c->before ? spread_record_find(c->before, r->id) : 0;
	uint32_t had = 0, moved = 0;

	spread_table(&c->next, owners);
	if (c->before)
		spread_table(c->before, before);
	for (uint32_t p = 0; p < SPREAD_PARTITIONS; p++) {
		had += before[p] == was_mine;
		moved += before[p] == was_mine && owners[p] != mine;
	}
	return had ? (double)moved / had : 0;
}

static bool is_change(const struct change *c)
{
	if (!c->before || c->before->member_count != c->next.member_count ||
	    c->before->names_bytes != c->next.names_bytes ||
	    memcmp(c->before->names, c->next.names, c->next.names_bytes) != 0 ||
	    memcmp(c->before->member, c->next.member,
		   c->next.member_count * sizeof(c->next.member[0])) != 0)
		return true;
	for (unsigned i = 0; i < c->count; i++)
		if (c->nodes[i].view.epoch != c->before->epoch || c->nodes[i].view.claim)
			return true;
	return false;
}

/* ---- making it so ------------------------------------------------------------------------- */

static int write_all(struct change *c)
{
	const struct timespec samples = {.tv_nsec = 2000L * CN_FLUSH_TRUST_US_DEFAULT + 1000000};
	struct reached *r = c->nodes, *end = c->nodes + c->count;
	int status = 0;

	for (r = c->nodes; r < end && !status; r++)
		status = spread_claim(&r->worker, c->token, r->view.claim);
	if (status == FORGE_E_AGAIN)
		return tool_fail(&command_spread, "another change was faster: look at it, and "
						  "repeat this one with --force");
	for (r = c->nodes; r < end && !status; r++)
		status = spread_prepare(&r->worker, &r->view, &c->next, &r->step);
	for (r = c->nodes; r < end && !status; r++)
		status = spread_commit(&r->worker, &r->pool, c->next.epoch, &r->step);
	/* From then on no operation starts that does not know of it. */
	nanosleep(&samples, NULL);
	for (r = c->nodes; r < end && !status; r++)
		status = spread_unclaim(&r->worker, c->token);
	return status ? tool_fail(&command_spread,
				  "%s (%s): the change was cut off; repeat it with --force",
				  status_sentence(status), status_name(status))
		      : 0;
}

static void print_step(const struct change *c, const struct reached *r)
{
	double moved = r->stays ? moved_share(c, r) : 0;
	struct text share;

	printf("%s %s", r->name, r->stays ? "is a memory node of the cache" : "has left");
	if (r->step.must_flush && r->view.was_used)
		printf(", and what it held is forgotten");
	else if (moved > 0 && r->view.was_used)
		printf(
		    ", and what it held is kept, but for the %s of its keys that moved to others "
		    "and are lost",
		    text_percent(&share, moved));
	putchar('\n');
}

static int set(struct change *c)
{
	const struct reached *keeper;
	int status = check_members(c);

	if (!status)
		status = check_claims(c);
	if (!status)
		status = find_keeper(c, &keeper);
	if (!status)
		status = make_next(c);
	if (status)
		return status;
	if (!is_change(c)) {
		printf("these are its memory nodes already\n");
		return TOOL_OK;
	}
	for (unsigned i = 0; i < c->count; i++)
		spread_plan(&c->nodes[i].view, c->before, &c->next, c->nodes[i].id,
			    &c->nodes[i] == keeper, &c->nodes[i].step);
	if (getrandom(&c->token, sizeof(c->token), 0) != (ssize_t)sizeof(c->token))
		return tool_fail(&command_spread, "the kernel has no random number");
	c->token |= 1;
	if (c->config->dry_run)
		printf("nothing was changed; without --dry-run:\n");
	else
		status = write_all(c);
	for (unsigned i = 0; i < c->count && !status; i++)
		print_step(c, &c->nodes[i]);
	for (unsigned i = 0; i < c->away_count && !status; i++)
		printf("%s is given up\n", c->away[i].name);
	return status;
}

/* ---- showing it --------------------------------------------------------------------------- */

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
	else if (c->away_count > 0 || make_next(c))
		printf("used as a cache of its own: --set keeps what does not move to others\n");
	else
		printf(
		    "used as a cache of its own: --set keeps what it holds, but for the %s of its "
		    "keys that move to others and are lost\n",
		    text_percent(&share, moved_share(c, r)));
}

static int show(struct change *c)
{
	const struct reached *keeper = c->before ? NULL : first_used(c);

	if (c->before) {
		print_members(c);
		putchar('\n');
	}
	for (unsigned i = 0; i < c->count; i++) {
		const struct reached *r = &c->nodes[i];

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

static int run(int argc, char **argv)
{
	struct config config;
	struct opts_parsed parsed;
	struct change change = {.config = &config};
	int status = opts_parse_main(&table, argc, argv, &config, &parsed);

	if (status >= 0)
		return status;
	tool_use_key_file(config.key_file);
	if (!config.set && (config.leave || config.lost || config.force || config.dry_run))
		return tool_fail(
		    &command_spread,
		    "--leave, --lost, --dry-run and --force are for changes: add --set");
	status = reach_all(&change);
	if (!status)
		status = find_before(&change);
	if (!status)
		status = config.set ? set(&change) : show(&change);
	for (unsigned i = 0; i < change.count; i++)
		leave(&change.nodes[i]);
	free(change.nodes);
	free(change.away);
	tool_names_close(&change.names);
	tool_names_close(&change.leavers);
	return status;
}
