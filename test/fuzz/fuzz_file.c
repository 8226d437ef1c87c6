/*
 * fuzz_file.c: pools whose bytes were damaged while nobody used them: attach, serve, check, repair.
 *
 * Shows that whatever became of a pool's file, opening it ends in a refusal or a pool; that a Get
 * on it gives a value that was stored under that key, whole, or none, and every flow ends; that the
 * checker ends; and that a repair ends, leaves what the checker finds clean, counters included, and
 * with which Sets succeed, or says that it cannot.  Repairing twice changes nothing the second
 * time.
 *
 * An input is a list of damages.  The first byte chooses the pool: policy, geometry, left in order
 * or by a kill; the second, what is done to it first: serve, check, or repair at once.  Then each
 * damage: a bit, a word, a range, a swap of two ranges, or a cut.
 */
#include "fuzz.h"

#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/hash.h"
#include "cache/cache.h"
#include "check/mend.h"
#include "fabric/fault.h"
#include "fabric/loop.h"
#include "pool/recover.h"

#define IMAGES	  8u
#define KEYS	  400u
#define VALUE_MAX 300u
#define ALARM_S	  60u
#define CN_MAX	  3u

static uint64_t take_u32(struct input *in)
{
	uint64_t v = take(in);

	v |= (uint64_t)take(in) << 8;
	v |= (uint64_t)take(in) << 16;
	return v | (uint64_t)take(in) << 24;
}

/* ---- a compute node ----------------------------------------------------------------------- */

/* Nobody else lives here: every lock is to be had. */
static int hold_any(void *context, uint32_t cn)
{
	return 0;
}

static void release_any(void *context, uint32_t cn)
{
}

static const struct liveness nobody = {NULL, hold_any, release_any};

struct node {
	struct ticking time;
	struct fault_plan fault;
	struct fab *fab;
	struct worker worker;
	struct pool pool;
	struct cn cn;
	struct lane lane;
	struct cache cache;
};

static void connect_to(struct node *n, uint64_t *words, uint64_t bytes)
{
	struct fab *fab;

	memset(n, 0, sizeof(*n));
	n->time = ticking_from_start();
	require(loop_open(words, bytes, &fab) == 0, "no connection");
	require(fault_open(fab, &n->fault, &n->fab) == 0, "no connection");
	worker_init(&n->worker, n->fab, &n->time.clock, 1);
}

/* A call begins: if it takes too many verbs the node is lost, which ended() sees. */
static void begin(struct node *n, uint64_t verbs)
{
	n->fault.lose_at = n->fault.verbs + verbs;
	alarm(ALARM_S);
}

static void ended(const struct node *n, int status)
{
	require(!n->fault.lost, "a flow that does not end");
	require(status == FORGE_MISS || (status <= 0 && status >= FORGE_E_POOL_ABSENT &&
					 status != FORGE_E_NODE && status != FORGE_E_NO_MEMORY),
		"a status that nothing explains");
}

static uint64_t verbs_of_flow(const struct plan *p)
{
	return 40000 + 20000 * (uint64_t)p->chunk_count;
}

/* Looks at everything, several times, and twice for each slot. */
static uint64_t verbs_of_sweep(const struct plan *p)
{
	return 1000000 + 2000 * (uint64_t)p->chunk_count +
	       MEND_ROUNDS_MAX * 1000 * plan_slot_count(p);
}

static int join(struct node *n)
{
	struct layout_registry lines[LAYOUT_CN_MAX];
	struct cn_options options = {.worker_count = 1, .poll_interval_us = 20};

	begin(n, verbs_of_flow(&n->pool.plan));
	int status = cn_open(&n->cn, &n->pool, policy_find(n->pool.plan.policy), &n->worker,
			     &options, 1, lines);

	ended(n, status);
	if (status)
		return status;
	require(lane_init(&n->lane, &n->cn) == 0, "no lane");
	require(cache_init(&n->cache, &n->worker, &n->cn, &n->lane) == 0, "no cache");
	require(cache_count_in_pool(&n->cache) == 0, "no counting");
	return 0;
}

