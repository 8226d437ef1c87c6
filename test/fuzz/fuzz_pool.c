/*
 * fuzz_pool.c: compute nodes and the checker on a pool whose memory turns hostile under them.
 *
 * Shows that whatever lies in a pool's memory, no flow crashes, hangs or reads beyond it, that a
 * value that a Get gives is one that was stored under that key, whole, and that the checker ends.
 * A flow is bounded by the verbs it may take (fabric/fault.h counts them) and by an alarm.
 *
 * An input is a program for two compute nodes and a vandal.  The first two bytes choose policy and
 * geometry, then each step is one byte and what it takes from those that follow:
 *	Set, Get, Delete; runs of Sets, which seal groups and evict; polls; leaving and joining;
 *	the checker, in any mode; opening a superblock of which a word is wrong;
 *	damage: a word of any region gets another value, or a live object another header with a
 *	checksum that fits.
 */
#include "fuzz.h"

#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/hash.h"
#include "cache/cache.h"
#include "check/check.h"
#include "fabric/fault.h"
#include "fabric/loop.h"
#include "pool/object.h"

#define NODES	  2u
#define KEYS	  256u
#define VALUE_MAX 900u
#define STEPS_MAX 400u
#define ALARM_S	  20u

/* ---- the input ---------------------------------------------------------------------------- */

static uint32_t take_u16(struct input *in)
{
	uint32_t low = take(in);

	return low | (uint32_t)take(in) << 8;
}

/* ---- the world ---------------------------------------------------------------------------- */

struct node {
	struct fault_plan fault;
	struct fab *fab;
	struct worker worker;
	struct pool pool;
	struct cn cn;
	struct lane lane;
	struct cache cache;
	int attached;
};

struct world {
	uint64_t *words;
	struct plan plan;
	const struct policy *policy;
	struct ticking time;
	struct node nodes[NODES];
	uint64_t verbs_max; /* of one call */
};

/* A call begins: if it takes too many verbs the node is lost, which ended() sees. */
static void begin(struct world *w, struct node *n)
{
	n->fault.lose_at = n->fault.verbs + w->verbs_max;
	alarm(ALARM_S);
}

static void ended(struct node *n, int status)
{
	require(!n->fault.lost, "a flow that does not end");
	require(status == FORGE_MISS || (status <= 0 && status >= FORGE_E_POOL_ABSENT &&
					 status != FORGE_E_NODE && status != FORGE_E_NO_MEMORY),
		"a status that nothing explains");
}

static void attach(struct world *w, struct node *n)
{
	struct layout_registry lines[LAYOUT_CN_MAX];
	struct cn_options options = {.worker_count = 1, .poll_interval_us = 20};
	char text[256];

	if (n->attached)
		return;
	begin(w, n);
	int status = pool_open(&n->worker, &n->pool, text, sizeof(text));

	require(status == 0, "a sound superblock is refused");
	status = cn_open(&n->cn, &n->pool, w->policy, &n->worker, &options, 1, lines);
	ended(n, status);
	if (status)
		return;
	require(lane_init(&n->lane, &n->cn) == 0, "no lane");
	require(cache_init(&n->cache, &n->worker, &n->cn, &n->lane) == 0, "no cache");
	require(cache_count_in_pool(&n->cache) == 0, "no counting");
	n->attached = 1;
}

/* Leave in good order, or, like a process that was killed, not at all. */
static void detach(struct world *w, struct node *n, int in_order)
{
	if (!n->attached)
		return;
	begin(w, n);
	if (in_order)
		ended(n, cache_drain(&n->cache));
	cache_fini(&n->cache);
	lane_fini(&n->lane);
	if (in_order)
		cn_close(&n->cn, &n->worker);
	else
		cn_memory_destroy(&n->cn);
	ended(n, 0);
	n->attached = 0;
}

