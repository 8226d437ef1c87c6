/* cluster.c: formatting, attaching, and adding up. */
#include "vtime/cluster.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "base/hash.h"
#include "check/check.h"
#include "client/client.h"
#include "fabric/loop.h"
#include "fabric/trace.h"

/* Anything but 0, and the same in every run. */
#define POOL_ID_FIRST 0x5eed0001u

/* A worker for which no time passes, on a node. */
static int open_setter(struct vt_cluster *c, uint32_t node, struct worker *w)
{
	struct fab *fab;
	int status = loop_open(vt_node_memory(c->world, node),
			       round_up_u64(c->options.plan.pool_bytes, 8), &fab);

	if (!status)
		worker_init(w, fab, vt_world_clock(c->world), c->options.world.seed);
	return status;
}

static int make_pools(struct vt_cluster *c, char *error_text, size_t error_bytes)
{
	const struct plan *p = &c->options.plan;
	struct worker setter;
	int status = 0;

	for (uint32_t i = 0; i < c->options.world.nodes && !status; i++) {
		status = open_setter(c, i, &setter);
		if (status)
			break;
		status = pool_format(&setter, p, POOL_ID_FIRST + i);
		if (!status)
			status = pool_open(&setter, &c->pools[i], error_text, error_bytes);
		fab_close(setter.fab);
		if (!c->options.host_memory)
			vt_node_set_hot(c->world, i, p->cursors_offset, p->registry_offset);
	}
	return status;
}

static int open_cns(struct vt_cluster *c)
{
	const struct vt_world_options *o = &c->options.world;
	struct cn_options options = {
	    .worker_count = o->threads,
	    .poll_interval_us = c->options.poll_interval_us,
	    .open_groups = c->options.open_groups,
	    .dead_percent = c->options.dead_percent,
	};
	struct layout_registry lines[LAYOUT_CN_MAX];
	struct worker setter;
	int status = 0;

	for (uint32_t i = 0; i < o->cns * o->nodes && !status; i++) {
		uint32_t node = i % o->nodes;

		status = open_setter(c, node, &setter);
		if (status)
			break;
		status = cn_open(&c->cns[i], &c->pools[node], c->policy, &setter, &options,
				 1 + i / o->nodes, lines);
		fab_close(setter.fab);
		c->cns_open += !status;
	}
	return status;
}

static void print_line(void *context, const char *line)
{
	struct vt_cluster *c = context;

	fprintf(c->options.trace, "%12.3f %s\n",
		(double)clock_now_ns(vt_world_clock(c->world)) / 1000, line);
}

static int wrap_trace(struct vt_cluster *c, struct vt_session *s)
{
	struct trace_settings settings = {
	    .connection = s->name,
	    .line = print_line,
	    .line_context = c,
	};
	struct fab *inner = s->fab;

	s->fab = NULL;
	return trace_open(inner, &settings, &s->fab);
}

static int open_session(struct vt_cluster *c, uint32_t thread, uint32_t node)
{
	struct vt_session *s = vt_session_at(c, thread, node);
	struct vt_thread *t = vt_thread_at(c->world, thread);
	uint64_t seed = c->options.world.seed * 1000 + thread + ((uint64_t)node << 32);
	int status = vt_connect(t, node, &s->fab);

	snprintf(s->name, sizeof(s->name), "t%" PRIu32 "@%" PRIu32, thread, node);
	if (!status && c->options.trace)
		status = wrap_trace(c, s);
	if (status)
		return status;
	vt_worker_init(t, &s->worker, s->fab, seed);
	struct cn *cn = &c->cns[vt_thread_cn(t) * c->options.world.nodes + node];

	status = lane_init(&s->lane, cn);
	if (status)
		return status;
	status = cache_init(&s->cache, &s->worker, cn, &s->lane);
	if (status)
		lane_fini(&s->lane);
	else
		cache_fetch_aside(&s->cache);
	s->ready = !status;
	return status;
}

static int open_sessions(struct vt_cluster *c)
{
	const struct vt_world_options *o = &c->options.world;
	int status = 0;

	for (uint32_t i = 0; i < o->cns * o->threads && !status; i++)
		for (uint32_t node = 0; node < o->nodes && !status; node++)
			status = open_session(c, i, node);
	return status;
}

