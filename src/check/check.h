/*
 * check.h: the checker: does what lies in a pool agree with what doc/protocol.md says about it?
 *
 * Called by `forge check`, by the scheduler after each schedule and by tests, on any provider:
 * it works by READs alone, changes nothing and owns what it allocates until it returns.  Never
 * on a data path: unlike the flows it holds heap memory across waits, 24 bytes for every live
 * slot, 32 to 150 for every chunk and one chunk.  One worker; others may run beside with
 * options.live.
 *
 * Nothing it READs is trusted: a pool full of random bytes gives findings, not a crash.
 */
#ifndef FORGE_CHECK_CHECK_H
#define FORGE_CHECK_CHECK_H

#include <stdint.h>
#include <stdio.h>

#include "pool/pool.h"

/*
 * CHECK(name, sentence): what must hold.  "At rest": without options.live and options.crashed,
 * which tolerate and count what a running or a dead compute node leaves half done.
 */
#define CHECK_RULES(CHECK)                                                                         \
	CHECK(SUPERBLOCK, "the superblock is ready and holds the plan the pool was opened with")   \
	CHECK(SPREAD_RECORD,                                                                       \
	      "the record of the other memory nodes is whole, and of the epoch in force")          \
	CHECK(SPREAD_OWNED, "a memory node of several says that it may have what is its share")    \
	CHECK(CURSORS_ORDER, "in no ring is head beyond tail by more than a late claim explains")  \
	CHECK(CURSORS_SPAN, "in every ring tail - head <= ring_nodes")                             \
	CHECK(REGISTRY_LINE, "a registry line is well-formed; a free one names no process")        \
	CHECK(REGISTRY_FLUSHED, "no live compute node claims to have flushed beyond the cursors")  \
	CHECK(CHUNK_WORD, "a chunk word has a known state and only that state's fields")           \
	CHECK(CHUNK_GENERATION, "no chunk has had more lives than tickets explain")                \
	CHECK(CHUNK_OWNER, "an open, reserved or evicting chunk has an owner, who is attached")    \
	CHECK(CHUNK_CLAIMED, "at rest no chunk is evicting")                                       \
	CHECK(CHUNK_POSITION, "the position a chunk word names has been handed out")               \
	CHECK(CHUNK_SHARED, "no two chunk words name one position of one ring")                    \
	CHECK(CHUNK_NODE, "a FULL node at a queued chunk's position names it and its generation")  \
	CHECK(CHUNK_TRANSIT, "at rest a queued chunk lies in [head, tail) and its node is FULL")   \
	CHECK(CHUNK_RESIDENTS,                                                                     \
	      "a chunk holds no more live objects and bytes than it has room for")                 \
	CHECK(NODE_WORD, "a ring node is EMPTY with a cycle, or FULL and names a possible group")  \
	CHECK(NODE_NEWER, "no node of a queue is of a later generation than its chunk")            \
	CHECK(NODE_CYCLE, "no node is ahead of its ring's cursors")                                \
	CHECK(NODE_UNFILLED, "at rest every node in [head, tail) has been filled or passed")       \
	CHECK(NODE_LEFTOVER, "at rest every node outside [head, tail) is EMPTY of the next cycle") \
	CHECK(SLOT_WORD, "an index word without an object is zero")                                \
	CHECK(SLOT_TENTATIVE, "at rest no tentative word points into its chunk's present life")    \
	CHECK(SLOT_POINTER, "an index word points to room for an object inside one chunk")         \
	CHECK(SLOT_CHUNK, "a live slot points into a chunk that is open, queued or evicting")      \
	CHECK(SLOT_NEWER, "no slot has an object of a later generation than its chunk")            \
	CHECK(SLOT_OBJECT, "a live slot's object has its generation, length and checksum")         \
	CHECK(SLOT_KEY, "a live slot has its object's fingerprint and is near its key's home")     \
	CHECK(SLOT_TWIM, "a live slot of a sealed group is named by the TWIM with its exact word") \
	CHECK(SLOT_ALIASES, "no more stale slots look live than wrapped generations explain")      \
	CHECK(OBJECT_SN, "a live object's SN is the one under which the TWIM names its slot")      \
	CHECK(OBJECT_DUPLICATE, "at rest a key has one live slot")                                 \
	CHECK(TWIM_ENTRY, "a TWIM's lengths fit the group and its slots are in the index or none") \
	CHECK(TWIM_OBJECT, "a member of a sealed group that once had a slot is a whole object")    \
	CHECK(STATS_LINE, "a line of counters is zero where no counter is")                        \
	CHECK(STATS_SUM, "values stored, less those that left, are the words of the index")        \
	CHECK(PART_LIST, "the list of a large object can be one, and fits its value")              \
	CHECK(PART_CHUNK, "a chunk that a live large object lists is its part")                    \
	CHECK(PART_SHARED, "no chunk is listed twice")                                             \
	CHECK(PART_VALUE, "the value of a live large object has its checksum")                     \
	CHECK(PART_UNLISTED, "at rest every part is listed by a live large object")

enum check_rule {
#define CHECK(name, sentence) CHECK_##name,
	CHECK_RULES(CHECK)
#undef CHECK
	    CHECK_RULE_COUNT
};

