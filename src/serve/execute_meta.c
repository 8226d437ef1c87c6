/*
 * execute_meta.c: the meta commands, with stale values and the one client that may renew them.
 *
 * A value carries 32 marks: whether it is stale, whether some client has been told that it won
 * the right to renew it, and when it was stored.  Who reads them and who sets them is one pure
 * decision, so of several meta gets exactly one wins.  A meta get decides on what a Get found
 * first, and only if something is to be changed, once more inside execute_change(): a hit that
 * changes nothing costs what a Get costs.
 */
#include "serve/execute.h"

/* ---- replies ------------------------------------------------------------------------------ */

/* What the letters of return flags stand for. */
struct answer {
	const char *code;
	bool has_value; /* value follows, and its length stands behind the code */
	struct cache_value value;
	uint64_t now_ms;
	bool fetched;
	uint32_t age_s;
	bool known; /* value is meant by flags about it */
};

static void write_ttl(struct out *o, const struct answer *a)
{
	if (a->value.expiry_ms == 0) {
		out_bytes(o, " t-1", 4);
		return;
	}
	/* Rounded up: what was stored for 60 seconds a moment ago has 60 left. */
	uint64_t left_ms = a->value.expiry_ms - min_u64(a->now_ms, a->value.expiry_ms);

	out_bytes(o, " t", 2);
	out_u64(o, (left_ms + 999) / 1000);
}

static void write_key(struct out *o, const struct request *r)
{
	out_bytes(o, " k", 2);
	out_bytes(o, r->meta.sent_key, r->meta.sent_key_bytes);
	if (meta_has(&r->meta, 'b'))
		out_bytes(o, " b", 2);
}

static void write_number(struct out *o, char letter, uint64_t n)
{
	out_char(o, ' ');
	out_char(o, letter);
	out_u64(o, n);
}

static void write_flag(struct out *o, const struct request *r, const struct answer *a, char letter)
{
	switch (letter) {
	case 'O':
		out_bytes(o, " O", 2);
		out_bytes(o, r->meta.opaque, r->meta.opaque_bytes);
		return;
	case 'k':
		write_key(o, r);
		return;
	case 'c':
		if (a->known || r->kind == REQUEST_META_SET)
			write_number(o, 'c', a->value.cas_id);
		return;
	default:
		break;
	}
	if (!a->known || r->kind == REQUEST_META_SET)
		return;
	switch (letter) {
	case 't':
		write_ttl(o, a);
		break;
	case 's':
		write_number(o, 's', a->value.bytes);
		break;
	case 'f':
		write_number(o, 'f', a->value.flags);
		break;
	case 'h':
		write_number(o, 'h', a->fetched);
		break;
	case 'l':
		write_number(o, 'l', a->age_s);
		break;
	default:
		break;
	}
}

/* The line up to, not including, its end. */
static void write_head(struct executor *e, const struct request *r, const struct answer *a)
{
	struct out *o = e->out;

	if (a->has_value) {
		out_bytes(o, "VA ", 3);
		out_u64(o, a->value.bytes);
	} else {
		out_string(o, a->code);
	}
	for (uint32_t i = 0; i < r->meta.count; i++)
		write_flag(o, r, a, r->meta.order[i]);
}

static void write_tail(struct executor *e, const struct answer *a)
{
	out_end_line(e->out);
	if (!a->has_value)
		return;
	out_bytes(e->out, a->value.data, a->value.bytes);
	out_end_line(e->out);
}

static void write_answer(struct executor *e, const struct request *r, const struct answer *a)
{
	write_head(e, r, a);
	write_tail(e, a);
}

/* Errors are answered however quiet the request. */
static void write_error(struct executor *e, int status)
{
	out_string(e->out, execute_error_line(e, status));
	out_end_line(e->out);
}

/* The two letters for what came of a change, or NULL for an error. */
static const char *code_of(int status, const char *miss)
{
	switch (status) {
	case 0:
		return "HD";
	case FORGE_MISS:
		return miss;
	case FORGE_NOT_STORED:
		return "NS";
	case FORGE_EXISTS:
		return "EX";
	default:
		return NULL;
	}
}

/* The explicit id of E, 0 without. */
static uint64_t new_cas(const struct request_meta *m)
{
	return meta_has(m, 'E') ? m->new_cas : 0;
}

/* ---- get ---------------------------------------------------------------------------------- */

