/* tls.c: OpenSSL behind calls that look like recv() and send(). */
#include "serve/tls.h"

#include <errno.h>
#include <limits.h>
#include <openssl/err.h>
#include <openssl/ssl.h>
#include <stdio.h>

#include "base/log.h"
#include "base/status.h"

/* struct tls is an SSL_CTX, struct tls_conn an SSL: the names keep OpenSSL out of other files. */
static SSL_CTX *context_of(struct tls *t)
{
	return (SSL_CTX *)t;
}

static SSL *ssl_of(struct tls_conn *c)
{
	return (SSL *)c;
}

static const char *reason(void)
{
	const char *text = ERR_reason_error_string(ERR_peek_last_error());

	return text ? text : "unknown reason";
}

#define REFUSE(status, ...) (snprintf(error_text, error_bytes, __VA_ARGS__), (status))

static int load_files(SSL_CTX *context, const struct tls_files *f, char *error_text,
		      size_t error_bytes)
{
	if (SSL_CTX_use_certificate_chain_file(context, f->certificate) != 1)
		return REFUSE(FORGE_E_FORMAT, "the certificate %s cannot be used: %s",
			      f->certificate, reason());
	if (SSL_CTX_use_PrivateKey_file(context, f->key, SSL_FILETYPE_PEM) != 1)
		return REFUSE(FORGE_E_FORMAT, "the key %s cannot be used: %s", f->key, reason());
	if (SSL_CTX_check_private_key(context) != 1)
		return REFUSE(FORGE_E_FORMAT, "the key %s is not that of the certificate %s",
			      f->key, f->certificate);
	if (!f->authority)
		return 0;
	if (SSL_CTX_load_verify_locations(context, f->authority, NULL) != 1)
		return REFUSE(FORGE_E_FORMAT, "the authority %s cannot be used: %s", f->authority,
			      reason());
	SSL_CTX_set_client_CA_list(context, SSL_load_client_CA_file(f->authority));
	SSL_CTX_set_verify(context, SSL_VERIFY_PEER | SSL_VERIFY_FAIL_IF_NO_PEER_CERT, NULL);
	return 0;
}

int tls_open(const struct tls_files *files, struct tls **out, char *error_text, size_t error_bytes)
{
	SSL_CTX *context = SSL_CTX_new(TLS_server_method());
	int status;

	if (!context)
		return REFUSE(FORGE_E_NO_MEMORY, "TLS cannot be set up: %s", reason());
	SSL_CTX_set_min_proto_version(context, TLS1_2_VERSION);
	SSL_CTX_set_options(context, SSL_OP_NO_RENEGOTIATION | SSL_OP_IGNORE_UNEXPECTED_EOF);
	SSL_CTX_set_mode(context, SSL_MODE_ENABLE_PARTIAL_WRITE |
				      SSL_MODE_ACCEPT_MOVING_WRITE_BUFFER |
				      SSL_MODE_RELEASE_BUFFERS);
	/* Sessions are resumed by tickets, which cost no memory here. */
	SSL_CTX_set_session_cache_mode(context, SSL_SESS_CACHE_OFF);
	SSL_CTX_set_session_id_context(context, (const unsigned char *)"forge", 5);
	ERR_clear_error();
	status = load_files(context, files, error_text, error_bytes);
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

struct tls_conn *tls_conn_create(struct tls *t, int fd)
{
	SSL *ssl = SSL_new(context_of(t));

	if (ssl && SSL_set_fd(ssl, fd) != 1) {
		SSL_free(ssl);
		ssl = NULL;
	}
	if (ssl)
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

/* What a call that moved nothing means. */
static ssize_t explain(SSL *ssl, int result)
{
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
		log_info("a client's TLS was refused: %s", reason());
		errno = EPROTO;
		return -1;
	}
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
	return SSL_pending((const SSL *)c) > 0;
}
