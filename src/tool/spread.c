/*
 * spread.c: `forge spread`: which memory nodes a cache lies on, and changing them.
 *
 * What is done on each node, and why nothing old comes back by it, is in pool/spread.h.  Here: all
 * nodes are read and the change is checked before a word is written; then every node is claimed,
 * prepared and committed in turn, and the claims end when no operation can start by the old record
 * any more.  Cut off, it is repeated with --force: until all nodes agree no client attaches.
 */
#include "tool/spread.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>
#include <time.h>

#include "base/opts.h"
#include "base/text.h"
#include "cache/cn.h"

static const struct opt options[] = {
    OPT_STRING(struct spread_config, pool, "pool", 'p', TOOL_POOL_DEFAULT, "NAMES",
	       "The memory nodes, separated by commas; with --set: those it is to have."),
    TOOL_KEY_FILE_OPTION(struct spread_config),
    OPT_FLAG(struct spread_config, set, "set", 0, "Make these its memory nodes, and no others."),
    OPT_STRING(struct spread_config, leave, "leave", 0, NULL, "NAMES",
	       "With --set: memory nodes that it has and is not to have any more."),
    OPT_FLAG(struct spread_config, lost, "lost", 0,
	     "With --set: go on although some that are to leave cannot be reached; they must never "
	     "come back with their memory."),
    OPT_FLAG(struct spread_config, dry_run, "dry-run", 0,
	     "With --set: say what would become of each memory node, and change nothing."),
    OPT_FLAG(struct spread_config, force, "force", 0,
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
		if (spread_find_away(c, &c->away[i]) < 0)
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
		status = check_leaver(c, c->nodes[i]);
	if (status)
		return status;
	for (uint32_t m = 0; c->before && m < c->before->member_count; m++) {
		bool is_there = false;

		for (unsigned i = 0; i < c->count; i++)
			is_there |= c->nodes[i]->id == c->before->member[m].id;
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
		if (c->nodes[i]->view.claim && !c->config->force)
			return tool_fail(&command_spread,
					 "%s: another change runs, or was cut off: if none runs, "
					 "repeat it with --force",
					 c->nodes[i]->name);
	return 0;
}

const struct reached *spread_first_used(const struct change *c)
{
	for (unsigned i = 0; i < c->count; i++)
		if (!c->nodes[i]->view.epoch && c->nodes[i]->view.was_used)
			return c->nodes[i];
	return NULL;
}

/* Which node that was a cache of its own is kept?  NULL: none. */
static int find_keeper(const struct change *c, const struct reached **out)
{
	const struct reached *first = spread_first_used(c);

	*out = c->before ? NULL : first;
	for (unsigned i = 0; i < c->count && !c->config->force; i++) {
		const struct reached *r = c->nodes[i];

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

int spread_next(struct change *c)
{
	struct spread_member members[SPREAD_NODES_MAX];
	const char *names[SPREAD_NODES_MAX];
	struct spread_wish wish = {.members = members, .names = names};
	const struct reached *first = c->before ? NULL : spread_first_used(c);
	uint64_t epoch = 0;
	size_t bytes = 0;
	unsigned n = 0;

	for (unsigned i = 0; i < c->count; i++) {
		const struct reached *r = c->nodes[i];

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
				 "epoch %" PRIu64
				 " is the last there can be: form another cache of "
				 "new, empty nodes, and let programs go over to that",
				 epoch);
	if (spread_record_make(&c->next, &wish))
		return tool_fail(&command_spread, "two of the names are of the same memory node");
	return 0;
}

double spread_moved_share(const struct change *c, const struct reached *r)
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
		if (c->nodes[i]->view.epoch != c->before->epoch || c->nodes[i]->view.claim)
			return true;
	return false;
}

/* ---- making it so ------------------------------------------------------------------------- */

static int write_all(struct change *c)
{
	const struct timespec samples = {.tv_nsec = 2000L * CN_FLUSH_TRUST_US_DEFAULT + 1000000};
	struct reached **at, **end = c->nodes + c->count;
	int status = 0;

	for (at = c->nodes; at < end && !status; at++)
		status = spread_claim(&(*at)->worker, c->token, (*at)->view.claim);
	if (status == FORGE_E_AGAIN)
		return tool_fail(&command_spread, "another change was faster: look at it, and "
						  "repeat this one with --force");
	for (at = c->nodes; at < end && !status; at++)
		status = spread_prepare(&(*at)->worker, &(*at)->view, &c->next, &(*at)->step);
	for (at = c->nodes; at < end && !status; at++)
		status = spread_commit(&(*at)->worker, &(*at)->pool, c->next.epoch, &(*at)->step);
	/* From then on no operation starts that does not know of it. */
	nanosleep(&samples, NULL);
	for (at = c->nodes; at < end && !status; at++)
		status = spread_unclaim(&(*at)->worker, c->token);
	return status ? tool_fail(&command_spread,
				  "%s (%s): the change was cut off; repeat it with --force",
				  status_sentence(status), status_name(status))
		      : 0;
}

static void print_step(const struct change *c, const struct reached *r)
{
	double moved = r->stays ? spread_moved_share(c, r) : 0;
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
		status = spread_next(c);
	if (status)
		return status;
	if (!is_change(c)) {
		printf("these are its memory nodes already\n");
		return TOOL_OK;
	}
	for (unsigned i = 0; i < c->count; i++)
		spread_plan(&c->nodes[i]->view, c->before, &c->next, c->nodes[i]->id,
			    c->nodes[i] == keeper, &c->nodes[i]->step);
	if (getrandom(&c->token, sizeof(c->token), 0) != (ssize_t)sizeof(c->token))
		return tool_fail(&command_spread, "the kernel has no random number");
	c->token |= 1;
	if (c->config->dry_run)
		printf("nothing was changed; without --dry-run:\n");
	else
		status = write_all(c);
	for (unsigned i = 0; i < c->count && !status; i++)
		print_step(c, c->nodes[i]);
	for (unsigned i = 0; i < c->away_count && !status; i++)
		printf("%s is given up\n", c->away[i].name);
	return status;
}

static int run(int argc, char **argv)
{
	struct spread_config config;
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
	status = spread_reach(&change);
	if (!status)
		status = spread_find_before(&change);
	if (!status)
		status = config.set ? set(&change) : spread_show(&change);
	for (unsigned i = 0; i < change.count; i++)
		spread_leave(change.nodes[i]);
	free(change.nodes);
	free(change.all);
	free(change.away);
	tool_names_close(&change.names);
	tool_names_close(&change.leavers);
	return status;
}
