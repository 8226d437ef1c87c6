/*
 * tcp_hello.c: the client's side of the exchange before the first request, until the end of
 * dialling.
 */
#include <string.h>

#include "access/pass.h"
#include "access/proof.h"
#include "base/compiler.h"
#include "fabric/tcp_dial_inside.h"

static_assert(sizeof(struct wire_hello) == PROOF_HELLO_BYTES &&
		  sizeof(struct wire_welcome) == PROOF_WELCOME_BYTES,
	      "proofs are of these");

/* A connection that is not welcome yet. */
struct greeting {
	struct tcp_stream *stream;
	const struct tcp_settings *settings;
	uint64_t left_ns; /* of the deadline */
	struct wire_hello hello;
	struct proof_client proof;
	struct proof_confirm confirm;
	int is_local;	  /* over a Unix socket */
	int is_confirmed; /* there is a confirmation, to be checked with the welcome */
	struct error_out e;
	struct wire_step step; /* the last that came */
	unsigned char bytes[WIRE_STEP_BYTES_MAX];
};

/* Receive exactly that many bytes.  0, or FORGE_E_NODE with errno, 0 for an end. */
static int receive_all(struct greeting *g, void *buf, size_t bytes)
{
	unsigned char *at = buf;

	while (bytes > 0) {
		struct iovec iov = {at, bytes};
		ssize_t n;

		errno = 0;
		n = tcp_stream_receive(g->stream, &iov, 1);
		if (n < 0)
			return FORGE_E_NODE;
		if (n == 0 && !dial_wait(g->settings, g->stream->fd, POLLIN, &g->left_ns))
			return FORGE_E_NODE;
		at += n;
		bytes -= (size_t)n;
	}
	return FORGE_OK;
}

/* What is sent before the welcome fits an empty socket. */
static int send_all(struct greeting *g, const void *bytes, size_t count)
{
	struct iovec iov = {(void *)(uintptr_t)bytes, count};

	errno = 0;
	return tcp_stream_send(g->stream, &iov, 1) == (ssize_t)count ? FORGE_OK : FORGE_E_NODE;
}

/* ---- what an end means -------------------------------------------------------------------- */

enum stage { ANY, IN_CLEAR, HANDSHAKE, ENCRYPTED };

/*
 * The first that fits.  Its sentence is: before, the node's name, then, what TLS says of it if that
 * is the error, after.
 */
static const struct ending {
	enum stage stage;
	int error; /* errno; 0: any */
	int status;
	const char *before, *then, *after;
} endings[] = {
    {ANY, ECANCELED, FORGE_E_NODE, "connecting to ", " was given up", ""},
    {HANDSHAKE, ETIMEDOUT, FORGE_E_NODE, "",
     " accepted the connection, but did not go on with TLS: is it a memory node with --tls-cert, "
     "and does it run?",
     ""},
    {ANY, ETIMEDOUT, FORGE_E_NODE, "",
     " accepted the connection and then said nothing: is it a memory node, and does it run?", ""},
    {HANDSHAKE, EPROTO, FORGE_E_DENIED, "", " cannot be trusted: ", ""}, /* and tls_remedy() */
    {ENCRYPTED, EPROTO, FORGE_E_DENIED, "", " ended the encrypted connection: ", ""},
    {HANDSHAKE, 0, FORGE_E_NODE, "",
     " closed the connection when TLS was begun: it is no memory node, or one without --tls-cert "
     "(then write tcp://, without tls=)",
     ""},
    {ENCRYPTED, 0, FORGE_E_NODE, "",
     " closed the connection at once: it is no memory node, is ending, or wants a certificate of "
     "the client (cert=, cert-key=)",
     ""},
    {ANY, 0, FORGE_E_NODE, "",
     " closed the connection at once: it is no memory node, is ending, or wants an encrypted "
     "connection (tls://)",
     ""},
};

static int fits(const struct ending *end, enum stage stage, int error)
{
	return (end->stage == ANY || end->stage == stage) &&
	       (end->error == 0 || end->error == error);
}

