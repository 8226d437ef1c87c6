/*
 * ahead.h: the requests of one connection, parsed some way ahead of what is carried out.
 *
 * A pipeline's requests are parsed up to CONN_AHEAD at once, the session is told all their keys
 * (session_expect()), and then they are carried out in their order, so that the processor's cache
 * misses of all overlap.  Nothing depends on how far ahead that was: when something comes between,
 * such as replies that the client does not read, or a request after which others are permitted,
 * those that have not been carried out are as if they had not been parsed.
 *
 * Only where the fabric completes at post; elsewhere overlap.h does this, and has
 * ahead_execute_one() for requests that wait for nothing.
 */
#ifndef FORGE_SERVE_AHEAD_H
#define FORGE_SERVE_AHEAD_H

#include "serve/request.h"

struct conn;
struct input;

/*
 * Carry out what is complete, for as long as nothing comes between.  1: what follows is not
 * complete; 0: it has to wait; -1: broken.
 */
int ahead_execute(struct conn *, struct input *);

/* Carry out one by itself.  false: broken, as the connection then knows. */
bool ahead_execute_one(struct conn *, const struct request *);

#endif
