/* pool.c: formatting and opening an export. */
#include "pool/pool.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/hash.h"

/* Words written by one verb while formatting. */
#define FORMAT_WORDS 4096u

static int write_words(struct worker *w, uint64_t raddr, const uint64_t *words, uint64_t count)
{
	struct fab_op op = fab_write(FAB_CONTROL, raddr, words, (uint32_t)(8 * count));

	return flow_run(w, &op, 1);
}

/* Write n words that word_of() computes from their index. */
static int fill_words(struct worker *w, uint64_t *buffer, uint64_t raddr, uint64_t n,
		      uint64_t (*word_of)(uint64_t index))
{
	for (uint64_t done = 0; done < n;) {
		uint64_t part = min_u64(n - done, FORMAT_WORDS);

		for (uint64_t i = 0; i < part; i++)
			buffer[i] = word_of(done + i);
		int status = write_words(w, raddr + 8 * done, buffer, part);

		if (status)
			return status;
		done += part;
	}
	return 0;
}

static uint64_t word_zero(uint64_t index)
{
	return 0;
}

/* Generations start at 1, so that no word of a real object is made of zeroes. */
static uint64_t word_chunk_free(uint64_t index)
{
	return chunk_pack_free(1, index);
}

static uint64_t word_node_free(uint64_t index)
{
	return node_pack_full(0, (uint32_t)index, 1, 1, 0);
}

struct layout_superblock pool_unmade(void)
{
	return (struct layout_superblock){
	    .magic = LAYOUT_MAGIC,
	    .version = LAYOUT_VERSION,
	    .state = SUPERBLOCK_FORMATTING,
	    .fingerprint = layout_fingerprint(),
	};
}

bool pool_is_unmade(const struct layout_superblock *sb)
{
	return sb->magic == LAYOUT_MAGIC && sb->state == SUPERBLOCK_FORMATTING && sb->pool_id == 0;
}

static int format_with_buffer(struct worker *w, const struct plan *plan, uint64_t pool_id,
			      const struct layout_time *time, uint64_t *buffer)
{
	struct layout_superblock sb = pool_unmade();
	struct layout_cursors cursors = {0};

	sb.epoch = 1;
	sb.plan_checksum = hash_checksum(0, plan, sizeof(*plan));
	sb.plan = *plan;
	sb.time = *time;
	struct fab_op op = fab_write(FAB_CONTROL, 0, &sb, sizeof(sb));
	int status = flow_run(w, &op, 1);

	if (status)
		return status;
	status = fill_words(w, buffer, LAYOUT_SUPERBLOCK_BYTES,
			    (plan->chunks_offset - LAYOUT_SUPERBLOCK_BYTES) / 8, word_zero);
	if (status)
		return status;
	status =
	    fill_words(w, buffer, plan->chunk_table_offset, plan->chunk_count, word_chunk_free);
	if (status)
		return status;
	status =
	    fill_words(w, buffer, plan->ring_offset[RING_FREE], plan->chunk_count, word_node_free);
	if (status)
		return status;
	cursors.ring[RING_FREE].tail = plan->chunk_count;
	sb.state = SUPERBLOCK_READY;
	sb.pool_id = pool_id;
	struct fab_op last[] = {
	    fab_write(FAB_CONTROL, plan->cursors_offset, &cursors, sizeof(cursors)),
	    fab_write(FAB_CONTROL, 0, &sb, sizeof(sb)),
	};

	return flow_run(w, last, 2);
}

int pool_format(struct worker *w, const struct plan *plan, uint64_t pool_id)
{
	return pool_format_timed(w, plan, pool_id, &(struct layout_time){0});
}

int pool_format_timed(struct worker *w, const struct plan *plan, uint64_t pool_id,
		      const struct layout_time *time)
{
	if (fab_caps(w->fab)->export_bytes < plan->pool_bytes)
		return FORGE_E_BOUNDS;
	uint64_t *buffer = malloc(8 * FORMAT_WORDS);

	if (!buffer)
		return FORGE_E_NO_MEMORY;
	int status = fab_reg(w->fab, buffer, 8 * FORMAT_WORDS);

	if (!status)
		status = format_with_buffer(w, plan, pool_id, time, buffer);
	free(buffer);
	return status;
}

#define REFUSE(status, ...) (snprintf(error_text, error_bytes, __VA_ARGS__), (status))

/* The pool may be one of several memory nodes': the others' have nothing to do with it. */
#define REPLACE                                                                                \
	"replace it by an empty one, on its host by 'forge node --size SIZE --force', and no " \
	"other"

int pool_open(struct worker *w, struct pool *out, char *error_text, size_t error_bytes)
{
	uint64_t export_bytes = fab_caps(w->fab)->export_bytes;
	struct layout_superblock sb;
	char reason[128];

	if (export_bytes < LAYOUT_SUPERBLOCK_BYTES)
		return REFUSE(FORGE_E_NOT_A_POOL,
			      "the export has %" PRIu64
			      " bytes, fewer than a superblock; it is not "
			      "a pool: format one with `forge node`",
			      export_bytes);
	struct fab_op op = fab_read(FAB_CONTROL, 0, &sb, sizeof(sb));
	int status = flow_run(w, &op, 1);

	if (status)
		return REFUSE(status, "reading the superblock: %s", status_sentence(status));
	if (sb.magic != LAYOUT_MAGIC)
		return REFUSE(
		    FORGE_E_NOT_A_POOL,
		    "the magic is %016" PRIx64 ", not %016" PRIx64
		    "; it is not a FORGE pool: check the name, or format with `forge node`",
		    sb.magic, (uint64_t)LAYOUT_MAGIC);
	if (sb.version != LAYOUT_VERSION)
		return REFUSE(FORGE_E_LAYOUT,
			      "the pool has layout version %u, this build understands %u: use the "
			      "build that made it, or " REPLACE,
			      sb.version, LAYOUT_VERSION);
	if (sb.fingerprint != layout_fingerprint())
		return REFUSE(FORGE_E_LAYOUT,
			      "the pool has layout fingerprint %016" PRIx64
			      ", this build has %016" PRIx64
			      ": use the build that made it, or " REPLACE,
			      sb.fingerprint, layout_fingerprint());
	if (sb.state != SUPERBLOCK_READY)
		return REFUSE(FORGE_E_NOT_A_POOL,
			      "its memory node is making the pool, or was killed at that (state "
			      "%u): wait until it says 'ready'; if none is making it, 'forge node' "
			      "with --size does",
			      sb.state);
	if (sb.plan_checksum != hash_checksum(0, &sb.plan, sizeof(sb.plan)))
		return REFUSE(FORGE_E_CORRUPT,
			      "the plan in the superblock fails its checksum: " REPLACE);
	status = plan_valid(&sb.plan, reason, sizeof(reason));
	if (status)
		return REFUSE(status, "%s: " REPLACE, reason);
	if (export_bytes < sb.plan.pool_bytes)
		return REFUSE(FORGE_E_POOL_TRUNCATED,
			      "the export has %" PRIu64 " bytes, the plan says %" PRIu64
			      "; the file was cut: " REPLACE,
			      export_bytes, sb.plan.pool_bytes);
	*out = (struct pool){
	    .plan = sb.plan,
	    .pool_id = sb.pool_id,
	    .epoch = sb.epoch,
	    .time_base_ms = sb.time.base_ms,
	    .boot = sb.time.boot,
	};
	return 0;
}

#undef REPLACE
#undef REFUSE
