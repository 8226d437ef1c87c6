/* serve_figures.c: what the pools of a server hold, counted when somebody asks for it. */
#include "tool/serve_figures.h"

#include "pool/registry.h"
#include "tool/survey.h"

/* An index that size is counted through when somebody asks; a larger one is estimated. */
#define SCAN_BYTES_MAX (UINT64_C(64) << 20)

/* One compute node and one ring: how far ahead of evictions are its flushes, and behind the window?
 */
static void judge_flushes(const struct plan *p, const struct survey *s, uint32_t cn, uint32_t ring,
			  struct server_figures *out)
{
	uint64_t head = s->cursors.ring[ring].head, tail = s->cursors.ring[ring].tail;
	uint64_t due = min_u64(head + p->window_groups, max_u64(head, tail));
	int64_t margin = (int64_t)(s->lines[cn].flushed[ring] - head);
	int64_t lag = (int64_t)(due - s->lines[cn].flushed[ring]);

	if (tail <= head)
		return; /* nothing can be evicted */
	if (margin < out->window_margin_groups)
		out->window_margin_groups = margin;
	if (lag > out->flush_lag_groups)
		out->flush_lag_groups = lag;
}

static void judge_nodes(const struct plan *p, const struct survey *s, struct server_figures *out)
{
	uint32_t nodes = 0;

	for (uint32_t cn = 0; cn < p->cn_max; cn++) {
		if (registry_state(s->lines[cn].id) != REGISTRY_LIVE)
			continue;
		nodes++;
		for (uint32_t ring = 0; ring < RING_QUEUES; ring++)
			judge_flushes(p, s, cn, ring, out);
	}
	/* A compute node is one of each memory node. */
	out->nodes = nodes > out->nodes ? nodes : out->nodes;
}

/* Add what one pool holds. */
static int count_member(const struct cache *c, struct server_figures *out)
{
	const struct pool *pool = c->cn->pool;
	const struct plan *p = &pool->plan;
	bool scan = plan_slot_count(p) * 8 * p->slot_words <= SCAN_BYTES_MAX;
	struct survey survey;
	int status = survey_take(pool, c->worker, scan, &survey);

	if (status)
		return status;
	uint64_t items = scan ? survey.slots_live
			      : survey.ring_members[RING_SMALL] + survey.ring_members[RING_MAIN];

	out->items += items;
	out->bytes += scan ? survey.live_bytes : items * p->object_bytes;
	out->chunks += p->chunk_count;
	out->chunks_free += survey.chunks[CHUNK_FREE];
	out->chunk_bytes += (uint64_t)p->chunk_count * p->chunk_bytes;
	out->capacity += plan_capacity_objects(p);
	stats_merge(&out->stats, &survey.stats);
	if (p->window_groups < out->window_margin_groups)
		out->window_margin_groups = p->window_groups;
	judge_nodes(p, &survey, out);
	survey_free(&survey);
	return 0;
}

int serve_figures(struct client *client, struct view *v, struct server_figures *out)
{
	int status = FORGE_E_NODE;

	*out = (struct server_figures){.window_margin_groups = INT64_MAX};
	for (uint32_t i = 0; i < client_member_end(client); i++) {
		uint64_t since_ns = 0;
		struct cache *c;
		int one;

		do {
			one = view_cache(v, i, &c);
		} while (one && view_again(v, i, &one, &since_ns));
		if (!one)
			one = count_member(c, out);
		if (one == FORGE_E_NODE)
			view_lost(v, i);
		else if (one)
			return one;
		else
			status = 0;
	}
	out->live_share = status ? 0 : (double)out->bytes / (double)out->chunk_bytes;
	return status;
}
