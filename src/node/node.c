/*
 * node.c: making, taking over and giving up a pool on shared memory.
 *
 * Whoever holds the export decides about it, so the hold comes first and everything else, even
 * looking at the superblock, after it.  A new export is held before it has a byte; who finds an
 * empty one lets go of it, so of several nodes that start at once exactly one serves the pool.
 */
#include "node/node.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>
#include <time.h>

#include "base/hash.h"
#include "base/log.h"
#include "base/text.h"
#include "client/alive.h"
#include "client/host.h"
#include "fabric/loop.h"
#include "fabric/shm.h"
#include "pool/time.h"

struct node {
	const char *where; /* into name */
	struct shm_hold *hold;
	struct shm_map *map;
	struct alive *alive;
	struct fab *fab;
	struct worker worker;
	struct pool pool;
	bool is_warm;
	bool is_ready;
	uint64_t starts; /* before this one that did not get ready */
	char story[960];
	char name[];
};

/* Where an error sentence goes. */
struct error_out {
	char *text;
	size_t bytes;
};

#define REFUSE(e, status, ...) (snprintf((e).text, (e).bytes, __VA_ARGS__), (status))

/* Is there a pool, or what is left of one?  Anything else is not ours to replace. */
static bool holds_remains_of_a_pool(const struct shm_hold *hold)
{
	uint64_t head[LAYOUT_SUPERBLOCK_BYTES / 8] = {0};

	return layout_is_of_a_pool(head, shm_hold_peek(hold, head, sizeof(head)));
}

/* Without touching a byte of what may be somebody's file. */
int node_inspect(const char *where, struct pool *out, char *error_text, size_t error_bytes)
{
	struct error_out e = {error_text, error_bytes};
	struct shm_map *map;
	struct fab *fab = NULL;
	struct worker w;
	char reason[320];
	int status = shm_map_open(where, SHM_MAP_READ_ONLY, e.text, e.bytes, &map);

	if (status)
		return status;
	status = loop_open(shm_map_base(map), shm_map_bytes(map), &fab);
	if (!status) {
		worker_init(&w, fab, clock_monotonic(), 0);
		status = pool_open(&w, out, reason, sizeof(reason));
	} else {
		snprintf(reason, sizeof(reason), "%s", status_sentence(status));
	}
	if (status)
		snprintf(e.text, e.bytes, "%s: %s", where, reason);
	fab_close(fab);
	shm_map_close(map);
	return status;
}

/* Map the export, faulted in, and connect to it. */
static int attach(struct node *n, int map_flags, struct error_out e)
{
	struct text huge, all;
	int status = shm_map_open(n->where, map_flags, e.text, e.bytes, &n->map);

	if (status)
		return status;
	log_info("%s: %s of %s are in huge pages", n->where,
		 text_bytes(&huge, shm_map_huge_bytes(n->map)),
		 text_bytes(&all, shm_map_bytes(n->map)));
	status = shm_open_connection(n->map, &n->fab);
	if (status)
		return REFUSE(e, status, "%s: connecting: %s", n->where, status_sentence(status));
	status = alive_open(n->where, n->map, &n->alive);
	if (status)
		return REFUSE(e, status, "%s: %s", n->where, status_sentence(status));
	worker_init(&n->worker, n->fab, clock_monotonic(), 0);
	return 0;
}

static int open_pool(struct node *n, struct error_out e)
{
	char reason[512];
	int status = pool_open(&n->worker, &n->pool, reason, sizeof(reason));

	return status ? REFUSE(e, status, "%s: %s", n->where, reason) : 0;
}

/* A compute node sees by the epoch that the node has started anew over its memory. */
static int raise_epoch(struct node *n, struct error_out e)
{
	struct fab_op op = fab_faa(FAB_CONTROL, offsetof(struct layout_superblock, epoch), 1);
	int status = flow_run(&n->worker, &op, 1);

	return status ? REFUSE(e, status, "%s: raising the epoch: %s", n->where,
			       status_sentence(status))
		      : 0;
}

/* What this host's clocks show. */
static struct pool_host look_at_clocks(const struct node *n)
{
	struct timespec wall;

	clock_gettime(CLOCK_REALTIME, &wall);
	return (struct pool_host){
	    .wall_ms = (uint64_t)wall.tv_sec * 1000 + (uint64_t)wall.tv_nsec / 1000000,
	    .clock_ms = worker_now_us(&n->worker) / 1000,
	    .boot = host_boot(),
	};
}

static int go_on_with_time(struct node *n, struct error_out e)
{
	struct pool_host host = look_at_clocks(n);
	int status = pool_time_take_over(&n->worker, &host);

	return status ? REFUSE(e, status, "%s: going on with its time: %s", n->where,
			       status_sentence(status))
		      : 0;
}

