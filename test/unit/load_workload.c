/*
 * load_workload.c: the workload generators against theory, and their parser's errors.
 *
 * Shows, with fixed seeds, that operations come in the stated shares, keys follow the stated
 * laws (uniform by chi-square, zipf and latest by their head and by the number of distinct keys,
 * the hotspot by where and when it is hot), that several drawers make one stream, that the same
 * seed gives the same operations, that sizes follow their distribution and stay with their key,
 * and that each malformed text is refused with a sentence that names the culprit.
 */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#include "base/compiler.h"
#include "base/status.h"
#include "load/workload.h"
#include "load_shared.h"
#include "load_stats.h"

struct bench {
	struct workload_spec spec;
	struct workload w;
	_Atomic uint64_t key_count;
};

static void bench_open(struct bench *b, const char *text, struct workload_place place)
{
	struct load_error error = {{0}};

	if (workload_parse(&b->spec, text, &error) != 0)
		fail_msg("%s: %s", text, error.text);
	b->key_count = b->spec.key_count;
	assert_int_equal(workload_init(&b->w, &b->spec, place, &b->key_count), 0);
}

static void bench_close(struct bench *b)
{
	workload_spec_free(&b->spec);
}

static const struct workload_place alone = {.seed = 1, .index = 0, .count = 1};

static void check_shares(const char *text, const double share[LOAD_OP_KINDS], unsigned draws)
{
	uint64_t seen[LOAD_OP_KINDS] = {0};
	struct load_op op;
	struct bench b;

	bench_open(&b, text, alone);
	for (unsigned i = 0; i < draws; i++) {
		workload_next(&b.w, &op);
		seen[op.kind]++;
	}
	for (unsigned k = 0; k < LOAD_OP_KINDS; k++) {
		if (share[k] == 0 || share[k] == 1)
			assert_int_equal(seen[k], share[k] == 0 ? 0 : draws);
		else
			assert_true(sigmas(seen[k], draws, share[k]) < 4.5);
	}
	bench_close(&b);
}

static void test_shares(void **state)
{
	(void)state;
	check_shares("ycsb-a", (double[]){.5, 0, .5, 0, 0, 0}, 200000);
	check_shares("ycsb-b", (double[]){.95, 0, .05, 0, 0, 0}, 200000);
	check_shares("ycsb-c", (double[]){1, 0, 0, 0, 0, 0}, 200000);
	check_shares("ycsb-d", (double[]){.95, 0, 0, .05, 0, 0}, 200000);
	check_shares("ycsb-f", (double[]){.5, 0, 0, 0, .5, 0}, 200000);
	check_shares("uniform:set=0.2,delete=0.1", (double[]){.7, .2, 0, 0, 0, .1}, 200000);
	check_shares("ycsb-a:update=0.1", (double[]){.9, 0, .1, 0, 0, 0}, 200000);
	check_shares("ycsb-a:get=0,update=0.75,rmw=.25", (double[]){0, 0, .75, 0, .25, 0}, 200000);
}

static void test_uniform(void **state)
{
	uint64_t seen[1000] = {0};
	double expected[1000];
	struct load_op op;
	struct bench b;

	(void)state;
	bench_open(&b, "uniform:keys=1000", alone);
	for (unsigned i = 0; i < 1000000; i++) {
		workload_next(&b.w, &op);
		assert_true(op.key < 1000);
		seen[op.key]++;
	}
	for (unsigned i = 0; i < 1000; i++)
		expected[i] = 1000;
	assert_true(chi_square(seen, expected, 1000) < chi_square_limit(999));
	bench_close(&b);
}