int vt_cluster_open(struct vt_cluster *c, const struct vt_cluster_options *options,
		    char *error_text, size_t error_bytes)
{
	*c = (struct vt_cluster){.options = *options};
	struct vt_world_options *o = &c->options.world;

	error_text[0] = '\0';
	o->node_bytes = round_up_u64(options->plan.pool_bytes, 8);
	c->policy = policy_find(options->policy);
	c->session_count = o->cns * o->threads * o->nodes;
	c->pools = calloc(o->nodes, sizeof(*c->pools));
	c->cns = calloc((size_t)o->cns * o->nodes, sizeof(*c->cns));
	c->sessions = calloc(c->session_count, sizeof(*c->sessions));
	int status = !c->policy				    ? FORGE_E_INVAL
		     : !c->pools || !c->cns || !c->sessions ? FORGE_E_NO_MEMORY
							    : vt_world_create(o, &c->world);

	if (!status)
		status = make_pools(c, error_text, error_bytes);
	if (!status)
		status = open_cns(c);
	if (!status)
		status = open_sessions(c);
	if (status && !error_text[0])
		snprintf(error_text, error_bytes,
			 "making a virtual cluster of %" PRIu32 " compute node%s with %" PRIu32
			 " thread%s each: %s%s",
			 o->cns, o->cns == 1 ? "" : "s", o->threads, o->threads == 1 ? "" : "s",
			 status_sentence(status),
			 status == FORGE_E_NO_MEMORY
			     ? "; ask for fewer, or if memory is free raise vm.max_map_count"
			     : "");
	return status;
}

void vt_cluster_close(struct vt_cluster *c)
{
	for (uint32_t i = 0; c->sessions && i < c->session_count; i++) {
		struct vt_session *s = &c->sessions[i];

		if (s->ready) {
			cache_fini(&s->cache);
			lane_fini(&s->lane);
		}
		fab_close(s->fab);
	}
	for (uint32_t i = 0; i < c->cns_open; i++)
		cn_memory_destroy(&c->cns[i]);
	vt_world_destroy(c->world);
	free(c->sessions);
	free(c->cns);
	free(c->pools);
	*c = (struct vt_cluster){0};
}

struct vt_session *vt_session_at(struct vt_cluster *c, uint32_t thread, uint32_t node)
{
	return &c->sessions[(size_t)thread * c->options.world.nodes + node];
}

int vt_sessions_begin(struct vt_cluster *c, uint32_t thread)
{
	int status = 0;

	for (uint32_t node = 0; node < c->options.world.nodes && !status; node++)
		status = cache_count_in_pool(&vt_session_at(c, thread, node)->cache);
	return status;
}

int vt_sessions_drain(struct vt_cluster *c, uint32_t thread)
{
	int status = 0;

	for (uint32_t node = 0; node < c->options.world.nodes && !status; node++)
		status = cache_drain(&vt_session_at(c, thread, node)->cache);
	return status;
}

struct first_finding {
	bool found;
	struct check_finding finding;
};

static void note_finding(void *context, const struct check_finding *f)
{
	struct first_finding *first = context;

	if (!first->found)
		*first = (struct first_finding){.found = true, .finding = *f};
}

int vt_cluster_check(struct vt_cluster *c, char *error_text, size_t error_bytes)
{
	const struct check_options at_rest = {0};
	struct check_report report;
	struct first_finding first = {0};
	struct worker setter;
	int status = 0;

	for (uint32_t i = 0; i < c->options.world.nodes && !status; i++) {
		status = open_setter(c, i, &setter);
		if (status)
			break;
		status = check_pool(&setter, &c->pools[i], &at_rest, &report, note_finding, &first);
		fab_close(setter.fab);
		if (status)
			snprintf(error_text, error_bytes, "checking memory node %" PRIu32 ": %s", i,
				 status_sentence(status));
		if (status || !first.found)
			continue;
		snprintf(error_text, error_bytes, "memory node %" PRIu32 ": %s: %s", i,
			 check_rule_sentence(first.finding.rule), first.finding.text);
		status = FORGE_E_CORRUPT;
	}
	return status;
}

uint32_t vt_node_of(const struct vt_cluster *c, struct cache_key key)
{
	/* Mixed, lest the keys of a node share bits of the hash that its index uses. */
	uint64_t mixed = hash_mix(hash_key(key.data, key.bytes) + 1);

	return (uint32_t)((mixed >> 32) * c->options.world.nodes >> 32);
}

void vt_cluster_counts(struct vt_cluster *c, struct cache_counters *cache)
{
	memset(cache, 0, sizeof(*cache));
	for (uint32_t i = 0; i < c->session_count; i++)
		cache_counters_merge(cache, &c->sessions[i].cache.count);
}
