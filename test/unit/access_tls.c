/*
 * TLS between two ends of one socket: what passes arrives whole, who cannot show the right
 * certificate is refused, in words that say why, and so is an older version.  Non-blocking ends
 * take turns on one thread, as a server's and a client's loops do.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <unistd.h>

#include <cmocka.h>

#include <openssl/ssl.h>

#include "access/tls.h"
#include "base/status.h"
#include "support/certs.h"
#include "support/tempdir.h"

#define DAY_S 86400

static struct tempdir directory;
static struct cert authority, other_authority, node, expired, early, client, other_client;

static int make_certificates(void **state)
{
	assert_int_equal(tempdir_make(&directory), 0);
	cert_authority(directory.path, "authority", &authority);
	cert_authority(directory.path, "other", &other_authority);
	cert_issue(directory.path, "node", &authority, "DNS:node.example,IP:127.0.0.1,IP:::1",
		   -DAY_S, DAY_S, &node);
	cert_issue(directory.path, "expired", &authority, "DNS:node.example", -2 * DAY_S, -DAY_S,
		   &expired);
	cert_issue(directory.path, "early", &authority, "DNS:node.example", DAY_S, 2 * DAY_S,
		   &early);
	cert_issue(directory.path, "client", &authority, NULL, -DAY_S, DAY_S, &client);
	cert_issue(directory.path, "other-client", &other_authority, NULL, -DAY_S, DAY_S,
		   &other_client);
	return 0;
}

static int remove_certificates(void **state)
{
	return tempdir_remove(&directory);
}

static struct tls *open_tls(const struct cert *own, const struct cert *by, int flags)
{
	struct tls_files files = {
	    .certificate = own ? own->certificate : NULL,
	    .key = own ? own->key : NULL,
	    .authority = by ? by->certificate : NULL,
	};
	char text[256] = "";
	struct tls *t;

	if (tls_open(&files, flags | TLS_ONLY_1_3, &t, text, sizeof(text)))
		fail_msg("%s", text);
	return t;
}

struct pair {
	int fds[2];
	struct tls *server_tls, *client_tls;
	struct tls_conn *server, *client;
};

static void pair_open(struct pair *p, struct tls *server, struct tls *client_side, const char *host)
{
	assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK, 0, p->fds), 0);
	p->server_tls = server;
	p->client_tls = client_side;
	p->server = tls_conn_create(server, p->fds[0], NULL);
	p->client = tls_conn_create(client_side, p->fds[1], host);
	assert_true(p->server && p->client);
}

static void pair_close(struct pair *p)
{
	tls_conn_destroy(p->server);
	tls_conn_destroy(p->client);
	close(p->fds[0]);
	close(p->fds[1]);
	tls_close(p->server_tls);
	tls_close(p->client_tls);
}

/* Both in turn, until each is done or has failed; how each ended: 0 or an errno. */
static void handshake(struct pair *p, int *server_end, int *client_end)
{
	*server_end = *client_end = EAGAIN;
	for (int turns = 0; turns < 100 && (*server_end == EAGAIN || *client_end == EAGAIN);
	     turns++) {
		if (*client_end == EAGAIN)
			*client_end = tls_handshake(p->client) ? errno : 0;
		if (*server_end == EAGAIN)
			*server_end = tls_handshake(p->server) ? errno : 0;
		if (*client_end != EAGAIN && *client_end != 0)
			shutdown(p->fds[1], SHUT_WR);
	}
}

static void expect_handshake(struct pair *p)
{
	int server_end, client_end;

	handshake(p, &server_end, &client_end);
	assert_int_equal(client_end, 0);
	assert_int_equal(server_end, 0);
}

/* From one to the other, in pieces that do not fit the socket. */
static void transfer(struct tls_conn *from, struct tls_conn *to)
{
	size_t bytes = 3000001, sent = 0, got = 0;
	unsigned char *data = malloc(bytes), *copy = malloc(bytes);

	for (size_t i = 0; i < bytes; i++)
		data[i] = (unsigned char)(i * 2654435761u >> 13);
	while (got < bytes) {
		ssize_t n = sent < bytes ? tls_send(from, data + sent, bytes - sent) : 0;

		if (n < 0)
			assert_int_equal(errno, EAGAIN);
		else
			sent += (size_t)n;
		n = tls_recv(to, copy + got, bytes - got < 5000 ? bytes - got : 5000);
		if (n < 0)
			assert_int_equal(errno, EAGAIN);
		else
			got += (size_t)n;
	}
	assert_memory_equal(data, copy, bytes);
	free(data);
	free(copy);
}

