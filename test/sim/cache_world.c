/*
 * cache_world.c: the bridge between the scheduler and the cache; see cache_world.h.
 *
 * Building, resetting and examining; what workers do is in world_ops.c.  Nothing is allocated
 * once the world is built: reset copies the local state back to where it was.
 */
#include "cache_world.h"

#include <ctype.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "pool/object.h"

#define OBJECT_BYTES (WORLD_VALUE_WORDS * 8 + 8)

uint32_t world_key_index(char letter)
{
	assert(isalpha((unsigned char)letter));
	return islower((unsigned char)letter) ? (uint32_t)(letter - 'a')
					      : 26 + (uint32_t)(letter - 'A');
}

struct cache_key world_key(const struct cache_world *cw, uint32_t key_index)
{
	const char *text = cw->key_text[key_index];

	return (struct cache_key){text, (uint32_t)strlen(text)};
}

static bool is_late(const struct cache_world *cw, uint32_t cn)
{
	return cw->spec->late >> cn & 1;
}

bool world_is_attached(const struct cache_world *cw, uint32_t cn)
{
	return !cw->left[cn] && (!is_late(cw, cn) || cw->joined[cn]);
}

static bool is_elsewhere(uint32_t letter)
{
	return letter >= 'n' - 'a';
}

/*
 * One fingerprint per letter, two keys of each.  The home is bucket 0, or beyond bucket 1 for
 * the later letters.
 */
static void choose_keys(struct cache_world *cw)
{
	const struct plan *p = &cw->pool.plan;
	uint32_t candidate = 0;

	for (uint32_t letter = 0; letter < 26; letter++) {
		int fingerprint = -1;

		for (uint32_t twin = 0; twin < 2; candidate++) {
			char text[8];
			struct index_home home;
			bool taken = false;

			snprintf(text, sizeof(text), "%c%u", 'a' + letter, candidate % 100000);
			home = index_locate(p, text, (uint32_t)strlen(text));
			for (uint32_t i = 0; i < letter && twin == 0; i++)
				taken = taken || index_locate(p, cw->key_text[i],
							      (uint32_t)strlen(cw->key_text[i]))
							 .fingerprint == home.fingerprint;
			if (is_elsewhere(letter) != (home.bucket > 1) ||
			    (home.bucket && !is_elsewhere(letter)) || taken ||
			    (twin == 1 && (int)home.fingerprint != fingerprint))
				continue;
			fingerprint = (int)home.fingerprint;
			memcpy(cw->key_text[letter + 26 * twin], text, sizeof(text));
			twin++;
		}
	}
}

/* --- set-up ---------------------------------------------------------------------------------- */

static int save(struct cache_world *cw, void *live, size_t bytes)
{
	struct world_saved *s = &cw->saved[cw->saved_count];

	assert(cw->saved_count < WORLD_SAVED_MAX);
	*s = (struct world_saved){.live = live, .image = malloc(bytes), .bytes = bytes};
	if (!s->image)
		return FORGE_E_NO_MEMORY;
	memcpy(s->image, live, bytes);
	cw->saved_count++;
	return 0;
}

