/*
 * memcached_options.h: options of memcached that `forge serve` has not, and why, as doc/serve.md
 * lists them.
 */
#ifndef FORGE_TOOL_MEMCACHED_OPTIONS_H
#define FORGE_TOOL_MEMCACHED_OPTIONS_H

#include "base/opts.h"

static const struct opts_foreign memcached_options[] = {
    {'A', "enable-shutdown", "no client may end the server: send SIGTERM"},
    {'r', "enable-coredumps", "core files are the shell's: ulimit -c"},
    {'M', "disable-evictions", "a pool always evicts"},
    {'k', "lock-memory", "the memory is the pool's: keep the host from swapping"},
    {'i', "license", "see the file LICENSE"},
    {'f', "slab-growth-factor", "there are no slab classes"},
    {'n', "slab-min-size", "there are no slab classes; --object-bytes is the expected size"},
    {'L', "enable-largepages", "the kernel decides about the pages of shared memory"},
    {'D', NULL, "there are no statistics by prefix"},
    {'R', "max-reqs-per-event", "connections take turns by the bytes that are read"},
    {'C', "disable-cas", "every value has a cas id, at no cost"},
    {'S', "enable-sasl", "--auth-file (-Y) lets in by SASL PLAIN, too"},
    {'X', "disable-dumping", "nothing is dumped by commands; forge keys prints keys"},
    {'W', "disable-watch", "there is no watch command"},
    {'e', "memory-file", "forge node --keep and --pool keep a cache over restarts"},
    {'o', "extended",
     "it tunes slabs, LRU and flash, which are not here; time limits and TLS have options of their "
     "own"},
    {0, "enable-ssl", "it is --tls (-Z) here"},
};

#endif
