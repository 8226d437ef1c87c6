/*
 * name.h: what the name of a pool says beside where the pool is.
 *
 * `WHERE` or `WHERE?latency=TIME`: every verb takes at least that long, as over a network, so that
 * programs can be tried and measured on one host.  Pure functions; any thread.
 */
#ifndef FORGE_CLIENT_NAME_H
#define FORGE_CLIENT_NAME_H

#include <stddef.h>
#include <stdint.h>

#define NAME_WHERE_BYTES 4096u

struct pool_name {
	char where[NAME_WHERE_BYTES]; /* what fabric/shm.h understands */
	uint64_t latency_us;	      /* 0: as fast as it is */
};

/* 0, or FORGE_E_INVAL with a sentence in error_text. */
int name_parse(const char *name, struct pool_name *out, char *error_text, size_t error_bytes);

#endif
