/*
 * recover.c: whom to recover, and taking back what is in the name of the dead: the transcript of
 * the argument in recover.h.  What the rings have lost is recover_rings.c's.
 */
#include "pool/recover_inside.h"

#include <stdlib.h>
#include <string.h>

#include "layout/stats.h"
#include "pool/parts.h"

void recover_destroy(struct recover *r)
{
	if (!r)
		return;
	free(r->chunks);
	free(r->nodes);
	free(r->listed);
	free(r->head);
	free(r);
}

int recover_create(const struct pool *pool, struct worker *w, struct recover **out)
{
	size_t chunk_bytes = 8 * (size_t)pool->plan.chunk_count;
	size_t node_bytes = 8 * (size_t)pool->plan.ring_nodes * RING_COUNT;
	struct recover *r = calloc(1, sizeof(*r));
	int status = FORGE_E_NO_MEMORY;

	if (!r)
		return status;
	r->pool = pool;
	r->chunks = malloc(chunk_bytes);
	r->nodes = malloc(node_bytes);
	r->listed = malloc(pool->plan.chunk_count);
	r->head = malloc(pool->plan.chunk_bytes);
	if (r->chunks && r->nodes && r->listed && r->head) {
		status = fab_reg(w->fab, r->chunks, chunk_bytes);
		if (!status)
			status = fab_reg(w->fab, r->nodes, node_bytes);
		if (!status)
			status = fab_reg(w->fab, r->head, pool->plan.chunk_bytes);
	}
	if (status)
		recover_destroy(r);
	else
		*out = r;
	return status;
}

int recover_read_words(struct worker *w, uint64_t raddr, uint64_t *words, uint64_t count)
{
	for (uint64_t done = 0; done < count;) {
		uint64_t part = min_u64(count - done, RECOVER_SWEEP_WORDS);
		struct fab_op op =
		    fab_read(FAB_CONTROL, raddr + 8 * done, words + done, (uint32_t)(8 * part));
		int status = flow_run(w, &op, 1);

		if (status)
			return status;
		done += part;
	}
	return 0;
}

int recover_move_chunk(struct recover *r, struct worker *w, uint32_t ring,
		       const struct ring_entry *entry, uint64_t *done,
		       struct recover_report *report)
{
	struct ring_entry now = *entry;
	uint64_t position;
	int status = 0;

	if (unlikely(!pool_rule(r->pool, RULE_RECOVER_EXACT_WORD))) {
		/* The mutation: whatever the word is by now. */
		struct fab_op op =
		    fab_read(FAB_CONTROL, plan_chunk_word_address(&r->pool->plan, entry->chunk),
			     &now.owned_word, 8);

		status = flow_run(w, &op, 1);
	}
	if (!status)
		status = ring_enqueue(r->pool, w, FAB_CONTROL, ring, &now, &position);

	if (status && status != FORGE_E_AGAIN)
		return status;
	*(status ? &report->races_lost : done) += 1;
	return 0;
}

int recover_free_chunk(struct recover *r, struct worker *w, uint32_t chunk, uint64_t word,
		       uint64_t *done, struct recover_report *report)
{
	static const uint64_t nobody_dead[LAYOUT_DEAD_WORDS_MAX];
	const struct plan *p = &r->pool->plan;
	struct fab_op op = fab_write(FAB_CONTROL, plan_dead_address(p, chunk), nobody_dead,
				     8 * plan_dead_words(p));
	struct ring_entry entry = {
	    .chunk = chunk,
	    .generation = pool_rule(r->pool, RULE_RECOVER_RAISES_GENERATION)
			      ? generation_next(chunk_generation(word))
			      : chunk_generation(word),
	    .object_count = 1,
	    .owned_word = word,
	};
	int status = flow_run(w, &op, 1);

	return status ? status : recover_move_chunk(r, w, RING_FREE, &entry, done, report);
}

static MAY_WAIT int take_back(struct recover *r, struct worker *w, uint32_t chunk,
			      struct recover_report *report)
{
	uint64_t word = r->chunks[chunk];

	switch (chunk_state(word)) {
	case CHUNK_RESERVED:
		return recover_free_chunk(r, w, chunk, word, &report->reserved_freed, report);
	case CHUNK_OPEN:
		return recover_free_chunk(r, w, chunk, word, &report->open_freed, report);
	case CHUNK_EVICTING:
		return recover_free_chunk(r, w, chunk, word, &report->evicting_freed, report);
	default:
		return 0;
	}
}

static int owned_state(uint64_t word)
{
	uint32_t state = chunk_state(word);

	return state == CHUNK_RESERVED || state == CHUNK_OPEN || state == CHUNK_EVICTING;
}

/* Tell the pool how many groups with their objects were lost; a crash before costs the number. */
static MAY_WAIT int count_lost(struct recover *r, struct worker *w, uint32_t dead, uint64_t groups)
{
	struct fab_op op = fab_faa(FAB_CONTROL,
				   plan_stats_address(&r->pool->plan, dead) +
				       offsetof(struct layout_stats, count[STATS_groups_lost]),
				   groups);

	return groups ? flow_run(w, &op, 1) : 0;
}

