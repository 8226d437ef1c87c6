/*
 * names.h: the words for the enums of fabric.h, in messages, traces and tables.
 *
 * Everyone above may call, on any thread.  The strings are static.
 */
#ifndef FORGE_FABRIC_NAMES_H
#define FORGE_FABRIC_NAMES_H

#include "fabric/fabric.h"

/* "READ", "WRITE", "CAS", "FAA"; "?" for anything else. */
const char *fab_code_name(unsigned code);

/* "index", "data", "hotness", "eviction", "space", "control"; "?" for anything else. */
const char *fab_purpose_name(unsigned purpose);

#endif
