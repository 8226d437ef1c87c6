/*
 * fabric.h: the verb interface, the whole transport between a compute node and a memory node.
 *
 * Four one-sided verbs on the memory a node exports: READ, WRITE, 8-byte compare-and-swap and
 * 8-byte fetch-and-add.  A provider implements them over one medium; trace, count and fault are
 * providers that wrap a provider.  Who may call: the run layer (flow_run) and set-up code.
 *
 * What every provider promises (test/fabric holds each of them to it):
 *  - ops of one post() take effect in order, and so do successive posts on one connection;
 *  - CAS and FAA are atomic against all verbs of all connections on the same aligned word;
 *  - READ and WRITE are atomic per aligned 8-byte word and in no larger unit: a reader may see a
 *    part of a concurrent WRITE, word by word, in any order;
 *  - completion is remote completion: a completed WRITE is visible to every later verb;
 *  - raddr + len beyond the export, or a CAS/FAA that is not 8-aligned, fails with
 *    FORGE_E_BOUNDS and touches nothing; the remaining ops of that post fail the same way;
 *  - when the node is lost every op in flight completes with FORGE_E_NODE.
 *
 * Ownership: a connection (struct fab) belongs to one thread.  op and op->buf belong to the
 * provider from post() until status leaves FAB_PENDING, except for FAB_DETACHED ops, which are
 * copied at post time, never report (status and old stay as they were), read nothing, and are at
 * most FAB_DETACHED_BYTES_MAX long.
 */
#ifndef FORGE_FABRIC_FABRIC_H
#define FORGE_FABRIC_FABRIC_H

#include <stddef.h>
#include <stdint.h>

#include "base/compiler.h"
#include "base/status.h"

enum fab_code { FAB_READ, FAB_WRITE, FAB_CAS, FAB_FAA };
#define FAB_CODES 4

/* Flags of an op. */
#define FAB_DETACHED 0x01u /* nobody waits; small; losing it must be safe */

#define FAB_DETACHED_BYTES_MAX 64

/* What a verb is for; the count provider books verbs and bytes under it. */
enum fab_purpose {
	FAB_INDEX,	/* buckets and slots */
	FAB_DATA,	/* objects of the caller */
	FAB_HOTNESS,	/* OFM flushes, group words, cursors polled for the window */
	FAB_EVICTION,	/* claims, TWIMs, regroup copies */
	FAB_COMPACTION, /* the same for groups with dead members, and telling who died */
	FAB_SPACE,	/* chunk allocation, sealing, free ring */
	FAB_CONTROL,	/* attach, registry, check */
};
#define FAB_PURPOSES 7

/* status of an op that has not completed. */
#define FAB_PENDING 0x7fffffff

/*
 * One verb.  raddr is an offset into the node's export.
 *   READ   len bytes at raddr into buf
 *   WRITE  len bytes of buf to raddr
 *   CAS    if the word is arg make it swap; old = the word before (success: old == arg)
 *   FAA    add arg (modulo 2^64); old = the word before
 */
struct fab_op {
	uint8_t code;	 /* enum fab_code */
	uint8_t flags;	 /* FAB_DETACHED */
	uint8_t purpose; /* enum fab_purpose */
	uint8_t pad;
	uint32_t len; /* bytes; 8 for CAS and FAA */
	uint64_t raddr;
	void *buf;
	uint64_t arg, swap, old;
	int status; /* FAB_PENDING, then 0 or FORGE_E_... */
};

/* What open() found out about the connection. */
struct fab_caps {
	uint64_t export_bytes;
	uint32_t batch_ops_max;	   /* most ops in one post() */
	uint8_t completes_at_post; /* status is final when post() returns: never poll */
	uint8_t kick_posts;	   /* at least so many should share a kick; 0: it costs little */
	/* The export, where it is mapped: for prefetches alone.  NULL: it is not. */
	const unsigned char *mapped;
};

struct pollfd; /* of <poll.h> */
struct fab;    /* one connection; its first member is a struct fab_base */

