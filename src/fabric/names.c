/* names.c: the words for the enums of fabric.h. */
#include "fabric/names.h"

#include "base/compiler.h"

const char *fab_code_name(unsigned code)
{
	static const char *const names[] = {
	    [FAB_READ] = "READ", [FAB_WRITE] = "WRITE", [FAB_CAS] = "CAS", [FAB_FAA] = "FAA"};

	static_assert(ARRAY_COUNT(names) == FAB_CODES, "each code has a name");
	return code < FAB_CODES ? names[code] : "?";
}

const char *fab_purpose_name(unsigned purpose)
{
	static const char *const names[] = {
	    [FAB_INDEX] = "index",	     [FAB_DATA] = "data",
	    [FAB_HOTNESS] = "hotness",	     [FAB_EVICTION] = "eviction",
	    [FAB_COMPACTION] = "compaction", [FAB_SPACE] = "space",
	    [FAB_CONTROL] = "control"};

	static_assert(ARRAY_COUNT(names) == FAB_PURPOSES, "each purpose has a name");
	return purpose < FAB_PURPOSES ? names[purpose] : "?";
}
