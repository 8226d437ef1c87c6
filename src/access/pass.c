/* pass.c: a client's key and TLS, together. */
#include "access/pass.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/status.h"

struct pass {
	struct keys *keys;
	const struct key *key;
	struct tls *tls;
	char *host;
};

#define REFUSE(status, ...) (snprintf(error_text, error_bytes, __VA_ARGS__), (status))

static int open_key(const struct pass_wish *w, struct pass *p, char *error_text, size_t error_bytes)
{
	const char *source = w->key_file ? w->key_file : "FORGE_KEY";
	int status = w->key_file
			 ? keys_open(w->key_file, &p->keys, error_text, error_bytes)
			 : keys_open_text(w->key_line, source, &p->keys, error_text, error_bytes);

	if (status)
		return status;
	p->key = keys_find(p->keys, w->key_name);
	if (!p->key)
		return REFUSE(FORGE_E_INVAL, "%s has no key named %s", source, w->key_name);
	return 0;
}

static int open_tls(const struct pass_wish *w, struct pass *p, char *error_text, size_t error_bytes)
{
	const struct tls_files *f = &w->files;

	if (!f->certificate != !f->key)
		return REFUSE(FORGE_E_INVAL, "a client's certificate and its private key are "
					     "needed together: give cert= and cert-key=");
	if (w->host) {
		p->host = strdup(w->host);
		if (!p->host)
			return REFUSE(FORGE_E_NO_MEMORY, "%s", status_sentence(FORGE_E_NO_MEMORY));
	}
	return tls_open(f, TLS_ONLY_1_3, &p->tls, error_text, error_bytes);
}

static int check_wish(const struct pass_wish *w, char *error_text, size_t error_bytes)
{
	if (!w->tls && (w->files.authority || w->files.certificate || w->files.key || w->host))
		return REFUSE(FORGE_E_INVAL, "certificates are named, but TLS is not asked for: "
					     "write tls://host:port, or tls=1 behind the name");
	if (w->key_name && !w->key_file && !w->key_line)
		return REFUSE(FORGE_E_INVAL,
			      "the key %s is asked for, but no file it is in: give "
			      "key-file=, or set FORGE_KEY_FILE",
			      w->key_name);
	return 0;
}

int pass_open(const struct pass_wish *w, struct pass **out, char *error_text, size_t error_bytes)
{
	int status = check_wish(w, error_text, error_bytes);

	if (status)
		return status;
	if (!w->key_file && !w->key_line && !w->tls) {
		*out = NULL;
		return 0;
	}
	struct pass *p = calloc(1, sizeof(*p));

	if (!p)
		return REFUSE(FORGE_E_NO_MEMORY, "%s", status_sentence(FORGE_E_NO_MEMORY));
	if (w->key_file || w->key_line)
		status = open_key(w, p, error_text, error_bytes);
	if (!status && w->tls)
		status = open_tls(w, p, error_text, error_bytes);
	if (status)
		pass_close(p);
	else
		*out = p;
	return status;
}

void pass_close(struct pass *p)
{
	if (!p)
		return;
	keys_close(p->keys);
	tls_close(p->tls);
	free(p->host);
	free(p);
}

const struct key *pass_key(const struct pass *p)
{
	return p ? p->key : NULL;
}

bool pass_has_tls(const struct pass *p)
{
	return p && p->tls;
}

struct tls_conn *pass_tls_conn(const struct pass *p, int fd, const char *host)
{
	return tls_conn_create(p->tls, fd, p->host ? p->host : host);
}
