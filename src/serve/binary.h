/*
 * binary.h: the numbers of memcached's binary protocol.
 *
 * A request and a response are a header of 24 bytes in network order, extras, key and value:
 *
 *	0 magic  1 opcode  2-3 key bytes  4 extras bytes  5 data type  6-7 status (response)
 *	8-11 bytes behind the header  12-15 opaque  16-23 cas id
 *
 * Pure constants, for the parser and the executor.
 */
#ifndef FORGE_SERVE_BINARY_H
#define FORGE_SERVE_BINARY_H

#define BINARY_HEADER_BYTES   24u
#define BINARY_MAGIC_REQUEST  0x80u
#define BINARY_MAGIC_RESPONSE 0x81u

/*
 * OPCODE(name, value, extras, other_extras, key, body): the extras have one of two lengths,
 * exactly; key and value: 'n' none, 'y' must, 'm' may.
 */
#define BINARY_OPCODES(OPCODE)                     \
	OPCODE(GET, 0x00, 0, 0, 'y', 'n')          \
	OPCODE(SET, 0x01, 8, 8, 'y', 'm')          \
	OPCODE(ADD, 0x02, 8, 8, 'y', 'm')          \
	OPCODE(REPLACE, 0x03, 8, 8, 'y', 'm')      \
	OPCODE(DELETE, 0x04, 0, 0, 'y', 'n')       \
	OPCODE(INCREMENT, 0x05, 20, 20, 'y', 'n')  \
	OPCODE(DECREMENT, 0x06, 20, 20, 'y', 'n')  \
	OPCODE(QUIT, 0x07, 0, 0, 'n', 'n')         \
	OPCODE(FLUSH, 0x08, 0, 4, 'n', 'n')        \
	OPCODE(GETQ, 0x09, 0, 0, 'y', 'n')         \
	OPCODE(NOOP, 0x0a, 0, 0, 'n', 'n')         \
	OPCODE(VERSION, 0x0b, 0, 0, 'n', 'n')      \
	OPCODE(GETK, 0x0c, 0, 0, 'y', 'n')         \
	OPCODE(GETKQ, 0x0d, 0, 0, 'y', 'n')        \
	OPCODE(APPEND, 0x0e, 0, 0, 'y', 'm')       \
	OPCODE(PREPEND, 0x0f, 0, 0, 'y', 'm')      \
	OPCODE(STAT, 0x10, 0, 0, 'm', 'n')         \
	OPCODE(SETQ, 0x11, 8, 8, 'y', 'm')         \
	OPCODE(ADDQ, 0x12, 8, 8, 'y', 'm')         \
	OPCODE(REPLACEQ, 0x13, 8, 8, 'y', 'm')     \
	OPCODE(DELETEQ, 0x14, 0, 0, 'y', 'n')      \
	OPCODE(INCREMENTQ, 0x15, 20, 20, 'y', 'n') \
	OPCODE(DECREMENTQ, 0x16, 20, 20, 'y', 'n') \
	OPCODE(QUITQ, 0x17, 0, 0, 'n', 'n')        \
	OPCODE(FLUSHQ, 0x18, 0, 4, 'n', 'n')       \
	OPCODE(APPENDQ, 0x19, 0, 0, 'y', 'm')      \
	OPCODE(PREPENDQ, 0x1a, 0, 0, 'y', 'm')     \
	OPCODE(VERBOSITY, 0x1b, 4, 4, 'n', 'n')    \
	OPCODE(TOUCH, 0x1c, 4, 4, 'y', 'n')        \
	OPCODE(GAT, 0x1d, 4, 4, 'y', 'n')          \
	OPCODE(GATQ, 0x1e, 4, 4, 'y', 'n')         \
	OPCODE(SASL_LIST, 0x20, 0, 0, 'n', 'n')    \
	OPCODE(SASL_AUTH, 0x21, 0, 0, 'y', 'm')    \
	OPCODE(SASL_STEP, 0x22, 0, 0, 'y', 'm')    \
	OPCODE(GATK, 0x23, 4, 4, 'y', 'n')         \
	OPCODE(GATKQ, 0x24, 4, 4, 'y', 'n')

enum binary_opcode {
#define OPCODE(name, value, extras, other_extras, key, body) BINARY_##name = value,
	BINARY_OPCODES(OPCODE)
#undef OPCODE
};

enum binary_status {
	BINARY_OK = 0x00,
	BINARY_NOT_FOUND = 0x01,
	BINARY_EXISTS = 0x02,
	BINARY_TOO_LARGE = 0x03,
	BINARY_INVALID = 0x04,
	BINARY_NOT_STORED = 0x05,
	BINARY_NOT_NUMBER = 0x06,
	BINARY_AUTH_ERROR = 0x20,
	BINARY_AUTH_CONTINUE = 0x21,
	BINARY_UNKNOWN_COMMAND = 0x81,
	BINARY_OUT_OF_MEMORY = 0x82,
};

/* An arithmetic request with that expiration does not create the key. */
#define BINARY_DO_NOT_CREATE 0xffffffffu

#endif