/* Draw and count distinct keys; expected = sum of 1 - (1 - p_i)^draws. */
static void check_distinct(const char *text, double theta, double tolerance)
{
	const uint64_t n = 100000;
	const unsigned draws = 500000;
	unsigned char *seen = calloc(n, 1);
	double zeta = zipf_zeta(n, theta);
	double expected = 0;
	uint64_t distinct = 0;
	struct load_op op;
	struct bench b;

	assert_non_null(seen);
	bench_open(&b, text, alone);
	for (unsigned i = 0; i < draws; i++) {
		workload_next(&b.w, &op);
		assert_true(op.key < n);
		distinct += !seen[op.key];
		seen[op.key] = 1;
	}
	for (uint64_t i = 1; i <= n; i++)
		expected += -expm1(draws * log1p(-pow((double)i, -theta) / zeta));
	if (fabs((double)distinct / expected - 1) >= tolerance)
		fail_msg("%s: %.0f distinct keys, expected %.0f", text, (double)distinct, expected);
	free(seen);
	bench_close(&b);
}

static void test_distinct_keys(void **state)
{
	(void)state;
	/* A standard deviation is about 0.2 % here; Gray's curve is off by itself. */
	check_distinct("zipf:0.9,keys=100k", 0.9, 0.008);
	check_distinct("zipf:0.99,keys=100k", 0.99, 0.008);
	check_distinct("zipf:1.1,keys=100k", 1.1, 0.008);
	check_distinct("ycsb-c:keys=100k", 0.99, 0.03);
	check_distinct("ycsb-c:keys=100k,theta=1.1", 1.1, 0.008);
	check_distinct("uniform:keys=100k", 0, 0.008);
}

static void test_ycsb_head_is_scrambled(void **state)
{
	const uint64_t n = 1000000;
	double zeta = zipf_zeta(n, 0.99);
	uint64_t hottest = zipf_scramble(0, n);
	uint64_t second = zipf_scramble(1, n);
	uint64_t seen[2] = {0};
	struct load_op op;
	struct bench b;

	(void)state;
	bench_open(&b, "ycsb-b", alone);
	for (unsigned i = 0; i < 500000; i++) {
		workload_next(&b.w, &op);
		seen[0] += op.key == hottest;
		seen[1] += op.key == second;
	}
	assert_true(hottest != 0 && sigmas(seen[0], 500000, 1 / zeta) < 4.5);
	assert_true(sigmas(seen[1], 500000, pow(2, -0.99) / zeta) < 4.5);
	bench_close(&b);
}

static void test_latest(void **state)
{
	const unsigned draws = 500000;
	double zeta = zipf_zeta(1012500, 0.99);
	uint64_t at_distance[2] = {0};
	uint64_t inserts = 0;
	uint64_t gets = 0;
	uint64_t near = 0;
	struct load_op op;
	struct bench b;

	(void)state;
	bench_open(&b, "ycsb-d", alone);
	for (unsigned i = 0; i < draws; i++) {
		workload_next(&b.w, &op);
		if (op.kind == LOAD_INSERT) {
			/* New ids follow one another without a gap. */
			assert_true(op.key == 1000000 + inserts++);
			continue;
		}
		assert_true(op.key < 1000000 + inserts);
		gets++;
		if (1000000 + inserts - 1 - op.key < 2)
			at_distance[1000000 + inserts - 1 - op.key]++;
		near += 1000000 + inserts - 1 - op.key < 1000;
	}
	assert_true(b.key_count == 1000000 + inserts);
	/* zeta grows by 0.1 % over the run, far inside the limits. */
	assert_true(sigmas(at_distance[0], (double)gets, 1 / zeta) < 4.5);
	assert_true(sigmas(at_distance[1], (double)gets, pow(2, -0.99) / zeta) < 4.5);
	assert_true(fabs((double)near / (double)gets - zipf_zeta(1000, 0.99) / zeta) < 0.02);
	bench_close(&b);
}

static void test_scans_are_consecutive_gets(void **state)
{
	uint64_t lengths[101] = {0};
	double expected[101];
	uint64_t scans = 0;
	uint64_t inserts = 0;
	uint64_t previous = 0;
	uint64_t length = 0;
	struct load_op op;
	struct bench b;

	(void)state;
	bench_open(&b, "ycsb-e:keys=1000", alone);
	while (scans <= 100000) {
		uint64_t count = b.key_count;

		workload_next(&b.w, &op);
		if (op.in_scan) {
			assert_int_equal(op.kind, LOAD_GET);
			assert_true(op.key == (previous + 1 < count ? previous + 1 : 0));
			length++;
		} else {
			if (length > 0)
				lengths[length]++;
			length = op.kind == LOAD_GET;
			scans += op.kind == LOAD_GET;
			inserts += op.kind == LOAD_INSERT;
		}
		previous = op.key;
	}
	for (unsigned i = 1; i <= 100; i++)
		expected[i] = 1000;
	assert_int_equal(lengths[0], 0);
	assert_true(chi_square(lengths + 1, expected + 1, 100) < chi_square_limit(99));
	assert_true(sigmas(inserts, (double)(scans + inserts), 0.05) < 4.5);
	bench_close(&b);
}

