/*
 * proof.h: how a client and a memory node prove to each other that they know one secret.
 *
 * Used by both sides of the tcp provider, between hello and welcome (doc/wire.md).  Pure but for
 * proof_nonce(): it makes and checks messages, the caller sends them.  No thread shares a
 * struct proof_client or proof_node; both are copied freely and hold no secret.
 *
 *	client                                  node
 *	hello                               ->
 *	                                   <-   struct proof_challenge: a nonce
 *	struct proof_answer: key's name,    ->
 *	a nonce, a MAC
 *	                                   <-   struct proof_confirm: a MAC; then the welcome
 *
 * Each MAC is HMAC-SHA256 with the secret over a label of its direction and all that was said
 * before it: hello, challenge, answer, and for the node's the welcome, which follows.  Therefore
 *
 *   - an answer is good for one connection: the node's nonce is new each time, and a node takes
 *     one answer to one challenge.  A confirmation is, too: the client's nonce is in it.
 *   - no one in between can change a version, feature, kind, role or instance of the hello, nor
 *     anything in the welcome, e.g. the role granted.
 *   - what one side sent cannot be sent back to it as if it were the other's: the labels differ.
 *   - within TLS both also hash what the handshake exported (RFC 5705; RFC 9266 calls the use
 *     "channel binding").  Who ends one TLS connection and begins another, or goes on in clear,
 *     has another value, and the proof fails.
 *   - an unknown name takes as long as a wrong secret, and is answered with the same words.
 *
 * What follows the welcome is not protected by any of this; on a path that others can write to,
 * only TLS does that (doc/access.md).
 */
#ifndef FORGE_ACCESS_PROOF_H
#define FORGE_ACCESS_PROOF_H

#include <assert.h>
#include <stddef.h>
#include <stdint.h>

#include "access/keys.h"

#define PROOF_NONCE_BYTES   32u
#define PROOF_MAC_BYTES	    32u
#define PROOF_BINDING_BYTES 32u
#define PROOF_HELLO_BYTES   64u
#define PROOF_WELCOME_BYTES 128u

/* The only method there is. */
#define PROOF_METHOD_HMAC_SHA256 1u

struct proof_challenge {
	uint8_t method;
	uint8_t zero[7];
	uint8_t nonce[PROOF_NONCE_BYTES];
};

struct proof_answer {
	uint8_t method;
	uint8_t zero[7];
	char name[KEY_NAME_BYTES]; /* of the key, zeroes behind it */
	uint8_t nonce[PROOF_NONCE_BYTES];
	uint8_t mac[PROOF_MAC_BYTES];
};

struct proof_confirm {
	uint8_t method;
	uint8_t zero[7];
	uint8_t mac[PROOF_MAC_BYTES];
};

static_assert(sizeof(struct proof_challenge) == 40, "as on the wire");
static_assert(sizeof(struct proof_answer) == 136, "as on the wire");
static_assert(sizeof(struct proof_confirm) == 40, "as on the wire");

/* What both sides know of a connection, and of what was said on it so far. */
struct proof_said {
	uint8_t hello[PROOF_HELLO_BYTES];
	uint8_t binding[PROOF_BINDING_BYTES]; /* tls_binding(), or zeroes in clear */
	struct proof_challenge challenge;
	struct proof_answer answer;
};

/* The client's side. */
struct proof_client {
	struct proof_said said;
	int has_answered;
};

/* The node's side. */
struct proof_node {
	struct proof_said said;
	int is_asked; /* a challenge is out, and was not answered */
};

/* Random bytes of the kernel.  0 or FORGE_E_SYSTEM. */
int proof_nonce(uint8_t out[PROOF_NONCE_BYTES]);

/* What the client has sent, in what; binding NULL: in clear. */
void proof_client_begin(struct proof_client *, const void *hello, const uint8_t *binding);

/*
 * Answer a challenge that came as `bytes` bytes.
 * 0; FORGE_E_NODE for one that this build cannot answer, or a second one; FORGE_E_NO_MEMORY.
 */
int proof_client_answer(struct proof_client *, const struct key *, const void *challenge,
			size_t bytes, const uint8_t nonce[PROOF_NONCE_BYTES],
			struct proof_answer *out);

/*
 * Did a node that knows the secret send this confirmation and this welcome?
 * 0; FORGE_E_DENIED if not, or if nothing was answered yet.
 */
int proof_client_check(const struct proof_client *, const struct key *, const void *confirm,
		       size_t bytes, const void *welcome);

/* The challenge for a connection whose client has said hello. */
void proof_node_begin(struct proof_node *, const void *hello, const uint8_t *binding,
		      const uint8_t nonce[PROOF_NONCE_BYTES], struct proof_challenge *out);

/*
 * Who answered?  Takes one answer to a challenge, right or wrong.  The key is one of keys.
 * 0; FORGE_E_DENIED for an unknown name, a wrong secret, or bytes that are no answer.
 */
int proof_node_check(struct proof_node *, const struct keys *, const void *answer, size_t bytes,
		     const struct key **out);

/* The node's own proof, of the welcome that it will send to the client with that key. */
int proof_node_confirm(const struct proof_node *, const struct key *, const void *welcome,
		       struct proof_confirm *out);

#endif
