/*
 * large_meddled.c: whose parts are when others step in between any two verbs.
 *
 * One compute node stores values larger than a chunk over a fabric that calls the test before each
 * verb, which then does what another node, or a clock that is set right, would have done just
 * there.  Schedules that are too long or too rare for the worlds of test/sim: a slot that changes
 * at each look, duplicates that never end, and time that jumps in the middle of a regroup.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <stdlib.h>
#include <string.h>

#include "cache/evict.h"
#include "load/value.h"
#include "pool/parts.h"
#include "support/checked.h"

#define VALUE_MAX (1u << 20)
#define NEVER	  UINT32_MAX
#define KEY_ROOM  64

struct meddler;
typedef void (*meddle_fn)(struct meddler *, const struct fab_op *op);

/* A connection that calls before each verb. */
struct meddler {
	struct fab_base base;
	struct rig *rig;
	meddle_fn before;
	uint64_t slot;	 /* whose word is meddled with */
	uint32_t seen;	 /* verbs that counted, in the callback's own way */
	uint32_t stop;	 /* after so many of them it does nothing more */
	uint32_t active; /* something it waits for has happened */
};

static void post(struct fab *f, struct fab_op *ops, unsigned n)
{
	struct meddler *m = (struct meddler *)f;

	for (unsigned i = 0; i < n; i++) {
		m->before(m, &ops[i]);
		fab_post(m->rig->fab, &ops[i], 1);
	}
}

static void do_nothing(struct fab *f)
{
}

static const struct fab_provider meddling = {
    .name = "meddler", .post = post, .kick = do_nothing, .poll = do_nothing};

/* From now on all verbs of the rig go through it. */
static struct meddler meddle(struct rig *r, meddle_fn before)
{
	return (struct meddler){
	    .base = {.provider = &meddling, .caps = *fab_caps(r->fab)},
	    .rig = r,
	    .before = before,
	};
}

static void begin(struct meddler *m)
{
	m->rig->worker.fab = (struct fab *)m;
}

static void end(struct meddler *m)
{
	m->rig->worker.fab = m->rig->fab;
}

static void open_pool(struct rig *r)
{
	rig_open_plan(r, &(struct plan_wish){.pool_bytes = 16u << 20, .policy = "forge"});
	assert_int_equal(r->pool.plan.value_bytes_max, VALUE_MAX);
}

static struct cache_key key_of(char *text, uint32_t id)
{
	return (struct cache_key){text, (uint32_t)snprintf(text, KEY_ROOM, "large-%u", id)};
}

/* A value in so many parts, of which nothing is in the head. */
static int set(struct rig *r, uint32_t id, uint32_t parts, uint64_t expiry_ms)
{
	uint32_t bytes = parts * r->pool.plan.chunk_bytes;
	uint8_t *value = malloc(bytes);
	char key[KEY_ROOM];

	assert_non_null(value);
	assert_int_equal(plan_cut(&r->pool.plan, bytes).part_count, parts);
	value_fill(value, bytes, id, 1, 7);
	int status =
	    cache_set(&r->cache, key_of(key, id),
		      &(struct cache_item){.value = value, .bytes = bytes, .expiry_ms = expiry_ms});

	free(value);
	return status;
}

static int get(struct rig *r, uint32_t id)
{
	char key[KEY_ROOM];
	struct cache_value v;
	uint64_t version;
	int status = cache_get(&r->cache, key_of(key, id), &v);

	if (!status)
		assert_int_equal(value_verify(v.data, v.bytes, id, &version), VALUE_GOOD);
	return status;
}

static struct index_home home_of(const struct rig *r, uint32_t id)
{
	char text[KEY_ROOM];
	struct cache_key key = key_of(text, id);

	return index_locate(&r->pool.plan, key.data, key.bytes);
}

/* Inserts take the first free one. */
static uint64_t slot_of(const struct rig *r, uint32_t id, unsigned slot)
{
	struct index_home home = home_of(r, id);

	return index_slot_number(&home, slot);
}

static uint32_t chunks_in(const struct rig *r, uint32_t state)
{
	uint32_t count = 0;

	for (uint32_t chunk = 0; chunk < r->pool.plan.chunk_count; chunk++)
		count += chunk_state(*chunk_word_of(r, chunk)) == state;
	return count;
}

/* A word of that fingerprint whose object nobody ever wrote. */
static uint64_t word_of_nothing(const struct rig *r, uint32_t fingerprint, uint32_t is_head,
				uint32_t nth)
{
	const struct plan *p = &r->pool.plan;
	struct index_target target = {
	    .fingerprint = fingerprint,
	    .units = 8,
	    .is_head = is_head,
	    .generation = chunk_generation(*chunk_word_of(r, p->chunk_count - 1)),
	    .address = plan_chunk_address(p, p->chunk_count - 1) + 64 * (1 + (uint64_t)nth),
	};

	return index_word(p, &target);
}

/* The CAS that puts key 1 into its slot. */
static int is_link(const struct meddler *m, const struct fab_op *op)
{
	return op->code == FAB_CAS && op->swap &&
	       op->raddr == plan_slot_address(&m->rig->pool.plan, slot_of(m->rig, 1, 0));
}

/* ---- a slot that changes at each look ------------------------------------------------------ */

/*
 * The head is taken out between its link and the look at its slot, and whenever somebody wants to
 * take out what is there instead, which is no head that could be read, it has become another one.
 */