static void test_scan_family_is_one_loop(void **state)
{
	unsigned seen[100] = {0};
	struct load_op op;
	struct bench b;

	(void)state;
	bench_open(&b, "scan:keys=5", alone);
	for (unsigned i = 0; i < 17; i++) {
		workload_next(&b.w, &op);
		assert_true(op.key == i % 5);
	}
	bench_close(&b);
	/* Three drawers of the same stream cover the positions 0 .. 299 once. */
	for (uint32_t index = 0; index < 3; index++) {
		bench_open(&b, "scan:keys=100", (struct workload_place){1, index, 3});
		for (unsigned i = 0; i < 100; i++) {
			workload_next(&b.w, &op);
			seen[op.key]++;
		}
		bench_close(&b);
	}
	for (unsigned i = 0; i < 100; i++)
		assert_int_equal(seen[i], 3);
}

static void test_hotspot_shifts(void **state)
{
	/* 100 keys are hot for 50,000 operations of the stream; two drawers take turns. */
	for (uint32_t index = 0; index < 2; index++) {
		struct bench b;

		bench_open(&b, "hotspot:keys=1k,hot=0.1,hotops=0.8,shift=50k",
			   (struct workload_place){4, index, 2});
		for (unsigned epoch = 0; epoch < 12; epoch++) {
			uint64_t first = epoch * 100 % 1000;
			uint64_t cells[10] = {0};
			double expected[10];

			for (unsigned i = 0; i < 25000; i++) {
				struct load_op op;

				workload_next(&b.w, &op);
				assert_true(op.key < 1000);
				cells[op.key / 100]++;
			}
			for (unsigned i = 0; i < 10; i++)
				expected[i] = i == first / 100 ? 20000 : 5000 / 9.0;
			assert_true(chi_square(cells, expected, 10) < chi_square_limit(9));
		}
		bench_close(&b);
	}
	(void)state;
}

static void test_same_seed_same_operations(void **state)
{
	static const char *const texts[] = {"ycsb-a",  "ycsb-d",
					    "ycsb-e",  "zipf:1.2",
					    "hotspot", "uniform:onehit=0.3,sizes=each:1-1000"};

	(void)state;
	for (size_t t = 0; t < ARRAY_COUNT(texts); t++) {
		struct bench a, b, other_seed, other_index;
		unsigned same_seed = 0;
		unsigned same_index = 0;

		bench_open(&a, texts[t], (struct workload_place){9, 1, 4});
		bench_open(&b, texts[t], (struct workload_place){9, 1, 4});
		bench_open(&other_seed, texts[t], (struct workload_place){10, 1, 4});
		bench_open(&other_index, texts[t], (struct workload_place){9, 2, 4});
		for (unsigned i = 0; i < 1000; i++) {
			struct load_op x, y, z;

			workload_next(&a.w, &x);
			workload_next(&b.w, &y);
			assert_true(x.kind == y.kind && x.key == y.key &&
				    x.value_bytes == y.value_bytes);
			workload_next(&other_seed.w, &z);
			same_seed += z.key == x.key;
			workload_next(&other_index.w, &z);
			same_index += z.key == x.key;
		}
		assert_true(same_seed < 300 && same_index < 300);
	}
}