/* Whoever ends from here on and before node_ready() without saying so was killed, or crashed. */
static int count_start(struct node *n, struct error_out e)
{
	struct fab_op op = fab_faa(FAB_CONTROL, offsetof(struct layout_superblock, starts), 1);
	int status = flow_run(&n->worker, &op, 1);

	if (status)
		return REFUSE(e, status, "%s: counting starts: %s", n->where,
			      status_sentence(status));
	n->starts = op.old;
	return 0;
}

static int end_of_start(struct node *n)
{
	static const uint64_t none;
	struct fab_op op =
	    fab_write(FAB_CONTROL, offsetof(struct layout_superblock, starts), &none, 8);

	return flow_run(&n->worker, &op, 1);
}

static int take_over(struct node *n, struct error_out e)
{
	int status = attach(n, 0, e);

	if (!status)
		status = count_start(n, e);
	if (!status)
		status = go_on_with_time(n, e);
	if (!status)
		status = raise_epoch(n, e);
	if (!status)
		status = open_pool(n, e);
	n->is_warm = true;
	return status;
}

static int format(struct node *n, const struct plan *plan, struct error_out e)
{
	uint64_t pool_id;
	int status = attach(n, SHM_MAP_RESERVED, e);

	if (status)
		return status;
	if (getrandom(&pool_id, sizeof(pool_id), 0) != (ssize_t)sizeof(pool_id))
		return REFUSE(e, FORGE_E_SYSTEM, "%s: the kernel has no random number for its id",
			      n->where);
	struct pool_host host = look_at_clocks(n);
	struct layout_time time = pool_time_new(&host);

	status = pool_format_timed(&n->worker, plan, pool_id, &time);
	if (status)
		return REFUSE(e, status, "%s: formatting: %s", n->where, status_sentence(status));
	return open_pool(n, e);
}

static int create(struct node *n, const struct plan *plan, struct error_out e)
{
	struct layout_superblock first = pool_unmade();
	char ignored[256];
	int status = shm_hold_create(n->where, plan->pool_bytes, ALIVE_NODE_BYTE, &first,
				     sizeof(first), e.text, e.bytes, &n->hold);

	if (status == FORGE_E_POOL_EXISTS || status == FORGE_E_AGAIN)
		return REFUSE(e, FORGE_E_AGAIN,
			      "another node is creating %s: let it, or choose another name",
			      n->where);
	if (status)
		return status;
	status = format(n, plan, e);
	if (status)
		shm_hold_unlink(n->hold, ignored, sizeof(ignored));
	return status;
}

static int check_same_plan(const struct node *n, const struct plan *there, const struct plan *want,
			   struct error_out e)
{
	if (memcmp(there, want, sizeof(*there)) == 0)
		return 0;
	return REFUSE(e, FORGE_E_POOL_EXISTS,
		      "%s exists with another plan (%" PRIu64 " bytes, policy %s, %u chunks of %u "
		      "bytes, groups of %u, at most %u objects, %u compute nodes): leave the "
		      "options of the plan out to "
		      "serve it as it is, or replace it with --force",
		      n->where, there->pool_bytes, there->policy, there->chunk_count,
		      there->chunk_bytes, plan_expected_objects(there), there->group_objects,
		      there->cn_max);
}

/* The plan in the superblock, if it can be believed, whatever became of the rest. */
static bool peek_plan(const struct node *n, struct plan *out)
{
	struct layout_superblock sb;
	char reason[128];

	if (shm_hold_peek(n->hold, &sb, sizeof(sb)) != sizeof(sb) || sb.magic != LAYOUT_MAGIC ||
	    sb.version != LAYOUT_VERSION || sb.fingerprint != layout_fingerprint() ||
	    sb.plan_checksum != hash_checksum(0, &sb.plan, sizeof(sb.plan)) ||
	    plan_valid(&sb.plan, reason, sizeof(reason)))
		return false;
	*out = sb.plan;
	return true;
}

static int replace(struct node *n, const struct plan *plan, struct error_out e)
{
	int status = shm_hold_unlink(n->hold, e.text, e.bytes);

	shm_hold_close(n->hold);
	n->hold = NULL;
	return status ? status : create(n, plan, e);
}

/* The same plan, nothing in it; who is attached keeps the old memory. */
static int start_empty(struct node *n, struct error_out e)
{
	struct plan plan = n->pool.plan;

	fab_close(n->fab);
	alive_close(n->alive);
	shm_map_close(n->map);
	n->fab = NULL;
	n->alive = NULL;
	n->map = NULL;
	n->is_warm = false;
	return replace(n, &plan, e);
}

/* Whoever made it died at that: this node has its lock, which the maker has before the first byte.
 */
