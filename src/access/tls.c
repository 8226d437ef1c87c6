/* tls.c: OpenSSL behind calls that look like recv() and send(). */
#include "access/tls.h"

#include <arpa/inet.h>
#include <errno.h>
#include <limits.h>
#include <openssl/err.h>
#include <openssl/ssl.h>
#include <openssl/x509v3.h>
#include <pthread.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/log.h"
#include "base/status.h"

/* struct tls is an SSL_CTX, struct tls_conn an SSL: the names keep OpenSSL out of other files. */
static SSL_CTX *context_of(struct tls *t)
{
	return (SSL_CTX *)t;
}

static SSL *ssl_of(const struct tls_conn *c)
{
	return (SSL *)(uintptr_t)c;
}

static const char *reason(void)
{
	const char *text = ERR_reason_error_string(ERR_peek_last_error());

	return text ? text : "unknown reason";
}

#define REFUSE(status, ...) (snprintf(error_text, error_bytes, __VA_ARGS__), (status))

/* ---- sockets without SIGPIPE -------------------------------------------------------------- */

/* OpenSSL's socket, but that it writes with MSG_NOSIGNAL.  It has no use for the kernel's TLS. */
static BIO_METHOD *quiet_method;

static int quiet_write(BIO *bio, const char *data, int bytes)
{
	int fd = -1;

	BIO_get_fd(bio, &fd);
	errno = 0;
	int n = (int)send(fd, data, (size_t)bytes, MSG_NOSIGNAL);

	BIO_clear_retry_flags(bio);
	if (n <= 0 && BIO_sock_should_retry(n))
		BIO_set_retry_write(bio);
	return n;
}

static void make_quiet_method(void)
{
	const BIO_METHOD *socket_method = BIO_s_socket();
	BIO_METHOD *m = BIO_meth_new(BIO_TYPE_SOCKET, "socket without SIGPIPE");

	if (m && BIO_meth_set_write(m, quiet_write) &&
	    BIO_meth_set_read(m, BIO_meth_get_read(socket_method)) &&
	    BIO_meth_set_puts(m, BIO_meth_get_puts(socket_method)) &&
	    BIO_meth_set_ctrl(m, BIO_meth_get_ctrl(socket_method)) &&
	    BIO_meth_set_create(m, BIO_meth_get_create(socket_method)) &&
	    BIO_meth_set_destroy(m, BIO_meth_get_destroy(socket_method)))
		quiet_method = m;
	else
		BIO_meth_free(m);
}

static bool set_quiet_fd(SSL *ssl, int fd)
{
	static pthread_once_t once = PTHREAD_ONCE_INIT;

	pthread_once(&once, make_quiet_method);
	BIO *bio = quiet_method ? BIO_new(quiet_method) : NULL;

	if (!bio)
		return false;
	BIO_set_fd(bio, fd, BIO_NOCLOSE);
	SSL_set_bio(ssl, bio, bio);
	return true;
}

/* ---- contexts ----------------------------------------------------------------------------- */

/* What is wrong with a file that was to hold a `what`, for a sentence; into text. */
static const char *wrong_with(const char *path, const char *what, char *text, size_t bytes)
{
	unsigned long error = ERR_peek_error();

	if (access(path, R_OK))
		snprintf(text, bytes, "%m");
	else if (ERR_GET_LIB(error) == ERR_LIB_PEM || ERR_GET_LIB(error) == ERR_LIB_X509)
		snprintf(text, bytes,
			 "there is no whole %s in PEM in it, from -----BEGIN to -----END", what);
	else
		snprintf(text, bytes, "%s", reason());
	return text;
}

/* Was a key whole, but not that of the certificate loaded before? */
static bool is_of_another(unsigned long error)
{
	int why = ERR_GET_REASON(error);

	return ERR_GET_LIB(error) == ERR_LIB_X509 &&
	       (why == X509_R_KEY_VALUES_MISMATCH || why == X509_R_KEY_TYPE_MISMATCH);
}

static int load_own(SSL_CTX *context, const struct tls_files *f, char *error_text,
		    size_t error_bytes)
{
	char why[256];

	if (SSL_CTX_use_certificate_chain_file(context, f->certificate) != 1)
		return REFUSE(FORGE_E_FORMAT, "the certificate %s cannot be used: %s",
			      f->certificate,
			      wrong_with(f->certificate, "certificate", why, sizeof(why)));
	bool is_used = SSL_CTX_use_PrivateKey_file(context, f->key, SSL_FILETYPE_PEM) == 1;

	if (!is_used && !is_of_another(ERR_peek_last_error()))
		return REFUSE(FORGE_E_FORMAT, "the key %s cannot be used: %s", f->key,
			      wrong_with(f->key, "private key", why, sizeof(why)));
	if (!is_used || SSL_CTX_check_private_key(context) != 1)
		return REFUSE(FORGE_E_FORMAT, "the key %s is not the key of the certificate %s",
			      f->key, f->certificate);
	return 0;
}

