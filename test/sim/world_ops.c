/*
 * world_ops.c: what the workers of a world do, word by word of their scripts, and how it is
 * recorded in the history; see cache_world.h.
 *
 * Values are words that carry the number of the Set and the key, so that a torn, foreign or
 * mixed value is recognised by itself.  The history knows a value by that number and by the step
 * of the clock at which it expires.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "cache/scan.h"
#include "cache_world.h"

#define LARGE_VALUE_WORDS (3 * WORLD_VALUE_WORDS)
#define MOST_VALUE_WORDS  WORLD_PARTS_WORDS

/* Before the first step expiry times are in the future. */
#define CLOCK_FIRST_MS 1000u

uint64_t world_now_ns(const struct clock *clock)
{
	const struct cache_world *cw =
	    (const void *)((const char *)clock - offsetof(struct cache_world, clock));

	return 1000000 * (CLOCK_FIRST_MS + cw->clock_steps);
}

static uint64_t expiry_after_step(const struct cache_world *cw)
{
	return CLOCK_FIRST_MS + cw->clock_steps + 1;
}

/* A value as the history knows it: with the step of the clock that ends it, 0 for none. */
static uint64_t with_deadline(uint64_t value, uint64_t expiry_ms)
{
	return value << 8 | (expiry_ms ? expiry_ms - CLOCK_FIRST_MS : 0);
}

void world_note(struct cache_world *cw, int status, const char *text, uint32_t key)
{
	if (cw->status)
		return;
	cw->status = status;
	snprintf(cw->why, sizeof(cw->why), "%s of key %u: %s", text, key, status_name(status));
}

static bool is_in(const char *letters, uint32_t key)
{
	return letters && strchr(letters, (char)(key < 26 ? 'a' + key : 'A' + key - 26));
}

static uint32_t value_words(const struct cache_world *cw, uint32_t key, uint64_t value)
{
	if (is_in(cw->spec->parts, key))
		return value % 8 == 7 ? WORLD_LIST_WORDS : WORLD_PARTS_WORDS;
	return is_in(cw->spec->large, key) ? LARGE_VALUE_WORDS : WORLD_VALUE_WORDS;
}

/* Returns the bytes of the value. */
static uint32_t fill_value(const struct cache_world *cw, uint64_t words[MOST_VALUE_WORDS],
			   uint32_t key, uint64_t value)
{
	uint32_t n = value_words(cw, key, value);

	for (uint32_t i = 0; i < n; i++)
		words[i] = value << 8 | key;
	return n * (uint32_t)sizeof(words[0]);
}

static int op_set(struct cache_world *cw, struct cache *c, uint32_t key, uint64_t value,
		  uint64_t expiry_ms)
{
	uint64_t words[MOST_VALUE_WORDS];
	struct cache_item item = {
	    .value = words, .bytes = fill_value(cw, words, key, value), .expiry_ms = expiry_ms};

	return cache_set(c, world_key(cw, key), &item);
}

/* The value as the history knows it; one that nobody wrote to this key is noted, and 0. */
static uint64_t read_value(struct cache_world *cw, uint32_t key, const struct cache_value *found)
{
	uint64_t expected[MOST_VALUE_WORDS], first = 0;

	if (found->bytes >= sizeof(first))
		memcpy(&first, found->data, sizeof(first));
	if (found->bytes != value_words(cw, key, first >> 8) * sizeof(first)) {
		world_note(cw, FORGE_E_CORRUPT, "length of the value", key);
		return 0;
	}
	fill_value(cw, expected, key, first >> 8);
	if (memcmp(found->data, expected, found->bytes) != 0) {
		world_note(cw, FORGE_E_CORRUPT, "a torn or foreign value", key);
		return 0;
	}
	return with_deadline(first >> 8, found->expiry_ms);
}

/* *value receives what the Get saw, *id its cas id. */
static int op_get(struct cache_world *cw, struct cache *c, uint32_t key, uint64_t *value,
		  uint64_t *id)
{
	struct cache_value found;
	int status = cache_get(c, world_key(cw, key), &found);

	if (status)
		return status;
	*value = read_value(cw, key, &found);
	*id = found.cas_id;
	return *value ? 0 : FORGE_MISS;
}

/* ---- recorded ------------------------------------------------------------------------------ */

