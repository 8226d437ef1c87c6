/*
 * profile.h: what a network and its machines cost, in virtual time: named sets of constants.
 *
 * All constants of the simulator are in the one table of profile.c, each with its source; nothing
 * is fitted to what a whole system reported.  A profile's hash is printed with every result that
 * rests on it.  Read only; any thread.
 *
 * What the constants mean (nic.h and fab.c are the model):
 *  - a verb passes the requester's card, its link, the node's link, the node's card, and the links
 *    back.  A card is a pipeline that takes verbs in order, each for its time; an atomic in host
 *    memory also needs the card's one atomic unit, and while that is busy with another one, the
 *    atomic at the head of the pipeline holds up all behind it;
 *  - atomics on one word take effect one after the other, so far apart;
 *  - a link carries payload and headers, each way by itself;
 *  - what is left of the unloaded round trip is delay.
 */
#ifndef FORGE_VTIME_PROFILE_H
#define FORGE_VTIME_PROFILE_H

#include <stdint.h>

#include "base/compiler.h"

/* FIELD(name, unit, sentence) */
#define VT_PROFILE_FIELDS(FIELD)                                                                 \
	FIELD(round_trip, ns, "an unloaded READ of 8 bytes, posted to completed")                \
	FIELD(write, ps, "the node's card is busy with a WRITE")                                 \
	FIELD(read, ps, "... with a READ")                                                       \
	FIELD(atomic, ps, "... with a CAS or FAA")                                               \
	FIELD(host_atomic, ps, "the atomic unit is busy with a CAS or FAA in host memory")       \
	FIELD(same_host, ps, "from one atomic on a word of host memory to the next one on it")   \
	FIELD(same_device, ps, "the same in device memory")                                      \
	FIELD(issue, ps, "the requester's card is busy with a verb")                             \
	FIELD(link_kib, ps, "a link is busy with 1024 bytes, each way")                          \
	FIELD(packet_bytes, bytes, "most payload of a packet; 0: no packets")                    \
	FIELD(packet_header, bytes, "headers of a packet")                                       \
	FIELD(request_header, bytes, "beside them, in the request of a READ or WRITE")           \
	FIELD(atomic_header, bytes, "beside them, in the request of a CAS or FAA")               \
	FIELD(reply_header, bytes, "beside them, in a reply that is not part of a longer one")   \
	FIELD(message, ps, "the node's processor is busy with a batch; 0: it has no part in it") \
	FIELD(line, ps, "each further 64 bytes of a READ or WRITE, of the thread that waits")    \
	FIELD(outstanding, verbs, "READs and atomics that one connection has on its way")        \
	FIELD(one_by_one, flag, "a connection has one verb on its way, of whatever kind")        \
	FIELD(device_memory, flag, "the node's card has memory, for the hot words")              \
	FIELD(cpu_operation, ps, "a thread's own time for an operation, beside its verbs")       \
	FIELD(cpu_wait, ps, "... for a batch of verbs")                                          \
	FIELD(cpu_verb, ps, "... for each verb of it")                                           \
	FIELD(cpu_kib, ps, "... for 1024 bytes that a verb moves")                               \
	FIELD(cpu_pause, ps, "... for a pause, in a loop that waits for others")

struct vt_profile {
	const char *name;
	const char *sentence;
#define FIELD(field, unit, sentence) uint64_t field;
	VT_PROFILE_FIELDS(FIELD)
#undef FIELD
};

/* The profile of that name, or NULL; the n-th, or NULL. */
const struct vt_profile *vt_profile_find(const char *name);
const struct vt_profile *vt_profile_at(unsigned n);

/* Of all constants.  Two profiles have one hash only if they cost the same. */
uint64_t vt_profile_hash(const struct vt_profile *);

/* Picoseconds that a link is busy with so many bytes. */
static inline uint64_t vt_link_ps(const struct vt_profile *p, uint64_t bytes)
{
	return bytes * p->link_kib / 1024;
}

/* Headers of a message with that payload. */
static inline uint64_t vt_packets(const struct vt_profile *p, uint64_t payload)
{
	return p->packet_bytes && payload > p->packet_bytes
		   ? (payload + p->packet_bytes - 1) / p->packet_bytes
		   : 1;
}

#endif
