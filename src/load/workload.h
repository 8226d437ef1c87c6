/*
 * workload.h: synthetic loads: what to ask for next.
 *
 * A workload_spec is parsed once from a text such as "ycsb-a" or "zipf:0.9,keys=1M" and then
 * only read, from any thread and any forked process.  Each thread has its own struct workload,
 * a place in a logical stream: it draws independently of the others, with its own seed.  What
 * they must share, the number of keys that exist, is one atomic word which the caller provides
 * (in shared memory when processes share the load).  No I/O, no clock; the same spec, stream
 * and values of that word give the same operations.
 *
 * TEXT: FAMILY[:OPTION,OPTION...]
 *
 *	FAMILY		KEYS				OPERATIONS
 *	ycsb-a		scrambled zipf			50 % get, 50 % update
 *	ycsb-b		scrambled zipf			95 % get, 5 % update
 *	ycsb-c		scrambled zipf			100 % get
 *	ycsb-d		latest				95 % get, 5 % insert
 *	ycsb-e		scrambled zipf		 	95 % scan, 5 % insert
 *	ycsb-f		scrambled zipf			50 % get, 50 % read-modify-write
 *	uniform		every key alike			100 % get
 *	zipf:THETA	rank = key id			100 % get
 *	scan		0, 1, 2, ... and again		100 % get
 *	hotspot		a hot range which moves		100 % get
 *	cachelib:PREFIX	PREFIX.pop.json, .sizes.json	PREFIX.config.json, else 100 % get
 *
 *	OPTION				DEFAULT		MEANING
 *	keys=N (k, M and G allowed)	1M		keys that exist at the start
 *	theta=X				0.99		skew of zipf and latest
 *	exact=0 or 1			0		1: no sampling as Gray et al.
 *	window=N			all		latest: draw from the N newest keys only
 *	get= set= update= insert=			shares of operations; what is named, is
 *	rmw= delete= scan=		of the family	replaced; the rest goes to get
 *	scanlen=N			100		a scan is 1 .. N Gets, uniformly
 *	hot=X				0.1		hotspot: share of the keys that is hot
 *	hotops=X			0.9		hotspot: share of operations there
 *	shift=N				1M		hotspot: the range moves on by its own
 *							width after N operations of the stream
 *	onehit=X			0 (cachelib:	share of operations which get a key that
 *					of its file)	nobody asks for again
 *	sizes=N | N-M | cachelib:FILE	256		bytes of a value: a function of the key;
 *	sizes=each:...					drawn anew for each operation; here
 *							k and M are powers of 1024
 *
 * Two deliberate differences from YCSB's Java code: the scrambling is a bijection (zipf.h), so
 * n keys are n keys; and a scan is expanded into single Gets of consecutive key ids, because a
 * cache has no order.  The shares count a scan as one operation, so of the operations handed
 * out by ycsb-e all but about 0.1 % are Gets.  theta >= 1, exact=1 and the zipf family use
 * the exact sampler, the ycsb families otherwise that of Gray et al., as YCSB itself does (at
 * theta 0.99 and a cache of 10 % LRU hits 0.4 points more often than under the exact law).
 */
#ifndef FORGE_LOAD_WORKLOAD_H
#define FORGE_LOAD_WORKLOAD_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include "base/prng.h"
#include "load/cachelib.h"
#include "load/load_error.h"
#include "load/zipf.h"

enum load_op_kind {
	LOAD_GET,
	LOAD_SET,    /* store whether or not the key is there */
	LOAD_UPDATE, /* store a key that was stored before */
	LOAD_INSERT, /* store a key that never existed */
	LOAD_RMW,    /* get, then store what was read, changed */
	LOAD_DELETE,
	LOAD_OP_KINDS,
};

struct load_op {
	enum load_op_kind kind;
	uint32_t value_bytes; /* of the value to store, now or when a Get misses */
	uint64_t key;
	bool in_scan; /* a Get which is part of a scan, but not its first */
};

/* "get", "set", ...; never NULL. */
const char *load_op_name(enum load_op_kind);

enum key_choice {
	KEYS_UNIFORM,
	KEYS_ZIPF,
	KEYS_ZIPF_SCRAMBLED,
	KEYS_LATEST,
	KEYS_LOOP,
	KEYS_HOTSPOT,
	KEYS_POPULARITY,
};

enum size_choice {
	SIZES_UNIFORM,
	SIZES_TABLE,
};

struct size_spec {
	enum size_choice choice;
	bool per_op;
	uint32_t bytes_min;
	uint32_t bytes_max; /* the largest there can be, also of a table */
	struct cachelib_sizes table;
};

#define WORKLOAD_NAME_MAX 256

struct workload_spec {
	char name[WORKLOAD_NAME_MAX]; /* the text it was parsed from */
	enum key_choice keys;
	uint64_t key_count; /* at the start; at least 1 */
	double theta;
	bool exact;		     /* asked for by the option of that name */
	bool gray;		     /* sample as Gray et al., not exactly */
	double share[LOAD_OP_KINDS]; /* of operations; with scan_share they sum to 1 */
	double scan_share;
	uint32_t scan_gets_max;
	double hot_share;
	double hot_op_share;
	uint64_t shift_ops;
	uint64_t latest_window;
	double one_hit_share;
	struct size_spec sizes;
	struct cachelib_popularity popularity;
};

/*
 * Parse text, which is borrowed only.  May read the files it names.  0; or FORGE_E_INVAL,
 * FORGE_E_FORMAT, FORGE_E_SYSTEM, FORGE_E_NO_MEMORY with the reason in the error, and then
 * *spec holds nothing to free.
 */
int workload_parse(struct workload_spec *spec, const char *text, struct load_error *);

void workload_spec_free(struct workload_spec *);

/* One line per family and option, for --help.  Static memory. */
const char *workload_help(void);

/* The value size of a key when sizes are per key; also for preloading. */
uint32_t workload_value_bytes(const struct workload_spec *, uint64_t key);

/* Which of several drawers on one logical stream this is. */
struct workload_place {
	uint64_t seed;	/* of the stream; each index derives its own from it */
	uint32_t index; /* 0-based, over all threads of all processes */
	uint32_t count;
};

struct workload {
	const struct workload_spec *spec;
	_Atomic uint64_t *key_count;
	struct workload_place place;
	struct prng prng;
	struct zipf_gray gray;
	struct zipf_exact exact;
	uint64_t drawn;	    /* operations so far, a scan being one */
	uint64_t one_hits;  /* keys given out that nobody asks for again */
	uint64_t scan_key;  /* the next Get of the scan under way */
	uint32_t scan_left; /* how many Gets it still has */
};

/*
 * Begin to draw.  Borrows spec and key_count until the last workload_next().  *key_count holds
 * how many keys exist, ids 0 .. *key_count - 1; the caller sets it to spec->key_count once, and
 * inserts raise it.  It may be NULL when the spec has no inserts.  A key id counts as existing
 * from the moment an insert is handed out, so that a Get of another thread may be ahead of its
 * store: that Get misses, as it may.  0 or FORGE_E_INVAL.
 */
int workload_init(struct workload *, const struct workload_spec *, struct workload_place,
		  _Atomic uint64_t *key_count);

/* The next operation.  Never fails, never waits; one workload, one thread. */
void workload_next(struct workload *, struct load_op *);

/* Ids from here on are one-hit keys; below are the keys that exist or get inserted. */
#define LOAD_ONE_HIT_FIRST (UINT64_C(1) << 62)

#endif
