/*
 * requests.h: what a parser makes of some input, as text; for the parser's tests and its fuzzer.
 */
#ifndef FORGE_TEST_REQUESTS_H
#define FORGE_TEST_REQUESTS_H

#include <stddef.h>
#include <stdint.h>

#define REQUESTS_VALUE_BYTES_MAX 4000u

/* How many bytes come next, of those that are left; at least 1. */
typedef size_t (*requests_split_fn)(void *context, size_t left);

/*
 * Feed data to a parser in parts, and write each request as a line.  Memory before and behind
 * what has come is not the parser's: AddressSanitizer would tell.  Aborts when the parser breaks
 * its own rules.  Gives a string to be freed.
 */
char *requests_of(const char *data, size_t bytes, requests_split_fn split, void *context);

#endif
