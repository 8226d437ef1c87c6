/*
 * link_medium.h: what a medium tells link.c about itself: the media include it, and nobody else
 * but link.h.
 *
 * A medium is a file link_NAME.c with a table of functions.  Its open() allocates a struct that
 * begins with a struct link and fills that in; link.c adds what is common to all media.
 */
#ifndef FORGE_CLIENT_LINK_MEDIUM_H
#define FORGE_CLIENT_LINK_MEDIUM_H

#include <stddef.h>
#include <stdint.h>

struct cancel;
struct fab;
struct link;
struct liveness;
struct pass_wish;
struct pool_clock;
struct pool_name;

/* See link.h, function by function. */
struct link_medium {
	int (*open)(const struct pool_name *, int flags, const struct pass_wish *, struct cancel *,
		    struct link **out, char *error_text, size_t error_bytes);
	void (*close)(struct link *);
	void (*keep)(struct link *); /* NULL: nothing over it has to be waited for */
	void (*end)(struct link *);  /* NULL: there is nobody who would have to be told */
	int (*connect)(struct link *, struct fab **out);
	int (*is_held)(struct link *, uint32_t cn);
	int (*is_served)(struct link *);
	int (*watch)(struct link *, int fd);	    /* NULL: whose name goes, goes itself */
	int (*counters)(struct link *, char *text); /* NULL: there are none */
	int (*probe)(const struct pool_name *, char *error_text, size_t error_bytes);
};

struct link {
	const struct link_medium *medium;
	const struct liveness *liveness;
	const char *base; /* NULL: not mapped */
	uint64_t bytes;
	struct pool_clock *clock; /* NULL: ours */
	uint64_t pool_id;	  /* as who serves it said; 0: nobody had to be asked */
	uint64_t latency_us;	  /* link.c's: what every verb takes at least */
};

extern const struct link_medium link_shm, link_tcp;

#endif