static void make_world(struct world *w, struct input *in)
{
	static const uint32_t objects[] = {2, 3, 8, 16, 64, 65, 100, 512};
	uint8_t shape = take(in), size = take(in);
	struct plan_wish wish = {
	    .chunk_count = 2 + size % 32,
	    .group_objects = objects[shape >> 1 & 7],
	    .object_bytes = 16 + 8u * (shape >> 4),
	    .cn_max = size & 128 ? 1 + NODES : 85,
	};
	struct fab *fab;
	char text[256];

	memset(w, 0, sizeof(*w));
	w->policy = policy_find(shape & 1 ? "forge-paper" : "forge");
	wish.policy = w->policy->name;
	wish.slot_words = w->policy->slot_words;
	require(plan_make(&wish, &w->plan, text, sizeof(text)) == 0, "no plan");
	w->words = malloc(w->plan.pool_bytes);
	require(w->words != NULL, "no memory");
	memset(w->words, 0xa5, w->plan.pool_bytes);
	w->time = ticking_from_start();
	/* Each try for a chunk may wait for a position's producer. */
	w->verbs_max = 40000 + 20000 * (uint64_t)w->plan.chunk_count;
	for (unsigned i = 0; i < NODES; i++) {
		struct node *n = &w->nodes[i];

		require(loop_open(w->words, w->plan.pool_bytes, &fab) == 0, "no connection");
		require(fault_open(fab, &n->fault, &n->fab) == 0, "no connection");
		worker_init(&n->worker, n->fab, &w->time.clock, i);
	}
	require(pool_format(&w->nodes[0].worker, &w->plan, 7) == 0, "no pool");
	attach(w, &w->nodes[0]);
	attach(w, &w->nodes[1]);
	require(w->nodes[0].attached && w->nodes[1].attached, "no compute nodes");
}

static void end_world(struct world *w)
{
	for (unsigned i = 0; i < NODES; i++) {
		detach(w, &w->nodes[i], 1);
		fab_close(w->nodes[i].fab);
	}
	free(w->words);
	alarm(0);
}

/* ---- operations --------------------------------------------------------------------------- */

static struct cache_key key_of(char *text, size_t bytes, uint32_t id)
{
	return (struct cache_key){text, (uint32_t)snprintf(text, bytes, "key-%u", id)};
}

/* Every byte of a value follows from its key and its first byte, the version. */
static void fill_value(uint8_t *value, uint32_t bytes, uint32_t id, uint8_t version)
{
	for (uint32_t i = 0; i < bytes; i++)
		value[i] = (uint8_t)(i == 0 ? version : version * 7u + id * 31u + i * 13u);
}

static void set(struct world *w, struct node *n, uint32_t id, uint32_t bytes, uint8_t version)
{
	uint8_t value[VALUE_MAX];
	char text[32];

	bytes %= VALUE_MAX;
	fill_value(value, bytes, id, version);
	begin(w, n);
	ended(n, cache_set(&n->cache, key_of(text, sizeof(text), id),
			   &(struct cache_item){.value = value, .bytes = bytes}));
}

static void get(struct world *w, struct node *n, uint32_t id)
{
	uint8_t value[VALUE_MAX];
	struct cache_value v;
	char text[32];

	begin(w, n);
	int status = cache_get(&n->cache, key_of(text, sizeof(text), id), &v);

	ended(n, status);
	if (status)
		return;
	require(v.bytes < VALUE_MAX, "a value longer than any that was stored");
	fill_value(value, v.bytes, id, v.bytes ? *(const uint8_t *)v.data : 0);
	require(memcmp(value, v.data, v.bytes) == 0, "a value that was never stored");
}

static void delete (struct world *w, struct node *n, uint32_t id)
{
	char text[32];

	begin(w, n);
	ended(n, cache_delete(&n->cache, key_of(text, sizeof(text), id)));
}

static void poll(struct world *w, struct node *n)
{
	begin(w, n);
	ended(n, cache_poll(&n->cache));
}

static void check(struct world *w, struct node *n, uint8_t mode)
{
	struct check_options options = {.live = mode & 1, .crashed = mode >> 1 & 1};
	struct check_report report;
	struct pool pool = {.plan = w->plan, .pool_id = 7, .epoch = 1};

	options.dead_cns[0] = mode & 4 ? UINT64_MAX : 0;
	begin(w, n);
	/* Live, a finding is looked at again, chunk and all. */
	n->fault.lose_at += 1000 * plan_slot_count(&w->plan);
	ended(n, check_pool(&n->worker, &pool, &options, &report, NULL, NULL));
}