/* Everything a CN knows; see cn_memory_create() and lane_init(). */
static int save_cn(struct cache_world *cw, uint32_t i)
{
	const struct plan *p = &cw->pool.plan;
	struct cn *cn = &cw->cns[i];
	const struct {
		void *live;
		size_t bytes;
	} parts[] = {
	    {cn, sizeof(*cn)},
	    {(void *)cn->map, p->chunk_count * sizeof(*cn->map)},
	    {(void *)cn->lives, (size_t)p->chunk_count * CN_LIVES * sizeof(*cn->lives)},
	    {(void *)cn->ofm, (size_t)p->chunk_count * p->ofm_row_bytes},
	    {(void *)cn->dead, (size_t)p->chunk_count * cn->dead_words * sizeof(*cn->dead)},
	    {(void *)cn->news, (size_t)p->chunk_count * cn->dead_words * sizeof(*cn->news)},
	    {(void *)cn->members, p->chunk_count * sizeof(*cn->members)},
	    {(void *)cn->asleep, p->cn_max * sizeof(*cn->asleep)},
	    {(void *)cn->mirror[0], p->ring_nodes * sizeof(*cn->mirror[0])},
	    {(void *)cn->mirror[1], p->ring_nodes * sizeof(*cn->mirror[1])},
	    {&cw->lanes[i], sizeof(cw->lanes[i])},
	    {&cw->visitors[i], sizeof(cw->visitors[i])},
	    {&cw->visitors[i].tally, sizeof(cw->visitors[i].tally)},
	    {cw->lanes[i].memory,
	     LANE_GROUPS_MAX * (p->group_objects * sizeof(uint64_t) + p->ofm_row_bytes)},
	};

	/* Of one that is not there yet, that it is not. */
	if (is_late(cw, i))
		return save(cw, cn, sizeof(*cn)) || save(cw, &cw->lanes[i], sizeof(cw->lanes[i]))
			   ? FORGE_E_NO_MEMORY
			   : save(cw, &cw->visitors[i], sizeof(cw->visitors[i]));
	for (unsigned k = 0; k < ARRAY_COUNT(parts); k++)
		if (save(cw, parts[k].live, parts[k].bytes))
			return FORGE_E_NO_MEMORY;
	return 0;
}

static void put_word(uint8_t *memory, uint64_t raddr, uint64_t word)
{
	memcpy(memory + raddr, &word, 8);
}

/* As formatted, but as if the rings and the chunks had been in use for long. */
static void age(const struct cache_world *cw, uint8_t *memory)
{
	const struct plan *p = &cw->pool.plan;
	uint64_t first = cw->spec->first_position;
	uint32_t generation = cw->spec->first_generation ? cw->spec->first_generation : 1;

	for (uint32_t ring = 0; ring < RING_COUNT; ring++) {
		uint64_t filled = ring == RING_FREE ? p->chunk_count : 0;

		put_word(memory, plan_head_address(p, ring), first);
		put_word(memory, plan_tail_address(p, ring), first + filled);
		for (uint64_t i = 0; i < p->ring_nodes; i++) {
			uint64_t cycle = plan_ring_cycle(p, first + i);

			put_word(memory, plan_ring_node_address(p, ring, first + i),
				 i < filled ? node_pack_full(cycle, (uint32_t)i, generation, 1, 0)
					    : node_pack_empty(cycle));
		}
	}
	for (uint32_t chunk = 0; chunk < p->chunk_count; chunk++)
		put_word(memory, plan_chunk_word_address(p, chunk),
			 chunk_pack_free(generation, first + chunk));
}

int world_open_cn(struct cache_world *cw, struct worker *w, uint32_t i)
{
	const struct world_spec *spec = cw->spec;
	struct layout_registry lines[LAYOUT_CN_MAX];
	struct cn_options options = {
	    /* Without an interval: longer than any run. */
	    .poll_interval_us = spec->poll_interval_us ? spec->poll_interval_us : 100000000,
	    .map_trust_us = spec->map_trust_us ? spec->map_trust_us : 1000000000,
	    .open_groups = spec->open_groups,
	    .flush_trust_us = 1000000000,
	    .flush_every_op = spec->timed,
	    .alive = spec->recovers ? sim_locks_liveness(&cw->locks, i) : NULL,
	};

	for (uint32_t k = 0; k < cw->worker_count; k++)
		options.worker_count += spec->workers[k].cn == i;
	int status = cn_open(&cw->cns[i], &cw->pool, cw->policy, w, &options, 100 + i, lines);

	if (status)
		return status;
	status = lane_init(&cw->lanes[i], &cw->cns[i]);
	if (!status)
		status = cache_init(&cw->visitors[i], w, &cw->cns[i], &cw->lanes[i]);
	for (uint32_t k = 0; k < cw->worker_count && !status; k++)
		if (spec->workers[k].cn == i)
			status = cache_init(&cw->workers[k].cache, w, &cw->cns[i], &cw->lanes[i]);
	return status;
}

