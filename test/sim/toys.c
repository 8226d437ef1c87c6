/* toys.c: see toys.h. */
#include "toys.h"

#include <inttypes.h>
#include <string.h>

#include "base/status.h"

#define WORD(i) ((uint64_t)(i)*8)

static uint64_t memory_word(const struct sim *s, int i)
{
	uint64_t word;

	memcpy(&word, sim_memory(s) + WORD(i), 8);
	return word;
}

static uint64_t read_word(struct worker *w, int i)
{
	uint64_t word = 0;
	struct fab_op op = fab_read(FAB_INDEX, WORD(i), &word, 8);

	flow_run(w, &op, 1);
	return word;
}

static void write_word(struct worker *w, int i, uint64_t word)
{
	struct fab_op op = fab_write(FAB_INDEX, WORD(i), &word, 8);

	flow_run(w, &op, 1);
}

static bool cas_word(struct worker *w, int i, uint64_t from, uint64_t to)
{
	struct fab_op op = fab_cas(FAB_INDEX, WORD(i), from, to);

	flow_run(w, &op, 1);
	return fab_cas_won(&op);
}

static void add_word(struct worker *w, int i)
{
	struct fab_op op = fab_faa(FAB_INDEX, WORD(i), 1);

	flow_run(w, &op, 1);
}

static int expect_word(struct sim *s, int i, uint64_t expected, char *why, size_t why_bytes)
{
	if (memory_word(s, i) == expected)
		return 0;
	snprintf(why, why_bytes, "word %d is %" PRIu64 " and not %" PRIu64, i, memory_word(s, i),
		 expected);
	return FORGE_E_CORRUPT;
}

/* --- counters ------------------------------------------------------------------------------ */

static void counter_plain(void *context, struct worker *w)
{
	for (int i = 0; i < 2; i++)
		write_word(w, 0, read_word(w, 0) + 1);
}

static int counter_is_4(void *context, struct sim *s, char *why, size_t why_bytes)
{
	return expect_word(s, 0, 4, why, why_bytes);
}

static void counter_cas(void *context, struct worker *w)
{
	uint64_t seen;

	do
		seen = read_word(w, 0);
	while (!cas_word(w, 0, seen, seen + 1));
}

static int counter_is_2(void *context, struct sim *s, char *why, size_t why_bytes)
{
	return expect_word(s, 0, 2, why, why_bytes);
}

static int counter_is_3(void *context, struct sim *s, char *why, size_t why_bytes)
{
	return expect_word(s, 0, 3, why, why_bytes);
}

static void counter_faa(void *context, struct worker *w)
{
	for (int i = 0; i < 2; i++)
		add_word(w, 0);
}

static void apart(void *context, struct worker *w)
{
	for (int i = 0; i < 3; i++)
		add_word(w, (int)w->index);
}

/* --- stores -------------------------------------------------------------------------------- */

/* A slot holds the value of the only key, 1; 0 is empty. */
struct store {
	int slot_count;
};

static void store_set(const struct store *st, struct worker *w, uint64_t value)
{
	uint32_t op = sim_op_begin(w, HIST_SET, 1, value);

	for (;;) {
		int home = (int)w->index % st->slot_count;
		uint64_t seen;

		for (int i = 0; i < st->slot_count; i++)
			if (read_word(w, i))
				home = i;
		seen = read_word(w, home);
		if (cas_word(w, home, seen, value))
			break;
	}
	sim_op_end(w, op, HIST_OK, 0);
}

static void store_get(const struct store *st, struct worker *w)
{
	uint32_t op = sim_op_begin(w, HIST_GET, 1, 0);
	uint64_t value = 0;

	for (int i = 0; i < st->slot_count && !value; i++)
		value = read_word(w, i);
	sim_op_end(w, op, value ? HIST_OK : HIST_MISS, value);
}

