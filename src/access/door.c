/*
 * door.c: keys and TLS that can be exchanged while connections come.
 *
 * The lock is held for reading while a key is used, so none is wiped under a handshake's hands;
 * a TLS connection holds what it needs of its context by itself.
 */
#include "access/door.h"

#include <openssl/evp.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/status.h"

struct marked_keys {
	struct keys *keys;
	uint64_t marks[]; /* of each; never 0 */
};

struct door {
	pthread_rwlock_t lock; /* of keys and tls */
	struct marked_keys *keys;
	struct tls *tls;
	struct gate *gate;
	char *key_file, *certificate, *key, *authority;
};

#define REFUSE(status, ...) (snprintf(error_text, error_bytes, __VA_ARGS__), (status))

static int copy_path(const char *from, char **to, char *error_text, size_t error_bytes)
{
	*to = from ? strdup(from) : NULL;
	return from && !*to ? REFUSE(FORGE_E_NO_MEMORY, "%s", status_sentence(FORGE_E_NO_MEMORY))
			    : 0;
}

static int copy_wish(struct door *d, const struct door_wish *w, char *error_text,
		     size_t error_bytes)
{
	const struct tls_files *f = &w->files;

	if (!f->certificate != !f->key || (f->authority && !f->certificate))
		return REFUSE(FORGE_E_INVAL,
			      "TLS needs a certificate and its private key: give --tls-cert and "
			      "--tls-key");
	int status = copy_path(w->key_file, &d->key_file, error_text, error_bytes);

	if (!status)
		status = copy_path(f->certificate, &d->certificate, error_text, error_bytes);
	if (!status)
		status = copy_path(f->key, &d->key, error_text, error_bytes);
	if (!status)
		status = copy_path(f->authority, &d->authority, error_text, error_bytes);
	return status;
}

static int open_gate(struct door *d, unsigned strangers_max, char *error_text, size_t error_bytes)
{
	uint8_t seed_bytes[PROOF_NONCE_BYTES];
	uint64_t seed;

	if (proof_nonce(seed_bytes))
		return REFUSE(FORGE_E_SYSTEM, "the kernel gives no random bytes: %m");
	memcpy(&seed, seed_bytes, sizeof(seed));
	d->gate = gate_open(strangers_max, seed);
	return d->gate ? 0 : REFUSE(FORGE_E_NO_MEMORY, "%s", status_sentence(FORGE_E_NO_MEMORY));
}

int door_open(const struct door_wish *w, struct door **out, char *error_text, size_t error_bytes)
{
	struct door *d = calloc(1, sizeof(*d));

	if (!d)
		return REFUSE(FORGE_E_NO_MEMORY, "%s", status_sentence(FORGE_E_NO_MEMORY));
	pthread_rwlock_init(&d->lock, NULL);
	int status = copy_wish(d, w, error_text, error_bytes);

	if (!status)
		status = open_gate(d, w->strangers_max, error_text, error_bytes);
	if (!status)
		status = door_reload(d, error_text, error_bytes);
	if (status)
		door_close(d);
	else
		*out = d;
	return status;
}

static void marked_keys_close(struct marked_keys *m)
{
	if (m)
		keys_close(m->keys);
	free(m);
}

void door_close(struct door *d)
{
	if (!d)
		return;
	marked_keys_close(d->keys);
	tls_close(d->tls);
	gate_close(d->gate);
	pthread_rwlock_destroy(&d->lock);
	free(d->key_file);
	free(d->certificate);
	free(d->key);
	free(d->authority);
	free(d);
}

static_assert(sizeof(struct key) == KEY_NAME_BYTES + 2 + KEY_SECRET_BYTES_MAX,
	      "no padding is hashed");

/* Of everything in it. */
static int mark_of(const struct key *key, uint64_t *out)
{
	unsigned char digest[EVP_MAX_MD_SIZE];

	if (!EVP_Digest(key, sizeof(*key), digest, NULL, EVP_sha256(), NULL))
		return FORGE_E_NO_MEMORY;
	memcpy(out, digest, sizeof(*out));
	if (*out == 0)
		*out = 1;
	return 0;
}

/* Takes keys over, if it succeeds. */
static int mark_keys(struct keys *keys, struct marked_keys **out)
{
	unsigned count = keys_count(keys);
	struct marked_keys *m = calloc(1, sizeof(*m) + count * sizeof(m->marks[0]));
	int status = m ? 0 : FORGE_E_NO_MEMORY;

	for (unsigned i = 0; i < count && !status; i++)
		status = mark_of(keys_at(keys, i), &m->marks[i]);
	if (status) {
		free(m);
		return status;
	}
	m->keys = keys;
	*out = m;
	return 0;
}

static int open_keys(const char *path, struct marked_keys **out, char *error_text,
		     size_t error_bytes)
{
	struct keys *keys;
	int status = keys_open(path, &keys, error_text, error_bytes);

	if (status)
		return status;
	status = mark_keys(keys, out);
	if (status) {
		keys_close(keys);
		return REFUSE(status, "%s", status_sentence(status));
	}
	return 0;
}

int door_reload(struct door *d, char *error_text, size_t error_bytes)
{
	const struct tls_files files = {d->certificate, d->key, d->authority};
	struct marked_keys *keys = NULL, *old_keys;
	struct tls *tls = NULL, *old_tls;
	int status = 0;

	if (d->key_file)
		status = open_keys(d->key_file, &keys, error_text, error_bytes);
	if (!status && d->certificate)
		status = tls_open(&files, TLS_SERVER | TLS_ONLY_1_3 | TLS_KERNEL, &tls, error_text,
				  error_bytes);
	if (status) {
		marked_keys_close(keys);
		return status;
	}
	pthread_rwlock_wrlock(&d->lock);
	old_keys = d->keys;
	old_tls = d->tls;
	d->keys = keys;
	d->tls = tls;
	pthread_rwlock_unlock(&d->lock);
	marked_keys_close(old_keys);
	tls_close(old_tls);
	return 0;
}

struct gate *door_gate(const struct door *d)
{
	return d->gate;
}

bool door_asks_keys(const struct door *d)
{
	return d->key_file != NULL;
}

bool door_has_tls(const struct door *d)
{
	return d->certificate != NULL;
}

bool door_knows_who_comes(const struct door *d)
{
	return d->key_file || d->authority;
}

struct tls_conn *door_tls_conn(struct door *d, int fd)
{
	pthread_rwlock_rdlock(&d->lock);
	struct tls_conn *c = tls_conn_create(d->tls, fd, NULL);

	pthread_rwlock_unlock(&d->lock);
	return c;
}

int door_check(struct door *d, struct proof_node *proof, const void *answer, size_t bytes,
	       struct key *out, uint64_t *mark)
{
	const struct key *key;

	pthread_rwlock_rdlock(&d->lock);
	int status = proof_node_check(proof, d->keys->keys, answer, bytes, &key);

	if (!status) {
		*out = *key;
		*mark = d->keys->marks[key - keys_at(d->keys->keys, 0)];
	}
	pthread_rwlock_unlock(&d->lock);
	return status;
}

bool door_still_knows(struct door *d, uint64_t mark)
{
	bool known = mark == 0 || !d->key_file;

	pthread_rwlock_rdlock(&d->lock);
	for (unsigned i = 0; !known && i < keys_count(d->keys->keys); i++)
		known = d->keys->marks[i] == mark;
	pthread_rwlock_unlock(&d->lock);
	return known;
}