static int open_cns(struct cache_world *cw, struct worker *w)
{
	int status = 0;

	for (uint32_t i = 0; i < cw->cn_count && !status; i++)
		if (!is_late(cw, i))
			status = world_open_cn(cw, w, i);
	for (uint32_t i = 0; i < cw->worker_count; i++)
		cw->workers[i].script = cw->spec->workers[i].text;
	return status;
}

/*
 * Whoever has not flushed is waited for, with pauses, which end when nobody else can run: a
 * sleeper would always be woken.  So each CN takes the others for asleep until they publish.
 */
static void take_for_asleep(struct cache_world *cw)
{
	for (uint32_t i = 0; i < cw->cn_count; i++)
		for (uint32_t k = 0; k < cw->cn_count && !is_late(cw, i); k++)
			for (uint32_t ring = 0; ring < RING_QUEUES && !is_late(cw, k); ring++)
				cw->cns[i].asleep[cw->cns[k].member.cn][ring] =
				    cw->cns[k].flushed[ring] + 1;
}

static int world_setup(void *context, uint8_t *memory, struct worker *w)
{
	struct cache_world *cw = context;
	struct plan plan = cw->pool.plan;
	rule_set rules_off = cw->pool.rules_off;
	char error[256];
	if (cw->spec->timed)
		w->clock = &cw->clock;
	int status = pool_format(w, &plan, 7);

	if (!status)
		status = pool_open(w, &cw->pool, error, sizeof(error));
	choose_keys(cw);
	sim_locks_init(&cw->locks, sim_of(w));
	cw->pool.impatient = cw->spec->impatient;
	cw->pool.rules_off = rules_off;
	if (!status)
		age(cw, memory);
	if (!status)
		status = open_cns(cw, w);
	cw->pool.rules_off = 0;
	for (unsigned i = 0; i < WORLD_BEFORE_MAX && cw->spec->before[i].text && !status; i++)
		status = world_visit(cw, w, cw->spec->before[i].cn, cw->spec->before[i].text);
	for (uint32_t i = 0; i < cw->cn_count && !status; i++)
		if (!is_late(cw, i))
			status = world_visit(cw, w, i, "Y");
	for (uint32_t i = 0; i < cw->cn_count; i++) {
		/* What each learns at its first eviction. */
		atomic_store(&cw->cns[i].cns_live, cw->cn_count);
		/* Who has just looked for the dead does so no more in a run. */
		if (!(cw->spec->vigilant >> i & 1))
			atomic_store(&cw->cns[i].recovered_ns, clock_now_ns(w->clock));
	}
	if (!cw->spec->flush_waits)
		take_for_asleep(cw);
	cw->pool.rules_off = rules_off;
	if (!status && cw->spec->prepare)
		cw->spec->prepare(cw, memory);
	for (uint32_t i = 0; i < cw->cn_count && !status; i++)
		status = save_cn(cw, i);
	for (uint32_t i = 0; i < cw->worker_count && !status; i++) {
		status = save(cw, &cw->workers[i], sizeof(cw->workers[i]));
	}
	if (!status)
		status = save(cw, &cw->locks, sizeof(cw->locks));
	if (!status)
		status = save(cw, cw->left, sizeof(cw->left));
	return status;
}

static void world_reset(void *context, struct sim *s)
{
	struct cache_world *cw = context;

	world_forget_joined(cw);
	for (uint32_t i = 0; i < cw->saved_count; i++)
		memcpy(cw->saved[i].live, cw->saved[i].image, cw->saved[i].bytes);
	for (uint32_t i = 0; i < cw->worker_count; i++)
		cw->workers[i].cache.worker = sim_worker_at(s, i);
	cw->status = 0;
	cw->clock_steps = 0;
	sim_lin(s)->exact = cw->spec->exact;
	sim_lin(s)->timed = true;
	if (cw->spec->timed)
		sim_observer(s)->clock = &cw->clock;
	for (uint32_t key = 0; key < WORLD_KEYS; key++)
		if (cw->prefilled[key]) {
			struct worker *w = sim_observer(s);
			uint32_t op = sim_op_begin(w, HIST_SET, key, cw->prefilled[key]);

			sim_op_end(w, op, HIST_OK, cw->prefilled[key]);
		}
}

