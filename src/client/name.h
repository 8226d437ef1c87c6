/*
 * name.h: what the name of a pool says: where its memory node is, and how to get there.
 *
 *   shm:/NAME            POSIX shared memory of this host
 *   file:PATH PATH       a file that can be mapped; PATH begins with / or ./
 *   tcp://HOST:PORT      a node that listens; an IPv6 address in brackets
 *   tls://HOST:PORT      the same, encrypted
 *   unix:PATH            the same over a Unix socket of this host
 *
 * Behind each may stand options, ?NAME=VALUE&NAME=VALUE:
 *
 *   latency=TIME         every verb takes at least that long, as over a network, so that programs
 *                        can be tried and measured on one host
 *   timeout=TIME         over a socket: how long the node may take to answer before it
 *                        counts as lost; a second unless given; refused elsewhere
 *
 *   key-file=FILE        a key to show at the node (access/keys.h)
 *   key-name=NAME        which of the file's keys; the first unless given
 *   tls=1                as tls://
 *   ca=FILE              the authority of the node's certificate; the system's unless given
 *   tls-name=NAME        whose certificate it must be; the host's unless given
 *   cert=FILE            a certificate to show at the node
 *   cert-key=FILE        its private key
 *
 * Files have no '&' in their names.  A key itself is in no name, for names are printed.
 *
 * A pool on several nodes is a list of such names with commas between them.  A comma that no name
 * follows belongs to a path, unless nothing or another comma follows it; so does a '?' that no
 * option follows.
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
#define NAME_NODES_MAX 60u

enum name_kind {
	NAME_SHM,  /* where: what fabric/shm.h understands */
	NAME_TCP,  /* where: a host's name or address, without brackets */
	NAME_UNIX, /* where: a path */
};

/* Texts of options, each by where in `where` it begins; 0: not given.  See name_text(). */
struct name_access {
	uint16_t key_file, key_name, authority, tls_name, certificate, certificate_key;
};

struct pool_name {
	enum name_kind kind;
	uint16_t port;	     /* of NAME_TCP */
	uint64_t latency_us; /* 0: as fast as it is */
	uint64_t timeout_us; /* 0: the fabric's own, a second */
	uint64_t tls;	     /* 1: over TLS */
	uint8_t is_tls_name; /* by tls://, not by tls=1 */
	struct name_access access;
	char where[NAME_WHERE_BYTES]; /* behind it the texts of options */
};

static inline const char *name_text(const struct pool_name *n, uint16_t at)
{
	return at ? n->where + at : NULL;
}

/* Is it, if it is any, the name of a node behind a socket?  What it says else is not looked at. */
int name_is_of_socket(const char *name);

/* Do options stand behind it, as far as any that there are can be told from a path? */
int name_has_options(const char *name);

/* A hash of the place alone, without options: part of the remote format (layout/spread.h). */
uint64_t name_place_hash(const struct pool_name *);

/*
 * The place alone, as a record of memory nodes has it: the name without options, but tls:// where
 * it is encrypted.  0, or FORGE_E_INVAL when it is longer.
 */
int name_place_text(const struct pool_name *, char *out, size_t bytes);

/*
 * The name of a place for who reaches another one, model, with options: his patience, keys and
 * authority, but not whose certificate it must be; over TLS if either is.  model is of the same
 * kind, or NULL.  0, or FORGE_E_INVAL when it is longer.
 */
int name_as(const struct pool_name *place, const struct pool_name *model, char *out, size_t bytes);

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
