/*
 * pool_name.c: names of pools are taken apart as client/name.h says, and whatever is no name is
 * refused by a sentence that quotes what is wrong.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/compiler.h"
#include "base/status.h"
#include "client/name.h"

static void test_names(void **state)
{
	static const struct {
		const char *name, *where;
		enum name_kind kind;
		uint16_t port;
		uint64_t latency_us, timeout_us;
	} rows[] = {
	    {"shm:/forge", "shm:/forge", NAME_SHM, 0, 0, 0},
	    {"file:/tmp/a", "file:/tmp/a", NAME_SHM, 0, 0, 0},
	    {"/tmp/a", "/tmp/a", NAME_SHM, 0, 0, 0},
	    {"./a", "./a", NAME_SHM, 0, 0, 0},
	    {"/tmp/a,b", "/tmp/a,b", NAME_SHM, 0, 0, 0},
	    {"/tmp/a?b", "/tmp/a?b", NAME_SHM, 0, 0, 0},
	    {"/tmp/a?b?latency=3us", "/tmp/a?b", NAME_SHM, 0, 3, 0},
	    {"shm:/a?latency=2us", "shm:/a", NAME_SHM, 0, 2, 0},
	    {"shm:/a?latency=1s", "shm:/a", NAME_SHM, 0, 1000000, 0},
	    {"shm:/a?latency=0", "shm:/a", NAME_SHM, 0, 0, 0},
	    {"tcp://node:7000", "node", NAME_TCP, 7000, 0, 0},
	    {"tcp://10.0.0.1:1", "10.0.0.1", NAME_TCP, 1, 0, 0},
	    {"tcp://[::1]:65535", "::1", NAME_TCP, 65535, 0, 0},
	    {"tcp://[fe80::1%eth0]:9?timeout=1h", "fe80::1%eth0", NAME_TCP, 9, 0, 3600000000},
	    {"tcp://n:5?latency=1ms&timeout=2s", "n", NAME_TCP, 5, 1000, 2000000},
	    {"unix:/run/f.sock", "/run/f.sock", NAME_UNIX, 0, 0, 0},
	    {"unix:./f?timeout=20ms", "./f", NAME_UNIX, 0, 0, 20000},
	};
	static struct pool_name name;
	char text[256];

	for (unsigned i = 0; i < ARRAY_COUNT(rows); i++) {
		assert_int_equal(name_parse(rows[i].name, &name, text, sizeof(text)), 0);
		assert_string_equal(name.where, rows[i].where);
		assert_int_equal(name.kind, rows[i].kind);
		assert_int_equal(name.port, rows[i].port);
		assert_int_equal(name.latency_us, rows[i].latency_us);
		assert_int_equal(name.timeout_us, rows[i].timeout_us);
	}
}

static void expect_text(const struct pool_name *n, uint16_t at, const char *expected)
{
	const char *text = name_text(n, at);

	if (expected)
		assert_string_equal(text, expected);
	else
		assert_null(text);
}

/* What is to be shown at the node, in any order, beside the rest. */
static void test_access(void **state)
{
	static const struct {
		const char *name, *where;
		int tls;
		const char *key_file, *key_name, *ca, *tls_name, *cert, *cert_key;
	} rows[] = {
	    {"tcp://a:7", "a", 0, NULL, NULL, NULL, NULL, NULL, NULL},
	    {"tcp://a:7?key-file=/k", "a", 0, "/k", NULL, NULL, NULL, NULL, NULL},
	    {"tls://a:7", "a", 1, NULL, NULL, NULL, NULL, NULL, NULL},
	    {"tcp://a:7?tls=1&ca=./ca.pem", "a", 1, NULL, NULL, "./ca.pem", NULL, NULL, NULL},
	    {"tls://"
	     "[::1]:7?timeout=2s&tls-name=node&cert=c&cert-key=k&ca=x&key-name=web&key-file=y",
	     "::1", 1, "y", "web", "x", "node", "c", "k"},
	    {"unix:/s?key-file=/a?b", "/s?key-file=/a?b", 0, NULL, NULL, NULL, NULL, NULL, NULL},
	    {"unix:/s?key-file=/a=b", "/s", 0, "/a=b", NULL, NULL, NULL, NULL, NULL},
	};
	static struct pool_name name, copy;
	char text[256];

	for (unsigned i = 0; i < ARRAY_COUNT(rows); i++) {
		assert_int_equal(name_parse(rows[i].name, &name, text, sizeof(text)), 0);
		/* It can be copied: nothing points into it. */
		copy = name;
		memset(&name, 'x', sizeof(name));
		assert_string_equal(copy.where, rows[i].where);
		assert_int_equal(copy.tls, rows[i].tls);
		expect_text(&copy, copy.access.key_file, rows[i].key_file);
		expect_text(&copy, copy.access.key_name, rows[i].key_name);
		expect_text(&copy, copy.access.authority, rows[i].ca);
		expect_text(&copy, copy.access.tls_name, rows[i].tls_name);
		expect_text(&copy, copy.access.certificate, rows[i].cert);
		expect_text(&copy, copy.access.certificate_key, rows[i].cert_key);
	}
}

