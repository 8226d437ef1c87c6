/* respread.c: the transcript of pool/spread.h, as tool/spread.c has it. */
#include "support/respread.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <cmocka.h>

#include <string.h>
#include <time.h>

#include "base/compiler.h"
#include "base/hash.h"
#include "cache/cn.h"
#include "client/name.h"
#include "fabric/shm.h"
#include "pool/spread.h"

#define TOKEN UINT64_C(0x1234567)

struct node {
	struct shm_map *map;
	struct fab *fab;
	struct worker w;
	struct pool pool;
	struct spread_view view;
	struct spread_step step;
	uint64_t id;
};

static void node_open(struct node *n, const char *name)
{
	char error[512];

	if (shm_map_open(name, 0, error, sizeof(error), &n->map))
		fail_msg("%s", error);
	assert_int_equal(shm_open_connection(n->map, &n->fab), 0);
	worker_init(&n->w, n->fab, clock_monotonic(), 1);
	assert_int_equal(pool_open(&n->w, &n->pool, error, sizeof(error)), 0);
	assert_int_equal(spread_read(&n->w, &n->pool, &n->view), 0);
	n->id = spread_page_member(&n->view.page);
	if (!n->id)
		n->id = n->pool.pool_id;
}

static void node_close(struct node *n)
{
	fab_close(n->fab);
	shm_map_close(n->map);
}

static uint64_t place_of(const char *name)
{
	struct pool_name parsed;
	char error[256];

	assert_int_equal(name_parse(name, &parsed, error, sizeof(error)), 0);
	return name_place_hash(&parsed);
}

static void make_next(const struct respread *r, const struct node *nodes,
		      const struct spread_record *before, struct spread_record *next)
{
	struct spread_member members[RESPREAD_NODES_MAX];
	const char *names[RESPREAD_NODES_MAX];
	struct spread_wish wish = {.members = members, .names = names};

	for (unsigned i = 0; i < r->count; i++) {
		wish.epoch = max_u64(wish.epoch, nodes[i].view.epoch + 1);
		if (!(r->which >> i & 1))
			continue;
		members[wish.count] = (struct spread_member){
		    nodes[i].id, spread_weight(nodes[i].pool.plan.pool_bytes),
		    place_of(r->names[i])};
		names[wish.count++] = i == 2 && r->third_name ? r->third_name : r->names[i];
	}
	wish.id = before ? before->id : 0;
	wish.kept = before ? before->kept : nodes[0].pool.pool_id;
	assert_int_equal(spread_record_make(next, &wish), 0);
}

static const struct spread_record *newest(const struct node *nodes, unsigned count)
{
	const struct spread_record *before = NULL;

	for (unsigned i = 0; i < count; i++)
		if (nodes[i].view.record &&
		    (!before || nodes[i].view.record->epoch > before->epoch))
			before = nodes[i].view.record;
	return before;
}

static void pause_between(const struct respread *r)
{
	if (r->pause)
		r->pause(r->context);
}

static void commit(const struct respread *r, struct node *nodes, uint64_t epoch)
{
	const struct timespec samples = {.tv_nsec = 2000L * CN_FLUSH_TRUST_US_DEFAULT + 1000000};
	unsigned end = r->is_cut_off ? (r->count + 1) / 2 : r->count;

	for (unsigned i = 0; i < end; i++) {
		pause_between(r);
		assert_int_equal(spread_commit(&nodes[i].w, &nodes[i].pool, epoch, &nodes[i].step),
				 0);
	}
	if (r->is_cut_off)
		return;
	nanosleep(&samples, NULL);
	pause_between(r);
	for (unsigned i = 0; i < r->count; i++)
		assert_int_equal(spread_unclaim(&nodes[i].w, TOKEN), 0);
}

void respread(const struct respread *r)
{
	static struct node nodes[RESPREAD_NODES_MAX];
	static struct spread_record next;

	for (unsigned i = 0; i < r->count; i++)
		node_open(&nodes[i], r->names[i]);
	const struct spread_record *before = newest(nodes, r->count);

	make_next(r, nodes, before, &next);
	for (unsigned i = 0; i < r->count; i++) {
		spread_plan(&nodes[i].view, before, &next, nodes[i].id, !before && i == 0,
			    &nodes[i].step);
		assert_int_equal(
		    spread_claim(&nodes[i].w, TOKEN, r->is_forced ? nodes[i].view.claim : 0), 0);
		assert_int_equal(spread_prepare(&nodes[i].w, &nodes[i].view, &next, &nodes[i].step),
				 0);
	}
	commit(r, nodes, next.epoch);
	for (unsigned i = 0; i < r->count; i++)
		node_close(&nodes[i]);
}

void respread_learn(const char *name, struct respread_now *out)
{
	static struct node n;

	node_open(&n, name);
	assert_non_null(n.view.record);
	out->record = *n.view.record;
	node_close(&n);
	spread_table(&out->record, out->table);
}

uint64_t respread_id_of(const struct respread_now *now, const char *name)
{
	for (uint32_t i = 0; i < now->record.member_count; i++)
		if (strcmp(spread_record_name(&now->record, i), name) == 0)
			return now->record.member[i].id;
	fail_msg("%s is no member", name);
	return 0;
}

unsigned respread_node_of(const struct respread_now *now, const char *const *names, unsigned count,
			  struct cache_key key)
{
	uint32_t member = now->table[spread_partition(hash_key(key.data, key.bytes))];

	for (unsigned i = 0; i < count; i++)
		if (strcmp(spread_record_name(&now->record, member), names[i]) == 0)
			return i;
	fail_msg("no node has the key %.*s", (int)key.bytes, (const char *)key.data);
	return 0;
}
