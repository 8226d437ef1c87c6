/*
 * memory.c: READ, WRITE, CAS and FAA as C11 atomics on mapped memory.
 *
 * The argument for the order that fabric.h promises.  Verbs of one connection must seem to take
 * effect one after the other, to every other connection:
 *   READ then anything   an acquire fence follows the loads of a READ;
 *   WRITE then WRITE     a release fence precedes the stores of a WRITE;
 *   WRITE then READ      needs a full fence, since the stores may still sit in the store buffer;
 *                        it is paid once, before the next READ or at the end of the post, which
 *                        is also what makes a completed WRITE visible to every later verb;
 *   CAS, FAA             are sequentially consistent, which orders them with all before and after;
 *                        on x86 a locked instruction is itself the full fence after a WRITE.
 * ThreadSanitizer does not model fences, so in its build each word carries the order instead.
 *
 * Atomic words are all that is promised, so they may travel in pairs where the processor moves a
 * pair whole: x86 with AVX moves 16 aligned bytes atomically (Intel SDM volume 3, "Guaranteed
 * Atomic Operations"; AMD64 APM volume 2, "Access Atomicity").  Half the instructions let more
 * cache misses overlap: READs at random in 64 MiB went from 95 to 67 ns for 128 bytes and from
 * 175 to 116 ns for 384 (best of 12 runs, gcc 12 -O3, one client on a shared 2-core guest).  The
 * sanitizers see words only.
 *
 * A part of a word, at the ragged ends of an unaligned WRITE, is merged by CAS: a byte store
 * would do for the memory but would let a reader see half of the part.
 */
#include "fabric/memory.h"

#include <stdatomic.h>
#include <string.h>

#include "base/compiler.h"
#include "base/sanitizer.h"

#if TSAN_BUILD
#define WORD_LOAD_ORDER	 memory_order_acquire
#define WORD_STORE_ORDER memory_order_release
#else
#define WORD_LOAD_ORDER	 memory_order_relaxed
#define WORD_STORE_ORDER memory_order_relaxed
#endif

#if defined(__x86_64__) && !TSAN_BUILD && !ASAN_BUILD
#include <emmintrin.h>
#define WORDS_TRAVEL_IN_PAIRS
#endif

typedef _Atomic uint64_t word_t;

static_assert(sizeof(word_t) == 8, "a word is one 8-byte unit of the export");
static_assert(ATOMIC_LLONG_LOCK_FREE == 2, "a lock would not be shared between processes");

static inline void fence_acquire(void)
{
#if !TSAN_BUILD
	atomic_thread_fence(memory_order_acquire);
#endif
}

static inline void fence_release(void)
{
#if !TSAN_BUILD
	atomic_thread_fence(memory_order_release);
#endif
}

static inline void fence_full(void)
{
#if TSAN_BUILD
	word_t here = 0;

	atomic_fetch_add_explicit(&here, 0, memory_order_seq_cst);
#else
	atomic_thread_fence(memory_order_seq_cst);
#endif
}

static inline void load_word(unsigned char *to, const word_t *from)
{
	uint64_t word = atomic_load_explicit(from, WORD_LOAD_ORDER);

	memcpy(to, &word, 8);
}

static inline void store_word(word_t *to, const unsigned char *from)
{
	uint64_t word;

	memcpy(&word, from, 8);
	atomic_store_explicit(to, word, WORD_STORE_ORDER);
}

#ifdef WORDS_TRAVEL_IN_PAIRS

/* Assembly, since no compiler promises to use one instruction for what C calls an assignment. */
static inline void load_pair(unsigned char *to, const word_t *from)
{
	__m128i pair;

	__asm__ volatile("movdqa %1, %0" : "=x"(pair) : "m"(*(const __m128i *)from));
	_mm_storeu_si128((__m128i *)to, pair);
}

static inline void store_pair(word_t *to, const unsigned char *from)
{
	__m128i pair = _mm_loadu_si128((const __m128i *)from);

	__asm__ volatile("movdqa %1, %0" : "=m"(*(__m128i *)to) : "x"(pair));
}

static inline void load_line(unsigned char *to, const word_t *from)
{
	load_pair(to, from);
	load_pair(to + 16, from + 2);
	load_pair(to + 32, from + 4);
	load_pair(to + 48, from + 6);
}

/* Move as many whole pairs as there are; how many words were moved. */
static inline uint64_t load_pairs(unsigned char *to, const word_t *from, uint64_t words)
{
	uint64_t i;

	if ((uintptr_t)from & 15)
		return 0;
	for (i = 0; i + 8 <= words; i += 8)
		load_line(to + i * 8, from + i);
	for (; i + 2 <= words; i += 2)
		load_pair(to + i * 8, from + i);
	return i;
}