/* It ended, as errno says. */
static int fail(const struct greeting *g, enum stage stage)
{
	const struct ending *end = endings;
	char why[320] = "";

	while (!fits(end, stage, errno))
		end++;
	if (end->error == EPROTO)
		tls_reason(g->stream->tls, why, sizeof(why));
	if (end->error == EPROTO && end->stage == HANDSHAKE) {
		size_t n = strlen(why);

		snprintf(why + n, sizeof(why) - n, "; %s", tls_remedy(g->stream->tls));
	}
	return REFUSE(g->e, end->status, "%s%s%s%s%s", end->before, g->settings->where, end->then,
		      why, end->after);
}

static int fail_hello(const struct greeting *g)
{
	return fail(g, g->stream->tls ? ENCRYPTED : IN_CLEAR);
}

/* ---- TLS ---------------------------------------------------------------------------------- */

static int encrypt(struct greeting *g, const char *host)
{
	struct tls_conn *tls = pass_tls_conn(g->settings->pass, g->stream->fd, host);

	if (!tls || tcp_stream_encrypt_open(g->stream, tls))
		return REFUSE(g->e, FORGE_E_NO_MEMORY, "%s", status_sentence(FORGE_E_NO_MEMORY));
	while (tls_handshake(tls)) {
		short events = tls_wants_out(tls) ? POLLOUT : POLLIN;

		if (errno == EINTR)
			continue;
		if (errno != EAGAIN || !dial_wait(g->settings, g->stream->fd, events, &g->left_ns))
			return fail(g, HANDSHAKE);
	}
	return FORGE_OK;
}

/* ---- steps -------------------------------------------------------------------------------- */

static int no_node(const struct greeting *g)
{
	return REFUSE(g->e, FORGE_E_NODE, "%s is no memory node", g->settings->where);
}

/* The node's reason, with what is not for a terminal taken out. */
static int refused(const struct greeting *g)
{
	const char *where = g->settings->where;
	struct wire_refusal r;
	char sentence[256];
	size_t n = 0;

	if (g->step.bytes < sizeof(r))
		return REFUSE(g->e, FORGE_E_NODE, "%s refused without a reason", where);
	memcpy(&r, g->bytes, sizeof(r));
	for (size_t i = sizeof(r); i < g->step.bytes && n < sizeof(sentence) - 1; i++)
		sentence[n++] = g->bytes[i] >= ' ' && g->bytes[i] < 127 ? (char)g->bytes[i] : '?';
	sentence[n] = '\0';
	/* Only what a refusal can be; anything else is as good as no node. */
	int status =
	    r.status == FORGE_E_LAYOUT || r.status == FORGE_E_DENIED || r.status == FORGE_E_AGAIN
		? r.status
		: FORGE_E_NODE;

	return REFUSE(g->e, status, "%s: %s", where, sentence);
}

static int answer(struct greeting *g)
{
	const struct key *key = pass_key(g->settings->pass);
	struct {
		struct wire_step step;
		struct proof_answer answer;
	} message = {{.step = WIRE_STEP_PROOF, .bytes = sizeof(message.answer)}, {0}};
	uint8_t nonce[PROOF_NONCE_BYTES];

	if (!key)
		return REFUSE(g->e, FORGE_E_DENIED,
			      "%s asks for a key, and none was given: add key-file=FILE behind its "
			      "name, or set FORGE_KEY_FILE",
			      g->settings->where);
	if (proof_nonce(nonce))
		return REFUSE(g->e, FORGE_E_SYSTEM, "the kernel gives no random bytes: %m");
	int status =
	    proof_client_answer(&g->proof, key, g->bytes, g->step.bytes, nonce, &message.answer);

	if (status == FORGE_E_NODE)
		return REFUSE(g->e, status,
			      "%s asks for a proof that this build cannot give: use the same "
			      "version of forge on both sides",
			      g->settings->where);
	if (status)
		return REFUSE(g->e, status, "%s", status_sentence(status));
	return send_all(g, &message, sizeof(message)) ? fail_hello(g) : FORGE_OK;
}

/* The node's proof is of the welcome, which comes next. */
static int keep_confirmation(struct greeting *g)
{
	if (g->is_confirmed || g->step.bytes != sizeof(g->confirm))
		return no_node(g);
	memcpy(&g->confirm, g->bytes, sizeof(g->confirm));
	g->is_confirmed = 1;
	return FORGE_OK;
}

