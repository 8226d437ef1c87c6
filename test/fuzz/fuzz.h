/*
 * fuzz.h: what a fuzz target provides, so that libFuzzer and the plain driver both can run it.
 *
 * A target is a program: its .c file and fuzz_driver.c, which mutates the target's own seeds a
 * fixed number of times, for the default test suite; or the same .c file built by clang with
 * -fsanitize=fuzzer, without the driver, to search for as long as one likes.
 */
#ifndef FORGE_TEST_FUZZ_H
#define FORGE_TEST_FUZZ_H

#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>

#include "base/clock.h"

/* libFuzzer's entry point: try one input; abort() when something is wrong.  Gives 0. */
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t bytes);

/* Write seed number i to buf; gives its length, or 0 when there are no more. */
size_t fuzz_seed(unsigned i, uint8_t *buf, size_t room);

/* Bytes from hexadecimal, as the driver prints inputs; how many. */
static inline size_t fuzz_from_hex(const char *hex, uint8_t *buf, size_t room)
{
	size_t n = 0;
	unsigned byte;

	for (; n < room && hex[0] && hex[1] && sscanf(hex, "%2x", &byte) == 1; hex += 2)
		buf[n++] = (uint8_t)byte;
	return n;
}

/* Something must hold, whatever the input was. */
static inline void require(int condition, const char *what)
{
	if (condition)
		return;
	fprintf(stderr, "%s\n", what);
	abort();
}

/* An input, taken byte by byte; zeroes once it is used up. */
struct input {
	const uint8_t *at, *end;
};

static inline uint8_t take(struct input *in)
{
	return in->at < in->end ? *in->at++ : 0;
}

/* Time that passes by being looked at, so that polls fall due and a run can be repeated. */
struct ticking {
	struct clock clock;
	uint64_t now_ns;
};

static inline uint64_t tick(const struct clock *clock)
{
	struct ticking *t = (struct ticking *)(uintptr_t)clock;

	return t->now_ns += 1000;
}

static inline struct ticking ticking_from_start(void)
{
	return (struct ticking){.clock = {tick}, .now_ns = 1000};
}

#endif