static void test_one_hits_never_come_back(void **state)
{
	uint64_t previous = 0;
	uint64_t seen = 0;
	struct load_op op;
	struct bench b;

	(void)state;
	bench_open(&b, "uniform:keys=10,onehit=0.25", (struct workload_place){1, 3, 8});
	for (unsigned i = 0; i < 100000; i++) {
		workload_next(&b.w, &op);
		if (op.key < 10)
			continue;
		assert_true(op.kind == LOAD_GET && op.key >= LOAD_ONE_HIT_FIRST);
		assert_true(op.key > previous); /* rising, hence all different */
		previous = op.key;
		seen++;
	}
	assert_true(sigmas(seen, 100000, 0.25) < 4.5);
	/* Another drawer's ids lie elsewhere. */
	assert_true(previous - LOAD_ONE_HIT_FIRST < UINT64_C(4) << 40);
	assert_true(previous - LOAD_ONE_HIT_FIRST >= UINT64_C(3) << 40);
	bench_close(&b);
}

static void test_sizes_stay_with_their_key(void **state)
{
	uint32_t bytes_of[1000] = {0};
	uint64_t cells[10] = {0};
	double expected[10];
	struct load_op op;
	struct bench b;

	(void)state;
	bench_open(&b, "uniform:keys=1000,sizes=100-199", alone);
	for (unsigned i = 0; i < 20000; i++) {
		workload_next(&b.w, &op);
		assert_true(op.value_bytes >= 100 && op.value_bytes <= 199);
		assert_true(bytes_of[op.key] == 0 || bytes_of[op.key] == op.value_bytes);
		assert_true(op.value_bytes == workload_value_bytes(&b.spec, op.key));
		bytes_of[op.key] = op.value_bytes;
	}
	for (unsigned i = 0; i < 1000; i++)
		cells[(workload_value_bytes(&b.spec, i) - 100) / 10]++;
	for (unsigned i = 0; i < 10; i++)
		expected[i] = 100;
	assert_true(chi_square(cells, expected, 10) < chi_square_limit(9));
	bench_close(&b);

	memset(cells, 0, sizeof(cells));
	bench_open(&b, "uniform:keys=1,sizes=each:0-9", alone);
	for (unsigned i = 0; i < 1000; i++) {
		workload_next(&b.w, &op);
		cells[op.value_bytes]++;
	}
	assert_true(chi_square(cells, expected, 10) < chi_square_limit(9));
	bench_close(&b);
}

static void file_write(char path[64], const char *suffix, const char *text)
{
	FILE *f;

	snprintf(path, 64, "load_workload.%ld%s", (long)getpid(), suffix);
	f = fopen(path, "w");
	assert_non_null(f);
	assert_true(fputs(text, f) >= 0);
	assert_int_equal(fclose(f), 0);
}

static void test_cachelib_files(void **state)
{
	char pop[64], sizes[64], config[64], text[128];
	uint64_t by_size[3] = {0};
	uint64_t ones = 0, sets = 0, hot = 0;
	struct load_op op;
	struct bench b;

	(void)state;
	file_write(pop, ".pop.json",
		   "{\"oneHits\": 0.2, \"popularityBuckets\": [1, 9, 90],"
		   " \"popularityWeights\": [50, 30, 20]}");
	file_write(sizes, ".sizes.json",
		   "{\"valSizeRange\": [10, 20, 30], \"valSizeRangeProbability\": [1, 2, 1]}");
	file_write(config, ".config.json", "{\"test_config\": {\"getRatio\": 3, \"setRatio\": 1}}");
	snprintf(text, sizeof(text), "cachelib:load_workload.%ld", (long)getpid());
	bench_open(&b, text, alone);
	assert_int_equal(b.spec.key_count, 100);
	for (unsigned i = 0; i < 100000; i++) {
		workload_next(&b.w, &op);
		assert_true(op.value_bytes == 10 || op.value_bytes == 20 || op.value_bytes == 30);
		if (op.key >= LOAD_ONE_HIT_FIRST) {
			ones++;
			by_size[op.value_bytes / 10 - 1]++;
			continue;
		}
		assert_true(op.key < 100);
		sets += op.kind == LOAD_SET;
		hot += op.key == zipf_scramble(0, 100);
	}
	assert_true(sigmas(ones, 100000, 0.2) < 4.5);
	assert_true(sigmas(sets, 100000, 0.8 / 4) < 4.5);
	assert_true(sigmas(hot, 100000, 0.8 / 2) < 4.5);
	assert_true(chi_square(by_size,
			       (double[]){(double)ones / 4, (double)ones / 2, (double)ones / 4},
			       3) < chi_square_limit(2));
	bench_close(&b);
	unlink(pop);
	unlink(sizes);
	unlink(config);
}

