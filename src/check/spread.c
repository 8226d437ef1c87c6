/* spread.c: what a memory node of several remembers of the others, by itself. */
#include <inttypes.h>

#include "check/inside.h"
#include "layout/spread.h"

/* The first partition that is the member's and of which the node may not have values, or none. */
static uint32_t unowned(const struct spread_page *page, const struct spread_record *r, int member)
{
	uint8_t table[SPREAD_PARTITIONS];
	const uint64_t *owned = &page->words[SPREAD_OWNED_OFFSET / 8];
	uint32_t p = 0;

	spread_table(r, table);
	while (p < SPREAD_PARTITIONS && (table[p] != member || owned[p / 64] >> (p % 64) & 1))
		p++;
	return p;
}

/* A node that is no member any more keeps the record by which it left. */
MAY_WAIT int check_look_spread(struct check *c, uint64_t id, int fresh, struct check_verdict *v)
{
	struct spread_page *page = (struct spread_page *)(void *)c->piece;
	uint64_t fence = c->cursors.fence, again, address = plan_fence_address(c->plan);
	int status = fresh ? check_read(c, address, &fence, sizeof(fence)) : 0;
	uint64_t epoch = fence_epoch(fence);

	if (status || !epoch)
		return status;
	status = check_read(c, 0, page, sizeof(*page));
	if (!status)
		status = check_read(c, address, &again, sizeof(again));
	if (status || fence_epoch(again) != epoch)
		return status;
	const struct spread_record *r = spread_page_record(page, epoch);
	uint64_t at = spread_record_offset(epoch);

	if (!spread_record_valid(r, epoch)) {
		VERDICT(v, SPREAD_RECORD, at, r->checksum,
			"the record of epoch %" PRIu64
			" is not whole: 'forge spread --set --force' "
			"forms it anew",
			epoch);
		return 0;
	}
	int member = spread_record_find(r, spread_page_member(page));
	uint32_t p = member >= 0 ? unowned(page, r, member) : SPREAD_PARTITIONS;

	if (p < SPREAD_PARTITIONS)
		VERDICT(v, SPREAD_OWNED, SPREAD_OWNED_OFFSET + p / 64 * 8,
			page->words[SPREAD_OWNED_OFFSET / 8 + p / 64],
			"partition %u is the node's, and it says that it has no values of it", p);
	return 0;
}
