/*
 * profile.c: the constants and where each is from.
 *
 * [forge]  the FORGE paper (OSDI 2026), figures 1 and 2: one access by RDMA about 2,000 ns, by CXL
 *          about 350 ns; one ConnectX-5 alone with one type of verb: WRITE 107, READ 88, CAS 20
 *          Mops/s, CAS in device memory 4.9 times as many.
 * [same]   the design's figures for atomics on one word: 480 ns in host memory, 118 ns in device
 *          memory.
 * [ib]     InfiniBand Architecture Specification, volume 1: LRH 8, BTH 12, ICRC 4 and VCRC 2 bytes
 *          in each packet; RETH 16, AtomicETH 28, AETH 4, AtomicAckETH 8.  A reply's payload of 8
 *          for an atomic is counted as payload.  Path MTU 4096.
 * [rc]     max_rd_atomic of ConnectX cards is 16.
 * [cx6]    NVIDIA, ConnectX-6 user manual: 200 Gb/s, 215 million messages per second.
 * [cpu]    measured on this code, see doc/simulator.md: build/test/bench/cpu_cost.
 *
 * 12.5 GB/s are 80 ps a byte.
 */
#include "vtime/profile.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "base/hash.h"

#define NS 1000u

/*
 * [cpu] the flows themselves, on memory of this process that is in its caches.  What posting to a
 * real card costs (a doorbell, a look at the completion queue) is not in it: there was none.
 */
#define CPU_OF_THIS_CODE                                                                        \
	.cpu_operation = 60 * NS, .cpu_wait = 10 * NS, .cpu_verb = 10 * NS, .cpu_kib = 80 * NS, \
	.cpu_pause = 100 * NS

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
	.issue = 9300,		 /* what a card does for its fastest verb, on either side */
	.link_kib = 81920,	 /* 12.5 GB/s */
	IB_HEADERS,		 /* [ib] */
	.outstanding = 16,	 /* [rc] */
	.device_memory = 1,
	CPU_OF_THIS_CODE,
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
