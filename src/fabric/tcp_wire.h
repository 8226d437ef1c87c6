/*
 * tcp_wire.h: every byte that a compute node and a memory node exchange over TCP or a Unix socket.
 *
 * Pure definitions for the provider (tcp.h), its control connection (tcp_control.h) and the node's
 * side (tcp_server.h); others look only at a struct wire_welcome.  Integers are little-endian. What
 * each message means, in which order they come and what a lost connection leaves is in doc/wire.md.
 *
 *   client                                   node
 *   hello (64 bytes)                   ->
 *                                     <-     step: challenge        } only where the node asks
 *   step: proof                        ->                           } who the client is
 *                                     <-     step: proof              } (access/proof.h)
 *                                     <-     step: welcome, or refusal and the end
 *   request, request, ...              ->
 *                                     <-     reply, reply, ...      in the order of the requests
 *
 * The first byte decides what a connection is: WIRE_MAGIC's for this protocol in clear, 0x16 for a
 * TLS handshake, within which the same messages follow.  Anything else is closed.
 */
#ifndef FORGE_FABRIC_TCP_WIRE_H
#define FORGE_FABRIC_TCP_WIRE_H

#include <assert.h>
#include <stddef.h>
#include <stdint.h>

#define WIRE_MAGIC     UINT64_C(0x74656e6567726f46)
#define WIRE_TLS_FIRST 0x16u
#define WIRE_VERSION   1u

/* A connection that is not welcome after so long is closed. */
#define WIRE_HELLO_MS 5000u

/* A process, or whatever else lives and dies as one: 128 random bits. */
#define WIRE_INSTANCE_BYTES 16u

/* What a connection is for. */
enum wire_kind {
	WIRE_DATA = 1,	  /* verbs */
	WIRE_CONTROL = 2, /* liveness, time, what the node is and does */
};

/* What a client may do; each includes those with a larger number. */
enum wire_role {
	WIRE_FULL = 1,
	WIRE_READ_ONLY = 2, /* READ, and no lock of a CN id */
	WIRE_METRICS = 3,   /* no verb; TIME, INFO, STAT and PING */
};

/* Feature bits; a client sends those it knows, the welcome has those that are in use. */
#define WIRE_FEATURES_KNOWN 0u

/*
 * The first thing a client sends.
 *
 *   0-7    magic        "Forgenet"
 *   8-9    version      the highest the client speaks
 *   10     kind         enum wire_kind
 *   11     role         the least it can do with, enum wire_role
 *   12-15  features
 *   16-31  instance     the same for all connections of one instance
 *   32-39  fingerprint  of the layout it was built with, or 0 if it does not look
 *   40-47  flags        WIRE_JOINS
 *   48-63  zero
 */
struct wire_hello {
	uint64_t magic;
	uint16_t version;
	uint8_t kind;
	uint8_t role;
	uint32_t features;
	uint8_t instance[WIRE_INSTANCE_BYTES];
	uint64_t fingerprint;
	uint64_t flags;
	uint64_t zero[2];
};

/*
 * A data connection of an instance that has a control connection, and is not welcome without it:
 * the instance has ended and is forgotten, and its locks may be somebody else's.
 */
#define WIRE_JOINS	 UINT64_C(1)
#define WIRE_HELLO_FLAGS WIRE_JOINS

/* Heads whatever is sent between hello and the first request; `bytes` follow, bounded. */
struct wire_step {
	uint8_t step; /* enum wire_step_kind */
	uint8_t zero[3];
	uint32_t bytes;
};

enum wire_step_kind {
	WIRE_STEP_WELCOME = 1,	 /* struct wire_welcome: requests may follow */
	WIRE_STEP_REFUSAL = 2,	 /* struct wire_refusal and a sentence; the node closes */
	WIRE_STEP_CHALLENGE = 3, /* struct proof_challenge */
	WIRE_STEP_PROOF = 4,	 /* a client's struct proof_answer, a node's struct proof_confirm */
};

#define WIRE_STEP_BYTES_MAX 4096u

/*
 * What the node is.  A client that comes back compares: another boot is another process, or the
 * same after a restart; the same pool_id means that the memory, with all in it, is the one it
 * knew.
 *
 *   0-1    version        in use from now on
 *   2      kind           as asked for
 *   3      role           granted
 *   4-7    features       in use
 *   8-15   export_bytes   verbs reach [0, export_bytes)
 *   16-23  boot           random, anew each time a node starts
 *   24-31  pool_id        random, of the memory since it was formatted
 *   32-39  epoch          how often the memory was taken over
 *   40-47  fingerprint    of the layout in it
 *   48-55  plan_checksum  of its geometry
 *   56-63  clock_ns       the node's CLOCK_BOOTTIME when this was written
 *   64-71  host           a hash of the kernel's boot id, 0 if there is none
 *   72-75  batch_ops_max  requests the node takes before it must be able to send replies
 *   76-79  cn_max         how many CN ids there are
 *   80-127 zero
 */
