/* rules.c: names of the protocol rules. */
#include "pool/rules.h"

#include <stddef.h>

static const struct {
	const char *name, *sentence;
} rules[] = {
#define RULE(name, sentence) {#name, sentence},
    RULES(RULE)
#undef RULE
};

const char *rule_name(unsigned rule)
{
	return rule < RULE_COUNT ? rules[rule].name : NULL;
}

const char *rule_sentence(unsigned rule)
{
	return rule < RULE_COUNT ? rules[rule].sentence : NULL;
}
