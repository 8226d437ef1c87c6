/*
 * rules.h: the protocol rules of doc/protocol.md, one bit each, so that a test can remove
 * exactly one and show that something then breaks.
 *
 * Production never sets a bit.  pool->rules_off is read only; it costs one predictable branch.
 */
#ifndef FORGE_POOL_RULES_H
#define FORGE_POOL_RULES_H

/* RULE(name, sentence): what the rule demands. */
#define RULES(RULE)                                                                                \
	RULE(READ_CHECKS_GENERATION, "a reader requires header generation = word generation")      \
	RULE(READ_CHECKS_CHECKSUM, "a reader requires the checksum")                               \
	RULE(READ_CHECKS_KEY, "a reader compares the key, not only the fingerprint")               \
	RULE(GET_REMOVES_INVALID, "a Get CASes an invalid object's word away")                     \
	RULE(GET_CLEARS_DEAD,                                                                      \
	     "a Get clears stale and invalid words beside its match and looks again")              \
	RULE(GET_MERGES_MATCHES, "a Get that sees two matches removes all but the lowest first")   \
	RULE(MAP_TRUST_BOUND, "a map entry proves staleness only while it is fresh")               \
	RULE(CLEAR_BEFORE_INSERT, "a Set clears stale and invalid slots before it inserts")        \
	RULE(CLEAR_THEN_REREAD, "after clearing, an empty slot needs a fresh READ")                \
	RULE(REREAD_AFTER_INSERT, "an inserter re-READs the neighbourhood")                        \
	RULE(NOT_LOWEST_REMOVES_SELF, "an inserter that is not the lowest removes itself")         \
	RULE(LOWEST_REMOVES_OTHERS, "the lowest removes the others before it acknowledges")        \
	RULE(MERGE_MATCHES_FIRST, "a Set that sees two matches removes all but the lowest first")  \
	RULE(UPDATE_CLEARS_DEAD, "a Set clears stale and invalid slots before it updates")         \
	RULE(SET_REMOVES_TENTATIVES, "an inserter removes tentative words before it acknowledges") \
	RULE(ABSORBED_BY_KEY, "a Set is absorbed only by a value of its own key")                  \
	RULE(ABSORBED_BY_NEWER, "a Set is absorbed only by another value than it saw")             \
	RULE(ABSORBED_BY_UPDATE, "a Set is absorbed only by a Set that overwrote a value")         \
	RULE(ORIGIN_IS_TRUE, "an object that inserts does not say that it overwrote a value")      \
	RULE(GONE_STILL_MERGES, "an inserter whose word is gone still leaves one word of the key") \
	RULE(ABSENT_CLEARS_DEAD,                                                                   \
	     "a change clears stale and invalid slots and READs again before it says absent")      \
	RULE(CHANGE_STANDS_ALONE, "a change decides only on a match that stands alone")            \
	RULE(ADD_IS_TENTATIVE, "a change inserts a tentative word first, and a final one later")   \
	RULE(ADD_REREADS, "an add re-READs after its tentative word before it finalises")          \
	RULE(ADD_SEES_MATCHES, "an add that finds a match then withdraws")                         \
	RULE(ADD_LOWEST_WINS, "an add removes other tentative words and re-READs, or withdraws")   \
	RULE(DEAD_ADDS_END, "a tentative word that stays is removed after a bounded wait")         \
	RULE(FLUSH_SEEN_LATELY, "an operation starts with a look at the flush generation")         \
	RULE(FLUSH_SAMPLED_ONCE, "an operation judges and stamps by one look at it")               \
	RULE(FLUSH_WAITS, "a flush waits until no operation starts with an older look")            \
	RULE(OVER_IS_DEAD, "an expired or flushed object is dealt with as an invalid one")         \
	RULE(FULL_TAKES_HIGHEST, "a full bucket loses the highest word of a fingerprint")          \
	RULE(DELETE_CLEARS_STALE, "Delete clears stale and invalid slots too")                     \
	RULE(DELETE_HIGHEST_FIRST, "Delete removes the highest match first")                       \
	RULE(DELETE_REREADS, "Delete re-READs until no match is left")                             \
	RULE(SCAN_DOWNWARDS, "a scan READs the slots of a bucket from the last to the first")      \
	RULE(SLOT_CAS_EXACT, "a slot changes only by CAS from the exact word seen")                \
	RULE(SEAL_WAITS_IN_FLIGHT, "a group seals only when no Set is in flight in it")            \
	RULE(CLAIM_BY_CHUNK_WORD, "only the winner of the chunk CAS owns a claimed chunk")         \
	RULE(CLAIM_CHECKS_POSITION, "the claim compares the position, not only the state")         \
	RULE(NODE_RESET_BY_CAS, "a node is reset only from the exact value seen")                  \
	RULE(SKIP_LATE_PRODUCER, "an EMPTY node below head is skipped after a limit")              \
	RULE(SKIPPED_RETICKETS, "a producer whose node was skipped takes a new ticket")            \
	RULE(TICKET_SETTLED, "who has a ticket leaves its node filled, or of a later trip")        \
	RULE(FREE_RAISES_GENERATION, "freeing a chunk raises its generation")                      \
	RULE(REGROUP_VERIFIES, "the evictor verifies every object before it copies")               \
	RULE(REGROUP_WRITES_FIRST, "the copy lands before the slot points to it")                  \
	RULE(MOVES_HAVE_ROOM,                                                                      \
	     "a chunk to spare takes what is moved, so that none is out of sight")                 \
	RULE(DEAD_OF_THIS_LIFE, "deaths count only in the life of a chunk they were seen in")      \
	RULE(ROW_CLEARED_EXACTLY,                                                                  \
	     "an OFM word that may still change is cleared by CAS from what was READ")             \
	RULE(FLUSH_CAPPED, "a CN adds at most 85 / cn_max per counter and position")               \
	RULE(NOTE_ZEROES_COUNTS, "hits count from the moment a group is noted as queued")          \
	RULE(EVICT_WAITS_FLUSH, "the evictor waits a bounded time for CNs that have not flushed")  \
	RULE(OVERLONG_SPARED, "nobody leaves because a ring is overlong")                          \
	RULE(CN_CHUNK_CAP, "a CN holds at most its share of open and reserved chunks")             \
	RULE(JOIN_LOCKS_FIRST, "a node has the lock of its id before its line says it lives")      \
	RULE(RECOVER_NEEDS_PROOF, "nobody is recovered whose lock is held")                        \
	RULE(RECOVER_HOLDS_LOCK, "the lock of a dead node's id is held while it is recovered")     \
	RULE(RECOVER_LINE_LAST, "the dead node's line is freed last")                              \
	RULE(RECOVER_EXACT_WORD, "a chunk is taken back only from the exact word seen")            \
	RULE(RECOVER_RAISES_GENERATION, "a chunk with objects is freed one generation on")         \
	RULE(RECOVER_RESCUES_FIRST, "a passed node is reset after its chunk was looked after")     \
	RULE(RECOVER_NODE_BY_CAS, "recovery moves a node on only from the exact value seen")       \
	RULE(PARTS_CHECKSUM, "a reader requires the checksum of a value in parts")                 \
	RULE(PARTS_WRITTEN_FIRST, "parts land before the slot points to their head")               \
	RULE(PARTS_WINNER_FREES, "only who takes a head out of its slot frees its parts")          \
	RULE(PARTS_STAY, "moving a head frees no part")                                            \
	RULE(PARTS_OF_A_HEAD, "chunks in hand become parts only of a head that lists them")        \
	RULE(PARTS_LOOK_AGAIN,                                                                     \
	     "who made parts READs the head's slot again, and frees if it is out")                 \
	RULE(PARTS_COLD_HEADS_OUT, "the evictor takes cold heads out before it frees their chunk") \
	RULE(PARTS_RAISE_GENERATION, "freeing a part raises its generation")

enum rule {
#define RULE(name, sentence) RULE_##name,
	RULES(RULE)
#undef RULE
	    RULE_COUNT
};

/* Bits of enum rule. */
typedef unsigned __int128 rule_set;

static inline rule_set rule_bit(unsigned rule)
{
	return (rule_set)1 << rule;
}

/* Name and sentence of a rule, for tests and doc; NULL beyond the last.  Static memory. */
const char *rule_name(unsigned rule);
const char *rule_sentence(unsigned rule);

#endif
