/*
 * heap.h: where the library's memory comes from.
 *
 * Every file of the tree calls malloc() and free() as usual; when the library is linked, the
 * linker (--wrap) leads those calls to the functions of heap.c, so that programs can put their own
 * behind them and no layer has to know.  Programs and tests that link the layers themselves have
 * malloc() as it is.
 *
 * A block is always given back to whoever it came from only if nobody changes the allocator while
 * there are any; hence the rule that it is set before any other call.
 */
#ifndef FORGE_LIB_HEAP_H
#define FORGE_LIB_HEAP_H

#include <stddef.h>

void *__wrap_malloc(size_t bytes);
void *__wrap_calloc(size_t count, size_t bytes);
void *__wrap_realloc(void *memory, size_t bytes);
void *__wrap_aligned_alloc(size_t alignment, size_t bytes);
void __wrap_free(void *memory);
char *__wrap_strdup(const char *text);

#endif
