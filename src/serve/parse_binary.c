/* parse_binary.c: requests of the binary protocol, whose header says how long they are. */
#include <string.h>

#include "base/compiler.h"
#include "serve/binary.h"
#include "serve/parse.h"

static uint64_t big_endian(const char *data, unsigned bytes)
{
	uint64_t n = 0;

	for (unsigned i = 0; i < bytes; i++)
		n = n << 8 | (unsigned char)data[i];
	return n;
}

struct form {
	uint8_t known;
	uint8_t extras_bytes, other_extras_bytes; /* either, and nothing between */
	char key, value;
};

static const struct form forms[] = {
#define OPCODE(name, number, extras, other_extras, key, body) \
	[number] = {1, extras, other_extras, key, body},
    BINARY_OPCODES(OPCODE)
#undef OPCODE
};

static bool is_quiet(uint8_t opcode)
{
	switch (opcode) {
	case BINARY_GETQ:
	case BINARY_GETKQ:
	case BINARY_SETQ:
	case BINARY_ADDQ:
	case BINARY_REPLACEQ:
	case BINARY_DELETEQ:
	case BINARY_INCREMENTQ:
	case BINARY_DECREMENTQ:
	case BINARY_QUITQ:
	case BINARY_FLUSHQ:
	case BINARY_APPENDQ:
	case BINARY_PREPENDQ:
	case BINARY_GATQ:
	case BINARY_GATKQ:
		return true;
	default:
		return false;
	}
}

/* Does a part of that length suit what the opcode takes? */
static bool suits(char wanted, uint32_t bytes)
{
	return wanted == 'm' || (wanted == 'y') == (bytes > 0);
}

/* Extras are numbers, and their place says which; none has a sign, so no time is a past one. */
static void take_extras(struct request *r, const char *extras, uint32_t bytes)
{
	r->exptime = 0;
	switch (bytes) {
	case 4:
		r->exptime = (int64_t)big_endian(extras, 4);
		break;
	case 8:
		r->flags = (uint32_t)big_endian(extras, 4);
		r->exptime = (int64_t)big_endian(extras + 4, 4);
		break;
	case 20:
		r->number = big_endian(extras, 8);
		r->binary.initial = big_endian(extras + 8, 8);
		r->exptime = (int64_t)big_endian(extras + 16, 4);
		break;
	default:
		break;
	}
}

static uint8_t judge(const struct form *f, uint32_t extras_bytes, uint32_t key_bytes,
		     uint32_t value_bytes)
{
	if (!f->known)
		return BINARY_UNKNOWN_COMMAND;
	if ((extras_bytes != f->extras_bytes && extras_bytes != f->other_extras_bytes) ||
	    key_bytes > REQUEST_KEY_BYTES_MAX || !suits(f->key, key_bytes) ||
	    !suits(f->value, value_bytes))
		return BINARY_INVALID;
	return BINARY_OK;
}

enum parse_result parse_binary(struct parser *p, const char *data, size_t bytes, struct request *r,
			       struct parse_step *step)
{
	static const struct form unknown;

	step->need = BINARY_HEADER_BYTES;
	if ((unsigned char)data[0] != BINARY_MAGIC_REQUEST) {
		/* Nobody knows where the next request begins. */
		r->kind = REQUEST_CLOSE;
		r->quiet = false;
		r->error = NULL;
		step->used = bytes;
		return PARSE_REQUEST;
	}
	if (bytes < BINARY_HEADER_BYTES)
		return PARSE_MORE;
	uint8_t opcode = (uint8_t)data[1];
	uint32_t key_bytes = (uint32_t)big_endian(data + 2, 2), extras_bytes = (uint8_t)data[4];
	uint64_t body_bytes = big_endian(data + 8, 4);
	uint64_t head_bytes = (uint64_t)key_bytes + extras_bytes;
	const struct form *f = opcode < ARRAY_COUNT(forms) ? &forms[opcode] : &unknown;

	r->kind = REQUEST_BINARY;
	r->quiet = is_quiet(opcode);
	r->key_bytes = r->value_bytes = 0;
	r->binary = (struct request_binary){
	    .opcode = opcode,
	    .opaque = (uint32_t)big_endian(data + 12, 4),
	    .cas = big_endian(data + 16, 8),
	};
	step->used = BINARY_HEADER_BYTES;
	r->binary.fault = head_bytes > body_bytes ? BINARY_INVALID
						  : judge(f, extras_bytes, key_bytes,
							  (uint32_t)(body_bytes - head_bytes));
	if (!r->binary.fault && body_bytes - head_bytes > p->value_bytes_max)
		r->binary.fault = BINARY_TOO_LARGE;
	if (r->binary.fault == BINARY_TOO_LARGE) {
		/* The key is wanted all the same: its old value must not outlive this one. */
		step->used += head_bytes;
		step->need = step->used;
		if (bytes < step->used) {
			step->used = 0;
			return PARSE_MORE;
		}
		r->key = data + BINARY_HEADER_BYTES + extras_bytes;
		r->key_bytes = key_bytes;
		parse_skip(p, body_bytes - head_bytes);
		return PARSE_REQUEST;
	}
	if (r->binary.fault) {
		parse_skip(p, body_bytes);
		return PARSE_REQUEST;
	}
	if (bytes < BINARY_HEADER_BYTES + body_bytes) {
		step->used = 0;
		step->need = BINARY_HEADER_BYTES + body_bytes;
		return PARSE_MORE;
	}
	const char *extras = data + BINARY_HEADER_BYTES;

	take_extras(r, extras, extras_bytes);
	r->key = extras + extras_bytes;
	r->key_bytes = key_bytes;
	r->value = r->key + key_bytes;
	r->value_bytes = (uint32_t)(body_bytes - head_bytes);
	step->used += body_bytes;
	return PARSE_REQUEST;
}
