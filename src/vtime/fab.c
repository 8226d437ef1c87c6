/*
 * fab.c: the fabric provider of a virtual world.
 *
 * A verb's way:
 *   post    the thread's processor, its card and its link out are booked, in virtual time as of
 *           now; the verb arrives after the delay.  A connection has no more READs and atomics on
 *           their way than the profile says: further verbs are held back, in order.
 *   arrive  an event.  The node's link and card are booked, the verb takes effect, and the links
 *           back are booked, so that the time of its completion is known.  Verbs of one connection
 *           leave and arrive in order, and so take effect.
 *   wake    an event, when the last verb of a batch completes.
 *
 * A verb that costs nothing (--free-housekeeping) takes effect as it is posted; if others of its
 * connection are on their way, as it arrives with the last of them.
 */
#include <stdlib.h>
#include <string.h>

#include "base/hash.h"
#include "vtime/inside.h"

static bool holds_back(const struct vt_profile *p, const struct fab_op *op)
{
	return p->one_by_one || op->code != FAB_WRITE;
}

static uint64_t outstanding_max(const struct vt_profile *p)
{
	return p->one_by_one ? 1 : p->outstanding;
}

static uint32_t take_verb(struct vt_world *w)
{
	if (w->unused == VT_NONE) {
		struct vt_verb *block = calloc(VT_VERB_BLOCK, sizeof(*block));
		struct vt_verb **blocks = realloc(w->verbs, (w->verb_blocks + 1) * sizeof(*blocks));

		if (blocks)
			w->verbs = blocks;
		if (!block || !blocks) {
			free(block);
			w->status = FORGE_E_NO_MEMORY;
			return VT_NONE;
		}
		w->verbs[w->verb_blocks] = block;
		for (uint32_t i = VT_VERB_BLOCK; i-- > 0;) {
			block[i].next = w->unused;
			w->unused = w->verb_blocks * VT_VERB_BLOCK + i;
		}
		w->verb_blocks++;
	}
	uint32_t index = w->unused;

	w->unused = vt_verb_at(w, index)->next;
	return index;
}

static void give_verb(struct vt_world *w, uint32_t index)
{
	vt_verb_at(w, index)->next = w->unused;
	w->unused = index;
}

/* What the verb will touch is far from this processor; it arrives only after others had a turn. */
static void prefetch(const struct vt_node *node, const struct fab_op *op)
{
	uint64_t bytes = min_u64(op->len, 512);

	if (op->raddr + bytes <= node->bytes)
		for (uint64_t at = 0; at < bytes; at += 64)
			fetch_ahead(node->memory + op->raddr + at);
}

/* The verb leaves its compute node; from_ps as vt_server_book() has it. */
static void leave(struct vt_conn *conn, uint32_t index, uint64_t from_ps)
{
	struct vt_world *w = conn->world;
	const struct vt_profile *p = w->profile;
	struct vt_cn *cn = &w->cns[conn->thread->cn];
	struct vt_verb *v = vt_verb_at(w, index);
	uint64_t ready_ps = v->ready_ps;

	if (holds_back(p, v->op) && !v->free) {
		uint64_t limit = outstanding_max(p);

		if (conn->left >= limit)
			ready_ps = max_u64(
			    ready_ps, conn->ended_ps[(conn->left - limit) % VT_OUTSTANDING_MAX]);
		conn->left++;
	}
	if (!v->free) {
		ready_ps = vt_server_book(&cn->card, from_ps, ready_ps, p->issue);
		ready_ps = vt_server_book(&cn->out, from_ps, ready_ps,
					  vt_link_ps(p, vt_request_bytes(p, v->op)));
		ready_ps += w->delay_ps;
		if (unlikely(w->faulty))
			ready_ps += vt_fault_delay_ps(w, conn->thread->cn);
	}
	conn->arrive_ps = max_u64(conn->arrive_ps, ready_ps);
	conn->flying++;
	prefetch(&w->nodes[conn->node], v->op);
	vt_at(w, conn->arrive_ps, index);
}

static bool may_leave(const struct vt_conn *conn, const struct vt_verb *v)
{
	const struct vt_profile *p = conn->world->profile;

	return v->free || !holds_back(p, v->op) || conn->left - conn->known < outstanding_max(p);
}

