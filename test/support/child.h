/*
 * child.h: running in a process of its own what may end in a failed assertion of the cache.
 *
 * For tests that switch a rule off and look for what breaks.  Called by cmocka tests; what run
 * learns it leaves in memory that the caller shares.
 */
#ifndef FORGE_TEST_SUPPORT_CHILD_H
#define FORGE_TEST_SUPPORT_CHILD_H

#define CHILD_ASSERTED (-1)

/*
 * Call run in a child, which leaves no core and says nothing on stderr, and wait for it.  What run
 * returned, 0 to 255, or CHILD_ASSERTED; any other end of the child fails the test.
 */
int child_run(int (*run)(void *context), void *context);

#endif