static void test_published_cachelib_files(void **state)
{
	static const char *const names[] = {"cdn", "graph_cache_leader_assocs",
					    "graph_cache_leader_fbobj", "kvcache_reg"};
	char prefix[SHARED_PATH_MAX];
	char text[SHARED_PATH_MAX + 32];

	(void)state;
	shared_path(prefix, "traces/cachelib_cfg/cdn.pop.json");
	*strstr(prefix, "cdn.pop.json") = '\0';
	for (size_t i = 0; i < ARRAY_COUNT(names); i++) {
		struct load_op op;
		struct bench b;

		snprintf(text, sizeof(text), "cachelib:%s%s,keys=100k", prefix, names[i]);
		bench_open(&b, text, alone);
		assert_int_equal(b.spec.sizes.choice, SIZES_TABLE);
		for (unsigned k = 0; k < 100000; k++) {
			workload_next(&b.w, &op);
			assert_true(op.value_bytes >= b.spec.sizes.bytes_min &&
				    op.value_bytes <= b.spec.sizes.bytes_max);
			assert_true(op.key < 100000 || op.key >= LOAD_ONE_HIT_FIRST);
		}
		bench_close(&b);
	}
}

static void test_errors_name_the_culprit(void **state)
{
	static const struct {
		const char *text;
		int status;
		const char *names; /* must occur in the sentence */
	} cases[] = {
	    {"", FORGE_E_INVAL, "use one of ycsb-a"},
	    {"ycsb-g", FORGE_E_INVAL, "'ycsb-g'"},
	    {"ycsb-a:exact=2", FORGE_E_INVAL, "exact=2"},
	    {"ycsb-a:exact=0.5", FORGE_E_INVAL, "write 0 or 1"},
	    {"zipf:abc", FORGE_E_INVAL, "zipf:abc"},
	    {"zipf:-1", FORGE_E_INVAL, "zipf:-1"},
	    {"zipf:nan", FORGE_E_INVAL, "zipf:nan"},
	    {"zipf:99", FORGE_E_INVAL, "from 0 to 20"},
	    {"uniform:keys", FORGE_E_INVAL, "'keys'"},
	    {"uniform:", FORGE_E_INVAL, "''"},
	    {"uniform:keys=0", FORGE_E_INVAL, "keys=0"},
	    {"uniform:keys=1x", FORGE_E_INVAL, "keys=1x"},
	    {"uniform:keys=99999999999999999999", FORGE_E_INVAL, "keys=9999"},
	    {"uniform:keys=99999999999G", FORGE_E_INVAL, "keys=9999"},
	    {"uniform:colour=3", FORGE_E_INVAL, "'colour'"},
	    {"uniform:set=0.7,update=0.6", FORGE_E_INVAL, "sum to 1.3"},
	    {"uniform:get=0.5,set=0.1", FORGE_E_INVAL, "sum to 0.6"},
	    {"uniform:set=1.5", FORGE_E_INVAL, "set=1.5"},
	    {"ycsb-e:scanlen=0", FORGE_E_INVAL, "scanlen=0"},
	    {"hotspot:shift=0", FORGE_E_INVAL, "shift=0"},
	    {"uniform:sizes=10-5", FORGE_E_INVAL, "10-5"},
	    {"uniform:sizes=-5", FORGE_E_INVAL, "-5"},
	    {"uniform:sizes=5-", FORGE_E_INVAL, "5-"},
	    {"uniform:sizes=8G", FORGE_E_INVAL, "8G"},
	    {"uniform:sizes=cachelib:/nonexistent.json", FORGE_E_SYSTEM, "/nonexistent.json"},
	    {"cachelib", FORGE_E_INVAL, "prefix"},
	    {"cachelib:/nonexistent", FORGE_E_SYSTEM, "/nonexistent.pop.json"},
	};

	(void)state;
	for (size_t i = 0; i < ARRAY_COUNT(cases); i++) {
		struct load_error error = {{0}};
		struct workload_spec spec;

		if (workload_parse(&spec, cases[i].text, &error) != cases[i].status ||
		    strstr(error.text, cases[i].names) == NULL)
			fail_msg("'%s' gave '%s'", cases[i].text, error.text);
	}
}