static void keep_changing(struct meddler *m, const struct fab_op *op)
{
	struct rig *r = m->rig;

	int was_active = m->active;

	m->active |= is_link(m, op);
	if (!was_active || m->seen == m->stop ||
	    op->raddr != plan_slot_address(&r->pool.plan, m->slot))
		return;
	if (m->seen == 0 ? op->code == FAB_READ : op->code == FAB_CAS && !op->swap)
		*slot_word(r, m->slot) = word_of_nothing(
		    r, index_fingerprint(*slot_word(r, m->slot)), 1, m->seen++ % 64);
}

static void try_changing(uint32_t times, uint32_t left)
{
	struct rig r;

	open_pool(&r);
	struct meddler m = meddle(&r, keep_changing);

	m.slot = slot_of(&r, 1, 0);
	m.stop = times;
	begin(&m);
	assert_int_equal(set(&r, 1, 3, 0), 0);
	end(&m);
	assert_true(m.seen > 1);
	assert_int_equal(r.cache.count.parts_linked, 3);
	assert_int_equal(r.cache.count.parts_left, left);
	assert_int_equal(chunks_in(&r, CHUNK_PART), left);
	assert_int_equal(cursors_of(&r)->part_chunks, left);
	rig_close(&r);
}

static void test_slot_keeps_changing(void **state)
{
	try_changing(2, 0);
	/* Any number that others can be believed to manage. */
	try_changing(100, 0);
	/* There is a bound nevertheless, and what it leaves is counted. */
	try_changing(NEVER, 3);
}

/* ---- duplicates that never end -------------------------------------------------------------- */

/* Whenever the neighbourhood is READ after the link, a dead word of the fingerprint is there. */
static void add_duplicate(struct meddler *m, const struct fab_op *op)
{
	struct rig *r = m->rig;
	const struct plan *p = &r->pool.plan;

	m->active |= is_link(m, op);
	if (!m->active || m->seen == m->stop || op->code != FAB_READ ||
	    op->raddr != plan_bucket_address(p, home_of(r, 1).bucket))
		return;
	m->seen++;
	*slot_word(r, m->slot) = word_of_nothing(r, home_of(r, 1).fingerprint, 0, m->seen % 64);
}

/*
 * A Set whose value is in its slot has happened.  Tried again, it would put the same object over
 * itself, and free the parts it lists.
 */
static void test_duplicates_never_end(void **state)
{
	struct rig r;

	open_pool(&r);
	struct meddler m = meddle(&r, add_duplicate);

	m.slot = slot_of(&r, 1, LAYOUT_NEIGHBOURHOOD - 1);
	m.stop = 65; /* one with the link, and one for each round of the Set */
	begin(&m);
	assert_int_equal(set(&r, 1, 3, 0), FORGE_E_AGAIN);
	end(&m);
	assert_int_equal(m.seen, m.stop);
	assert_int_equal(chunks_in(&r, CHUNK_PART), 3);
	assert_int_equal(get(&r, 1), 0);
	rig_close(&r);
}

/* ---- time that jumps ------------------------------------------------------------------------ */

/* The first head that goes with its group takes an hour. */
static void jump(struct meddler *m, const struct fab_op *op)
{
	struct rig *r = m->rig;

	if (m->seen || op->code != FAB_CAS || !index_is_head(op->arg) || op->swap ||
	    op->raddr < r->pool.plan.index_offset)
		return;
	m->seen++;
	r->pool.time_base_ms += 3600000;
}

/* What is being filled is queued, and known to be. */
static void seal(struct rig *r)
{
	while (r->lane.filling_count[RING_SMALL] > 0)
		assert_int_equal(cache_close_group(&r->cache, RING_SMALL), 0);
	assert_int_equal(cache_poll(&r->cache), 0);
}

/* Three heads in one group, of which the first is to stay; it expires while the others go. */
static void test_time_jumps(void **state)
{
	struct rig r;

	open_pool(&r);
	for (uint32_t id = 1; id <= 3; id++)
		assert_int_equal(set(&r, id, 1, id == 1 ? cache_pool_ms(&r.cache) + 60000 : 0), 0);
	seal(&r);
	uint32_t chunk = chunk_in(&r, CHUNK_QUEUED, 0);

	assert_int_equal(chunks_in(&r, CHUNK_QUEUED), 1);
	/* Another one behind it, so that it has an age. */
	assert_int_equal(rig_set(&r, 1, 1, 64), 0);
	seal(&r);
	for (uint32_t sn = 1; sn < 3; sn++)
		cn_note_dead(&r.cn, chunk, chunk_generation(*chunk_word_of(&r, chunk)), sn);
	struct meddler m = meddle(&r, jump);

	begin(&m);
	int status = FORGE_MISS;

	/* Each looks at a share of the groups. */
	for (uint32_t i = 0; status == FORGE_MISS && i < r.pool.plan.chunk_count; i++)
		status = compact(&r.cache, 100);
	assert_int_equal(status, 0);
	end(&m);
	assert_int_equal(m.seen, 1);
	assert_int_equal(r.cache.count.objects_rescued, 1);
	/* The time it goes by is that of its beginning. */
	assert_int_equal(chunks_in(&r, CHUNK_PART), 1);
	assert_clean(&r, &check_at_rest);
	assert_int_equal(get(&r, 1), FORGE_MISS);
	assert_int_equal(chunks_in(&r, CHUNK_PART), 0);
	assert_clean(&r, &check_at_rest);
	rig_close(&r);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test(test_slot_keeps_changing),
	    cmocka_unit_test(test_duplicates_never_end),
	    cmocka_unit_test(test_time_jumps),
	};

	return cmocka_run_group_tests_name("large values, meddled with", tests, NULL, NULL);
}
