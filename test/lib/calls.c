/*
 * calls.c: every call of the public header that does one thing, on memory and on a slow fabric:
 * what it does, what it says when there is nothing to do, and what it says to misuse.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "rig.h"

/* Both ways a session can be run on. */
static const char *const latencies[] = {NULL, "5us"};
#define BOTH(i) (unsigned i = 0; i < 2; i++)

static uint64_t unix_ms(void)
{
	struct timespec now;

	clock_gettime(CLOCK_REALTIME, &now);
	return (uint64_t)now.tv_sec * 1000 + (uint64_t)now.tv_nsec / 1000000;
}

static const struct forge_bytes key = {"key", 3};

static int store(struct forge_session *s,
		 int (*how)(struct forge_session *, struct forge_bytes, const struct forge_item *),
		 const char *value)
{
	return how(s, key, &(struct forge_item){.value = forge_text(value), .flags = 7});
}

static void test_get_set_delete(void **state)
{
	for
		BOTH(i)
		{
			struct lib_rig r;
			struct forge_value v = {.bytes = 99};

			lib_rig_open(&r, 64, latencies[i], NULL);
			assert_int_equal(forge_get(r.session, key, &v), FORGE_MISS);
			assert_int_equal(v.bytes, 99); /* written on success only */
			OK(store(r.session, forge_set, "one"));
			OK(forge_get(r.session, key, &v));
			assert_true(value_is(&v, "one"));
			assert_int_equal(v.flags, 7);
			assert_true(v.cas != 0);
			assert_true(v.ttl_ms == FORGE_TTL_NEVER);
			uint64_t cas = v.cas;

			OK(store(r.session, forge_set, "two"));
			OK(forge_get(r.session, key, &v));
			assert_true(value_is(&v, "two") && v.cas != cas);
			OK(forge_delete(r.session, key));
			assert_int_equal(forge_get(r.session, key, &v), FORGE_MISS);
			assert_int_equal(forge_delete(r.session, key), FORGE_MISS);

			/* Nothing is a value, too. */
			OK(forge_set(r.session, key, &(struct forge_item){0}));
			OK(forge_get(r.session, key, &v));
			assert_int_equal(v.bytes, 0);
			assert_non_null(v.data);
			/* And any byte may be in a key. */
			struct forge_bytes odd = forge_bytes("a\0b", 3),
					   other = forge_bytes("a\0c", 3);

			OK(forge_set(r.session, odd,
				     &(struct forge_item){.value = forge_text("odd")}));
			assert_int_equal(forge_get(r.session, other, &v), FORGE_MISS);
			OK(forge_get(r.session, odd, &v));
			lib_rig_close(&r);
		}
}

static void test_get_copy(void **state)
{
	for
		BOTH(i)
		{
			struct lib_rig r;
			struct forge_value v;
			char buffer[8];

			lib_rig_open(&r, 64, latencies[i], NULL);
			assert_int_equal(forge_get_copy(r.session, key, buffer, 8, &v), FORGE_MISS);
			OK(store(r.session, forge_set, "12345"));
			OK(forge_get_copy(r.session, key, buffer, 5, &v));
			assert_ptr_equal(v.data, buffer);
			assert_true(value_is(&v, "12345"));
			OK(forge_get_copy(r.session, key, buffer, 8, &v));
			assert_int_equal(forge_get_copy(r.session, key, buffer, 4, &v),
					 FORGE_E_BUFFER_SMALL);
			assert_int_equal(v.bytes, 5);
			assert_int_equal(v.flags, 7);
			assert_null(v.data);
			assert_non_null(strstr(forge_detail(), "5 bytes"));
			/* How much room it takes. */
			assert_int_equal(forge_get_copy(r.session, key, NULL, 0, &v),
					 FORGE_E_BUFFER_SMALL);
			assert_int_equal(v.bytes, 5);
			assert_int_equal(forge_get_copy(r.session, key, NULL, 5, &v),
					 FORGE_E_INVAL);
			lib_rig_close(&r);
		}
}

