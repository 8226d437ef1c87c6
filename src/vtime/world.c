/* world.c: making a world, and going from event to event. */
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#include "vtime/inside.h"

/* So many events, and then a look at the progress: some 20 times a second. */
#define EVENTS_PER_PROGRESS 131072u

static uint64_t world_now_ns(const struct clock *c)
{
	return VT_CLOCK_START_NS + ((const struct vt_world *)c)->now_ps / 1000;
}

static bool options_valid(const struct vt_world_options *o)
{
	uint64_t threads = (uint64_t)o->cns * o->threads;

	return o->profile && o->profile->outstanding <= VT_OUTSTANDING_MAX && o->nodes &&
	       o->node_bytes && threads > 0 && threads < VT_WAKE;
}

static uint64_t map_bytes(const struct vt_world *w)
{
	return round_up_u64(w->options.node_bytes, 4096);
}

static int create_nodes(struct vt_world *w)
{
	uint64_t bytes = map_bytes(w);

	w->nodes = calloc(w->options.nodes, sizeof(*w->nodes));
	if (!w->nodes)
		return FORGE_E_NO_MEMORY;
	for (uint32_t i = 0; i < w->options.nodes; i++) {
		void *map = mmap(NULL, bytes, PROT_READ | PROT_WRITE,
				 MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);

		if (map == MAP_FAILED)
			return FORGE_E_NO_MEMORY;
		madvise(map, bytes, MADV_HUGEPAGE); /* a hint, for speed */
		w->nodes[i].memory = map;
		w->nodes[i].bytes = w->options.node_bytes;
	}
	return 0;
}

static int create_threads(struct vt_world *w)
{
	uint32_t count = w->options.cns * w->options.threads;

	w->cns = calloc(w->options.cns, sizeof(*w->cns));
	w->threads = calloc(count, sizeof(*w->threads));
	if (!w->cns || !w->threads)
		return FORGE_E_NO_MEMORY;
	for (; w->thread_count < count; w->thread_count++)
		if (vt_thread_init(&w->threads[w->thread_count], w, w->thread_count))
			return FORGE_E_NO_MEMORY;
	return 0;
}

int vt_world_create(const struct vt_world_options *options, struct vt_world **out)
{
	struct vt_world *w = options_valid(options) ? calloc(1, sizeof(*w)) : NULL;
	int status;

	if (!w)
		return options_valid(options) ? FORGE_E_NO_MEMORY : FORGE_E_INVAL;
	w->clock.now_ns = world_now_ns;
	w->options = *options;
	w->unused = VT_NONE;
	w->hash = vt_mix(0, options->seed);
	prng_seed(&w->chance, ~options->seed);
	vt_world_set_profile(w, options->profile);
	status = create_nodes(w);
	if (!status)
		status = create_threads(w);
	if (status) {
		vt_world_destroy(w);
		return status;
	}
	*out = w;
	return 0;
}

void vt_world_destroy(struct vt_world *w)
{
	if (!w)
		return;
	for (uint32_t i = 0; i < w->thread_count; i++)
		fiber_destroy(w->threads[i].fiber);
	for (uint32_t i = 0; w->nodes && i < w->options.nodes; i++)
		if (w->nodes[i].memory)
			munmap(w->nodes[i].memory, map_bytes(w));
	for (uint32_t i = 0; i < w->verb_blocks; i++)
		free(w->verbs[i]);
	free(w->verbs);
	free(w->threads);
	free(w->cns);
	free(w->nodes);
	vt_queue_fini(&w->queue);
	free(w);
}

void vt_world_set_profile(struct vt_world *w, const struct vt_profile *p)
{
	w->profile = p;
	w->delay_ps = vt_delay_ps(p);
}

const struct vt_profile *vt_world_profile(const struct vt_world *w)
{
	return w->profile;
}