static bool is_unmade(const struct node *n)
{
	struct layout_superblock sb;
	size_t bytes = shm_hold_peek(n->hold, &sb, sizeof(sb));

	return bytes == 0 || (bytes == sizeof(sb) && pool_is_unmade(&sb));
}

/* There is nothing in it that could be lost. */
static int make_again(struct node *n, const struct node_wish *wish, const struct plan *plan,
		      struct error_out e)
{
	if (!wish->plan_given)
		return REFUSE(e, FORGE_E_NOT_A_POOL,
			      "%s: the memory node that was making it ended before it was ready: "
			      "add --size to make it",
			      n->where);
	snprintf(n->story, sizeof(n->story),
		 "%s: the memory node that was making it ended before it was ready; started empty",
		 n->where);
	return replace(n, plan, e);
}

/* It cannot be served, for that reason. */
static int open_damaged(struct node *n, const struct node_wish *wish, const struct plan *plan,
			int status, const char *reason, struct error_out e)
{
	struct plan old;

	if (wish->on_damage == NODE_DAMAGE_REFUSE)
		return REFUSE(e, status,
			      "%s; to replace it, add --force, or --on-damage empty for good",
			      reason);
	if (!wish->plan_given) {
		if (!peek_plan(n, &old))
			return REFUSE(e, status,
				      "%s; its plan is lost, too: add --size to start empty",
				      reason);
		plan = &old;
	}
	snprintf(n->story, sizeof(n->story), "%s; started empty", reason);
	return replace(n, plan, e);
}

/* There is something of that name, and this node holds it. */
static int open_existing(struct node *n, const struct node_wish *wish, const struct plan *plan,
			 struct error_out e)
{
	struct pool there;
	char reason[512];
	int status;

	if (!holds_remains_of_a_pool(n->hold))
		return REFUSE(
		    e, FORGE_E_NOT_A_POOL,
		    "%s is not a FORGE pool, and is not overwritten: choose another name, "
		    "or remove it yourself if nobody needs it",
		    n->where);
	if (wish->force)
		return replace(n, plan, e);
	if (is_unmade(n))
		return make_again(n, wish, plan, e);
	status = node_inspect(n->where, &there, reason, sizeof(reason));
	if (status)
		return open_damaged(n, wish, plan, status, reason, e);
	if (wish->plan_given)
		status = check_same_plan(n, &there.plan, plan, e);
	if (!status)
		status = take_over(n, e);
	if (status || n->starts < NODE_STARTS_MAX || wish->on_damage == NODE_DAMAGE_REFUSE)
		return status;
	snprintf(n->story, sizeof(n->story),
		 "%s: %" PRIu64 " starts in a row ended before they were ready; started empty",
		 n->where, n->starts);
	return start_empty(n, e);
}

static int open_node(struct node *n, const struct node_wish *wish, struct error_out e)
{
	struct plan plan;
	char reason[256];
	int status = 0;

	if (wish->plan_given && plan_make(&wish->plan, &plan, reason, sizeof(reason)))
		return REFUSE(e, FORGE_E_INVAL, "%s cannot be planned: %s", n->where, reason);
	if (wish->force && !wish->plan_given)
		return REFUSE(e, FORGE_E_INVAL, "%s: --force makes a new pool, which needs --size",
			      n->where);
	status = shm_hold_open(n->where, ALIVE_NODE_BYTE, e.text, e.bytes, &n->hold);
	if (!status)
		return open_existing(n, wish, &plan, e);
	if (status == FORGE_E_AGAIN)
		return REFUSE(e, status,
			      "another node serves %s: stop it first, or choose another name",
			      n->where);
	if (status != FORGE_E_POOL_ABSENT)
		return status;
	if (!wish->plan_given)
		return REFUSE(e, FORGE_E_POOL_ABSENT,
			      "there is no pool %s to serve: check the name, or give --size to "
			      "create it",
			      n->where);
	return create(n, &plan, e);
}

int node_open(const struct node_wish *wish, struct node **out, char *error_text, size_t error_bytes)
{
	struct error_out e = {error_text, error_bytes};
	struct node *n = calloc(1, sizeof(*n) + strlen(wish->where) + 1);

	if (!n)
		return REFUSE(e, FORGE_E_NO_MEMORY, "%s", status_sentence(FORGE_E_NO_MEMORY));
	strcpy(n->name, wish->where);
	n->where = n->name;
	int status = open_node(n, wish, e);

	if (status) {
		char ignored[256];

		node_close(n, true, ignored, sizeof(ignored));
		return status;
	}
	*out = n;
	return 0;
}

