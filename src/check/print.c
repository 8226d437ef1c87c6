/* print.c: the checker's findings and report for people, and the names for programs. */
#include <inttypes.h>
#include <stddef.h>

#include "base/text.h"
#include "check/check.h"

static const struct {
	const char *name, *sentence;
} rules[] = {
#define CHECK(name, sentence) {#name, sentence},
    CHECK_RULES(CHECK)
#undef CHECK
};

static const struct {
	const char *name, *sentence;
	size_t offset;
} counters[] = {
#define COUNTER(name, sentence) {#name, sentence, offsetof(struct check_report, name)},
    CHECK_COUNTERS(COUNTER)
#undef COUNTER
};

const char *check_rule_name(unsigned rule)
{
	return rule < ARRAY_COUNT(rules) ? rules[rule].name : NULL;
}

const char *check_rule_sentence(unsigned rule)
{
	return rule < ARRAY_COUNT(rules) ? rules[rule].sentence : NULL;
}

const char *check_counter_name(unsigned counter)
{
	return counter < ARRAY_COUNT(counters) ? counters[counter].name : NULL;
}

const char *check_counter_sentence(unsigned counter)
{
	return counter < ARRAY_COUNT(counters) ? counters[counter].sentence : NULL;
}

uint64_t check_counter(const struct check_report *r, unsigned counter)
{
	const char *at = (const char *)r + counters[counter].offset;

	assert(counter < ARRAY_COUNT(counters));
	return *(const uint64_t *)(const void *)at;
}

void check_print_finding(FILE *out, const struct check_finding *f)
{
	fprintf(out, "%s at %" PRIu64 ": %s\n", check_rule_name(f->rule), f->address, f->text);
}

static double share(uint64_t part, uint64_t whole)
{
	return whole ? (double)part / (double)whole : 0;
}

void check_print(FILE *out, const struct pool *pool, const struct check_report *r)
{
	const struct plan *p = &pool->plan;
	struct text a, b, c, d;

	fprintf(out,
		"chunks    %u: %" PRIu64 " free, %" PRIu64 " reserved, %" PRIu64 " open, %" PRIu64
		" queued (%" PRIu64 " small, %" PRIu64 " main), %" PRIu64 " evicting, %" PRIu64
		" parts, %" PRIu64 " invalid; %" PRIu64 " in transit\n",
		p->chunk_count, r->chunks_free, r->chunks_reserved, r->chunks_open,
		r->chunks_queued, r->groups_small, r->groups_main, r->chunks_evicting,
		r->chunks_part, r->chunks_invalid, r->chunks_in_transit);
	fprintf(out,
		"nodes     3 x %u: %" PRIu64 " full, %" PRIu64 " stale, %" PRIu64
		" passed, %" PRIu64 " unfilled, %" PRIu64 " left over, %" PRIu64 " empty, %" PRIu64
		" invalid\n",
		p->ring_nodes, r->nodes_full, r->nodes_stale, r->nodes_passed, r->nodes_unfilled,
		r->nodes_leftover, r->nodes_empty, r->nodes_invalid);
	fprintf(out,
		"slots     %" PRIu64 ": %" PRIu64 " live, %" PRIu64 " stale, %" PRIu64
		" empty, %" PRIu64 " tentative, %" PRIu64 " aliased, %" PRIu64 " invalid\n",
		r->slots, r->slots_live, r->slots_stale, r->slots_empty, r->slots_tentative,
		r->slots_aliased, r->slots_invalid);
	fprintf(out,
		"objects   %" PRIu64 " live, each verified (%s of those expected to fit), %" PRIu64
		" duplicates, %" PRIu64 " without a slot\n",
		r->slots_live, text_percent(&a, share(r->slots_live, r->objects_capacity)),
		r->duplicates, r->objects_dead);
	fprintf(out,
		"words     %" PRIu64 " of objects in the index: %" PRIu64 " stored less %" PRIu64
		" left, %" PRIu64 " unaccounted (at most %" PRIu64 ")\n",
		r->words, r->words_stored, r->words_left, r->words_unaccounted, r->words_tolerated);
	fprintf(out, "bytes     %s of chunks; %s of keys and values, %s\n",
		text_bytes(&a, r->capacity_bytes), text_bytes(&b, r->payload_bytes),
		text_percent(&c, share(r->payload_bytes, r->capacity_bytes)));
	fprintf(out, "sealed    %s, %s filled; %s, %s, are dead\n", text_bytes(&a, r->sealed_bytes),
		text_percent(&b, share(r->used_bytes, r->sealed_bytes)),
		text_bytes(&c, r->dead_bytes),
		text_percent(&d, share(r->dead_bytes, r->sealed_bytes)));
	fprintf(out,
		"attached  %" PRIu64 " compute node%s, and %" PRIu64
		" dead; OFM rows counted outside "
		"the window: %" PRIu64 "\n",
		r->cns_live, r->cns_live == 1 ? "" : "s", r->cns_dead, r->ofm_rows_counted);
	fprintf(out, "READ      %s; %" PRIu64 " things changed while being looked at\n",
		text_bytes(&a, r->read_bytes), r->unstable);
	for (unsigned i = 0; i < CHECK_RULE_COUNT; i++)
		if (r->found[i])
			fprintf(out, "violated  %s, %" PRIu64 " times: %s\n", rules[i].name,
				r->found[i], rules[i].sentence);
	if (!r->findings)
		fprintf(out, "clean     every rule holds\n");
}
