/*
 * spread.c: which node has which key: every build computes the same table, shares follow the
 * weights, who comes or goes moves only his own share, and a node's buckets stay evenly filled.
 */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>
#include <cmocka.h>

#include "base/hash.h"
#include "base/prng.h"
#include "base/status.h"
#include "layout/spread.h"

#define NODES 5u

static struct spread_member members[SPREAD_NODES_MAX];

static void make_members(uint32_t n, uint64_t seed)
{
	for (uint32_t i = 0; i < n; i++)
		members[i] = (struct spread_member){prng_splitmix64(&seed) | 1,
						    spread_weight(UINT64_C(1) << 30), i};
}

static int make_as(struct spread_record *r, uint64_t id, uint64_t epoch,
		   const struct spread_member *of, const char *const *names, uint32_t n)
{
	return spread_record_make(
	    r, &(struct spread_wish){
		   .id = id, .epoch = epoch, .members = of, .names = names, .count = n});
}

static struct spread_record make(uint32_t n)
{
	struct spread_record r;

	assert_int_equal(make_as(&r, 0, 1, members, NULL, n), 0);
	assert_true(spread_record_valid(&r, 1));
	return r;
}

static void count(const struct spread_record *r, uint8_t *table, uint32_t *shares)
{
	spread_table(r, table);
	memset(shares, 0, SPREAD_NODES_MAX * sizeof(*shares));
	for (uint32_t p = 0; p < SPREAD_PARTITIONS; p++) {
		assert_true(table[p] < r->member_count);
		shares[table[p]]++;
	}
}

/* Within five standard deviations of what is due: 1 in 2 million for a share drawn by lot. */
static void assert_share(uint32_t share, double due)
{
	double deviation = sqrt(SPREAD_PARTITIONS * due * (1 - due));

	assert_true(fabs(share - SPREAD_PARTITIONS * due) <= 5 * deviation);
}

/* The numbers are part of the remote format: a build that computes others reads other keys. */
static void test_literals(void **state)
{
	static const struct spread_member three[] = {{11, 100, 1}, {22, 100, 2}, {33, 200, 3}};
	static const char *const names[] = {"shm:/a", "tcp://b:1", "unix:/c"};
	struct spread_record r;
	uint8_t table[SPREAD_PARTITIONS];

	assert_int_equal(make_as(&r, 0, 1, three, names, 3), 0);
	spread_table(&r, table);
	assert_int_equal(hash_checksum(0, table, sizeof(table)), UINT64_C(0x075e1d43bc6ca8c4));
	assert_int_equal(r.id, UINT64_C(0x1a94955c7c5be5f7));
	assert_int_equal(r.checksum, UINT64_C(0xa266250975232a1d));
	assert_int_equal(spread_partition(hash_key("sky", 3)), 167);
	assert_int_equal(SPREAD_CLAIM_OFFSET, 256);
	assert_int_equal(SPREAD_MEMBER_OFFSET, 264);
	assert_int_equal(SPREAD_OWNED_OFFSET, 512);
	assert_int_equal(spread_record_offset(2), 1024);
	assert_int_equal(spread_record_offset(3), 6656);
	assert_int_equal(sizeof(struct spread_record), 5600);
	assert_int_equal(fence_pack(5, 7), (UINT64_C(5) << 44) + 7);
	assert_int_equal(fence_epoch(fence_pack(5, 7)), 5);
	assert_int_equal(fence_generation(fence_pack(5, 7)), 7);
}

static void test_balance(void **state)
{
	static uint8_t table[SPREAD_PARTITIONS];
	static uint32_t shares[SPREAD_NODES_MAX];

	for (uint32_t n = 1; n <= SPREAD_NODES_MAX; n++) {
		make_members(n, n);
		struct spread_record r = make(n);

		count(&r, table, shares);
		for (uint32_t i = 0; i < n; i++)
			assert_share(shares[i], 1.0 / n);
	}
}