static inline uint64_t store_pairs(word_t *to, const unsigned char *from, uint64_t words)
{
	uint64_t i;

	if ((uintptr_t)to & 15)
		return 0;
	for (i = 0; i + 8 <= words; i += 8) {
		store_pair(to + i, from + i * 8);
		store_pair(to + i + 2, from + i * 8 + 16);
		store_pair(to + i + 4, from + i * 8 + 32);
		store_pair(to + i + 6, from + i * 8 + 48);
	}
	for (; i + 2 <= words; i += 2)
		store_pair(to + i, from + i * 8);
	return i;
}

#else

static inline void load_line(unsigned char *to, const word_t *from)
{
	for (unsigned i = 0; i < 8; i++)
		load_word(to + i * 8, from + i);
}

static inline uint64_t load_pairs(unsigned char *to, const word_t *from, uint64_t words)
{
	return 0;
}

static inline uint64_t store_pairs(word_t *to, const unsigned char *from, uint64_t words)
{
	return 0;
}

#endif

/* The compiler leaves loops of atomics alone; eight words a turn hide the loop's own cost. */
static inline void load_words(unsigned char *to, const word_t *from, uint64_t words, int pairs)
{
	uint64_t moved = pairs ? load_pairs(to, from, words) : 0;

	to += moved * 8;
	from += moved;
	words -= moved;
	for (; words >= 8; words -= 8, from += 8, to += 64) {
		load_word(to, from);
		load_word(to + 8, from + 1);
		load_word(to + 16, from + 2);
		load_word(to + 24, from + 3);
		load_word(to + 32, from + 4);
		load_word(to + 40, from + 5);
		load_word(to + 48, from + 6);
		load_word(to + 56, from + 7);
	}
	for (; words > 0; words--, from++, to += 8)
		load_word(to, from);
}

static inline void store_words(word_t *to, const unsigned char *from, uint64_t words, int pairs)
{
	uint64_t moved = pairs ? store_pairs(to, from, words) : 0;

	to += moved;
	from += moved * 8;
	words -= moved;
	for (; words >= 8; words -= 8, to += 8, from += 64) {
		store_word(to, from);
		store_word(to + 1, from + 8);
		store_word(to + 2, from + 16);
		store_word(to + 3, from + 24);
		store_word(to + 4, from + 32);
		store_word(to + 5, from + 40);
		store_word(to + 6, from + 48);
		store_word(to + 7, from + 56);
	}
	for (; words > 0; words--, to++, from += 8)
		store_word(to, from);
}

static void load_part(unsigned char *to, const word_t *from, unsigned skip, unsigned bytes)
{
	unsigned char word[8];

	load_word(word, from);
	memcpy(to, word + skip, bytes);
}

static void store_part(word_t *to, const unsigned char *from, unsigned skip, unsigned bytes)
{
	uint64_t seen = atomic_load_explicit(to, memory_order_relaxed);
	uint64_t merged;

	/* Each turn that fails means that another connection changed the word. */
	do {
		merged = seen;
		memcpy((unsigned char *)&merged + skip, from, bytes);
	} while (!atomic_compare_exchange_weak_explicit(to, &seen, merged, memory_order_release,
							memory_order_relaxed));
}

/* A READ or WRITE whose ends are not on word boundaries; the branch is on the rare path. */
static void __attribute__((noinline)) copy_ragged(unsigned char *mem, const struct fab_op *op)
{
	unsigned skip = (unsigned)(op->raddr & 7);
	word_t *word = (word_t *)(mem + (op->raddr - skip));
	unsigned char *buf = op->buf;
	uint64_t left = op->len;
	int is_read = op->code == FAB_READ;

	while (left > 0) {
		unsigned bytes = (unsigned)min_u64(8 - skip, left);

		if (skip == 0 && left >= 8) {
			uint64_t words = left / 8;

			if (is_read)
				load_words(buf, word, words, 0);
			else
				store_words(word, buf, words, 0);
			word += words;
			buf += words * 8;
			left -= words * 8;
			continue;
		}
		if (is_read)
			load_part(buf, word, skip, bytes);
		else
			store_part(word, buf, skip, bytes);
		word++;
		buf += bytes;
		left -= bytes;
		skip = 0;
	}
}

static inline int op_in_bounds(const struct memory_fab *m, const struct fab_op *op)
{
	if (op->len > m->bytes || op->raddr > m->bytes - op->len)
		return 0;
	return op->code < FAB_CAS || (op->raddr & 7) == 0;
}

