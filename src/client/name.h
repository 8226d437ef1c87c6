/*
 * name.h: what the name of a pool says: where its memory node is, and how to get there.
 *
 *   shm:/NAME            POSIX shared memory of this host
 *   file:PATH PATH       a file that can be mapped; PATH begins with / or ./
 *   tcp://HOST:PORT      a node that listens; an IPv6 address in brackets
 *   unix:PATH            the same over a Unix socket of this host
 *
 * Behind each may stand options, ?NAME=VALUE&NAME=VALUE:
 *
 *   latency=TIME         every verb takes at least that long, as over a network, so that programs
 *                        can be tried and measured on one host
 *   timeout=TIME         over a socket: how long the node may take to answer before it
 *                        counts as lost; a second unless given
 *
 * A pool on several nodes is a list of such names with commas between them.  A comma that no name
 * follows belongs to a path, and so does a '?' that no option follows.
 *
 * Pure functions; any thread.
 */
#ifndef FORGE_CLIENT_NAME_H
#define FORGE_CLIENT_NAME_H

#include <stddef.h>
#include <stdint.h>

/* Bytes of a place, its end included: the longest path there can be. */
#define NAME_WHERE_BYTES 4096u
/* Nodes of a pool at most. */
#define NAME_NODES_MAX 64u

enum name_kind {
	NAME_SHM,  /* where: what fabric/shm.h understands */
	NAME_TCP,  /* where: a host's name or address, without brackets */
	NAME_UNIX, /* where: a path */
};

struct pool_name {
	enum name_kind kind;
	uint16_t port;	     /* of NAME_TCP */
	uint64_t latency_us; /* 0: as fast as it is */
	uint64_t timeout_us; /* 0: the fabric's own, a second */
	char where[NAME_WHERE_BYTES];
};

/* Bytes of the first name of a list; behind it is a comma, or the end. */
size_t name_first_bytes(const char *list);

/* One node's name.  0, or FORGE_E_INVAL with a sentence in error_text. */
int name_parse(const char *name, struct pool_name *out, char *error_text, size_t error_bytes);

/*
 * A list of at most NAME_NODES_MAX names, all different; the caller frees *out.
 * 0; FORGE_E_INVAL or FORGE_E_NO_MEMORY with a sentence in error_text.
 */
int name_parse_list(const char *list, struct pool_name **out, unsigned *count, char *error_text,
		    size_t error_bytes);

#endif
