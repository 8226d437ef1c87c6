/* trace_oracle.c: libCacheSim's oracleGeneral records. */
#include "load/trace_reader.h"

#include <endian.h>
#include <string.h>

struct oracle_record {
	uint32_t time;
	uint64_t id;
	uint32_t size;
	int64_t next_access;
} __attribute__((packed));

_Static_assert(sizeof(struct oracle_record) == 24, "the format's record has 24 bytes");

static int next(struct trace *t, struct trace_record *record, struct load_error *error)
{
	struct oracle_record o;
	const unsigned char *bytes;
	int result = trace_binary_next(t, &bytes, error);

	if (result != TRACE_RECORD)
		return result;
	memcpy(&o, bytes, sizeof(o));
	record->time = le32toh(o.time);
	record->id = le64toh(o.id);
	record->size = le32toh(o.size);
	record->next_access = (int64_t)le64toh((uint64_t)o.next_access);
	/* Some writers mark "never again" with the largest number. */
	if (record->next_access < 0 || record->next_access == INT64_MAX)
		record->next_access = TRACE_NEVER_AGAIN;
	return TRACE_RECORD;
}

const struct trace_reader trace_reader_oracle_general = {
    .name = "oracleGeneral",
    .extensions = ".oracleGeneral .oracleGeneral.bin",
    .record_bytes = sizeof(struct oracle_record),
    .has_sizes = true,
    .next = next,
};
