/*
 * The door: strangers are bounded in all and for each address, an address that fails waits longer
 * each time, and neither garbage from many addresses nor from one keeps another one out for ever.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>
#include <arpa/inet.h>
#include <netinet/in.h>
#include <sys/un.h>

#include <cmocka.h>

#include "access/gate.h"

#define SEED UINT64_C(0x9e3779b97f4a7c15)

static gate_address v4(const char *text)
{
	struct sockaddr_in a = {.sin_family = AF_INET};

	assert_int_equal(inet_pton(AF_INET, text, &a.sin_addr), 1);
	return gate_address_of((const struct sockaddr *)&a, sizeof(a));
}

static gate_address v6(const char *text)
{
	struct sockaddr_in6 a = {.sin6_family = AF_INET6};

	assert_int_equal(inet_pton(AF_INET6, text, &a.sin6_addr), 1);
	return gate_address_of((const struct sockaddr *)&a, sizeof(a));
}

static void addresses_are_hosts(void **state)
{
	struct sockaddr_un local = {.sun_family = AF_UNIX};

	assert_true(v4("10.0.0.1") != v4("10.0.0.2"));
	assert_true(v4("0.0.0.0") != 0);
	assert_true(v6("::1") != 0);
	assert_true(v6("2001:db8:1:2::1") == v6("2001:db8:1:2:ffff::9"));
	assert_true(v6("2001:db8:1:2::1") != v6("2001:db8:1:3::1"));
	assert_true(v6("::ffff:10.0.0.1") == v4("10.0.0.1"));
	assert_true(gate_address_of((const struct sockaddr *)&local, sizeof(local)) == 0);
}

static void strangers_are_bounded(void **state)
{
	struct gate *g = gate_open(16, SEED);
	const gate_address one = v4("10.0.0.1");
	struct gate_counts counts;
	unsigned came = 0;

	for (unsigned i = 0; i < 10; i++)
		came += gate_begin(g, one, 0) == GATE_COME;
	assert_int_equal(came, 8);
	for (unsigned i = 2; i < 100; i++)
		came += gate_begin(g, one + i, 0) == GATE_COME;
	assert_int_equal(came, 16);
	/* Neither address nor room. */
	assert_int_equal(gate_begin(g, 0, 0), GATE_FULL);
	gate_count(g, &counts);
	assert_int_equal(counts.pending, 16);
	assert_int_equal(counts.full, 2 + 90 + 1);
	/* Whoever is welcomed, or goes, is none any more. */
	gate_end(g, one, GATE_WELCOMED, 0);
	gate_end(g, one + 2, GATE_LEFT, 0);
	assert_int_equal(gate_begin(g, one, 0), GATE_COME);
	assert_int_equal(gate_begin(g, 0, 0), GATE_COME);
	assert_int_equal(gate_begin(g, one + 2, 0), GATE_FULL);
	gate_close(g);
}

static void fails(struct gate *g, gate_address a, uint64_t now_ms)
{
	assert_int_equal(gate_begin(g, a, now_ms), GATE_COME);
	gate_end(g, a, GATE_FAILED, now_ms);
}

static void who_fails_waits_longer_each_time(void **state)
{
	struct gate *g = gate_open(64, SEED);
	const gate_address guesser = v4("10.0.0.1"), other = v4("10.0.0.2");
	uint64_t now_ms = 1000, wait_ms = GATE_TURNED_AWAY_MS;
	struct gate_counts counts;

	for (unsigned i = 0; i < GATE_FAILURES_FREE; i++)
		fails(g, guesser, now_ms);
	for (unsigned i = 0; i < 12; i++) {
		assert_int_equal(gate_begin(g, guesser, now_ms + wait_ms - 1), GATE_TURNED_AWAY);
		assert_int_equal(gate_begin(g, other, now_ms), GATE_COME);
		gate_end(g, other, GATE_WELCOMED, now_ms);
		now_ms += wait_ms;
		fails(g, guesser, now_ms);
		wait_ms =
		    wait_ms * 2 < GATE_TURNED_AWAY_MS_MAX ? wait_ms * 2 : GATE_TURNED_AWAY_MS_MAX;
	}
	gate_count(g, &counts);
	assert_int_equal(counts.failed, GATE_FAILURES_FREE + 12);
	assert_int_equal(counts.turned_away, 12);
	assert_int_equal(counts.pending, 0);
	/* Being turned away is no failure: it does not get longer by knocking. */
	for (unsigned i = 0; i < 100; i++)
		gate_begin(g, guesser, now_ms + wait_ms - 1);
	assert_int_equal(gate_begin(g, guesser, now_ms + wait_ms), GATE_COME);
	/* A success forgives. */
	gate_end(g, guesser, GATE_WELCOMED, now_ms + wait_ms);
	for (unsigned i = 0; i + 1 < GATE_FAILURES_FREE; i++)
		fails(g, guesser, now_ms + wait_ms);
	assert_int_equal(gate_begin(g, guesser, now_ms + wait_ms), GATE_COME);
	gate_close(g);
}

static void time_forgives_and_silence_is_no_failure(void **state)
{
	struct gate *g = gate_open(64, SEED);
	const gate_address a = v4("10.0.0.1");
	uint64_t now_ms = 1000;

	for (unsigned i = 0; i < 1000; i++) {
		assert_int_equal(gate_begin(g, a, now_ms), GATE_COME);
		gate_end(g, a, GATE_LEFT, now_ms);
	}
	for (unsigned round = 0; round < 3; round++) {
		for (unsigned i = 0; i + 1 < GATE_FAILURES_FREE; i++)
			fails(g, a, now_ms);
		now_ms += GATE_FORGIVEN_MS + 1;
	}
	assert_int_equal(gate_begin(g, a, now_ms), GATE_COME);
	gate_close(g);
}

/* Ten thousand addresses that fail leave the table no larger, and no stranger of it forgotten. */
static void many_addresses_push_out_old_ones_only(void **state)
{
	struct gate *g = gate_open(64, SEED);
	const gate_address guest = v4("10.0.0.1"), first = v4("10.1.0.0");
	struct gate_counts counts;

	assert_int_equal(gate_begin(g, guest, 1), GATE_COME);
	for (unsigned i = 0; i < 10000; i++)
		fails(g, first + i, 2 + i);
	gate_end(g, guest, GATE_WELCOMED, 20000);
	gate_count(g, &counts);
	assert_int_equal(counts.pending, 0);
	assert_int_equal(counts.failed, 10000);
	gate_close(g);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test(addresses_are_hosts),
	    cmocka_unit_test(strangers_are_bounded),
	    cmocka_unit_test(who_fails_waits_longer_each_time),
	    cmocka_unit_test(time_forgives_and_silence_is_no_failure),
	    cmocka_unit_test(many_addresses_push_out_old_ones_only),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