static void leave(struct node *n, int in_order)
{
	begin(n, verbs_of_flow(&n->pool.plan));
	if (in_order)
		ended(n, cache_drain(&n->cache));
	cache_fini(&n->cache);
	lane_fini(&n->lane);
	if (in_order)
		cn_close(&n->cn, &n->worker);
	else
		cn_memory_destroy(&n->cn);
	ended(n, 0);
}

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

static int set(struct node *n, uint32_t id, uint8_t version)
{
	uint32_t bytes = 1 + (id * 7 + version) % 90;
	uint8_t value[VALUE_MAX];
	char text[32];

	fill_value(value, bytes, id, version);
	begin(n, verbs_of_flow(&n->pool.plan));
	int status = cache_set(&n->cache, key_of(text, sizeof(text), id),
			       &(struct cache_item){.value = value, .bytes = bytes});

	ended(n, status);
	return status;
}

static int get(struct node *n, uint32_t id)
{
	uint8_t value[VALUE_MAX];
	struct cache_value v;
	char text[32];

	begin(n, verbs_of_flow(&n->pool.plan));
	int status = cache_get(&n->cache, key_of(text, sizeof(text), id), &v);

	ended(n, status);
	if (status)
		return status;
	require(v.bytes > 0 && v.bytes < VALUE_MAX, "a value longer than any that was stored");
	fill_value(value, v.bytes, id, *(const uint8_t *)v.data);
	require(memcmp(value, v.data, v.bytes) == 0, "a value that was never stored");
	return 0;
}

static void delete_one(struct node *n, uint32_t id)
{
	char text[32];

	begin(n, verbs_of_flow(&n->pool.plan));
	ended(n, cache_delete(&n->cache, key_of(text, sizeof(text), id)));
}

/* ---- the pools ---------------------------------------------------------------------------- */

struct image {
	uint64_t *words;
	struct plan plan;
};

static struct image images[IMAGES];

/* 0: forge, 1: forge-paper; 2: large groups; 4: left by a kill. */
static void make_image(struct image *image, unsigned number)
{
	const struct policy *policy = policy_find(number & 1 ? "forge-paper" : "forge");
	struct plan_wish wish = {
	    .chunk_count = number & 2 ? 12 : 40,
	    .group_objects = number & 2 ? 32 : 8,
	    .object_bytes = 80,
	    .cn_max = CN_MAX,
	    .policy = policy->name,
	    .slot_words = policy->slot_words,
	};
	static struct node n;
	struct prng prng;
	char text[256];

	require(plan_make(&wish, &image->plan, text, sizeof(text)) == 0, "no plan");
	image->words = malloc(image->plan.pool_bytes);
	require(image->words != NULL, "no memory");
	connect_to(&n, image->words, image->plan.pool_bytes);
	memset(image->words, 0xa5, image->plan.pool_bytes);
	require(pool_format(&n.worker, &image->plan, 7) == 0, "no pool");
	require(pool_open(&n.worker, &n.pool, text, sizeof(text)) == 0, "no pool");
	prng_seed(&prng, number);
	require(join(&n) == 0, "no compute node");
	for (uint32_t i = 0; i < 3000; i++) {
		uint32_t id = (uint32_t)prng_below(&prng, 1 + prng_below(&prng, KEYS));

		if (i % 16 == 0)
			delete_one(&n, id);
		else if (get(&n, id) != 0 || i % 4 == 0)
			require(set(&n, id, (uint8_t)i) == 0, "no Set in a sound pool");
	}
	leave(&n, !(number & 4));
	fab_close(n.fab);
}

/* ---- damage ------------------------------------------------------------------------------- */

struct victim {
	uint64_t *words;
	uint64_t bytes; /* what is left of it */
	const struct plan *plan;
};

