/*
 * profile.c: the constants and where each is from.
 *
 * [forge]  the FORGE paper (OSDI 2026), figures 1 and 2: one access by RDMA about 2,000 ns, by CXL
 *          about 350 ns; one ConnectX-5 with one type of verb alone: WRITE 107, READ 88, CAS 20
 *          Mops/s, CAS in device memory 4.9 times as many (98).
 * [same]   the design's figures for atomics on one word: 480 ns in host memory, 118 ns in device
 *          memory.
 * [ib]     InfiniBand Architecture Specification, volume 1: LRH 8, BTH 12, ICRC 4 and VCRC 2 bytes
 *          in each packet; RETH 16, AtomicETH 28, AETH 4.  The 8 bytes that an atomic gives back
 *          count as payload.  Path MTU 4096.
 * [rd]     ConnectX cards have 16 READs and atomics outstanding for a connection (max_rd_atomic).
 * [cx6]    NVIDIA, ConnectX-6 user manual: 200 Gb/s, 215 million messages a second.
 * [cxl]    CXL 2.0 on PCIe 5.0 x8: 32 GT/s a lane, flits of 68 bytes for 64.
 * [lfb]    Intel optimization manual: a core of the Skylake server family has 12 line fill buffers.
 * [eth]    Ethernet 38 bytes (preamble, header, FCS, gap), IPv4 20, TCP with timestamps 32; MTU
 * 1500. [cpu]    measured on this code: build/test/bench/cpu_cost, see doc/simulator.md.
 */
#include "vtime/profile.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "base/hash.h"

#define NS 1000u

/*
 * [cpu] The flows on memory of their own process that is in its caches, and parking a fiber for
 * each batch.  What posting to a real card costs (doorbell, completion queue) is not in it: there
 * was none.
 */
#define CPU_OF_FLOWS .cpu_operation = 200 * NS, .cpu_verb = 6 * NS, .cpu_kib = 50 * NS
/* A pause of flow_pause(): parked once, and resumed. */
#define CPU_PAUSE .cpu_pause = 60 * NS

#define IB_HEADERS                                                                            \
	.packet_bytes = 4096, .packet_header = 26, .request_header = 16, .atomic_header = 28, \
	.reply_header = 4

static const struct vt_profile profiles[] = {
    {
	.name = "cx5",
	.sentence = "RDMA, 100 Gb/s ConnectX-5: the paper's testbed",
	.round_trip = 2000,	 /* [forge] figure 1 */
	.write = 9300,		 /* [forge] 107 Mops/s */
	.read = 11400,		 /* [forge] 88 Mops/s */
	.atomic = 10200,	 /* [forge] 98 Mops/s in device memory: the card's own part */
	.host_atomic = 50 * NS,	 /* [forge] 20 Mops/s */
	.same_host = 480 * NS,	 /* [same] */
	.same_device = 118 * NS, /* [same] */
	.issue = 9300,		 /* taken for what a card does for its fastest verb */
	.link_kib = 81920,	 /* 12.5 GB/s: 80 ps a byte */
	IB_HEADERS,		 /* [ib] */
	.outstanding = 16,	 /* [rd] */
	.device_memory = 1,
	CPU_OF_FLOWS,
	.cpu_wait = 60 * NS,
	CPU_PAUSE,
    },
    {
	.name = "cx6",
	.sentence = "RDMA, 200 Gb/s ConnectX-6: cx5 with the link and message rate of its manual",
	.round_trip = 2000,	 /* as cx5: the manuals promise the same latency */
	.write = 4651,		 /* [cx6] 215 M/s */
	.read = 5701,		 /* cx5's, faster in the same proportion */
	.atomic = 5101,		 /* likewise */
	.host_atomic = 50 * NS,	 /* as cx5: the trip to host memory is none of the card's */
	.same_host = 480 * NS,	 /* as cx5 */
	.same_device = 118 * NS, /* as cx5 */
	.issue = 4651,
	.link_kib = 40960, /* [cx6] 25 GB/s */
	IB_HEADERS,	   /* [ib] */
	.outstanding = 16, /* [rd] */
	.device_memory = 1,
	CPU_OF_FLOWS,
	.cpu_wait = 60 * NS,
	CPU_PAUSE,
    },
    {
	.name = "cxl",
	.sentence = "memory behind CXL: loads and stores, no card",
	.round_trip = 350,     /* [forge] figure 1 */
	.same_host = 350 * NS, /* the line has to come to the next processor */
	.link_kib = 34000,     /* [cxl] 32 GB/s less 4 of 68 bytes */
	.line = 350 * NS / 12, /* [lfb] further lines of a copy: 12 on their way */
	.outstanding = 1,
	.one_by_one = 1, /* a thread waits for what it loads */
	CPU_OF_FLOWS,
	.cpu_wait = 9 * NS, /* [cpu] no fiber is parked */
	CPU_PAUSE,
    },
    {
	.name = "tcp",
	.sentence = "kernel TCP on 25 Gb/s Ethernet: the software as measured, no switch",
	.round_trip = 15000, /* [cpu] tcp, less the requester's own part of it */
	.write = 6 * NS,     /* [cpu] verb: the node's processor carries it out */
	.read = 6 * NS,
	.atomic = 6 * NS,
	.link_kib = 327680,   /* 25 Gb/s: 320 ps a byte */
	.packet_bytes = 1448, /* [eth] */
	.packet_header = 90,  /* [eth] */
	.request_header = 32, /* a verb in a request: code, purpose, lengths, address, operands */
	.atomic_header = 32,
	.reply_header = 8,
	.message = 6000 * NS, /* [cpu] message; one thread serves all connections */
	.outstanding = 64,    /* no limit but the batch */
	CPU_OF_FLOWS,
	.cpu_wait = 6000 * NS, /* [cpu] message */
	CPU_PAUSE,
    },
};

const struct vt_profile *vt_profile_at(unsigned n)
{
	return n < ARRAY_COUNT(profiles) ? &profiles[n] : NULL;
}

const struct vt_profile *vt_profile_find(const char *name)
{
	for (unsigned i = 0; i < ARRAY_COUNT(profiles); i++)
		if (strcmp(profiles[i].name, name) == 0)
			return &profiles[i];
	return NULL;
}

uint64_t vt_profile_hash(const struct vt_profile *p)
{
	char text[2048];
	int n = 0;

#define FIELD(field, unit, sentence)                                                             \
	n += snprintf(text + n, sizeof(text) - (size_t)n, "%s=%" PRIu64 "\n", #field, p->field); \
	assert((size_t)n < sizeof(text));
	VT_PROFILE_FIELDS(FIELD)
#undef FIELD
	return hash_bytes(text, (size_t)n);
}