static void test_conditional_stores(void **state)
{
	for
		BOTH(i)
		{
			struct lib_rig r;
			struct forge_value v;

			lib_rig_open(&r, 64, latencies[i], NULL);
			assert_int_equal(store(r.session, forge_replace, "no"), FORGE_MISS);
			assert_int_equal(forge_append(r.session, key, forge_text("no")),
					 FORGE_MISS);
			assert_int_equal(forge_prepend(r.session, key, forge_text("no")),
					 FORGE_MISS);
			assert_int_equal(forge_cas(r.session, key, &(struct forge_item){0}, 1),
					 FORGE_MISS);
			OK(store(r.session, forge_add, "b"));
			assert_int_equal(store(r.session, forge_add, "no"), FORGE_NOT_STORED);
			OK(forge_append(r.session, key, forge_text("cd")));
			OK(forge_prepend(r.session, key, forge_text("a")));
			OK(forge_get(r.session, key, &v));
			assert_true(value_is(&v, "abcd"));
			assert_int_equal(v.flags, 7);
			uint64_t cas = v.cas;

			OK(store(r.session, forge_replace, "e"));
			assert_int_equal(forge_cas(r.session, key,
						   &(struct forge_item){.value = forge_text("no")},
						   cas),
					 FORGE_EXISTS);
			OK(forge_get(r.session, key, &v));
			OK(forge_cas(r.session, key, &(struct forge_item){.value = forge_text("f")},
				     v.cas));
			assert_true(says(r.session, "key", "f"));

			assert_int_equal(forge_delete_if(r.session, key, v.cas), FORGE_EXISTS);
			OK(forge_get(r.session, key, &v));
			OK(forge_delete_if(r.session, key, v.cas));
			assert_int_equal(forge_delete_if(r.session, key, v.cas), FORGE_MISS);
			lib_rig_close(&r);
		}
}

static void test_counting(void **state)
{
	for
		BOTH(i)
		{
			struct lib_rig r;
			uint64_t n = 77;

			lib_rig_open(&r, 64, latencies[i], NULL);
			assert_int_equal(forge_incr(r.session, key, 1, &n), FORGE_MISS);
			assert_int_equal(n, 77);
			OK(put_text(r.session, "key", "18446744073709551614"));
			OK(forge_incr(r.session, key, 1, &n));
			assert_true(n == UINT64_MAX);
			OK(forge_incr(r.session, key, 3, &n));
			assert_int_equal(n, 2);
			OK(forge_decr(r.session, key, 5, &n));
			assert_int_equal(n, 0);
			OK(forge_incr(r.session, key, 10, NULL));
			assert_true(says(r.session, "key", "10"));
			OK(put_text(r.session, "key", "ten"));
			assert_int_equal(forge_incr(r.session, key, 1, &n), FORGE_E_NOT_NUMBER);
			assert_true(says(r.session, "key", "ten"));

			struct forge_op op = {.verb = FORGE_INCR,
					      .key = forge_text("new"),
					      .delta = 5,
					      .create = 1,
					      .initial = 42,
					      .item.flags = 3};

			OK(forge_run(r.session, &op, 1));
			OK(op.status);
			assert_int_equal(op.number, 42);
			OK(forge_run(r.session, &op, 1));
			assert_int_equal(op.number, 47);
			op = (struct forge_op){.verb = FORGE_GET, .key = op.key};
			OK(forge_run(r.session, &op, 1));
			assert_true(value_is(&op.found, "47"));
			assert_int_equal(op.found.flags, 3);
			lib_rig_close(&r);
		}
}

