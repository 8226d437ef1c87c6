/* error.c: statuses as text, and what the thread's last failed call has to say. */
#include <stdarg.h>
#include <stdio.h>

#include "lib/lib.h"

static _Thread_local char detail[768];

const char *forge_status_name(int status)
{
	return status_name(status);
}

const char *forge_status_text(int status)
{
	return status_sentence(status);
}

const char *forge_detail(void)
{
	return detail;
}

int lib_fail(int status, const char *format, ...)
{
	va_list arguments;

	va_start(arguments, format);
	vsnprintf(detail, sizeof(detail), format, arguments);
	va_end(arguments);
	return status;
}

/* What the library refused to hand on; the cache itself has no other reason for FORGE_E_INVAL. */
static const char *invalid_argument(const struct forge_op *op)
{
	if (!op->key.data && op->key.bytes)
		return "the key has a length, but its data is NULL";
	if (!op->item.value.data && op->item.value.bytes)
		return "the value has a length, but its data is NULL";
	if (!op->buffer && op->buffer_bytes)
		return "the buffer has a length, but is NULL";
	if ((unsigned)op->verb > FORGE_FLUSH)
		return "the verb is none of enum forge_verb";
	return "the expiry is none that forge_expire_never(), _after_ms() or _at_unix_ms() made";
}

/* Of key and value together, or SIZE_MAX. */
static size_t item_bytes(const struct forge_op *op)
{
	size_t bytes;

	return __builtin_add_overflow(op->key.bytes, op->item.value.bytes, &bytes) ? SIZE_MAX
										   : bytes;
}

/* Of several memory nodes the one that the key is on is named. */
static int lost_node(const struct forge_session *s, const struct forge_op *op)
{
	const char *pool = s->client->pool_name, *owner = NULL;
	struct client *c = s->client->client;
	struct cache_key key = {.data = op->key.data, .bytes = (uint32_t)op->key.bytes};

	if (key.bytes && client_member_count(c) > 1)
		owner = client_owner_name(c, key);
	return lib_fail(FORGE_E_NODE, "pool %s%s%s: %s; it is being reached again: try later", pool,
			owner ? ", key on " : "", owner ? owner : "",
			status_sentence(FORGE_E_NODE));
}

int lib_fail_op(const struct forge_session *s, const struct forge_op *op)
{
	const char *pool = s->client->pool_name;
	int status = op->status;

	switch (status) {
	case FORGE_E_INVAL:
		return lib_fail(status, "%s", invalid_argument(op));
	case FORGE_E_KEY_LONG:
		return lib_fail(status, "the key has %zu bytes, the limit is %zu", op->key.bytes,
				s->client->limits.key_bytes);
	case FORGE_E_VALUE_LARGE:
		return lib_fail(
		    status,
		    "the item of %zu bytes is too large for pool %s, which takes values of "
		    "%zu: store less, or use memory nodes made with a larger --value-max",
		    item_bytes(op), pool, s->client->limits.value_bytes);
	case FORGE_E_BUFFER_SMALL:
		return lib_fail(status, "the value has %zu bytes, the buffer %zu", op->found.bytes,
				op->buffer_bytes);
	case FORGE_E_NO_SPACE:
		return lib_fail(status,
				"pool %s: every chunk is in use by compute nodes: use fewer "
				"sessions or a larger pool, or add a memory node ('forge spread "
				"--set')",
				pool);
	case FORGE_E_NODE:
		return lost_node(s, op);
	case FORGE_E_SPREAD:
		return lib_fail(status,
				"pool %s: its memory nodes are being changed for more than a "
				"second, or it was taken into another cache: look with 'forge "
				"spread', repeat a change that was cut off, and try again",
				pool);
	case FORGE_E_DEADLINE:
		return lib_fail(status, "pool %s: the operation's time was up before it was done",
				pool);
	default:
		if (status < 0)
			lib_fail(status, "pool %s: %s", pool, status_sentence(status));
		return status;
	}
}

int lib_check_session(const struct forge_session *s)
{
	if (unlikely(!s))
		return lib_fail(FORGE_E_INVAL, "the session is NULL");
	if (unlikely(!s->session))
		return lib_fail(FORGE_E_INVAL, "the session is closed");
	if (unlikely(client_is_forked(s->client->client)))
		return lib_fail(FORGE_E_FORKED,
				"this process is a child of the one that opened the session: open "
				"a client of its own with forge_open()");
	return 0;
}
