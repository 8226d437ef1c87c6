/*
 * gate.h: how many strangers a server lets stand at its door, and how often one may fail.
 *
 * A stranger is a connection that is not welcome yet.  Used by the node's side of the tcp provider;
 * any thread, a call takes a lock for some hundred ns, and only connections that come or are
 * welcomed, never requests.  Time is the caller's, so that tests need none.
 *
 * What it keeps:
 *   - at most pending_max strangers, so that they cannot take the descriptors and the memory that
 *     clients need; at most half of them from one address, so that one host cannot keep
 *     others out.
 *   - an address from which GATE_FAILURES_FREE attempts in a row failed is turned away for a time
 *     that doubles with each further failure, up to GATE_TURNED_AWAY_MS_MAX: guessing, and having
 *     handshakes computed for nothing, is slow.  A success, or GATE_FORGIVEN_MS without a failure,
 *     forgives all.  A failure is a wrong proof, a wrong certificate, bytes that are no hello, or
 * no hello in time; a connection that ends without a word (a port scan, a health check) is none,
 * nor is a key that is good, but not for what is wanted.
 *
 * An address is an IPv4 address or the first 64 bits of an IPv6 one, which one host can vary behind
 * at will.  Unix sockets have none: who may open one is the file's business, so only the total
 * counts. Addresses are kept in a table of fixed size; one whose strangers have gone and that
 * failed least recently makes room.
 */
#ifndef FORGE_ACCESS_GATE_H
#define FORGE_ACCESS_GATE_H

#include <stdint.h>
#include <sys/socket.h>

#define GATE_FAILURES_FREE	8u
#define GATE_TURNED_AWAY_MS	250u
#define GATE_TURNED_AWAY_MS_MAX 30000u
#define GATE_FORGIVEN_MS	60000u

/* Addresses at once that have strangers or failures. */
#define GATE_ADDRESSES 1024u

struct gate;

/* 0: of no network. */
typedef uint64_t gate_address;

enum gate_answer {
	GATE_COME,
	GATE_FULL,	  /* too many strangers, or too many of this address */
	GATE_TURNED_AWAY, /* too many failures of this address */
};

enum gate_end {
	GATE_WELCOMED,
	GATE_FAILED,
	GATE_LEFT, /* without a word, or for a reason that is not its own */
};

struct gate_counts {
	uint64_t pending;
	uint64_t full, turned_away, failed; /* ever */
};

/* seed: random, so that nobody can choose addresses that fall together.  NULL: no memory. */
struct gate *gate_open(unsigned pending_max, uint64_t seed);
void gate_close(struct gate *);

gate_address gate_address_of(const struct sockaddr *, socklen_t bytes);

/* May it come?  Whoever may is pending until gate_end(). */
enum gate_answer gate_begin(struct gate *, gate_address, uint64_t now_ms);
void gate_end(struct gate *, gate_address, enum gate_end, uint64_t now_ms);

void gate_count(struct gate *, struct gate_counts *out);

#endif
