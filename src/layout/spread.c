/* spread.c: records of a spread, and weighted rendezvous in integers. */
#include "layout/spread.h"

#include <string.h>

#include "base/hash.h"
#include "base/status.h"

/* Bits behind the point of a logarithm; more would be lost in the squarings. */
#define LOG_BITS 20u

static uint64_t record_checksum(const struct spread_record *r)
{
	return hash_checksum(hash_checksum(0, &r->id, spread_record_bytes(r) - sizeof(r->checksum)),
			     r->names, r->names_bytes);
}

/* Control characters are in no name: it is printed. */
int spread_name_fits(const char *name)
{
	size_t bytes = 0;

	for (; bytes <= SPREAD_NAME_BYTES_MAX && name[bytes]; bytes++)
		if ((unsigned char)name[bytes] < ' ' || name[bytes] == 0x7f)
			return 0;
	return bytes <= SPREAD_NAME_BYTES_MAX;
}

/* Are there as many names as members, and nothing behind them? */
static int names_valid(const struct spread_record *r)
{
	uint32_t at = 0;

	for (uint32_t i = 0; i < r->member_count; i++) {
		const char *end = memchr(r->names + at, 0, r->names_bytes - at);

		if (!end || !spread_name_fits(r->names + at))
			return 0;
		at = (uint32_t)(end + 1 - r->names);
	}
	for (; at < r->names_bytes; at++)
		if (r->names[at])
			return 0;
	return 1;
}

const char *spread_record_name(const struct spread_record *r, uint32_t member)
{
	const char *name = r->names;

	while (member-- > 0)
		name += strlen(name) + 1;
	return name;
}

/* The rest of the members needs a byte each. */
static void put_names(struct spread_record *r, const char *const *names)
{
	uint32_t at = 0;

	for (uint32_t i = 0; i < r->member_count; i++) {
		const char *name = names[i] && spread_name_fits(names[i]) ? names[i] : "";

		if (at + strlen(name) + r->member_count - i > SPREAD_NAMES_BYTES)
			name = "";
		memcpy(r->names + at, name, strlen(name));
		at += (uint32_t)strlen(name) + 1;
	}
	r->names_bytes = (at + 7) / 8 * 8;
}

int spread_record_make(struct spread_record *r, const struct spread_wish *wish)
{
	const char *names[SPREAD_NODES_MAX];
	uint64_t id = wish->id;
	uint32_t count = wish->count;

	if (count == 0 || count > SPREAD_NODES_MAX)
		return FORGE_E_INVAL;
	*r = (struct spread_record){.id = id,
				    .epoch = wish->epoch,
				    .version = SPREAD_RECORD_VERSION,
				    .member_count = count,
				    .kept = wish->kept};
	for (uint32_t i = 0; i < count; i++) {
		uint32_t at = i;

		for (; at > 0 && r->member[at - 1].id > wish->members[i].id; at--) {
			r->member[at] = r->member[at - 1];
			names[at] = names[at - 1];
		}
		r->member[at] = wish->members[i];
		names[at] = wish->names ? wish->names[i] : NULL;
	}
	put_names(r, names);
	for (uint32_t i = 0; i < count; i++)
		if (r->member[i].id == 0 || (i > 0 && r->member[i].id == r->member[i - 1].id))
			return FORGE_E_INVAL;
	if (!id)
		r->id = hash_checksum(1, r->member, count * sizeof(r->member[0])) | 1;
	r->checksum = record_checksum(r);
	return 0;
}

int spread_record_valid(const struct spread_record *r, uint64_t epoch)
{
	if (r->version != SPREAD_RECORD_VERSION || r->epoch != epoch || r->member_count == 0 ||
	    r->member_count > SPREAD_NODES_MAX || r->names_bytes > SPREAD_NAMES_BYTES ||
	    r->names_bytes % 8 || r->checksum != record_checksum(r) || !names_valid(r))
		return 0;
	for (uint32_t i = 0; i < r->member_count; i++)
		if (r->member[i].weight == 0 || r->member[i].weight > SPREAD_WEIGHT_MAX ||
		    r->member[i].id <= (i > 0 ? r->member[i - 1].id : 0))
			return 0;
	return 1;
}

uint64_t spread_page_newest(const struct spread_page *page)
{
	uint64_t newest = 0;

	for (uint64_t parity = 0; parity < 2; parity++) {
		const struct spread_record *r = spread_page_record(page, parity);

		if (r->epoch > newest && r->epoch <= FENCE_EPOCH_MAX && (r->epoch & 1) == parity &&
		    spread_record_valid(r, r->epoch))
			newest = r->epoch;
	}
	return newest;
}

int spread_record_same(const struct spread_record *a, const struct spread_record *b)
{
	return a->member_count == b->member_count && a->names_bytes == b->names_bytes &&
	       memcmp(a, b, spread_record_bytes(a)) == 0 &&
	       memcmp(a->names, b->names, a->names_bytes) == 0;
}

int spread_record_find(const struct spread_record *r, uint64_t id)
{
	for (uint32_t i = 0; i < r->member_count; i++)
		if (r->member[i].id == id)
			return (int)i;
	return -1;
}

int spread_record_named(const struct spread_record *r, uint64_t name)
{
	for (uint32_t i = 0; i < r->member_count; i++)
		if (r->member[i].name == name)
			return (int)i;
	return -1;
}

/* 64 - log2(h), with LOG_BITS behind the point; h is not 0. */
static uint64_t minus_log(uint64_t h)
{
	unsigned top = 63 - (unsigned)__builtin_clzll(h);
	/* h / 2^top, in [1, 2), with 31 bits behind the point; squared, its integer part says the
	 * next bit of the logarithm. */
	uint64_t m = top >= 31 ? h >> (top - 31) : h << (31 - top), log = top;

	for (unsigned i = 0; i < LOG_BITS; i++) {
		m = (m * m) >> 31;
		log = log << 1 | m >> 32;
		m >>= m >> 32;
	}
	return (UINT64_C(64) << LOG_BITS) - log;
}

void spread_table(const struct spread_record *r, uint8_t table[SPREAD_PARTITIONS])
{
	for (uint32_t p = 0; p < SPREAD_PARTITIONS; p++) {
		uint64_t mixed = hash_mix(p + 1), best = 0;

		table[p] = 0;
		for (uint32_t i = 0; i < r->member_count; i++) {
			uint64_t log = minus_log(hash_mix(r->member[i].id ^ mixed) | 1);

			/* log / weight is less: at most 2^27 times 2^33 on either side. */
			if (i == 0 ||
			    log * r->member[table[p]].weight < best * r->member[i].weight) {
				table[p] = (uint8_t)i;
				best = log;
			}
		}
	}
}

uint32_t spread_partition(uint64_t key_hash)
{
	return (uint32_t)(hash_mix(key_hash) % SPREAD_PARTITIONS);
}
