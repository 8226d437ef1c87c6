/* arena.c: blocks that are filled from the front. */
#include "lib/arena.h"

#include <stdint.h>
#include <stdlib.h>

#include "base/compiler.h"

#define BLOCK_BYTES (64u * 1024u)
#define UNIT_BYTES  16u

struct arena_block {
	struct arena_block *next;
	size_t bytes, used;
	_Alignas(UNIT_BYTES) uint8_t data[];
};

void *arena_take(struct arena *a, size_t bytes)
{
	struct arena_block *b = a->first;

	if (bytes > SIZE_MAX / 2)
		return NULL;
	bytes = round_up_u64(bytes, UNIT_BYTES);
	if (!b || b->bytes - b->used < bytes) {
		size_t block_bytes = max_u64(bytes, BLOCK_BYTES);

		b = malloc(sizeof(*b) + block_bytes);
		if (!b)
			return NULL;
		*b = (struct arena_block){.next = a->first, .bytes = block_bytes};
		a->first = b;
	}
	void *at = b->data + b->used;

	b->used += bytes;
	return at;
}

void arena_reset(struct arena *a)
{
	struct arena_block *kept = NULL;

	/* One block of the usual size is kept: it is what most calls need. */
	while (a->first) {
		struct arena_block *b = a->first;

		a->first = b->next;
		if (!kept && b->bytes == BLOCK_BYTES) {
			kept = b;
			continue;
		}
		free(b);
	}
	if (kept) {
		kept->next = NULL;
		kept->used = 0;
	}
	a->first = kept;
}

void arena_destroy(struct arena *a)
{
	while (a->first) {
		struct arena_block *b = a->first;

		a->first = b->next;
		free(b);
	}
}