int node_close(struct node *n, bool keep, char *error_text, size_t error_bytes)
{
	int status = 0;

	if (!n)
		return 0;
	/* In good order, if not ready: not one of the starts that were cut off. */
	if (n->is_warm && !n->is_ready && n->fab)
		end_of_start(n);
	fab_close(n->fab);
	alive_close(n->alive);
	shm_map_close(n->map);
	if (!keep && n->hold)
		status = shm_hold_unlink(n->hold, error_text, error_bytes);
	shm_hold_close(n->hold);
	free(n);
	return status;
}

const struct pool *node_pool(const struct node *n)
{
	return &n->pool;
}

const struct shm_map *node_map(const struct node *n)
{
	return n->map;
}

const char *node_where(const struct node *n)
{
	return n->where;
}

bool node_is_warm(const struct node *n)
{
	return n->is_warm;
}

int node_recover(struct node *n, struct recover_report *report, uint32_t *dead_count)
{
	*report = (struct recover_report){0};
	return recover_dead_open(&n->pool, &n->worker, alive_liveness(n->alive), report,
				 dead_count);
}

int node_sweep_parts(struct node *n, uint64_t *freed)
{
	struct recover_report report = {0};
	struct recover *r;
	uint64_t counted;
	struct fab_op op =
	    fab_read(FAB_CONTROL, plan_part_chunks_address(&n->pool.plan), &counted, 8);
	int status = flow_run(&n->worker, &op, 1);

	*freed = 0;
	if (status || counted == 0)
		return status;
	status = recover_create(&n->pool, &n->worker, &r);
	if (status)
		return status;
	status = recover_parts(r, &n->worker, &report);
	*freed = report.parts_freed;
	recover_destroy(r);
	return status;
}

int node_repair(struct node *n, struct recover_report *report, uint32_t *dead_count)
{
	*report = (struct recover_report){0};
	return recover_repair(&n->pool, &n->worker, alive_liveness(n->alive), report, dead_count);
}

int node_stamp_time(struct node *n)
{
	return pool_time_stamp(&n->worker, &n->pool);
}

uint32_t node_attached_count(struct node *n)
{
	uint32_t count = 0;

	for (uint32_t cn = 0; cn < n->pool.plan.cn_max; cn++)
		count += alive_is_held(n->alive, cn) == 1;
	return count;
}

const char *node_story(const struct node *n)
{
	return n->story;
}

int node_ready(struct node *n)
{
	n->is_ready = true;
	return end_of_start(n);
}

static MAY_WAIT int mend(struct node *n, const char *reason, struct error_out e)
{
	struct rebuild_report done = {0};
	struct check_report after;
	char text[512];
	int status = mend_pool(&n->worker, &n->pool, &done, &after);

	if (status == FORGE_E_CORRUPT) {
		snprintf(n->story, sizeof(n->story), "%s; it cannot be repaired; started empty",
			 reason);
		return start_empty(n, e);
	}
	if (status)
		return REFUSE(e, status, "%s: repairing: %s", n->where, status_sentence(status));
	rebuild_report_print(&done, text, sizeof(text));
	snprintf(n->story, sizeof(n->story), "%s; repaired: %s", reason, text);
	return 0;
}

/* Nobody else is there. */
static MAY_WAIT int settle_alone(struct node *n, const struct node_wish *wish, struct error_out e)
{
	struct check_finding first;
	char reason[320];
	int status = mend_is_needed(&n->worker, &n->pool, &first);

	if (status == 0)
		return 0;
	if (status != FORGE_E_CORRUPT)
		return REFUSE(e, status, "%s: checking it: %s", n->where, status_sentence(status));
	snprintf(reason, sizeof(reason), "%s is damaged (%s at %" PRIu64 ": %s)", n->where,
		 check_rule_name(first.rule), first.address, first.text);
	switch (wish->on_damage) {
	case NODE_DAMAGE_REPAIR:
		return mend(n, reason, e);
	case NODE_DAMAGE_EMPTY:
		snprintf(n->story, sizeof(n->story), "%s; started empty", reason);
		return start_empty(n, e);
	default:
		return REFUSE(e, status,
			      "%s: look at it with 'forge check', mend it with 'forge check "
			      "--repair' or --on-damage repair, or start with --on-damage empty",
			      reason);
	}
}

int node_settle(struct node *n, const struct node_wish *wish, char *error_text, size_t error_bytes)
{
	struct error_out e = {error_text, error_bytes};
	uint32_t cn_max = n->pool.plan.cn_max;

	if (!n->is_warm)
		return 0;
	if (alive_hold_all(n->alive, cn_max))
		return 0;
	int status = settle_alone(n, wish, e);

	/* The new pool's locks, if it was replaced, nobody has taken. */
	if (n->alive)
		alive_release_all(n->alive, cn_max);
	return status;
}
