/*
 * trial_hits.c: the oracle of hotness: where each hit has gone.
 *
 * In a compute node: what was counted or carried is flushed, capped, forgotten or still there; with
 * one thread at a time that holds exactly.  In the pool: each verb on the rows is watched.  An FAA
 * must raise the sum of a word's counters by the sum of what it adds, or a counter was carried into
 * the next one.  What is cleared was READ before by the node that clears it, or came too late.
 */
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "vtime/trial_inside.h"

static uint64_t sum_of(uint64_t word)
{
	uint64_t sum = 0;

	for (; word; word >>= 8)
		sum += word & 0xff;
	return sum;
}

static uint64_t row_word(const struct trial *t, uint32_t i)
{
	uint64_t word;

	memcpy(&word, (const uint8_t *)vt_node_memory(t->world, 0) + t->rows.from + 8 * i, 8);
	return word;
}

static uint64_t sum_of_rows(const struct trial *t)
{
	uint64_t sum = 0;

	for (uint32_t i = 0; i < t->rows.words; i++)
		sum += sum_of(row_word(t, i));
	return sum;
}

static void look(struct trial *t, uint32_t machine, const struct fab_op *op, uint32_t i)
{
	uint64_t *known = &t->rows.known[(uint64_t)machine * t->rows.words + i];
	uint64_t before = t->rows.before[i], now = row_word(t, i);
	uint64_t had = sum_of(before), has = sum_of(now);
	struct trial_hits *h = &t->result->hits;

	if (op->code == FAB_READ) {
		*known = now;
	} else if (op->code == FAB_FAA) {
		if (now == before)
			return; /* its connection was cut */
		if (has != had + sum_of(op->arg))
			trial_fail(t,
				   "a counter of a row was carried into the next: %016" PRIx64
				   " and %016" PRIx64 " make %016" PRIx64,
				   before, op->arg, now);
		h->landed += sum_of(op->arg);
	} else if (has < had) {
		uint64_t read = min_u64(sum_of(*known), had - has);

		h->used += read;
		h->late += had - has - read;
		*known = now;
	}
}

static void watch(void *context, uint32_t machine, const struct fab_op *op, bool after)
{
	struct trial *t = context;
	struct trial_rows *r = &t->rows;
	uint64_t from = max_u64(op->raddr, r->from), to = min_u64(op->raddr + op->len, r->to);

	for (uint64_t at = from & ~UINT64_C(7); at < to; at += 8) {
		uint32_t i = (uint32_t)((at - r->from) / 8);

		if (after)
			look(t, machine, op, i);
		else
			r->before[i] = row_word(t, i);
	}
}

int trial_watch_rows(struct trial *t, uint32_t machines)
{
	struct trial_rows *r = &t->rows;

	r->from = t->plan.ofm_offset[0];
	r->to = t->plan.registry_offset;
	r->words = (uint32_t)((r->to - r->from) / 8);
	r->before = calloc(r->words, sizeof(*r->before));
	r->known = calloc((size_t)machines * r->words, sizeof(*r->known));
	if (!r->before || !r->known)
		return FORGE_E_NO_MEMORY;
	vt_world_watch(t->world, watch, t);
	return 0;
}

void trial_wipe_rows(struct trial *t)
{
	t->result->hits.wiped += sum_of_rows(t);
}

/* One node's: a struct cn and all its sessions. */
static void judge_node(struct trial *t, const struct trial_process *p, uint64_t *flushed_by_lost)
{
	struct trial_hits *h = &t->result->hits;
	uint64_t counted = 0, flushed = 0, capped = 0, judged = 0, kept = 0;
	uint64_t carried = atomic_load(&p->cn.hits_carried);
	uint64_t forgotten = atomic_load(&p->cn.hits_forgotten);

	for (uint32_t i = 0; i < t->shape.threads; i++) {
		const struct cache_counters *c = &p->sessions[i].cache.count;

		if (!p->sessions[i].ready)
			continue;
		h->found += c->hits;
		counted += c->hits_counted;
		flushed += c->hits_flushed;
		capped += c->hits_capped;
		judged += c->hits_judged;
	}
	for (uint32_t chunk = 0; chunk < t->plan.chunk_count; chunk++)
		for (uint32_t sn = 0; sn < t->plan.ofm_row_bytes; sn++)
			kept += cn_count(&p->cn, chunk, sn);
	if (counted + carried != flushed + capped + forgotten + kept)
		trial_fail(t,
			   "machine %" PRIu32 " counted %" PRIu64 " hits and carried %" PRIu64
			   ", but flushed %" PRIu64 ", capped %" PRIu64 ", forgot %" PRIu64
			   " and has %" PRIu64,
			   p->machine, counted, carried, flushed, capped, forgotten, kept);
	judged = min_u64(judged, forgotten);
	h->counted += counted;
	h->carried += carried;
	h->flushed += flushed;
	h->capped += capped;
	h->judged += judged;
	h->forgotten += forgotten - judged;
	h->kept += kept;
	*flushed_by_lost += p->lost ? flushed : 0;
}

void trial_judge_hits(struct trial *t)
{
	struct trial_hits *h = &t->result->hits;
	uint64_t flushed_by_lost = 0;

	h->left = sum_of_rows(t);
	for (uint32_t i = 0; i < t->process_count; i++)
		if (t->processes[i]->has_cn)
			judge_node(t, t->processes[i], &flushed_by_lost);
	if (h->landed > h->flushed || h->landed + flushed_by_lost < h->flushed)
		trial_fail(t,
			   "%" PRIu64 " hits were flushed, %" PRIu64
			   " of them by nodes that were lost, and %" PRIu64 " landed",
			   h->flushed, flushed_by_lost, h->landed);
	if (h->landed != h->used + h->late + h->wiped + h->left)
		trial_fail(t,
			   "%" PRIu64 " hits landed in rows, but %" PRIu64 " were READ, %" PRIu64
			   " cleared late, %" PRIu64 " wiped, and %" PRIu64 " are there",
			   h->landed, h->used, h->late, h->wiped, h->left);
}