/*
 * Is it one that knows our key?  Without a key of ours anyone is; and so is who listens on a Unix
 * socket and does not ask, since the file system says who may.
 */
static int check_node(const struct greeting *g)
{
	const struct key *key = pass_key(g->settings->pass);

	if (!key || (g->is_local && !g->proof.has_answered))
		return FORGE_OK;
	if (!g->proof.has_answered)
		return REFUSE(g->e, FORGE_E_DENIED,
			      "%s asks for no key, so nothing proves that it is the node you mean: "
			      "start it with --key-file, or leave the key out",
			      g->settings->where);
	if (!g->is_confirmed ||
	    proof_client_check(&g->proof, key, &g->confirm, sizeof(g->confirm), g->bytes))
		return REFUSE(g->e, FORGE_E_DENIED,
			      "%s does not prove that it knows the key, or somebody changes what "
			      "you say to each other",
			      g->settings->where);
	return FORGE_OK;
}

static int check_welcome(const struct greeting *g, const struct wire_welcome *w)
{
	const struct wire_hello *hello = &g->hello;

	if (w->version == 0 || w->version > WIRE_VERSION || w->kind != hello->kind ||
	    w->role == 0 || w->role > hello->role || (w->features & ~hello->features))
		return REFUSE(g->e, FORGE_E_NODE,
			      "%s speaks another protocol than this build: use the same version of "
			      "forge on both sides",
			      g->settings->where);
	return FORGE_OK;
}

static int take_step(struct greeting *g)
{
	if (receive_all(g, &g->step, sizeof(g->step)))
		return fail_hello(g);
	if (g->step.bytes > sizeof(g->bytes))
		return no_node(g);
	if (receive_all(g, g->bytes, g->step.bytes))
		return fail_hello(g);
	switch (g->step.step) {
	case WIRE_STEP_REFUSAL:
		return refused(g);
	case WIRE_STEP_CHALLENGE:
		return answer(g);
	case WIRE_STEP_PROOF:
		return keep_confirmation(g);
	case WIRE_STEP_WELCOME:
		return g->step.bytes == sizeof(struct wire_welcome) ? check_node(g) : no_node(g);
	default:
		return no_node(g);
	}
}

static int say_hello(struct greeting *g)
{
	uint8_t binding[PROOF_BINDING_BYTES];

	if (g->stream->tls && tls_binding(g->stream->tls, binding))
		return REFUSE(g->e, FORGE_E_SYSTEM, "%s: TLS gives nothing to bind a proof to",
			      g->settings->where);
	proof_client_begin(&g->proof, &g->hello, g->stream->tls ? binding : NULL);
	return send_all(g, &g->hello, sizeof(g->hello)) ? fail_hello(g) : FORGE_OK;
}

int tcp_hello(struct tcp_stream *s, const struct tcp_settings *settings, enum wire_kind kind,
	      const char *host, uint64_t left_ns, struct wire_welcome *welcome, char *error_text,
	      size_t error_bytes)
{
	struct greeting g = {
	    .stream = s,
	    .settings = settings,
	    .is_local = !host,
	    .left_ns = left_ns,
	    .hello = {.magic = WIRE_MAGIC,
		      .version = WIRE_VERSION,
		      .kind = (uint8_t)kind,
		      .role = settings->role ? settings->role : WIRE_FULL,
		      .features = WIRE_FEATURES_KNOWN,
		      .fingerprint = settings->fingerprint,
		      .flags = settings->joins ? WIRE_JOINS : 0},
	    .e = {error_text, error_bytes},
	};
	int status = FORGE_OK;

	memcpy(g.hello.instance, settings->instance, sizeof(g.hello.instance));
	/* What stays on this host nobody reads on the way. */
	if (pass_has_tls(settings->pass) && host)
		status = encrypt(&g, host);
	if (!status)
		status = say_hello(&g);
	while (!status && g.step.step != WIRE_STEP_WELCOME)
		status = take_step(&g);
	if (status)
		return status;
	memcpy(welcome, g.bytes, sizeof(*welcome));
	return check_welcome(&g, welcome);
}