static void test_no_names(void **state)
{
	static const struct {
		const char *name, *words;
	} rows[] = {
	    {"", "is no pool's name"},
	    {"forge", "\"forge\" is no pool's name"},
	    {"tcp:node:1", "tcp://host:port"},
	    {"http://node:1", "\"http://node:1\" is no pool's name"},
	    {"tcp://node", "no port"},
	    {"tcp://", "no port"},
	    {"tcp://:1", "no host"},
	    {"tcp://node:", "\"\" in the pool's name is no port"},
	    {"tcp://node:0", "no port"},
	    {"tcp://node:65536", "no port"},
	    {"tcp://node:1x", "\"1x\" in the pool's name is no port"},
	    {"tcp://node:1/path", "no port"},
	    {"tcp://::1:7", "brackets"},
	    {"tcp://[::1", "no ']'"},
	    {"tcp://[::1]", "no port"},
	    {"tcp://[::1]7", "no port"},
	    {"tcp://[]:7", "no host"},
	    {"tcp://a b:7", "no host"},
	    {"tcp://a:7?latenc=1us", "\"latenc\" behind the pool's name is no option"},
	    {"tcp://a:7?", "is no option"},
	    {"tcp://a:7?timeout=1s&", "is no option"},
	    {"tcp://a:7?timeout=1", "\"1\" in the pool's name is no timeout"},
	    {"tcp://a:7?timeout=0", "1ms to 1h"},
	    {"tcp://a:7?timeout=5", "e.g. 2s"},
	    {"tcp://a:7?timeout=2us", "e.g. 2s"},
	    {"tcp://a:7?latency=5", "e.g. 2us"},
	    {"tcp://a:7?timeout=2h", "1ms to 1h"},
	    {"shm:/a?latency=fast", "\"fast\" in the pool's name is no latency"},
	    {"shm:/a?latency=2s", "at most 1s"},
	    {"shm:/a?foo", "is no option"},
	    {"tcp://a:7?key=00112233", "\"key\" behind the pool's name is no option"},
	    {"tcp://a:7?key-file=", "key-file= in the pool's name has nothing behind it"},
	    {"tcp://a:7?tls=yes", "tls= in the pool's name is 1"},
	    {"tcp://a:7?tls=", "tls= in the pool's name is 1"},
	    {"tls://a", "tls://a has no port: write tls://HOST:PORT"},
	    {"tls://[::1", "tls://[::1 has no ']'"},
	    {"tls://::1:7", "as in tls://[::1]:PORT"},
	    {"tls://:7", "no host: write tls://HOST:PORT"},
	    {"tls:a:7", "is no pool's name"},
	    {"shm:/a?key-file=/k", "not for memory of this host"},
	    {"/tmp/a?ca=/k", "not for memory of this host"},
	    {"shm:/a?timeout=1s", "timeout= is for nodes behind tcp://, tls:// and unix:"},
	    {"/tmp/a?latency=2us&timeout=1s", "leave it out"},
	    {"unix:/a?tls=1", "a Unix socket is not encrypted"},
	    {"unix:run", "unix:/PATH"},
	    {"unix:", "unix:/PATH"},
	    {"shm:/a,tcp://b:1", "is a list"},
	    {"shm:/a, shm:/b", "separated by commas, and nothing else"},
	    {"shm:/a shm:/b", "\"shm:/a shm:/b\" is several names"},
	    {"tcp://a:1;tls://b:1", "is several names"},
	    {"tcp://a:1 | unix:/b", "is several names"},
	    {"shm:/a,", "behind the comma of \"shm:/a,\""},
	};
	static struct pool_name name;
	char text[512], path[NAME_WHERE_BYTES + 8];

	for (unsigned i = 0; i < ARRAY_COUNT(rows); i++) {
		assert_int_equal(name_parse(rows[i].name, &name, text, sizeof(text)),
				 FORGE_E_INVAL);
		if (!strstr(text, rows[i].words))
			fail_msg("%s: %s", rows[i].name, text);
	}
	memset(path, 'a', sizeof(path));
	path[0] = '/';
	path[sizeof(path) - 1] = '\0';
	assert_int_equal(name_parse(path, &name, text, sizeof(text)), FORGE_E_INVAL);
	assert_non_null(strstr(text, "longer than 4095"));
	snprintf(path, sizeof(path), "unix:/%0200d", 1);
	assert_int_equal(name_parse(path, &name, text, sizeof(text)), FORGE_E_INVAL);
	assert_non_null(strstr(text, "longer than 107"));
	snprintf(path, sizeof(path), "tcp://%0300d:1", 1);
	assert_int_equal(name_parse(path, &name, text, sizeof(text)), FORGE_E_INVAL);
}