struct get_state {
	const struct request_meta *meta;
	uint64_t now_ms;
	uint64_t ttl_expiry_ms, vivify_expiry_ms;
	/* What was decided. */
	bool made, won, stale, sent_before, fetched;
	uint32_t age_s;
	struct cache_value value; /* as it is afterwards, but for a new id */
};

static bool is_due(const struct get_state *s, const struct cache_value *old)
{
	if (!meta_has(s->meta, 'R') || s->meta->recache_ttl < 0 || old->expiry_ms == 0)
		return false;
	uint64_t left_ms = old->expiry_ms - min_u64(s->now_ms, old->expiry_ms);

	return left_ms / 1000 < (uint64_t)s->meta->recache_ttl;
}

static void decide_vivify(struct get_state *s, struct cache_decision *out)
{
	if (!meta_has(s->meta, 'N')) {
		out->status = FORGE_MISS;
		return;
	}
	out->verdict = CACHE_STORE;
	out->item = (struct cache_item){
	    .value = "",
	    .marks = marks_of_now(s->now_ms) | MARK_WIN_SENT,
	    .expiry_ms = s->vivify_expiry_ms,
	};
	s->made = s->won = true;
	s->value = (struct cache_value){.data = "", .expiry_ms = s->vivify_expiry_ms};
}

static void decide_get(void *context, const struct cache_value *old, struct cache_decision *out)
{
	struct get_state *s = context;
	const struct request_meta *m = s->meta;

	s->made = s->won = s->stale = s->sent_before = false;
	if (!old) {
		decide_vivify(s, out);
		return;
	}
	uint32_t marks = old->marks;

	s->stale = marks & MARK_STALE;
	s->sent_before = marks & MARK_WIN_SENT;
	s->won = !s->sent_before && (s->stale || is_due(s, old));
	s->fetched = marks & MARK_FETCHED;
	s->age_s = marks_age_s(marks, s->now_ms);
	s->value = *old;
	if (s->won)
		marks |= MARK_WIN_SENT;
	if ((meta_has(m, 'h') || meta_has(m, 'l')) && !meta_has(m, 'u'))
		marks =
		    marks_of_now(s->now_ms) | (marks & (MARK_STALE | MARK_WIN_SENT)) | MARK_FETCHED;
	if (meta_has(m, 'T'))
		s->value.expiry_ms = s->ttl_expiry_ms;
	if (marks == old->marks && s->value.expiry_ms == old->expiry_ms)
		return;
	/* The value is the same, and so is its id, unless the client brings one. */
	if (meta_has(m, 'T') && new_cas(m))
		s->value.cas_id = new_cas(m);
	out->verdict = CACHE_STORE;
	out->same_bytes = 1;
	out->cas_id = s->value.cas_id;
	out->item = (struct cache_item){
	    .value = old->data,
	    .bytes = old->bytes,
	    .flags = old->flags,
	    .marks = marks,
	    .expiry_ms = s->value.expiry_ms,
	};
}

static MAY_WAIT int get_and_change(struct executor *e, const struct request *r, struct get_state *s)
{
	struct cache_change change = {.decide = decide_get, .context = s};
	struct cache_decision first = {0};
	struct cache_value found;
	uint64_t cas_id = 0;
	int status = execute_get(e, request_key(r), &found);

	if (status && status != FORGE_MISS)
		return status;
	decide_get(s, status ? NULL : &found, &first);
	if (first.verdict == CACHE_KEEP)
		return first.status;
	if (e->got)
		e->got->is_valid = false;
	status = execute_change(e, request_key(r), &change, &cas_id);
	if (status == 0 && s->made)
		s->value.cas_id = cas_id;
	return status;
}

static MAY_WAIT void execute_meta_get(struct executor *e, const struct request *r)
{
	const struct request_meta *m = &r->meta;
	struct serve_counts *t = e->counts;
	struct get_state s = {.meta = m, .now_ms = session_now_ms(e->session)};
	struct answer a = {.code = "HD", .now_ms = s.now_ms};

	counts_up(&t->cmd_get);
	if (meta_has(m, 'T')) {
		counts_up(&t->cmd_touch);
		s.ttl_expiry_ms = execute_expiry_ms(e, m->ttl);
	}
	if (meta_has(m, 'N'))
		s.vivify_expiry_ms = execute_expiry_ms(e, m->vivify_ttl);
	int status = get_and_change(e, r, &s);
	/* What was made just now was not there for who asked. */
	bool hit = status == 0 && !s.made;

	counts_up(hit ? &t->get_hits : &t->get_misses);
	if (meta_has(m, 'T'))
		counts_up(hit ? &t->touch_hits : &t->touch_misses);
	if (status == FORGE_MISS) {
		a.code = "EN";
		if (!r->quiet)
			write_answer(e, r, &a);
		return;
	}
	if (status == 0 && meta_has(m, 'v') && !out_reserve(e->out, s.value.bytes))
		status = FORGE_E_NO_MEMORY;
	if (status) {
		write_error(e, status);
		return;
	}
	a.known = true;
	a.has_value = meta_has(m, 'v');
	a.value = s.value;
	a.fetched = s.fetched;
	a.age_s = s.age_s;
	write_head(e, r, &a);
	if (s.sent_before)
		out_bytes(e->out, " Z", 2);
	if (s.stale)
		out_bytes(e->out, " X", 2);
	if (s.won)
		out_bytes(e->out, " W", 2);
	write_tail(e, &a);
}

