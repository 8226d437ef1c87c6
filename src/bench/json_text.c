/* json_text.c: strings of the user's as JSON. */
#include "bench/json_text.h"

#include <stdlib.h>
#include <string.h>

json_t *json_text(const char *text)
{
	json_t *json = json_string(text);
	char *ascii = json || !text ? NULL : strdup(text);

	if (!ascii)
		return json;
	for (char *c = ascii; *c; c++)
		if ((unsigned char)*c >= 0x80)
			*c = '?';
	json = json_string(ascii);
	free(ascii);
	return json;
}
