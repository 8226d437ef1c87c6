/* overlap.c: a flow for each request, replies in order, and whose turn it is for a flow. */
#include "serve/overlap.h"

#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "base/hash.h"
#include "serve/ahead.h"
#include "serve/binary.h"
#include "serve/conn.h"

/* ---- which requests are errands ----------------------------------------------------------- */

enum kind {
	KIND_KEYED,   /* a flow of its own, beside those for other keys */
	KIND_ALONE,   /* a flow, while the connection has no other */
	KIND_AT_ONCE, /* waits for nothing but its turn */
};

static enum kind kind_of_binary(const struct request *r)
{
	switch (r->binary.opcode) {
	case BINARY_FLUSH:
	case BINARY_FLUSHQ:
	case BINARY_STAT:
		return r->binary.fault ? KIND_AT_ONCE : KIND_ALONE;
	case BINARY_SASL_LIST:
	case BINARY_SASL_AUTH:
	case BINARY_SASL_STEP:
		return KIND_AT_ONCE; /* what they have for a key is none */
	default:
		return r->key_bytes > 0 ? KIND_KEYED : KIND_AT_ONCE;
	}
}

static enum kind kind_of(const struct request *r)
{
	if (r->kind == REQUEST_BINARY)
		return kind_of_binary(r);
	if (r->kind == REQUEST_FLUSH || r->kind == REQUEST_STATS)
		return KIND_ALONE;
	return request_names_key(r) ? KIND_KEYED : KIND_AT_ONCE;
}

/* ---- errands ------------------------------------------------------------------------------ */

static void make_ready(struct conn *c)
{
	if (c->is_ready)
		return;
	c->is_ready = true;
	TAILQ_INSERT_TAIL(&c->worker->overlap.ready, c, ready_link);
}

/* The connection has to wait for a flow. */
static void make_wait(struct conn *c)
{
	if (c->is_waiting)
		return;
	c->is_waiting = true;
	TAILQ_INSERT_TAIL(&c->worker->overlap.waiting, c, waiting_link);
}

/* Done, and its reply has been taken or is not wanted. */
static void errand_drop(struct errand *f)
{
	if (f->room_bytes > OVERLAP_ROOM_BYTES) {
		free(f->room);
		f->room = NULL;
		f->room_bytes = 0;
	}
	if (f->out.room > OVERLAP_ROOM_BYTES) {
		free(f->out.data);
		f->out.data = NULL;
	}
	f->overlap->out_count--;
	flows_put(&f->flow);
}

/* What it has come to says what others will. */
static void expect_bytes(struct errand *f)
{
	uint64_t bytes = max_u64(f->out.used, request_room_bytes(&f->request)),
		 *expected = &f->overlap->expected_bytes;

	*expected = max_u64(bytes, *expected - *expected / OVERLAP_EXPECTED_PART);
}

static bool has_room(const struct overlap *o)
{
	return !o->out_count || (o->out_count + 1) * o->expected_bytes <= OVERLAP_KEPT_BYTES_MAX;
}

static void errand_start(struct errand *f);

static void errand_done(struct errand *f)
{
	f->is_done = true;
	expect_bytes(f);
	if (!f->conn)
		errand_drop(f);
	else if (f->conn->errands == f)
		make_ready(f->conn);
}

static void errand_finish(struct errand *f)
{
	if (f->then)
		errand_start(f->then);
	errand_done(f);
}

static bool is_get_of(const struct errand *f, const struct request *r)
{
	return execute_is_get(&f->request) && f->request.key_bytes == r->key_bytes &&
	       memcmp(f->request.key, r->key, r->key_bytes) == 0;
}

/* How many of those that wait for a Get are Gets of its key as well. */
static unsigned count_riders(const struct errand *f)
{
	unsigned n = 0;

	if (execute_is_get(&f->request))
		for (const struct errand *g = f->then; g && is_get_of(g, &f->request); g = g->then)
			n++;
	return n;
}

/*
 * Those which ride with a Get had come before it begins, so they may have what it finds.  They are
 * carried out behind it in their order, on its fiber and with its view, which has the value.
 */