/* A word's index, in a region that the input chooses. */
static uint64_t take_place(struct input *in, const struct victim *v)
{
	const struct plan *p = v->plan;
	const uint64_t bounds[] = {
	    0,
	    p->cursors_offset,
	    p->ofm_offset[0],
	    p->registry_offset,
	    p->stats_offset,
	    p->chunk_table_offset,
	    p->dead_offset,
	    p->ring_offset[0],
	    p->index_offset,
	    p->chunks_offset,
	    p->pool_bytes,
	};
	/* The metadata is small, and worth more than its share. */
	static const uint8_t worth[] = {0, 1, 1, 2, 3, 4, 5, 5, 5, 6, 7, 7, 8, 8, 9, 9};
	unsigned r = worth[take(in) % ARRAY_COUNT(worth)];
	uint64_t words = (bounds[r + 1] - bounds[r]) / 8;

	/* Most of the superblock is nothing. */
	if (r == 0)
		words = sizeof(struct layout_superblock) / 8;
	uint64_t at = bounds[r] / 8 + take_u32(in) % words;

	return at < v->bytes / 8 ? at : 0;
}

static uint64_t take_word(struct input *in, const struct victim *v, uint64_t old)
{
	struct prng prng;

	switch (take(in) % 8) {
	case 0:
		return 0;
	case 1:
		return UINT64_MAX;
	case 2:
		return old + take(in) - 128;
	case 3:
		return old ^ (UINT64_MAX << (take(in) & 63));
	case 4:
		return v->words[take_place(in, v)];
	case 5:
		return UINT64_C(1) << (take(in) & 63);
	default:
		prng_seed(&prng, take_u32(in));
		return prng_u64(&prng);
	}
}

static void damage(struct input *in, struct victim *v)
{
	uint8_t what = take(in);
	uint64_t at = take_place(in, v), words = v->bytes / 8, count;
	struct prng prng;

	switch (what % 16) {
	case 0 ... 5:
		v->words[at] ^= UINT64_C(1) << (take(in) & 63);
		break;
	case 6 ... 10:
		v->words[at] = take_word(in, v, v->words[at]);
		break;
	case 11 ... 12: /* a page that was never written, or another's */
		count = min_u64(1 + take(in), words - at);
		prng_seed(&prng, take(in));
		for (uint64_t i = 0; i < count; i++)
			v->words[at + i] = what & 16 ? 0 : prng_u64(&prng);
		break;
	case 13 ... 14: { /* an older or another piece in its place */
		uint64_t from = take_place(in, v);

		count = min_u64(1 + take(in), min_u64(words - at, words - from));
		memmove(v->words + at, v->words + from, 8 * count);
		break;
	}
	default:
		if (what & 16)
			v->bytes = 8 * (take_u32(in) % (v->bytes / 8 + 1));
		break;
	}
}

/* ---- what is done to it ------------------------------------------------------------------- */

static void check_all(struct node *n)
{
	static const struct check_options modes[] = {
	    {.live = 0}, {.crashed = 1}, {.live = 1}, {.metadata_only = 1}};

	for (unsigned i = 0; i < ARRAY_COUNT(modes); i++) {
		struct check_report report;

		begin(n, verbs_of_sweep(&n->pool.plan));
		ended(n, check_pool(&n->worker, &n->pool, &modes[i], &report, NULL, NULL));
	}
}

/* Damaged or not: what is got was stored. */
static void serve(struct node *n, int in_order)
{
	if (join(n))
		return;
	for (uint32_t id = 0; id < KEYS; id++)
		get(n, id);
	for (uint32_t id = 0; id < KEYS / 4; id++)
		set(n, id * 3, (uint8_t)id);
	for (uint32_t id = 0; id < KEYS; id++)
		get(n, id);
	leave(n, in_order);
}

static void recover(struct node *n)
{
	struct recover_report report = {0};
	uint32_t dead_count;

	begin(n, verbs_of_sweep(&n->pool.plan));
	ended(n, recover_repair(&n->pool, &n->worker, &nobody, &report, &dead_count));
}

