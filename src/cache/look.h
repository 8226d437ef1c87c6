/*
 * look.h: one look at a key's neighbourhood with every matching word classified; the common
 * first step of Set and Delete.  Internal to cache/.
 */
#ifndef FORGE_CACHE_LOOK_H
#define FORGE_CACHE_LOOK_H

#include "cache/cache.h"

struct look {
	struct index_home home;
	enum fab_purpose purpose;
	struct index_view view;
	uint32_t match;	  /* bit per slot: holds this key, verified */
	uint32_t dead;	  /* same fingerprint, but stale, or its object is invalid or over */
	uint32_t invalid; /* those of the dead whose object was READ and found so */
	uint32_t expired; /* those of the invalid that are this key's, whole, and expired */
	uint32_t flushed; /* ... or flushed */
	uint32_t foreign; /* same fingerprint, verified to be another key's */
	/*
	 * Same fingerprint, an insert that is not decided (change.c).  Whose key it is nobody asks:
	 * taking one away only makes its owner start again.
	 */
	uint32_t tentative;
	uint8_t ghost; /* a stale slot says the key left the small ring lately */
	/* Words verified to be another key's: not READ again while they stand. */
	uint32_t known_slots; /* bit per slot */
	uint64_t known[LAYOUT_NEIGHBOURHOOD];

	/* The lowest match, if there is one; its object is in c->fetched. */
	uint32_t old_chunk, old_generation, old_sn;
	uint32_t old_flush; /* the flush generation it carries */
	uint64_t old_cas_id;
	/* One that expired or was flushed. */
	uint32_t over_slot, over_chunk, over_generation, over_sn;
};

/* Prepare for a key; objects will be READ for that purpose.  No verb. */
void look_begin(struct look *, const struct cache *, struct cache_key key, enum fab_purpose);

/* A round begins: READ the neighbourhood and classify.  Waits.  0, FORGE_E_DEADLINE, FORGE_E_NODE.
 */
MAY_WAIT int look_read(struct cache *, struct cache_key key, struct look *);

/* Classify the view that is there already (READ in another batch). */
MAY_WAIT int look_classify(struct cache *, struct cache_key key, struct look *);

static inline uint64_t look_word(const struct cache *c, const struct look *l, unsigned slot)
{
	return index_view_word(&c->cn->pool->plan, &l->view, slot);
}

/* The word in that slot needs no READ while it stands. */
static inline void look_know(struct look *l, unsigned slot, uint64_t word)
{
	l->known_slots |= 1u << slot;
	l->known[slot] = word;
}

/*
 * The lowest match, which stands alone: if it is larger than a chunk, READ its value.  Waits.
 * 0; FORGE_E_AGAIN when the value was not whole: the word has changed, or was CASed away;
 * FORGE_E_NODE.
 */
MAY_WAIT int look_parts(struct cache *, const struct look *);

/* The lowest match as a caller sees it; valid while c->fetched is, and what look_parts() READ. */
struct cache_value look_value(const struct cache *);

/*
 * The flush generation of an object that is stored now: the operation's sample, or that of the
 * match it replaces, which has been seen to be of a later one.
 */
static inline uint32_t look_stamp(const struct cache *c, const struct look *l)
{
	uint32_t sample = c->moment.flush_generation;

	if (unlikely(!pool_rule(c->cn->pool, RULE_FLUSH_SAMPLED_ONCE)))
		sample = (uint32_t)fence_generation(c->cn->fence);
	return l->match && (int32_t)(l->old_flush - sample) > 0 ? l->old_flush : sample;
}

/*
 * CAS the slots of a mask to 0, highest first, from the words seen.  Stops at the first that
 * has changed; *all says whether none had.  left: how matches leave, to be counted; of the dead
 * it is known.
 */
MAY_WAIT int look_remove(struct cache *, const struct look *, uint32_t mask, enum stats_word left,
			 int *all);

/* How the word in a slot leaves the index, if that of a match would do so as given. */
static inline enum stats_word look_left(const struct look *l, unsigned slot, enum stats_word match)
{
	if (l->expired >> slot & 1)
		return STATS_expired;
	if (l->flushed >> slot & 1)
		return STATS_flushed;
	if (l->invalid >> slot & 1)
		return STATS_invalid;
	return l->dead >> slot & 1 ? STATS_evicted : match;
}

static inline unsigned lowest_slot(uint32_t mask)
{
	return (unsigned)__builtin_ctz(mask);
}

static inline unsigned highest_slot(uint32_t mask)
{
	return 31u - (unsigned)__builtin_clz(mask);
}

#endif
