/*
 * hash.h: the one hash function of the tree, XXH3 of libxxhash, compiled into its callers.
 *
 * Everyone may include it; it owns nothing and keeps no state, so any thread may call it.  The
 * results are part of the remote format (buckets, fingerprints, checksums): a change of function
 * or seed is a change of layout, and test/unit/hash.c repeats known values as literals.
 * Not cryptographic: someone who chooses keys can make them collide.
 */
#ifndef FORGE_BASE_HASH_H
#define FORGE_BASE_HASH_H

#include <stddef.h>
#include <stdint.h>

#define XXH_INLINE_ALL
#include <xxhash.h>

/* clang has no pragma for the target of a whole file; it does without. */
#if defined(__x86_64__) && defined(__GNUC__) && !defined(__clang__)
#define HASH_HAS_AVX2 1
#else
#define HASH_HAS_AVX2 0
#endif

#if HASH_HAS_AVX2
/* XXH3_64bits() with AVX2, which the caller has asked the processor for. */
uint64_t hash_avx2(const void *data, size_t bytes);
#endif

/* XXH3 of any bytes; from 241 on it works in vectors. */
static inline uint64_t hash_bytes(const void *data, size_t bytes)
{
#if HASH_HAS_AVX2
	if (bytes > 240 && __builtin_cpu_supports("avx2"))
		return hash_avx2(data, bytes);
#endif
	return XXH3_64bits(data, bytes);
}

/* The 64-bit hash of a key.  Borrows key; bytes may be 0. */
static inline uint64_t hash_key(const void *key, size_t bytes)
{
	return XXH3_64bits(key, bytes);
}

/* A bijective mix of 64 bits (the finaliser of splitmix64, Steele et al. 2014). */
static inline uint64_t hash_mix(uint64_t x)
{
	x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9u;
	x = (x ^ (x >> 27)) * 0x94d049bb133111ebu;
	return x ^ (x >> 31);
}

/*
 * The checksum of bytes at data, chained: pass the result for the first piece as previous of the
 * second, and 0 for the first.  The order of the pieces and where they are cut both matter.  It
 * mixes instead of seeding XXH3, because a seed makes XXH3 derive a new secret at each call on
 * more than 240 bytes.
 */
static inline uint64_t hash_checksum(uint64_t previous, const void *data, size_t bytes)
{
	return hash_mix(previous * 0x9e3779b97f4a7c15u + hash_bytes(data, bytes) + 1);
}

/* The checksum as it fits a 32-bit field. */
static inline uint32_t hash_fold32(uint64_t checksum)
{
	return (uint32_t)(checksum ^ (checksum >> 32));
}

#endif