static MAY_WAIT void errand_main(struct flow *flow)
{
	struct errand *f = (struct errand *)flow, *last = f, *g, *next;
	unsigned riders = count_riders(f);
	struct execute_got got = {.is_valid = false};

	f->executor.got = riders ? &got : NULL;
	execute(&f->executor, &f->request);
	for (unsigned i = 0; i < riders; i++) {
		last = last->then;
		last->executor.view = f->executor.view;
		last->executor.got = &got;
		execute(&last->executor, &last->request);
	}
	if (last->then)
		errand_start(last->then);
	for (g = f->then; riders > 0; riders--, g = next) {
		next = g->then;
		errand_done(g);
	}
	errand_done(f);
}

static void errand_start(struct errand *f)
{
	if (flows_start(&f->flow, errand_main) == 0)
		return;
	/* No memory for a fiber: without a reply its connection cannot go on. */
	if (f->conn) {
		f->conn->is_broken = true;
		make_ready(f->conn);
	}
	errand_finish(f);
}

/* Memory for a reply, without a value, and for what the request refers to.  false: there is none.
 */
static bool errand_room(struct errand *f, size_t bytes)
{
	if (bytes > f->room_bytes) {
		char *room = realloc(f->room, bytes);

		if (!room)
			return false;
		f->room = room;
		f->room_bytes = bytes;
	}
	f->out.used = 0;
	if (!f->out.data) {
		f->out.room = OUT_REPLY_BYTES_MAX;
		f->out.data = malloc(f->out.room);
	}
	return f->out.data;
}

/* NULL: not now, or not at all when the connection is broken. */
static struct errand *errand_take(struct conn *c, const struct request *r)
{
	struct conn_worker *w = c->worker;
	struct overlap *o = &w->overlap;
	bool has_turn = o->served == c ? o->share > 0 : TAILQ_EMPTY(&o->waiting);
	struct errand *f = has_turn && has_room(o) ? (struct errand *)flows_take(&o->flows) : NULL;

	if (!f) {
		make_wait(c);
		return NULL;
	}
	if (!errand_room(f, request_room_bytes(r))) {
		c->is_broken = true;
		flows_put(&f->flow);
		return NULL;
	}
	o->share -= o->served == c;
	o->out_count++;
	f->overlap = o;
	request_copy(r, f->room, &f->request);
	f->conn = c;
	f->next = f->then = NULL;
	f->is_done = f->is_void = false;
	f->start_ns = clock_now_ns(clock_monotonic());
	f->executor = w->executor;
	f->executor.view = f->flow.view;
	f->executor.out = &f->out;
	f->executor.got = NULL;
	f->executor.keys_start = KEYS_ARE_SENT;
	return f;
}

/* The last errand of the connection for that key that is not done. */
static struct errand *last_for(const struct conn *c, uint64_t key_hash)
{
	struct errand *last = NULL;

	for (struct errand *f = c->errands; f; f = f->next)
		if (f->key_hash == key_hash && !f->is_done)
			last = f;
	return last;
}

static bool begin_errand(struct conn *c, const struct request *r, bool alone)
{
	struct errand *f = errand_take(c, r), *before = NULL;

	if (!f)
		return false;
	if (!alone) {
		f->key_hash = hash_key(r->key, r->key_bytes);
		before = last_for(c, f->key_hash);
	}
	c->is_alone = alone;
	*(c->errands ? c->errands_end : &c->errands) = f;
	c->errands_end = &f->next;
	c->errand_count++;
	if (before)
		before->then = f;
	else
		errand_start(f);
	return true;
}

/* ---- beginning ---------------------------------------------------------------------------- */

/* What has not been sent of the line of keys that is under way is replaced by an error. */
static void void_line(struct conn *c)
{
	struct errand *from = c->errands;

	for (struct errand *f = c->errands; f; f = f->next) {
		if (f->request.kind != REQUEST_GET && f->request.kind != REQUEST_GAT)
			from = f->next;
		else if (f->request.first)
			from = f;
	}
	for (; from; from = from->next)
		from->is_void = true;
}

/* false: not now. */
static bool begin_one(struct conn *c, const struct request *r)
{
	bool stranger = c->worker->executor.auth && !c->is_authorised;
	enum kind kind = stranger ? KIND_AT_ONCE : kind_of(r);

	if (r->kind == REQUEST_ERROR && !r->first)
		void_line(c);
	if (kind == KIND_KEYED)
		return begin_errand(c, r, false);
	if (c->errands)
		return false;
	if (kind == KIND_ALONE)
		return begin_errand(c, r, true);
	ahead_execute_one(c, r); /* is_broken says if not */
	return true;
}

