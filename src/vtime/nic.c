/* nic.c: what a card does with a verb, and how long. */
#include "vtime/nic.h"

#include "base/hash.h"

static uint64_t pieces(const struct vt_profile *p, uint64_t payload)
{
	return payload + vt_packets(p, payload) * p->packet_header;
}

uint64_t vt_request_bytes(const struct vt_profile *p, const struct fab_op *op)
{
	if (op->code == FAB_READ)
		return pieces(p, 0) + p->request_header;
	if (op->code == FAB_WRITE)
		return pieces(p, op->len) + p->request_header;
	return pieces(p, 0) + p->atomic_header;
}

uint64_t vt_reply_bytes(const struct vt_profile *p, const struct fab_op *op)
{
	return pieces(p, op->code == FAB_WRITE ? 0 : op->len) + p->reply_header;
}

static uint64_t card_ps(const struct vt_profile *p, uint8_t code)
{
	return code == FAB_READ ? p->read : code == FAB_WRITE ? p->write : p->atomic;
}

uint64_t vt_delay_ps(const struct vt_profile *p)
{
	const struct fab_op op = {.code = FAB_READ, .len = 8};
	uint64_t worked = p->issue + vt_link_ps(p, vt_request_bytes(p, &op)) + p->message +
			  card_ps(p, FAB_READ) + vt_link_ps(p, vt_reply_bytes(p, &op));

	return p->round_trip * 1000 > worked ? (p->round_trip * 1000 - worked) / 2 : 0;
}

#define PROBES 64u

/* The entry of a word: its own, or one that nobody needs any more. */
static struct vt_word *find_word(struct vt_port *port, uint64_t address, uint64_t now_ps)
{
	uint64_t at = hash_mix(address);
	struct vt_word *idle = NULL;

	for (unsigned i = 0; i < PROBES; i++) {
		struct vt_word *w = &port->words[(at + i) % VT_WORDS];

		if (w->address == address + 1)
			return w;
		if (!idle && w->free_ps <= now_ps)
			idle = w;
		if (w->address == 0)
			break;
	}
	assert(idle); /* or so many words near each other would have atomics under way */
	*idle = (struct vt_word){.address = address + 1};
	return idle;
}

/* Atomics on one word keep their distance; who waits for that stands aside. */
static uint64_t keep_distance(struct vt_port *port, const struct vt_profile *p,
			      const struct vt_visit *v, uint64_t start_ps)
{
	uint64_t distance_ps = v->device ? p->same_device : p->same_host;

	if (!distance_ps)
		return start_ps;
	struct vt_word *w = find_word(port, v->op->raddr, start_ps);
	uint64_t at_ps = max_u64(start_ps, w->free_ps);

	w->free_ps = at_ps + distance_ps;
	return at_ps;
}

void vt_port_serve(struct vt_port *port, const struct vt_profile *p, uint64_t now_ps,
		   const struct vt_visit *v, uint64_t after_ps, uint64_t *flow_ps,
		   uint64_t *done_ps)
{
	const struct fab_op *op = v->op;
	bool atomic = op->code >= FAB_CAS;
	uint64_t in_ps = vt_link_ps(p, vt_request_bytes(p, op));
	uint64_t work_ps = card_ps(p, op->code) + (v->first ? p->message : 0);
	uint64_t there_ps = vt_server_pass(&port->in, now_ps, now_ps, in_ps);
	uint64_t start_ps = max_u64(there_ps, port->card.free_ps), waited_ps = 0;
	uint64_t end_ps = start_ps + work_ps;

	if (atomic && !v->device && p->host_atomic) {
		/* At the head of the pipeline, until the atomic unit has time. */
		uint64_t unit_ps = port->atomic_unit.free_ps;

		if (unit_ps > start_ps) {
			port->held_up_ps += unit_ps - start_ps;
			start_ps = unit_ps;
		}
		end_ps = start_ps + max_u64(work_ps, p->host_atomic);
		port->atomic_unit.free_ps = start_ps + p->host_atomic;
		port->atomic_unit.busy_ps += p->host_atomic;
	}
	port->card.free_ps = start_ps + work_ps;
	port->card.busy_ps += work_ps;
	if (atomic) {
		waited_ps = keep_distance(port, p, v, start_ps) - start_ps;
		port->word_waited_ps += waited_ps;
	}
	if (op->len > 64)
		end_ps += (op->len - 1) / 64 * p->line;
	*flow_ps = end_ps;
	*done_ps = max_u64(end_ps + waited_ps, after_ps);
}
