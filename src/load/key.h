/*
 * key.h: the text of a key, "user" and the id in 16 to 20 decimal digits, as YCSB writes it.
 *
 * Pure; any thread.  Ids below 10^16 are padded to 16 digits, so keys of a usual run are 20
 * bytes; a 64-bit hash takes up to 24.  Every id has exactly one text.
 */
#ifndef FORGE_LOAD_KEY_H
#define FORGE_LOAD_KEY_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define LOAD_KEY_TEXT_MAX 24

/* Write the text of id to buf, without a NUL; gives its length, at most LOAD_KEY_TEXT_MAX. */
size_t load_key_text(uint64_t id, char buf[LOAD_KEY_TEXT_MAX]);

/* The id of a text; false, and *id untouched, unless load_key_text() could have written it. */
bool load_key_parse(const char *text, size_t bytes, uint64_t *id);

#endif
