/*
 * status.h: the one status table, as an enum and as strings.
 *
 * Everyone may include it.  Functions that can fail return int: 0, a positive outcome, or a
 * negative FORGE_E_ value of status.def.
 */
#ifndef FORGE_BASE_STATUS_H
#define FORGE_BASE_STATUS_H

/* forge/forge.h has the same enum for programs; test/unit/lib_header.c compares the two. */
#ifndef FORGE_STATUS_DEFINED
#define FORGE_STATUS_DEFINED
enum forge_status {
#define STATUS(name, value, sentence) name = value,
#include "base/status.def"
#undef STATUS
};
#endif

/* The sentence of a status, without a full stop; never NULL.  Static memory, any thread. */
const char *status_sentence(int status);

/* The name, e.g. "FORGE_E_NODE"; never NULL.  Static memory, any thread. */
const char *status_name(int status);

#endif
