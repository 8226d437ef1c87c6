/*
 * world_examine.c: is the pool in order when nothing moves?  The pool checker looks at what lies
 * in memory; here are added what only the compute nodes know, and the hotness rows.
 */
#include <stdio.h>
#include <string.h>

#include "cache_world.h"
#include "check/check.h"
#include "pool/object.h"

struct exam {
	const struct cache_world *cw;
	const struct plan *p;
	const uint8_t *memory;
	const struct sim *s;
	bool killed; /* some CN: what it left behind is no fault */
	uint32_t findings;
	char *why;
	size_t why_bytes;
};

#define FAULT(e, ...) (snprintf((e)->why, (e)->why_bytes, __VA_ARGS__), FORGE_E_CORRUPT)

static uint64_t word_at(const struct exam *e, uint64_t raddr)
{
	uint64_t word;

	memcpy(&word, e->memory + raddr, 8);
	return word;
}

static uint64_t chunk_word(const struct exam *e, uint32_t chunk)
{
	return word_at(e, plan_chunk_word_address(e->p, chunk));
}

/* Who has the chunk in hand? */
static bool in_hand(const struct exam *e, uint32_t chunk, uint64_t word)
{
	for (uint32_t i = 0; i < e->cw->cn_count; i++) {
		const struct lane *lane = &e->cw->lanes[i];

		if (!world_cn_lives(e->cw, e->s, i) || chunk_owner(word) != e->cw->cns[i].member.cn)
			continue;
		for (uint32_t k = 0; k < lane->reserve_count; k++)
			if (chunk_state(word) == CHUNK_RESERVED &&
			    lane->reserve[k].chunk == chunk &&
			    lane->reserve[k].generation == chunk_generation(word))
				return true;
		if (lane->has_spare && chunk_state(word) == CHUNK_RESERVED &&
		    lane->spare.chunk == chunk && lane->spare.generation == chunk_generation(word))
			return true;
		for (uint32_t k = 0; k < LANE_GROUPS_MAX; k++)
			if (chunk_state(word) == CHUNK_OPEN &&
			    lane->groups[k].state == OPEN_FILLING &&
			    lane->groups[k].in_flight == 0 && lane->groups[k].word == word)
				return true;
	}
	return false;
}

/* What the table says is in a CN's hand must be, and the other way round. */
static int check_hands(const struct exam *e)
{
	uint32_t held = 0, owned = 0;

	for (uint32_t chunk = 0; chunk < e->p->chunk_count; chunk++) {
		uint64_t word = chunk_word(e, chunk);
		uint32_t state = chunk_state(word);

		if (state == CHUNK_QUEUED || state == CHUNK_FREE || state == CHUNK_PART)
			continue;
		if (!in_hand(e, chunk, word))
			return FAULT(e, "chunk %u is lost: in nobody's hand, word %016llx", chunk,
				     (unsigned long long)word);
		owned++;
	}
	for (uint32_t i = 0; i < e->cw->cn_count; i++) {
		if (!world_cn_lives(e->cw, e->s, i))
			continue;
		held += e->cw->lanes[i].reserve_count + e->cw->lanes[i].has_spare;
		for (uint32_t k = 0; k < LANE_GROUPS_MAX; k++)
			held += e->cw->lanes[i].groups[k].state != OPEN_UNUSED;
	}
	if (held != owned)
		return FAULT(e, "lanes hold %u chunks, the table says %u", held, owned);
	return 0;
}

/* The rows of the groups that are queued: no counter may be near its end. */
static int check_rows(const struct exam *e)
{
	for (uint32_t ring = 0; ring < RING_QUEUES; ring++) {
		uint64_t head = word_at(e, plan_head_address(e->p, ring));
		uint64_t tail = word_at(e, plan_tail_address(e->p, ring));

		for (uint64_t p = head; p < tail && p < head + e->p->ofm_rows; p++) {
			uint64_t node = word_at(e, plan_ring_node_address(e->p, ring, p));

			if (node_state(node) != NODE_FULL)
				continue; /* nobody's */
			for (uint64_t sn = 0; sn < e->p->ofm_row_bytes; sn++) {
				uint8_t count = e->memory[plan_ofm_row_address(e->p, ring, p) + sn];

				if (count > e->cw->rows_max)
					return FAULT(e,
						     "counter %llu of position %llu in ring %u "
						     "is %u",
						     (unsigned long long)sn, (unsigned long long)p,
						     ring, count);
			}
		}
	}
	return 0;
}

static void keep_first(void *context, const struct check_finding *f)
{
	struct exam *e = context;

	if (e->findings++ == 0)
		snprintf(e->why, e->why_bytes, "%s: %s", check_rule_name(f->rule), f->text);
}

static int check_all(struct exam *e, struct sim *s, uint64_t dead_cns)
{
	struct check_options options = {
	    .crashed = e->killed, .uncounted = 1, .dead_cns = {dead_cns}};
	struct check_report report;
	int status = check_pool(sim_observer(s), &e->cw->pool, &options, &report, keep_first, e);

	if (status)
		return FAULT(e, "the checker says %s", status_name(status));
	if (!e->findings && !e->killed && report.objects_broken)
		return FAULT(e, "%llu large objects lost parts although nobody died",
			     (unsigned long long)report.objects_broken);
	return e->findings ? FORGE_E_CORRUPT : 0;
}

/*
 * Every change of an index word was counted by who made it: what the workers stored, less what
 * they saw leave, is what the index holds.  Who was killed may have made one change, at most as
 * many as a batch has, that it did not live to count.
 */
