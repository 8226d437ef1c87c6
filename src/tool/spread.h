/*
 * spread.h: what the files of `forge spread` share: the memory nodes that were named, as they were
 * found, and the change that is wanted.
 *
 * On the main thread.  Functions that return int: 0, or the exit status to end with, the error
 * printed.
 */
#ifndef FORGE_TOOL_SPREAD_H
#define FORGE_TOOL_SPREAD_H

#include <stdbool.h>

#include "client/link.h"
#include "pool/spread.h"
#include "tool/command.h"
#include "tool/names.h"

extern const struct command command_spread;

struct spread_config {
	const char *pool, *leave;
	bool set, lost, force, dry_run;
	const char *key_file;
};

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
	/* What came of reaching it: 0, or nothing but why not. */
	int status;
	char why[TOOL_WHY_BYTES];
};

/* One that cannot be reached. */
struct away {
	const char *name;
	uint64_t place;
	char why[TOOL_WHY_BYTES];
};

struct change {
	const struct spread_config *config;
	struct tool_names names, leavers;
	struct reached *all;	/* those of names, then those of leavers */
	struct reached **nodes; /* of these the ones that were reached */
	unsigned count;
	struct away *away; /* when shown any, in a change leavers */
	unsigned away_count;
	const struct spread_record *before; /* NULL: none */
	struct spread_record next;
	uint64_t token;
};

/* ---- spread_reach.c ----------------------------------------------------------------------- */

/* Reach all that are named, at once.  Waits. */
int spread_reach(struct change *);
void spread_leave(struct reached *);

/* The newest record; another cache's only with --force. */
int spread_find_before(struct change *);

/* The member that had that name, if nobody who was reached is it, or -1. */
int spread_find_away(const struct change *, const struct away *);

/* ---- spread.c ----------------------------------------------------------------------------- */

/* Of those that were caches of their own the first goes on with what it holds.  NULL: none. */
const struct reached *spread_first_used(const struct change *);

/* The record that is to be. */
int spread_next(struct change *);

/* Which share of the keys that are r's, all of them before there was a record, moves to others? */
double spread_moved_share(const struct change *, const struct reached *);

/* ---- spread_show.c ------------------------------------------------------------------------ */

int spread_show(struct change *);

#endif
