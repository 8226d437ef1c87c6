/*
 * hosts.h: the host that a process of a test lives on, where a driver made several.
 *
 * A host is a network namespace with a name, as `ip netns add` makes it (test/system/network.py).
 * Called by a child right after fork(), on its only thread; needs root.
 */
#ifndef FORGE_TEST_MT_HOSTS_H
#define FORGE_TEST_MT_HOSTS_H

/*
 * If the environment has the variable, a list of names with commas between them, live on the
 * index-th of these from now on, counted round.  Ends the process if that cannot be.
 */
void host_enter(const char *variable, unsigned index);

#endif
