/*
 * threads.c: sessions of one client on several threads, and scans beside them; also under TSan.
 *
 * Traffic: each thread waits for some operations and has others in flight, on keys that all share;
 * a value that is found was stored under that key.  Scan: while others replace the values of keys
 * that stay, and store and delete keys that do not, each scan sees each key that stays, and nothing
 * that never was.  Nothing is evicted there: the pool holds all that is ever stored.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/prng.h"
#include "rig.h"

#define THREADS	  3u
#define KEYS	  300u
#define IN_FLIGHT 16u

struct worker_thread {
	pthread_t thread;
	struct forge_client *client;
	unsigned index;
	unsigned rounds;
	unsigned found, scans;
	_Atomic int *stop;
};

/* cmocka's checks are for the main thread; this one ends the program. */
static void require(int condition, const char *what)
{
	if (condition)
		return;
	fprintf(stderr, "%s: %s\n", what, forge_detail());
	abort();
}

static struct forge_session *open_session(struct forge_client *client)
{
	struct forge_session *s = NULL;

	require(forge_session_open(client, &s) == 0, "session");
	return s;
}

static void check_value(const struct forge_value *v, const char *key)
{
	require(v->bytes >= strlen(key) + 1 && memcmp(v->data, key, strlen(key)) == 0 &&
		    ((const char *)v->data)[strlen(key)] == '=',
		"a value of another key");
}

struct slot {
	struct forge_op op;
	char key[16], value[48];
};

static void fill(struct slot *slot, struct prng *prng)
{
	static const enum forge_verb verbs[] = {FORGE_GET, FORGE_GET,	 FORGE_SET,
						FORGE_ADD, FORGE_DELETE, FORGE_GET_AND_TOUCH};

	snprintf(slot->key, sizeof(slot->key), "k%u", (unsigned)prng_below(prng, KEYS));
	snprintf(slot->value, sizeof(slot->value), "%s=%llu", slot->key,
		 (unsigned long long)prng_u64(prng));
	slot->op = (struct forge_op){
	    .verb = verbs[prng_below(prng, sizeof(verbs) / sizeof(verbs[0]))],
	    .key = forge_text(slot->key),
	    .item.value = forge_text(slot->value),
	    .user = slot,
	};
}

static void check_slot(struct worker_thread *t, const struct slot *slot)
{
	require(slot->op.status >= 0 || slot->op.status == FORGE_E_AGAIN,
		forge_status_name(slot->op.status));
	if (slot->op.status || !slot->op.found.data)
		return;
	check_value(&slot->op.found, slot->key);
	t->found++;
}

static void *traffic(void *argument)
{
	struct worker_thread *t = argument;
	struct forge_session *s = open_session(t->client);
	static _Thread_local struct slot slots[IN_FLIGHT], own;
	struct prng prng;

	prng_seed(&prng, t->index);
	for (unsigned i = 0; i < IN_FLIGHT; i++) {
		fill(&slots[i], &prng);
		require(forge_submit(s, &slots[i].op, 1) == 0, "submit");
	}
	for (unsigned round = 0; round < t->rounds; round++) {
		struct forge_op *done[IN_FLIGHT];
		int n = forge_poll(s, done, IN_FLIGHT, FORGE_WAIT_FOREVER);

		require(n > 0, "poll");
		for (int i = 0; i < n; i++) {
			check_slot(t, done[i]->user);
			fill(done[i]->user, &prng);
			require(forge_submit(s, done[i], 1) == 0, "submit");
		}
		fill(&own, &prng);
		require(forge_run(s, &own.op, 1) == 0, "run");
		check_slot(t, &own);
		if (round % 100 == 99) {
			forge_session_close(s);
			s = open_session(t->client);
			for (unsigned i = 0; i < IN_FLIGHT; i++) {
				fill(&slots[i], &prng);
				require(forge_submit(s, &slots[i].op, 1) == 0, "submit");
			}
		}
	}
	forge_session_close(s);
	return NULL;
}

static void test_traffic(void **state)
{
	for (unsigned i = 0; i < 2; i++) {
		struct lib_rig r;
		struct worker_thread threads[THREADS];

		lib_rig_open(
		    &r, 64, i ? "1us" : NULL,
		    &(struct forge_options){.sessions_max = THREADS + 1, .in_flight_max = 8});
		for (unsigned n = 0; n < THREADS; n++) {
			threads[n] =
			    (struct worker_thread){.client = r.client, .index = n, .rounds = 700};
			assert_int_equal(
			    pthread_create(&threads[n].thread, NULL, traffic, &threads[n]), 0);
		}
		for (unsigned n = 0; n < THREADS; n++) {
			assert_int_equal(pthread_join(threads[n].thread, NULL), 0);
			assert_true(threads[n].found > 50);
		}
		lib_rig_close(&r);
	}
}

/* ---- scans -------------------------------------------------------------------------------- */

#define STAY 500u
#define PASS 200u

static void set_key(struct forge_session *s, char kind, unsigned number, unsigned version)
{
	char key[16], value[32];

	snprintf(key, sizeof(key), "%c%u", kind, number);
	snprintf(value, sizeof(value), "%s=%u", key, version);
	require(put_text(s, key, value) == 0, "set");
}

static void *change(void *argument)
{
	struct worker_thread *t = argument;
	struct forge_session *s = open_session(t->client);
	struct prng prng;
	char key[16];

	prng_seed(&prng, t->index);
	for (unsigned round = 0; round < t->rounds; round++) {
		set_key(s, 's', (unsigned)prng_below(&prng, STAY), round);
		snprintf(key, sizeof(key), "p%u", (unsigned)prng_below(&prng, PASS));
		if (round % 2)
			require(forge_delete(s, forge_text(key)) >= 0, "delete");
		else
			require(put_text(s, key, key) == 0, "set");
	}
	forge_session_close(s);
	atomic_fetch_sub(t->stop, 1);
	return NULL;
}

