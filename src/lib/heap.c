/* heap.c: the allocator that a program has set, or malloc(). */
#include "lib/heap.h"

#include <stdint.h>
#include <string.h>

#include "lib/lib.h"

void *__real_malloc(size_t bytes);
void *__real_calloc(size_t count, size_t bytes);
void *__real_realloc(void *memory, size_t bytes);
void *__real_aligned_alloc(size_t alignment, size_t bytes);
void __real_free(void *memory);

static struct forge_allocator own;

int forge_set_allocator(const struct forge_allocator *allocator)
{
	if (allocator && !(allocator->allocate && allocator->resize && allocator->release))
		return lib_fail(FORGE_E_INVAL, "the allocator lacks one of its three functions");
	own = allocator ? *allocator : (struct forge_allocator){0};
	return 0;
}

void *__wrap_malloc(size_t bytes)
{
	return own.allocate ? own.allocate(own.context, _Alignof(max_align_t), bytes)
			    : __real_malloc(bytes);
}

void *__wrap_calloc(size_t count, size_t bytes)
{
	if (!own.allocate)
		return __real_calloc(count, bytes);
	if (bytes && count > SIZE_MAX / bytes)
		return NULL;
	void *memory = own.allocate(own.context, _Alignof(max_align_t), count * bytes);

	return memory ? memset(memory, 0, count * bytes) : NULL;
}

void *__wrap_realloc(void *memory, size_t bytes)
{
	if (!own.allocate)
		return __real_realloc(memory, bytes);
	return memory ? own.resize(own.context, memory, bytes) : __wrap_malloc(bytes);
}

void *__wrap_aligned_alloc(size_t alignment, size_t bytes)
{
	return own.allocate ? own.allocate(own.context, alignment, bytes)
			    : __real_aligned_alloc(alignment, bytes);
}

void __wrap_free(void *memory)
{
	if (!own.allocate)
		__real_free(memory);
	else if (memory)
		own.release(own.context, memory);
}

char *__wrap_strdup(const char *text)
{
	size_t bytes = strlen(text) + 1;
	char *copy = __wrap_malloc(bytes);

	return copy ? memcpy(copy, text, bytes) : NULL;
}
