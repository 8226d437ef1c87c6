/* ahead.c: parse some, look at all their keys, carry them out. */
#include "serve/ahead.h"

#include "serve/conn.h"
#include "serve/expect.h"

/* Tell the session of all keys at once, so that their cache misses overlap. */
static void expect_keys(struct conn_worker *w, unsigned count)
{
	struct expected expected;

	expect_none(&expected);
	for (unsigned i = 0; i < count; i++)
		expect_key_of(&expected, &w->ahead[i].request);
	expect_tell(&expected, w->executor.session);
}

/* Parse some requests ahead.  How many; *more when what follows them is not complete. */
static unsigned parse_ahead(struct conn *c, struct input *in, bool *more)
{
	struct conn_worker *w = c->worker;
	struct parse_step step;
	unsigned n = 0;

	*more = false;
	while (n < CONN_AHEAD) {
		struct conn_ahead *a = &w->ahead[n];

		if (n > 0 && in->bytes == 0) {
			in->need = 1;
			*more = true;
			break;
		}
		a->parser = c->parser;
		a->data = in->data;
		*more =
		    parse_next(&c->parser, in->data, in->bytes, &a->request, &step) == PARSE_MORE;
		in->data += step.used;
		in->bytes -= step.used;
		in->need = step.need;
		if (*more)
			break;
		n++;
		if (a->request.kind == REQUEST_CLOSE || a->request.kind == REQUEST_QUIT)
			break;
	}
	return n;
}

/* What follows a request that was carried out. */
enum next { NEXT_GOES_ON, NEXT_IS_PARSED_ANEW, NEXT_IS_NEVER };

static enum next execute_next(struct conn *c, const struct request *r)
{
	struct conn_worker *w = c->worker;

	if (execute(&w->executor, r) == EXECUTE_CLOSE)
		c->is_ending = true;
	if (w->out.used >= CONN_SEND_BYTES)
		conn_flush(c);
	if (c->is_broken)
		return NEXT_IS_NEVER;
	if (likely(c->is_authorised == w->executor.is_authorised))
		return NEXT_GOES_ON;
	conn_authorise(c);
	return NEXT_IS_PARSED_ANEW; /* its limits are others now */
}

/* Carry out n parsed requests, or fewer when something comes between.  How many; -1: broken. */
static int execute_ahead(struct conn *c, unsigned n)
{
	for (unsigned i = 0; i < n; i++) {
		if (c->unsent || c->is_ending)
			return (int)i;
		enum next next = execute_next(c, &c->worker->ahead[i].request);

		if (next != NEXT_GOES_ON)
			return next == NEXT_IS_NEVER ? -1 : (int)i + 1;
	}
	return (int)n;
}

/* Requests from number i on have not been carried out: as if they had not been parsed. */
static void parse_back(struct conn *c, unsigned i, struct input *in)
{
	uint32_t value_bytes_max = c->parser.value_bytes_max;
	const struct conn_ahead *a = &c->worker->ahead[i];

	c->parser = a->parser;
	c->parser.value_bytes_max = value_bytes_max;
	in->bytes += (size_t)(in->data - a->data);
	in->data = a->data;
	in->need = 1;
}

int ahead_execute(struct conn *c, struct input *in)
{
	struct conn_worker *w = c->worker;
	bool more = false;

	while (!c->unsent && !c->is_ending && !more) {
		unsigned n = parse_ahead(c, in, &more);

		if (n > 1)
			expect_keys(w, n);
		int done = execute_ahead(c, n);

		if (done < 0)
			return -1;
		if ((unsigned)done < n) {
			parse_back(c, (unsigned)done, in);
			more = false;
		}
	}
	return more;
}

bool ahead_execute_one(struct conn *c, const struct request *r)
{
	return execute_next(c, r) != NEXT_IS_NEVER;
}
