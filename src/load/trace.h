/*
 * trace.h: recorded request streams, record by record.
 *
 * For replay, simulation and tests.  A trace file is input from outside: whatever it holds,
 * the readers end with a record, the end, or an error that names the file, the record and
 * the remedy.  Memory does not grow with the length of the trace.  One trace, one thread.
 *
 *	FORMAT		EXTENSIONS			RECORD
 *	oracleGeneral	.oracleGeneral(.bin)		little-endian, packed: u32 time, u64 id,
 *							u32 size, i64 next access (-1: none)
 *	u32, u64	.u32 .u64			little-endian id; sizes may lie in a file
 *							of their own: u32 each, in the same order
 *	be32, be64	.be32 .be64			big-endian id, else the same
 *	csv		.csv				a line of text, see trace_csv.c
 *
 * Any of them may be packed with zstd, xz or gzip; that is told by the first bytes, and the
 * format by the extension before .zst, .xz or .gz, unless it is given by name.
 */
#ifndef FORGE_LOAD_TRACE_H
#define FORGE_LOAD_TRACE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "load/load_error.h"
#include "load/workload.h"

struct trace;

#define TRACE_NEVER_AGAIN  INT64_C(-1)
#define TRACE_NEXT_UNKNOWN INT64_MIN

struct trace_record {
	uint64_t time; /* in the trace's own unit; 0 when it has none */
	uint64_t id;
	uint64_t size;	     /* bytes; 0 when the trace has none */
	int64_t next_access; /* the number of the id's next request, or one of the two above */
	/*
	 * 0, or for an id that is a hash of a text, bits of another hash of it: two records with
	 * one id and different checks are a collision.
	 */
	uint32_t check;
	enum load_op_kind op; /* LOAD_GET when the trace names none */
};

enum trace_header {
	TRACE_HEADER_AUTO, /* the first line is one if it has names where numbers belong */
	TRACE_HEADER_YES,
	TRACE_HEADER_NO,
};

/* All zero: everything is found out from the file.  Texts are borrowed until trace_file_close(). */
struct trace_options {
	const char *format;	 /* a name of the table above */
	const char *sizes_path;	 /* for bare ids; NULL: no sizes */
	const char *csv_columns; /* e.g. "time,key,size,op"; "-" is a column to ignore */
	char csv_delimiter;	 /* 0: a comma */
	enum trace_header csv_header;
	bool as_it_is;	       /* do not decompress */
	uint64_t requests_max; /* stop after so many; 0: all */
};

/* 0; FORGE_E_SYSTEM, FORGE_E_INVAL, FORGE_E_FORMAT, FORGE_E_TRUNCATED or FORGE_E_NO_MEMORY. */
int trace_file_open(struct trace **, const char *path, const struct trace_options *,
		    struct load_error *);

#define TRACE_RECORD 1
#define TRACE_END    0

/* TRACE_RECORD with *record written, TRACE_END, or an error, which then stays. */
int trace_file_next(struct trace *, struct trace_record *record, struct load_error *);

/* From the first record again, also after an error. */
int trace_file_rewind(struct trace *, struct load_error *);

void trace_file_close(struct trace *);

const char *trace_format(const struct trace *);	     /* its name in the table above */
const char *trace_compression(const struct trace *); /* "", "zstd", "xz" or "gzip" */
bool trace_has_sizes(const struct trace *);
bool trace_has_ops(const struct trace *);

/*
 * The sizes file that lies beside a file of ids, as NAME.sz.zst beside NAME.u32.zst: true with
 * its path written if there is one.
 */
bool trace_sizes_beside(const char *path, char *sizes_path, size_t sizes_path_bytes);

/* What a trace asks for, over all its requests. */
struct trace_footprint {
	uint64_t requests;
	uint64_t distinct;	/* ids */
	uint64_t bytes;		/* of the distinct ids, each at its first size */
	uint64_t request_bytes; /* of all requests */
	uint64_t size_max;
	uint64_t ops[LOAD_OP_KINDS];
	uint64_t collisions; /* requests whose id is the hash of a different text as well */
};

/* Read the whole trace once.  Memory grows with the distinct ids (about 30 bytes each). */
int trace_footprint(const char *path, const struct trace_options *, struct trace_footprint *,
		    struct load_error *);

/*
 * A whole trace in memory, for replay by several processes: one mapping which forked children
 * share.  Read-only for everyone but trace_load().
 */
struct trace_data {
	uint64_t count;
	uint32_t distinct;
	const uint32_t *ids;   /* count of them: dense, in order of first appearance */
	const uint32_t *sizes; /* count of them, or NULL; larger ones are UINT32_MAX */
	const uint8_t *ops;    /* enum load_op_kind, count of them; or NULL: all are Gets */
	const uint64_t *keys;  /* distinct of them: the trace's id of a dense id */
	struct trace_footprint footprint;
	void *map;
	uint64_t map_bytes;
};

/* As trace_footprint(), and FORGE_E_FORMAT for a trace without a request. */
int trace_load(struct trace_data *, const char *path, const struct trace_options *,
	       struct load_error *);

void trace_unload(struct trace_data *);

#endif