/* The operation did not happen: in the history it becomes what says nothing. */
static void record_nothing(struct worker *w, uint32_t op)
{
	if (op != HIST_NONE)
		sim_history(sim_of(w))->ops[op].kind = HIST_GET;
	sim_op_end(w, op, HIST_UNDECIDED, 0);
}

static void record_no_space(struct cache_world *cw, struct worker *w, uint32_t op, uint32_t key)
{
	cw->no_space++;
	if (cw->spec->space_promised)
		world_note(cw, FORGE_E_NO_SPACE, "store", key);
	record_nothing(w, op);
}

static void recorded_set(struct cache_world *cw, struct cache *c, uint32_t key, uint64_t value,
			 bool expires)
{
	struct worker *w = c->worker;
	uint32_t op = sim_op_begin(w, HIST_SET, key, 0);
	/* Read where the operation starts: after its beginning was scheduled. */
	uint64_t expiry_ms = expires ? expiry_after_step(cw) : 0;

	if (op != HIST_NONE)
		sim_history(sim_of(w))->ops[op].value = with_deadline(value, expiry_ms);
	int status = op_set(cw, c, key, value, expiry_ms);

	if (status == FORGE_E_NO_SPACE) {
		record_no_space(cw, w, op, key);
		return;
	}
	cw->undecided += status == FORGE_E_AGAIN;
	if (status && status != FORGE_E_AGAIN)
		world_note(cw, status, "Set", key);
	sim_op_end(w, op, status ? HIST_UNDECIDED : HIST_OK, 0);
}

void world_get(struct cache_world *cw, struct world_worker *ww, struct cache *c, uint32_t key)
{
	uint32_t op = sim_op_begin(c->worker, HIST_GET, key, 0);
	uint64_t value = 0, id = 0, gave_up = c->count.get_retries_exhausted;
	int status = op_get(cw, c, key, &value, &id);
	enum hist_result result = HIST_OK;

	if (status < 0)
		world_note(cw, status, "Get", key);
	if (status)
		result = c->count.get_retries_exhausted == gave_up ? HIST_MISS : HIST_UNDECIDED;
	if (ww) {
		ww->seen[key] = value;
		ww->seen_id[key] = id;
	}
	sim_op_end(c->worker, op, result, value);
}

static void note_key(void *context, struct cache_key key, const struct cache_value *value)
{
	struct cache_key *wanted = context;

	if (wanted->data && wanted->bytes == key.bytes &&
	    memcmp(wanted->data, key.data, key.bytes) == 0)
		wanted->data = NULL;
}

/* A key that is there all the time is seen. */
static void scan_for(struct cache_world *cw, struct cache *c, uint32_t key)
{
	struct cache_key wanted = world_key(cw, key);
	struct index_home home = index_locate(&cw->pool.plan, wanted.data, wanted.bytes);
	int status = cache_scan_home(c, home.bucket, note_key, &wanted);

	if (status)
		world_note(cw, status, "scan", key);
	else if (wanted.data)
		world_note(cw, FORGE_E_CORRUPT, "a scan that did not see it", key);
}

static void recorded_delete(struct cache_world *cw, struct cache *c, uint32_t key)
{
	uint32_t op = sim_op_begin(c->worker, HIST_DELETE, key, 0);
	int status = cache_delete(c, world_key(cw, key));

	cw->undecided += status == FORGE_E_AGAIN;
	if (status < 0 && status != FORGE_E_AGAIN)
		world_note(cw, status, "Delete", key);
	sim_op_end(c->worker, op,
		   status == 0		  ? HIST_OK
		   : status == FORGE_MISS ? HIST_MISS
					  : HIST_UNDECIDED,
		   0);
}

/* A change under way: what it does by its letter, and what it found. */
struct world_change {
	struct cache_world *cw;
	struct world_worker *ww;
	uint32_t op, key;
	char verb;
	uint64_t value;	    /* that it may store */
	uint64_t expiry_ms; /* that it gives */
	uint64_t left;	    /* the value as it is then */
	uint64_t words[MOST_VALUE_WORDS];
};

static void store_something(struct world_change *w, const struct cache_value *old, uint64_t seen,
			    struct cache_decision *out)
{
	bool is_touch = w->verb == 'T' || w->verb == 'H';
	/* Of the numbers that are this operation's alone in any case, one of that length. */
	uint64_t value = is_touch	  ? seen >> 8
			 : w->verb == 'B' ? w->value << 16 | (seen >> 8 & 1 ? 0 : 7)
					  : w->value;
	uint64_t expiry_ms = is_touch || !old ? w->expiry_ms : old->expiry_ms;