static uint64_t mend(struct node *n)
{
	struct rebuild_report done = {0};
	struct check_report after;

	begin(n, verbs_of_sweep(&n->pool.plan));
	int status = mend_pool(&n->worker, &n->pool, &done, &after);

	ended(n, status);
	if (status)
		check_print(stderr, &n->pool, &after);
	require(status == 0, "a pool with a good superblock that cannot be mended");
	return rebuild_report_sum(&done);
}

static void require_clean(struct node *n, const char *when)
{
	static const struct check_options at_rest;
	struct check_report report;

	begin(n, verbs_of_sweep(&n->pool.plan));
	ended(n, check_pool(&n->worker, &n->pool, &at_rest, &report, NULL, NULL));
	if (report.findings)
		check_print(stderr, &n->pool, &report);
	require(report.findings == 0, when);
}

/* As good as new: Sets succeed, and what they stored is there. */
static void require_sound(struct node *n)
{
	require_clean(n, "a pool that was mended and is not clean");
	require(mend(n) == 0, "a second repair found something to do");
	require(join(n) == 0, "nobody can join a pool that was mended");
	for (uint32_t id = 0; id < KEYS; id++)
		get(n, id);
	for (uint32_t id = 0; id < 2 * KEYS; id++) {
		require(set(n, id, (uint8_t)id) == 0, "a Set fails in a pool that was mended");
		require(get(n, id) == 0, "a value just stored is missing");
	}
	leave(n, 1);
	require_clean(n, "a pool that was mended and used and is not clean");
}

static void on_alarm(int number)
{
	static const char line[] = "something that does not end, nor posts a verb\n";

	if (write(STDERR_FILENO, line, sizeof(line) - 1) < 0)
		_exit(2);
	abort();
}

static void use(struct node *n, uint8_t order)
{
	char text[512];

	begin(n, 100);
	int status = pool_open(&n->worker, &n->pool, text, sizeof(text));

	ended(n, status);
	require(status == 0 || strlen(text) > 20, "a refusal without a reason");
	if (status)
		return;
	/* What the node and the tools do, in their order, or something else first. */
	if (order & 1)
		check_all(n);
	if (order & 2)
		serve(n, order & 4);
	if (!(order & 8))
		mend(n);
	recover(n);
	mend(n);
	require_sound(n);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t bytes)
{
	struct input in = {data, data + bytes};
	unsigned number = take(&in) % IMAGES;
	uint8_t order = take(&in);
	struct image *image = &images[number];
	static struct node n;

	signal(SIGALRM, on_alarm);
	if (!image->words)
		make_image(image, number);
	struct victim v = {malloc(image->plan.pool_bytes), image->plan.pool_bytes, &image->plan};

	require(v.words != NULL, "no memory");
	memcpy(v.words, image->words, v.bytes);
	for (unsigned i = 0; i < 64 && in.at < in.end && v.bytes >= 8; i++)
		damage(&in, &v);
	if (v.bytes >= 8) {
		/* A block of exactly what is left, so that a sanitizer sees who goes beyond. */
		uint64_t *words = malloc(v.bytes);

		require(words != NULL, "no memory");
		memcpy(words, v.words, v.bytes);
		connect_to(&n, words, v.bytes);
		use(&n, order);
		fab_close(n.fab);
		free(words);
	}
	free(v.words);
	alarm(0);
	return 0;
}

/* Inputs that once failed, as the driver prints them. */
static const char *const cases[] = {
    "",
};

/* Each pool in each order with one damage, with a few, and with many; then the saved cases. */
size_t fuzz_seed(unsigned i, uint8_t *buf, size_t room)
{
	static const size_t lengths[] = {2, 8, 40, 400};
	struct prng prng;

	if (i >= 32)
		return i - 32 < ARRAY_COUNT(cases) ? fuzz_from_hex(cases[i - 32], buf, room) : 0;
	size_t bytes = min_u64(lengths[i / 8], room);

	prng_seed(&prng, i);
	for (size_t k = 0; k < bytes; k++)
		buf[k] = (uint8_t)prng_u64(&prng);
	buf[0] = (uint8_t)i;
	return bytes;
}
