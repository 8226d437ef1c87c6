/*
 * trace_reader.h: what a trace format has to provide.
 *
 * Private to trace.c and the trace_*.c formats.  A format is one file which fills one const
 * struct trace_reader and is listed in trace.c.  Its state lies in the struct trace, which
 * trace.c owns; it reads through trace_input.h.
 */
#ifndef FORGE_LOAD_TRACE_READER_H
#define FORGE_LOAD_TRACE_READER_H

#include "load/trace.h"
#include "load/trace_input.h"

struct trace_csv;

struct trace_reader {
	const char *name;
	const char *extensions; /* with dots, separated by blanks */
	unsigned record_bytes;	/* 0 for text */
	bool has_sizes;
	bool takes_sizes_file;
	/* NULL where there is nothing to do.  close also after a failed open. */
	int (*open)(struct trace *, struct load_error *);
	void (*close)(struct trace *);
	int (*rewind)(struct trace *, struct load_error *);
	/* The record is zeroed, with next_access unknown.  As trace_file_next(). */
	int (*next)(struct trace *, struct trace_record *, struct load_error *);
};

struct trace {
	const struct trace_reader *reader;
	struct trace_options options;
	char *path;
	struct trace_input *input;
	struct trace_input *sizes; /* bare ids only */
	struct trace_csv *csv;
	uint64_t number; /* of the record (csv: line) that is next or being read, from 1 */
	uint64_t handed_out;
	int failed; /* the error that stays */
	struct load_error error;
};

extern const struct trace_reader trace_reader_oracle_general;
extern const struct trace_reader trace_reader_u32;
extern const struct trace_reader trace_reader_u64;
extern const struct trace_reader trace_reader_be32;
extern const struct trace_reader trace_reader_be64;
extern const struct trace_reader trace_reader_csv;

/*
 * One binary record of reader->record_bytes: TRACE_RECORD with *bytes pointing at it and it
 * taken, TRACE_END, or an error.
 */
int trace_binary_next(struct trace *, const unsigned char **bytes, struct load_error *);

bool trace_csv_has_sizes(const struct trace_csv *);
bool trace_csv_has_ops(const struct trace_csv *);

#endif
