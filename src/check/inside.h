/*
 * inside.h: what the files of check/ share: the state of one run, READing, and reporting.
 *
 * Internal to check/.  Everything belongs to the one worker of check_pool().
 */
#ifndef FORGE_CHECK_INSIDE_H
#define FORGE_CHECK_INSIDE_H

#include "check/check.h"
#include "layout/stats.h"
#include "pool/ring.h"
#include "pool/twim.h"

#define CHECK_PIECE_WORDS 8192u /* most words READ at once */
#define CHECK_LOOKS	  8u	/* how often a live contradiction is looked at again */
#define CHECK_NONE	  CHECK_RULE_COUNT

/* A slot whose word looks live, until its object has been verified, and then with its hash. */
struct check_slot {
	uint64_t word;
	uint64_t slot;
	uint64_t hash;
};

/* A chunk as READ last. */
struct check_content {
	uint32_t chunk;
	uint64_t word;
	uint32_t object_count;	     /* of a sealed group, else 0: the TWIM is not (yet) there */
	uint8_t *bytes;		     /* [chunk_bytes] */
	struct twim_member *members; /* [group_objects], the TWIM decoded */
	uint8_t *live;		     /* [group_objects] the member has its slot */
};

struct check {
	struct worker *worker;
	const struct pool *pool;
	const struct plan *plan;
	const struct check_options *options;
	struct check_report *out;
	check_finding_fn found;
	void *context;

	/* As READ first. */
	struct layout_cursors cursors;
	struct layout_registry *lines; /* [cn_max] */
	uint64_t *words;	       /* [chunk_count] */
	uint64_t *nodes[RING_COUNT];   /* [ring_nodes] */

	uint64_t *piece; /* [CHECK_PIECE_WORDS], and the slots of a bucket more */
	struct check_content content;
	uint8_t *listed; /* [chunk_count] by a live large object; NULL where the pool takes none */
	uint8_t *value;	 /* [value_bytes_max] of one */
	struct check_slot *slots;
	uint64_t slot_count, slot_room;
	uint64_t slot_word; /* of the slot the index scan is at */
};

/* Nothing may be half done. */
static inline int check_at_rest(const struct check *c)
{
	return !c->options->live && !c->options->crashed;
}

/* spread.c: the record of several memory nodes. */
struct check_verdict;
MAY_WAIT int check_look_spread(struct check *, uint64_t id, int fresh, struct check_verdict *);

/* READ, in as many verbs as it takes. */
MAY_WAIT int check_read(struct check *, uint64_t address, void *out, uint64_t bytes);

/* What one look at one thing said. */
struct check_verdict {
	enum check_rule rule; /* CHECK_NONE: nothing is wrong */
	uint64_t address;
	uint64_t seen; /* the word the verdict is about */
	char text[sizeof(((struct check_finding *)0)->text)];
};

#define VERDICT(v, which, where, word, ...)                                                        \
	(*(v) = (struct check_verdict){.rule = CHECK_##which, .address = (where), .seen = (word)}, \
	 (void)snprintf((v)->text, sizeof((v)->text), __VA_ARGS__))

/*
 * Look at thing number id: at what was READ first, or fresh at the pool.  A fresh look READs the
 * word it is about first and last, and finds nothing wrong if it changed in between.
 */
typedef int (*check_look_fn)(struct check *, uint64_t id, int fresh, struct check_verdict *);

/* Look once; a live contradiction is looked at again; report what remains. */
MAY_WAIT int check_judge(struct check *, check_look_fn look, uint64_t id);

/* A contradiction was seen; look again if live and report it if it stays. */
MAY_WAIT int check_confirm(struct check *, check_look_fn look, uint64_t id,
			   const struct check_verdict *first, int *reported);

void check_report_verdict(struct check *, const struct check_verdict *);

/*
 * Where the ring's positions in use end.  A claim that slept between its look at the cursors and
 * its FAA on head may have passed tail: it gave up those positions, and producers skip them.
 */
static inline uint64_t check_end(const struct plan *p, const struct layout_cursors *cursors,
				 uint32_t ring)
{
	uint64_t head = cursors->ring[ring].head, tail = cursors->ring[ring].tail;

	return head > tail && head - tail <= p->ring_nodes ? head : tail;
}

/* The position a chunk word of that ring names, given a tail not READ before it; 0 if none. */
int check_position(const struct layout_cursors *, uint32_t ring, uint64_t word, uint64_t *position);

/* Does the FULL node at a position name that chunk in that life? */
int check_node_names(const struct plan *, uint64_t node, uint64_t position, uint32_t chunk,
		     uint32_t generation);

/* rings.c: registry, chunk words, nodes, OFM rows. */
MAY_WAIT int check_rings(struct check *);

/* What all lines of counters say together. */
struct check_counts {
	struct stats_sum sum;
	uint64_t workers; /* that may have kept something to themselves */
};

/* counts.c: before the index is scanned, and the judgement afterwards. */
MAY_WAIT int check_counts_read(struct check *, struct check_counts *out);
MAY_WAIT int check_counts(struct check *, const struct check_counts *before);

/* slots.c: the index, objects and TWIMs, duplicates. */
MAY_WAIT int check_slots(struct check *);

/*
 * objects.c: the chunk's content against its TWIM and against c->slots[from .. to), the slots
 * that point into it.  Slots that turn out not to be live get the word 0.
 */
MAY_WAIT int check_chunk(struct check *, uint32_t chunk, uint64_t from, uint64_t to);

/*
 * READ the chunk of c->slots[id], whose chunk was READ last, once more.  *object is NULL if the
 * slot changed or is not live any more.
 */
MAY_WAIT int check_object_again(struct check *, uint64_t id, const void **object);

/* parts.c: one live head; adds the bytes of its value that lie in parts. */
MAY_WAIT int check_large(struct check *, uint64_t id, const void *object, uint64_t *part_bytes);

/* parts.c: the parts no head listed. */
MAY_WAIT int check_unlisted(struct check *);

#endif
