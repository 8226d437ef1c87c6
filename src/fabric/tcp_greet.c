/*
 * tcp_greet.c: a connection before it is welcome: TLS, hello, challenge, proof.
 *
 * Who comes is told nothing about the pool before it has proved who it is, and costs the server a
 * struct tcp_conn and a struct tcp_guest, or, where TLS is spoken, what a handshake takes.  How
 * many may be here at once, and for how long, is the gate's business and sweep()'s.
 */
#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/socket.h>

#include "base/clock.h"
#include "base/compiler.h"
#include "base/log.h"
#include "fabric/tcp_server_inside.h"

static_assert((int)ACCESS_FULL == WIRE_FULL && (int)ACCESS_READ_ONLY == WIRE_READ_ONLY &&
		  (int)ACCESS_METRICS == WIRE_METRICS,
	      "roles have one number");
static_assert(sizeof(struct wire_hello) == PROOF_HELLO_BYTES &&
		  sizeof(struct wire_welcome) == PROOF_WELCOME_BYTES,
	      "proofs are of these");

/* What is sent in answer to a challenge. */
struct proof_message {
	struct wire_step step;
	struct proof_answer answer;
};
static_assert(sizeof(struct proof_message) ==
		  sizeof(struct wire_step) + sizeof(struct proof_answer),
	      "no padding is received");

struct tcp_guest {
	gate_address address; /* 0: it came over a Unix socket */
	int has_spoken;	      /* at least a byte */
	int has_guessed;      /* its proof was wrong */
	struct wire_hello hello;
	struct proof_node proof;
	struct proof_message message; /* as far as it has come */
	size_t message_bytes;
};

static uint64_t gate_now_ms(void)
{
	return clock_now_ns(clock_monotonic()) / 1000000;
}

/* ---- the gate ----------------------------------------------------------------------------- */

static size_t make_refusal(unsigned char *to, int status, const char *sentence)
{
	const struct wire_refusal refusal = {.status = status};
	size_t bytes = strlen(sentence);
	const struct wire_step step = {.step = WIRE_STEP_REFUSAL,
				       .bytes = (uint32_t)(sizeof(refusal) + bytes)};

	memcpy(to, &step, sizeof(step));
	memcpy(to + sizeof(step), &refusal, sizeof(refusal));
	memcpy(to + sizeof(step) + sizeof(refusal), sentence, bytes);
	return sizeof(step) + sizeof(refusal) + bytes;
}

/* Who speaks TLS could not read it. */
static void turn_away(const struct door *d, const struct tcp_conn *c, enum gate_answer why)
{
	unsigned char bytes[256];

	if (door_has_tls(d) && c->guest->address)
		return;
	size_t n = make_refusal(bytes, FORGE_E_AGAIN,
				why == GATE_FULL
				    ? "too many connections that nobody knows yet: try again"
				    : "too many failures of this address to prove who it is: try "
				      "again in a while");

	if (send(c->fd, bytes, n, MSG_DONTWAIT | MSG_NOSIGNAL) > 0)
		shutdown(c->fd, SHUT_WR);
}

int tcp_guest_open(struct tcp_server *s, struct tcp_conn *c)
{
	struct sockaddr_storage peer = {0};
	socklen_t bytes = sizeof(peer);

	c->guest = calloc(1, sizeof(*c->guest));
	if (!c->guest)
		return FORGE_E_NO_MEMORY;
	if (getpeername(c->fd, (struct sockaddr *)&peer, &bytes) == 0)
		c->guest->address = gate_address_of((struct sockaddr *)&peer, bytes);
	enum gate_answer answer = gate_begin(door_gate(s->door), c->guest->address, gate_now_ms());

	if (answer == GATE_COME)
		return FORGE_OK;
	turn_away(s->door, c, answer);
	free(c->guest);
	c->guest = NULL;
	return FORGE_E_AGAIN;
}

void tcp_guest_close(struct tcp_conn *c, enum gate_end end)
{
	struct tcp_server *s = c->thread->server;

	if (end == GATE_LEFT && c->state <= TCP_CONN_PROOF && c->guest->has_spoken)
		end = GATE_FAILED;
	gate_end(door_gate(s->door), c->guest->address, end, gate_now_ms());
	free(c->guest);
	c->guest = NULL;
}

