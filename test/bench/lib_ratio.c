/*
 * lib_ratio.c: what overlapping round trips is worth, through the public library.
 *
 *	lib_ratio [SLICES [LATENCY]]
 *
 * One process, one session on a pool whose every verb takes LATENCY (2us, as an unloaded RDMA
 * round trip) longer than memory.  In turn, in each slice, the same keys are found
 *  - one by one,
 *  - 16 at a time by forge_get_many(),
 *  - by forge_submit() and forge_poll() with 32 in flight.
 * Every value is compared.
 *
 * Exit status 1 when finding 16 at a time costs 60 % or more of one by one, or when 32 in flight
 * find less than 10 times as many a second.  The ways are run in turn in slices that are so short
 * that some are not interrupted, and the times are those of the tenth part of the slices that was
 * fastest: what else runs on the machine counts little.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "base/prng.h"
#include "bench/own_pool.h"
#include "forge/forge.h"

#define KEYS	    1000u
#define STEPS	    256u /* of a slice */
#define SLICES_MAX  10001u
#define VALUE_BYTES 256u
#define MANY	    16u
#define IN_FLIGHT   32u

#define MANY_COST_MAX  0.60
#define ASYNC_RATE_MIN 10.0

enum way { ONE_BY_ONE, MANY_AT_A_TIME, ASYNC, WAYS };

struct bench {
	struct forge_client *client;
	struct forge_session *session;
	char key_text[KEYS][16];
	struct forge_bytes keys[KEYS];
	uint32_t sequence[STEPS];
	struct prng prng;
};

static void die(const char *what)
{
	fprintf(stderr, "lib_ratio: %s: %s\n", what, forge_detail());
	exit(1);
}

static void fill(char value[VALUE_BYTES], uint32_t id)
{
	memset(value, 'a' + (int)(id % 26), VALUE_BYTES);
	memcpy(value, &id, sizeof(id));
}

static struct forge_bytes key_of(const struct bench *b, uint32_t step)
{
	return b->keys[b->sequence[step]];
}

static void verify(const struct bench *b, uint32_t step, const struct forge_value *v)
{
	uint32_t id = b->sequence[step];

	if (!v->data || v->bytes != VALUE_BYTES || memcmp(v->data, &id, sizeof(id)) != 0)
		die("a value is missing or wrong");
}

static void one_by_one(struct bench *b)
{
	for (uint32_t i = 0; i < STEPS; i++) {
		struct forge_value v;

		if (forge_get(b->session, key_of(b, i), &v))
			die("get");
		verify(b, i, &v);
	}
}

static void many_at_a_time(struct bench *b)
{
	for (uint32_t i = 0; i < STEPS; i += MANY) {
		struct forge_bytes keys[MANY];
		struct forge_value values[MANY];

		for (uint32_t k = 0; k < MANY; k++)
			keys[k] = key_of(b, i + k);
		if (forge_get_many(b->session, keys, MANY, values, NULL))
			die("get_many");
		for (uint32_t k = 0; k < MANY; k++)
			verify(b, i + k, &values[k]);
	}
}

static void async(struct bench *b)
{
	struct forge_op ops[IN_FLIGHT], *done[IN_FLIGHT];
	uint32_t begun = 0, ended = 0;

	for (; begun < IN_FLIGHT; begun++)
		ops[begun] = (struct forge_op){
		    .verb = FORGE_GET, .key = key_of(b, begun), .user = (void *)(uintptr_t)begun};
	if (forge_submit(b->session, ops, IN_FLIGHT))
		die("submit");
	while (ended < STEPS) {
		int n = forge_poll(b->session, done, IN_FLIGHT, FORGE_WAIT_FOREVER);

		if (n <= 0)
			die("poll");
		for (int i = 0; i < n; i++) {
			struct forge_op *op = done[i];

			verify(b, (uint32_t)(uintptr_t)op->user, &op->found);
			ended++;
			if (begun == STEPS)
				continue;
			op->key = key_of(b, begun);
			op->user = (void *)(uintptr_t)begun++;
			if (forge_submit(b->session, op, 1))
				die("submit");
		}
	}
}