bool world_find(const struct cache_world *cw, const uint8_t *memory, uint32_t key_index,
		uint64_t *slot, uint64_t *word)
{
	const struct plan *p = &cw->pool.plan;
	struct cache_key key = world_key(cw, key_index);
	struct index_home home = index_locate(p, key.data, key.bytes);

	for (unsigned i = 0; i < LAYOUT_NEIGHBOURHOOD; i++) {
		*slot = index_slot_number(&home, i);
		memcpy(word, memory + plan_slot_address(p, *slot), 8);
		const uint8_t *object = memory + index_object_address(*word);
		uint32_t bytes = index_is_head(*word) ? object_units(object) * LAYOUT_UNIT_BYTES
						      : index_object_bytes(*word);

		if (index_is_object(*word) && index_fingerprint(*word) == home.fingerprint &&
		    object_check(object, bytes, 1) == OBJECT_VALID &&
		    index_generations_behind(p, *word, object_header(object)->generation) == 0 &&
		    object_key_is(object, key.data, key.bytes))
			return true;
	}
	return false;
}

/* --- the end of a run ------------------------------------------------------------------------ */

static void add_counters(struct cache_world *cw)
{
	uint64_t *total = (uint64_t *)&cw->total;

	for (uint32_t i = 0; i < cw->worker_count; i++) {
		const uint64_t *count = (const uint64_t *)&cw->workers[i].cache.count;

		for (unsigned k = 0; k < sizeof(cw->total) / 8; k++)
			total[k] += count[k];
	}
}

/* Every CN that lives Gets every key, with whatever its map says by now. */
static void last_gets(struct cache_world *cw, struct sim *s)
{
	for (uint32_t i = 0; i < cw->cn_count && !cw->status; i++) {
		struct cache *c = &cw->visitors[i];

		c->worker = sim_observer(s);
		for (const char *key = cw->spec->keys; *key && world_cn_lives(cw, s, i); key++)
			world_get(cw, NULL, c, world_key_index(*key));
	}
}

bool world_cn_lives(const struct cache_world *cw, const struct sim *s, uint32_t cn)
{
	return !sim_cn_is_killed(s, cn) && world_is_attached(cw, cn);
}

static int world_check(void *context, struct sim *s, char *why, size_t why_bytes)
{
	struct cache_world *cw = context;
	bool killed = false;
	int status = 0;

	add_counters(cw);
	for (uint32_t i = 0; i < cw->cn_count; i++)
		killed = killed || sim_cn_is_killed(s, i);
	if (!cw->status)
		status = world_examine(cw, s, why, why_bytes);
	if (!cw->status && !status && cw->spec->expect && !killed)
		status = cw->spec->expect(cw, s, why, why_bytes);
	if (!cw->status && !status && cw->spec->recovers)
		status = world_last_recovery(cw, s, why, why_bytes);
	if (status)
		return status;
	last_gets(cw, s);
	if (!cw->status && cw->spec->recovers) {
		status = world_examine_recovered(cw, s, why, why_bytes);
		if (!status)
			status = world_nothing_to_mend(cw, s, why, why_bytes);
	}
	if (!cw->status)
		return status;
	snprintf(why, why_bytes, "%s", cw->why);
	return cw->status;
}

static void world_killed(void *context, uint32_t cn)
{
	struct cache_world *cw = context;

	sim_locks_drop(&cw->locks, cn);
}

