/* request.c: keeping a request longer than the input it was parsed from. */
#include "serve/request.h"

#include <string.h>

static bool has_value(const struct request *r)
{
	return r->kind == REQUEST_STORE || r->kind == REQUEST_META_SET || r->kind == REQUEST_BINARY;
}

static bool has_meta(const struct request *r)
{
	return r->kind >= REQUEST_META_GET && r->kind <= REQUEST_META_DEBUG;
}

bool request_looks_up_key(const struct request *r)
{
	switch (r->kind) {
	case REQUEST_STATS:
	case REQUEST_META_DEBUG:
	case REQUEST_TOO_LARGE:
		return false;
	case REQUEST_BINARY:
		return r->key_bytes > 0 && !r->binary.fault;
	default:
		return request_names_key(r);
	}
}

size_t request_room_bytes(const struct request *r)
{
	size_t bytes = request_names_key(r) ? r->key_bytes : 0;

	if (has_value(r))
		bytes += r->value_bytes;
	if (has_meta(r))
		bytes += (size_t)r->meta.opaque_bytes + r->meta.sent_key_bytes;
	return bytes;
}

/* Bring bytes to *room, and the pointer to them. */
static void bring(const char **data, size_t bytes, char **room)
{
	if (bytes)
		memcpy(*room, *data, bytes);
	*data = *room;
	*room += bytes;
}

void request_copy(const struct request *from, char *room, struct request *to)
{
	*to = *from;
	if (request_names_key(to))
		bring(&to->key, to->key_bytes, &room);
	if (has_value(to))
		bring(&to->value, to->value_bytes, &room);
	if (has_meta(to)) {
		bring(&to->meta.opaque, to->meta.opaque_bytes, &room);
		bring(&to->meta.sent_key, to->meta.sent_key_bytes, &room);
	}
}
