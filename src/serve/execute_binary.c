/* execute_binary.c: requests of the binary protocol, and its responses. */
#include "serve/binary.h"
#include "serve/execute.h"
#include "serve/server.h"

struct response {
	uint8_t status;
	const void *extras;
	uint8_t extras_bytes;
	const void *key;
	uint32_t key_bytes;
	const void *value;
	uint32_t value_bytes;
	uint64_t cas;
};

static void write_response(struct executor *e, const struct request *r, const struct response *p)
{
	struct out *o = e->out;

	out_char(o, (char)BINARY_MAGIC_RESPONSE);
	out_char(o, (char)r->binary.opcode);
	out_u16_be(o, (uint16_t)p->key_bytes);
	out_char(o, (char)p->extras_bytes);
	out_char(o, 0);
	out_u16_be(o, p->status);
	out_u32_be(o, p->extras_bytes + p->key_bytes + p->value_bytes);
	out_u32_be(o, r->binary.opaque);
	out_u64_be(o, p->cas);
	if (p->extras_bytes)
		out_bytes(o, p->extras, p->extras_bytes);
	if (p->key_bytes)
		out_bytes(o, p->key, p->key_bytes);
	if (p->value_bytes)
		out_bytes(o, p->value, p->value_bytes);
}

static const char *status_text(uint8_t status)
{
	switch (status) {
	case BINARY_NOT_FOUND:
		return "Not found";
	case BINARY_EXISTS:
		return "Data exists for key.";
	case BINARY_TOO_LARGE:
		return "Too large.";
	case BINARY_INVALID:
		return "Invalid arguments";
	case BINARY_NOT_STORED:
		return "Not stored.";
	case BINARY_NOT_NUMBER:
		return "Non-numeric server-side value for incr or decr";
	case BINARY_AUTH_ERROR:
		return "Auth failure.";
	case BINARY_UNKNOWN_COMMAND:
		return "Unknown command";
	case BINARY_OUT_OF_MEMORY:
		return "Out of memory";
	default:
		return "Internal error";
	}
}

static void write_status(struct executor *e, const struct request *r, uint8_t status)
{
	const char *text = status_text(status);
	struct response p = {
	    .status = status, .value = text, .value_bytes = (uint32_t)strlen(text)};

	write_response(e, r, &p);
}

/* Success says nothing beyond its header, and nothing at all to a quiet request. */
static void write_success(struct executor *e, const struct request *r, uint64_t cas)
{
	struct response p = {.cas = cas};

	if (!r->quiet)
		write_response(e, r, &p);
}

/* The status for what a flow gave; miss and present differ from command to command. */
static uint8_t status_of(struct executor *e, int status, uint8_t miss, uint8_t present)
{
	switch (status) {
	case FORGE_MISS:
		return miss;
	case FORGE_NOT_STORED:
		return present;
	case FORGE_EXISTS:
		return BINARY_EXISTS;
	case FORGE_E_NOT_NUMBER:
		return BINARY_NOT_NUMBER;
	case FORGE_E_VALUE_LARGE:
		counts_up(&e->counts->server_errors);
		return BINARY_TOO_LARGE;
	default:
		counts_up(&e->counts->server_errors);
		return BINARY_OUT_OF_MEMORY;
	}
}

/*
 * A time beyond 31 bits is still one here, until 2106: what clients mean by -1 lives that long, as
 * with memcached, whose text protocol knows no such time.
 */
static uint64_t expiry_ms(const struct executor *e, const struct request *r)
{
	return r->exptime > INT32_MAX ? session_expiry_at(e->session, (uint64_t)r->exptime * 1000)
				      : execute_expiry_ms(e, r->exptime);
}

/* ---- lookups ------------------------------------------------------------------------------ */

static bool returns_key(uint8_t opcode)
{
	return opcode == BINARY_GETK || opcode == BINARY_GETKQ || opcode == BINARY_GATK ||
	       opcode == BINARY_GATKQ;
}

