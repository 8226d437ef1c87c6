/*
 * trial_ops.c: what the threads of a trial do, and how it is recorded.
 *
 * A value is words that carry its number and its key, and its length follows from them, so that a
 * torn, foreign or mixed value is known by itself.  The history knows a value by number and expiry.
 */
#include <inttypes.h>
#include <stdarg.h>
#include <string.h>

#include "base/hash.h"
#include "cache/scan.h"
#include "vtime/trial_inside.h"

/* Of a value in the history: when it ends, in ms of the trial, and 0 for never. */
#define EXPIRY_BITS 24u
/* Of a key with values in parts, so many of 8 have them. */
#define PARTS_SHARE 5u
/* Keys that only take space begin so. */
#define FILLER "filler"

void trial_fail(struct trial *t, const char *format, ...)
{
	va_list arguments;

	if (t->status)
		return;
	t->status = FORGE_E_CORRUPT;
	va_start(arguments, format);
	vsnprintf(t->result->why, sizeof(t->result->why), format, arguments);
	va_end(arguments);
}

static uint32_t value_words(const struct trial *t, uint32_t key, uint64_t number)
{
	uint64_t mixed = hash_mix(number * 64 + key + 1);

	if (t->shape.parts_words && key % 2 == 1 && mixed % 8 < PARTS_SHARE)
		return t->shape.words_most * t->shape.group_objects +
		       (uint32_t)((mixed >> 8) % (t->shape.parts_words -
						  t->shape.words_most * t->shape.group_objects));
	return 1 + (uint32_t)((mixed >> 8) % t->shape.words_most);
}

static uint32_t fill_value(const struct trial *t, uint64_t *words, uint32_t key, uint64_t number)
{
	uint32_t n = value_words(t, key, number);

	for (uint32_t i = 0; i < n; i++)
		words[i] = number << 8 | key;
	return n * (uint32_t)sizeof(words[0]);
}

static uint64_t as_known(const struct trial *t, uint64_t number, uint64_t expiry_ms)
{
	return number << EXPIRY_BITS | (expiry_ms ? expiry_ms - t->base_ms + 1 : 0);
}

/* A value as the history knows it, or 0 and the trial has failed. */
static uint64_t read_value(struct trial *t, uint32_t key, const struct cache_value *found)
{
	uint64_t expected[TRIAL_WORDS_MAX], first = 0;

	if (found->bytes >= sizeof(first))
		memcpy(&first, found->data, sizeof(first));
	if (found->bytes < sizeof(first) || (first & 0xff) != key ||
	    found->bytes != 8 * value_words(t, key, first >> 8)) {
		trial_fail(t,
			   "key %" PRIu32 " has a value of %" PRIu32 " bytes that nobody stored, "
			   "its first word %016" PRIx64,
			   key, found->bytes, first);
		return 0;
	}
	fill_value(t, expected, key, first >> 8);
	if (memcmp(found->data, expected, found->bytes) != 0) {
		trial_fail(t, "key %" PRIu32 " has a torn value, its first word %016" PRIx64, key,
			   first);
		return 0;
	}
	return as_known(t, first >> 8, found->expiry_ms);
}

static struct cache_key key_of(const struct trial *t, uint32_t key)
{
	return (struct cache_key){t->key_text[key], (uint32_t)strlen(t->key_text[key])};
}

uint64_t trial_verbs(const struct fab_counts *counts)
{
	return fab_counts_total(counts).verbs;
}

void trial_note_cost(struct trial *t, enum trial_flow flow, uint64_t verbs, uint64_t ns)
{
	struct trial_cost *cost = &t->result->cost[flow];

	cost->count++;
	cost->verbs += verbs;
	cost->verbs_most = max_u64(cost->verbs_most, verbs);
	cost->ns_most = max_u64(cost->ns_most, ns);
	if (verbs > TRIAL_VERBS_MOST)
		trial_fail(t, "%s took %" PRIu64 " verbs, more than %" PRIu64,
			   trial_flow_sentence(flow), verbs, TRIAL_VERBS_MOST);
}

