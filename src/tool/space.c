/* space.c: READ TWIMs, dead map and index; print shares. */
#include "tool/space.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/text.h"
#include "cache/cache.h"
#include "layout/regions.h"
#include "pool/ring.h"
#include "pool/twim.h"

/* Most bytes in one READ. */
#define READ_BYTES_MAX (1u << 20)

/* Groups READ in one batch: each by itself would cost a round trip. */
#define GROUPS_MAX 64u

/* A group, and what is READ of it. */
struct group_read {
	uint64_t node;
	uint64_t word, after; /* of its chunk, before and after the rest was READ */
	uint64_t twim[LAYOUT_GROUP_OBJECTS_MAX];
	uint64_t dead[LAYOUT_DEAD_WORDS_MAX];
};

/* Scratch of one look. */
struct look {
	const struct pool *pool;
	struct worker *worker;
	uint64_t *words; /* [chunk_count] */
	uint64_t *nodes; /* [ring_nodes] */
	uint64_t *index; /* all words of all slots, or NULL */
	struct twim_member members[LAYOUT_GROUP_OBJECTS_MAX];
	uint32_t group_count;
	struct group_read groups[GROUPS_MAX];
	struct fab_op ops[3 * GROUPS_MAX];
};

static MAY_WAIT int read_all(struct look *k, uint64_t raddr, void *buf, uint64_t bytes)
{
	int status = 0;

	for (uint64_t done = 0; done < bytes && !status; done += READ_BYTES_MAX) {
		uint32_t part = (uint32_t)min_u64(READ_BYTES_MAX, bytes - done);
		struct fab_op op = fab_read(FAB_CONTROL, raddr + done, (uint8_t *)buf + done, part);

		status = flow_run(k->worker, &op, 1);
	}
	return status;
}

static uint64_t index_words(const struct plan *p)
{
	return plan_slot_count(p) * p->slot_words;
}

static int is_live(const struct look *k, const struct twim_member *m)
{
	const struct plan *p = &k->pool->plan;

	return m->units > 0 && m->slot < plan_slot_count(p) &&
	       k->index[m->slot * p->slot_words] == m->word;
}

/* What a sealed group adds; its TWIM has been READ. */
static void add_group(struct look *k, const struct group_read *g, struct space *s)
{
	const struct plan *p = &k->pool->plan;
	uint32_t n = node_object_count(g->node);
	uint64_t used = TWIM_BYTES * (uint64_t)n;

	for (uint32_t i = 0; i < n; i++)
		used += (uint64_t)twim_units(g->twim[i]) * LAYOUT_UNIT_BYTES;
	if (used > p->chunk_bytes)
		return; /* damaged: forge check says so */
	s->groups++;
	s->members += n;
	s->used_bytes += used;
	s->sealed_bytes += p->chunk_bytes;
	twim_decode(p, node_chunk(g->node), node_generation(g->node), g->twim, n, k->members);
	for (uint32_t sn = 0; sn < n; sn++) {
		uint64_t bytes =
		    (uint64_t)twim_units(g->twim[plan_twim_index(sn, n)]) * LAYOUT_UNIT_BYTES;

		if (k->members[sn].units == 0 ||
		    dead_words_name(g->dead, chunk_generation(g->word), sn)) {
			s->dead_members++;
			s->dead_bytes += bytes;
		}
		if (k->index && is_live(k, &k->members[sn])) {
			s->live_members++;
			s->live_bytes += bytes;
		}
	}
}

/* READ the groups that were collected, and add them. */
static MAY_WAIT int add_groups(struct look *k, struct space *s)
{
	const struct plan *p = &k->pool->plan;
	unsigned n = 0;

	for (uint32_t i = 0; i < k->group_count; i++) {
		struct group_read *g = &k->groups[i];
		uint32_t chunk = node_chunk(g->node), members = node_object_count(g->node);

		k->ops[n++] = fab_read(FAB_CONTROL, plan_twim_address(p, chunk, members), g->twim,
				       members * TWIM_BYTES);
		k->ops[n++] = fab_read(FAB_CONTROL, plan_dead_address(p, chunk), g->dead,
				       8 * plan_dead_words(p));
		/* Last: while the chunk is of that generation its TWIM is what was sealed. */
		k->ops[n++] =
		    fab_read(FAB_CONTROL, plan_chunk_word_address(p, chunk), &g->after, 8);
	}
	int status = n ? flow_run(k->worker, k->ops, n) : 0;

	for (uint32_t i = 0; i < k->group_count && !status; i++) {
		struct group_read *g = &k->groups[i];

		if (chunk_generation(g->after) == chunk_generation(g->word))
			add_group(k, g, s);
	}
	k->group_count = 0;
	return status;
}

