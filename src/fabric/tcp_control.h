/*
 * tcp_control.h: the control connection of an instance: locks of CN ids, time, what the node is.
 *
 * Who may call: set-up code and the client layer; one request at a time, any thread (a call waits
 * for another's).  It stays open for as long as the instance lives: when it ends the node fences
 * the instance (doc/wire.md), so losing it means that every verb of the instance fails soon.
 * Each call waits for one round trip, at most for the settings' deadline; when that passes, or the
 * node is lost, it and all later ones give FORGE_E_NODE.
 */
#ifndef FORGE_FABRIC_TCP_CONTROL_H
#define FORGE_FABRIC_TCP_CONTROL_H

#include "fabric/tcp.h"

struct tcp_control;

/* As tcp_open(). */
int tcp_control_open(const struct tcp_settings *, struct wire_welcome *welcome, char *error_text,
		     size_t error_bytes, struct tcp_control **out);

/* End the instance: the node gives its locks up.  NULL is permitted. */
void tcp_control_close(struct tcp_control *);

/*
 * Tell the node that the instance is at its end, which fences all its connections; this one gives
 * FORGE_E_NODE from then on.  Any thread, also while another is in a call; waits for nobody.
 */
void tcp_control_end(struct tcp_control *);

/* Is it known to be lost?  No round trip. */
int tcp_control_is_lost(struct tcp_control *);

/*
 * One request: code and argument, enum wire_code.  The reply's bytes go into reply, at most room
 * of them; *bytes is how many there were (NULL: not wanted).
 * The node's status, or FORGE_E_NODE.
 */
int tcp_control_call(struct tcp_control *, enum wire_code code, uint64_t argument, void *reply,
		     size_t room, size_t *bytes);

/* The lock of a CN id, for liveness: 0 or FORGE_E_AGAIN. */
static inline int tcp_control_hold(struct tcp_control *c, uint32_t cn)
{
	return tcp_control_call(c, WIRE_HOLD, cn, NULL, 0, NULL);
}

static inline int tcp_control_release(struct tcp_control *c, uint32_t cn)
{
	return tcp_control_call(c, WIRE_RELEASE, cn, NULL, 0, NULL);
}

/* 1, 0, or an error. */
static inline int tcp_control_is_held(struct tcp_control *c, uint32_t cn)
{
	uint64_t held = 0;
	int status = tcp_control_call(c, WIRE_IS_HELD, cn, &held, sizeof(held), NULL);

	return status ? status : held != 0;
}

/* The node's CLOCK_BOOTTIME; the offset is known as well as the round trip is short. */
static inline int tcp_control_time(struct tcp_control *c, uint64_t *node_ns)
{
	return tcp_control_call(c, WIRE_TIME, 0, node_ns, sizeof(*node_ns), NULL);
}

/*
 * The same without waiting, for who has other things to do: ask, and look for the answer from time
 * to time; one question at a time.  Calls may come in between.
 * ask: 0; FORGE_E_AGAIN while another thread's call is under way; FORGE_E_NODE.
 * answer: 1 with *node_ns; 0 when it is not there yet; FORGE_E_NODE.
 */
int tcp_control_ask_time(struct tcp_control *);
int tcp_control_time_answer(struct tcp_control *, uint64_t *node_ns);

static inline int tcp_control_info(struct tcp_control *c, struct wire_welcome *out)
{
	return tcp_control_call(c, WIRE_INFO, 0, out, sizeof(*out), NULL);
}

#endif
