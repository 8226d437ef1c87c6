/* check.c: one run of the checker: superblock, cursors, and the frame for the rest. */
#include "check/check.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "base/hash.h"
#include "check/inside.h"

int check_read(struct check *c, uint64_t address, void *out, uint64_t bytes)
{
	uint8_t *at = out;

	c->out->read_bytes += bytes;
	while (bytes > 0) {
		uint32_t part = (uint32_t)min_u64(bytes, 8 * CHECK_PIECE_WORDS);
		struct fab_op op = fab_read(FAB_CONTROL, address, at, part);
		int status = flow_run(c->worker, &op, 1);

		if (status)
			return status;
		address += part;
		at += part;
		bytes -= part;
	}
	return 0;
}

void check_report_verdict(struct check *c, const struct check_verdict *v)
{
	struct check_finding finding = {.rule = v->rule, .address = v->address};

	memcpy(finding.text, v->text, sizeof(finding.text));
	c->out->findings++;
	c->out->found[v->rule]++;
	if (c->found)
		c->found(c->context, &finding);
}

int check_confirm(struct check *c, check_look_fn look, uint64_t id,
		  const struct check_verdict *first, int *reported)
{
	*reported = 0;
	for (unsigned i = 0; c->options->live && i < CHECK_LOOKS; i++) {
		struct check_verdict again = {.rule = CHECK_NONE};

		flow_pause(c->worker);
		int status = look(c, id, 1, &again);

		if (status)
			return status;
		if (again.rule != first->rule || again.seen != first->seen) {
			c->out->unstable++;
			return 0;
		}
	}
	check_report_verdict(c, first);
	*reported = 1;
	return 0;
}

int check_judge(struct check *c, check_look_fn look, uint64_t id)
{
	struct check_verdict first = {.rule = CHECK_NONE};
	int status = look(c, id, 0, &first), reported;

	if (status || first.rule == CHECK_NONE)
		return status;
	return check_confirm(c, look, id, &first, &reported);
}

static MAY_WAIT int look_superblock(struct check *c, uint64_t id, int fresh,
				    struct check_verdict *v)
{
	struct layout_superblock sb;
	int status = check_read(c, 0, &sb, sizeof(sb));

	if (status)
		return status;
	if (sb.magic != LAYOUT_MAGIC || sb.version != LAYOUT_VERSION ||
	    sb.fingerprint != layout_fingerprint())
		VERDICT(v, SUPERBLOCK, 0, sb.magic,
			"magic %016" PRIx64 ", version %u, fingerprint %016" PRIx64
			" are not those of this build",
			sb.magic, sb.version, sb.fingerprint);
	else if (sb.state != SUPERBLOCK_READY)
		VERDICT(v, SUPERBLOCK, 12, sb.state, "state is %u, not ready", sb.state);
	else if (sb.pool_id != c->pool->pool_id)
		VERDICT(v, SUPERBLOCK, 24, sb.pool_id,
			"pool id is %016" PRIx64 ", not %016" PRIx64 " as when it was opened",
			sb.pool_id, c->pool->pool_id);
	else if (sb.epoch < c->pool->epoch)
		VERDICT(v, SUPERBLOCK, 32, sb.epoch, "epoch %" PRIu64 " lies before %" PRIu64,
			sb.epoch, c->pool->epoch);
	else if (memcmp(&sb.plan, c->plan, sizeof(sb.plan)) != 0 ||
		 sb.plan_checksum != hash_checksum(0, &sb.plan, sizeof(sb.plan)))
		VERDICT(v, SUPERBLOCK, 48, sb.plan_checksum,
			"the plan or its checksum has changed since the pool was opened");
	return 0;
}

static MAY_WAIT int look_cursors(struct check *c, uint64_t ring, int fresh, struct check_verdict *v)
{
	uint64_t address = plan_head_address(c->plan, (uint32_t)ring);
	uint64_t cursor[2] = {c->cursors.ring[ring].head, c->cursors.ring[ring].tail};
	int status = fresh ? check_read(c, address, cursor, sizeof(cursor)) : 0;

	if (status)
		return status;
	uint64_t head = cursor[0], tail = cursor[1];

	if (head > tail && head - tail > c->plan->ring_nodes)
		VERDICT(v, CURSORS_ORDER, address, head,
			"head %" PRIu64 " is beyond tail %" PRIu64 " by more than a claim", head,
			tail);
	else if (head <= tail && tail - head > c->plan->ring_nodes)
		VERDICT(v, CURSORS_SPAN, address, head,
			"head %" PRIu64 " and tail %" PRIu64 " are more than %u nodes apart", head,
			tail, c->plan->ring_nodes);
	return 0;
}

