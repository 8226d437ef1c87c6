/* tcp_control_serve.c: control requests, most of which the server's owner answers. */
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "base/clock.h"
#include "base/compiler.h"
#include "fabric/tcp_server_inside.h"

void tcp_describe(struct tcp_server *s, struct tcp_conn *c, struct wire_welcome *out)
{
	*out = (struct wire_welcome){
	    .version = WIRE_VERSION,
	    .kind = c->kind,
	    .role = c->role,
	    .export_bytes = s->memory.bytes,
	    .boot = s->boot,
	    .batch_ops_max = TCP_SERVER_IN_BYTES / WIRE_REQUEST_BYTES_MAX,
	};
	if (s->calls.describe)
		s->calls.describe(s->calls.context, out);
	out->clock_ns = clock_now_ns(clock_monotonic());
}

static int put_word(unsigned char *out, uint32_t *bytes, uint64_t word)
{
	memcpy(out, &word, sizeof(word));
	*bytes = sizeof(word);
	return FORGE_OK;
}

/* Requests that concern locks: does the role permit them? */
static int may(const struct tcp_conn *c, uint8_t code)
{
	return c->role == WIRE_FULL || (c->role == WIRE_READ_ONLY && code == WIRE_IS_HELD);
}

static int lock_request(struct tcp_conn *c, const struct wire_request *r, unsigned char *out,
			uint32_t *bytes)
{
	const struct tcp_server_calls *calls = &c->thread->server->calls;
	void **holder = &c->instance->holder;
	int held;

	if (!may(c, r->code))
		return FORGE_E_DENIED;
	if (!calls->hold)
		return FORGE_E_INVAL;
	switch (r->code) {
	case WIRE_HOLD:
		return calls->hold(calls->context, holder, r->raddr);
	case WIRE_RELEASE:
		return calls->release(calls->context, holder, r->raddr);
	case WIRE_HOLD_ALL:
		return calls->hold_all(calls->context, holder, r->raddr);
	case WIRE_RELEASE_ALL:
		return calls->release_all(calls->context, holder, r->raddr);
	default:
		held = calls->is_held(calls->context, r->raddr);
		return held < 0 ? held : put_word(out, bytes, (uint64_t)held);
	}
}

int tcp_control_execute(struct tcp_conn *c, const struct wire_request *r, unsigned char *out,
			uint32_t *bytes)
{
	struct wire_welcome w;

	switch (r->code) {
	case WIRE_HOLD:
	case WIRE_RELEASE:
	case WIRE_IS_HELD:
	case WIRE_HOLD_ALL:
	case WIRE_RELEASE_ALL:
		return lock_request(c, r, out, bytes);
	case WIRE_TIME:
		return put_word(out, bytes, clock_now_ns(clock_monotonic()));
	case WIRE_INFO:
		tcp_describe(c->thread->server, c, &w);
		memcpy(out, &w, sizeof(w));
		*bytes = sizeof(w);
		return FORGE_OK;
	case WIRE_STAT:
		*bytes =
		    (uint32_t)tcp_server_print(c->thread->server, (char *)out, WIRE_STAT_BYTES_MAX);
		return FORGE_OK;
	case WIRE_PING:
		return FORGE_OK;
	default:
		return FORGE_E_FORMAT;
	}
}

static size_t put_line(char *text, size_t room, size_t used, const char *name, uint64_t value)
{
	int n = snprintf(text + used, room - used, "%s %" PRIu64 "\n", name, value);

	return n > 0 && (size_t)n < room - used ? used + (size_t)n : used;
}

size_t tcp_server_print(struct tcp_server *s, char *text, size_t text_bytes)
{
	struct tcp_server_counts n;
	struct gate_counts gate = {0};
	size_t used = 0;

	tcp_server_count(s, &n);
	if (s->door)
		gate_count(door_gate(s->door), &gate);
	const struct {
		const char *name;
		uint64_t value;
	} lines[] = {
	    {"threads", s->thread_count},
	    {"connections", n.connections},
	    {"connections_total", n.connections_total},
	    {"connections_refused", n.refused},
	    {"strangers", gate.pending},
	    {"strangers_failed", gate.failed},
	    {"strangers_too_many", gate.full},
	    {"strangers_turned_away", gate.turned_away},
	    {"instances", n.instances},
	    {"instances_fenced", n.fenced},
	    {"ops_read", n.ops[FAB_READ]},
	    {"ops_write", n.ops[FAB_WRITE]},
	    {"ops_cas", n.ops[FAB_CAS]},
	    {"ops_faa", n.ops[FAB_FAA]},
	    {"ops_failed", n.ops_failed},
	    {"control_requests", n.control},
	    {"receives", n.receives},
	    {"bytes_in", n.bytes_in},
	    {"bytes_out", n.bytes_out},
	    {"cpu_us", n.cpu_ns / 1000},
	};

	for (size_t i = 0; i < ARRAY_COUNT(lines); i++)
		used = put_line(text, text_bytes, used, lines[i].name, lines[i].value);
	return used;
}