/* An operation under way. */
struct doing {
	struct trial_session *s;
	uint32_t op; /* of the history */
	enum trial_flow flow;
	uint64_t verbs, began_ns, paused_ns;
};

static struct doing begin(struct trial_session *s, enum trial_flow flow, enum hist_kind kind,
			  uint64_t key, uint64_t value)
{
	struct trial *t = s->process->trial;

	t->result->operations++;
	return (struct doing){
	    .s = s,
	    .op = history_invoke(&t->history, s->thread ? vt_thread_index(s->thread) : 0, kind, key,
				 value),
	    .flow = flow,
	    .verbs = trial_verbs(&s->verbs),
	    .began_ns = trial_now_ns(t),
	    .paused_ns = s->process->paused_ns,
	};
}

/* The process is dead: what it was at never returns.  Ended: took effect, or may have. */
static void end(const struct doing *d, enum hist_result result, uint64_t value)
{
	struct trial *t = d->s->process->trial;
	uint64_t ns = trial_now_ns(t) - d->began_ns;
	uint64_t paused_ns = d->s->process->paused_ns - d->paused_ns;

	if (d->s->process->killed) {
		t->result->pending++;
		return;
	}
	if (result == HIST_UNDECIDED)
		t->result->undecided++;
	history_return(&t->history, d->op, result, value);
	trial_note_cost(t, d->flow, trial_verbs(&d->s->verbs) - d->verbs,
			ns > paused_ns ? ns - paused_ns : 0);
	if (t->options.trace && d->op != HIST_NONE) {
		char text[128];

		history_print_op(&t->history.ops[d->op], text, sizeof(text));
		fprintf(t->options.trace, "%12.3f machine %" PRIu32 " %s\n",
			(double)(trial_now_ns(t) - t->begin_ns) / 1000, d->s->process->machine,
			text);
	}
}

/* It did not happen: in the history it becomes what says nothing. */
static void end_nothing(const struct doing *d)
{
	struct trial *t = d->s->process->trial;

	if (d->op != HIST_NONE && !d->s->process->killed)
		t->history.ops[d->op].kind = HIST_GET;
	end(d, HIST_MISS, 0);
}

/* Statuses that any operation may give: 0 when the thread may go on. */
static int judge_status(struct trial_session *s, int status, const char *what)
{
	if (status >= 0 || status == FORGE_E_AGAIN || status == FORGE_E_NO_SPACE)
		return 0;
	if (status != FORGE_E_NODE || !s->process->lost)
		trial_fail(s->process->trial, "%s says %s", what, status_name(status));
	return status;
}

/* Is a value found after its time?  Judged by the true time at which the operation began. */
static void judge_time(struct trial *t, const struct doing *d, uint32_t key, uint64_t expiry_ms)
{
	uint64_t now_ms = t->pool.time_base_ms + d->began_ns / 1000000;

	if (expiry_ms && expiry_ms <= now_ms)
		trial_fail(t,
			   "key %" PRIu32 ": a value that ended at %" PRIu64
			   " ms was found by an operation that began at %" PRIu64 " ms",
			   key, expiry_ms - t->base_ms, now_ms - t->base_ms);
}

int trial_get(struct trial_session *s, uint32_t key)
{
	struct trial *t = s->process->trial;
	struct doing d = begin(s, TRIAL_FLOW_get, HIST_GET, key, 0);
	struct cache_value found;
	uint64_t value = 0;
	int status = cache_get(&s->cache, key_of(t, key), &found);

	if (!status && !s->process->killed) {
		value = read_value(t, key, &found);
		judge_time(t, &d, key, found.expiry_ms);
		s->seen[key] = value;
		s->seen_id[key] = found.cas_id;
	}
	end(&d, value ? HIST_OK : HIST_MISS, value);
	return judge_status(s, status, "a Get");
}

static uint64_t choose_expiry(struct trial_session *s)
{
	if (!s->process->trial->shape.timed || prng_below(&s->prng, 4))
		return 0;
	return cache_pool_ms(&s->cache) + 1 + prng_below(&s->prng, 3);
}

