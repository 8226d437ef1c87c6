/* spread.c: the transcript of spread.h. */
#include "pool/spread.h"

#include <string.h>

/* READs of a page while its fence moves. */
#define READ_TRIES_MAX 16u

/* Registry lines READ at once. */
#define LINES_AT_ONCE 16u

/* Did a compute node ever join?  Its line has its incarnation for good. */
static MAY_WAIT int find_out_whether_used(struct worker *w, const struct pool *pool, uint8_t *used)
{
	const struct plan *p = &pool->plan;
	struct layout_registry lines[LINES_AT_ONCE];
	int status = 0;

	*used = 0;
	for (uint32_t cn = 0; cn < p->cn_max && !status && !*used; cn += LINES_AT_ONCE) {
		uint32_t n = (uint32_t)min_u64(LINES_AT_ONCE, p->cn_max - cn);
		struct fab_op op = fab_read(FAB_CONTROL, plan_registry_address(p, cn), lines,
					    n * LAYOUT_REGISTRY_BYTES);

		status = flow_run(w, &op, 1);
		for (uint32_t i = 0; i < n && !status; i++)
			*used |= lines[i].id != 0;
	}
	return status;
}

static void judge(struct spread_view *v)
{
	v->epoch = fence_epoch(v->fence);
	v->claim = v->page.words[SPREAD_CLAIM_OFFSET / 8];
	if (!v->epoch)
		return;
	v->record = spread_page_record(&v->page, v->epoch);
	v->is_damaged = !spread_record_valid(v->record, v->epoch);
	if (v->is_damaged)
		v->record = NULL;
	else if (spread_record_find(v->record, spread_page_member(&v->page)) >= 0)
		v->member = spread_page_member(&v->page);
}

int spread_read(struct worker *w, const struct pool *pool, struct spread_view *out)
{
	uint64_t address = plan_fence_address(&pool->plan), before;

	*out = (struct spread_view){0};
	/* Before the fence: who joins as a member does so after it was raised. */
	int status = find_out_whether_used(w, pool, &out->was_used);

	for (unsigned i = 0; i < READ_TRIES_MAX && !status; i++) {
		struct fab_op ops[] = {
		    fab_read(FAB_CONTROL, address, &before, 8),
		    fab_read(FAB_CONTROL, 0, &out->page, sizeof(out->page)),
		    fab_read(FAB_CONTROL, address, &out->fence, 8),
		};

		status = flow_run(w, ops, ARRAY_COUNT(ops));
		if (status || fence_epoch(before) != fence_epoch(out->fence))
			continue;
		judge(out);
		return 0;
	}
	return status ? status : FORGE_E_AGAIN;
}

static MAY_WAIT int set_from_zero(struct worker *w, uint64_t offset, const uint64_t *words,
				  uint32_t count)
{
	int status = 0;

	for (uint32_t i = 0; i < count && !status; i++) {
		struct fab_op op = fab_cas(FAB_CONTROL, offset + 8 * (uint64_t)i, 0, words[i]);

		status = words[i] ? flow_run(w, &op, 1) : 0;
	}
	return status;
}

static void shares_of(const struct spread_record *r, uint64_t member,
		      uint64_t shares[SPREAD_OWNED_WORDS])
{
	uint8_t table[SPREAD_PARTITIONS];
	int mine = r ? spread_record_find(r, member) : -1;

	memset(shares, 0, 8 * SPREAD_OWNED_WORDS);
	if (mine < 0)
		return;
	spread_table(r, table);
	for (uint32_t p = 0; p < SPREAD_PARTITIONS; p++)
		if (table[p] == mine)
			shares[p / 64] |= UINT64_C(1) << (p % 64);
}

/* The commit of a node: its epoch, and perhaps a flush, in one step. */
static MAY_WAIT int raise_fence(struct worker *w, const struct pool *pool, uint64_t epoch,
				int must_flush)
{
	uint64_t address = plan_fence_address(&pool->plan), fence;
	struct fab_op op = fab_read(FAB_CONTROL, address, &fence, 8);
	int status = flow_run(w, &op, 1);

	/* It fails only when somebody flushed at once, or raised it. */
	while (!status && fence_epoch(fence) < epoch) {
		op = fab_cas(FAB_CONTROL, address, fence,
			     fence_pack(epoch, fence_generation(fence) + (must_flush != 0)));
		status = flow_run(w, &op, 1);
		if (status || fab_cas_won(&op))
			break;
		fence = op.old;
	}
	return status;
}

