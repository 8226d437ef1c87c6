/*
 * spread.h: how the keys of one cache are spread over several memory nodes: the record that every
 * member holds of it, and which member has which key.
 *
 * Everyone above base may include it.  Pure functions on words; they own nothing, and any thread
 * may call them.  doc/nodes.md has the reasons, pool/spread.h the flows that read and change it.
 *
 * Keys are cut into SPREAD_PARTITIONS by their hash, mixed, so that the bits which choose bucket
 * and fingerprint stay evenly spread within each member.  Each partition goes to the member with
 * the least -log(u) / weight, u being a hash of member and partition (weighted rendezvous): who
 * comes takes his share from all others and nothing moves between them, and what a leaver had is
 * spread over those who stay.  All of it is integer arithmetic, so that every build on every
 * machine computes the same table from the same record.
 *
 * It lies in the superblock's page, and is READ with it:
 *
 *   OFFSET SIZE FIELD
 *   256    8    claim: of a program that changes the spread, 0 for none.  By CAS
 *   264    8    member: the id that this node has in the record; 0: it is no member.  CAS from 0
 *   512    512  owned: a bit for each partition of which values may lie here.  Once a partition
 *               was owned, its bit stays until everything here is flushed.  By the claim's holder
 *   1024   5632 record of an even epoch
 *   6656   5632 record of an odd epoch
 *
 * Which record counts, and since when, says the epoch in the fence (layout.h), with one CAS.  The
 * first record is put in place word by word by CAS from 0, so who is late changes nothing.
 */
#ifndef FORGE_LAYOUT_SPREAD_H
#define FORGE_LAYOUT_SPREAD_H

#include "layout/layout.h"

#define SPREAD_PARTITIONS 4096u
#define SPREAD_NODES_MAX  60u

#define SPREAD_CLAIM_OFFSET   UINT64_C(256)
#define SPREAD_MEMBER_OFFSET  UINT64_C(264)
#define SPREAD_OWNED_OFFSET   UINT64_C(512)
#define SPREAD_OWNED_WORDS    (SPREAD_PARTITIONS / 64)
#define SPREAD_RECORD_OFFSET  UINT64_C(1024)
#define SPREAD_RECORD_STRIDE  UINT64_C(5632)
#define SPREAD_WEIGHT_UNIT    4096u /* bytes of a pool */
#define SPREAD_WEIGHT_MAX     (UINT64_C(1) << 33)
#define SPREAD_RECORD_VERSION 2u
/*
 * Of all names of a record, each with a zero behind it: 60 of 67 bytes, which is more than
 * "tcp://ip-10-0-12-123.eu-central-1.compute.internal:7411" has; and of one.
 */
#define SPREAD_NAMES_BYTES    4096u
#define SPREAD_NAME_BYTES_MAX 255u

/*
 *   OFFSET SIZE FIELD
 *   0      8    checksum of the rest, but for members and names beyond the last
 *   8      8    id of the spread: the same as long as it lives
 *   16     8    epoch, as in the fence of each member
 *   24     4    version of this record
 *   28     4    members
 *   32     4    bytes of names that count, a multiple of 8
 *   36     4    zero
 *   40     8    id of the pool that was a cache of its own and became the first member with what
 *               it held; 0: there was none
 *   48     16   zero
 *   64     24 x 60  members by id, ascending: id, weight in units of 4 KiB, hash of the name they
 *                   had in the list
 *   1504   4096 their names in the same order, each with a zero behind it; then zeroes
 *
 * The hash is what a new pool's name must have to take a lost member's place without being told: if
 * another would do, two clients with different lists could use two pools as one member.
 *
 * By the name a client that runs reaches a member it did not know.  It is what was named in the
 * list, without what is the client's own business: no option, so no key, no file and no patience.
 * It is empty where it did not fit.  Whoever reads it takes it for what it is, a text that somebody
 * else wrote: it has no control characters (spread_record_valid()), client/follow.c says what it
 * may make a client do, and what is reached by it counts as the member only if it says so itself.
 */
struct spread_member {
	uint64_t id;
	uint64_t weight;
	uint64_t name;
};