static int load_authority(SSL_CTX *context, const struct tls_files *f, int flags, char *error_text,
			  size_t error_bytes)
{
	int mode = SSL_VERIFY_PEER;
	char why[256];

	if (f->authority && SSL_CTX_load_verify_locations(context, f->authority, NULL) != 1)
		return REFUSE(FORGE_E_FORMAT, "the authority %s cannot be used: %s", f->authority,
			      wrong_with(f->authority, "certificate", why, sizeof(why)));
	if (flags & TLS_SERVER) {
		if (!f->authority)
			return 0;
		SSL_CTX_set_client_CA_list(context, SSL_load_client_CA_file(f->authority));
		mode |= SSL_VERIFY_FAIL_IF_NO_PEER_CERT;
	} else if (!f->authority && SSL_CTX_set_default_verify_paths(context) != 1) {
		return REFUSE(FORGE_E_FORMAT, "this system's authorities cannot be used: %s",
			      reason());
	}
	SSL_CTX_set_verify(context, mode, NULL);
	return 0;
}

static int check_key_mode(const char *path, char *error_text, size_t error_bytes)
{
	struct stat st;

	/* What is not there, loading it has the words for. */
	if (stat(path, &st) == 0 && st.st_mode & (S_IRWXO | S_IWGRP))
		return REFUSE(FORGE_E_DENIED,
			      "the private key %s has mode %03o, so others than its owner can read "
			      "or change it: chmod 600 it (640 at most)",
			      path, (unsigned)st.st_mode & 0777);
	return 0;
}

static int load_files(SSL_CTX *context, const struct tls_files *f, int flags, char *error_text,
		      size_t error_bytes)
{
	int status = 0;

	if (f->key && flags & TLS_ONLY_1_3)
		status = check_key_mode(f->key, error_text, error_bytes);
	if (!status && (f->certificate || flags & TLS_SERVER))
		status = load_own(context, f, error_text, error_bytes);
	if (!status)
		status = load_authority(context, f, flags, error_text, error_bytes);
	return status;
}

static void set_up(SSL_CTX *context, int flags)
{
	SSL_CTX_set_min_proto_version(context,
				      flags & TLS_ONLY_1_3 ? TLS1_3_VERSION : TLS1_2_VERSION);
	SSL_CTX_set_options(context, SSL_OP_NO_RENEGOTIATION | SSL_OP_IGNORE_UNEXPECTED_EOF);
	if (flags & TLS_KERNEL)
		SSL_CTX_set_options(context, SSL_OP_ENABLE_KTLS);
	SSL_CTX_set_mode(context, SSL_MODE_ENABLE_PARTIAL_WRITE |
				      SSL_MODE_ACCEPT_MOVING_WRITE_BUFFER |
				      SSL_MODE_RELEASE_BUFFERS);
	/* Sessions are resumed by tickets, which cost no memory here. */
	SSL_CTX_set_session_cache_mode(context, SSL_SESS_CACHE_OFF);
	SSL_CTX_set_session_id_context(context, (const unsigned char *)"forge", 5);
	/* A node's client stays; and the kernel must not be asked to read tickets. */
	if (flags & TLS_ONLY_1_3)
		SSL_CTX_set_num_tickets(context, 0);
}

int tls_open(const struct tls_files *files, int flags, struct tls **out, char *error_text,
	     size_t error_bytes)
{
	SSL_CTX *context =
	    SSL_CTX_new(flags & TLS_SERVER ? TLS_server_method() : TLS_client_method());
	int status;

	if (!context)
		return REFUSE(FORGE_E_NO_MEMORY, "TLS cannot be set up: %s", reason());
	set_up(context, flags);
	ERR_clear_error();
	status = load_files(context, files, flags, error_text, error_bytes);
	ERR_clear_error();
	if (status)
		SSL_CTX_free(context);
	else
		*out = (struct tls *)context;
	return status;
}

void tls_close(struct tls *t)
{
	SSL_CTX_free(context_of(t));
}

/* ---- connections -------------------------------------------------------------------------- */

/* Whose certificate it must be; and, as far as that is a name, tell the server whom we mean. */
static bool expect_host(SSL *ssl, const char *host)
{
	unsigned char number[sizeof(struct in6_addr)];

	if (inet_pton(AF_INET, host, number) == 1 || inet_pton(AF_INET6, host, number) == 1)
		return X509_VERIFY_PARAM_set1_ip_asc(SSL_get0_param(ssl), host) == 1;
	SSL_set_hostflags(ssl, X509_CHECK_FLAG_NO_PARTIAL_WILDCARDS);
	return SSL_set1_host(ssl, host) == 1 && SSL_set_tlsext_host_name(ssl, host) == 1;
}