static bool sets_expiry(uint8_t opcode)
{
	return opcode == BINARY_TOUCH || opcode == BINARY_GAT || opcode == BINARY_GATQ ||
	       opcode == BINARY_GATK || opcode == BINARY_GATKQ;
}

static void write_miss(struct executor *e, const struct request *r)
{
	struct response p = {.status = BINARY_NOT_FOUND, .key = r->key, .key_bytes = r->key_bytes};

	if (r->quiet)
		return;
	if (returns_key(r->binary.opcode))
		write_response(e, r, &p);
	else
		write_status(e, r, BINARY_NOT_FOUND);
}

bool execute_binary_is_get(const struct request *r)
{
	return !r->binary.fault && r->key_bytes > 0 &&
	       (r->binary.opcode == BINARY_GET || r->binary.opcode == BINARY_GETQ ||
		r->binary.opcode == BINARY_GETK || r->binary.opcode == BINARY_GETKQ);
}

static MAY_WAIT void execute_lookup(struct executor *e, const struct request *r)
{
	struct serve_counts *t = e->counts;
	uint8_t opcode = r->binary.opcode;
	struct cache_value v;
	int status;

	if (opcode != BINARY_TOUCH)
		counts_up(&t->cmd_get);
	if (sets_expiry(opcode)) {
		status = view_touch(e->view, request_key(r), expiry_ms(e, r), &v);
		counts_up(&t->cmd_touch);
		counts_up(status == 0 ? &t->touch_hits : &t->touch_misses);
	} else {
		status = execute_get(e, request_key(r), &v);
	}
	if (opcode != BINARY_TOUCH)
		counts_up(status == 0 ? &t->get_hits : &t->get_misses);
	if (status == FORGE_MISS) {
		write_miss(e, r);
		return;
	}
	if (status == 0 && opcode != BINARY_TOUCH && !out_reserve(e->out, v.bytes))
		status = FORGE_E_NO_MEMORY;
	if (status) {
		write_status(e, r, status_of(e, status, 0, 0));
		return;
	}
	const uint8_t extras[4] = {(uint8_t)(v.flags >> 24), (uint8_t)(v.flags >> 16),
				   (uint8_t)(v.flags >> 8), (uint8_t)v.flags};
	struct response p = {.extras = extras, .extras_bytes = sizeof(extras), .cas = v.cas_id};

	if (returns_key(opcode)) {
		p.key = r->key;
		p.key_bytes = r->key_bytes;
	}
	if (opcode != BINARY_TOUCH) {
		p.value = v.data;
		p.value_bytes = v.bytes;
	}
	write_response(e, r, &p);
}

/* ---- changes ------------------------------------------------------------------------------ */

static uint8_t store_of_opcode(uint8_t opcode)
{
	switch (opcode) {
	case BINARY_ADD:
	case BINARY_ADDQ:
		return STORE_ADD;
	case BINARY_REPLACE:
	case BINARY_REPLACEQ:
		return STORE_REPLACE;
	case BINARY_APPEND:
	case BINARY_APPENDQ:
		return STORE_APPEND;
	case BINARY_PREPEND:
	case BINARY_PREPENDQ:
		return STORE_PREPEND;
	default:
		return STORE_SET;
	}
}

static MAY_WAIT void execute_binary_store(struct executor *e, const struct request *r)
{
	struct store_want want = {
	    .mode = store_of_opcode(r->binary.opcode),
	    .has_cas = r->binary.cas != 0,
	    .cas = r->binary.cas,
	};
	bool joins = want.mode == STORE_APPEND || want.mode == STORE_PREPEND;
	uint64_t cas_id = 0;

	want.item = (struct cache_item){
	    .value = r->value,
	    .bytes = r->value_bytes,
	    .flags = joins ? 0 : r->flags,
	    .marks = marks_of_now(session_now_ms(e->session)),
	    .expiry_ms = joins ? 0 : expiry_ms(e, r),
	};
	int status = execute_store(e, request_key(r), &want, &cas_id);

	execute_count_store(e, status, want.has_cas);
	if (status < 0 && want.mode == STORE_SET)
		execute_forget(e, request_key(r));
	if (status)
		write_status(e, r,
			     status_of(e, status, joins ? BINARY_NOT_STORED : BINARY_NOT_FOUND,
				       BINARY_EXISTS));
	else
		write_success(e, r, cas_id);
}

