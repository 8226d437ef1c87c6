/* execute.c: the text protocol, and what all protocols share. */
#include "serve/execute.h"
#include "serve/server.h"

#include "serve/parse.h"

/* Longer than that from now means a Unix time, as in every memcached. */
#define RELATIVE_EXPTIME_MAX (30 * 24 * 3600)

/* ---- shared ------------------------------------------------------------------------------- */

uint64_t execute_expiry_ms(const struct executor *e, int64_t exptime)
{
	if (exptime == 0)
		return 0;
	/* Beyond 31 bits memcached's own clock ends, and the item counts as expired. */
	if (exptime < 0 || exptime > INT32_MAX)
		return EXPIRY_PAST_MS;
	if (exptime <= RELATIVE_EXPTIME_MAX)
		return session_expiry_in(e->session, (uint64_t)exptime * 1000);
	return session_expiry_at(e->session, (uint64_t)exptime * 1000);
}

void execute_forget(struct executor *e, struct cache_key key)
{
	if (key.bytes > 0 && key.bytes <= REQUEST_KEY_BYTES_MAX)
		view_delete(e->view, key);
}

void execute_count_store(struct executor *e, int status, bool is_cas)
{
	struct serve_counts *t = e->counts;

	counts_up(&t->cmd_set);
	if (status == FORGE_E_VALUE_LARGE)
		counts_up(&t->store_too_large);
	if (status == FORGE_E_NO_SPACE)
		counts_up(&t->store_no_memory);
	if (is_cas)
		counts_up(status == FORGE_MISS	   ? &t->cas_misses
			  : status == FORGE_EXISTS ? &t->cas_badval
						   : &t->cas_hits);
}

const char *execute_error_line(struct executor *e, int status)
{
	if (status == FORGE_E_NOT_NUMBER)
		return "CLIENT_ERROR cannot increment or decrement non-numeric value";
	counts_up(&e->counts->server_errors);
	switch (status) {
	case FORGE_E_VALUE_LARGE:
		return "SERVER_ERROR object too large for cache";
	case FORGE_E_NO_SPACE:
		return "SERVER_ERROR out of memory storing object";
	case FORGE_E_AGAIN:
		return "SERVER_ERROR too many others changed the key at once, try again";
	case FORGE_E_NO_MEMORY:
		return "SERVER_ERROR out of memory";
	case FORGE_E_NODE:
		return "SERVER_ERROR the memory node is gone";
	case FORGE_E_SPREAD:
		return "SERVER_ERROR the memory nodes are being changed";
	default:
		return "SERVER_ERROR internal error";
	}
}

/* ---- lines -------------------------------------------------------------------------------- */

static void reply(struct executor *e, const struct request *r, const char *line)
{
	if (r->quiet)
		return;
	out_string(e->out, line);
	out_end_line(e->out);
}

static void reply_error(struct executor *e, const struct request *r, int status)
{
	reply(e, r, execute_error_line(e, status));
}

/* ---- lookups ------------------------------------------------------------------------------ */

static void write_value(struct executor *e, const struct request *r, const struct cache_value *v)
{
	struct out *o = e->out;

	out_bytes(o, "VALUE ", 6);
	out_bytes(o, r->key, r->key_bytes);
	out_char(o, ' ');
	out_u64(o, v->flags);
	out_char(o, ' ');
	out_u64(o, v->bytes);
	if (r->with_cas) {
		out_char(o, ' ');
		out_u64(o, v->cas_id);
	}
	out_end_line(o);
	out_bytes(o, v->data, v->bytes);
	out_end_line(o);
}

bool execute_is_get(const struct request *r)
{
	if (r->kind == REQUEST_BINARY)
		return execute_binary_is_get(r);
	return r->kind == REQUEST_GET || r->kind == REQUEST_META_GET;
}

int execute_get(struct executor *e, struct cache_key key, struct cache_value *v)
{
	struct execute_got *got = e->got;
	int status;

	if (got && got->is_valid) {
		*v = got->value;
		return got->status;
	}
	status = view_get(e->view, key, v);
	if (got && (status == 0 || status == FORGE_MISS)) {
		*got = (struct execute_got){.is_valid = true, .status = status};
		if (status == 0)
			got->value = *v;
	}
	return status;
}

static MAY_WAIT int look_up(struct executor *e, const struct request *r, struct cache_value *v)
{
	struct serve_counts *t = e->counts;
	int status;

	counts_up(&t->cmd_get);
	if (r->kind == REQUEST_GAT) {
		counts_up(&t->cmd_touch);
		status = view_touch(e->view, request_key(r), execute_expiry_ms(e, r->exptime), v);
		counts_up(status == 0 ? &t->touch_hits : &t->touch_misses);
	} else {
		status = execute_get(e, request_key(r), v);
	}
	counts_up(status == 0 ? &t->get_hits : &t->get_misses);
	return status;
}

/*
 * An error replaces the whole reply to the line, as far as it has not been sent; what follows of
 * the line is answered all the same, since nobody can tell how many keys are still to come.
 */