/* The node at a position of a ring: a group, if its chunk is queued under just that ticket. */
static MAY_WAIT int look_at_node(struct look *k, uint32_t ring, uint32_t at, struct space *s)
{
	const struct plan *p = &k->pool->plan;
	uint64_t node = k->nodes[at];

	if (!ring_node_valid(p, node))
		return 0;
	uint64_t word = k->words[node_chunk(node)];

	if (chunk_state(word) != CHUNK_QUEUED || chunk_ring(word) != ring ||
	    chunk_generation(word) != node_generation(node) ||
	    (chunk_position(word) & (p->ring_nodes - 1)) != at)
		return 0;
	struct group_read *g = &k->groups[k->group_count++];

	g->node = node;
	g->word = word;
	return k->group_count == GROUPS_MAX ? add_groups(k, s) : 0;
}

static MAY_WAIT int look_at_all(struct look *k, struct space *s)
{
	const struct plan *p = &k->pool->plan;
	int status = read_all(k, p->chunk_table_offset, k->words, 8 * (uint64_t)p->chunk_count);

	if (!status && k->index)
		status = read_all(k, p->index_offset, k->index, 8 * index_words(p));
	for (uint32_t chunk = 0; chunk < p->chunk_count && !status; chunk++) {
		uint32_t state = chunk_state(k->words[chunk]);

		s->chunks_held +=
		    state == CHUNK_OPEN || state == CHUNK_RESERVED || state == CHUNK_EVICTING;
	}
	for (uint32_t ring = 0; ring < RING_QUEUES && !status; ring++) {
		status = read_all(k, p->ring_offset[ring], k->nodes, 8 * (uint64_t)p->ring_nodes);
		for (uint32_t at = 0; at < p->ring_nodes && !status; at++)
			status = look_at_node(k, ring, at, s);
	}
	return status ? status : add_groups(k, s);
}

int space_take(const struct pool *pool, struct worker *w, int scan, struct space *out)
{
	const struct plan *p = &pool->plan;
	struct look *k = calloc(1, sizeof(*k));
	struct space s = {.has_scan = scan};
	int status = FORGE_E_NO_MEMORY;

	if (!k)
		return status;
	k->pool = pool;
	k->worker = w;
	k->words = malloc(8 * (uint64_t)p->chunk_count);
	k->nodes = malloc(8 * (uint64_t)p->ring_nodes);
	k->index = scan ? malloc(8 * index_words(p)) : NULL;
	if (k->words && k->nodes && (k->index || !scan))
		status = look_at_all(k, &s);
	free(k->words);
	free(k->nodes);
	free(k->index);
	free(k);
	if (!status)
		*out = s;
	return status;
}

double space_sealed_fill(const struct space *s)
{
	return s->sealed_bytes ? (double)s->used_bytes / (double)s->sealed_bytes : 0;
}

/* ---- reports ------------------------------------------------------------------------------ */

static double share(uint64_t part, uint64_t whole)
{
	return whole ? (double)part / (double)whole : 0;
}

/* Bytes of objects in sealed groups, without their TWIMs. */
static uint64_t object_bytes(const struct space *s)
{
	return s->used_bytes - TWIM_BYTES * s->members;
}

static void print_region(struct text_table *t, const char *name, uint64_t bytes,
			 const struct plan *p, const char *sentence)
{
	struct text n[2];

	text_table_cell(t, "%s", name);
	text_table_cell(t, "%s", text_grouped(&n[0], bytes));
	text_table_cell(t, "%.2f", share(bytes, plan_capacity_objects(p)));
	text_table_cell(t, "%s", text_percent(&n[1], share(bytes, p->pool_bytes)));
	text_table_cell(t, "%s", sentence);
}

/* What a thread's session allocates beside: its lane and its scratch. */
static uint64_t session_bytes(const struct plan *p)
{
	return lane_memory_bytes(p) + cache_memory_bytes(p);
}

