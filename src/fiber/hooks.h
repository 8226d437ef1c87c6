/*
 * hooks.h: telling the sanitizers and Valgrind about stacks they did not make.
 *
 * Only for fiber_context.c.  Each group of hooks is empty in a build that does not need it;
 * Valgrind's cost a few instructions outside Valgrind.
 */
#ifndef FORGE_FIBER_HOOKS_H
#define FORGE_FIBER_HOOKS_H

#include <stddef.h>

#include "base/sanitizer.h"

#if ASAN_BUILD
#include <sanitizer/asan_interface.h>
#include <sanitizer/common_interface_defs.h>
#endif
#if TSAN_BUILD
#include <sanitizer/tsan_interface.h>
#endif
#if __has_include(<valgrind/valgrind.h>)
#include <valgrind/valgrind.h>
#endif

/* The stack one leaves or enters, as AddressSanitizer sees it. */
struct asan_stack {
	const void *low;
	size_t bytes;
	void *fake; /* while it is left: its frames for use-after-return detection */
};

/* Call before a switch from one stack to another; from NULL: it is never entered again. */
static inline void asan_before_switch(struct asan_stack *from, const struct asan_stack *to)
{
#if ASAN_BUILD
	__sanitizer_start_switch_fiber(from ? &from->fake : NULL, to->low, to->bytes);
#endif
}

/* Call first thing on the stack entered; other learns the bounds of the stack left. */
static inline void asan_after_switch(struct asan_stack *entered, struct asan_stack *other)
{
#if ASAN_BUILD
	__sanitizer_finish_switch_fiber(entered->fake, other ? &other->low : NULL,
					other ? &other->bytes : NULL);
	entered->fake = NULL;
#endif
}

/* Frames that were dropped left poisoned red zones behind. */
static inline void asan_stack_clean(const void *low, size_t bytes)
{
#if ASAN_BUILD
	__asan_unpoison_memory_region(low, bytes);
#endif
}

static inline void *tsan_fiber_create(void)
{
#if TSAN_BUILD
	return __tsan_create_fiber(0);
#else
	return NULL;
#endif
}

static inline void tsan_fiber_destroy(void *fiber)
{
#if TSAN_BUILD
	__tsan_destroy_fiber(fiber);
#endif
}

static inline void *tsan_fiber_current(void)
{
#if TSAN_BUILD
	return __tsan_get_current_fiber();
#else
	return NULL;
#endif
}

static inline void tsan_fiber_switch(void *fiber)
{
#if TSAN_BUILD
	__tsan_switch_to_fiber(fiber, 0);
#endif
}

static inline unsigned valgrind_stack_register(void *low, void *high)
{
#ifdef VALGRIND_STACK_REGISTER
	return VALGRIND_STACK_REGISTER(low, high);
#else
	return 0;
#endif
}

static inline void valgrind_stack_deregister(unsigned id)
{
#ifdef VALGRIND_STACK_DEREGISTER
	VALGRIND_STACK_DEREGISTER(id);
#endif
}

#endif
