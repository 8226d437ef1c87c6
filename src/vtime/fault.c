/* fault.c: the faults of fault.h, and what becomes of verbs that were under way. */
#include "vtime/fault.h"

#include <string.h>

#include "vtime/inside.h"

/* One verb in so many is delayed; its longest delay is halved up to so often less one. */
#define DELAYED_SHARE  3u
#define DELAY_HALVINGS 8u

static uint64_t ps_of(uint64_t ns)
{
	return (ns - VT_CLOCK_START_NS) * 1000;
}

void vt_pause_thread(struct vt_thread *t, uint64_t until_ns)
{
	t->paused_until_ps = max_u64(t->paused_until_ps, ps_of(until_ns));
}

void vt_pause(struct vt_world *w, uint32_t cn, uint64_t until_ns)
{
	for (uint32_t i = 0; i < w->options.threads; i++)
		vt_pause_thread(&w->threads[cn * w->options.threads + i], until_ns);
}

void vt_slow(struct vt_world *w, uint32_t cn, uint32_t factor, uint64_t until_ns)
{
	w->cns[cn].slow_factor = factor;
	w->cns[cn].slow_until_ps = ps_of(until_ns);
}

void vt_delay(struct vt_world *w, uint32_t cn, uint64_t most_ns, uint64_t until_ns)
{
	w->faulty = true;
	w->cns[cn].delay_ps = most_ns * 1000;
	w->cns[cn].delay_until_ps = ps_of(until_ns);
}

uint64_t vt_fault_delay_ps(struct vt_world *w, uint32_t cn)
{
	struct vt_cn *c = &w->cns[cn];

	if (c->delay_until_ps <= w->now_ps)
		return 0;
	/* Most are in time, and of the others most by little: races need fast ones beside slow. */
	if (prng_below(&w->chance, DELAYED_SHARE))
		return 0;
	c->felt.delayed++;
	return prng_below(&w->chance, c->delay_ps + 1) >> prng_below(&w->chance, DELAY_HALVINGS);
}

struct vt_felt vt_felt_by(const struct vt_world *w, uint32_t cn)
{
	return w->cns[cn].felt;
}

void vt_skew(struct vt_world *w, uint32_t cn, int64_t offset_ns, int32_t drift_ppm)
{
	w->cns[cn].offset_ns = offset_ns;
	w->cns[cn].drift_ppm = drift_ppm;
}

uint32_t vt_cut(struct vt_world *w, uint32_t cn)
{
	uint32_t flying = 0;

	w->cns[cn].cut = true;
	for (struct vt_conn *conn = w->conns; conn; conn = conn->next) {
		if (conn->thread->cn != cn || conn->lost)
			continue;
		conn->lost = true;
		conn->landing = (uint32_t)prng_below(&w->chance, conn->flying + 1);
		conn->half = conn->landing < conn->flying && prng_below(&w->chance, 2);
		flying += conn->flying;
	}
	return flying;
}

bool vt_has_settled(const struct vt_world *w, uint32_t cn)
{
	for (const struct vt_conn *conn = w->conns; conn; conn = conn->next)
		if (conn->thread->cn == cn && (conn->landing || conn->half))
			return false;
	return true;
}

void vt_abandon(struct vt_world *w)
{
	w->queue.count = 0;
	for (struct vt_conn *conn = w->conns; conn; conn = conn->next)
		conn->flying = 0;
}

/* Some of the words of a WRITE land. */
static void land_in_part(struct vt_conn *conn, const struct fab_op *op)
{
	struct vt_world *w = conn->world;

	for (uint32_t at = 0; at < op->len;) {
		uint32_t word = (uint32_t)min_u64(8 - (op->raddr + at) % 8, op->len - at);
		struct fab_op piece = *op;

		piece.raddr = op->raddr + at;
		piece.buf = (uint8_t *)op->buf + at;
		piece.len = word;
		if (prng_below(&w->chance, 2))
			vt_memory_run(&w->nodes[conn->node], &piece);
		at += word;
	}
}

int vt_fault_arrives(struct vt_conn *conn, struct fab_op *op)
{
	/* Its answer finds nobody: the status says so whatever it did. */
	if (conn->landing) {
		conn->landing--;
		vt_memory_run(&conn->world->nodes[conn->node], op);
		return FORGE_E_NODE;
	}
	if (conn->half && op->code == FAB_WRITE)
		land_in_part(conn, op);
	conn->half = false;
	return FORGE_E_NODE;
}