struct fab_provider {
	const char *name;
	/* Close and free the connection.  Every posted op has completed. */
	void (*close)(struct fab *);
	/* Make [buf, buf + bytes) usable as op->buf until close; a no-op where not needed. */
	int (*reg)(struct fab *, void *buf, size_t bytes);
	/* Hand over n ops, n <= batch_ops_max.  Sets status = FAB_PENDING or completes at once. */
	void (*post)(struct fab *, struct fab_op *ops, unsigned n);
	/* Push what was posted out (doorbell, send). */
	void (*kick)(struct fab *);
	/* Look for completions once, without blocking. */
	void (*poll)(struct fab *);
	/*
	 * What a waiter can sleep on until poll may find something; see fab_sleep_on().  NULL where
	 * there is nothing but to look.
	 */
	int (*sleep_on)(struct fab *, struct pollfd *out);
};

/*
 * Who has looked for FAB_SPIN_NS in vain had better sleep, and let others have the processor.  Some
 * two round trips over TCP within a host: with 20 us, about one, the reply often came just when
 * its reader had gone to sleep, and the median of a Get was 62 us in place of 31 to 48 (3 runs of
 * forge bench each, in turn, on a busy guest of two processors).  But never for longer than
 * FAB_SLEEP_NS without looking: poll is what notices that a deadline has passed.
 */
#define FAB_SPIN_NS  UINT64_C(50000)
#define FAB_SLEEP_NS UINT64_C(5000000)

/* Every connection begins with this. */
struct fab_base {
	const struct fab_provider *provider;
	struct fab_caps caps;
};

static inline struct fab_base *fab_base(struct fab *f)
{
	return (struct fab_base *)f;
}

static inline const struct fab_caps *fab_caps(struct fab *f)
{
	return &fab_base(f)->caps;
}

static inline void fab_post(struct fab *f, struct fab_op *ops, unsigned n)
{
	fab_base(f)->provider->post(f, ops, n);
}

static inline void fab_kick(struct fab *f)
{
	fab_base(f)->provider->kick(f);
}

static inline void fab_poll(struct fab *f)
{
	fab_base(f)->provider->poll(f);
}

/*
 * Fill in what to poll(2) for.  1; 0 when the connection cannot be slept on, for good or at this
 * moment: then look again.
 */
static inline int fab_sleep_on(struct fab *f, struct pollfd *out)
{
	const struct fab_provider *p = fab_base(f)->provider;

	return p->sleep_on ? p->sleep_on(f, out) : 0;
}

/* These bytes will be READ soon: a hint, which has no effect but on time. */
static inline void fab_expect(struct fab *f, uint64_t raddr, uint32_t len)
{
	const unsigned char *mapped = fab_caps(f)->mapped;

	for (uint32_t at = 0; mapped && at < len; at += 64)
		fetch_ahead(mapped + raddr + at);
}

static inline int fab_reg(struct fab *f, void *buf, size_t bytes)
{
	return fab_base(f)->provider->reg(f, buf, bytes);
}

static inline void fab_close(struct fab *f)
{
	if (f)
		fab_base(f)->provider->close(f);
}

/* Builders, so that no flow fills the fields by hand. */
static inline struct fab_op fab_read(enum fab_purpose p, uint64_t raddr, void *buf, uint32_t len)
{
	return (struct fab_op){
	    .code = FAB_READ, .purpose = (uint8_t)p, .len = len, .raddr = raddr, .buf = buf};
}

static inline struct fab_op fab_write(enum fab_purpose p, uint64_t raddr, const void *buf,
				      uint32_t len)
{
	return (struct fab_op){.code = FAB_WRITE,
			       .purpose = (uint8_t)p,
			       .len = len,
			       .raddr = raddr,
			       .buf = (void *)(uintptr_t)buf};
}

static inline struct fab_op fab_cas(enum fab_purpose p, uint64_t raddr, uint64_t expected,
				    uint64_t desired)
{
	return (struct fab_op){.code = FAB_CAS,
			       .purpose = (uint8_t)p,
			       .len = 8,
			       .raddr = raddr,
			       .arg = expected,
			       .swap = desired};
}

static inline struct fab_op fab_faa(enum fab_purpose p, uint64_t raddr, uint64_t addend)
{
	return (struct fab_op){
	    .code = FAB_FAA, .purpose = (uint8_t)p, .len = 8, .raddr = raddr, .arg = addend};
}

/* Did this completed CAS change the word? */
static inline int fab_cas_won(const struct fab_op *op)
{
	return op->status == 0 && op->old == op->arg;
}

#endif