/* ---- the vandal --------------------------------------------------------------------------- */

struct region {
	uint64_t from, words;
};

static struct region region_of(const struct plan *p, uint32_t number)
{
	const uint64_t bounds[] = {
	    p->cursors_offset,	   p->ofm_offset[0], p->registry_offset, p->stats_offset,
	    p->chunk_table_offset, p->dead_offset,   p->ring_offset[0],	 p->ring_offset[1],
	    p->ring_offset[2],	   p->index_offset,  p->chunks_offset,	 p->pool_bytes,
	};
	/* The stats are nobody's to read; cursors, words and nodes are worth more tries. */
	static const uint8_t worth[] = {0, 0, 1, 2, 4, 4, 5, 6, 7, 8, 9, 9, 10, 0, 4, 9};
	uint32_t r = worth[number % ARRAY_COUNT(worth)];

	return (struct region){bounds[r] / 8, (bounds[r + 1] - bounds[r]) / 8};
}

/* Where a TWIM is likely to lie: at the back of a chunk. */
static uint64_t twim_word(const struct plan *p, uint32_t at)
{
	uint32_t chunk = at % p->chunk_count;

	return (plan_chunk_address(p, chunk) + p->chunk_bytes) / 8 - 1 -
	       (at / p->chunk_count) % p->group_objects;
}

static uint64_t other_word(const struct world *w, struct input *in, struct region r, uint64_t old)
{
	struct prng p;

	switch (take(in) % 10) {
	case 0:
		return old ^ UINT64_C(1) << (take(in) & 63);
	case 1:
		return old + take(in) - 128;
	case 2:
		return 0;
	case 3:
		return UINT64_MAX;
	case 4:
		return UINT64_C(1) << (take(in) & 63);
	case 5:
		return old + (UINT64_C(1) << (take(in) & 63));
	case 6:
		return w->words[r.from + take_u16(in) % r.words];
	case 7:
		return (old & ~(UINT64_MAX << (take(in) & 63))) | UINT64_MAX << (take(in) & 63);
	case 8:
		return UINT64_C(0) - take(in);
	default:
		prng_seed(&p, take_u16(in));
		return prng_u64(&p);
	}
}

static void damage(struct world *w, struct input *in)
{
	uint8_t number = take(in);
	struct region r = region_of(&w->plan, number);
	uint32_t at = take_u16(in);
	uint64_t word = number & 64 ? twim_word(&w->plan, at) : r.from + at % r.words;

	w->words[word] = other_word(w, in, r, w->words[word]);
}

/* Many words at once, as a bad copy or a stray program leaves them. */
static void damage_range(struct world *w, struct input *in)
{
	struct region r = region_of(&w->plan, take(in));
	uint64_t from = take_u16(in) % r.words, count = take(in) + 1u;
	uint8_t kind = take(in);
	struct prng p;

	prng_seed(&p, kind);
	for (uint64_t i = from; i < r.words && i < from + count; i++)
		w->words[r.from + i] = kind < 64 ? 0 : kind < 96 ? UINT64_MAX : prng_u64(&p);
}

/* A live object gets another header, with a checksum that fits: no accident, but an enemy. */
static void forge_object(struct world *w, struct input *in)
{
	const struct plan *p = &w->plan;
	uint64_t slot = take_u16(in) % plan_slot_count(p);
	uint8_t field = take(in);
	uint32_t value = take_u16(in);

	for (uint64_t i = 0; i < plan_slot_count(p); i++, slot = (slot + 1) % plan_slot_count(p)) {
		uint64_t word = w->words[plan_slot_address(p, slot) / 8];
		uint32_t chunk = plan_chunk_of_pointer(p, index_pointer(word));

		if (!index_is_object(word) || chunk == UINT32_MAX)
			continue;
		uint64_t address = index_object_address(word);
		uint64_t room = plan_chunk_address(p, chunk) + p->chunk_bytes - address;
		struct layout_object *h = (void *)(w->words + address / 8);

		if (object_check(h, room, 1) != OBJECT_VALID)
			continue;
		struct object_place place = {h->generation, h->sn};

		if (field & 1)
			place.generation = value;
		if (field & 2)
			place.sn = take_u16(in);
		if (field & 4)
			place.generation = h->generation + LAYOUT_GENERATION_COUNT * (field >> 6);
		object_rebind(h, place);
		return;
	}
}

