/*
 * memory.h: the four verbs on directly addressable memory, shared by the loop and shm providers.
 *
 * Who may call: providers of this folder whose export is mapped into the process.  The memory is
 * borrowed: whoever opened the connection keeps it mapped until close.  Each connection belongs
 * to one thread; any number of connections, threads and processes may use one memory.
 */
#ifndef FORGE_FABRIC_MEMORY_H
#define FORGE_FABRIC_MEMORY_H

#include "fabric/fabric.h"

/* A connection to mapped memory; the first member of the provider's own connection. */
struct memory_fab {
	struct fab_base base;
	unsigned char *mem;
	uint64_t bytes;
	int pairs; /* this processor moves two aligned words at once */
};

/*
 * Fill in m for the export [mem, mem + bytes), which the caller keeps valid.
 * ASSUMPTIONS: mem is 8-aligned, bytes is a multiple of 8.
 */
void memory_init(struct memory_fab *m, const struct fab_provider *provider, void *mem,
		 uint64_t bytes);

/* The provider's post, which completes every op, and its empty reg, kick and poll. */
void memory_post(struct fab *f, struct fab_op *ops, unsigned n);
/* A post of one READ, which is in bounds. */
void memory_read(const struct memory_fab *m, uint64_t raddr, void *to, uint32_t len);
int memory_reg(struct fab *f, void *buf, size_t bytes);
void memory_kick(struct fab *f);
void memory_poll(struct fab *f);

#endif
