/*
 * proof.c: the MACs of proof.h.
 *
 * All that is hashed has a fixed length, so no two different exchanges give the same bytes.
 */
#include "access/proof.h"

#include <openssl/crypto.h>
#include <openssl/evp.h>
#include <openssl/hmac.h>
#include <string.h>
#include <sys/random.h>

#include "base/status.h"

#define LABEL_BYTES 23u

static const char client_label[LABEL_BYTES + 1] = "FORGE 1: client's proof";
static const char node_label[LABEL_BYTES + 1] = "FORGE 1: node's proof";

int proof_nonce(uint8_t out[PROOF_NONCE_BYTES])
{
	/* So few bytes come whole, and no signal interrupts them. */
	return getrandom(out, PROOF_NONCE_BYTES, 0) == PROOF_NONCE_BYTES ? FORGE_OK
									 : FORGE_E_SYSTEM;
}

/* What a MAC is taken over, one after the other. */
struct hashed {
	char label[LABEL_BYTES];
	/* HMAC takes a secret and the same with zeroes behind it for one; we do not. */
	uint8_t secret_bytes;
	struct proof_said said;
	uint8_t welcome[PROOF_WELCOME_BYTES]; /* zeroes in the client's */
};

static_assert(sizeof(struct hashed) == 23 + 1 + 64 + 32 + 40 + 136 + 128, "no padding is hashed");

static int mac_of(const struct hashed *h, const struct key *key, uint8_t out[PROOF_MAC_BYTES])
{
	unsigned bytes = PROOF_MAC_BYTES;

	return HMAC(EVP_sha256(), key->secret, key->secret_bytes, (const unsigned char *)h,
		    sizeof(*h), out, &bytes)
		   ? FORGE_OK
		   : FORGE_E_NO_MEMORY;
}

/* The client's: over the answer as far as it goes before its MAC. */
static int client_mac(const struct proof_said *said, const struct key *key,
		      uint8_t out[PROOF_MAC_BYTES])
{
	struct hashed h = {.secret_bytes = key->secret_bytes, .said = *said};

	memcpy(h.label, client_label, LABEL_BYTES);
	memset(h.said.answer.mac, 0, PROOF_MAC_BYTES);
	return mac_of(&h, key, out);
}

static int node_mac(const struct proof_said *said, const struct key *key, const void *welcome,
		    uint8_t out[PROOF_MAC_BYTES])
{
	struct hashed h = {.secret_bytes = key->secret_bytes, .said = *said};

	memcpy(h.label, node_label, LABEL_BYTES);
	memcpy(h.welcome, welcome, PROOF_WELCOME_BYTES);
	return mac_of(&h, key, out);
}

static void said_begin(struct proof_said *said, const void *hello, const uint8_t *binding)
{
	memset(said, 0, sizeof(*said));
	memcpy(said->hello, hello, PROOF_HELLO_BYTES);
	if (binding)
		memcpy(said->binding, binding, PROOF_BINDING_BYTES);
}

/* ---- the client --------------------------------------------------------------------------- */

void proof_client_begin(struct proof_client *c, const void *hello, const uint8_t *binding)
{
	said_begin(&c->said, hello, binding);
	c->has_answered = 0;
}

int proof_client_answer(struct proof_client *c, const struct key *key, const void *challenge,
			size_t bytes, const uint8_t nonce[PROOF_NONCE_BYTES],
			struct proof_answer *out)
{
	struct proof_said *said = &c->said;

	if (c->has_answered || bytes != sizeof(said->challenge))
		return FORGE_E_NODE;
	memcpy(&said->challenge, challenge, bytes);
	if (said->challenge.method != PROOF_METHOD_HMAC_SHA256)
		return FORGE_E_NODE;
	said->answer = (struct proof_answer){.method = PROOF_METHOD_HMAC_SHA256};
	memcpy(said->answer.name, key->name, sizeof(said->answer.name));
	memcpy(said->answer.nonce, nonce, PROOF_NONCE_BYTES);
	if (client_mac(said, key, said->answer.mac))
		return FORGE_E_NO_MEMORY;
	c->has_answered = 1;
	*out = said->answer;
	return FORGE_OK;
}

int proof_client_check(const struct proof_client *c, const struct key *key, const void *confirm,
		       size_t bytes, const void *welcome)
{
	struct proof_confirm theirs;
	uint8_t ours[PROOF_MAC_BYTES];

	if (!c->has_answered || bytes != sizeof(theirs))
		return FORGE_E_DENIED;
	memcpy(&theirs, confirm, bytes);
	if (theirs.method != PROOF_METHOD_HMAC_SHA256 || node_mac(&c->said, key, welcome, ours))
		return FORGE_E_DENIED;
	return CRYPTO_memcmp(ours, theirs.mac, PROOF_MAC_BYTES) == 0 ? FORGE_OK : FORGE_E_DENIED;
}

/* ---- the node ----------------------------------------------------------------------------- */

void proof_node_begin(struct proof_node *n, const void *hello, const uint8_t *binding,
		      const uint8_t nonce[PROOF_NONCE_BYTES], struct proof_challenge *out)
{
	said_begin(&n->said, hello, binding);
	n->said.challenge.method = PROOF_METHOD_HMAC_SHA256;
	memcpy(n->said.challenge.nonce, nonce, PROOF_NONCE_BYTES);
	n->is_asked = 1;
	*out = n->said.challenge;
}

/* No key has this name, and nobody this secret: it only takes its time. */
static const struct key *decoy(void)
{
	static const struct key none = {.role = ACCESS_METRICS,
					.secret_bytes = KEY_SECRET_BYTES_MAX};

	return &none;
}

int proof_node_check(struct proof_node *n, const struct keys *keys, const void *answer,
		     size_t bytes, const struct key **out)
{
	struct proof_answer *theirs = &n->said.answer;
	const struct key *found = NULL;
	unsigned tried = 0;
	uint8_t ours[PROOF_MAC_BYTES];

	if (!n->is_asked || bytes != sizeof(*theirs))
		return FORGE_E_DENIED;
	n->is_asked = 0;
	memcpy(theirs, answer, bytes);
	if (theirs->method != PROOF_METHOD_HMAC_SHA256)
		return FORGE_E_DENIED;
	for (unsigned i = 0; i < keys_count(keys); i++) {
		const struct key *key = keys_at(keys, i);

		if (CRYPTO_memcmp(key->name, theirs->name, KEY_NAME_BYTES) != 0)
			continue;
		tried++;
		if (client_mac(&n->said, key, ours) == 0 &&
		    CRYPTO_memcmp(ours, theirs->mac, PROOF_MAC_BYTES) == 0)
			found = key;
	}
	if (!tried)
		client_mac(&n->said, decoy(), ours);
	if (!found)
		return FORGE_E_DENIED;
	*out = found;
	return FORGE_OK;
}

int proof_node_confirm(const struct proof_node *n, const struct key *key, const void *welcome,
		       struct proof_confirm *out)
{
	*out = (struct proof_confirm){.method = PROOF_METHOD_HMAC_SHA256};
	return node_mac(&n->said, key, welcome, out->mac);
}