static MAY_WAIT int read_all(struct check *c)
{
	const struct plan *p = c->plan;
	int status = check_read(c, p->registry_offset, c->lines,
				(uint64_t)p->cn_max * LAYOUT_REGISTRY_BYTES);

	if (!status)
		status =
		    check_read(c, p->chunk_table_offset, c->words, 8 * (uint64_t)p->chunk_count);
	for (unsigned r = 0; r < RING_COUNT && !status; r++)
		status = check_read(c, p->ring_offset[r], c->nodes[r], 8 * (uint64_t)p->ring_nodes);
	/* Last, so that whatever was READ has a ticket below these tails. */
	if (!status)
		status = check_read(c, p->cursors_offset, &c->cursors, sizeof(c->cursors));
	return status;
}

static int check_allocate(struct check *c)
{
	const struct plan *p = c->plan;
	int complete = 1;

	c->lines = calloc(p->cn_max, sizeof(*c->lines));
	c->words = calloc(p->chunk_count, sizeof(*c->words));
	c->piece = calloc(CHECK_PIECE_WORDS, sizeof(*c->piece));
	c->content.bytes = calloc(1, p->chunk_bytes);
	c->content.members = calloc(p->group_objects, sizeof(*c->content.members));
	c->content.live = calloc(p->group_objects, sizeof(*c->content.live));
	if (p->part_count_max > 0) {
		c->listed = calloc(p->chunk_count, 1);
		c->value = calloc(1, p->value_bytes_max);
		complete = c->listed && c->value;
	}
	for (unsigned r = 0; r < RING_COUNT; r++) {
		c->nodes[r] = calloc(p->ring_nodes, sizeof(*c->nodes[r]));
		complete = complete && c->nodes[r];
	}
	complete = complete && c->content.bytes && c->content.members && c->content.live;
	return complete && c->lines && c->words && c->piece ? 0 : FORGE_E_NO_MEMORY;
}

static void check_release(struct check *c)
{
	free(c->lines);
	free(c->words);
	free(c->piece);
	free(c->content.bytes);
	free(c->content.members);
	free(c->content.live);
	free(c->listed);
	free(c->value);
	free(c->slots);
	for (unsigned r = 0; r < RING_COUNT; r++)
		free(c->nodes[r]);
}

int check_pool(struct worker *w, const struct pool *pool, const struct check_options *options,
	       struct check_report *out, check_finding_fn found, void *context)
{
	const struct plan *p = &pool->plan;
	struct check c = {
	    .worker = w,
	    .pool = pool,
	    .plan = p,
	    .options = options,
	    .out = out,
	    .found = found,
	    .context = context,
	};
	struct check_counts before;
	char reason[128];

	*out = (struct check_report){
	    .slots = plan_slot_count(p),
	    .objects_capacity = plan_capacity_objects(p),
	    .capacity_bytes = (uint64_t)p->chunk_count * p->chunk_bytes,
	};
	if (plan_valid(p, reason, sizeof(reason)) ||
	    p->chunk_bytes < p->group_objects * TWIM_BYTES + LAYOUT_OBJECT_HEADER_BYTES)
		return FORGE_E_CORRUPT;
	int status = check_allocate(&c);

	if (!status)
		status = check_judge(&c, look_superblock, 0);
	if (!status)
		status = read_all(&c);
	if (!status && !options->metadata_only)
		status = check_judge(&c, check_look_spread, 0);
	for (unsigned r = 0; r < RING_COUNT && !status; r++)
		status = check_judge(&c, look_cursors, r);
	if (!status)
		status = check_rings(&c);
	if (!status && !options->metadata_only)
		status = check_counts_read(&c, &before);
	if (!status && !options->metadata_only)
		status = check_slots(&c);
	if (!status && !options->metadata_only)
		status = check_counts(&c, &before);
	check_release(&c);
	return status;
}