/* Open a superblock of which a word of the plan is another; the plan's checksum may fit. */
static void damage_superblock(struct world *w, struct node *n, struct input *in)
{
	struct layout_superblock *sb = (void *)w->words, before = *sb;
	uint32_t at = take(in) % (sizeof(*sb) / 8);
	struct region r = {0, sizeof(*sb) / 8};
	struct pool pool;
	char text[256];

	w->words[at] = other_word(w, in, r, w->words[at]);
	if (take(in) & 1)
		sb->plan_checksum = hash_checksum(0, &sb->plan, sizeof(sb->plan));
	begin(w, n);
	int status = pool_open(&n->worker, &pool, text, sizeof(text));

	ended(n, status);
	require(status || pool.plan.pool_bytes <= w->plan.pool_bytes, "a plan beyond the export");
	*sb = before;
}

/* ---- one input ---------------------------------------------------------------------------- */

static void step(struct world *w, struct input *in)
{
	uint8_t what = take(in);
	struct node *n = &w->nodes[what >> 7];
	uint32_t id = take(in);

	if (!n->attached)
		attach(w, n);
	switch (n->attached ? what & 31 : 24) {
	case 0 ... 2:
		set(w, n, id, take_u16(in) % 200, (uint8_t)what);
		break;
	case 3:
		set(w, n, id, take_u16(in), (uint8_t)what);
		break;
	case 4 ... 8:
		for (uint32_t i = 0; i < 24; i++)
			set(w, n, (id + i) % KEYS, 4 * (i % 24), (uint8_t)what);
		break;
	case 9 ... 11:
		for (uint32_t i = 0; i < 32; i++)
			get(w, n, (id + i) % KEYS);
		break;
	case 12 ... 13:
		for (uint32_t i = 0; i < 4; i++)
			delete (w, n, (id + 3 * i) % KEYS);
		break;
	case 14 ... 15:
		poll(w, n);
		break;
	case 16:
		detach(w, n, id & 3);
		break;
	case 17:
		check(w, n, (uint8_t)id);
		break;
	case 18:
		damage_superblock(w, n, in);
		break;
	case 19:
		damage_range(w, in);
		break;
	case 20 ... 22:
		forge_object(w, in);
		break;
	default:
		damage(w, in);
		break;
	}
}

static void on_alarm(int number)
{
	static const char line[] = "a flow that does not end, nor posts a verb\n";

	(void)number;
	if (write(STDERR_FILENO, line, sizeof(line) - 1) < 0)
		_exit(2);
	abort();
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t bytes)
{
	struct input in = {data, data + bytes};
	static struct world w;

	signal(SIGALRM, on_alarm);
	make_world(&w, &in);
	for (unsigned i = 0; i < STEPS_MAX && in.at < in.end; i++)
		step(&w, &in);
	end_world(&w);
	return 0;
}

/* Every policy and group size, with steps drawn at random: more of them do damage later on. */
size_t fuzz_seed(unsigned i, uint8_t *buf, size_t room)
{
	size_t bytes = 300 < room ? 300 : room;
	struct prng p;

	if (i >= 48)
		return 0;
	prng_seed(&p, i);
	buf[0] = (uint8_t)(i * 17);
	for (size_t k = 1; k < bytes; k++)
		buf[k] = (uint8_t)prng_u64(&p);
	/* Runs of Sets first, so that there is something to damage. */
	for (size_t k = 2; k < 2 + 2 * (size_t)(i % 16); k += 2)
		buf[k] = (uint8_t)((buf[k] & 128) | 4);
	return bytes;
}