static int check_words(const struct exam *e)
{
	struct layout_stats line = {0};
	struct stats_sum sum = {0};
	uint64_t words = 0, killed = 0;

	for (uint64_t slot = 0; slot < plan_slot_count(e->p); slot++)
		words += (uint64_t)index_is_object(word_at(e, plan_slot_address(e->p, slot)));
	for (uint32_t i = 0; i < e->cw->worker_count; i++) {
		memcpy(line.count, e->cw->workers[i].cache.tally.count, sizeof(line.count));
		stats_add(&sum, &line);
	}
	for (uint32_t i = 0; i < e->cw->cn_count; i++) {
		memcpy(line.count, e->cw->visitors[i].tally.count, sizeof(line.count));
		stats_add(&sum, &line);
	}
	for (uint32_t i = 0; i < e->cw->worker_count; i++)
		killed += sim_cn_is_killed(e->s, e->cw->spec->workers[i].cn);
	uint64_t present = stats_present(&sum);
	uint64_t off = present > words ? present - words : words - present;

	if (off > killed && pool_rule(&e->cw->pool, RULE_SLOT_CAS_EXACT))
		return FAULT(e, "%llu words stored, %llu left, but %llu in the index",
			     (unsigned long long)sum.stored, (unsigned long long)sum.left,
			     (unsigned long long)words);
	return 0;
}

/* Does the dead map name that member, or a CN that lives believe that it is dead? */
static bool taken_for_dead(const struct exam *e, uint32_t chunk, uint32_t generation, uint32_t sn)
{
	uint64_t words[LAYOUT_DEAD_WORDS_MAX];

	memcpy(words, e->memory + plan_dead_address(e->p, chunk), 8 * plan_dead_words(e->p));
	for (uint32_t i = 0; i < e->cw->cn_count; i++)
		if (world_cn_lives(e->cw, e->s, i) &&
		    cn_is_dead(&e->cw->cns[i], chunk, generation, sn))
			return true;
	if (pool_rule(&e->cw->pool, RULE_DEAD_OF_THIS_LIFE))
		return dead_words_name(words, generation, sn);
	return words[sn / DEAD_WORD_MEMBERS] >> (sn % DEAD_WORD_MEMBERS) & 1;
}

/* Nobody takes what a slot points to for dead: it would be left behind when its group moves. */
static int check_dead(const struct exam *e)
{
	for (uint64_t slot = 0; slot < plan_slot_count(e->p); slot++) {
		uint64_t word = word_at(e, plan_slot_address(e->p, slot));

		if (!index_is_object(word) ||
		    plan_chunk_of_pointer(e->p, index_pointer(word)) >= e->p->chunk_count)
			continue;
		uint32_t chunk = plan_chunk_of_pointer(e->p, index_pointer(word));
		uint32_t generation = chunk_generation(chunk_word(e, chunk));
		const struct layout_object *h =
		    object_header(e->memory + index_object_address(word));

		if (index_generations_behind(e->p, word, generation) == 0 &&
		    h->generation == generation && h->sn < e->p->group_objects &&
		    taken_for_dead(e, chunk, generation, h->sn))
			return FAULT(e, "slot %llu points to SN %u of chunk %u, taken for dead",
				     (unsigned long long)slot, h->sn, chunk);
	}
	return 0;
}

static struct exam exam_of(const struct cache_world *cw, struct sim *s, char *why, size_t why_bytes)
{
	return (struct exam){.cw = cw,
			     .p = &cw->pool.plan,
			     .memory = sim_memory(s),
			     .s = s,
			     .why = why,
			     .why_bytes = why_bytes};
}

/* By the locks, if there are any: an id may have been joined again since its owner was killed. */
static uint64_t dead_cns(const struct exam *e)
{
	uint64_t dead = 0;

	for (uint32_t id = 0; id < e->p->cn_max && e->cw->spec->recovers; id++)
		if (registry_state(word_at(e, plan_registry_address(e->p, id))) != REGISTRY_FREE &&
		    !sim_locks_is_held(&e->cw->locks, id))
			dead |= UINT64_C(1) << id;
	for (uint32_t i = 0; i < e->cw->cn_count && !e->cw->spec->recovers; i++)
		if (sim_cn_is_killed(e->s, i))
			dead |= UINT64_C(1) << e->cw->cns[i].member.cn;
	return dead;
}

int world_examine(const struct cache_world *cw, struct sim *s, char *why, size_t why_bytes)
{
	struct exam e = exam_of(cw, s, why, why_bytes);

	for (uint32_t i = 0; i < cw->cn_count; i++)
		e.killed = e.killed || sim_cn_is_killed(s, i);
	int status = check_rows(&e);

	if (!status && !e.killed)
		status = check_hands(&e);
	if (!status)
		status = check_words(&e);
	if (!status)
		status = check_dead(&e);
	return status ? status : check_all(&e, s, dead_cns(&e));
}

int world_examine_recovered(const struct cache_world *cw, struct sim *s, char *why,
			    size_t why_bytes)
{
	struct exam e = exam_of(cw, s, why, why_bytes);
	int status = check_rows(&e);

	if (!status && dead_cns(&e))
		status = FAULT(&e, "compute nodes are dead and not recovered: ids %llx",
			       (unsigned long long)dead_cns(&e));
	if (!status)
		status = check_hands(&e);
	if (!status)
		status = check_words(&e);
	if (!status)
		status = check_dead(&e);
	return status ? status : check_all(&e, s, 0);
}
