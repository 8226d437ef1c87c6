/* mend.c: what each rule's violation asks for, and the rounds. */
#include "check/mend.h"

#include <stdlib.h>
#include <string.h>

#include "layout/stats.h"

struct mend {
	struct worker *worker;
	const struct pool *pool;
	struct rebuild_report *report;
	uint64_t *slots; /* addresses of slots to clear */
	uint64_t slot_count, slot_room;
	uint8_t *condemned; /* [chunk_count] */
	uint8_t rebuild;
	uint8_t sums_only; /* nothing but the sums is wrong */
	uint8_t no_memory;
	uint8_t hopeless; /* the superblock itself */
};

static void remember_slot(struct mend *m, uint64_t address)
{
	if (m->slot_count == m->slot_room) {
		uint64_t room = m->slot_room ? 2 * m->slot_room : 256;
		uint64_t *more = realloc(m->slots, room * sizeof(*more));

		if (!more) {
			m->no_memory = 1;
			return;
		}
		m->slots = more;
		m->slot_room = room;
	}
	m->slots[m->slot_count++] = address;
}

static void condemn(struct mend *m, uint32_t chunk)
{
	m->rebuild = 1;
	if (chunk < m->pool->plan.chunk_count)
		m->condemned[chunk] = 1;
}

/* Every slot that looks live by accident is beyond telling: all words go. */
static void remember_all_slots(struct mend *m)
{
	const struct plan *p = &m->pool->plan;

	for (uint64_t slot = 0; slot < plan_slot_count(p); slot++)
		remember_slot(m, plan_slot_address(p, slot));
}

static void on_finding(void *context, const struct check_finding *f)
{
	struct mend *m = context;
	const struct plan *p = &m->pool->plan;

	if (f->rule != CHECK_STATS_SUM)
		m->sums_only = 0;
	switch (f->rule) {
	case CHECK_SUPERBLOCK:
		m->hopeless = 1;
		break;
	case CHECK_SLOT_WORD:
	case CHECK_SLOT_TENTATIVE:
	case CHECK_SLOT_POINTER:
	case CHECK_SLOT_CHUNK:
	case CHECK_SLOT_NEWER:
	case CHECK_SLOT_OBJECT:
	case CHECK_SLOT_KEY:
	case CHECK_SLOT_TWIM:
	case CHECK_OBJECT_DUPLICATE:
	case CHECK_PART_LIST:
	case CHECK_PART_VALUE:
		remember_slot(m, f->address);
		break;
	case CHECK_SLOT_ALIASES:
		remember_all_slots(m);
		break;
	case CHECK_OBJECT_SN:
	case CHECK_TWIM_ENTRY:
	case CHECK_TWIM_OBJECT:
		condemn(m, plan_chunk_of_pointer(p, f->address / LAYOUT_UNIT_BYTES));
		break;
	case CHECK_CHUNK_GENERATION:
	case CHECK_PART_CHUNK:
	case CHECK_PART_SHARED:
	case CHECK_PART_UNLISTED:
	case CHECK_CHUNK_RESIDENTS:
		condemn(m, (uint32_t)((f->address - p->chunk_table_offset) / 8));
		break;
	case CHECK_STATS_SUM:
		break;
	default:
		m->rebuild = 1;
	}
}

/* What nobody counted was stored, or lost, by somebody who is gone. */
static MAY_WAIT int correct_sums(struct mend *m, const struct check_report *r)
{
	uint64_t present = r->words_stored - r->words_left;
	int too_many = (int64_t)(present - r->words) > 0;

	m->report->sums_corrected += r->words_unaccounted;
	return rebuild_count(m->pool, m->worker, too_many ? STATS_lost : STATS_stored,
			     r->words_unaccounted);
}

static MAY_WAIT int act(struct mend *m, const struct check_report *r)
{
	int status = 0;

	if (m->no_memory)
		return FORGE_E_NO_MEMORY;
	if (m->hopeless)
		return FORGE_E_CORRUPT;
	for (uint64_t i = 0; i < m->slot_count && !status; i++)
		status = rebuild_clear_slot(m->pool, m->worker, m->slots[i], m->report);
	if (!status && m->rebuild)
		status = rebuild_pool(m->pool, m->worker, m->condemned, m->report);
	if (!status && m->sums_only)
		status = correct_sums(m, r);
	return status;
}

static MAY_WAIT int mend_rounds(struct mend *m, struct check_report *after)
{
	static const struct check_options at_rest;
	int status = 0;

	for (unsigned round = 0; round <= MEND_ROUNDS_MAX && !status; round++) {
		m->slot_count = 0;
		m->rebuild = 0;
		m->sums_only = 1;
		memset(m->condemned, 0, m->pool->plan.chunk_count);
		status = check_pool(m->worker, m->pool, &at_rest, after, on_finding, m);
		if (status || after->findings == 0)
			return status;
		status = round < MEND_ROUNDS_MAX ? act(m, after) : FORGE_E_CORRUPT;
	}
	return status;
}

int mend_pool(struct worker *w, const struct pool *pool, struct rebuild_report *report,
	      struct check_report *after)
{
	struct mend m = {.worker = w, .pool = pool, .report = report};
	int status = FORGE_E_NO_MEMORY;

	m.condemned = calloc(pool->plan.chunk_count, 1);
	if (m.condemned)
		status = mend_rounds(&m, after);
	free(m.condemned);
	free(m.slots);
	return status;
}

static void keep_first(void *context, const struct check_finding *f)
{
	struct check_finding *first = context;

	/* What is in the name of nobody recovery takes back. */
	if (!first->text[0] && f->rule != CHECK_CHUNK_OWNER)
		*first = *f;
}

int mend_is_needed(struct worker *w, const struct pool *pool, struct check_finding *first)
{
	/* What the dead left half done is recovery's business, and no damage. */
	static const struct check_options options = {
	    .metadata_only = 1,
	    .crashed = 1,
	    .dead_cns = {UINT64_MAX, UINT64_MAX},
	};
	struct check_report report;

	*first = (struct check_finding){.text = ""};
	int status = check_pool(w, pool, &options, &report, keep_first, first);

	return status ? status : first->text[0] ? FORGE_E_CORRUPT : 0;
}
