/*
 * link_tcp.c: a pool behind a socket: the node is asked, over a control connection, for what a
 * process on its host finds out by itself.
 *
 * The link is one instance in the sense of doc/wire.md: it lives as long as its control connection,
 * the node holds the locks of its compute-node ids in its name, and its data connections die with
 * it.  Each connection must lead to the very node that the link was opened on: a node that was
 * started anew knows nothing of the old one's locks, and has recovered, or is about to recover,
 * what their owners left.  So such a connection is given up as FORGE_E_NODE, and who wants to go on
 * opens another link.  Likewise, when one connection loses the node all do: a verb whose fate is
 * not known may still take effect, and must not do so after its compute node has left in good order
 * and somebody else has its id.  As it is, it never leaves; the id's lock goes when the node has
 * done with all connections, and then what it owned is recovered.
 */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "access/pass.h"
#include "base/cancel.h"
#include "base/compiler.h"
#include "base/log.h"
#include "base/status.h"
#include "client/link.h"
#include "client/name.h"
#include "fabric/tcp_control.h"
#include "pool/time.h"

/* Looks at the node's clock to begin with: the quickest counts. */
#define FIRST_LOOKS 8u

struct tcp_link {
	struct link link;
	struct tcp_settings settings;
	struct pass *pass;     /* what is shown at the node, or NULL */
	struct cancel *cancel; /* of those who opened it; NULL: none, or none any more */
	struct tcp_control *control;
	struct wire_welcome welcome;
	struct liveness liveness;
	struct pool_clock clock;
	_Atomic int lost;	   /* by one connection, so by all */
	_Atomic uint64_t heard_ns; /* by any of them */
	char where[NAME_WHERE_BYTES + 16];
};

/* ---- liveness and time -------------------------------------------------------------------- */

/* Whatever goes wrong, the owner is not proven dead, and that is all a caller may conclude. */
static int hold(void *context, uint32_t cn)
{
	struct tcp_link *t = context;

	return tcp_control_hold(t->control, cn) ? FORGE_E_AGAIN : 0;
}

/* If it does not reach the node, the instance is at its end and all its locks with it. */
static void release(void *context, uint32_t cn)
{
	struct tcp_link *t = context;

	(void)tcp_control_release(t->control, cn);
}

static int read_clock(void *context, uint64_t *node_ns)
{
	struct tcp_link *t = context;

	return tcp_control_time(t->control, node_ns);
}

static int ask_clock(void *context)
{
	return tcp_control_ask_time(((struct tcp_link *)context)->control);
}

static int take_clock(void *context, uint64_t *node_ns)
{
	return tcp_control_time_answer(((struct tcp_link *)context)->control, node_ns);
}

static const struct pool_clock_source clock_source = {read_clock, ask_clock, take_clock};

/* ---- the medium --------------------------------------------------------------------------- */

/* The name goes before what is beside it, and that before the environment. */
static int open_pass(const struct pool_name *name, const struct pass_wish *beside,
		     struct pass **out, char *error_text, size_t error_bytes)
{
	static const struct pass_wish nothing;
	const struct name_access *a = &name->access;
	struct pass_wish wish = {
	    .key_file = name_text(name, a->key_file),
	    .key_name = name_text(name, a->key_name),
	    .tls = name->tls,
	    .files = {name_text(name, a->certificate), name_text(name, a->certificate_key),
		      name_text(name, a->authority)},
	    .host = name_text(name, a->tls_name),
	};

	if (!beside)
		beside = &nothing;
	if (!wish.key_file)
		wish.key_file = beside->key_file;
	if (!wish.key_file)
		wish.key_file = secure_getenv("FORGE_KEY_FILE");
	if (!wish.key_file)
		wish.key_line = secure_getenv("FORGE_KEY");
	if (wish.tls && !wish.files.authority)
		wish.files.authority = beside->files.authority;
	return pass_open(&wish, out, error_text, error_bytes);
}

static void settings_of(const struct pool_name *name, char *where, size_t where_bytes,
			struct tcp_settings *out)
{
	if (name->kind == NAME_UNIX)
		snprintf(where, where_bytes, "unix:%s", name->where);
	else
		/* As it was written, for what is said of it. */
		snprintf(where, where_bytes,
			 strchr(name->where, ':') ? "%s://[%s]:%u" : "%s://%s:%u",
			 name->is_tls_name ? "tls" : "tcp", name->where, name->port);
	*out = (struct tcp_settings){
	    .where = where,
	    .deadline_ms = (uint32_t)(name->timeout_us / 1000),
	};
	tcp_instance(out->instance);
}

static int refuse_latency(const struct pool_name *name, char *error_text, size_t error_bytes)
{
	if (!name->latency_us)
		return 0;
	snprintf(error_text, error_bytes,
		 "a pool behind a socket has a latency of its own: leave latency= out of its name");
	return FORGE_E_INVAL;
}

static void close_tcp(struct link *l)
{
	struct tcp_link *t = (struct tcp_link *)l;

	cancel_watch(t->cancel, NULL);
	tcp_control_close(t->control);
	pass_close(t->pass);
	free(t);
}