static void bytes_arrive_whole_both_ways(void **state)
{
	struct pair p;
	uint8_t at_server[TLS_BINDING_BYTES], at_client[TLS_BINDING_BYTES], next[TLS_BINDING_BYTES];

	for (int kernel = 0; kernel <= TLS_KERNEL; kernel += TLS_KERNEL) {
		pair_open(&p, open_tls(&node, NULL, TLS_SERVER | kernel),
			  open_tls(NULL, &authority, 0), "node.example");
		expect_handshake(&p);
		assert_string_equal(SSL_get_version((SSL *)p.client), "TLSv1.3");
		transfer(p.client, p.server);
		transfer(p.server, p.client);
		assert_int_equal(tls_binding(p.server, at_server), 0);
		assert_int_equal(tls_binding(p.client, at_client), 0);
		assert_memory_equal(at_server, at_client, sizeof(at_client));
		/* A Unix socket is none the kernel encrypts. */
		assert_false(tls_kernel_sends(p.server) || tls_kernel_receives(p.server));
		assert_false(tls_kernel_sends(p.client));
		pair_close(&p);
	}
	pair_open(&p, open_tls(&node, NULL, TLS_SERVER), open_tls(NULL, &authority, 0),
		  "127.0.0.1");
	expect_handshake(&p);
	assert_int_equal(tls_binding(p.client, next), 0);
	assert_memory_not_equal(next, at_client, sizeof(next));
	pair_close(&p);
}

static void a_node_must_be_whom_one_meant(void **state)
{
	static const struct {
		const struct cert *own, *by;
		const char *host, *words; /* NULL: it is believed */
	} cases[] = {
	    {&node, &authority, "node.example", NULL},
	    {&node, &authority, "127.0.0.1", NULL},
	    {&node, &authority, "::1", NULL},
	    {&node, &authority, "other.example", "hostname mismatch"},
	    {&node, &authority, "127.0.0.2", "IP address mismatch"},
	    {&node, &other_authority, "node.example", "unable to get local issuer"},
	    {&node, NULL, "node.example", "unable to get local issuer"},
	    {&expired, &authority, "node.example", "certificate has expired"},
	    {&early, &authority, "node.example", "not yet valid"},
	};

	for (unsigned i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		int server_end, client_end;
		char why[160];
		struct pair p;

		pair_open(&p, open_tls(cases[i].own, NULL, TLS_SERVER),
			  open_tls(NULL, cases[i].by, 0), cases[i].host);
		handshake(&p, &server_end, &client_end);
		assert_int_equal(client_end, cases[i].words ? EPROTO : 0);
		if (cases[i].words) {
			tls_reason(p.client, why, sizeof(why));
			assert_non_null(strstr(why, cases[i].words));
			assert_int_not_equal(server_end, 0);
		}
		pair_close(&p);
	}
}

static void a_client_must_show_a_certificate_where_one_is_asked(void **state)
{
	const struct cert *const shown[] = {NULL, &other_client, &client};

	for (unsigned i = 0; i < 3; i++) {
		int server_end, client_end;
		struct pair p;

		pair_open(&p, open_tls(&node, &authority, TLS_SERVER),
			  open_tls(shown[i], &authority, 0), "node.example");
		handshake(&p, &server_end, &client_end);
		/* The client learns of it only when it reads: its own part was done. */
		assert_int_equal(server_end, shown[i] == &client ? 0 : EPROTO);
		pair_close(&p);
	}
}

