/* stat_json.c: what `forge stat --json` prints for programs. */
#include <inttypes.h>
#include <stdio.h>

#include "bench/json_text.h"
#include "tool/stat.h"

static json_t *number(uint64_t n)
{
	return json_integer((json_int_t)n);
}

static json_t *plan_json(const struct plan *p)
{
	const struct {
		const char *name;
		uint64_t value;
	} rows[] = {
	    {"pool_bytes", p->pool_bytes},
	    {"chunk_count", p->chunk_count},
	    {"chunk_bytes", p->chunk_bytes},
	    {"group_objects", plan_expected_objects(p)},
	    {"group_objects_max", p->group_objects},
	    {"object_bytes", p->object_bytes},
	    {"slot_words", p->slot_words},
	    {"bucket_count", p->bucket_count},
	    {"bucket_bytes", p->bucket_bytes},
	    {"cn_max", p->cn_max},
	    {"ring_nodes", p->ring_nodes},
	    {"ofm_rows", p->ofm_rows},
	    {"window_groups", p->window_groups},
	    {"value_bytes_max", p->value_bytes_max},
	    {"part_count_max", p->part_count_max},
	    {"metadata_bytes", plan_metadata_bytes(p)},
	    {"capacity_objects", plan_capacity_objects(p)},
	    {"cursors_offset", p->cursors_offset},
	    {"registry_offset", p->registry_offset},
	    {"chunk_table_offset", p->chunk_table_offset},
	    {"index_offset", p->index_offset},
	    {"chunks_offset", p->chunks_offset},
	};
	json_t *plan = json_object();

	json_object_set_new(plan, "policy", json_string(p->policy));
	for (unsigned i = 0; i < ARRAY_COUNT(rows); i++)
		json_object_set_new(plan, rows[i].name, number(rows[i].value));
	return plan;
}

static json_t *rings_json(const struct survey *s)
{
	json_t *rings = json_object();

	for (unsigned r = 0; r < RING_COUNT; r++) {
		json_t *ring = json_object();

		json_object_set_new(ring, "head", number(s->cursors.ring[r].head));
		json_object_set_new(ring, "tail", number(s->cursors.ring[r].tail));
		json_object_set_new(ring, "chunks", number(s->ring_chunks[r]));
		if (r < RING_QUEUES)
			json_object_set_new(ring, "members", number(s->ring_members[r]));
		json_object_set_new(rings, stat_rings[r], ring);
	}
	return rings;
}

static json_t *stats_object(const struct survey *s)
{
	json_t *stats = json_object();

	for (unsigned i = 0; i < STATS_COUNT; i++)
		json_object_set_new(stats, stats_name(i)->name, number(s->stats.count[i]));
	json_object_set_new(stats, "in_index", number(stats_present(&s->stats)));
	return stats;
}

static json_t *registry_json(const struct stat_node *n)
{
	const struct plan *p = &n->look.pool.plan;
	const struct survey *s = &n->survey;
	json_t *lines = json_array();

	for (uint32_t cn = 0; cn < p->cn_max; cn++) {
		const struct layout_registry *line = &s->lines[cn];
		uint32_t state = registry_state(line->id);
		json_t *o;

		if (state == REGISTRY_FREE && !s->held[cn])
			continue;
		o = json_object();
		json_object_set_new(o, "cn", number(cn));
		json_object_set_new(o, "state", json_string(stat_registry_states[state]));
		json_object_set_new(o, "pid", number(registry_pid(line->id)));
		json_object_set_new(o, "process_is_alive", json_boolean(n->is_alive[cn]));
		json_object_set_new(o, "worker_count", number(line->worker_count));
		json_object_set_new(o, "chunks_held", number(s->held[cn]));
		json_object_set_new(o, "polled_us", number(line->polled_us));
		json_object_set_new(o, "flushed_small", number(line->flushed[RING_SMALL]));
		json_object_set_new(o, "flushed_main", number(line->flushed[RING_MAIN]));
		json_object_set_new(o, "flush_generation", number(fence_generation(line->fence)));
		json_array_append_new(lines, o);
	}
	return lines;
}

static json_t *scan_json(const struct survey *s, const struct plan *p)
{
	json_t *scan = json_object();

	json_object_set_new(scan, "objects", number(s->slots_live));
	json_object_set_new(scan, "object_bytes", number(s->live_bytes));
	json_object_set_new(scan, "live_share", json_real(survey_live_share(s, p)));
	json_object_set_new(scan, "slots", number(s->slots));
	json_object_set_new(scan, "slots_stale", number(s->slots_stale));
	json_object_set_new(scan, "slots_tentative", number(s->slots_tentative));
	return scan;
}

static json_t *metrics_json(const struct stat_node *n)
{
	json_t *root = json_object();

	json_object_set_new(root, "schema", json_string("forge-stat-metrics-1"));
	json_object_set_new(root, "pool", json_text(n->name));
	json_object_set_new(root, "is_served", json_true());
	json_object_set_new(root, "node", counters_json(&n->counters));
	return root;
}

json_t *stat_json(const struct stat_node *n)
{
	if (n->look.is_metrics)
		return metrics_json(n);
	const struct survey *s = &n->survey;
	const struct pool *pool = &n->look.pool;
	json_t *root = json_object(), *chunks = json_object();
	char id[17];

	snprintf(id, sizeof(id), "%016" PRIx64, pool->pool_id);
	json_object_set_new(root, "schema", json_string("forge-stat-1"));
	json_object_set_new(root, "pool", json_text(n->name));
	json_object_set_new(root, "id", json_string(id));
	json_object_set_new(root, "epoch", number(pool->epoch));
	json_object_set_new(root, "is_served", json_boolean(n->look.is_served));
	json_object_set_new(root, "plan", plan_json(&pool->plan));
	for (unsigned state = 0; state < CHUNK_STATES; state++)
		json_object_set_new(chunks, stat_chunk_states[state], number(s->chunks[state]));
	json_object_set_new(chunks, "unknown", number(s->chunks_unknown));
	json_object_set_new(root, "chunks", chunks);
	json_object_set_new(root, "rings", rings_json(s));
	json_object_set_new(root, "flush_generation", number(fence_generation(s->cursors.fence)));
	json_object_set_new(root, "counters", stats_object(s));
	json_object_set_new(root, "compute_nodes", registry_json(n));
	if (s->has_scan)
		json_object_set_new(root, "scan", scan_json(s, &pool->plan));
	space_json(&n->space, &pool->plan, root);
	if (n->counters.count)
		json_object_set_new(root, "node", counters_json(&n->counters));
	return root;
}

json_t *stat_sum_json(const struct stat_sum *sum)
{
	const struct survey all = {.stats = sum->stats};
	json_t *o = json_object(), *chunks = json_object();

	for (unsigned state = 0; state < CHUNK_STATES; state++)
		json_object_set_new(chunks, stat_chunk_states[state], number(sum->chunks[state]));
	json_object_set_new(o, "memory_nodes", number(sum->answers));
	if (sum->counters.count)
		json_object_set_new(o, "node", counters_json(&sum->counters));
	if (sum->nodes == 0) {
		json_decref(chunks);
		return o;
	}
	json_object_set_new(o, "pool_bytes", number(sum->pool_bytes));
	json_object_set_new(o, "chunks", chunks);
	json_object_set_new(o, "counters", stats_object(&all));
	if (sum->has_scan) {
		json_object_set_new(o, "objects", number(sum->slots_live));
		json_object_set_new(o, "object_bytes", number(sum->live_bytes));
	}
	return o;
}