/* It is no stranger any more. */
static void leave_door(struct tcp_conn *c, enum tcp_conn_state next, enum gate_end end)
{
	c->thread->greeting--;
	c->state = next;
	if (c->guest)
		tcp_guest_close(c, end);
}

/* ---- refusals ----------------------------------------------------------------------------- */

PRINTF_LIKE(4, 5)
static void refuse(struct tcp_conn *c, struct answers *out, int status, const char *format, ...)
{
	char sentence[200];
	va_list args;

	va_start(args, format);
	vsnprintf(sentence, sizeof(sentence), format, args);
	va_end(args);
	out->bytes += make_refusal(out->at + out->bytes, status, sentence);
	tcp_count(&c->thread->counts.refused, 1);
	/* Only who claims a key that it has not may be guessing. */
	leave_door(c, TCP_CONN_LAST, c->guest && c->guest->has_guessed ? GATE_FAILED : GATE_LEFT);
}

static void refuse_instance(struct tcp_conn *c, struct answers *out, int status)
{
	switch (status) {
	case FORGE_E_AGAIN:
		refuse(c, out, status, "this instance has ended: come back as a new one");
		return;
	case FORGE_E_DENIED:
		refuse(c, out, status,
		       "the instance came in by another key, or its key has been withdrawn");
		return;
	default:
		refuse(c, out, status, "the node is out of memory");
	}
}

/* ---- welcome ------------------------------------------------------------------------------ */

static void tell_kernel(struct tcp_server *s, const struct tcp_conn *c)
{
	static const char *const who[] = {"OpenSSL", "the kernel"};

	if (!c->tls || atomic_exchange(&s->told_kernel, 1))
		return;
	log_info("TLS 1.3: %s encrypts what is sent, %s decrypts what comes",
		 who[tls_kernel_sends(c->tls)], who[tls_kernel_receives(c->tls)]);
}

/* Fill in the welcome, and make the connection one of its instance's.  0, or it was refused. */
static int write_welcome(struct tcp_conn *c, const struct wire_hello *h, uint64_t mark,
			 struct wire_welcome *w, struct answers *out)
{
	struct tcp_server *s = c->thread->server;

	c->kind = h->kind;
	c->role = h->role;
	tcp_describe(s, c, w);
	if (h->fingerprint && h->fingerprint != w->fingerprint) {
		refuse(c, out, FORGE_E_LAYOUT,
		       "the pool has another layout than this client was built for: use the same "
		       "version of forge on both sides");
		return FORGE_E_LAYOUT;
	}
	int status = tcp_instance_attach(s, h, mark, c);

	if (status)
		refuse_instance(c, out, status);
	return status;
}

static void put_welcome(struct tcp_conn *c, const struct wire_welcome *w, struct answers *out)
{
	const struct wire_step step = {.step = WIRE_STEP_WELCOME, .bytes = sizeof(*w)};

	put(out, &step, sizeof(step));
	put(out, w, sizeof(*w));
	tell_kernel(c->thread->server, c);
	leave_door(c, TCP_CONN_REQUEST, GATE_WELCOMED);
}

/* ---- proofs ------------------------------------------------------------------------------- */

static int challenge(struct tcp_conn *c, const struct wire_hello *h, struct answers *out)
{
	const struct wire_step step = {.step = WIRE_STEP_CHALLENGE,
				       .bytes = sizeof(struct proof_challenge)};
	uint8_t nonce[PROOF_NONCE_BYTES], binding[PROOF_BINDING_BYTES];
	struct proof_challenge message;

	if (proof_nonce(nonce) || (c->tls && tls_binding(c->tls, binding)))
		return BROKEN;
	c->guest->hello = *h;
	proof_node_begin(&c->guest->proof, h, c->tls ? binding : NULL, nonce, &message);
	put(out, &step, sizeof(step));
	put(out, &message, sizeof(message));
	c->state = TCP_CONN_PROOF;
	return 0;
}

