/*
 * compiler.h: the few GNU extensions this tree uses, wrapped once.
 *
 * Everyone may include it; it owns nothing and depends on nothing.
 */
#ifndef FORGE_BASE_COMPILER_H
#define FORGE_BASE_COMPILER_H

#include <assert.h>
#include <stdint.h>

#define likely(x)   __builtin_expect(!!(x), 1)
#define unlikely(x) __builtin_expect(!!(x), 0)

/* The function may suspend its caller in flow_run(); after it, remote knowledge is a hint. */
#define MAY_WAIT

#define PRINTF_LIKE(format_index, first_index) \
	__attribute__((format(printf, format_index, first_index)))

#define ARRAY_COUNT(a) (sizeof(a) / sizeof((a)[0]))

/*
 * Bring the line of p closer to the processor, to be read, or to be written.  A hint: p may be any
 * address.  The empty assembly is what keeps it: gcc (12.2, -O3) takes a function that does nothing
 * but __builtin_prefetch() for one without effects, and drops the calls of it.
 */
static inline void fetch_ahead(const void *p)
{
	__asm__ volatile("");
	__builtin_prefetch(p);
}

static inline void fetch_ahead_to_write(const void *p)
{
	__asm__ volatile("");
	__builtin_prefetch(p, 1);
}

static inline uint64_t min_u64(uint64_t a, uint64_t b)
{
	return a < b ? a : b;
}

static inline uint64_t max_u64(uint64_t a, uint64_t b)
{
	return a > b ? a : b;
}

/* Round n up to a multiple of unit; unit is a power of two. */
static inline uint64_t round_up_u64(uint64_t n, uint64_t unit)
{
	return (n + unit - 1) & ~(unit - 1);
}

#endif