static void spoil_keys(struct executor *e, const struct request *r, const char *line)
{
	if (!r->first && e->keys_start != KEYS_ARE_SENT)
		e->out->used = e->keys_start;
	reply(e, r, line);
}

static MAY_WAIT void execute_key(struct executor *e, const struct request *r)
{
	struct cache_value v;

	if (r->first)
		e->keys_start = e->out->used;
	int status = look_up(e, r, &v);

	if (status == 0 && !out_reserve(e->out, v.bytes))
		status = FORGE_E_NO_MEMORY;
	if (status == 0)
		write_value(e, r, &v);
	else if (status != FORGE_MISS)
		execute_error_line(e, status); /* counted; to the client it is a miss */
	if (r->last)
		out_bytes(e->out, "END\r\n", 5);
}

/* ---- changes ------------------------------------------------------------------------------ */

static const enum cache_store store_modes[] = {
    [STORE_SET] = CACHE_SET,	   [STORE_ADD] = CACHE_ADD,	    [STORE_REPLACE] = CACHE_REPLACE,
    [STORE_APPEND] = CACHE_APPEND, [STORE_PREPEND] = CACHE_PREPEND, [STORE_CAS] = CACHE_CAS,
};

static const char *store_line(struct executor *e, const struct request *r, int status)
{
	switch (status) {
	case 0:
		return "STORED";
	case FORGE_EXISTS:
		return "EXISTS";
	case FORGE_NOT_STORED:
		return "NOT_STORED";
	case FORGE_MISS:
		return r->store == STORE_CAS ? "NOT_FOUND" : "NOT_STORED";
	default:
		return execute_error_line(e, status);
	}
}

static MAY_WAIT void execute_text_store(struct executor *e, const struct request *r)
{
	struct cache_item item = {
	    .value = r->value,
	    .bytes = r->value_bytes,
	    .flags = r->flags,
	    .marks = marks_of_now(session_now_ms(e->session)),
	    .expiry_ms = execute_expiry_ms(e, r->exptime),
	    .cas_id = r->number,
	};
	int status = execute_cache_store(e, request_key(r), store_modes[r->store], &item, NULL);

	execute_count_store(e, status, r->store == STORE_CAS);
	if (status < 0 && r->store == STORE_SET)
		execute_forget(e, request_key(r));
	reply(e, r, store_line(e, r, status));
}

static MAY_WAIT void execute_too_large(struct executor *e, const struct request *r)
{
	execute_count_store(e, FORGE_E_VALUE_LARGE, false);
	if (r->store == STORE_SET)
		execute_forget(e, request_key(r));
	reply_error(e, r, FORGE_E_VALUE_LARGE);
}

static MAY_WAIT void execute_text_arithmetic(struct executor *e, const struct request *r)
{
	struct arithmetic_want want = {.delta = r->number, .decrement = r->decrement};
	struct arithmetic_result result;
	int status = execute_arithmetic(e, request_key(r), &want, &result);

	if (status == FORGE_MISS) {
		reply(e, r, "NOT_FOUND");
	} else if (status) {
		reply_error(e, r, status);
	} else if (!r->quiet) {
		out_u64(e->out, result.number);
		out_end_line(e->out);
	}
}

static MAY_WAIT void execute_touch(struct executor *e, const struct request *r)
{
	int status = view_touch(e->view, request_key(r), execute_expiry_ms(e, r->exptime), NULL);

	counts_up(&e->counts->cmd_touch);
	counts_up(status == 0 ? &e->counts->touch_hits : &e->counts->touch_misses);
	if (status == 0)
		reply(e, r, "TOUCHED");
	else if (status == FORGE_MISS)
		reply(e, r, "NOT_FOUND");
	else
		reply_error(e, r, status);
}

static MAY_WAIT void execute_delete(struct executor *e, const struct request *r)
{
	int status = view_delete(e->view, request_key(r));

	if (status == 0) {
		counts_up(&e->counts->delete_hits);
		reply(e, r, "DELETED");
	} else if (status == FORGE_MISS) {
		counts_up(&e->counts->delete_misses);
		reply(e, r, "NOT_FOUND");
	} else {
		reply_error(e, r, status);
	}
}

/* Until an exptime that is not over: a Unix time is one here, too. */
static uint64_t seconds_until(const struct executor *e, int64_t exptime)
{
	uint64_t now_ms = session_now_ms(e->session), due_ms;

	if (exptime <= RELATIVE_EXPTIME_MAX)
		return exptime > 0 ? (uint64_t)exptime : 0;
	if (exptime > INT64_MAX / 1000)
		return (uint64_t)exptime;
	due_ms = session_expiry_at(e->session, (uint64_t)exptime * 1000);
	return (due_ms - min_u64(now_ms, due_ms) + 999) / 1000;
}

int execute_flush_order(struct executor *e, const struct request *r)
{
	uint64_t seconds = seconds_until(e, r->exptime);

	counts_up(&e->counts->cmd_flush);
	if (seconds == 0)
		return view_flush(e->view);
	e->flush_later(e->context, seconds);
	return 0;
}

