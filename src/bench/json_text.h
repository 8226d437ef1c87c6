/*
 * json_text.h: strings of the user's, such as names of files and pools, as JSON.
 *
 * Called by whatever writes JSON; any thread.  The value is the caller's.
 */
#ifndef FORGE_BENCH_JSON_TEXT_H
#define FORGE_BENCH_JSON_TEXT_H

#include <jansson.h>

/*
 * The text as a JSON string.  A file's name may be any bytes and JSON's are UTF-8: in a text that
 * is not, each byte outside ASCII becomes a question mark.  NULL for NULL or without memory.
 */
json_t *json_text(const char *text);

#endif