/* Its key is known: is it good for what the client wants to be, and what is the node's proof? */
static int admit(struct tcp_conn *c, const struct key *key, uint64_t mark, struct answers *out)
{
	const struct wire_step step = {.step = WIRE_STEP_PROOF,
				       .bytes = sizeof(struct proof_confirm)};
	const struct wire_hello *h = &c->guest->hello;
	struct proof_confirm confirm;
	struct wire_welcome w;

	if (key->role > h->role) {
		refuse(c, out, FORGE_E_DENIED,
		       "the key %s is good for the role %s, and this needs %s: use a key with "
		       "that role",
		       key->name, access_role_name(key->role), access_role_name(h->role));
		return 0;
	}
	if (write_welcome(c, h, mark, &w, out))
		return 0;
	if (proof_node_confirm(&c->guest->proof, key, &w, &confirm))
		return BROKEN;
	put(out, &step, sizeof(step));
	put(out, &confirm, sizeof(confirm));
	put_welcome(c, &w, out);
	return 0;
}

static int check_proof(struct tcp_conn *c, struct answers *out)
{
	struct tcp_guest *g = c->guest;
	const struct wire_step *step = &g->message.step;
	struct key key;
	uint64_t mark;

	if (step->step != WIRE_STEP_PROOF || step->bytes != sizeof(g->message.answer))
		return BROKEN;
	if (door_check(c->thread->server->door, &g->proof, &g->message.answer,
		       sizeof(g->message.answer), &key, &mark)) {
		g->has_guessed = 1;
		refuse(c, out, FORGE_E_DENIED,
		       "the node does not know this key: is its name one of those in the node's "
		       "--key-file, and its secret the same?");
		return 0;
	}
	int status = admit(c, &key, mark, out);

	explicit_bzero(&key, sizeof(key));
	return status;
}

static ssize_t take_proof(struct tcp_conn *c, const unsigned char *in, size_t bytes,
			  struct answers *out)
{
	struct tcp_guest *g = c->guest;
	size_t used = (size_t)min_u64(bytes, sizeof(g->message) - g->message_bytes);

	memcpy((unsigned char *)&g->message + g->message_bytes, in, used);
	g->message_bytes += used;
	if (g->message_bytes == sizeof(g->message) && check_proof(c, out))
		return BROKEN;
	return (ssize_t)used;
}

/* ---- hello -------------------------------------------------------------------------------- */

int tcp_greet_first(struct tcp_conn *c)
{
	struct door *d = c->thread->server->door;
	unsigned char first;

	if (c->tls || c->guest->has_spoken || !c->guest->address || !door_has_tls(d) ||
	    recv(c->fd, &first, 1, MSG_PEEK | MSG_DONTWAIT) != 1)
		return 0;
	c->guest->has_spoken = 1;
	if (first != WIRE_TLS_FIRST)
		return 0;
	c->tls = door_tls_conn(d, c->fd);
	return c->tls ? 0 : BROKEN;
}

static int take_hello(struct tcp_conn *c, const struct wire_hello *h, struct answers *out)
{
	struct door *d = c->thread->server->door;
	struct wire_welcome w;

	if (h->magic != WIRE_MAGIC || h->version == 0 || h->kind < WIRE_DATA ||
	    h->kind > WIRE_CONTROL || h->role < WIRE_FULL || h->role > WIRE_METRICS || h->zero[0] ||
	    h->zero[1] || (h->flags & ~WIRE_HELLO_FLAGS))
		return BROKEN;
	if (d && door_has_tls(d) && c->guest->address && !c->tls)
		refuse(c, out, FORGE_E_DENIED,
		       "the node takes encrypted connections only: write tls:// instead of tcp://");
	else if (d && door_asks_keys(d))
		return challenge(c, h, out);
	else if (write_welcome(c, h, 0, &w, out) == 0)
		put_welcome(c, &w, out);
	return 0;
}

ssize_t tcp_greet(struct tcp_conn *c, const unsigned char *in, size_t bytes, struct answers *out)
{
	struct wire_hello h;

	if (bytes == 0)
		return 0;
	if (c->guest)
		c->guest->has_spoken = 1;
	if (c->state == TCP_CONN_PROOF)
		return take_proof(c, in, bytes, out);
	if (in[0] != (WIRE_MAGIC & 0xff))
		return BROKEN;
	if (bytes < sizeof(h))
		return 0;
	memcpy(&h, in, sizeof(h));
	return take_hello(c, &h, out) ? BROKEN : (ssize_t)sizeof(h);
}