	out->verdict = CACHE_STORE;
	out->status = 0;
	out->same_bytes = is_touch;
	out->item.value = w->words;
	out->item.bytes = fill_value(w->cw, w->words, w->key, value);
	out->item.expiry_ms = expiry_ms;
	out->cas_id = is_touch ? old->cas_id : 0;
	w->left = with_deadline(value, expiry_ms);
}

/* What the verb makes of a value, as the functions of semantics.c do. */
static void decide(void *context, const struct cache_value *old, struct cache_decision *out)
{
	struct world_change *w = context;
	uint64_t seen = old ? read_value(w->cw, w->key, old) : 0;
	bool needs_id = w->verb == 'C' || w->verb == 'O';
	bool stores = old ? w->verb != 'A' : w->verb == 'A' || w->verb == 'U';

	w->left = seen;
	if (!stores) {
		out->status = old ? FORGE_NOT_STORED : FORGE_MISS;
	} else if (needs_id && old->cas_id != w->ww->seen_id[w->key]) {
		out->status = FORGE_EXISTS;
	} else {
		if (needs_id && seen >> 8 != w->ww->seen[w->key] >> 8)
			world_note(w->cw, FORGE_E_CORRUPT, "two values with one id", w->key);
		if (w->verb == 'O') {
			out->verdict = CACHE_REMOVE;
			w->left = 0;
		} else {
			store_something(w, old, seen, out);
		}
	}
	sim_op_decide(w->ww->cache.worker, w->op, seen, w->left);
}

static void recorded_change(struct cache_world *cw, struct world_worker *ww, char verb,
			    uint32_t key, uint64_t value)
{
	struct worker *w = ww->cache.worker;
	struct world_change change = {.cw = cw, .ww = ww, .key = key, .verb = verb, .value = value};
	uint64_t id = 0;

	change.op = sim_op_begin(w, HIST_CHANGE, key, 0);
	change.expiry_ms = verb == 'T' ? expiry_after_step(cw) : 0;
	int status = cache_change(&ww->cache, world_key(cw, key),
				  &(struct cache_change){decide, &change}, &id);

	if (status == FORGE_E_NO_SPACE) {
		record_no_space(cw, w, change.op, key);
		return;
	}
	if (status == FORGE_E_AGAIN) { /* it promises that nothing changed */
		cw->undecided++;
		if (cw->spec->answers_promised)
			world_note(cw, status, "change", key);
		record_nothing(w, change.op);
		return;
	}
	if (status < 0)
		world_note(cw, status, "change", key);
	if (id) {
		ww->seen[key] = change.left;
		ww->seen_id[key] = id;
	}
	sim_op_end(w, change.op, status < 0 ? HIST_UNDECIDED : HIST_OK, 0);
}

static void recorded_flush(struct cache_world *cw, struct cache *c)
{
	uint32_t op = sim_op_begin(c->worker, HIST_FLUSH, HIST_EVERY_KEY, 0);
	int status = cache_flush(c);

	if (status)
		world_note(cw, status, "flush", 0);
	sim_op_end(c->worker, op, status ? HIST_UNDECIDED : HIST_OK, 0);
}

static void recorded_clock_step(struct cache_world *cw, struct worker *w)
{
	uint32_t op = sim_op_begin(w, HIST_CLOCK, HIST_EVERY_KEY, 0);

	cw->clock_steps++;
	sim_op_end(w, op, HIST_OK, 0);
}

/* ---- scripts ------------------------------------------------------------------------------- */

static void run_word(struct cache_world *cw, struct world_worker *ww, char verb, uint32_t key)
{
	uint64_t value = 1000 * (uint64_t)(ww - cw->workers + 1) + ++ww->ops_begun;
	int status;

	/* It found no id to join with, or left. */
	if (!world_is_attached(cw, cw->spec->workers[ww - cw->workers].cn))
		return;
	switch (verb) {
	case 'S':
	case 'E':
		recorded_set(cw, &ww->cache, key, value, verb == 'E');
		return;
	case 'G':
		world_get(cw, ww, &ww->cache, key);
		return;
	case 'D':
		recorded_delete(cw, &ww->cache, key);
		return;
	case 'K':
		scan_for(cw, &ww->cache, key);
		return;
	case 'F':
		recorded_flush(cw, &ww->cache);
		return;
	case '+':
		recorded_clock_step(cw, ww->cache.worker);
		return;
	case 'Y':
		status = cache_poll(&ww->cache);
		if (status < 0)
			world_note(cw, status, "poll", 0);
		return;
	case 'Q':
		ww->cache.lane->is_low = 1;
		status = cache_ahead(&ww->cache);
		if (status < 0)
			world_note(cw, status, "fetching ahead", 0);
		return;
	default:
		assert(strchr("APIUCOTHB", verb));
		recorded_change(cw, ww, verb, key, value);
	}
}