struct spread_record {
	uint64_t checksum;
	uint64_t id;
	uint64_t epoch;
	uint32_t version;
	uint32_t member_count;
	uint32_t names_bytes;
	uint32_t zero_word;
	uint64_t kept;
	uint64_t zero[2];
	struct spread_member member[SPREAD_NODES_MAX];
	char names[SPREAD_NAMES_BYTES];
};
static_assert(offsetof(struct spread_record, kept) == 40, "layout");
static_assert(offsetof(struct spread_record, member) == 64, "layout");
static_assert(offsetof(struct spread_record, names) == 64 + 24 * SPREAD_NODES_MAX, "layout");
static_assert(sizeof(struct spread_record) == 64 + 24 * SPREAD_NODES_MAX + SPREAD_NAMES_BYTES,
	      "no padding");
static_assert(sizeof(struct spread_record) <= SPREAD_RECORD_STRIDE, "two in the page");
static_assert(SPREAD_RECORD_OFFSET + 2 * SPREAD_RECORD_STRIDE == LAYOUT_SUPERBLOCK_BYTES, "layout");
static_assert(SPREAD_OWNED_OFFSET + 8 * SPREAD_OWNED_WORDS == SPREAD_RECORD_OFFSET, "layout");

/* The page as READ. */
struct spread_page {
	uint64_t words[LAYOUT_SUPERBLOCK_BYTES / 8];
};

static inline uint64_t spread_record_offset(uint64_t epoch)
{
	return SPREAD_RECORD_OFFSET + SPREAD_RECORD_STRIDE * (epoch & 1);
}

static inline const struct spread_record *spread_page_record(const struct spread_page *page,
							     uint64_t epoch)
{
	return (const struct spread_record *)(const void *)&page
	    ->words[spread_record_offset(epoch) / 8];
}

static inline uint64_t spread_page_member(const struct spread_page *page)
{
	return page->words[SPREAD_MEMBER_OFFSET / 8];
}

/* Bytes of a record that count before its names. */
static inline uint32_t spread_record_bytes(const struct spread_record *r)
{
	return (uint32_t)(offsetof(struct spread_record, member) +
			  r->member_count * sizeof(r->member[0]));
}

/* The name of a valid record's member; empty: none. */
const char *spread_record_name(const struct spread_record *, uint32_t member);

/* The weight of a pool of that size. */
static inline uint64_t spread_weight(uint64_t pool_bytes)
{
	uint64_t weight = pool_bytes / SPREAD_WEIGHT_UNIT;

	return weight < 1 ? 1 : weight > SPREAD_WEIGHT_MAX ? SPREAD_WEIGHT_MAX : weight;
}

/* Can that be a member's name in a record, as far as bytes go? */
int spread_name_fits(const char *name);

/*
 * Make a record of members in any order; 0 as id: one that follows from the members alone, so that
 * all who form the same spread write the same bytes.  names: theirs, in the members' order, as far
 * as they fit; NULL: none has one.  0, or FORGE_E_INVAL for no members, too many, or an id that is
 * 0 or there twice.
 */
struct spread_wish {
	uint64_t id, epoch;
	uint64_t kept;
	const struct spread_member *members;
	const char *const *names;
	uint32_t count;
};
int spread_record_make(struct spread_record *, const struct spread_wish *);

/* Is it whole, and of that epoch?  Never trusts a field. */
int spread_record_valid(const struct spread_record *, uint64_t epoch);

/* The epoch of the newest whole record in the page, 0 if there is none. */
uint64_t spread_page_newest(const struct spread_page *);

/* Do two valid records say the same? */
int spread_record_same(const struct spread_record *, const struct spread_record *);

/* Which member has that id, or -1. */
int spread_record_find(const struct spread_record *, uint64_t id);

/* Which member was reached by that name when the record was made, by the name's hash, or -1. */
int spread_record_named(const struct spread_record *, uint64_t name);

/* The member of each partition, by its index in a valid record. */
void spread_table(const struct spread_record *, uint8_t table[SPREAD_PARTITIONS]);

/* The partition of a key, by its hash (base/hash.h). */
uint32_t spread_partition(uint64_t key_hash);

#endif