/* What is in the pool.  COUNTER(name, sentence) */
#define CHECK_COUNTERS(COUNTER)                                                                 \
	COUNTER(chunks_free, "chunks in the free ring")                                         \
	COUNTER(chunks_reserved, "chunks in the hands of compute nodes, empty")                 \
	COUNTER(chunks_open, "chunks being filled")                                             \
	COUNTER(chunks_queued, "chunks sealed and in a ring")                                   \
	COUNTER(chunks_evicting, "chunks claimed for eviction")                                 \
	COUNTER(chunks_part, "chunks that are parts of large objects")                          \
	COUNTER(chunks_invalid, "chunks whose word makes no sense")                             \
	COUNTER(chunks_in_transit, "chunks whose node does not (yet, or any more) point back")  \
	COUNTER(groups_small, "groups in the small ring")                                       \
	COUNTER(groups_main, "groups in the main ring")                                         \
	COUNTER(nodes_full, "nodes that point to the chunk at their position")                  \
	COUNTER(nodes_stale, "FULL nodes in [head, tail) whose chunk is elsewhere")             \
	COUNTER(nodes_passed, "EMPTY nodes in [head, tail) whose chunk was claimed already")    \
	COUNTER(nodes_unfilled, "EMPTY nodes in [head, tail) whose chunk is to come")           \
	COUNTER(nodes_leftover, "nodes of an earlier cycle that block their position")          \
	COUNTER(nodes_empty, "EMPTY nodes that wait for their cycle")                           \
	COUNTER(nodes_invalid, "nodes that make no sense")                                      \
	COUNTER(cns_live, "registry lines of live compute nodes")                               \
	COUNTER(cns_dead, "registry lines of dead compute nodes")                               \
	COUNTER(slots, "slots of the index")                                                    \
	COUNTER(slots_empty, "empty slots")                                                     \
	COUNTER(slots_live, "slots of the generation of their chunk, with a good object")       \
	COUNTER(slots_stale, "slots of an earlier generation: ghosts and free space")           \
	COUNTER(slots_tentative, "tentative slots")                                             \
	COUNTER(slots_aliased, "stale slots that look live because generations wrapped")        \
	COUNTER(slots_invalid, "slots that break a rule")                                       \
	COUNTER(words, "words of objects in the index, live or not")                            \
	COUNTER(words_stored, "words that nodes counted as stored")                             \
	COUNTER(words_left, "words that nodes counted as having left")                          \
	COUNTER(words_unaccounted, "by how much words, stored and left disagree")               \
	COUNTER(words_tolerated, "by how much they may, for what has not been told")            \
	COUNTER(group_words_late, "group words of live slots that contradict their index word") \
	COUNTER(objects_capacity, "objects of the expected size that fit")                      \
	COUNTER(objects_dead, "members of sealed groups without a slot")                        \
	COUNTER(dead_bits, "members of sealed groups that the dead map names")                  \
	COUNTER(dead_bits_wrong, "those of them that are live all the same")                    \
	COUNTER(objects_large, "live objects larger than a chunk")                              \
	COUNTER(objects_broken, "those of them that lost parts when their node died")           \
	COUNTER(parts_unlisted, "parts that no live object lists")                              \
	COUNTER(duplicates, "further live slots of a key that has one")                         \
	COUNTER(capacity_bytes, "bytes of all chunks")                                          \
	COUNTER(sealed_bytes, "bytes of the chunks of sealed groups")                           \
	COUNTER(used_bytes, "bytes of objects and TWIMs in them")                               \
	COUNTER(dead_bytes, "bytes of objects without a slot in them")                          \
	COUNTER(live_bytes, "bytes of live objects, stored")                                    \
	COUNTER(payload_bytes, "bytes of their keys and values")                                \
	COUNTER(ofm_rows_counted, "OFM rows outside the window that are not zero")              \
	COUNTER(ofm_counts, "hits in them")                                                     \
	COUNTER(unstable, "things that looked wrong and changed while being looked at")         \
	COUNTER(read_bytes, "bytes READ")                                                       \
	COUNTER(findings, "violations")

struct check_report {
#define COUNTER(name, sentence) uint64_t name;
	CHECK_COUNTERS(COUNTER)
#undef COUNTER
	uint64_t found[CHECK_RULE_COUNT]; /* violations of each rule */
};

struct check_options {
	/*
	 * Traffic is running: a contradiction is READ again a bounded number of times and is a
	 * finding only if it persists in unchanged words.
	 */
	uint8_t live;
	/* Compute nodes died or sleep in an operation, and nobody has recovered. */
	uint8_t crashed;
	/* Only what is small: superblock, cursors, registry, chunk words, nodes. */
	uint8_t metadata_only;
	/* The compute nodes did not count in the pool (tests): the sums mean nothing. */
	uint8_t uncounted;
	/* Bit cn % 64 of word cn / 64: the node is known to be dead, whatever its line says. */
	uint64_t dead_cns[2];
};

/* One violation. */
struct check_finding {
	enum check_rule rule;
	uint64_t address; /* in the export, of the word or object to look at */
	char text[160];	  /* what is there, and what was expected */
};

typedef void (*check_finding_fn)(void *context, const struct check_finding *);

/*
 * Check the pool; every finding is passed to found() (may be NULL) as it is made.
 * *out is filled in as far as the check came, also on error.
 * Waits.  0 whatever was found; FORGE_E_NO_MEMORY; FORGE_E_CORRUPT for a pool->plan that no
 * plan_make() gives; or what a READ gave.
 */
MAY_WAIT int check_pool(struct worker *, const struct pool *, const struct check_options *,
			struct check_report *out, check_finding_fn found, void *context);

/* Name and sentence of a rule; NULL beyond the last.  Static memory. */
const char *check_rule_name(unsigned rule);
const char *check_rule_sentence(unsigned rule);

/* Name, sentence and value of the counters, in the order of the table; NULL beyond the last. */
const char *check_counter_name(unsigned counter);
const char *check_counter_sentence(unsigned counter);
uint64_t check_counter(const struct check_report *, unsigned counter);

/* A finding as one line, and a report as a page, for people. */
void check_print_finding(FILE *, const struct check_finding *);
void check_print(FILE *, const struct pool *, const struct check_report *);

#endif