static void store_delete(const struct store *st, struct worker *w)
{
	uint32_t op = sim_op_begin(w, HIST_DELETE, 1, 0);
	bool found = false;

	for (int i = 0; i < st->slot_count && !found; i++) {
		uint64_t seen = read_word(w, i);

		while (seen && !found) {
			found = cas_word(w, i, seen, 0);
			if (!found)
				seen = read_word(w, i);
		}
	}
	sim_op_end(w, op, found ? HIST_OK : HIST_MISS, 0);
}

static void store_worker(void *context, struct worker *w)
{
	const struct store *st = context;

	store_set(st, w, 101 + w->index);
	if (w->index == 0) {
		store_delete(st, w);
		store_get(st, w);
	}
}

/* --- the same with a rule for duplicates --------------------------------------------------- */

#define RULE_SLOTS 2

/* One READ of all slots; how many hold a value, and the lowest that does. */
static int read_slots(struct worker *w, uint64_t slots[RULE_SLOTS], int *lowest)
{
	struct fab_op op = fab_read(FAB_INDEX, WORD(0), slots, RULE_SLOTS * 8);
	int count = 0;

	flow_run(w, &op, 1);
	*lowest = 0;
	for (int i = RULE_SLOTS; i-- > 0;) {
		if (!slots[i])
			continue;
		count++;
		*lowest = i;
	}
	return count;
}

/* Remove all but the lowest; how many were seen in a READ that showed no more than one. */
static int read_alone(struct worker *w, uint64_t slots[RULE_SLOTS], int *lowest)
{
	int count;

	while ((count = read_slots(w, slots, lowest)) > 1)
		for (int i = RULE_SLOTS; i-- > *lowest + 1;)
			if (slots[i])
				cas_word(w, i, slots[i], 0);
	return count;
}

/* Insert, then look again: the lowest stays and removes the others, anyone else removes itself. */
static bool rule_insert(struct worker *w, uint64_t value)
{
	int mine = (int)w->index % RULE_SLOTS, lowest;
	uint64_t slots[RULE_SLOTS];

	if (!cas_word(w, mine, 0, value))
		return false;
	while (read_slots(w, slots, &lowest) > 1 && slots[mine] == value) {
		if (lowest != mine) {
			cas_word(w, mine, value, 0);
			return false;
		}
		for (int i = RULE_SLOTS; i-- > mine + 1;)
			if (slots[i])
				cas_word(w, i, slots[i], 0);
	}
	return true;
}

static void rule_set(struct worker *w, uint64_t value)
{
	uint32_t op = sim_op_begin(w, HIST_SET, 1, value);
	uint64_t slots[RULE_SLOTS];
	bool done = false;
	int lowest;

	while (!done) {
		if (read_alone(w, slots, &lowest))
			done = cas_word(w, lowest, slots[lowest], value);
		else
			done = rule_insert(w, value);
	}
	sim_op_end(w, op, HIST_OK, 0);
}

static void rule_get(struct worker *w)
{
	uint32_t op = sim_op_begin(w, HIST_GET, 1, 0);
	uint64_t slots[RULE_SLOTS];
	int lowest, count = read_alone(w, slots, &lowest);

	sim_op_end(w, op, count ? HIST_OK : HIST_MISS, slots[lowest]);
}

static void rule_delete(struct worker *w)
{
	uint32_t op = sim_op_begin(w, HIST_DELETE, 1, 0);
	uint64_t slots[RULE_SLOTS];
	bool found = false;
	int lowest;

	while (read_slots(w, slots, &lowest))
		for (int i = RULE_SLOTS; i-- > 0;)
			if (slots[i])
				found |= cas_word(w, i, slots[i], 0);
	sim_op_end(w, op, found ? HIST_OK : HIST_MISS, 0);
}

static void rule_worker(void *context, struct worker *w)
{
	rule_set(w, 101 + w->index);
	if (w->index == 0) {
		rule_delete(w);
		rule_get(w);
	}
}

