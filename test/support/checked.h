/*
 * checked.h: running the checker on a rig, and finding things in its pool to look at or damage.
 *
 * Called by cmocka tests on the rig's thread; a thing that is not there fails the test.
 * Pointers are into the rig's memory.
 */
#ifndef FORGE_TEST_SUPPORT_CHECKED_H
#define FORGE_TEST_SUPPORT_CHECKED_H

#include "check/check.h"
#include "support/rig.h"

/* The pools of these tests, and their keys. */
#define CHUNKS	32u
#define OBJECTS 8u
#define KEYS	1024u

/* Nothing is running, nobody died. */
extern const struct check_options check_at_rest;

/* Check the pool; *last, if given, receives the last finding. */
struct check_report run_check(struct rig *r, const struct check_options *,
			      struct check_finding *last);

/* Nothing is found. */
struct check_report assert_clean(struct rig *r, const struct check_options *);

/* Exactly one rule is violated, once. */
void assert_found(struct rig *r, const struct check_options *, enum check_rule);

/* Gets, Sets and some Deletes, of which every result is checked as far as others permit. */
void rig_work(struct rig *r, uint32_t operations, uint64_t seed);

/* A ticking rig of CHUNKS and OBJECTS with some work done, too little for generations to wrap. */
void rig_open_worked(struct rig *r, const char *policy);

/* Words of the pool. */
uint64_t *word_at(const struct rig *r, uint64_t address);
struct layout_cursors *cursors_of(const struct rig *r);
uint64_t *chunk_word_of(const struct rig *r, uint32_t chunk);
uint64_t *slot_word(const struct rig *r, uint64_t slot);

/* The nth chunk in a state, and the node at a queued chunk's position. */
uint32_t chunk_in(const struct rig *r, uint32_t state, uint32_t nth);
uint64_t *node_of(const struct rig *r, uint32_t chunk);

/* Take a queued chunk into the hands of node 0, evicted as evict.c would. */
uint32_t reserve_chunk(const struct rig *r);

/* Does an index word point into the present life of its chunk? */
int is_live(const struct rig *r, uint64_t word);

/* A live slot whose chunk is in a state, and its object. */
uint64_t live_slot(const struct rig *r, uint32_t state);
struct layout_object *object_of(const struct rig *r, uint64_t slot);

/* A slot without a live object in [from, from + count), other than `except`. */
uint64_t idle_slot(const struct rig *r, uint64_t from, uint64_t count, uint64_t except);

/* One in the neighbourhood of the key that a slot holds, and one far from it. */
uint64_t idle_neighbour(const struct rig *r, uint64_t slot);
uint64_t idle_far(const struct rig *r, uint64_t slot);

/* The node at a ring's tail, which is EMPTY, and the cycle it waits for, which is not 0. */
uint64_t *node_outside(const struct rig *r, uint32_t ring, uint64_t *cycle);

#endif