static inline int is_ragged(const struct fab_op *op)
{
	return ((op->raddr | op->len) & 7) != 0;
}

/* Run an op that is in bounds and return the old word of a CAS or FAA.  *stored: see above. */
static inline uint64_t run_op(const struct memory_fab *m, const struct fab_op *op, int *stored)
{
	unsigned char *mem = m->mem;
	word_t *word = (word_t *)(mem + op->raddr);
	uint64_t old;

	if (op->code == FAB_READ) {
		if (*stored)
			fence_full();
		*stored = 0;
		if (unlikely(is_ragged(op)))
			copy_ragged(mem, op);
		else
			load_words(op->buf, word, op->len / 8, m->pairs);
		fence_acquire();
		return 0;
	}
	if (op->code == FAB_WRITE) {
		fence_release();
		if (unlikely(is_ragged(op)))
			copy_ragged(mem, op);
		else
			store_words(word, op->buf, op->len / 8, m->pairs);
		*stored = 1;
		return 0;
	}
	assert((op->code == FAB_CAS || op->code == FAB_FAA) && op->len == 8);
#ifndef __x86_64__
	if (*stored)
		fence_full();
#endif
	*stored = 0;
	if (op->code == FAB_FAA)
		return atomic_fetch_add_explicit(word, op->arg, memory_order_seq_cst);
	old = op->arg;
	atomic_compare_exchange_strong_explicit(word, &old, op->swap, memory_order_seq_cst,
						memory_order_seq_cst);
	return old;
}

/* READ pairs that are whole lines in length, as buckets and objects are: all that a Get does. */
static inline int reads_lines(const struct memory_fab *m, const struct fab_op *op)
{
	return op->code == FAB_READ && m->pairs && (op->raddr & 15) == 0 && (op->len & 63) == 0;
}

static inline void read_lines(const struct memory_fab *m, const struct fab_op *op)
{
	const word_t *from = (const word_t *)(m->mem + op->raddr), *end = from + op->len / 8;
	unsigned char *to = op->buf;

	for (; from < end; from += 8, to += 64)
		load_line(to, from);
	fence_acquire();
}

void memory_post(struct fab *f, struct fab_op *ops, unsigned n)
{
	struct memory_fab *m = (struct memory_fab *)f;
	int stored = 0;
	unsigned i;

	for (i = 0; i < n; i++) {
		struct fab_op *op = &ops[i];
		uint64_t old;

		if (unlikely(!op_in_bounds(m, op)))
			break;
		if (likely(!stored && reads_lines(m, op))) {
			read_lines(m, op);
			op->status = FORGE_OK;
			continue;
		}
		old = run_op(m, op, &stored);
		if (unlikely(op->flags & FAB_DETACHED)) {
			assert(op->len <= FAB_DETACHED_BYTES_MAX && op->code != FAB_READ);
			continue;
		}
		if (op->code >= FAB_CAS)
			op->old = old;
		op->status = FORGE_OK;
	}
	for (; i < n; i++)
		if (!(ops[i].flags & FAB_DETACHED))
			ops[i].status = FORGE_E_BOUNDS;
	if (stored)
		fence_full();
}

void memory_read(const struct memory_fab *m, uint64_t raddr, void *to, uint32_t len)
{
	assert(len <= m->bytes && raddr <= m->bytes - len);
	/* WRITEs before it had their full fence at the end of their post. */
	if (unlikely((raddr | len) & 7)) {
		const struct fab_op op = fab_read(FAB_DATA, raddr, to, len);

		copy_ragged(m->mem, &op);
	} else {
		load_words(to, (const word_t *)(m->mem + raddr), len / 8, m->pairs);
	}
	fence_acquire();
}

int memory_reg(struct fab *f, void *buf, size_t bytes)
{
	return FORGE_OK;
}

void memory_kick(struct fab *f)
{
}

void memory_poll(struct fab *f)
{
}

void memory_init(struct memory_fab *m, const struct fab_provider *provider, void *mem,
		 uint64_t bytes)
{
	assert(((uintptr_t)mem & 7) == 0 && (bytes & 7) == 0);
	*m = (struct memory_fab){
	    .base = {.provider = provider,
		     .caps = {.export_bytes = bytes,
			      .batch_ops_max = UINT32_MAX,
			      .completes_at_post = 1,
			      .mapped = mem}},
	    .mem = mem,
	    .bytes = bytes,
#ifdef WORDS_TRAVEL_IN_PAIRS
	    .pairs = !!__builtin_cpu_supports("avx"),
#endif
	};
}
