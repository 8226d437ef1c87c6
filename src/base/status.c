/* status.c: strings of the status table. */
#include "base/status.h"

const char *status_sentence(int status)
{
	switch (status) {
#define STATUS(name, value, sentence) \
	case value:                   \
		return sentence;
#include "base/status.def"
#undef STATUS
	default:
		return "unknown status";
	}
}

const char *status_name(int status)
{
	switch (status) {
#define STATUS(name, value, sentence) \
	case value:                   \
		return #name;
#include "base/status.def"
#undef STATUS
	default:
		return "FORGE_UNKNOWN";
	}
}