static MAY_WAIT void execute_binary_arithmetic(struct executor *e, const struct request *r)
{
	uint8_t opcode = r->binary.opcode;
	struct arithmetic_want want = {
	    .delta = r->number,
	    .decrement = opcode == BINARY_DECREMENT || opcode == BINARY_DECREMENTQ,
	    .create = (uint32_t)r->exptime != BINARY_DO_NOT_CREATE,
	    .has_cas = r->binary.cas != 0,
	    .initial = r->binary.initial,
	    .cas = r->binary.cas,
	};
	struct arithmetic_result result;
	char number[8];
	struct out body = {.data = number, .room = sizeof(number)};

	if (want.create)
		want.create_expiry_ms = expiry_ms(e, r);
	int status = execute_arithmetic(e, request_key(r), &want, &result);

	if (status) {
		write_status(e, r, status_of(e, status, BINARY_NOT_FOUND, BINARY_EXISTS));
		return;
	}
	out_u64_be(&body, result.number);
	struct response p = {.value = number, .value_bytes = sizeof(number), .cas = result.cas_id};

	if (!r->quiet)
		write_response(e, r, &p);
}

static MAY_WAIT void execute_binary_delete(struct executor *e, const struct request *r)
{
	struct serve_counts *t = e->counts;
	int status = r->binary.cas ? view_delete_if(e->view, request_key(r), r->binary.cas)
				   : view_delete(e->view, request_key(r));

	if (status == 0)
		counts_up(&t->delete_hits);
	else if (status == FORGE_MISS)
		counts_up(&t->delete_misses);
	if (status)
		write_status(e, r, status_of(e, status, BINARY_NOT_FOUND, BINARY_EXISTS));
	else
		write_success(e, r, 0);
}

static MAY_WAIT void execute_binary_flush(struct executor *e, const struct request *r)
{
	if (!e->flush_permitted) {
		write_status(e, r, BINARY_UNKNOWN_COMMAND);
		return;
	}
	int status = execute_flush_order(e, r);

	if (status)
		write_status(e, r, status_of(e, status, 0, 0));
	else
		write_success(e, r, 0);
}

static MAY_WAIT void execute_binary_too_large(struct executor *e, const struct request *r)
{
	execute_count_store(e, FORGE_E_VALUE_LARGE, false);
	if (store_of_opcode(r->binary.opcode) == STORE_SET)
		execute_forget(e, request_key(r));
	write_status(e, r, BINARY_TOO_LARGE);
}

/* ---- the rest ----------------------------------------------------------------------------- */

void execute_binary_stat(struct executor *e, const struct request *r, const char *name,
			 const char *value)
{
	struct response p = {
	    .key = name,
	    .key_bytes = (uint32_t)strlen(name),
	    .value = value,
	    .value_bytes = (uint32_t)strlen(value),
	};

	write_response(e, r, &p);
}

static void execute_binary_stats(struct executor *e, const struct request *r)
{
	struct response end = {0};

	if (e->stats(e->context, e, r))
		write_response(e, r, &end);
	else
		write_status(e, r, BINARY_NOT_FOUND);
}

static void execute_version(struct executor *e, const struct request *r)
{
	struct response p = {.value = SERVER_PROTOCOL_VERSION,
			     .value_bytes = sizeof(SERVER_PROTOCOL_VERSION) - 1};

	write_response(e, r, &p);
}

static void execute_sasl_list(struct executor *e, const struct request *r)
{
	struct response p = {.value = "PLAIN", .value_bytes = 5};

	write_response(e, r, &p);
}

