/* idmap.c: an open-addressed table of indices into the array of ids. */
#include "load/idmap.h"

#include <stdlib.h>

#include "base/hash.h"
#include "base/status.h"

#define SLOTS_FIRST 1024 /* a power of two; as many ids fill it to one half */

static uint64_t slot_find(const struct idmap *m, uint64_t id)
{
	uint64_t mask = m->slot_count - 1;
	uint64_t slot = hash_mix(id) & mask;

	/* Ends, because at most half of the slots are taken. */
	while (m->slots[slot] != 0 && m->ids[m->slots[slot] - 1] != id)
		slot = (slot + 1) & mask;
	return slot;
}

static int grow(struct idmap *m)
{
	uint64_t slot_count = m->slot_count == 0 ? SLOTS_FIRST : m->slot_count * 2;
	uint64_t room = slot_count / 2 < IDMAP_COUNT_MAX ? slot_count / 2 : IDMAP_COUNT_MAX;
	uint64_t *ids;
	uint32_t *slots;

	if (m->count >= IDMAP_COUNT_MAX)
		return FORGE_E_NO_MEMORY;
	ids = reallocarray(m->ids, room, sizeof(*ids));
	if (ids == NULL)
		return FORGE_E_NO_MEMORY;
	m->ids = ids;
	slots = calloc(slot_count, sizeof(*slots));
	if (slots == NULL)
		return FORGE_E_NO_MEMORY;
	free(m->slots);
	m->slots = slots;
	m->slot_count = slot_count;
	m->room = (uint32_t)room;
	for (uint32_t i = 0; i < m->count; i++)
		m->slots[slot_find(m, m->ids[i])] = i + 1;
	return 0;
}

int idmap_add(struct idmap *m, uint64_t id, uint32_t *index)
{
	uint64_t slot;
	int status;

	if (m->slot_count > 0) {
		slot = slot_find(m, id);
		if (m->slots[slot] != 0) {
			*index = m->slots[slot] - 1;
			return 0;
		}
	}
	if (m->count == m->room) {
		status = grow(m);
		if (status != 0)
			return status;
	}
	slot = slot_find(m, id);
	m->ids[m->count] = id;
	m->slots[slot] = ++m->count;
	*index = m->count - 1;
	return IDMAP_NEW;
}

void idmap_free(struct idmap *m)
{
	free(m->ids);
	free(m->slots);
	*m = (struct idmap){0};
}