static void world_name_region(void *context, uint64_t raddr, char *text, size_t text_bytes)
{
	const struct cache_world *cw = context;
	const struct plan *p = &cw->pool.plan;
	const struct {
		uint64_t start;
		const char *name;
		uint32_t unit;
	} regions[] = {
	    {p->chunks_offset, "chunk", p->chunk_bytes},
	    {p->index_offset, "slot", 8 * p->slot_words},
	    {p->ring_offset[RING_FREE], "free-node", 8},
	    {p->ring_offset[RING_MAIN], "main-node", 8},
	    {p->ring_offset[RING_SMALL], "small-node", 8},
	    {p->chunk_table_offset, "chunk-word", 8},
	    {p->registry_offset, "registry", LAYOUT_REGISTRY_BYTES},
	    {p->ofm_offset[RING_MAIN], "main-row", p->ofm_row_bytes},
	    {p->ofm_offset[RING_SMALL], "small-row", p->ofm_row_bytes},
	    {p->cursors_offset, "cursor", 8},
	    {0, "superblock", 8},
	};

	for (unsigned i = 0; i < ARRAY_COUNT(regions); i++)
		if (raddr >= regions[i].start) {
			uint64_t offset = raddr - regions[i].start;

			snprintf(text, text_bytes, "%s[%llu]+%llu", regions[i].name,
				 (unsigned long long)(offset / regions[i].unit),
				 (unsigned long long)(offset % regions[i].unit));
			return;
		}
}

/* --- building -------------------------------------------------------------------------------- */

static int plan_world(struct cache_world *cw)
{
	const struct world_spec *spec = cw->spec;
	struct plan_wish wish = {
	    .chunk_count = spec->chunk_count,
	    .group_objects = spec->group_objects,
	    .object_bytes = OBJECT_BYTES,
	    .value_bytes_max = spec->parts ? WORLD_PARTS_WORDS * 8 : 0,
	    .slot_words = cw->policy->slot_words,
	    .cn_max = spec->cn_max ? spec->cn_max : cw->cn_count,
	    .slots_per_object = 16,
	    .policy = cw->policy->name,
	};
	char error[256];

	return plan_make(&wish, &cw->pool.plan, error, sizeof(error));
}

int cache_world_build(const struct world_spec *spec, rule_set rules_off, struct cache_world **out,
		      struct sim **sim)
{
	struct cache_world *cw = calloc(1, sizeof(*cw));

	if (!cw)
		return FORGE_E_NO_MEMORY;
	cw->clock = (struct clock){world_now_ns};
	cw->spec = spec;
	cw->policy = policy_find(spec->policy ? spec->policy : "forge");
	cw->pool.rules_off = rules_off | (uint64_t)spec->overlong_evicts << RULE_OVERLONG_SPARED;
	cw->rows_max = 254;
	while (cw->worker_count < WORLD_WORKERS_MAX && spec->workers[cw->worker_count].text) {
		uint8_t cn = spec->workers[cw->worker_count].cn;

		cw->ops.worker_cn[cw->worker_count++] = cn;
		cw->cn_count = (uint32_t)max_u64(cw->cn_count, cn + 1u);
	}
	int status = plan_world(cw);

	cw->ops = (struct sim_world_ops){
	    .name = spec->name,
	    .worker_count = cw->worker_count,
	    .unwinds = spec->recovers,
	    .killed = world_killed,
	    .cn_state_shared = cw->worker_count > cw->cn_count,
	    .memory_bytes = cw->pool.plan.pool_bytes,
	    .history_ops_max = 400,
	    .setup = world_setup,
	    .reset = world_reset,
	    .worker = world_worker,
	    .check = world_check,
	    .name_region = world_name_region,
	};
	for (uint32_t i = 0; i < cw->worker_count; i++)
		cw->ops.worker_cn[i] = spec->workers[i].cn;
	if (!status)
		status = sim_create(&cw->ops, cw, sim);
	if (status)
		cache_world_destroy(cw, NULL);
	else
		*out = cw;
	return status;
}

void cache_world_destroy(struct cache_world *cw, struct sim *s)
{
	if (s)
		sim_unwind(s);
	world_forget_joined(cw);
	/* Where the pointers are may have been changed by runs; the images know. */
	for (uint32_t i = 0; i < cw->saved_count; i++) {
		memcpy(cw->saved[i].live, cw->saved[i].image, cw->saved[i].bytes);
		free(cw->saved[i].image);
	}
	for (uint32_t i = 0; i < cw->cn_count; i++) {
		cn_memory_destroy(&cw->cns[i]);
		lane_fini(&cw->lanes[i]);
		cache_fini(&cw->visitors[i]);
	}
	for (uint32_t i = 0; i < cw->worker_count; i++)
		cache_fini(&cw->workers[i].cache);
	sim_destroy(s);
	free(cw);
}