static bool may_begin(const struct conn *c)
{
	uint64_t kept_bytes = c->worker->overlap.kept_bytes;

	return !c->unsent && !c->is_ending && !c->is_broken && !c->is_alone &&
	       c->errand_count < (kept_bytes < OVERLAP_KEPT_BYTES_MAX ? OVERLAP_CONN_FLOWS_MAX : 1);
}

bool overlap_begin(struct conn *c, struct input *in)
{
	struct request *r = &c->worker->ahead[0].request;
	struct parse_step step;

	while (may_begin(c)) {
		struct parser before = c->parser;
		enum parse_result result = parse_next(&c->parser, in->data, in->bytes, r, &step);

		in->need = step.need;
		if (result == PARSE_REQUEST && !begin_one(c, r)) {
			c->parser = before;
			in->need = 1;
			return false;
		}
		in->data += step.used;
		in->bytes -= step.used;
		if (result == PARSE_MORE)
			return true;
	}
	in->need = 1;
	return false;
}

/* ---- replies ------------------------------------------------------------------------------ */

static void deliver(struct conn *c)
{
	struct conn_worker *w = c->worker;
	uint64_t now_ns = clock_now_ns(clock_monotonic());
	struct errand *f;

	c->active_ms = w->now_ms = now_ns / 1000000;
	w->out.used = 0;
	while ((f = c->errands) && f->is_done) {
		if (!f->is_void)
			out_bytes(&w->out, f->out.data, f->out.used);
		hist_record(&w->batch_ns, now_ns - f->start_ns);
		c->errands = f->next;
		c->errand_count--;
		c->is_alone = false;
		errand_drop(f);
		if (w->out.used >= CONN_SEND_BYTES)
			conn_flush(c);
	}
	conn_resume(c);
}

/* Flows that are free go to connections that wait for one, a few to each. */
static void serve_waiting(struct overlap *o, struct conn_worker *w)
{
	const struct flows *flows = &o->flows;
	struct conn *c;

	while ((flows->idle || flows->flow_count < flows->flow_max) && has_room(o) &&
	       (c = TAILQ_FIRST(&o->waiting))) {
		TAILQ_REMOVE(&o->waiting, c, waiting_link);
		c->is_waiting = false;
		o->served = c;
		o->share = OVERLAP_SHARE;
		w->out.used = 0;
		conn_resume(c);
		o->served = NULL;
	}
}

bool overlap_turn(struct conn_worker *w)
{
	struct overlap *o = &w->overlap;
	struct conn *c;

	flows_turn(&o->flows);
	while ((c = TAILQ_FIRST(&o->ready))) {
		TAILQ_REMOVE(&o->ready, c, ready_link);
		c->is_ready = false;
		deliver(c);
	}
	serve_waiting(o, w);
	return o->flows.active > 0;
}

void overlap_leave(struct conn *c)
{
	struct overlap *o = &c->worker->overlap;
	struct errand *next;

	if (c->is_ready)
		TAILQ_REMOVE(&o->ready, c, ready_link);
	if (c->is_waiting)
		TAILQ_REMOVE(&o->waiting, c, waiting_link);
	for (struct errand *f = c->errands; f; f = next) {
		next = f->next;
		f->conn = NULL;
		if (f->is_done)
			errand_drop(f);
	}
}

/* ---- beginning and end -------------------------------------------------------------------- */

int overlap_open(struct overlap *o, struct session *session)
{
	int status =
	    flows_open(&o->flows, session, OVERLAP_WORKER_FLOWS_MAX, sizeof(struct errand));
	struct flow *first;

	TAILQ_INIT(&o->ready);
	TAILQ_INIT(&o->waiting);
	if (status || !o->flows.loop)
		return status;
	/* With one of them everybody is served in the end. */
	first = flows_take(&o->flows);
	if (!first)
		return FORGE_E_NO_MEMORY;
	flows_put(first);
	return 0;
}

void overlap_close(struct overlap *o)
{
	if (!o->flows.session)
		return;
	flows_finish(&o->flows);
	for (struct flow *f = o->flows.all; f; f = f->next_all) {
		free(((struct errand *)f)->room);
		free(((struct errand *)f)->out.data);
	}
	flows_close(&o->flows);
}
