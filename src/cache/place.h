/*
 * place.h: one object on its way into the index: its place in an open group, the word that will
 * point to it, the slot it goes to.  Shared by Set (set.c) and the change flow (change.c); internal
 * to cache/.
 *
 * A struct placing belongs to one operation.  place_object() builds the object in c->object; what
 * follows posts it.  Whatever becomes of the object, place_land() must follow before the operation
 * ends: until then its group cannot be sealed.
 */
#ifndef FORGE_CACHE_PLACE_H
#define FORGE_CACHE_PLACE_H

#include "cache/look.h"

/* Index races an operation may lose before it says FORGE_E_AGAIN. */
#define PLACE_ROUNDS_MAX 64u

struct placing {
	struct cache_key key;
	struct look look;
	struct lane_place place;
	struct policy_place policy;
	uint32_t stream; /* of the lane */
	uint32_t units;
	uint32_t part_count; /* of a value larger than a chunk: the object is its head */
	uint8_t same_bytes;  /* set by the caller: as those of the match */
	uint8_t keeps_parts; /* ... so that the head lists the parts of the one it replaces */
	uint8_t is_set;	     /* set by the caller: a Set, which depends on no value */
	uint8_t placed;	     /* place and c->object are valid */
	uint8_t written;     /* the object has landed */
	uint8_t linked;	     /* a slot's final word pointed to it: it is not placed again */
	uint64_t met;	     /* what the last CAS of its slot found there */
};

/*
 * Units of 16 bytes that an object, or the head of a large one, takes; here it is decided how large
 * one may be.
 * 0 or FORGE_E_VALUE_LARGE.
 */
int place_units(const struct plan *, uint32_t key_bytes, uint64_t value_bytes, uint32_t *units);

/*
 * Take room for units where the policy wants the object, which may mean to evict, and build it in
 * c->object, with a cas id of its own when cas_id is 0.  The look is what it goes by.  Nothing is
 * posted, but the parts of a value larger than a chunk: they are WRITTEN, unless p->same_bytes
 * says that the item has those of the match, whose parts stay where they are.
 *  A place that was taken before is kept when the length is the same (no final word ever
 * pointed to it, so it may be written again).  Borrows item.  Waits.
 * 0, FORGE_E_NO_SPACE, FORGE_E_NODE.
 */
MAY_WAIT int place_object(struct cache *, struct placing *, uint32_t units,
			  const struct cache_item *item, uint64_t cas_id);

/* The word that makes a slot, now holding old, point to the object. */
uint64_t place_word(const struct cache *, const struct placing *, uint64_t old);

/*
 * Post the object (once), the CAS of a slot from old to word and, if reread, the READ of the
 * neighbourhood into the look, as one batch.  Waits.  0 or FORGE_E_NODE; *won as fab_cas_won().
 */
MAY_WAIT int place_swing(struct cache *, struct placing *, unsigned slot, uint64_t old,
			 uint64_t word, int reread, int *won);

/* The slot is ours, for word: tell the TWIM and, in 16-byte slots, the group word.  Waits. */
MAY_WAIT int place_record(struct cache *, struct placing *, unsigned slot, uint64_t word);

/*
 * Replace the lowest match, which stood alone, by the object.  Waits.
 * 0, FORGE_E_AGAIN when its word had changed, FORGE_E_NODE.
 */
MAY_WAIT int place_over_match(struct cache *, struct placing *);

/* CAS the slot from the object's tentative word to its final one.  Waits.  0 or FORGE_E_NODE. */
MAY_WAIT int place_finalise(struct cache *, const struct placing *, unsigned slot,
			    uint64_t tentative, uint64_t word, int *won);

/* The operation is over: let the group be sealed.  Waits.  0 or FORGE_E_NODE. */
MAY_WAIT int place_land(struct cache *, struct placing *);

/*
 * Clear what has to be cleared and choose the slot of an insert (slot.c).  Waits.
 * 0; FORGE_E_AGAIN: look again; FORGE_E_NODE.
 */
MAY_WAIT int slot_choose(struct cache *, const struct look *, unsigned *slot);

#endif
