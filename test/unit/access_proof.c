/*
 * The exchange of proofs: who knows the secret is believed, on both sides, and nothing else is:
 * not what was said on another connection, or in the other direction, and not an exchange of which
 * somebody in between changed one bit.  One MAC is compared with a value that was computed by
 * another program, so that both sides cannot be wrong in the same way.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include "access/proof.h"
#include "base/status.h"

#define SECRET_A "00112233445566778899aabbccddeeff"
#define SECRET_B "ffeeddccbbaa99887766554433221100"
#define SECRET_C "0123456789abcdef0123456789abcdef"

static struct keys *keys_from(const char *text)
{
	char why[256];
	struct keys *k;

	assert_int_equal(keys_open_text(text, "test", &k, why, sizeof(why)), 0);
	return k;
}

/* A whole exchange, each message of which a test may change on its way. */
struct exchange {
	uint8_t hello_sent[PROOF_HELLO_BYTES], hello_got[PROOF_HELLO_BYTES];
	uint8_t binding_client[PROOF_BINDING_BYTES], binding_node[PROOF_BINDING_BYTES];
	uint8_t nonce_client[PROOF_NONCE_BYTES], nonce_node[PROOF_NONCE_BYTES];
	struct proof_client client;
	struct proof_node node;
	struct proof_challenge challenge;
	struct proof_answer answer;
	struct proof_confirm confirm;
	uint8_t welcome[PROOF_WELCOME_BYTES];
	const struct key *found;
};

static void exchange_begin(struct exchange *x, uint8_t seed)
{
	memset(x, 0, sizeof(*x));
	memset(x->hello_sent, 0x48, sizeof(x->hello_sent));
	memcpy(x->hello_got, x->hello_sent, sizeof(x->hello_got));
	memset(x->nonce_client, seed, sizeof(x->nonce_client));
	memset(x->nonce_node, seed + 1, sizeof(x->nonce_node));
	memset(x->welcome, 0x57, sizeof(x->welcome));
}

static void ask(struct exchange *x)
{
	proof_client_begin(&x->client, x->hello_sent, x->binding_client);
	proof_node_begin(&x->node, x->hello_got, x->binding_node, x->nonce_node, &x->challenge);
}

static int answer(struct exchange *x, const struct key *key)
{
	return proof_client_answer(&x->client, key, &x->challenge, sizeof(x->challenge),
				   x->nonce_client, &x->answer);
}

static int check(struct exchange *x, const struct keys *keys)
{
	x->found = NULL;
	return proof_node_check(&x->node, keys, &x->answer, sizeof(x->answer), &x->found);
}

/* From the answer on.  0 when both believe each other. */
static int finish(struct exchange *x, const struct keys *keys, const struct key *key)
{
	int status = check(x, keys);

	if (status)
		return status;
	assert_int_equal(proof_node_confirm(&x->node, x->found, x->welcome, &x->confirm), 0);
	return proof_client_check(&x->client, key, &x->confirm, sizeof(x->confirm), x->welcome);
}

static int whole(struct exchange *x, const struct keys *keys, const struct key *key)
{
	ask(x);
	int status = answer(x, key);

	return status ? status : finish(x, keys, key);
}

static void who_knows_the_secret_is_believed(void **state)
{
	struct keys *node =
	    keys_from("a full " SECRET_A "\nb read-only " SECRET_B "\nc metrics " SECRET_C);
	struct exchange x;

	for (unsigned i = 0; i < keys_count(node); i++) {
		exchange_begin(&x, 7);
		assert_int_equal(whole(&x, node, keys_at(node, i)), 0);
		assert_ptr_equal(x.found, keys_at(node, i));
	}
	keys_close(node);
}

static void an_old_and_a_new_secret_of_one_name_both_open(void **state)
{
	struct keys *node = keys_from("a full " SECRET_A "\na read-only " SECRET_B);
	struct exchange x;

	for (unsigned i = 0; i < 2; i++) {
		exchange_begin(&x, 7);
		assert_int_equal(whole(&x, node, keys_at(node, i)), 0);
		assert_ptr_equal(x.found, keys_at(node, i));
	}
	keys_close(node);
}

static void wrong_secrets_and_unknown_names_are_denied(void **state)
{
	struct keys *node = keys_from("a full " SECRET_A "\nb full " SECRET_B);
	/* A's name with b's secret, a name that begins like one, one nobody has, a longer secret.
	 */
	struct keys *others = keys_from("a full " SECRET_B "\naa full " SECRET_A
					"\nz full " SECRET_A "\na full " SECRET_A "00");
	struct exchange x;

	for (unsigned i = 0; i < keys_count(others); i++) {
		exchange_begin(&x, 7);
		assert_int_equal(whole(&x, node, keys_at(others, i)), FORGE_E_DENIED);
		assert_null(x.found);
	}
	keys_close(node);
	keys_close(others);
}