static void test_malformed_json(void **state)
{
	static const struct {
		const char *json;
		const char *names;
	} cases[] = {
	    {"{", "line 1"},
	    {"[]", "object"},
	    {"{}", "valSizeRange"},
	    {"{\"valSizeRange\": [], \"valSizeRangeProbability\": []}", "1 to"},
	    {"{\"valSizeRange\": [1, \"x\"], \"valSizeRangeProbability\": [1, 1]}", "entry 1"},
	    {"{\"valSizeRange\": [-1], \"valSizeRangeProbability\": [1]}", "entry 0"},
	    {"{\"valSizeRange\": [1e20], \"valSizeRangeProbability\": [1]}", "entry 0"},
	    {"{\"valSizeRange\": [1], \"valSizeRangeProbability\": [0]}", "above 0"},
	    {"{\"valSizeRange\": [1], \"valSizeRangeProbability\": [1, 1]}", "1 sizes and 2"},
	    {"{\"valSizeRange\": [5, 1, 9], \"valSizeRangeProbability\": [1, 1]}", "decrease"},
	};

	(void)state;
	for (size_t i = 0; i < ARRAY_COUNT(cases); i++) {
		char path[64], text[128];
		struct load_error error = {{0}};
		struct workload_spec spec;

		file_write(path, ".bad.json", cases[i].json);
		snprintf(text, sizeof(text), "uniform:sizes=cachelib:%s", path);
		if (workload_parse(&spec, text, &error) != FORGE_E_FORMAT ||
		    strstr(error.text, cases[i].names) == NULL || strstr(error.text, path) == NULL)
			fail_msg("'%s' gave '%s'", cases[i].json, error.text);
		unlink(path);
	}
}

static void test_init_refusals(void **state)
{
	struct load_error error;
	struct workload_spec spec;
	struct workload w;
	_Atomic uint64_t none = 0;

	(void)state;
	assert_int_equal(workload_parse(&spec, "ycsb-d", &error), 0);
	assert_int_equal(workload_init(&w, &spec, alone, NULL), FORGE_E_INVAL);
	assert_int_equal(workload_init(&w, &spec, alone, &none), FORGE_E_INVAL);
	assert_int_equal(workload_init(&w, &spec, (struct workload_place){1, 2, 2}, NULL),
			 FORGE_E_INVAL);
	workload_spec_free(&spec);
}

static void test_help_names_everything(void **state)
{
	(void)state;
	assert_non_null(strstr(workload_help(), "ycsb-f"));
	assert_non_null(strstr(workload_help(), "cachelib"));
	assert_non_null(strstr(workload_help(), "sizes"));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test(test_shares),
	    cmocka_unit_test(test_uniform),
	    cmocka_unit_test(test_distinct_keys),
	    cmocka_unit_test(test_ycsb_head_is_scrambled),
	    cmocka_unit_test(test_latest),
	    cmocka_unit_test(test_scans_are_consecutive_gets),
	    cmocka_unit_test(test_scan_family_is_one_loop),
	    cmocka_unit_test(test_hotspot_shifts),
	    cmocka_unit_test(test_same_seed_same_operations),
	    cmocka_unit_test(test_one_hits_never_come_back),
	    cmocka_unit_test(test_sizes_stay_with_their_key),
	    cmocka_unit_test(test_cachelib_files),
	    cmocka_unit_test(test_published_cachelib_files),
	    cmocka_unit_test(test_errors_name_the_culprit),
	    cmocka_unit_test(test_malformed_json),
	    cmocka_unit_test(test_init_refusals),
	    cmocka_unit_test(test_help_names_everything),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
