/*
 * Insert only if absent, and conditional updates (DESIGN 5), in the world of index.pml: the
 * flows are in conditional.pmh.  Beyond linearizability of what Gets return, NOT_STORED counts
 * as a read of the value it saw, NOT_FOUND as a Delete (that CAS is the eviction), and STORED
 * and NOT_FOUND need a reason why each value acknowledged before is away.
 */
#define CONDITIONAL
#include "index.pml"