/* An hour from now and the same hour are told apart by how they were made. */
static void test_expiry(void **state)
{
	const uint64_t hour = 3600000;

	for
		BOTH(i)
		{
			struct lib_rig r;
			struct forge_value v;
			struct forge_item item = {.value = forge_text("v")};

			lib_rig_open(&r, 64, latencies[i], NULL);
			item.expiry = forge_expire_after_ms(hour);
			OK(forge_set(r.session, key, &item));
			OK(forge_get(r.session, key, &v));
			assert_in_range(v.ttl_ms, hour - 60000, hour);

			item.expiry = forge_expire_at_unix_ms(unix_ms() + hour);
			OK(forge_set(r.session, key, &item));
			OK(forge_get(r.session, key, &v));
			assert_in_range(v.ttl_ms, hour - 60000, hour);

			/* Taken for one another, the one would be 1970 and the other 50 years. */
			item.expiry = forge_expire_at_unix_ms(hour);
			OK(forge_set(r.session, key, &item));
			assert_int_equal(forge_get(r.session, key, &v), FORGE_MISS);
			item.expiry = forge_expire_after_ms(0);
			OK(forge_set(r.session, key, &item));
			assert_int_equal(forge_get(r.session, key, &v), FORGE_MISS);

			item.expiry = forge_expire_after_ms(UINT64_MAX);
			OK(forge_set(r.session, key, &item));
			OK(forge_get(r.session, key, &v));
			assert_true(v.ttl_ms > 1000 * hour);
			item.expiry = forge_expire_never();
			OK(forge_set(r.session, key, &item));
			OK(forge_get(r.session, key, &v));
			assert_true(v.ttl_ms == FORGE_TTL_NEVER);
			uint64_t cas = v.cas;

			OK(forge_touch(r.session, key, forge_expire_after_ms(hour)));
			OK(forge_get(r.session, key, &v));
			assert_in_range(v.ttl_ms, hour - 60000, hour);
			assert_true(v.cas == cas);
			OK(forge_get_and_touch(r.session, key, forge_expire_never(), &v));
			assert_true(value_is(&v, "v") && v.ttl_ms == FORGE_TTL_NEVER);
			OK(forge_get_and_touch(r.session, key, forge_expire_after_ms(0), &v));
			assert_int_equal(forge_touch(r.session, key, item.expiry), FORGE_MISS);
			assert_int_equal(forge_get_and_touch(r.session, key, item.expiry, &v),
					 FORGE_MISS);

			/* A few milliseconds, waited for. */
			item.expiry = forge_expire_after_ms(20);
			OK(forge_set(r.session, key, &item));
			for (uint64_t start = unix_ms(); forge_get(r.session, key, &v) == 0;)
				assert_true(unix_ms() - start < 60000);
			/* What nobody made is refused. */
			item.expiry = (struct forge_expiry){{9, 9}};
			assert_int_equal(forge_set(r.session, key, &item), FORGE_E_INVAL);
			lib_rig_close(&r);
		}
}

static void test_flush(void **state)
{
	for
		BOTH(i)
		{
			struct lib_rig r;
			struct forge_value v;

			lib_rig_open(&r, 64, latencies[i], NULL);
			struct forge_client *other = lib_rig_join(&r, NULL);
			struct forge_session *s;

			OK(forge_session_open(other, &s));
			OK(put_text(r.session, "a", "1"));
			OK(put_text(s, "b", "2"));
			OK(forge_flush(s));
			assert_int_equal(forge_get(r.session, forge_text("a"), &v), FORGE_MISS);
			assert_int_equal(forge_get(r.session, forge_text("b"), &v), FORGE_MISS);
			OK(put_text(r.session, "a", "3"));
			assert_true(says(s, "a", "3"));
			forge_session_close(s);
			OK(forge_close(other));
			lib_rig_close(&r);
		}
}

static void test_limits(void **state)
{
	struct lib_rig r;
	struct forge_limits limits;
	struct forge_value v;
	static char big[1 << 16];

	lib_rig_open(&r, 64, NULL, NULL);
	OK(forge_get_limits(r.client, &limits));
	assert_int_equal(limits.key_bytes, 250);
	assert_in_range(limits.value_bytes, 500, sizeof(big) - 1);
	struct forge_bytes longest = {big, limits.key_bytes};
	struct forge_item item = {.value = {big, limits.value_bytes}};

	OK(forge_set(r.session, longest, &item));
	OK(forge_get(r.session, longest, &v));
	assert_int_equal(v.bytes, limits.value_bytes);
	item.value.bytes = sizeof(big);
	assert_int_equal(forge_set(r.session, longest, &item), FORGE_E_VALUE_LARGE);
	assert_non_null(strstr(forge_detail(), "--value-max"));
	item.value.bytes = (size_t)1 << 32; /* not cut to 0 */
	assert_int_equal(forge_set(r.session, longest, &item), FORGE_E_VALUE_LARGE);
	assert_int_equal(forge_append(r.session, longest, forge_bytes(big, limits.value_bytes)),
			 FORGE_E_VALUE_LARGE);
	item.value.bytes = 1;
	longest.bytes++;
	assert_int_equal(forge_set(r.session, longest, &item), FORGE_E_KEY_LONG);
	assert_non_null(strstr(forge_detail(), "251"));
	longest.bytes = ((size_t)1 << 32) + 3;
	assert_int_equal(forge_get(r.session, longest, &v), FORGE_E_KEY_LONG);
	longest.bytes = 0;
	assert_int_equal(forge_get(r.session, longest, &v), FORGE_E_KEY_EMPTY);
	assert_int_equal(forge_delete(r.session, longest), FORGE_E_KEY_EMPTY);
	lib_rig_close(&r);
}