void vt_world_set_free_purposes(struct vt_world *w, uint32_t purposes)
{
	w->options.free_purposes = purposes;
}

void *vt_node_memory(struct vt_world *w, uint32_t node)
{
	return w->nodes[node].memory;
}

void vt_node_set_hot(struct vt_world *w, uint32_t node, uint64_t from, uint64_t to)
{
	w->nodes[node].hot_from = from;
	w->nodes[node].hot_to = to;
}

struct vt_thread *vt_thread_at(struct vt_world *w, uint32_t index)
{
	assert(index < w->thread_count);
	return &w->threads[index];
}

const struct clock *vt_world_clock(const struct vt_world *w)
{
	return &w->clock;
}

void vt_world_set_progress(struct vt_world *w, void (*progress)(void *), void *context)
{
	w->progress = progress;
	w->progress_context = context;
}

void vt_world_watch(struct vt_world *w, vt_watch_fn watch, void *context)
{
	w->watch = watch;
	w->watch_context = context;
}

static inline bool step(struct vt_world *w)
{
	if (unlikely(!w->queue.count || w->status))
		return false;
	struct vt_event e = vt_queue_pop(&w->queue);

	assert(e.time_ps >= w->now_ps);
	w->now_ps = e.time_ps;
	w->event_count++;
	if (e.what & VT_WAKE) {
		struct vt_thread *t = &w->threads[e.what & ~VT_WAKE];

		if (unlikely(t->paused_until_ps > w->now_ps)) {
			w->cns[t->cn].felt.held_up++;
			vt_at(w, t->paused_until_ps, e.what);
		} else {
			vt_thread_resume(t);
		}
	} else
		vt_verb_arrives(w, e.what);
	return true;
}

bool vt_world_step(struct vt_world *w)
{
	return step(w);
}

int vt_world_run(struct vt_world *w)
{
	while (step(w))
		if (w->event_count % EVENTS_PER_PROGRESS == 0 && w->progress)
			w->progress(w->progress_context);
	for (uint32_t i = 0; i < w->thread_count && !w->status; i++)
		if (w->threads[i].busy)
			return FORGE_E_AGAIN;
	return w->status;
}

uint64_t vt_world_hash(const struct vt_world *w)
{
	return w->hash;
}

uint64_t vt_world_verbs(const struct vt_world *w)
{
	return w->verb_count;
}

const struct fab_counts *vt_world_counts(const struct vt_world *w)
{
	return &w->counts;
}

uint64_t vt_world_events(const struct vt_world *w)
{
	return w->event_count;
}

void vt_world_busy(const struct vt_world *w, struct vt_busy *out)
{
	*out = (struct vt_busy){.now_ps = w->now_ps};
	for (uint32_t i = 0; i < w->options.nodes; i++) {
		const struct vt_port *port = &w->nodes[i].port;

		out->node_card_ps = max_u64(out->node_card_ps, port->card.busy_ps);
		out->node_held_up_ps = max_u64(out->node_held_up_ps, port->held_up_ps);
		out->node_word_waited_ps = max_u64(out->node_word_waited_ps, port->word_waited_ps);
		out->node_atomics_ps = max_u64(out->node_atomics_ps, port->atomic_unit.busy_ps);
		out->node_in_ps = max_u64(out->node_in_ps, port->in.busy_ps);
		out->node_out_ps = max_u64(out->node_out_ps, port->out.busy_ps);
	}
	for (uint32_t i = 0; i < w->options.cns; i++) {
		const struct vt_cn *cn = &w->cns[i];

		out->cn_card_ps = max_u64(out->cn_card_ps, cn->card.busy_ps);
		out->cn_in_ps = max_u64(out->cn_in_ps, cn->in.busy_ps);
		out->cn_out_ps = max_u64(out->cn_out_ps, cn->out.busy_ps);
		out->cn_cpu_ps = max_u64(out->cn_cpu_ps, cn->cpu.busy_ps);
	}
}