static void print_memory(const struct plan *p)
{
	struct plan_region regions[PLAN_REGIONS];
	struct cn_memory m;
	struct text_table *t = text_table_open("lrrrl");

	plan_regions(p, regions);
	cn_memory_of(p, &m);
	text_table_cell(t, "memory of the node");
	text_table_cell(t, "bytes");
	text_table_cell(t, "an object");
	text_table_cell(t, "of the pool");
	text_table_cell(t, "what it is");
	text_table_rule(t);
	for (unsigned i = 0; i < PLAN_REGIONS; i++)
		print_region(t, regions[i].name, regions[i].bytes, p, regions[i].sentence);
	print_region(t, "all but objects", plan_metadata_bytes(p), p, "metadata, in one sum");
	text_table_print(t, stdout);
	text_table_close(t);
	putchar('\n');
	t = text_table_open("lrrrl");
	text_table_cell(t, "memory of a compute node");
	text_table_cell(t, "bytes");
	text_table_cell(t, "an object");
	text_table_cell(t, "to the pool");
	text_table_cell(t, "what it is");
	text_table_rule(t);
#define PART(name, sentence) print_region(t, #name, m.name, p, sentence);
	CN_MEMORY_PARTS(PART)
#undef PART
	print_region(t, "sum", cn_memory_bytes(p), p, "of a process without its sessions");
	print_region(t, "each session", session_bytes(p), p,
		     "of a thread: its groups and its scratch");
	text_table_print(t, stdout);
	text_table_close(t);
	putchar('\n');
}

void space_print(const struct space *s, const struct plan *p)
{
	struct text a, b, c;

	printf("sealed groups       %s, sealed fill %s (objects and TWIMs)\n",
	       text_grouped(&a, s->groups), text_percent(&b, space_sealed_fill(s)));
	printf("known to be dead    %s members, %s, %s of what is sealed\n",
	       text_grouped(&a, s->dead_members), text_bytes(&b, s->dead_bytes),
	       text_percent(&c, share(s->dead_bytes, s->sealed_bytes)));
	if (s->has_scan)
		printf("dead                %s members, %s, %s of what is sealed\n",
		       text_grouped(&a, s->members - s->live_members),
		       text_bytes(&b, object_bytes(s) - s->live_bytes),
		       text_percent(&c, share(object_bytes(s) - s->live_bytes, s->sealed_bytes)));
	printf("held by nodes       %s chunks open, reserved or evicting, %s of the capacity\n\n",
	       text_grouped(&a, s->chunks_held),
	       text_percent(&b, share(s->chunks_held, p->chunk_count)));
	print_memory(p);
}

static json_t *number(uint64_t n)
{
	return json_integer((json_int_t)n);
}

void space_json(const struct space *s, const struct plan *p, json_t *root)
{
	struct plan_region regions[PLAN_REGIONS];
	json_t *sealed = json_object(), *memory = json_object();
	json_t *node = json_object(), *cn = json_object();
	struct cn_memory m;

	json_object_set_new(sealed, "groups", number(s->groups));
	json_object_set_new(sealed, "members", number(s->members));
	json_object_set_new(sealed, "bytes", number(s->sealed_bytes));
	json_object_set_new(sealed, "used_bytes", number(s->used_bytes));
	json_object_set_new(sealed, "sealed_fill", json_real(space_sealed_fill(s)));
	json_object_set_new(sealed, "dead_members_known", number(s->dead_members));
	json_object_set_new(sealed, "dead_bytes_known", number(s->dead_bytes));
	if (s->has_scan) {
		json_object_set_new(sealed, "live_members", number(s->live_members));
		json_object_set_new(sealed, "live_bytes", number(s->live_bytes));
		json_object_set_new(sealed, "dead_bytes", number(object_bytes(s) - s->live_bytes));
	}
	json_object_set_new(sealed, "chunks_held", number(s->chunks_held));
	plan_regions(p, regions);
	for (unsigned i = 0; i < PLAN_REGIONS; i++)
		json_object_set_new(node, regions[i].name, number(regions[i].bytes));
	cn_memory_of(p, &m);
#define PART(name, sentence) json_object_set_new(cn, #name, number(m.name));
	CN_MEMORY_PARTS(PART)
#undef PART
	json_object_set_new(memory, "node", node);
	json_object_set_new(memory, "compute_node", cn);
	json_object_set_new(memory, "compute_node_bytes", number(cn_memory_bytes(p)));
	json_object_set_new(memory, "session_bytes", number(session_bytes(p)));
	json_object_set_new(root, "sealed", sealed);
	json_object_set_new(root, "memory", memory);
}