/* ---- set ---------------------------------------------------------------------------------- */

static uint8_t store_of_mode(char mode)
{
	switch (mode) {
	case 'E':
		return STORE_ADD;
	case 'A':
		return STORE_APPEND;
	case 'P':
		return STORE_PREPEND;
	case 'R':
		return STORE_REPLACE;
	default:
		return STORE_SET;
	}
}

static MAY_WAIT void execute_meta_set(struct executor *e, const struct request *r)
{
	const struct request_meta *m = &r->meta;
	struct answer a = {0};
	uint8_t mode = store_of_mode(m->mode);
	bool joins = mode == STORE_APPEND || mode == STORE_PREPEND;
	struct store_want want = {
	    .mode = mode,
	    /* What is to be new has no id that could be asked for. */
	    .has_cas = meta_has(m, 'C') && mode != STORE_ADD,
	    /* A part that was meant for another value is not joined to this one. */
	    .stale_if_changed = meta_has(m, 'I') && !joins,
	    .vivify = meta_has(m, 'N') && joins,
	    .cas = m->cas,
	    .new_cas = new_cas(m),
	    .item = {.value = r->value,
		     .bytes = r->value_bytes,
		     .flags = meta_has(m, 'F') ? m->client_flags : 0,
		     .marks = marks_of_now(session_now_ms(e->session))},
	};

	if (want.vivify)
		want.item.expiry_ms = execute_expiry_ms(e, m->vivify_ttl);
	else if (meta_has(m, 'T'))
		want.item.expiry_ms = execute_expiry_ms(e, m->ttl);
	int status = execute_store(e, request_key(r), &want, &a.value.cas_id);

	execute_count_store(e, status, want.has_cas);
	/*
	 * Where a key must be there, its absence is "not stored"; with an id it is "not found", but
	 * for a part that has nothing to be joined to.
	 */
	a.code = code_of(status, want.has_cas && !joins ? "NF" : "NS");
	if (status)
		a.value.cas_id = 0;
	if (status < 0 && want.mode == STORE_SET)
		execute_forget(e, request_key(r));
	if (!a.code)
		write_error(e, status);
	else if (status || !r->quiet)
		write_answer(e, r, &a);
}

/* ---- delete ------------------------------------------------------------------------------- */

struct delete_state {
	const struct request_meta *meta;
	uint64_t expiry_ms; /* T */
};

/* I marks the value stale instead of removing it, x takes the value and leaves the key. */
static void decide_mark(void *context, const struct cache_value *old, struct cache_decision *out)
{
	const struct delete_state *s = context;
	const struct request_meta *m = s->meta;

	if (!old) {
		out->status = FORGE_MISS;
		return;
	}
	if (meta_has(m, 'C') && old->cas_id != m->cas) {
		out->status = FORGE_EXISTS;
		return;
	}
	bool emptied = meta_has(m, 'x');

	out->verdict = CACHE_STORE;
	out->same_bytes = !emptied;
	out->cas_id = new_cas(m);
	out->item = (struct cache_item){
	    .value = emptied ? "" : old->data,
	    .bytes = emptied ? 0 : old->bytes,
	    .flags = emptied ? 0 : old->flags,
	    .marks = old->marks,
	    .expiry_ms = old->expiry_ms,
	};
	if (meta_has(m, 'I')) {
		out->item.marks = (old->marks & ~MARK_WIN_SENT) | MARK_STALE;
		if (meta_has(m, 'T'))
			out->item.expiry_ms = s->expiry_ms;
	}
}