static void a_node_that_knows_no_secret_is_not_believed(void **state)
{
	struct keys *ours = keys_from("a full " SECRET_A);
	struct keys *theirs = keys_from("a full " SECRET_B);
	struct exchange x;

	exchange_begin(&x, 7);
	ask(&x);
	assert_int_equal(answer(&x, keys_at(ours, 0)), 0);
	memcpy(&x.node.said.answer, &x.answer, sizeof(x.answer));
	proof_node_confirm(&x.node, keys_at(theirs, 0), x.welcome, &x.confirm);
	assert_int_equal(proof_client_check(&x.client, keys_at(ours, 0), &x.confirm,
					    sizeof(x.confirm), x.welcome),
			 FORGE_E_DENIED);
	/* Nor one that sends the client's own proof back. */
	memcpy(x.confirm.mac, x.answer.mac, sizeof(x.confirm.mac));
	assert_int_equal(proof_client_check(&x.client, keys_at(ours, 0), &x.confirm,
					    sizeof(x.confirm), x.welcome),
			 FORGE_E_DENIED);
	/* Nor one that welcomes whomever, before or without anything else. */
	proof_client_begin(&x.client, x.hello_sent, NULL);
	assert_int_equal(proof_client_check(&x.client, keys_at(ours, 0), &x.confirm,
					    sizeof(x.confirm), x.welcome),
			 FORGE_E_DENIED);
	keys_close(ours);
	keys_close(theirs);
}

static void what_was_said_before_is_worth_nothing(void **state)
{
	struct keys *k = keys_from("a full " SECRET_A);
	struct exchange first, second;

	exchange_begin(&first, 7);
	assert_int_equal(whole(&first, k, keys_at(k, 0)), 0);
	/* The same answer to the same challenge: it was answered. */
	assert_int_equal(check(&first, k), FORGE_E_DENIED);
	/* The same answer on another connection. */
	exchange_begin(&second, 9);
	ask(&second);
	second.answer = first.answer;
	assert_int_equal(check(&second, k), FORGE_E_DENIED);
	/* And no second guess at the same challenge. */
	assert_int_equal(answer(&second, keys_at(k, 0)), 0);
	assert_int_equal(check(&second, k), FORGE_E_DENIED);
	/* A confirmation recorded earlier, to a client with another nonce. */
	exchange_begin(&second, 9);
	memcpy(second.nonce_node, first.nonce_node, sizeof(second.nonce_node));
	ask(&second);
	assert_int_equal(answer(&second, keys_at(k, 0)), 0);
	assert_int_equal(proof_client_check(&second.client, keys_at(k, 0), &first.confirm,
					    sizeof(first.confirm), first.welcome),
			 FORGE_E_DENIED);
	/* A client answers once: nobody gets two proofs on one connection. */
	assert_int_equal(answer(&second, keys_at(k, 0)), FORGE_E_NODE);
	keys_close(k);
}

/*
 * Every bit of every message, changed by somebody in between: version, kind, role and instance of
 * the hello, the nonces, the name, the welcome with the role granted.
 */
static void one_bit_changed_on_the_way_is_noticed(void **state)
{
	struct keys *k = keys_from("a full " SECRET_A);
	const struct key *key = keys_at(k, 0);
	struct exchange x;

	for (unsigned bit = 0; bit < 8 * PROOF_HELLO_BYTES; bit++) {
		exchange_begin(&x, 7);
		x.hello_got[bit / 8] ^= (uint8_t)(1 << bit % 8);
		assert_int_equal(whole(&x, k, key), FORGE_E_DENIED);
	}
	for (unsigned bit = 0; bit < 8 * sizeof(x.challenge); bit++) {
		exchange_begin(&x, 7);
		ask(&x);
		((uint8_t *)&x.challenge)[bit / 8] ^= (uint8_t)(1 << bit % 8);
		/* Another method: the client says that it cannot. */
		assert_int_not_equal(answer(&x, key) || finish(&x, k, key), 0);
	}
	for (unsigned bit = 0; bit < 8 * sizeof(x.answer); bit++) {
		exchange_begin(&x, 7);
		ask(&x);
		assert_int_equal(answer(&x, key), 0);
		((uint8_t *)&x.answer)[bit / 8] ^= (uint8_t)(1 << bit % 8);
		assert_int_equal(finish(&x, k, key), FORGE_E_DENIED);
	}
	for (unsigned bit = 0; bit < 8 * (sizeof(x.confirm.mac) + sizeof(x.welcome)); bit++) {
		exchange_begin(&x, 7);
		assert_int_equal(whole(&x, k, key), 0);
		uint8_t *at = bit < 8 * sizeof(x.confirm.mac)
				  ? &x.confirm.mac[bit / 8]
				  : &x.welcome[bit / 8 - sizeof(x.confirm.mac)];

		*at ^= (uint8_t)(1 << bit % 8);
		assert_int_equal(
		    proof_client_check(&x.client, key, &x.confirm, sizeof(x.confirm), x.welcome),
		    FORGE_E_DENIED);
	}
	keys_close(k);
}