static void leave_or_hold(struct vt_conn *conn, uint32_t index)
{
	struct vt_world *w = conn->world;
	struct vt_verb *v = vt_verb_at(w, index);

	if (conn->held_first == VT_NONE && may_leave(conn, v)) {
		leave(conn, index, w->now_ps);
		return;
	}
	v->next = VT_NONE;
	if (conn->held_first == VT_NONE)
		conn->held_first = index;
	else
		vt_verb_at(w, conn->held_last)->next = index;
	conn->held_last = index;
}

static void let_go(struct vt_conn *conn)
{
	while (conn->held_first != VT_NONE) {
		uint32_t index = conn->held_first;
		struct vt_verb *v = vt_verb_at(conn->world, index);

		if (!may_leave(conn, v))
			return;
		conn->held_first = v->next;
		leave(conn, index, conn->world->now_ps);
	}
}

/* The same for who watches the hot words. */
static void tell(struct vt_world *w, const struct vt_conn *conn, const struct fab_op *op,
		 bool after)
{
	const struct vt_node *node = &w->nodes[conn->node];

	if (op->raddr < node->hot_to && op->raddr + op->len > node->hot_from)
		w->watch(w->watch_context, conn->thread->cn, op, after);
}

/* The verb takes effect; what it saw goes into the run's hash. */
static int run_verb(struct vt_world *w, struct vt_conn *conn, struct fab_op *op, uint64_t post)
{
	if (unlikely(w->watch))
		tell(w, conn, op, false);
	int status = unlikely(conn->lost)	 ? vt_fault_arrives(conn, op)
		     : conn->failed_post == post ? conn->failed_status
						 : vt_memory_run(&w->nodes[conn->node], op);
	if (unlikely(w->watch))
		tell(w, conn, op, true);
	uint64_t saw = op->old;

	if (unlikely(status)) {
		conn->failed_post = post;
		conn->failed_status = status;
		saw = (uint64_t)(int64_t)status;
	} else if (op->code < FAB_CAS) {
		saw = hash_bytes(op->buf, op->len);
	}
	struct fab_count *c = &w->counts.by[op->purpose][op->code];

	c->verbs++;
	c->bytes += op->len;
	c->errors += status < 0;
	c->cas_failed += op->code == FAB_CAS && !status && op->old != op->arg;
	w->verb_count++;
	w->hash = vt_mix(w->hash, w->now_ps);
	w->hash = vt_mix(w->hash, (uint64_t)conn->index << 40 ^ (uint64_t)op->code << 36 ^ op->len);
	w->hash = vt_mix(w->hash, op->raddr);
	if (op->code >= FAB_CAS)
		w->hash = vt_mix(vt_mix(w->hash, op->arg), op->swap);
	w->hash = vt_mix(w->hash, saw);
	return status;
}

/* Book what the verb costs at its node and on the way back; when does it complete? */
static uint64_t completion(struct vt_world *w, struct vt_conn *conn, const struct vt_verb *v)
{
	const struct vt_profile *p = w->profile;
	struct vt_node *node = &w->nodes[conn->node];
	struct vt_cn *cn = &w->cns[conn->thread->cn];
	struct vt_visit visit = {
	    .op = v->op,
	    .device =
		p->device_memory && v->op->raddr >= node->hot_from && v->op->raddr < node->hot_to,
	    .first = v->first,
	};
	uint64_t flow_ps, back_ps = vt_link_ps(p, vt_reply_bytes(p, v->op));

	vt_port_serve(&node->port, p, w->now_ps, &visit, conn->done_ps, &flow_ps, &conn->done_ps);
	uint64_t late_ps = conn->done_ps - flow_ps;
	uint64_t out_ps = vt_server_book(&node->port.out, flow_ps, flow_ps, back_ps);

	flow_ps = out_ps + w->delay_ps;
	return vt_server_pass(&cn->in, flow_ps, flow_ps, back_ps) + late_ps;
}

