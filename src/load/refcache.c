/* refcache.c: one list of residents; LRU moves what is hit to its front, FIFO does not. */
#include "load/refcache.h"

#include <assert.h>
#include <stdlib.h>

#include "base/status.h"
#include "load/idmap.h"

/* Of the list's ends; node i belongs to dense id i - 1, node 0 is the list's head. */
struct node {
	uint32_t newer;
	uint32_t older;
	uint32_t bytes;
	bool resident;
};

struct refcache {
	enum refcache_kind kind;
	struct refcache_limit limit;
	struct idmap map;
	struct node *nodes;
	uint64_t room;
	struct refcache_counts counts;
};

int refcache_open(struct refcache **out, enum refcache_kind kind, struct refcache_limit limit)
{
	struct refcache *c;

	if (limit.objects == 0 && limit.bytes == 0)
		return FORGE_E_INVAL;
	c = calloc(1, sizeof(*c));
	if (c == NULL)
		return FORGE_E_NO_MEMORY;
	c->kind = kind;
	c->limit = limit;
	c->room = 1;
	c->nodes = calloc(c->room, sizeof(*c->nodes));
	if (c->nodes == NULL) {
		free(c);
		return FORGE_E_NO_MEMORY;
	}
	*out = c;
	return 0;
}

void refcache_close(struct refcache *c)
{
	if (c == NULL)
		return;
	idmap_free(&c->map);
	free(c->nodes);
	free(c);
}

static void unlink_node(struct refcache *c, uint32_t n)
{
	struct node *node = &c->nodes[n];

	assert(n != 0 && node->resident);
	c->nodes[node->newer].older = node->older;
	c->nodes[node->older].newer = node->newer;
	node->resident = false;
	c->counts.objects--;
	c->counts.bytes -= node->bytes;
}

static void link_newest(struct refcache *c, uint32_t n, uint32_t bytes)
{
	struct node *node = &c->nodes[n];

	node->newer = 0;
	node->older = c->nodes[0].older;
	c->nodes[node->older].newer = n;
	c->nodes[0].older = n;
	node->bytes = bytes;
	node->resident = true;
	c->counts.objects++;
	c->counts.bytes += bytes;
}

/* Evict from the old end until one more object of these bytes fits. */
static void make_room(struct refcache *c, uint64_t objects, uint64_t bytes)
{
	while (c->counts.objects > 0 &&
	       ((c->limit.objects > 0 && c->counts.objects + objects > c->limit.objects) ||
		(c->limit.bytes > 0 && c->counts.bytes + bytes > c->limit.bytes))) {
		unlink_node(c, c->nodes[0].newer);
		c->counts.evictions++;
	}
}

static int node_find(struct refcache *c, uint64_t id, uint32_t *n)
{
	uint32_t index;
	int status = idmap_add(&c->map, id, &index);

	if (status < 0)
		return status;
	if ((uint64_t)index + 1 >= c->room) {
		uint64_t room = (uint64_t)c->map.room + 1;
		struct node *nodes = reallocarray(c->nodes, room, sizeof(*nodes));

		if (nodes == NULL)
			return FORGE_E_NO_MEMORY;
		for (uint64_t i = c->room; i < room; i++)
			nodes[i] = (struct node){0};
		c->nodes = nodes;
		c->room = room;
	}
	*n = index + 1;
	return 0;
}

static void resize(struct refcache *c, uint32_t n, uint32_t bytes)
{
	struct node *node = &c->nodes[n];

	c->counts.bytes += bytes;
	c->counts.bytes -= node->bytes;
	node->bytes = bytes;
	make_room(c, 0, 0);
}

int refcache_access(struct refcache *c, uint64_t id, uint32_t bytes)
{
	bool too_large = c->limit.bytes > 0 && bytes > c->limit.bytes;
	uint32_t n;
	int status = node_find(c, id, &n);

	if (status != 0)
		return status;
	c->counts.accesses++;
	c->counts.access_bytes += bytes;
	c->counts.too_large += too_large;
	if (!c->nodes[n].resident) {
		if (too_large)
			return REFCACHE_MISS;
		make_room(c, 1, bytes);
		link_newest(c, n, bytes);
		return REFCACHE_MISS;
	}
	c->counts.hits++;
	c->counts.hit_bytes += bytes;
	if (too_large) {
		unlink_node(c, n); /* it has outgrown the cache */
		return REFCACHE_HIT;
	}
	if (c->kind == REFCACHE_LRU) {
		uint32_t old_bytes = c->nodes[n].bytes;

		unlink_node(c, n);
		link_newest(c, n, old_bytes);
	}
	resize(c, n, bytes);
	return REFCACHE_HIT;
}

bool refcache_remove(struct refcache *c, uint64_t id)
{
	uint32_t n;

	if (node_find(c, id, &n) != 0 || !c->nodes[n].resident)
		return false;
	unlink_node(c, n);
	return true;
}

void refcache_counts_reset(struct refcache *c)
{
	c->counts =
	    (struct refcache_counts){.objects = c->counts.objects, .bytes = c->counts.bytes};
}

struct refcache_counts refcache_counts(const struct refcache *c)
{
	return c->counts;
}

double refcache_hit_ratio(const struct refcache *c)
{
	return c->counts.accesses == 0 ? 0 : (double)c->counts.hits / (double)c->counts.accesses;
}