static void execute_sasl_auth(struct executor *e, const struct request *r)
{
	struct response p = {.value = "Authenticated", .value_bytes = 13};
	bool plain = r->key_bytes == 5 && memcmp(r->key, "PLAIN", 5) == 0;

	counts_up(&e->counts->auth_cmds);
	e->is_authorised = plain && auth_check_plain(e->auth, r->value, r->value_bytes);
	if (e->is_authorised) {
		write_response(e, r, &p);
		return;
	}
	counts_up(&e->counts->auth_errors);
	write_status(e, r, BINARY_AUTH_ERROR);
}

/* PLAIN has one step, so there is nothing to go on with. */
static bool execute_sasl(struct executor *e, const struct request *r)
{
	if (!e->auth)
		return false;
	switch (r->binary.opcode) {
	case BINARY_SASL_LIST:
		execute_sasl_list(e, r);
		return true;
	case BINARY_SASL_AUTH:
		execute_sasl_auth(e, r);
		return true;
	case BINARY_SASL_STEP:
		write_status(e, r, BINARY_AUTH_ERROR);
		return true;
	default:
		return false;
	}
}

enum execute_result execute_binary_stranger(struct executor *e, const struct request *r)
{
	uint8_t opcode = r->binary.opcode;

	if (r->binary.fault)
		write_status(e, r, r->binary.fault);
	else if (opcode == BINARY_VERSION)
		execute_version(e, r);
	else if (!execute_sasl(e, r))
		write_status(e, r, BINARY_AUTH_ERROR);
	return opcode == BINARY_QUIT || opcode == BINARY_QUITQ ? EXECUTE_CLOSE : EXECUTE_ON;
}

static MAY_WAIT void execute_fault(struct executor *e, const struct request *r)
{
	if (r->binary.fault == BINARY_TOO_LARGE) {
		execute_binary_too_large(e, r);
		return;
	}
	counts_up(&e->counts->protocol_errors);
	write_status(e, r, r->binary.fault);
}

enum execute_result execute_binary(struct executor *e, const struct request *r)
{
	if (r->binary.fault) {
		execute_fault(e, r);
		return EXECUTE_ON;
	}
	switch (r->binary.opcode) {
	case BINARY_GET:
	case BINARY_GETQ:
	case BINARY_GETK:
	case BINARY_GETKQ:
	case BINARY_TOUCH:
	case BINARY_GAT:
	case BINARY_GATQ:
	case BINARY_GATK:
	case BINARY_GATKQ:
		execute_lookup(e, r);
		break;
	case BINARY_SET:
	case BINARY_SETQ:
	case BINARY_ADD:
	case BINARY_ADDQ:
	case BINARY_REPLACE:
	case BINARY_REPLACEQ:
	case BINARY_APPEND:
	case BINARY_APPENDQ:
	case BINARY_PREPEND:
	case BINARY_PREPENDQ:
		execute_binary_store(e, r);
		break;
	case BINARY_INCREMENT:
	case BINARY_INCREMENTQ:
	case BINARY_DECREMENT:
	case BINARY_DECREMENTQ:
		execute_binary_arithmetic(e, r);
		break;
	case BINARY_DELETE:
	case BINARY_DELETEQ:
		execute_binary_delete(e, r);
		break;
	case BINARY_FLUSH:
	case BINARY_FLUSHQ:
		execute_binary_flush(e, r);
		break;
	case BINARY_STAT:
		execute_binary_stats(e, r);
		break;
	case BINARY_VERSION:
		execute_version(e, r);
		break;
	case BINARY_NOOP:
	case BINARY_VERBOSITY:
		write_success(e, r, 0);
		break;
	case BINARY_QUIT:
	case BINARY_QUITQ:
		write_success(e, r, 0);
		return EXECUTE_CLOSE;
	default:
		if (!execute_sasl(e, r))
			write_status(e, r, BINARY_UNKNOWN_COMMAND);
		break;
	}
	return EXECUTE_ON;
}