static int compare(const void *a, const void *b)
{
	double x = *(const double *)a, y = *(const double *)b;

	return (x > y) - (x < y);
}

/* A client looks at its pool's name, so that stays until the end, also one by die(). */
static struct own_pool pool;

static void forget_pool(void)
{
	own_pool_forget(&pool);
}

static void open_all(struct bench *b, const char *latency)
{
	struct plan_wish wish = {.pool_bytes = 8u << 20, .object_bytes = VALUE_BYTES + 16};
	char text[256], name[128], value[VALUE_BYTES];

	if (own_pool_create(&pool, &wish, text, sizeof(text))) {
		fprintf(stderr, "lib_ratio: %s\n", text);
		exit(1);
	}
	atexit(forget_pool);
	snprintf(name, sizeof(name), "%s?latency=%s", pool.name, latency);
	if (forge_open(name, NULL, &b->client) || forge_session_open(b->client, &b->session))
		die("open");
	for (uint32_t id = 0; id < KEYS; id++) {
		snprintf(b->key_text[id], sizeof(b->key_text[id]), "key-%u", id);
		b->keys[id] = forge_text(b->key_text[id]);
		fill(value, id);
		if (forge_set(b->session, b->keys[id],
			      &(struct forge_item){.value = forge_bytes(value, VALUE_BYTES)}))
			die("set");
	}
	prng_seed(&b->prng, 1);
}

static void choose_keys(struct bench *b)
{
	for (uint32_t i = 0; i < STEPS; i++)
		b->sequence[i] = (uint32_t)prng_below(&b->prng, KEYS);
}

int main(int argc, char **argv)
{
	static void (*const ways[WAYS])(struct bench *) = {one_by_one, many_at_a_time, async};
	static double ns[WAYS][SLICES_MAX];
	static struct bench bench;
	uint32_t slices = argc > 1 ? (uint32_t)strtoul(argv[1], NULL, 10) : 401;
	const char *latency = argc > 2 ? argv[2] : "2us";

	if (slices < 1 || slices > SLICES_MAX) {
		fprintf(stderr, "usage: lib_ratio [SLICES [LATENCY]], at most %u slices\n",
			SLICES_MAX);
		return 2;
	}
	open_all(&bench, latency);
	for (uint32_t slice = 0; slice <= slices; slice++) {
		choose_keys(&bench);
		for (unsigned w = argc > 3 ? (unsigned)atoi(argv[3]) : 0; w < WAYS; w++) {
			uint64_t start_ns = clock_now_ns(clock_monotonic());

			ways[w](&bench);
			/* The first slice warms up. */
			if (slice > 0)
				ns[w][slice - 1] =
				    (double)(clock_now_ns(clock_monotonic()) - start_ns) / STEPS;
		}
	}
	for (unsigned w = 0; w < WAYS; w++)
		qsort(ns[w], slices, sizeof(ns[w][0]), compare);
	forge_session_close(bench.session);
	forge_close(bench.client);
	double one = ns[ONE_BY_ONE][slices / 10], many = ns[MANY_AT_A_TIME][slices / 10];
	double flight = ns[ASYNC][slices / 10];
	int met = many < MANY_COST_MAX * one && one >= ASYNC_RATE_MIN * flight;

	printf("%u keys, values of %u bytes, all cached; latency %s; the best tenth of %u "
	       "slices of %u Gets\n"
	       "one by one        %8.0f ns a Get\n"
	       "%u at a time      %8.0f ns, %.1f %% of one by one\n"
	       "%u in flight      %8.0f ns, %.1f times the rate of one by one\n"
	       "targets: below %.0f %%, at least %.0f times: %s\n",
	       KEYS, VALUE_BYTES, latency, slices, STEPS, one, MANY, many, 100 * many / one,
	       IN_FLIGHT, flight, one / flight, 100 * MANY_COST_MAX, ASYNC_RATE_MIN,
	       met ? "met" : "MISSED");
	return met ? 0 : 1;
}
