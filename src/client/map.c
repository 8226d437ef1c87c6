/*
 * map.c: who has which key, by one epoch of the spread: made once, then only read, and kept by
 * whoever holds a count on it.
 */
#include <stdlib.h>

#include "client/inside.h"

struct map *map_create(void)
{
	struct map *m = calloc(1, sizeof(*m));

	if (m)
		atomic_store(&m->counts, 1);
	return m;
}

void map_fill(struct map *m)
{
	const struct spread_record *r = &m->record;

	m->epoch = (uint32_t)r->epoch;
	m->member_count = m->epoch ? r->member_count : 1;
	for (uint32_t i = 0; i < m->member_count; i++) {
		m->slots |= UINT64_C(1) << m->slot[i];
		m->slot_end = (uint32_t)max_u64(m->slot_end, m->slot[i] + 1u);
	}
	m->only = m->slot[0];
	if (!m->epoch)
		return;
	spread_table(r, m->table);
	for (uint32_t p = 0; p < SPREAD_PARTITIONS; p++)
		m->table[p] = m->slot[m->table[p]];
}

void map_drop(struct map *m)
{
	if (m && atomic_fetch_sub_explicit(&m->counts, 1, memory_order_acq_rel) == 1)
		free(m);
}

struct map *map_hold_newest(struct client *c)
{
	client_lock(c);
	struct map *m = c->newest;

	atomic_fetch_add_explicit(&m->counts, 1, memory_order_relaxed);
	client_unlock(c);
	return m;
}

struct map *map_hold_present(struct client *c)
{
	client_lock(c);
	struct map *m = atomic_load_explicit(&c->present, memory_order_relaxed);

	if (m)
		atomic_fetch_add_explicit(&m->counts, 1, memory_order_relaxed);
	client_unlock(c);
	return m;
}

uint32_t map_id_slot(const struct map *m, uint64_t id)
{
	int at = m->epoch ? spread_record_find(&m->record, id) : -1;

	return at < 0 ? MAP_NOWHERE : m->slot[at];
}
