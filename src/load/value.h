/*
 * value.h: values that say which key and version they are, over their whole length.
 *
 * For load generators and stress tests: a Get that returns another key's value, a mixture of
 * two versions, a shifted, torn or cut value is recognised, wherever the damage lies.  Pure;
 * any thread.
 *
 *	OFFSET	SIZE	DESCRIPTION (of a value of at least VALUE_STAMP_BYTES)
 *	0	8	key id
 *	8	8	version
 *	16	4	writer
 *	20	4	the value's length, low 32 bits
 *	24	8	seed = hash(key, version, writer, length)
 *	32	..	word i holds seed + i * odd constant; the last one is cut to what is left
 *
 * Shorter values keep what fits: 16 to 31 bytes a 64-bit version and a 64-bit check, 8 to 15 a
 * 32-bit version and a 32-bit check, 1 to 7 only bytes of a hash of the key (their version
 * reads as 0).  A check covers key, version and length; trailing bytes continue the pattern.
 */
#ifndef FORGE_LOAD_VALUE_H
#define FORGE_LOAD_VALUE_H

#include <stddef.h>
#include <stdint.h>

#define VALUE_STAMP_BYTES 32 /* from here on every field is there in full */

enum value_verdict {
	VALUE_GOOD = 0,
	VALUE_OTHER_KEY,    /* it is whole, but another key's */
	VALUE_OTHER_LENGTH, /* its header was written for another length */
	VALUE_TORN,	    /* header and body do not belong together */
};

/* Fill all bytes of buf.  key and version are not the same thing: mind their order. */
void value_fill(void *buf, size_t bytes, uint64_t key, uint64_t version, uint32_t writer);

/*
 * Check every byte.  VALUE_GOOD stores the version (version may be NULL); any other verdict
 * leaves *version alone.
 */
enum value_verdict value_verify(const void *buf, size_t bytes, uint64_t key, uint64_t *version);

/* The writer of a value that value_verify() found good; 0 when it is too short to hold one. */
uint32_t value_writer(const void *buf, size_t bytes);

/* A line for a report: the verdict, what the header claims, the first wrong offset. */
void value_describe(const void *buf, size_t bytes, uint64_t key, char *text, size_t text_bytes);

#endif