/* Two TLS connections with somebody between them, or one that goes on in clear. */
static void another_tls_connection_is_noticed(void **state)
{
	struct keys *k = keys_from("a full " SECRET_A);
	struct exchange x;

	exchange_begin(&x, 7);
	memset(x.binding_client, 1, sizeof(x.binding_client));
	assert_int_equal(whole(&x, k, keys_at(k, 0)), FORGE_E_DENIED);
	exchange_begin(&x, 7);
	memset(x.binding_client, 1, sizeof(x.binding_client));
	memset(x.binding_node, 1, sizeof(x.binding_node));
	assert_int_equal(whole(&x, k, keys_at(k, 0)), 0);
	x.binding_node[31] = 2;
	assert_int_equal(whole(&x, k, keys_at(k, 0)), FORGE_E_DENIED);
	keys_close(k);
}

static void other_lengths_are_refused(void **state)
{
	struct keys *k = keys_from("a full " SECRET_A);
	uint8_t long_enough[256] = {PROOF_METHOD_HMAC_SHA256};
	const struct key *found;
	struct exchange x;

	for (size_t bytes = 0; bytes < sizeof(long_enough); bytes++) {
		exchange_begin(&x, 7);
		ask(&x);
		if (bytes != sizeof(x.challenge)) {
			assert_int_equal(proof_client_answer(&x.client, keys_at(k, 0), long_enough,
							     bytes, x.nonce_client, &x.answer),
					 FORGE_E_NODE);
		}
		assert_int_equal(proof_node_check(&x.node, k, long_enough, bytes, &found),
				 FORGE_E_DENIED);
		assert_int_equal(
		    proof_client_check(&x.client, keys_at(k, 0), long_enough, bytes, x.welcome),
		    FORGE_E_DENIED);
	}
	keys_close(k);
}

/* What Python's hmac says of the bytes that doc/access.md lists. */
static void the_macs_are_those_of_another_program(void **state)
{
	static const char expected_client[] =
	    "53324930f11a7f6dbf9b48ab1f40b1e56f9c45008095438fdaa3dfe151663200";
	static const char expected_node[] =
	    "b86ec195f18d459c7d9dd295debcb27e0ab847293ca67b209ce9f5a70435a8d8";
	struct keys *k = keys_from("a full " SECRET_A);
	struct exchange x;
	char hex[2 * PROOF_MAC_BYTES + 1];

	exchange_begin(&x, 7);
	assert_int_equal(whole(&x, k, keys_at(k, 0)), 0);
	for (unsigned i = 0; i < PROOF_MAC_BYTES; i++)
		sprintf(hex + 2 * i, "%02x", x.answer.mac[i]);
	assert_string_equal(hex, expected_client);
	for (unsigned i = 0; i < PROOF_MAC_BYTES; i++)
		sprintf(hex + 2 * i, "%02x", x.confirm.mac[i]);
	assert_string_equal(hex, expected_node);
	keys_close(k);
}

static void nonces_differ(void **state)
{
	uint8_t a[PROOF_NONCE_BYTES], b[PROOF_NONCE_BYTES];

	assert_int_equal(proof_nonce(a), 0);
	assert_int_equal(proof_nonce(b), 0);
	assert_memory_not_equal(a, b, sizeof(a));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test(who_knows_the_secret_is_believed),
	    cmocka_unit_test(an_old_and_a_new_secret_of_one_name_both_open),
	    cmocka_unit_test(wrong_secrets_and_unknown_names_are_denied),
	    cmocka_unit_test(a_node_that_knows_no_secret_is_not_believed),
	    cmocka_unit_test(what_was_said_before_is_worth_nothing),
	    cmocka_unit_test(one_bit_changed_on_the_way_is_noticed),
	    cmocka_unit_test(another_tls_connection_is_noticed),
	    cmocka_unit_test(other_lengths_are_refused),
	    cmocka_unit_test(the_macs_are_those_of_another_program),
	    cmocka_unit_test(nonces_differ),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