static void expect_misuse(int status, const char *word)
{
	assert_int_equal(status, FORGE_E_INVAL);
	if (!strstr(forge_detail(), word))
		fail_msg("\"%s\" is not in: %s", word, forge_detail());
}

static void test_null(void **state)
{
	struct lib_rig r;
	struct forge_value v;
	struct forge_limits limits;
	struct forge_op *done;
	struct forge_item item = {0};
	struct forge_scan *scan;
	struct forge_client *client;
	struct forge_session *session;
	struct forge_bytes nowhere = {NULL, 3};

	expect_misuse(forge_open(NULL, NULL, &client), "name is NULL");
	expect_misuse(forge_open("shm:/x", NULL, NULL), "client");
	expect_misuse(forge_session_open(NULL, &session), "client is NULL");
	expect_misuse(forge_get_limits(NULL, &limits), "client is NULL");
	expect_misuse(forge_get(NULL, key, &v), "session is NULL");
	expect_misuse(forge_set(NULL, key, &item), "session is NULL");
	expect_misuse(forge_delete(NULL, key), "session is NULL");
	expect_misuse(forge_flush(NULL), "session is NULL");
	expect_misuse(forge_incr(NULL, key, 1, NULL), "session is NULL");
	expect_misuse(forge_touch(NULL, key, forge_expire_never()), "session is NULL");
	expect_misuse(forge_get_many(NULL, &key, 1, &v, NULL), "session is NULL");
	expect_misuse(forge_run(NULL, NULL, 0), "session is NULL");
	expect_misuse(forge_submit(NULL, NULL, 0), "session is NULL");
	expect_misuse(forge_poll(NULL, &done, 1, 0), "session is NULL");
	expect_misuse(forge_session_timeout(NULL, 1), "session is NULL");
	expect_misuse(forge_scan_open(NULL, &scan), "session is NULL");
	expect_misuse(forge_scan_next(NULL, NULL), "scan is NULL");
	expect_misuse(forge_session_stats(NULL, NULL, NULL), "session is NULL");
	expect_misuse(forge_set_allocator(&(struct forge_allocator){0}), "allocator");
	assert_int_equal(forge_pending(NULL), 0);
	forge_session_close(NULL);
	forge_scan_close(NULL);
	assert_int_equal(forge_close(NULL), 0);

	lib_rig_open(&r, 64, NULL, NULL);
	expect_misuse(forge_session_open(r.client, NULL), "session is NULL");
	expect_misuse(forge_get_limits(r.client, NULL), "limits");
	expect_misuse(forge_get(r.session, key, NULL), "value is NULL");
	expect_misuse(forge_set(r.session, key, NULL), "item is NULL");
	expect_misuse(forge_get_many(r.session, NULL, 1, &v, NULL), "keys is NULL");
	expect_misuse(forge_get_many(r.session, &key, 1, NULL, NULL), "values is NULL");
	expect_misuse(forge_run(r.session, NULL, 1), "operations is NULL");
	expect_misuse(forge_submit(r.session, NULL, 1), "operations is NULL");
	expect_misuse(forge_poll(r.session, NULL, 1, 0), "done is NULL");
	expect_misuse(forge_scan_open(r.session, NULL), "scan is NULL");
	expect_misuse(forge_session_stats(r.session, NULL, NULL), "function");
	expect_misuse(forge_get(r.session, nowhere, &v), "key has a length");
	item.value = nowhere;
	expect_misuse(forge_set(r.session, key, &item), "value has a length");
	item = (struct forge_item){.expiry = {{7, 9}}};
	expect_misuse(forge_set(r.session, key, &item), "expiry is none");
	item = (struct forge_item){.value = {"x", SIZE_MAX}};
	assert_int_equal(forge_set(r.session, key, &item), FORGE_E_VALUE_LARGE);
	assert_non_null(strstr(forge_detail(), "18446744073709551615 bytes"));
	struct forge_op op = {.verb = (enum forge_verb)99, .key = key};

	OK(forge_run(r.session, &op, 1));
	assert_int_equal(op.status, FORGE_E_INVAL);
	lib_rig_close(&r);
}