/* How often in 100 random operations each verb comes; the last ones only in timed worlds. */
struct share {
	char verb;
	uint8_t percent;
};

static const struct share plain_mix[] = {{'S', 45}, {'G', 37}, {'D', 10}, {'Y', 8}};
static const struct share full_mix[] = {
    {'S', 12}, {'G', 24}, {'D', 6}, {'A', 12}, {'P', 5}, {'I', 5}, {'U', 8}, {'C', 8},
    {'B', 3},  {'O', 4},  {'Y', 3}, {'E', 3},  {'T', 2}, {'H', 1}, {'+', 2}, {'F', 2},
};
#define FULL_MIX_UNTIMED 90u

static void run_random(struct cache_world *cw, struct world_worker *ww, const struct share *mix,
		       uint64_t dice_max, uint64_t count)
{
	struct prng *prng = &ww->cache.worker->prng;
	size_t key_count = strlen(cw->spec->keys);

	while (count--) {
		uint64_t dice = prng_below(prng, dice_max);
		char letter = cw->spec->keys[prng_below(prng, key_count)];
		unsigned i = 0;

		while (dice >= mix[i].percent)
			dice -= mix[i++].percent;
		run_word(cw, ww, mix[i].verb, world_key_index(letter));
	}
}

/* Sets of keys that live elsewhere, in turn: they use chunks up. */
static void run_fillers(struct cache_world *cw, struct world_worker *ww, uint64_t count)
{
	for (uint64_t i = 0; i < count; i++)
		run_word(cw, ww, 'S', world_key_index((char)('n' + i % 13)));
}

static bool has_key(char verb)
{
	return !strchr("YFQ+", verb);
}

void world_worker(void *context, struct worker *w)
{
	struct cache_world *cw = context;
	struct world_worker *ww = &cw->workers[w->index];

	if (cw->spec->timed)
		w->clock = &cw->clock;
	for (const char *at = ww->script; *at;) {
		char verb = *at++;

		if (verb == ' ')
			continue;
		if (verb == 'R')
			run_random(cw, ww, plain_mix, 100, strtoull(at, (char **)&at, 10));
		else if (verb == 'M')
			run_random(cw, ww, full_mix, cw->spec->timed ? 100 : FULL_MIX_UNTIMED,
				   strtoull(at, (char **)&at, 10));
		else if (verb == 'N')
			run_fillers(cw, ww, strtoull(at, (char **)&at, 10));
		else if (verb == 'W')
			world_recovery_word(cw, ww, w, verb, (uint32_t)(*at++ - '0'));
		else if (strchr("JLVX", verb))
			world_recovery_word(cw, ww, w, verb, 0);
		else
			run_word(cw, ww, verb, has_key(verb) ? world_key_index(*at++) : 0);
	}
}

int world_visit(struct cache_world *cw, struct worker *w, uint32_t cn, const char *script)
{
	struct cache *c = &cw->visitors[cn];
	int status = 0;

	c->worker = w;
	for (const char *at = script; *at && status >= 0;) {
		char verb = *at++;
		uint64_t value, id;

		if (verb == ' ')
			continue;
		uint32_t key = has_key(verb) ? world_key_index(*at++) : 0;

		if (verb == 'Y') {
			status = cache_poll(c);
		} else if (verb == 'S' || verb == 'E') {
			uint64_t expiry_ms = verb == 'E' ? expiry_after_step(cw) : 0;

			value = ++cw->next_value;
			status = op_set(cw, c, key, value, expiry_ms);
			cw->prefilled[key] = with_deadline(value, expiry_ms);
		} else if (verb == 'G') {
			status = op_get(cw, c, key, &value, &id);
		} else {
			assert(verb == 'D');
			status = cache_delete(c, world_key(cw, key));
			cw->prefilled[key] = 0;
		}
	}
	return status < 0 ? status : 0;
}