static MAY_WAIT void execute_meta_delete(struct executor *e, const struct request *r)
{
	const struct request_meta *m = &r->meta;
	struct delete_state s = {.meta = m};
	struct cache_change change = {.decide = decide_mark, .context = &s};
	struct answer a = {0};
	int status;

	if (meta_has(m, 'T'))
		s.expiry_ms = execute_expiry_ms(e, m->ttl);
	if (meta_has(m, 'I') || meta_has(m, 'x'))
		status = execute_change(e, request_key(r), &change, NULL);
	else if (meta_has(m, 'C'))
		status = view_delete_if(e->view, request_key(r), m->cas);
	else
		status = view_delete(e->view, request_key(r));
	if (status == 0)
		counts_up(&e->counts->delete_hits);
	else if (status == FORGE_MISS)
		counts_up(&e->counts->delete_misses);
	a.code = code_of(status, "NF");
	if (!a.code)
		write_error(e, status);
	else if (status || !r->quiet)
		write_answer(e, r, &a);
}

/* ---- arithmetic --------------------------------------------------------------------------- */

static MAY_WAIT void execute_meta_arithmetic(struct executor *e, const struct request *r)
{
	const struct request_meta *m = &r->meta;
	struct arithmetic_result result = {0};
	struct answer a = {.now_ms = session_now_ms(e->session)};
	struct arithmetic_want want = {
	    .delta = m->delta,
	    .decrement = m->mode == 'D',
	    .create = meta_has(m, 'N'),
	    .has_cas = meta_has(m, 'C'),
	    .has_expiry = meta_has(m, 'T'),
	    .initial = m->initial,
	    .cas = m->cas,
	    .new_cas = new_cas(m),
	};
	char digits[20];
	struct out text = {.data = digits, .room = sizeof(digits)};

	if (want.create)
		want.create_expiry_ms = execute_expiry_ms(e, m->vivify_ttl);
	if (want.has_expiry)
		want.expiry_ms = execute_expiry_ms(e, m->ttl);
	int status = execute_arithmetic(e, request_key(r), &want, &result);

	a.code = code_of(status, "NF");
	if (!a.code) {
		write_error(e, status);
		return;
	}
	if (status == 0) {
		out_u64(&text, result.number);
		a.known = true;
		a.has_value = meta_has(m, 'v');
		a.value = (struct cache_value){
		    .data = digits,
		    .bytes = (uint32_t)text.used,
		    .cas_id = result.cas_id,
		    .expiry_ms = result.expiry_ms,
		};
	}
	if (status || !r->quiet)
		write_answer(e, r, &a);
}

/* ---- debug -------------------------------------------------------------------------------- */

static void write_pair(struct out *o, const char *name, int64_t n)
{
	out_string(o, name);
	out_i64(o, n);
}

static MAY_WAIT void execute_meta_debug(struct executor *e, const struct request *r)
{
	struct out *o = e->out;
	uint64_t now_ms = session_now_ms(e->session);
	struct cache_value v;
	int status = view_get(e->view, request_key(r), &v);

	if (status == FORGE_MISS) {
		out_bytes(o, "EN\r\n", 4);
		return;
	}
	if (status) {
		write_error(e, status);
		return;
	}
	int64_t left_s =
	    v.expiry_ms ? (int64_t)((v.expiry_ms - min_u64(now_ms, v.expiry_ms) + 999) / 1000) : -1;

	out_bytes(o, "ME ", 3);
	out_bytes(o, r->meta.sent_key, r->meta.sent_key_bytes);
	write_pair(o, " exp=", left_s);
	write_pair(o, " la=", marks_age_s(v.marks, now_ms));
	out_bytes(o, " cas=", 5);
	out_u64(o, v.cas_id);
	out_string(o, v.marks & MARK_FETCHED ? " fetch=yes" : " fetch=no");
	out_string(o, " cls=1");
	write_pair(
	    o, " size=", (int64_t)layout_object_units(r->key_bytes, v.bytes) * LAYOUT_UNIT_BYTES);
	out_end_line(o);
}

void execute_meta(struct executor *e, const struct request *r)
{
	switch (r->kind) {
	case REQUEST_META_GET:
		execute_meta_get(e, r);
		break;
	case REQUEST_META_SET:
		execute_meta_set(e, r);
		break;
	case REQUEST_META_DELETE:
		execute_meta_delete(e, r);
		break;
	case REQUEST_META_ARITHMETIC:
		execute_meta_arithmetic(e, r);
		break;
	case REQUEST_META_DEBUG:
		execute_meta_debug(e, r);
		break;
	default:
		out_bytes(e->out, "MN\r\n", 4);
		break;
	}
}