int spread_join(struct worker *w, const struct pool *pool, const struct spread_record *r,
		uint64_t member, struct spread_view *after)
{
	uint64_t owned[SPREAD_OWNED_WORDS];

	shares_of(r, member, owned);
	int status = set_from_zero(w, SPREAD_OWNED_OFFSET, owned, SPREAD_OWNED_WORDS);

	if (!status)
		status = set_from_zero(w, spread_record_offset(r->epoch), (const uint64_t *)r,
				       spread_record_bytes(r) / 8);
	if (!status)
		status = set_from_zero(
		    w, spread_record_offset(r->epoch) + offsetof(struct spread_record, names),
		    (const uint64_t *)(const void *)r->names, r->names_bytes / 8);
	if (!status)
		status = set_from_zero(w, SPREAD_MEMBER_OFFSET, &member, 1);
	if (!status)
		status = raise_fence(w, pool, r->epoch, 1);
	if (!status)
		status = spread_read(w, pool, after);
	if (!status && (after->epoch != r->epoch || !after->record || after->member != member ||
			!spread_record_same(after->record, r)))
		status = FORGE_E_AGAIN;
	return status;
}

int spread_claim(struct worker *w, uint64_t token, uint64_t over)
{
	struct fab_op op = fab_cas(FAB_CONTROL, SPREAD_CLAIM_OFFSET, over, token);
	int status = flow_run(w, &op, 1);

	return status ? status : fab_cas_won(&op) ? 0 : FORGE_E_AGAIN;
}

int spread_unclaim(struct worker *w, uint64_t token)
{
	struct fab_op op = fab_cas(FAB_CONTROL, SPREAD_CLAIM_OFFSET, token, 0);

	return flow_run(w, &op, 1);
}

void spread_plan(const struct spread_view *v, const struct spread_record *before,
		 const struct spread_record *next, uint64_t member, int keeps,
		 struct spread_step *out)
{
	const uint64_t *owned = &v->page.words[SPREAD_OWNED_OFFSET / 8];
	uint64_t had[SPREAD_OWNED_WORDS], gets[SPREAD_OWNED_WORDS];
	/* One of another epoch missed a change: nothing is known of what it has. */
	int was_member =
	    before && v->epoch == before->epoch && spread_record_find(before, member) >= 0;
	int was_alone = !v->epoch && keeps;

	*out = (struct spread_step){.member = member};
	shares_of(before, member, had);
	shares_of(next, member, gets);
	out->must_flush = !was_member && !was_alone;
	for (uint32_t i = 0; i < SPREAD_OWNED_WORDS; i++) {
		/* A cache of its own had every key, and has them still. */
		uint64_t here = was_alone ? UINT64_MAX : owned[i];

		out->must_flush |= !was_alone && (gets[i] & ~had[i] & here) != 0;
		out->owned[i] = here | gets[i];
	}
	if (out->must_flush)
		memcpy(out->owned, gets, sizeof(gets));
}

int spread_prepare(struct worker *w, const struct spread_view *v, const struct spread_record *next,
		   const struct spread_step *step)
{
	uint64_t both[SPREAD_OWNED_WORDS];

	for (uint32_t i = 0; i < SPREAD_OWNED_WORDS; i++)
		both[i] = v->page.words[SPREAD_OWNED_OFFSET / 8 + i] | step->owned[i];
	struct fab_op ops[] = {
	    fab_write(FAB_CONTROL, SPREAD_OWNED_OFFSET, both, sizeof(both)),
	    fab_write(FAB_CONTROL, spread_record_offset(next->epoch), next,
		      spread_record_bytes(next)),
	    fab_write(FAB_CONTROL,
		      spread_record_offset(next->epoch) + offsetof(struct spread_record, names),
		      next->names, next->names_bytes),
	    fab_write(FAB_CONTROL, SPREAD_MEMBER_OFFSET, &step->member, 8),
	};

	return flow_run(w, ops, ARRAY_COUNT(ops));
}

int spread_commit(struct worker *w, const struct pool *pool, uint64_t epoch,
		  const struct spread_step *step)
{
	struct fab_op op =
	    fab_write(FAB_CONTROL, SPREAD_OWNED_OFFSET, step->owned, sizeof(step->owned));
	int status = raise_fence(w, pool, epoch, step->must_flush);

	/* What was here before the flush is over for everybody who comes. */
	return status || !step->must_flush ? status : flow_run(w, &op, 1);
}
