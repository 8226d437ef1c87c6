/*
 * idle.h: is a connection idle?
 *
 * Nothing has come of it for --idle-timeout, nothing that it sent was being carried out, and it has
 * taken nothing of what it was sent.  Its client's time counts, not ours: what has come but not had
 * its turn yet counts, however long the thread was kept from it, by a request of another client or
 * for want of a processor; and who waits for a flow or an answer is not idle.
 */
#ifndef FORGE_SERVE_IDLE_H
#define FORGE_SERVE_IDLE_H

#include <stdbool.h>

struct conn;

/* As of the last tick; the worker has a time-out.  Of its thread. */
bool idle_is(struct conn *);

#endif