struct tls_conn *tls_conn_create(struct tls *t, int fd, const char *host)
{
	SSL *ssl = SSL_new(context_of(t));
	bool done = ssl && (host ? set_quiet_fd(ssl, fd) && expect_host(ssl, host)
				 : SSL_set_fd(ssl, fd) == 1);

	if (!done) {
		SSL_free(ssl);
		return NULL;
	}
	if (host)
		SSL_set_connect_state(ssl);
	else
		SSL_set_accept_state(ssl);
	return (struct tls_conn *)ssl;
}

void tls_conn_destroy(struct tls_conn *c)
{
	if (!c)
		return;
	ERR_clear_error();
	if (SSL_is_init_finished(ssl_of(c)))
		SSL_shutdown(ssl_of(c));
	SSL_free(ssl_of(c));
}

void tls_conn_forget(struct tls_conn *c)
{
	if (c)
		SSL_set_quiet_shutdown(ssl_of(c), 1);
	tls_conn_destroy(c);
}

/* What a call that moved nothing means. */
static ssize_t explain(SSL *ssl, int result)
{
	char why[160];

	switch (SSL_get_error(ssl, result)) {
	case SSL_ERROR_WANT_READ:
	case SSL_ERROR_WANT_WRITE:
		errno = EAGAIN;
		return -1;
	case SSL_ERROR_ZERO_RETURN:
		return 0;
	case SSL_ERROR_SYSCALL:
		if (errno == 0)
			return 0;
		return -1;
	default:
		if (SSL_is_server(ssl)) {
			tls_reason((struct tls_conn *)ssl, why, sizeof(why));
			log_info("a client's TLS was refused: %s", why);
		}
		errno = EPROTO;
		return -1;
	}
}

int tls_handshake(struct tls_conn *c)
{
	ERR_clear_error();
	errno = 0;
	int n = SSL_do_handshake(ssl_of(c));

	if (n == 1)
		return 0;
	if (explain(ssl_of(c), n) == 0)
		errno = ECONNRESET;
	return -1;
}

bool tls_wants_out(const struct tls_conn *c)
{
	return SSL_want_write(ssl_of(c));
}

ssize_t tls_recv(struct tls_conn *c, void *data, size_t bytes)
{
	ERR_clear_error();
	errno = 0;
	int n = SSL_read(ssl_of(c), data, bytes < INT_MAX ? (int)bytes : INT_MAX);

	return n > 0 ? n : explain(ssl_of(c), n);
}

ssize_t tls_send(struct tls_conn *c, const void *data, size_t bytes)
{
	ERR_clear_error();
	errno = 0;
	int n = SSL_write(ssl_of(c), data, bytes < INT_MAX ? (int)bytes : INT_MAX);

	return n > 0 ? n : explain(ssl_of(c), n);
}

bool tls_has_pending(const struct tls_conn *c)
{
	return tls_pending_bytes(c) > 0;
}

size_t tls_pending_bytes(const struct tls_conn *c)
{
	return (size_t)SSL_pending(ssl_of(c));
}

void tls_reason(const struct tls_conn *c, char *text, size_t text_bytes)
{
	long verified = SSL_get_verify_result(ssl_of(c));

	if (verified != X509_V_OK)
		snprintf(text, text_bytes, "its certificate does not hold: %s",
			 X509_verify_cert_error_string(verified));
	else
		snprintf(text, text_bytes, "%s", reason());
}

const char *tls_remedy(const struct tls_conn *c)
{
	switch (SSL_get_verify_result(ssl_of(c))) {
	case X509_V_ERR_HOSTNAME_MISMATCH:
	case X509_V_ERR_IP_ADDRESS_MISMATCH:
		return "reach it by a name or number that its certificate has, or give that with "
		       "tls-name=";
	case X509_V_ERR_CERT_HAS_EXPIRED:
	case X509_V_ERR_CERT_NOT_YET_VALID:
		return "it needs another certificate, unless the clock here is wrong";
	default:
		return "name the authority of its certificate with ca=";
	}
}

int tls_binding(struct tls_conn *c, uint8_t out[TLS_BINDING_BYTES])
{
	static const char label[] = "EXPORTER-Channel-Binding";

	ERR_clear_error();
	return SSL_export_keying_material(ssl_of(c), out, TLS_BINDING_BYTES, label,
					  sizeof(label) - 1, NULL, 0, 0) == 1
		   ? FORGE_OK
		   : FORGE_E_SYSTEM;
}

bool tls_kernel_sends(const struct tls_conn *c)
{
	return BIO_get_ktls_send(SSL_get_wbio(ssl_of(c)));
}

bool tls_kernel_receives(const struct tls_conn *c)
{
	return BIO_get_ktls_recv(SSL_get_rbio(ssl_of(c)));
}
