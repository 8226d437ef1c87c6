/* shared.c: the mapping that a run's processes share. */
#include "bench/shared.h"

#include <sched.h>
#include <sys/mman.h>
#include <time.h>

#define ALIGNED(bytes) round_up_u64(bytes, 4096)

struct bench_shared *shared_create(const struct bench_setup *setup, const struct bench_load *load,
				   bool alone)
{
	uint64_t workers = (uint64_t)setup->processes * setup->threads;
	uint64_t head = ALIGNED(sizeof(struct bench_shared));
	uint64_t records = ALIGNED(workers * sizeof(struct bench_worker));
	uint64_t positions = ALIGNED(workers * BENCH_POSITION_STRIDE * 8);
	uint64_t bits = ALIGNED((load->slot_count + 63) / 64 * 8);
	uint64_t fresh = setup->stress ? ALIGNED(load->key_count * sizeof(struct fresh_key)) : 0;
	uint64_t bytes = head + records + positions + bits + fresh;
	/* Pages of keys that nobody touches are never there. */
	uint8_t *map =
	    mmap(NULL, bytes, PROT_READ | PROT_WRITE,
		 (alone ? MAP_PRIVATE : MAP_SHARED) | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);

	if (map == MAP_FAILED)
		return NULL;
	struct bench_shared *s = (struct bench_shared *)map;

	s->map_bytes = bytes;
	s->worker_count = (uint32_t)workers;
	s->workers = (struct bench_worker *)(map + head);
	s->positions = (_Atomic uint64_t *)(map + head + records);
	s->distinct = (_Atomic uint64_t *)(map + head + records + positions);
	s->distinct_count = load->slot_count;
	s->key_count = load->key_count;
	s->fresh.workers = (uint32_t)workers;
	if (setup->stress) {
		struct timespec now;

		clock_gettime(CLOCK_REALTIME, &now);
		s->fresh.keys = (struct fresh_key *)(map + head + records + positions + bits);
		s->fresh.count = load->key_count;
		s->fresh.first_version = (uint64_t)now.tv_sec * 1000000000u + (uint64_t)now.tv_nsec;
	}
	return s;
}

void shared_destroy(struct bench_shared *s)
{
	if (s)
		munmap(s, s->map_bytes);
}

bool shared_barrier(struct bench_shared *s, enum bench_barrier which)
{
	const struct timespec nap = {.tv_nsec = 20000};

	/* B1: what a worker did before, with B2: what others do after. */
	atomic_fetch_add_explicit(&s->arrived[which], 1, memory_order_acq_rel);
	while (atomic_load_explicit(&s->arrived[which], memory_order_acquire) < s->worker_count) {
		if (atomic_load_explicit(&s->stopping, memory_order_relaxed))
			return false;
		nanosleep(&nap, NULL);
	}
	return !atomic_load_explicit(&s->stopping, memory_order_relaxed);
}

bool shared_first_touch(struct bench_shared *s, uint64_t slot)
{
	if (slot >= s->distinct_count)
		return false;
	_Atomic uint64_t *word = &s->distinct[slot / 64];
	uint64_t bit = UINT64_C(1) << (slot % 64);

	/* Almost always set already: look before the atomic. */
	if (atomic_load_explicit(word, memory_order_relaxed) & bit)
		return false;
	return !(atomic_fetch_or_explicit(word, bit, memory_order_relaxed) & bit);
}