static void scan_once(struct forge_session *s)
{
	uint8_t seen[STAY] = {0};
	struct forge_scan *scan = NULL;
	struct forge_entry e;
	double progress = 0;
	int status;

	require(forge_scan_open(s, &scan) == 0, "scan");
	while ((status = forge_scan_next(scan, &e)) == 0) {
		char key[16] = "";
		unsigned number = UINT32_MAX;

		require(e.key.bytes < sizeof(key), "a key that never was");
		memcpy(key, e.key.data, e.key.bytes);
		require((key[0] == 's' || key[0] == 'p') && sscanf(key + 1, "%u", &number) == 1 &&
			    number < (key[0] == 's' ? STAY : PASS),
			"a key that never was");
		if (key[0] == 's')
			seen[number] = 1;
		require(forge_scan_progress(scan) >= progress, "progress");
		progress = forge_scan_progress(scan);
		/* The session may be used in between. */
		if (number % 100 == 0) {
			struct forge_value v;

			require(forge_get(s, e.key, &v) >= 0, "get");
		}
	}
	require(status == FORGE_MISS, "scan");
	require(forge_scan_next(scan, &e) == FORGE_MISS, "the end stays the end");
	forge_scan_close(scan);
	for (unsigned i = 0; i < STAY; i++)
		if (!seen[i]) {
			fprintf(stderr, "s%u was not seen\n", i);
			abort();
		}
}

static void test_scan_beside_traffic(void **state)
{
	for (unsigned i = 0; i < 2; i++) {
		struct lib_rig r;
		struct worker_thread threads[THREADS];
		_Atomic int running = THREADS - 1;
		unsigned scans = 0;

		/* 700 live objects, and every version of them: 8 to a chunk. */
		lib_rig_open(&r, 6000, i ? "1us" : NULL,
			     &(struct forge_options){.sessions_max = THREADS + 1});
		for (unsigned n = 0; n < STAY; n++)
			set_key(r.session, 's', n, 0);
		for (unsigned n = 0; n < THREADS - 1; n++) {
			threads[n] = (struct worker_thread){
			    .client = r.client, .index = n, .rounds = 10000, .stop = &running};
			assert_int_equal(
			    pthread_create(&threads[n].thread, NULL, change, &threads[n]), 0);
		}
		do {
			scan_once(r.session);
			scans++;
		} while (atomic_load(&running) > 0);
		for (unsigned n = 0; n < THREADS - 1; n++)
			assert_int_equal(pthread_join(threads[n].thread, NULL), 0);
		print_message("%u scans beside traffic\n", scans);
		scan_once(r.session);
		lib_rig_close(&r);
	}
}

/* At rest a scan sees exactly what is there, once. */
static void test_scan_at_rest(void **state)
{
	struct lib_rig r;
	struct forge_scan *scan;
	struct forge_entry e;
	unsigned count = 0, deleted = 0;

	lib_rig_open(&r, 200, NULL, NULL);
	OK(forge_scan_open(r.session, &scan));
	assert_int_equal(forge_scan_next(scan, &e), FORGE_MISS);
	forge_scan_close(scan);
	for (unsigned n = 0; n < STAY; n++)
		set_key(r.session, 's', n, n);
	OK(forge_delete(r.session, forge_text("s7")));
	OK(forge_set(r.session, forge_text("gone"),
		     &(struct forge_item){.expiry = forge_expire_after_ms(0)}));
	OK(forge_set(r.session, forge_text("s8"),
		     &(struct forge_item){.value = forge_text("eight"),
					  .flags = 88,
					  .expiry = forge_expire_after_ms(3600000)}));
	OK(forge_scan_open(r.session, &scan));
	for (int status; (status = forge_scan_next(scan, &e)) != FORGE_MISS; count++) {
		OK(status);
		if (e.key.bytes == 2 && memcmp(e.key.data, "s8", 2) == 0) {
			assert_int_equal(e.value_bytes, 5);
			assert_int_equal(e.flags, 88);
			assert_in_range(e.ttl_ms, 3000000, 3600000);
			continue;
		}
		struct forge_value v;

		assert_true(e.ttl_ms == FORGE_TTL_NEVER);
		OK(forge_get(r.session, e.key, &v));
		assert_int_equal(v.bytes, e.value_bytes);
		assert_true(v.cas == e.cas);
		/* What was seen may be deleted on the way. */
		deleted++;
		OK(forge_delete_if(r.session, e.key, e.cas));
	}
	forge_scan_close(scan);
	assert_int_equal(count, STAY - 1);
	OK(forge_scan_open(r.session, &scan));
	OK(forge_scan_next(scan, &e));
	assert_int_equal(forge_scan_next(scan, &e), FORGE_MISS);
	forge_scan_close(scan);
	OK(forge_flush(r.session));
	OK(forge_scan_open(r.session, &scan));
	assert_int_equal(forge_scan_next(scan, &e), FORGE_MISS);
	forge_scan_close(scan);
	lib_rig_close(&r);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test(test_traffic),
	    cmocka_unit_test(test_scan_beside_traffic),
	    cmocka_unit_test(test_scan_at_rest),
	};

	return cmocka_run_group_tests_name("sessions of several threads", tests, NULL, NULL);
}
