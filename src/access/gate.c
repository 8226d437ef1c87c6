/* gate.c: a table of addresses, in sets of eight, under one lock. */
#include "access/gate.h"

#include <netinet/in.h>
#include <pthread.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#include "base/compiler.h"
#include "base/hash.h"

#define WAYS 8u
#define SETS (GATE_ADDRESSES / WAYS)

struct caller {
	gate_address address; /* 0: free */
	unsigned pending;
	unsigned failures; /* in a row */
	uint64_t failed_ms, until_ms;
};

struct gate {
	pthread_mutex_t lock;
	unsigned pending_max, address_max;
	uint64_t seed;
	struct gate_counts counts;
	struct caller callers[SETS][WAYS];
};

struct gate *gate_open(unsigned pending_max, uint64_t seed)
{
	struct gate *g = calloc(1, sizeof(*g));

	if (!g)
		return NULL;
	pthread_mutex_init(&g->lock, NULL);
	g->pending_max = pending_max;
	g->address_max = (unsigned)max_u64(1, pending_max / 2);
	g->seed = seed;
	return g;
}

void gate_close(struct gate *g)
{
	if (g)
		pthread_mutex_destroy(&g->lock);
	free(g);
}

static gate_address address_v4(uint32_t number)
{
	/* No network of IPv6 begins so. */
	return UINT64_C(0xffff) << 48 | number;
}

gate_address gate_address_of(const struct sockaddr *a, socklen_t bytes)
{
	if (a->sa_family == AF_INET && bytes >= sizeof(struct sockaddr_in))
		return address_v4(ntohl(((const struct sockaddr_in *)a)->sin_addr.s_addr));
	if (a->sa_family != AF_INET6 || bytes < sizeof(struct sockaddr_in6))
		return 0;
	const uint8_t *at = ((const struct sockaddr_in6 *)a)->sin6_addr.s6_addr;
	gate_address network = 0;

	if (IN6_IS_ADDR_V4MAPPED((const struct in6_addr *)at))
		return address_v4((uint32_t)at[12] << 24 | (uint32_t)at[13] << 16 |
				  (uint32_t)at[14] << 8 | at[15]);
	for (unsigned i = 0; i < 8; i++)
		network = network << 8 | at[i];
	/* ::1 has a network of nothing but zeroes. */
	return network ? network : 1;
}

static struct caller *set_of(struct gate *g, gate_address address)
{
	return g->callers[hash_mix(address ^ g->seed) % SETS];
}

static struct caller *find(struct gate *g, gate_address address)
{
	struct caller *set = set_of(g, address);

	for (unsigned i = 0; i < WAYS; i++)
		if (set[i].address == address)
			return &set[i];
	return NULL;
}

/* One for an address that has none; NULL while all its set's have strangers. */
static struct caller *take_over(struct gate *g, gate_address address)
{
	struct caller *set = set_of(g, address), *best = NULL;

	for (unsigned i = 0; i < WAYS; i++)
		if (!set[i].pending && (!best || set[i].failed_ms < best->failed_ms))
			best = &set[i];
	if (best)
		*best = (struct caller){.address = address};
	return best;
}

static enum gate_answer turn_away(struct gate *g)
{
	g->counts.turned_away++;
	return GATE_TURNED_AWAY;
}

static enum gate_answer full(struct gate *g)
{
	g->counts.full++;
	return GATE_FULL;
}

static enum gate_answer begin_locked(struct gate *g, gate_address address, uint64_t now_ms)
{
	struct caller *c = NULL;

	if (address) {
		c = find(g, address);
		if (c && now_ms < c->until_ms)
			return turn_away(g);
		if (c && c->pending >= g->address_max)
			return full(g);
	}
	if (g->counts.pending >= g->pending_max)
		return full(g);
	if (address && !c)
		c = take_over(g, address);
	if (address && !c)
		return full(g);
	if (c)
		c->pending++;
	g->counts.pending++;
	return GATE_COME;
}

enum gate_answer gate_begin(struct gate *g, gate_address address, uint64_t now_ms)
{
	pthread_mutex_lock(&g->lock);
	enum gate_answer answer = begin_locked(g, address, now_ms);

	pthread_mutex_unlock(&g->lock);
	return answer;
}

static void count_failure(struct caller *c, uint64_t now_ms)
{
	if (now_ms - c->failed_ms > GATE_FORGIVEN_MS)
		c->failures = 0;
	c->failures++;
	c->failed_ms = now_ms;
	if (c->failures < GATE_FAILURES_FREE)
		return;
	unsigned doublings = c->failures - GATE_FAILURES_FREE;

	c->until_ms = now_ms + (doublings < 16 ? min_u64(GATE_TURNED_AWAY_MS_MAX,
							 (uint64_t)GATE_TURNED_AWAY_MS << doublings)
					       : GATE_TURNED_AWAY_MS_MAX);
}

void gate_end(struct gate *g, gate_address address, enum gate_end end, uint64_t now_ms)
{
	pthread_mutex_lock(&g->lock);
	/* It has one, since it is pending. */
	struct caller *c = address ? find(g, address) : NULL;

	g->counts.pending--;
	if (c)
		c->pending--;
	if (end == GATE_FAILED) {
		g->counts.failed++;
		if (c)
			count_failure(c, now_ms);
	} else if (end == GATE_WELCOMED && c) {
		c->failures = 0;
		c->until_ms = 0;
	}
	pthread_mutex_unlock(&g->lock);
}

void gate_count(struct gate *g, struct gate_counts *out)
{
	pthread_mutex_lock(&g->lock);
	*out = g->counts;
	pthread_mutex_unlock(&g->lock);
}