static void test_lists(void **state)
{
	struct pool_name *names;
	unsigned count;
	char text[256];

	assert_int_equal(name_parse_list("/tmp/a,b,tcp://n:1?timeout=9s,tcp://[::1]:2,shm:/x,./y,z",
					 &names, &count, text, sizeof(text)),
			 0);
	assert_int_equal(count, 5);
	assert_string_equal(names[0].where, "/tmp/a,b");
	assert_string_equal(names[1].where, "n");
	assert_int_equal(names[1].timeout_us, 9000000);
	assert_string_equal(names[2].where, "::1");
	assert_int_equal(names[2].port, 2);
	assert_int_equal(names[2].timeout_us, 0);
	assert_int_equal(names[3].kind, NAME_SHM);
	assert_string_equal(names[4].where, "./y,z");
	free(names);
	assert_int_equal(name_parse_list("shm:/x", &names, &count, text, sizeof(text)), 0);
	assert_int_equal(count, 1);
	free(names);
}

static void test_no_lists(void **state)
{
	static const struct {
		const char *list, *words;
	} holes[] = {
	    {"tcp://n:1,", "behind the comma of \"tcp://n:1,\""},
	    {"shm:/a,", "behind the comma of \"shm:/a,\""},
	    {"/tmp/a,", "behind the comma of \"/tmp/a,\""},
	    {"shm:/a,,shm:/b", "behind the comma of \"shm:/a,\""},
	    {"shm:/a,shm:/b,,", "behind the comma of \"shm:/b,,\""},
	    {"tcp://n:1?timeout=1s,,unix:/u", "behind the comma of \"tcp://n:1?timeout=1s,\""},
	    {",shm:/a", "begins with a comma"},
	    {",", "behind the comma"},
	};
	struct pool_name *names;
	unsigned count;
	char text[256], many[12 * (NAME_NODES_MAX + 1)] = "";

	assert_int_equal(
	    name_parse_list("tcp://n:1,tcp://n:2,tcp://n:1?latency=1us", &names, &count, text, 256),
	    FORGE_E_INVAL);
	assert_non_null(strstr(text, "\"tcp://n:1?latency=1us\" twice"));
	assert_int_equal(name_parse_list("tcp://n:1,n:2", &names, &count, text, sizeof(text)),
			 FORGE_E_INVAL);
	for (unsigned i = 0; i < ARRAY_COUNT(holes); i++) {
		text[0] = '\0';
		assert_int_equal(name_parse_list(holes[i].list, &names, &count, text, sizeof(text)),
				 FORGE_E_INVAL);
		if (!strstr(text, holes[i].words))
			fail_msg("%s: %s", holes[i].list, text);
	}
	for (unsigned i = 0; i < NAME_NODES_MAX; i++)
		snprintf(many + strlen(many), sizeof(many) - strlen(many), "%s/%u", i ? "," : "",
			 i);
	assert_int_equal(name_parse_list(many, &names, &count, text, sizeof(text)), 0);
	assert_int_equal(count, NAME_NODES_MAX);
	free(names);
	strcat(many, ",/x");
	assert_int_equal(name_parse_list(many, &names, &count, text, sizeof(text)), FORGE_E_INVAL);
	assert_non_null(strstr(text, "at most 60"));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test(test_names),    cmocka_unit_test(test_no_names),
	    cmocka_unit_test(test_access),   cmocka_unit_test(test_lists),
	    cmocka_unit_test(test_no_lists),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
