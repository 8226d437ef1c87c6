/*
 * The base under real threads (and under TSan in `make check`): lines logged by several threads
 * at once arrive whole and are all counted while another thread moves the threshold, and
 * histograms recorded per thread and merged after joining hold exactly what was recorded.
 */
#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include "base/hist.h"
#include "base/log.h"
#include "base/prng.h"

#define THREADS 4
#define LINES	2000
#define VALUES	50000

static atomic_uint whole_lines, broken_lines;

static void check_line(void *context, enum log_level level, const char *line)
{
	unsigned thread, number, again;

	if (level == LOG_ERROR &&
	    sscanf(line, "thread %u line %u again %u end", &thread, &number, &again) == 3 &&
	    thread < THREADS && number == again)
		atomic_fetch_add_explicit(&whole_lines, 1, memory_order_relaxed);
	else
		atomic_fetch_add_explicit(&broken_lines, 1, memory_order_relaxed);
}

static void *log_lines(void *arg)
{
	unsigned thread = *(unsigned *)arg;

	for (unsigned i = 0; i < LINES; i++) {
		log_error("thread %u line %u again %u end", thread, i, i);
		/* Errors pass at every threshold. */
		log_set_level(i % 2 ? LOG_ERROR : LOG_INFO);
	}
	return NULL;
}

static void lines_of_threads_stay_whole(void **state)
{
	pthread_t thread[THREADS];
	unsigned index[THREADS];

	log_set_hook(check_line, NULL);
	for (unsigned i = 0; i < THREADS; i++) {
		index[i] = i;
		assert_int_equal(pthread_create(&thread[i], NULL, log_lines, &index[i]), 0);
	}
	for (unsigned i = 0; i < THREADS; i++)
		assert_int_equal(pthread_join(thread[i], NULL), 0);
	log_set_hook(NULL, NULL);
	log_set_level(LOG_WARN);
	assert_int_equal(atomic_load(&whole_lines), THREADS * LINES);
	assert_int_equal(atomic_load(&broken_lines), 0);
}

struct recorder {
	uint64_t seed;
	struct hist hist;
};

static void record_all(struct hist *h, uint64_t seed)
{
	struct prng p;

	prng_seed(&p, seed);
	for (unsigned i = 0; i < VALUES; i++)
		hist_record(h, prng_u64(&p) >> (24 + prng_below(&p, 40)));
}

static void *record(void *arg)
{
	struct recorder *r = arg;

	record_all(&r->hist, r->seed);
	return NULL;
}

static void merged_histograms_hold_everything(void **state)
{
	static struct recorder recorder[THREADS];
	static struct hist merged, alone;
	pthread_t thread[THREADS];

	for (unsigned i = 0; i < THREADS; i++) {
		recorder[i].seed = 100 + i;
		assert_int_equal(pthread_create(&thread[i], NULL, record, &recorder[i]), 0);
	}
	for (unsigned i = 0; i < THREADS; i++) {
		assert_int_equal(pthread_join(thread[i], NULL), 0);
		hist_merge(&merged, &recorder[i].hist);
		record_all(&alone, 100 + i);
	}
	assert_int_equal(merged.count, THREADS * VALUES);
	assert_memory_equal(&merged, &alone, sizeof(merged));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test(lines_of_threads_stay_whole),
	    cmocka_unit_test(merged_histograms_hold_everything),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