static void test_weights(void **state)
{
	static uint8_t table[SPREAD_PARTITIONS];
	static uint32_t shares[SPREAD_NODES_MAX];
	uint64_t sum = 0;

	make_members(NODES, 7);
	for (uint32_t i = 0; i < NODES; i++) {
		members[i].weight = UINT64_C(1) << (3 * i); /* 1 to 4,096 */
		sum += members[i].weight;
	}
	struct spread_record r = make(NODES);

	count(&r, table, shares);
	for (uint32_t i = 0; i < NODES; i++)
		assert_share(shares[i], (double)r.member[i].weight / (double)sum);
	/* Only the ratio of weights matters. */
	uint8_t same[SPREAD_PARTITIONS];

	for (uint32_t i = 0; i < NODES; i++)
		members[i].weight <<= 20;
	r = make(NODES);
	spread_table(&r, same);
	assert_memory_equal(table, same, sizeof(same));
}

/* Whoever joins takes partitions, and none moves between the others; backwards, who leaves. */
static void test_stability(void **state)
{
	static uint8_t before[SPREAD_PARTITIONS], after[SPREAD_PARTITIONS];

	for (uint32_t n = 1; n < 16; n++) {
		make_members(n + 1, 100 + n);
		uint64_t id = members[n].id;
		uint32_t moved = 0;
		struct spread_record small = make(n), large = make(n + 1);

		spread_table(&small, before);
		spread_table(&large, after);
		for (uint32_t p = 0; p < SPREAD_PARTITIONS; p++) {
			uint64_t from = small.member[before[p]].id, to = large.member[after[p]].id;

			assert_true(from == to || to == id);
			moved += from != to;
		}
		assert_share(moved, 1.0 / (n + 1));
	}
}

/* The order in which a user lists the nodes says nothing. */
static void test_order(void **state)
{
	struct prng prng;

	prng_seed(&prng, 3);
	make_members(NODES, 9);
	struct spread_record first = make(NODES);

	for (unsigned round = 0; round < 50; round++) {
		for (uint32_t i = NODES - 1; i > 0; i--) {
			uint32_t j = (uint32_t)(prng_u64(&prng) % (i + 1));
			struct spread_member m = members[i];

			members[i] = members[j];
			members[j] = m;
		}
		struct spread_record again = make(NODES);

		assert_true(spread_record_same(&first, &again));
	}
}

/* Among the keys of one partition, buckets and fingerprints are as even as among all. */
static void test_independence(void **state)
{
	enum { KEYS = 1 << 20, CELLS = 256 };
	static uint32_t buckets[CELLS], fingerprints[CELLS];
	uint8_t table[SPREAD_PARTITIONS];
	uint32_t n = 0;

	make_members(3, 1);
	struct spread_record r = make(3);

	spread_table(&r, table);
	for (uint64_t key = 0; key < KEYS; key++) {
		uint64_t hash = hash_key(&key, sizeof(key));

		if (table[spread_partition(hash)] != 1)
			continue;
		n++;
		buckets[hash >> 56]++;
		fingerprints[hash & 0xff]++;
	}
	double due = (double)n / CELLS, chi_buckets = 0, chi_fingerprints = 0;

	for (unsigned i = 0; i < CELLS; i++) {
		chi_buckets += (buckets[i] - due) * (buckets[i] - due) / due;
		chi_fingerprints += (fingerprints[i] - due) * (fingerprints[i] - due) / due;
	}
	/* 255 degrees of freedom: mean 255, deviation 22.6. */
	assert_true(chi_buckets < 255 + 5 * 22.6);
	assert_true(chi_fingerprints < 255 + 5 * 22.6);
}

/* Sorted with their members; what does not fit is left out, and all else is still there. */
static void test_names(void **state)
{
	static const struct spread_member three[] = {{22, 1, 2}, {33, 1, 3}, {11, 1, 1}};
	static const char *const names[] = {"shm:/b", NULL, "shm:/a"};
	static char longs[SPREAD_NODES_MAX][SPREAD_NAME_BYTES_MAX + 2];
	const char *pointers[SPREAD_NODES_MAX];
	struct spread_record r;

	assert_int_equal(make_as(&r, 7, 1, three, names, 3), 0);
	assert_string_equal(spread_record_name(&r, 0), "shm:/a");
	assert_string_equal(spread_record_name(&r, 1), "shm:/b");
	assert_string_equal(spread_record_name(&r, 2), "");
	assert_int_equal(r.names_bytes, 16);
	make_members(SPREAD_NODES_MAX, 1);
	for (uint32_t i = 0; i < SPREAD_NODES_MAX; i++) {
		members[i].id = i + 1;
		memset(longs[i], 'x', SPREAD_NAME_BYTES_MAX + (i == 0));
		pointers[i] = longs[i];
	}
	longs[1][3] = '\n';
	assert_int_equal(make_as(&r, 7, 1, members, pointers, SPREAD_NODES_MAX), 0);
	assert_true(spread_record_valid(&r, 1));
	uint32_t kept = 0;

	for (uint32_t i = 0; i < SPREAD_NODES_MAX; i++) {
		const char *name = spread_record_name(&r, i);

		assert_true(!*name || strcmp(name, longs[i]) == 0);
		kept += *name != '\0';
	}
	assert_string_equal(spread_record_name(&r, 0), "");
	assert_string_equal(spread_record_name(&r, 1), "");
	assert_int_equal(kept, (SPREAD_NAMES_BYTES - SPREAD_NODES_MAX) / SPREAD_NAME_BYTES_MAX);
}