struct wire_welcome {
	uint16_t version;
	uint8_t kind;
	uint8_t role;
	uint32_t features;
	uint64_t export_bytes;
	uint64_t boot;
	uint64_t pool_id;
	uint64_t epoch;
	uint64_t fingerprint;
	uint64_t plan_checksum;
	uint64_t clock_ns;
	uint64_t host;
	uint32_t batch_ops_max;
	uint32_t cn_max;
	uint64_t zero[6];
};

/* A FORGE_E_... that says why, and behind it a sentence of `bytes` - 8 bytes for people. */
struct wire_refusal {
	int32_t status;
	uint32_t zero;
};

/*
 * Codes of requests.  The first four are enum fab_code + 1, on a connection of kind WIRE_DATA; the
 * others on one of kind WIRE_CONTROL, but TIME and PING on both.
 */
enum wire_code {
	WIRE_READ = 1,	/* reply: len bytes */
	WIRE_WRITE = 2, /* followed by len bytes; reply: nothing */
	WIRE_CAS = 3,	/* followed by expected and desired; reply: the word before */
	WIRE_FAA = 4,	/* followed by the addend; reply: the word before */

	WIRE_HOLD = 16,	       /* raddr: a CN id; take its lock: 0 or FORGE_E_AGAIN */
	WIRE_RELEASE = 17,     /* raddr: a CN id; give it back if it is this instance's */
	WIRE_IS_HELD = 18,     /* raddr: a CN id; reply: a word, 1 if anybody has it */
	WIRE_HOLD_ALL = 19,    /* raddr: a count; the ids below it, all or FORGE_E_AGAIN */
	WIRE_RELEASE_ALL = 20, /* raddr: a count */
	WIRE_TIME = 21,	       /* reply: a word, the node's CLOCK_BOOTTIME in ns */
	WIRE_INFO = 22,	       /* reply: struct wire_welcome, as of now */
	WIRE_STAT = 23,	       /* reply: text, a line "name value" for each counter of the node */
	WIRE_PING = 24,	       /* reply: nothing */
};

/* Flags of a request. */
#define WIRE_CHAINED  0x01u /* of one post: if the request before failed, so does this */
#define WIRE_DETACHED 0x02u /* no reply, whatever comes of it; not with READ */
#define WIRE_FLAGS    (WIRE_CHAINED | WIRE_DETACHED)

/*
 *   0      code   enum wire_code
 *   1      flags
 *   2-3    tag    the number of the request on its connection, modulo 2^16
 *   4-7    len    bytes to READ or WRITE; 8 for CAS and FAA; 0 for control requests
 *   8-15   raddr  offset into the export, or the argument
 *   16-    what the code says
 */
struct wire_request {
	uint8_t code;
	uint8_t flags;
	uint16_t tag;
	uint32_t len;
	uint64_t raddr;
};

/* Behind the header of a CAS (both) or FAA (the first). */
struct wire_words {
	uint64_t arg, swap;
};

#define WIRE_REQUEST_BYTES_MAX (sizeof(struct wire_request) + sizeof(struct wire_words))

/*
 *   0      code    of the request
 *   1      status  0 or FORGE_E_...
 *   2-3    tag     of the request
 *   4-7    len     bytes that follow, 0 unless status is 0
 */
struct wire_reply {
	uint8_t code;
	int8_t status;
	uint16_t tag;
	uint32_t len;
};

/* The longest reply but those of READ. */
#define WIRE_STAT_BYTES_MAX 16384u

static_assert(sizeof(struct wire_hello) == 64, "");
static_assert(offsetof(struct wire_hello, version) == 8, "");
static_assert(offsetof(struct wire_hello, instance) == 16, "");
static_assert(offsetof(struct wire_hello, fingerprint) == 32, "");
static_assert(offsetof(struct wire_hello, flags) == 40, "");
static_assert(sizeof(struct wire_step) == 8, "");
static_assert(sizeof(struct wire_welcome) == 128, "");
static_assert(offsetof(struct wire_welcome, export_bytes) == 8, "");
static_assert(offsetof(struct wire_welcome, clock_ns) == 56, "");
static_assert(offsetof(struct wire_welcome, batch_ops_max) == 72, "");
static_assert(sizeof(struct wire_refusal) == 8, "");
static_assert(sizeof(struct wire_request) == 16, "");
static_assert(offsetof(struct wire_request, raddr) == 8, "");
static_assert(sizeof(struct wire_words) == 16, "");
static_assert(sizeof(struct wire_reply) == 8, "");
static_assert(__BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__, "a message is sent as it lies in memory");

#endif