int recover_parts(struct recover *r, struct worker *w, struct recover_report *report)
{
	struct parts_sweep sweep = {.words = r->chunks, .listed = r->listed, .buffer = r->head};
	int status = parts_sweep(r->pool, w, &sweep);

	report->parts_seen += sweep.found;
	report->parts_freed += sweep.freed;
	report->races_lost += sweep.lost;
	return status;
}

static MAY_WAIT int take_back_all(struct recover *r, struct worker *w, uint32_t dead,
				  struct recover_report *report)
{
	const struct plan *p = &r->pool->plan;
	uint64_t open_before = report->open_freed;
	int status = recover_read_words(w, p->chunk_table_offset, r->chunks, p->chunk_count);

	for (uint32_t chunk = 0; chunk < p->chunk_count && !status; chunk++)
		if (owned_state(r->chunks[chunk]) && chunk_owner(r->chunks[chunk]) == dead)
			status = take_back(r, w, chunk, report);
	return status ? status : count_lost(r, w, dead, report->open_freed - open_before);
}

int recover_cn(struct recover *r, struct worker *w, uint32_t dead, uint64_t id,
	       struct recover_report *report)
{
	struct registry_member member = {.cn = dead, .id = id};
	int line_first = !pool_rule(r->pool, RULE_RECOVER_LINE_LAST);
	int status = line_first ? registry_leave(r->pool, w, &member) : 0;

	if (!status)
		status = take_back_all(r, w, dead, report);
	if (!status)
		status = recover_orphans(r, w, report);
	if (!status)
		status = recover_parts(r, w, report);
	if (status || line_first)
		return status;
	/* Last, when nothing carries the id any more: it may be joined again. */
	return registry_leave(r->pool, w, &member);
}

/* The line says LIVE and nobody had the lock of the id; now we have. */
static MAY_WAIT int recover_held(struct recover *r, struct worker *w, uint32_t cn,
				 struct recover_report *report, uint32_t *dead_count)
{
	uint64_t id;
	struct fab_op op = fab_read(FAB_CONTROL, plan_registry_address(&r->pool->plan, cn), &id, 8);
	int status = flow_run(w, &op, 1);

	/* It may have left in good order, or been recovered, since the line was READ. */
	if (status || registry_state(id) == REGISTRY_FREE)
		return status;
	*dead_count += 1;
	return recover_cn(r, w, cn, id, report);
}

/* Take the lock of the id, which only the dead have lost; *mine: it is to be released. */
static int proven_dead(const struct pool *pool, const struct liveness *alive, uint32_t cn,
		       int *mine)
{
	*mine = alive->hold(alive->context, cn) == 0;
	if (!*mine)
		return !pool_rule(pool, RULE_RECOVER_NEEDS_PROOF);
	if (!pool_rule(pool, RULE_RECOVER_HOLDS_LOCK)) {
		alive->release(alive->context, cn);
		*mine = 0;
	}
	return 1;
}

int recover_dead_open(const struct pool *pool, struct worker *w, const struct liveness *alive,
		      struct recover_report *report, uint32_t *dead_count)
{
	struct layout_registry *lines = calloc(pool->plan.cn_max, sizeof(*lines));
	struct recover *r = NULL;
	int status =
	    lines ? fab_reg(w->fab, lines, pool->plan.cn_max * sizeof(*lines)) : FORGE_E_NO_MEMORY;

	*dead_count = 0;
	if (!status)
		status = registry_read(pool, w, FAB_CONTROL, lines);
	for (uint32_t cn = 0; cn < pool->plan.cn_max && !status; cn++) {
		int mine = 0;

		if (registry_state(lines[cn].id) == REGISTRY_FREE ||
		    !proven_dead(pool, alive, cn, &mine))
			continue;
		if (!r)
			status = recover_create(pool, w, &r);
		if (!status)
			status = recover_held(r, w, cn, report, dead_count);
		if (mine)
			alive->release(alive->context, cn);
	}
	recover_destroy(r);
	free(lines);
	return status;
}

/* Nobody has the lock of the id, now we do: what is in its name belongs to no one. */
static MAY_WAIT int repair_held(struct recover *r, struct worker *w, uint32_t cn,
				struct recover_report *report, uint32_t *dead_count)
{
	uint32_t dead_before = *dead_count;
	int status = recover_held(r, w, cn, report, dead_count);

	return status || *dead_count != dead_before ? status : take_back_all(r, w, cn, report);
}

int recover_repair(const struct pool *pool, struct worker *w, const struct liveness *alive,
		   struct recover_report *report, uint32_t *dead_count)
{
	struct recover *r;
	int status = recover_create(pool, w, &r);

	*dead_count = 0;
	if (status)
		return status;
	for (uint32_t cn = 0; cn < pool->plan.cn_max && !status; cn++) {
		if (alive->hold(alive->context, cn))
			continue;
		status = repair_held(r, w, cn, report, dead_count);
		alive->release(alive->context, cn);
	}
	if (!status)
		status = recover_orphans(r, w, report);
	if (!status)
		status = recover_parts(r, w, report);
	recover_destroy(r);
	return status;
}