static void test_closed(void **state)
{
	struct lib_rig r;
	struct forge_session *second, *third;
	struct forge_value v;

	lib_rig_open(&r, 64, NULL, &(struct forge_options){.sessions_max = 2});
	OK(forge_session_open(r.client, &second));
	expect_misuse(forge_session_open(r.client, &third), "sessions_max");
	expect_misuse(forge_close(r.client), "2 sessions of the client are still open");
	forge_session_close(second);
	expect_misuse(forge_get(second, key, &v), "session is closed");
	expect_misuse(forge_run(second, NULL, 0), "session is closed");
	forge_session_close(second); /* again, which does nothing */
	expect_misuse(forge_close(r.client), "1 session of the client is still open");
	for (int i = 0; i < 100; i++) {
		OK(forge_session_open(r.client, &third));
		OK(put_text(third, "key", "v"));
		forge_session_close(third);
	}
	lib_rig_close(&r);
}

static void test_names(void **state)
{
	struct lib_rig r;
	struct forge_client *c = NULL;

	lib_rig_open(&r, 64, NULL, NULL);
	char name[128] = "";

	strcat(strcpy(name, r.pool), "?latency=fast");
	expect_misuse(forge_open(name, NULL, &c), "fast");
	assert_int_equal(forge_open("shm:/forge-test-there-is-none", NULL, &c),
			 FORGE_E_POOL_ABSENT);
	assert_non_null(strstr(forge_detail(), "forge-test-there-is-none"));
	assert_null(c);
	lib_rig_close(&r);
}

/* A child gets FORGE_E_FORKED from everything and harms nothing, with operations in flight, too. */
static void test_fork(void **state)
{
	for
		BOTH(i)
		{
			struct lib_rig r;
			struct forge_op op = {.verb = FORGE_GET, .key = key}, *done;
			struct forge_value v;
			int status;

			lib_rig_open(&r, 64, latencies[i],
				     &(struct forge_options){.sessions_max = 2});
			OK(put_text(r.session, "key", "parent's"));
			OK(forge_submit(r.session, &op, 1));
			forge_poll(r.session, &done, 1, 0);
			pid_t pid = fork();

			if (pid == 0) {
				struct forge_session *s;
				struct forge_scan *scan;
				int wrong = forge_get(r.session, key, &v) != FORGE_E_FORKED;

				wrong |= (put_text(r.session, "key", "child's") != FORGE_E_FORKED)
					 << 1;
				wrong |= (forge_delete(r.session, key) != FORGE_E_FORKED) << 1;
				wrong |= (forge_poll(r.session, &done, 1, 0) != FORGE_E_FORKED)
					 << 2;
				wrong |= (forge_run(r.session, &op, 1) != FORGE_E_FORKED) << 2;
				wrong |= (forge_session_open(r.client, &s) != FORGE_E_FORKED) << 3;
				wrong |= (forge_scan_open(r.session, &scan) != FORGE_E_FORKED) << 4;
				wrong |= !strstr(forge_detail(), "forge_open()") << 5;
				forge_session_close(r.session);
				wrong |= (forge_close(r.client) != 0) << 6;
				_exit(wrong);
			}
			assert_int_equal(waitpid(pid, &status, 0), pid);
			assert_true(WIFEXITED(status));
			assert_int_equal(WEXITSTATUS(status), 0);
			assert_true(says(r.session, "key", "parent's"));
			lib_rig_close(&r);
		}
}

/* X11: no signal's action is changed, blocked or raised by anything the library does. */
static void test_signals(void **state)
{
	struct sigaction before[NSIG], after;
	sigset_t mask_before, mask_after;
	struct lib_rig r;

	for (int n = 1; n < NSIG; n++)
		if (sigaction(n, NULL, &before[n]))
			before[n].sa_handler = SIG_ERR;
	sigprocmask(SIG_SETMASK, NULL, &mask_before);
	for
		BOTH(i)
		{
			lib_rig_open(&r, 64, latencies[i], NULL);
			for (int n = 0; n < 1000; n++)
				OK(put_text(r.session, "key", "v"));
			lib_rig_close(&r);
		}
	for (int n = 1; n < NSIG; n++)
		if (sigaction(n, NULL, &after) == 0)
			assert_true(after.sa_handler == before[n].sa_handler);
	sigprocmask(SIG_SETMASK, NULL, &mask_after);
	for (int n = 1; n < NSIG; n++)
		assert_int_equal(sigismember(&mask_before, n), sigismember(&mask_after, n));
}

