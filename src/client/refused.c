/* refused.c: an open hash table over an arena, neither of which ever shrinks in use. */
#include "client/refused.h"

#include <stdlib.h>
#include <string.h>

#include "base/hash.h"

#define SLOTS (2 * REFUSED_KEYS_MAX)

_Static_assert(LAYOUT_KEY_BYTES_MAX <= UINT8_MAX, "a key's length is one byte");

static int prepare(struct refused *r)
{
	if (!r->slots)
		r->slots = calloc(SLOTS, sizeof(*r->slots));
	if (!r->bytes)
		r->bytes = malloc(REFUSED_BYTES_MAX); /* touched as far as it is used */
	return r->slots && r->bytes;
}

void refused_add(struct refused *r, struct cache_key key)
{
	if (r->is_too_much || key.bytes == 0 || key.bytes > LAYOUT_KEY_BYTES_MAX)
		return; /* no such key was ever stored */
	if (!prepare(r)) {
		r->is_too_much = 1;
		return;
	}
	uint32_t slot = (uint32_t)(hash_key(key.data, key.bytes) % SLOTS);

	for (; r->slots[slot]; slot = (slot + 1) % SLOTS) {
		const uint8_t *there = r->bytes + r->slots[slot] - 1;

		if (there[0] == key.bytes && memcmp(there + 1, key.data, key.bytes) == 0)
			return;
	}
	if (r->key_count == REFUSED_KEYS_MAX || r->used + 1 + key.bytes > REFUSED_BYTES_MAX) {
		r->is_too_much = 1;
		return;
	}
	r->slots[slot] = r->used + 1;
	r->bytes[r->used] = (uint8_t)key.bytes;
	memcpy(r->bytes + r->used + 1, key.data, key.bytes);
	r->used += 1 + key.bytes;
	r->key_count++;
}

int refused_next(const struct refused *r, uint32_t *at, struct cache_key *out)
{
	if (*at >= r->used)
		return 0;
	*out = (struct cache_key){.data = r->bytes + *at + 1, .bytes = r->bytes[*at]};
	*at += 1 + r->bytes[*at];
	return 1;
}

void refused_clear(struct refused *r)
{
	free(r->slots);
	free(r->bytes);
	*r = (struct refused){0};
}
