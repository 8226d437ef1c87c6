/* loop.c: verbs on a buffer of this process. */
#include "fabric/loop.h"

#include <stdlib.h>

#include "base/compiler.h"
#include "fabric/memory.h"

struct loop_fab {
	struct memory_fab memory;
	void *owned; /* NULL when the caller gave the buffer */
};

static void loop_close(struct fab *f)
{
	struct loop_fab *l = (struct loop_fab *)f;

	free(l->owned);
	free(l);
}

static const struct fab_provider loop_provider = {
    .name = "loop",
    .close = loop_close,
    .reg = memory_reg,
    .post = memory_post,
    .kick = memory_kick,
    .poll = memory_poll,
};

int loop_open(void *mem, uint64_t bytes, struct fab **out)
{
	struct loop_fab *l;

	if (bytes == 0 || bytes % 8 != 0 || (uintptr_t)mem % 8 != 0)
		return FORGE_E_INVAL;
	l = malloc(sizeof(*l));
	if (!l)
		return FORGE_E_NO_MEMORY;
	l->owned = NULL;
	if (!mem) {
		mem = l->owned = calloc(1, bytes);
		if (!mem) {
			free(l);
			return FORGE_E_NO_MEMORY;
		}
	}
	memory_init(&l->memory, &loop_provider, mem, bytes);
	*out = (struct fab *)l;
	return FORGE_OK;
}

void *loop_base(struct fab *f)
{
	assert(fab_base(f)->provider == &loop_provider);
	return ((struct loop_fab *)f)->memory.mem;
}