static void test_deadline(void **state)
{
	struct lib_rig r;
	struct forge_value v;

	lib_rig_open(&r, 64, "20ms", NULL);
	OK(put_text(r.session, "key", "old"));
	/* The time is up before the second round trip of its poll or its look. */
	OK(forge_session_timeout(r.session, 1));
	assert_int_equal(put_text(r.session, "key", "new"), FORGE_E_DEADLINE);
	assert_non_null(strstr(forge_detail(), "time"));
	assert_int_equal(forge_delete(r.session, key), FORGE_E_DEADLINE);
	assert_int_equal(forge_get(r.session, key, &v), FORGE_E_DEADLINE);
	/* An operation's own time goes before. */
	struct forge_op op = {.verb = FORGE_GET, .key = key, .timeout_us = 60000000};

	OK(forge_run(r.session, &op, 1));
	OK(op.status);
	assert_true(value_is(&op.found, "old"));
	OK(forge_session_timeout(r.session, 0));
	assert_true(says(r.session, "key", "old"));
	OK(forge_session_timeout(r.session, UINT64_MAX)); /* as good as none */
	assert_true(says(r.session, "key", "old"));
	lib_rig_close(&r);
}

static struct {
	int lines;
	char first[256];
} logged;

static void note_line(void *context, enum forge_log_level level, const char *line)
{
	assert_ptr_equal(context, &logged);
	assert_int_equal(level, FORGE_LOG_INFO);
	if (!logged.lines++)
		snprintf(logged.first, sizeof(logged.first), "%s", line);
}

static void test_log(void **state)
{
	struct lib_rig r;

	forge_set_log(note_line, &logged, FORGE_LOG_WARN);
	lib_rig_open(&r, 64, NULL, NULL);
	lib_rig_close(&r);
	assert_int_equal(logged.lines, 0);
	forge_set_log(note_line, &logged, FORGE_LOG_INFO);
	lib_rig_open(&r, 64, NULL, NULL);
	lib_rig_close(&r);
	assert_int_equal(logged.lines, 2);
	assert_non_null(strstr(logged.first, r.pool));
	forge_set_log(NULL, NULL, FORGE_LOG_WARN);
}

static void note_stat(void *context, const char *name, uint64_t value, const char *sentence)
{
	uint64_t *sum = context;

	assert_true(name && sentence && *sentence);
	if (strcmp(name, "sets") == 0)
		sum[0] = value;
	if (strcmp(name, "hits") == 0)
		sum[1] = value;
}

static void test_stats(void **state)
{
	for
		BOTH(i)
		{
			struct lib_rig r;
			struct forge_op ops[40];
			uint64_t sum[2] = {99, 99};

			lib_rig_open(&r, 64, latencies[i], NULL);
			OK(forge_session_stats(r.session, note_stat, sum));
			assert_int_equal(sum[0], 0);
			for (unsigned n = 0; n < 40; n++)
				ops[n] = (struct forge_op){.verb = n ? FORGE_GET : FORGE_SET,
							   .key = key};
			OK(forge_run(r.session, ops, 1));
			OK(forge_run(r.session, ops + 1, 39));
			OK(forge_session_stats(r.session, note_stat, sum));
			assert_int_equal(sum[0], 1);
			assert_int_equal(sum[1], 39);
			lib_rig_close(&r);
		}
}

static void test_texts(void **state)
{
	assert_string_equal(forge_status_name(FORGE_E_NODE), "FORGE_E_NODE");
	assert_string_equal(forge_status_name(FORGE_MISS), "FORGE_MISS");
	assert_non_null(strstr(forge_status_text(FORGE_MISS), "not in the cache"));
	assert_non_null(forge_status_name(12345));
	assert_non_null(forge_status_text(-12345));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test(test_get_set_delete),
	    cmocka_unit_test(test_get_copy),
	    cmocka_unit_test(test_conditional_stores),
	    cmocka_unit_test(test_counting),
	    cmocka_unit_test(test_expiry),
	    cmocka_unit_test(test_flush),
	    cmocka_unit_test(test_limits),
	    cmocka_unit_test(test_null),
	    cmocka_unit_test(test_closed),
	    cmocka_unit_test(test_names),
	    cmocka_unit_test(test_fork),
	    cmocka_unit_test(test_signals),
	    cmocka_unit_test(test_deadline),
	    cmocka_unit_test(test_log),
	    cmocka_unit_test(test_stats),
	    cmocka_unit_test(test_texts),
	};

	return cmocka_run_group_tests_name("library calls", tests, NULL, NULL);
}