void vt_verb_arrives(struct vt_world *w, uint32_t index)
{
	struct vt_verb *v = vt_verb_at(w, index);
	struct vt_conn *conn = v->conn;
	uint64_t complete_ps = v->free ? w->now_ps : completion(w, conn, v);
	int status = run_verb(w, conn, v->op, v->post);

	if (unlikely(w->faulty))
		complete_ps += vt_fault_delay_ps(w, conn->thread->cn);
	conn->flying--;
	if (holds_back(w->profile, v->op) && !v->free)
		conn->ended_ps[conn->known++ % VT_OUTSTANDING_MAX] = complete_ps;
	if (v->copy) {
		free(v->copy);
		v->copy = NULL;
	} else {
		v->op->status = status;
		conn->complete_ps = max_u64(conn->complete_ps, complete_ps);
		conn->waiting--;
	}
	give_verb(w, index);
	let_go(conn);
	if (conn->waiting == 0 && conn->thread->parked_for_verbs) {
		conn->thread->parked_for_verbs = false;
		vt_at(w, max_u64(conn->complete_ps, w->now_ps), VT_WAKE | conn->thread->index);
	}
}

static bool copy_detached(struct vt_verb *v)
{
	assert(v->op->len <= FAB_DETACHED_BYTES_MAX && v->op->code != FAB_READ);
	v->copy = malloc(sizeof(*v->copy));
	if (!v->copy)
		return false;
	v->copy->op = *v->op;
	if (v->op->code == FAB_WRITE) {
		memcpy(v->copy->payload, v->op->buf, v->op->len);
		v->copy->op.buf = v->copy->payload;
	}
	v->op = &v->copy->op;
	return true;
}

static void conn_post(struct fab *f, struct fab_op *ops, unsigned n)
{
	struct vt_conn *conn = (struct vt_conn *)f;
	struct vt_world *w = conn->world;

	conn->posts++;
	for (unsigned i = 0; i < n; i++) {
		bool costs_nothing = vt_is_free(w, &ops[i]), detached = ops[i].flags & FAB_DETACHED;

		if (costs_nothing && !conn->flying && conn->held_first == VT_NONE) {
			struct fab_op copy = ops[i];
			int status = run_verb(w, conn, detached ? &copy : &ops[i], conn->posts);

			if (!detached)
				ops[i].status = status;
			continue;
		}
		uint32_t index = take_verb(w);

		if (index == VT_NONE) {
			if (!detached)
				ops[i].status = FORGE_E_NO_MEMORY;
			continue;
		}
		struct vt_verb *v = vt_verb_at(w, index);

		*v = (struct vt_verb){
		    .op = &ops[i],
		    .conn = conn,
		    .ready_ps = w->now_ps + conn->thread->debt_ps,
		    .post = conn->posts,
		    .first = i == 0,
		    .free = costs_nothing,
		};
		if (!detached) {
			ops[i].status = FAB_PENDING;
			conn->waiting++;
		} else if (!copy_detached(v)) {
			give_verb(w, index); /* it is lost, as it may be */
			continue;
		}
		leave_or_hold(conn, index);
	}
}

static int conn_reg(struct fab *f, void *buf, size_t bytes)
{
	return 0;
}

static void conn_kick(struct fab *f)
{
}

/* Outside a thread of the world somebody has to let time pass. */
static void conn_poll(struct fab *f)
{
	struct vt_conn *conn = (struct vt_conn *)f;

	if (!fiber_current() && conn->waiting)
		vt_world_step(conn->world);
}

static void conn_close(struct fab *f)
{
	struct vt_conn *conn = (struct vt_conn *)f;

	struct vt_conn **at = &conn->world->conns;

	/* Detached verbs may still be on their way. */
	while (conn->flying && vt_world_step(conn->world))
		;
	assert(!conn->flying);
	while (*at != conn)
		at = &(*at)->next;
	*at = conn->next;
	free(conn);
}

static const struct fab_provider sim_provider = {
    .name = "sim",
    .close = conn_close,
    .reg = conn_reg,
    .post = conn_post,
    .kick = conn_kick,
    .poll = conn_poll,
};

int vt_connect(struct vt_thread *t, uint32_t node, struct fab **out)
{
	struct vt_world *w = t->world;
	struct vt_conn *conn = calloc(1, sizeof(*conn));

	if (!conn)
		return FORGE_E_NO_MEMORY;
	*conn = (struct vt_conn){
	    .base = {.provider = &sim_provider,
		     .caps = {.export_bytes = w->nodes[node].bytes,
			      .batch_ops_max = VT_BATCH_OPS_MAX}},
	    .world = w,
	    .thread = t,
	    .node = node,
	    .index = w->conn_count++,
	    .held_first = VT_NONE,
	    .held_last = VT_NONE,
	    .next = w->conns,
	    .lost = w->cns[t->cn].cut,
	};
	w->conns = conn;
	*out = (struct fab *)conn;
	return 0;
}
