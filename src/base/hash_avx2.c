/*
 * hash_avx2.c: XXH3 of more than 240 bytes with 32-byte vectors, for processors that have them.
 *
 * The same function with the same results as the one compiled into hash.h's callers, which by
 * default uses the 16-byte vectors every x86-64 has: half the instructions.  hash.h decides at
 * run time which to call, so the program runs everywhere.
 */
#if defined(__x86_64__) && defined(__GNUC__) && !defined(__clang__)
#pragma GCC target("avx2")
#endif

#include "base/hash.h"

#if HASH_HAS_AVX2

uint64_t hash_avx2(const void *data, size_t bytes)
{
	return XXH3_64bits(data, bytes);
}

#endif
