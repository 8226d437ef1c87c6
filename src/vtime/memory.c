/*
 * memory.c: the four verbs on plain memory.
 *
 * One thread runs the whole world, so a verb is one piece and needs no atomics; what real memory
 * may show of a WRITE under way is the scheduler's business (src/sim).
 */
#include <string.h>

#include "vtime/inside.h"

int vt_memory_run(struct vt_node *node, struct fab_op *op)
{
	uint64_t word;
	uint8_t *at;

	if (unlikely(op->len > node->bytes || op->raddr > node->bytes - op->len ||
		     (op->code >= FAB_CAS && (op->raddr & 7))))
		return FORGE_E_BOUNDS;
	at = node->memory + op->raddr;
	if (op->code == FAB_READ) {
		memcpy(op->buf, at, op->len);
		return 0;
	}
	if (op->code == FAB_WRITE) {
		memcpy(at, op->buf, op->len);
		return 0;
	}
	memcpy(&word, at, 8);
	op->old = word;
	if (op->code == FAB_FAA)
		word += op->arg;
	else if (word == op->arg)
		word = op->swap;
	memcpy(at, &word, 8);
	return 0;
}