static int rule_get_last(void *context, struct sim *s, char *why, size_t why_bytes)
{
	rule_get(sim_observer(s));
	return 0;
}

/* Whoever comes afterwards must find what the others left. */
static int store_get_last(void *context, struct sim *s, char *why, size_t why_bytes)
{
	store_get(context, sim_observer(s));
	return 0;
}

/* --- long values ---------------------------------------------------------------------------- */

#define VALUE_WORDS 4

struct value {
	bool checked;
};

static void value_worker(void *context, struct worker *w)
{
	const struct value *v = context;
	uint64_t words[VALUE_WORDS];
	struct fab_op op = fab_read(FAB_DATA, WORD(0), words, sizeof(words));
	bool whole = true;
	uint32_t id;

	if (w->index == 0) {
		for (uint64_t value = 1; value <= 2; value++) {
			id = sim_op_begin(w, HIST_SET, 1, value);
			for (int i = 0; i < VALUE_WORDS; i++)
				words[i] = value * 100;
			op = fab_write(FAB_DATA, WORD(0), words, sizeof(words));
			flow_run(w, &op, 1);
			sim_op_end(w, id, HIST_OK, 0);
		}
		return;
	}
	id = sim_op_begin(w, HIST_GET, 1, 0);
	flow_run(w, &op, 1);
	for (int i = 1; i < VALUE_WORDS; i++)
		whole = whole && words[i] == words[0];
	if (v->checked && !whole)
		sim_op_end(w, id, HIST_MISS, 0);
	else
		sim_op_end(w, id, words[3] ? HIST_OK : HIST_MISS,
			   whole ? words[0] / 100 : words[0] * 1000 + words[3]);
}

/* --- crashes -------------------------------------------------------------------------------- */

static void pair_plain(void *context, struct worker *w)
{
	if (w->index == 0) {
		write_word(w, 0, 7);
		write_word(w, 1, 7);
	} else {
		read_word(w, 0);
	}
}

static int pair_is_equal(void *context, struct sim *s, char *why, size_t why_bytes)
{
	return expect_word(s, 0, memory_word(s, 1), why, why_bytes);
}

static void pair_cas(void *context, struct worker *w)
{
	if (w->index == 0)
		cas_word(w, 0, 0, (uint64_t)7 << 32 | 7);
	else
		read_word(w, 0);
}

static int halves_are_equal(void *context, struct sim *s, char *why, size_t why_bytes)
{
	uint64_t word = memory_word(s, 0);

	if (word >> 32 == (uint32_t)word)
		return 0;
	snprintf(why, why_bytes, "halves differ in %" PRIx64, word);
	return FORGE_E_CORRUPT;
}

/* --- waiting -------------------------------------------------------------------------------- */

#define WAITS_MAX 50

static bool wait_for(struct worker *w, int i, uint64_t value)
{
	for (int n = 0; n < WAITS_MAX; n++) {
		if (read_word(w, i) == value)
			return true;
		flow_pause(w);
	}
	return false;
}

static void wait_flag(void *context, struct worker *w)
{
	int mine = (int)w->index, theirs = 1 - mine;

	for (uint64_t turn = 1; turn <= 3; turn++) {
		if (mine == 1 && !wait_for(w, theirs, turn))
			return;
		write_word(w, mine, turn);
		if (mine == 0 && !wait_for(w, theirs, turn))
			return;
	}
}

static int flags_are_3(void *context, struct sim *s, char *why, size_t why_bytes)
{
	int rc = expect_word(s, 0, 3, why, why_bytes);

	return rc ? rc : expect_word(s, 1, 3, why, why_bytes);
}

static void wait_never(void *context, struct worker *w)
{
	if (!wait_for(w, 0, 1))
		add_word(w, 1);
}

static int both_gave_up(void *context, struct sim *s, char *why, size_t why_bytes)
{
	return expect_word(s, 1, 2, why, why_bytes);
}

static void spin(void *context, struct worker *w)
{
	for (;;)
		add_word(w, 0);
}