static void older_versions_are_refused(void **state)
{
	struct tls *old = open_tls(NULL, &authority, 0);
	int server_end, client_end;
	struct pair p;

	SSL_CTX_set_min_proto_version((SSL_CTX *)old, TLS1_2_VERSION);
	SSL_CTX_set_max_proto_version((SSL_CTX *)old, TLS1_2_VERSION);
	pair_open(&p, open_tls(&node, NULL, TLS_SERVER), old, "node.example");
	handshake(&p, &server_end, &client_end);
	assert_int_equal(server_end, EPROTO);
	assert_int_not_equal(client_end, 0);
	pair_close(&p);
	/* And the other way round. */
	old = open_tls(&node, NULL, TLS_SERVER);
	SSL_CTX_set_min_proto_version((SSL_CTX *)old, TLS1_2_VERSION);
	SSL_CTX_set_max_proto_version((SSL_CTX *)old, TLS1_2_VERSION);
	pair_open(&p, old, open_tls(NULL, &authority, 0), "node.example");
	handshake(&p, &server_end, &client_end);
	assert_int_equal(client_end, EPROTO);
	pair_close(&p);
}

static void what_is_no_tls_is_refused(void **state)
{
	static const char hello[] = "Forgenet and whatever follows";
	struct pair p;

	pair_open(&p, open_tls(&node, NULL, TLS_SERVER), open_tls(NULL, &authority, 0),
		  "node.example");
	assert_int_equal(write(p.fds[1], hello, sizeof(hello)), sizeof(hello));
	assert_int_equal(tls_handshake(p.server), -1);
	assert_int_equal(errno, EPROTO);
	pair_close(&p);
}

/* The default of SIGPIPE ends the process, and this is a library. */
static void a_client_whose_node_is_gone_lives(void **state)
{
	struct pair p;
	ssize_t n = 0;

	signal(SIGPIPE, SIG_DFL);
	pair_open(&p, open_tls(&node, NULL, TLS_SERVER), open_tls(NULL, &authority, 0),
		  "node.example");
	expect_handshake(&p);
	shutdown(p.fds[0], SHUT_RDWR);
	for (int i = 0; i < 4 && n >= 0; i++)
		n = tls_send(p.client, "x", 1);
	assert_int_equal(n, -1);
	assert_int_equal(errno, EPIPE);
	tls_conn_destroy(p.client);
	p.client = NULL;
	signal(SIGPIPE, SIG_IGN);
	pair_close(&p);
}

static void files_that_cannot_be_used_are_named(void **state)
{
	const struct tls_files files[] = {
	    {.certificate = "/tmp/forge-access-none", .key = node.key},
	    {.certificate = node.certificate, .key = "/tmp/forge-access-none"},
	    {.certificate = node.certificate, .key = client.key},
	    {node.certificate, node.key, "/tmp/forge-access-none"},
	    {node.certificate, node.key, node.key},
	};
	char text[512];
	struct tls *t;

	for (unsigned i = 0; i < sizeof(files) / sizeof(files[0]); i++) {
		assert_int_equal(
		    tls_open(&files[i], TLS_SERVER | TLS_ONLY_1_3, &t, text, sizeof(text)),
		    FORGE_E_FORMAT);
		assert_true(strstr(text, "/tmp/forge-access-none") || strstr(text, directory.path));
	}
	assert_int_equal(chmod(node.key, 0644), 0);
	const struct tls_files open_key = {node.certificate, node.key, NULL};

	assert_int_equal(tls_open(&open_key, TLS_SERVER | TLS_ONLY_1_3, &t, text, sizeof(text)),
			 FORGE_E_DENIED);
	assert_non_null(strstr(text, "chmod 600"));
	assert_int_equal(chmod(node.key, 0600), 0);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test(bytes_arrive_whole_both_ways),
	    cmocka_unit_test(a_node_must_be_whom_one_meant),
	    cmocka_unit_test(a_client_must_show_a_certificate_where_one_is_asked),
	    cmocka_unit_test(older_versions_are_refused),
	    cmocka_unit_test(what_is_no_tls_is_refused),
	    cmocka_unit_test(a_client_whose_node_is_gone_lives),
	    cmocka_unit_test(files_that_cannot_be_used_are_named),
	};

	signal(SIGPIPE, SIG_IGN);
	return cmocka_run_group_tests(tests, make_certificates, remove_certificates);
}