static int do_set(struct trial_session *s, uint32_t key)
{
	struct trial *t = s->process->trial;
	uint64_t words[TRIAL_WORDS_MAX], number = ++t->next_value;
	struct cache_item item = {.value = words,
				  .bytes = fill_value(t, words, key, number),
				  .expiry_ms = choose_expiry(s)};
	struct doing d =
	    begin(s, TRIAL_FLOW_set, HIST_SET, key, as_known(t, number, item.expiry_ms));
	int status = cache_set(&s->cache, key_of(t, key), &item);

	if (status == FORGE_E_NO_SPACE) {
		t->result->no_space++;
		end_nothing(&d);
		return 0;
	}
	end(&d, status ? HIST_UNDECIDED : HIST_OK, 0);
	return judge_status(s, status, "a Set");
}

/* A key that nobody asks for again: it only takes space. */
static int do_filler(struct trial_session *s)
{
	struct trial *t = s->process->trial;
	uint64_t words[TRIAL_WORDS_MAX];
	char text[32];
	struct cache_item item = {.value = words, .bytes = fill_value(t, words, 0, 1)};
	struct doing d = begin(s, TRIAL_FLOW_set, HIST_GET, 0, 0);

	snprintf(text, sizeof(text), FILLER "%" PRIu64, t->next_filler++);
	int status = cache_set(&s->cache, (struct cache_key){text, (uint32_t)strlen(text)}, &item);

	t->result->no_space += status == FORGE_E_NO_SPACE;
	end(&d, HIST_MISS, 0);
	return judge_status(s, status, "a Set");
}

static int do_delete(struct trial_session *s, uint32_t key)
{
	struct trial *t = s->process->trial;
	struct doing d = begin(s, TRIAL_FLOW_remove, HIST_DELETE, key, 0);
	int status = cache_delete(&s->cache, key_of(t, key));

	end(&d, status == 0 ? HIST_OK : status == FORGE_MISS ? HIST_MISS : HIST_UNDECIDED, 0);
	return judge_status(s, status, "a Delete");
}

static int do_flush(struct trial_session *s)
{
	struct doing d = begin(s, TRIAL_FLOW_flush, HIST_FLUSH, HIST_EVERY_KEY, 0);
	int status = cache_flush(&s->cache);

	end(&d, status ? HIST_UNDECIDED : HIST_OK, 0);
	return judge_status(s, status, "a flush");
}

/* ---- conditional operations --------------------------------------------------------------- */

enum change { ADD, REPLACE, INCREMENT, UPDATE, CAS, TOUCH, REMOVE_IF, LOOK, CHANGES };

struct changing {
	struct doing *d;
	uint32_t key;
	enum change change;
	uint64_t number, expiry_ms, left;
	uint64_t words[TRIAL_WORDS_MAX];
};

static void store(struct changing *c, const struct cache_value *old, uint64_t seen,
		  struct cache_decision *out)
{
	struct trial *t = c->d->s->process->trial;
	bool touches = c->change == TOUCH;
	uint64_t number = touches ? seen >> EXPIRY_BITS : c->number;
	uint64_t expiry_ms = touches || !old ? c->expiry_ms : old->expiry_ms;

	out->verdict = CACHE_STORE;
	out->same_bytes = touches;
	out->item.value = c->words;
	out->item.bytes = fill_value(t, c->words, c->key, number);
	out->item.expiry_ms = expiry_ms;
	out->cas_id = touches ? old->cas_id : 0;
	c->left = as_known(t, number, expiry_ms);
}

