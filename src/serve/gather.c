/* gather.c: read several connections, look at all their keys, serve them. */
#include "serve/gather.h"

#include "serve/conn.h"
#include "serve/expect.h"

static char *input_of(const struct conn_worker *w, unsigned i)
{
	return w->in + (size_t)i * CONN_READ_BYTES;
}

/* Is it one request and nothing else?  The first one's key is expected in any case. */
static void parse_one(struct gathered *g, const char *data, struct expected *expected)
{
	struct parse_step step;

	g->parser = g->conn->parser;
	g->is_one = parse_next(&g->parser, data, g->bytes, &g->request, &step) == PARSE_REQUEST;
	if (!g->is_one)
		return;
	g->is_one = step.used == g->bytes;
	expect_key_of(expected, &g->request);
}

static void expect_all(struct conn_worker *w)
{
	struct gather *g = &w->gather;
	struct expected expected;

	expect_none(&expected);
	for (unsigned i = 0; i < g->count; i++)
		parse_one(&g->of[i], input_of(w, i), &expected);
	expect_tell(&expected, w->executor.session);
	counts_add(&w->counts.gathered, g->count);
}

void gather_serve(struct conn_worker *w)
{
	struct gather *g = &w->gather;

	g->of[0].is_one = false;
	if (g->count > 1)
		expect_all(w);
	for (unsigned i = 0; i < g->count; i++) {
		struct gathered *of = &g->of[i];

		conn_serve(of->conn, input_of(w, i), of->bytes, of->is_one ? of : NULL,
			   of->start_ns);
	}
	g->count = 0;
}

bool gather_read(struct conn *c, uint64_t now_ns)
{
	struct conn_worker *w = c->worker;
	struct gather *g = &w->gather;
	ssize_t n = conn_read(c, input_of(w, g->count), CONN_READ_BYTES);

	if (n <= 0)
		return n == 0 && !c->is_eof;
	g->of[g->count].conn = c;
	g->of[g->count].bytes = (size_t)n;
	g->of[g->count].start_ns = now_ns;
	if (++g->count == CONN_GATHER)
		gather_serve(w);
	return true;
}