static void keep_tcp(struct link *l)
{
	struct tcp_link *t = (struct tcp_link *)l;

	cancel_watch(t->cancel, NULL);
	t->settings.cancel = NULL;
	t->cancel = NULL;
}

static void end_tcp(struct link *l)
{
	struct tcp_link *t = (struct tcp_link *)l;

	atomic_store_explicit(&t->lost, 1, memory_order_relaxed);
	tcp_control_end(t->control);
}

static int reach(struct tcp_link *t, char *error_text, size_t error_bytes)
{
	int status =
	    tcp_control_open(&t->settings, &t->welcome, error_text, error_bytes, &t->control);

	if (status)
		return status;
	status = pool_clock_look(&t->clock, clock_monotonic(), FIRST_LOOKS);
	if (status)
		snprintf(error_text, error_bytes, "%s: asking for its time: %s", t->where,
			 status_sentence(status));
	return status;
}

static int open_tcp(const struct pool_name *name, int flags, const struct pass_wish *beside,
		    struct cancel *cancel, struct link **out, char *error_text, size_t error_bytes)
{
	int status = refuse_latency(name, error_text, error_bytes);
	struct tcp_link *t = status ? NULL : calloc(1, sizeof(*t));

	if (status)
		return status;
	if (!t) {
		snprintf(error_text, error_bytes, "%s", status_sentence(FORGE_E_NO_MEMORY));
		return FORGE_E_NO_MEMORY;
	}
	settings_of(name, t->where, sizeof(t->where), &t->settings);
	t->settings.role = flags & LINK_METRICS	    ? WIRE_METRICS
			   : flags & LINK_READ_ONLY ? WIRE_READ_ONLY
						    : WIRE_FULL;
	t->settings.fingerprint = layout_fingerprint();
	t->settings.joins = 1;
	t->settings.lost = &t->lost;
	t->settings.heard_ns = &t->heard_ns;
	t->settings.cancel = t->cancel = cancel;
	cancel_watch(cancel, &t->lost); /* those that are welcome, too */
	pool_clock_init(&t->clock, &clock_source, t);
	t->liveness = (struct liveness){t, hold, release};
	status = open_pass(name, beside, &t->pass, error_text, error_bytes);
	t->settings.pass = t->pass;
	if (!status)
		status = reach(t, error_text, error_bytes);
	if (status) {
		close_tcp(&t->link);
		return status;
	}
	t->link.liveness = &t->liveness;
	t->link.bytes = t->welcome.export_bytes;
	t->link.pool_id = t->welcome.pool_id;
	t->link.clock = &t->clock;
	*out = &t->link;
	return 0;
}

static int connect_tcp(struct link *l, struct fab **out)
{
	struct tcp_link *t = (struct tcp_link *)l;
	struct wire_welcome welcome;
	struct fab *fab;
	char text[256];
	int status = tcp_open(&t->settings, &welcome, text, sizeof(text), &fab);

	/* The caller has a status alone to pass on. */
	if (status) {
		log_info("%s", text);
		return status;
	}
	if (welcome.boot != t->welcome.boot || welcome.pool_id != t->welcome.pool_id) {
		fab_close(fab);
		return FORGE_E_NODE;
	}
	*out = fab;
	return 0;
}

static int is_held_tcp(struct link *l, uint32_t cn)
{
	return tcp_control_is_held(((struct tcp_link *)l)->control, cn);
}

static int is_served_tcp(struct link *l)
{
	return !tcp_control_is_lost(((struct tcp_link *)l)->control);
}

static_assert(LINK_COUNTERS_BYTES == WIRE_STAT_BYTES_MAX, "whatever a node says fits");

static int counters_tcp(struct link *l, char *text)
{
	size_t bytes = 0;
	int status = tcp_control_call(((struct tcp_link *)l)->control, WIRE_STAT, 0, text,
				      LINK_COUNTERS_BYTES, &bytes);

	text[status ? 0 : bytes] = '\0';
	return status ? status : (int)bytes;
}

/* Whoever answers is a node that serves. */
static int probe_tcp(const struct pool_name *name, char *error_text, size_t error_bytes)
{
	struct tcp_settings settings;
	struct wire_welcome welcome;
	struct tcp_control *control;
	char where[NAME_WHERE_BYTES + 16];

	settings_of(name, where, sizeof(where), &settings);
	settings.role = WIRE_METRICS;
	struct pass *pass = NULL;
	int status = refuse_latency(name, error_text, error_bytes);

	if (!status)
		status = open_pass(name, NULL, &pass, error_text, error_bytes);
	settings.pass = pass;
	if (!status)
		status = tcp_control_open(&settings, &welcome, error_text, error_bytes, &control);
	pass_close(pass);
	if (status)
		return status;
	tcp_control_close(control);
	return 1;
}

const struct link_medium link_tcp = {
    .open = open_tcp,
    .close = close_tcp,
    .keep = keep_tcp,
    .end = end_tcp,
    .connect = connect_tcp,
    .is_held = is_held_tcp,
    .is_served = is_served_tcp,
    .counters = counters_tcp,
    .probe = probe_tcp,
};