/* --- detached writes ------------------------------------------------------------------------ */

static void hand_over(struct worker *w, bool late)
{
	uint64_t value = 5;
	struct fab_op value_op = fab_write(FAB_DATA, WORD(1), &value, 8);
	struct fab_op flag_op = fab_cas(FAB_INDEX, WORD(0), 0, 1);
	struct fab_op ops[2] = {value_op, flag_op};

	if (late) {
		ops[0] = flag_op;
		ops[1] = value_op;
	}
	ops[late].flags |= FAB_DETACHED;
	flow_run(w, ops, 2);
	value = 6; /* the detached WRITE was copied when it was posted */
}

static void detached_worker(struct worker *w, bool late)
{
	uint64_t words[2];
	struct fab_op ops[2] = {fab_read(FAB_INDEX, WORD(0), &words[0], 8),
				fab_read(FAB_DATA, WORD(1), &words[1], 8)};

	if (w->index == 0) {
		hand_over(w, late);
		return;
	}
	flow_run(w, ops, 2);
	write_word(w, 2, words[0] ? words[1] : 5);
}

static void detached(void *context, struct worker *w)
{
	detached_worker(w, false);
}

static void detached_late(void *context, struct worker *w)
{
	detached_worker(w, true);
}

static int value_was_there(void *context, struct sim *s, char *why, size_t why_bytes)
{
	return expect_word(s, 2, 5, why, why_bytes);
}

/* --- the table ------------------------------------------------------------------------------ */

static void name_word(void *context, uint64_t raddr, char *text, size_t text_bytes)
{
	snprintf(text, text_bytes, "word[%" PRIu64 "]", raddr / 8);
}

static struct store one_slot = {1}, two_slots = {2};
static struct value plain = {false}, checked = {true};

#define TOY(text, cns, worker_fn, check_fn)                                                    \
	{                                                                                      \
		.name = text, .worker_count = cns, .worker_cn = {0, 1, 2}, .memory_bytes = 64, \
		.history_ops_max = 16, .worker = worker_fn, .check = check_fn,                 \
		.name_region = name_word,                                                      \
	}

static const struct {
	struct sim_world_ops ops;
	void *context;
} toys[] = {
    {TOY("counter-plain", 2, counter_plain, counter_is_4), NULL},
    {TOY("counter-cas", 2, counter_cas, counter_is_2), NULL},
    {TOY("counter-cas3", 3, counter_cas, counter_is_3), NULL},
    {TOY("counter-faa", 2, counter_faa, counter_is_4), NULL},
    {TOY("apart", 2, apart, NULL), NULL},
    {TOY("store-one", 2, store_worker, store_get_last), &one_slot},
    {TOY("store-dup", 2, store_worker, store_get_last), &two_slots},
    {TOY("store-rule", 2, rule_worker, rule_get_last), NULL},
    {TOY("store-rule3", 3, rule_worker, rule_get_last), NULL},
    {TOY("value-plain", 2, value_worker, NULL), &plain},
    {TOY("value-checked", 2, value_worker, NULL), &checked},
    {TOY("pair-plain", 2, pair_plain, pair_is_equal), NULL},
    {TOY("pair-cas", 2, pair_cas, halves_are_equal), NULL},
    {TOY("wait-flag", 2, wait_flag, flags_are_3), NULL},
    {TOY("wait-never", 2, wait_never, both_gave_up), NULL},
    {TOY("detached", 2, detached, value_was_there), NULL},
    {TOY("detached-late", 2, detached_late, value_was_there), NULL},
    {TOY("spin", 2, spin, NULL), NULL},
};

int toy_build(const char *name, struct sim **out)
{
	for (size_t i = 0; i < ARRAY_COUNT(toys); i++)
		if (strcmp(toys[i].ops.name, name) == 0)
			return sim_create(&toys[i].ops, toys[i].context, out);
	return FORGE_E_INVAL;
}