static MAY_WAIT void execute_flush(struct executor *e, const struct request *r)
{
	if (!e->flush_permitted) {
		reply(e, r, "CLIENT_ERROR flush_all not allowed");
		return;
	}
	int status = execute_flush_order(e, r);

	if (status)
		reply_error(e, r, status);
	else
		reply(e, r, "OK");
}

/* ---- the rest ----------------------------------------------------------------------------- */

void stat_write(struct executor *e, const struct request *r, const char *name, const char *value)
{
	struct out *o = e->out;

	/* What does not fit is left out rather than overrunning a reply. */
	if (out_left(o) < strlen(name) + strlen(value) + 64)
		return;
	if (r->protocol == PROTOCOL_BINARY) {
		execute_binary_stat(e, r, name, value);
		return;
	}
	out_bytes(o, "STAT ", 5);
	out_string(o, name);
	out_char(o, ' ');
	out_string(o, value);
	out_end_line(o);
}

static void execute_stats(struct executor *e, const struct request *r)
{
	if (r->key_bytes == 5 && memcmp(r->key, "reset", 5) == 0)
		reply(e, r, "ERROR"); /* counters only rise, so that a rate can be taken of them */
	else
		reply(e, r, e->stats(e->context, e, r) ? "END" : "ERROR");
}

/* In the text protocol the proof is the value of a set, whatever its key. */
static enum execute_result execute_stranger(struct executor *e, const struct request *r)
{
	bool is_proof = r->kind == REQUEST_STORE && r->store == STORE_SET;

	if (r->kind == REQUEST_QUIT || r->kind == REQUEST_CLOSE)
		return EXECUTE_CLOSE;
	if (r->kind == REQUEST_BINARY)
		return execute_binary_stranger(e, r);
	if (is_proof) {
		counts_up(&e->counts->auth_cmds);
		e->is_authorised = auth_check_text(e->auth, r->value, r->value_bytes);
	}
	if (e->is_authorised) {
		out_bytes(e->out, "STORED\r\n", 8);
		return EXECUTE_ON;
	}
	counts_add(&e->counts->auth_errors, is_proof);
	/* Once for a line of keys. */
	if ((r->kind != REQUEST_GET && r->kind != REQUEST_GAT) || r->first) {
		if (r->kind != REQUEST_KEYS_END)
			out_string(e->out, is_proof ? "CLIENT_ERROR authentication failure\r\n"
						    : "CLIENT_ERROR unauthenticated\r\n");
	}
	return EXECUTE_ON;
}

enum execute_result execute(struct executor *e, const struct request *r)
{
	counts_up(&e->counts->requests);
	if (unlikely(e->auth && !e->is_authorised))
		return execute_stranger(e, r);
	switch (r->kind) {
	case REQUEST_GET:
	case REQUEST_GAT:
		execute_key(e, r);
		return EXECUTE_ON;
	case REQUEST_KEYS_END:
		out_bytes(e->out, "END\r\n", 5);
		return EXECUTE_ON;
	case REQUEST_STORE:
		execute_text_store(e, r);
		return EXECUTE_ON;
	case REQUEST_ARITHMETIC:
		execute_text_arithmetic(e, r);
		return EXECUTE_ON;
	case REQUEST_TOUCH:
		execute_touch(e, r);
		return EXECUTE_ON;
	case REQUEST_DELETE:
		execute_delete(e, r);
		return EXECUTE_ON;
	case REQUEST_FLUSH:
		execute_flush(e, r);
		return EXECUTE_ON;
	case REQUEST_VERBOSITY:
		reply(e, r, "OK");
		return EXECUTE_ON;
	case REQUEST_VERSION:
		reply(e, r, "VERSION " SERVER_PROTOCOL_VERSION);
		return EXECUTE_ON;
	case REQUEST_STATS:
		execute_stats(e, r);
		return EXECUTE_ON;
	case REQUEST_META_GET:
	case REQUEST_META_SET:
	case REQUEST_META_DELETE:
	case REQUEST_META_ARITHMETIC:
	case REQUEST_META_DEBUG:
	case REQUEST_META_NOOP:
		counts_up(&e->counts->cmd_meta);
		execute_meta(e, r);
		return EXECUTE_ON;
	case REQUEST_TOO_LARGE:
		execute_too_large(e, r);
		return EXECUTE_ON;
	case REQUEST_ERROR:
		counts_up(&e->counts->protocol_errors);
		spoil_keys(e, r, r->error);
		return EXECUTE_ON;
	case REQUEST_BINARY:
		return execute_binary(e, r);
	case REQUEST_CLOSE:
		counts_up(&e->counts->protocol_errors);
		if (r->error)
			reply(e, r, r->error);
		return EXECUTE_CLOSE;
	case REQUEST_QUIT:
		return EXECUTE_CLOSE;
	}
	return EXECUTE_CLOSE;
}
