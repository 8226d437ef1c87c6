/* twim.c: decoding a group's two-way index map. */
#include "pool/twim.h"

uint32_t twim_decode(const struct plan *p, uint32_t chunk, uint32_t generation,
		     const uint64_t *entries, uint32_t object_count, struct twim_member *members)
{
	uint64_t limit = plan_group_bytes(p, object_count);
	uint64_t offset = 0;
	uint32_t usable = 0;

	for (uint32_t sn = 0; sn < object_count; sn++) {
		uint64_t entry = entries[plan_twim_index(sn, object_count)];
		uint32_t units = twim_units(entry);
		uint64_t bytes = (uint64_t)units * LAYOUT_UNIT_BYTES;
		struct twim_member *m = &members[sn];

		*m = (struct twim_member){.sn = sn, .slot = twim_slot(entry)};
		if (m->slot < plan_slot_count(p) && units > 0 && offset + bytes <= limit) {
			struct index_target target = {
			    .fingerprint = twim_fingerprint(entry),
			    .units = units,
			    .generation = generation,
			    .version = twim_version(entry),
			    .is_head = (uint32_t)twim_is_head(entry),
			    .address = plan_chunk_address(p, chunk) + offset,
			};

			m->units = units;
			m->fingerprint = target.fingerprint;
			m->version = target.version;
			m->is_head = target.is_head;
			m->address = target.address;
			m->word = index_word(p, &target);
			usable++;
		}
		offset += bytes;
	}
	return usable;
}