/* Whole by its checksum, and yet not to be believed. */
static void assert_refused(struct spread_record r)
{
	r.checksum = hash_checksum(hash_checksum(0, &r.id, spread_record_bytes(&r) - 8), r.names,
				   r.names_bytes <= SPREAD_NAMES_BYTES ? r.names_bytes : 0);
	assert_false(spread_record_valid(&r, 1));
}

static void test_hostile_names(void **state)
{
	static const struct spread_member two[] = {{1, 1, 1}, {2, 1, 2}};
	static const char *const names[] = {"shm:/a", "shm:/b"};
	struct spread_record r, bad;

	assert_int_equal(make_as(&r, 7, 1, two, names, 2), 0);
	bad = r;
	bad.names[2] = '\n';
	assert_refused(bad);
	bad = r;
	bad.names[2] = 0x7f;
	assert_refused(bad);
	bad = r;
	memset(bad.names, 'x', bad.names_bytes);
	assert_refused(bad);
	bad = r;
	bad.names[bad.names_bytes - 1] = 'x';
	assert_refused(bad);
	bad = r;
	bad.names_bytes = 8;
	assert_refused(bad);
	bad.names_bytes = 12;
	assert_refused(bad);
	bad.names_bytes = 0;
	assert_refused(bad);
	bad.names_bytes = UINT32_MAX;
	assert_refused(bad);
	bad.names_bytes = SPREAD_NAMES_BYTES + 8;
	assert_refused(bad);
	bad = r;
	bad.names_bytes = 512;
	memset(bad.names, 'x', 300);
	assert_refused(bad);
}

static void test_records(void **state)
{
	struct spread_record r;
	static struct spread_page page;

	make_members(3, 5);
	assert_int_equal(make_as(&r, 0, 1, members, NULL, 0), FORGE_E_INVAL);
	assert_int_equal(make_as(&r, 0, 1, members, NULL, SPREAD_NODES_MAX + 1), FORGE_E_INVAL);
	members[2].id = members[0].id;
	assert_int_equal(make_as(&r, 0, 1, members, NULL, 3), FORGE_E_INVAL);
	members[2].id = 0;
	assert_int_equal(make_as(&r, 0, 1, members, NULL, 3), FORGE_E_INVAL);
	make_members(3, 5);
	r = make(3);
	assert_false(spread_record_valid(&r, 2));
	for (uint32_t at = 0; at < spread_record_bytes(&r); at++) {
		((uint8_t *)&r)[at] ^= 4;
		assert_false(spread_record_valid(&r, 1));
		((uint8_t *)&r)[at] ^= 4;
	}
	assert_int_equal(spread_page_newest(&page), 0);
	memcpy(&page.words[spread_record_offset(1) / 8], &r, sizeof(r));
	assert_int_equal(spread_page_newest(&page), 1);
	assert_int_equal(make_as(&r, 9, 2, members, NULL, 2), 0);
	memcpy(&page.words[spread_record_offset(2) / 8], &r, sizeof(r));
	assert_int_equal(spread_page_newest(&page), 2);
	page.words[spread_record_offset(2) / 8]++;
	assert_int_equal(spread_page_newest(&page), 1);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test(test_literals),	  cmocka_unit_test(test_balance),
	    cmocka_unit_test(test_weights),	  cmocka_unit_test(test_stability),
	    cmocka_unit_test(test_order),	  cmocka_unit_test(test_independence),
	    cmocka_unit_test(test_records),	  cmocka_unit_test(test_names),
	    cmocka_unit_test(test_hostile_names),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