static void decide(void *context, const struct cache_value *old, struct cache_decision *out)
{
	struct changing *c = context;
	struct trial_session *s = c->d->s;
	struct trial *t = s->process->trial;
	bool needs_id = c->change == CAS || c->change == REMOVE_IF;
	bool stores = old ? c->change != ADD : c->change == ADD || c->change == UPDATE;
	uint64_t seen = old ? read_value(t, c->key, old) : 0;

	if (old)
		judge_time(t, c->d, c->key, old->expiry_ms);
	c->left = seen;
	if (!stores) {
		out->status = old ? FORGE_NOT_STORED : FORGE_MISS;
	} else if (needs_id && old->cas_id != s->seen_id[c->key]) {
		out->status = FORGE_EXISTS;
	} else if (c->change != LOOK) {
		if (needs_id && seen >> EXPIRY_BITS != s->seen[c->key] >> EXPIRY_BITS)
			trial_fail(t, "key %" PRIu32 ": two values have one id", c->key);
		if (c->change == REMOVE_IF) {
			out->verdict = CACHE_REMOVE;
			c->left = 0;
		} else {
			store(c, old, seen, out);
		}
	}
	if (!s->process->killed)
		history_decide(&t->history, c->d->op, seen, c->left);
}

static int do_change(struct trial_session *s, uint32_t key)
{
	struct trial *t = s->process->trial;
	struct doing d = begin(s, TRIAL_FLOW_change, HIST_CHANGE, key, 0);
	struct changing c = {
	    .d = &d,
	    .key = key,
	    .change = (enum change)prng_below(&s->prng, CHANGES),
	    .number = ++t->next_value,
	    .expiry_ms = choose_expiry(s),
	};
	uint64_t id = 0;
	int status =
	    cache_change(&s->cache, key_of(t, key), &(struct cache_change){decide, &c}, &id);

	if (status == FORGE_E_NO_SPACE || status == FORGE_E_AGAIN) {
		t->result->no_space += status == FORGE_E_NO_SPACE;
		end_nothing(&d);
		return 0;
	}
	if (id && !s->process->killed) {
		s->seen[key] = c.left;
		s->seen_id[key] = id;
	}
	end(&d, status < 0 ? HIST_UNDECIDED : HIST_OK, 0);
	return judge_status(s, status, "a change");
}

/* ---- scans --------------------------------------------------------------------------------- */

struct scanning {
	struct doing *d;
};

static void scanned(void *context, struct cache_key key, const struct cache_value *value)
{
	struct scanning *scan = context;
	struct trial *t = scan->d->s->process->trial;
	uint32_t i = 0;

	while (i < t->shape.keys && !(strlen(t->key_text[i]) == key.bytes &&
				      memcmp(t->key_text[i], key.data, key.bytes) == 0))
		i++;
	if (i == t->shape.keys && memcmp(key.data, FILLER, strlen(FILLER)) == 0)
		return;
	if (i == t->shape.keys)
		trial_fail(t, "a scan found a key that nobody stored");
	else if (value->data && !scan->d->s->process->killed) {
		read_value(t, i, value);
		judge_time(t, scan->d, i, value->expiry_ms);
	}
}

static int do_scan(struct trial_session *s)
{
	struct trial *t = s->process->trial;
	struct doing d = begin(s, TRIAL_FLOW_scan, HIST_GET, 0, 0);
	struct scanning scan = {&d};
	int status = cache_scan_home(
	    &s->cache, (uint32_t)prng_below(&s->prng, t->plan.bucket_count), scanned, &scan);

	end(&d, HIST_MISS, 0);
	return judge_status(s, status, "a scan");
}

int trial_operation(struct trial_session *s)
{
	const struct trial_shape *shape = &s->process->trial->shape;
	struct prng *p = &s->prng;
	uint64_t dice = prng_below(p, 1000);
	/* The lower, the more often. */
	uint32_t key = (uint32_t)min_u64(prng_below(p, shape->keys), prng_below(p, shape->keys));

	if (dice < 10u * shape->get_percent)
		return trial_get(s, key);
	if (prng_below(p, 100) < shape->filler_percent)
		return do_filler(s);
	if (prng_below(p, 100) < shape->delete_percent)
		return do_delete(s, key);
	dice = prng_below(p, 1000);
	if (dice < 600)
		return do_set(s, key);
	if (dice < 970)
		return do_change(s, key);
	if (dice < 990 || !shape->timed)
		return do_scan(s);
	return do_flush(s);
}
