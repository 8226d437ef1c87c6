/*
 * fuzz_driver.c: runs a fuzz target on mutations of its seeds, the same ones every time.
 *
 * usage: TARGET [rounds [seed]], or TARGET SECONDSs [seed], or TARGET --input HEX, or TARGET
 * --seeds DIR, which writes the seeds as files, for libFuzzer to begin with.  It prints the seed
 * first.  A round picks one of the target's seeds and applies one to eight mutations: flip a bit,
 * set a byte, cut, insert, delete or repeat a piece, or splice in a piece of another seed. What is
 * found is in the sanitizer's report or the target's abort(); the round's number is in the last
 * line written then, so that "TARGET rounds seed" repeats it, and its input, so that "TARGET
 * --input HEX" does at once.
 */
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "base/compiler.h"
#include "base/prng.h"
#include "fuzz.h"

#define INPUT_MAX 8192
#define SEEDS_MAX 64

static uint8_t seeds[SEEDS_MAX][INPUT_MAX];
static size_t seed_bytes[SEEDS_MAX];
static unsigned seed_count;
static unsigned long round_now;
static const uint8_t *input; /* of the run that is on */
static size_t input_bytes;

static void on_abort(int number)
{
	char line[64];
	int n = snprintf(line, sizeof(line), "in round %lu\n", round_now);

	(void)number;
	if (n > 0 && write(STDERR_FILENO, line, (size_t)n) < 0)
		_exit(2);
	for (size_t i = 0; i < input_bytes; i++) {
		static const char digits[] = "0123456789abcdef";
		const char hex[2] = {digits[input[i] >> 4], digits[input[i] & 15]};

		if (write(STDERR_FILENO, hex, 2) < 0)
			_exit(2);
	}
	if (write(STDERR_FILENO, "\n", 1) < 0)
		_exit(2);
	signal(SIGABRT, SIG_DFL);
}

static void run_input(const uint8_t *data, size_t bytes)
{
	input = data;
	input_bytes = bytes;
	LLVMFuzzerTestOneInput(data, bytes);
}

/* Make room for or close a gap of n bytes at `at`; gives the new length. */
static size_t gap(uint8_t *buf, size_t bytes, size_t at, size_t n, int open)
{
	if (open) {
		n = min_u64(n, INPUT_MAX - bytes);
		memmove(buf + at + n, buf + at, bytes - at);
		memset(buf + at, 0, n);
		return bytes + n;
	}
	n = min_u64(n, bytes - at);
	memmove(buf + at, buf + at + n, bytes - at - n);
	return bytes - n;
}

static size_t mutate(struct prng *p, uint8_t *buf, size_t bytes)
{
	static const char interesting[] = "\0\xff\x7f\x80\"\n\r#,-.0 9";
	size_t at = prng_below(p, bytes + 1);
	size_t n = 1 + prng_below(p, 32);
	unsigned other;

	switch (prng_below(p, 7)) {
	case 0:
		if (at < bytes)
			buf[at] ^= (uint8_t)(1u << prng_below(p, 8));
		return bytes;
	case 1:
		if (at < bytes)
			buf[at] = (uint8_t)prng_u64(p);
		return bytes;
	case 2:
		if (at < bytes)
			buf[at] = (uint8_t)interesting[prng_below(p, sizeof(interesting) - 1)];
		return bytes;
	case 3:
		return at;
	case 4:
		return gap(buf, bytes, at, n, 0);
	case 5:
		return gap(buf, bytes, at, n, 1);
	default:
		other = (unsigned)prng_below(p, seed_count);
		n = min_u64(prng_below(p, seed_bytes[other] + 1), INPUT_MAX - at);
		memcpy(buf + at, seeds[other] + seed_bytes[other] - n, n);
		return max_u64(bytes, at + n);
	}
}

static void read_seeds(void)
{
	while (seed_count < SEEDS_MAX) {
		size_t n = fuzz_seed(seed_count, seeds[seed_count], INPUT_MAX);

		if (n == 0)
			break;
		seed_bytes[seed_count++] = n;
	}
}

static int write_seeds(const char *folder)
{
	for (unsigned i = 0; i < seed_count; i++) {
		char path[4096];
		FILE *file;

		snprintf(path, sizeof(path), "%s/seed-%u", folder, i);
		file = fopen(path, "wb");
		if (!file || fwrite(seeds[i], 1, seed_bytes[i], file) != seed_bytes[i]) {
			perror(path);
			return 1;
		}
		if (fclose(file)) {
			perror(path);
			return 1;
		}
	}
	printf("%u seeds written\n", seed_count);
	return 0;
}

int main(int argc, char **argv)
{
	char *unit = "";
	unsigned long rounds = argc > 1 ? strtoul(argv[1], &unit, 10) : 20000;
	/* So many seconds, however many rounds that are. */
	time_t end = *unit == 's' ? time(NULL) + (time_t)rounds : 0;
	unsigned long seed = argc > 2 ? strtoul(argv[2], NULL, 10) : 1;
	static uint8_t buf[INPUT_MAX];
	struct prng p;

	signal(SIGABRT, on_abort);
	if (argc == 3 && strcmp(argv[1], "--input") == 0) {
		run_input(buf, fuzz_from_hex(argv[2], buf, INPUT_MAX));
		return 0;
	}
	read_seeds();
	if (argc == 3 && strcmp(argv[1], "--seeds") == 0)
		return write_seeds(argv[2]);
	printf("seed %lu, %lu %s\n", seed, rounds, end ? "seconds" : "rounds");
	fflush(stdout);
	if (seed_count == 0) {
		fprintf(stderr, "the target has no seeds\n");
		return 1;
	}
	for (unsigned i = 0; i < seed_count; i++)
		run_input(seeds[i], seed_bytes[i]);
	prng_seed(&p, seed);
	for (round_now = 1; end ? time(NULL) < end : round_now <= rounds; round_now++) {
		unsigned i = (unsigned)prng_below(&p, seed_count);
		size_t bytes = seed_bytes[i];

		memcpy(buf, seeds[i], bytes);
		for (uint64_t k = 1 + prng_below(&p, 8); k > 0; k--)
			bytes = mutate(&p, buf, bytes);
		run_input(buf, bytes);
	}
	printf("%u seeds and %lu mutations read\n", seed_count, round_now - 1);
	return 0;
}
