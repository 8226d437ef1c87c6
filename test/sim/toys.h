/*
 * toys.h: small protocols, right and wrong on purpose, to try the scheduler on.
 *
 * Each is a world of 2 or 3 CNs with one worker each on a few words of memory.  toy_build() makes
 * the simulation of one by name, as a replay line names it; FORGE_E_INVAL if there is none.
 */
#ifndef FORGE_TEST_SIM_TOYS_H
#define FORGE_TEST_SIM_TOYS_H

#include "sim/sched.h"

/*
 * counter-plain   2 CNs add 1 twice each by READ and WRITE: loses updates
 * counter-cas     2 CNs add 1 by READ and CAS until it succeeds: right
 * counter-cas3    the same with 3 CNs
 * counter-faa     2 CNs add 1 twice each by FAA: right
 * apart           2 CNs, 3 FAAs each, on words of their own: nothing to explore
 * store-one       a key in one slot, set, got and deleted by CAS: right
 * store-dup       the same in two slots, each CN preferring its own: an old value comes back
 * store-rule      two slots, but after its insert a Set looks again: the lowest slot stays: right
 * store-rule3     the same with 3 CNs
 * value-plain     a value of four words, one WRITE against one READ: torn unless verbs are whole
 * value-checked   the same with its checksum verified by the reader, who else misses: right
 * pair-plain      two words that must be equal, written one after the other: not if killed
 * pair-cas        two halves of a word, written by one CAS: right
 * wait-flag       one CN pauses until the other has set a flag; values go back and forth: right
 * wait-never      both CNs wait for a flag nobody sets, up to a bound
 * detached        a value is handed over by a flag, the value by a detached WRITE before it: right
 * detached-late   the same with the WRITE behind the flag: the value may be missing
 * spin            does not end
 */
int toy_build(const char *name, struct sim **out);

#endif
