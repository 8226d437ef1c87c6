/*
 * fiber_context.c: fibers over the C entry points of Boost.Context.
 *
 * A context is a stack pointer with the saved registers below it.  jump_fcontext() suspends the
 * caller and returns, on the other side, the context that was suspended, so resumer and fiber
 * exchange contexts at each switch: f->context is the fiber's while it is suspended, f->resumer
 * the other one while it runs.
 */
#include "fiber/fiber.h"

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <unistd.h>

#include "base/compiler.h"
#include "fiber/hooks.h"

/* The ABI of boost/context/detail/fcontext.hpp, 1.61 and later, which has no C header. */
typedef void *fcontext_t;
struct fcontext_transfer {
	fcontext_t context; /* who jumped here */
	void *data;
};
struct fcontext_transfer jump_fcontext(fcontext_t to, void *data);
fcontext_t make_fcontext(void *stack_top, size_t stack_bytes,
			 void (*entry)(struct fcontext_transfer));

enum fiber_state { FIBER_SUSPENDED, FIBER_RUNNING, FIBER_DONE };

struct fiber {
	fiber_fn fn;
	void *argument;
	enum fiber_state state;
	fcontext_t context;
	fcontext_t resumer;
	struct fiber *resumer_fiber; /* NULL: a plain thread */
	unsigned char *low;	     /* of the stack, above its guard page */
	size_t stack_bytes, guard_bytes;
	struct asan_stack asan, asan_resumer;
	void *tsan, *tsan_resumer;
	unsigned valgrind_id;
};

/* Also in a shared library no call is needed to find it: 8 bytes of the space kept for that. */
static _Thread_local struct fiber *current __attribute__((tls_model("initial-exec")));

/* Of all threads; each change is by itself, and orders nothing. */
static atomic_uint guarded_count;

static size_t page_bytes(void)
{
	return (size_t)sysconf(_SC_PAGESIZE);
}

/* Back to the resumer; asan_from is NULL when the fiber never runs again. */
static void leave(struct fiber *f, struct asan_stack *asan_from)
{
	struct fcontext_transfer from;

	current = f->resumer_fiber;
	asan_before_switch(asan_from, &f->asan_resumer);
	tsan_fiber_switch(f->tsan_resumer);
	from = jump_fcontext(f->resumer, f);
	f->resumer = from.context;
	asan_after_switch(&f->asan, &f->asan_resumer);
}

static void fiber_entry(struct fcontext_transfer from)
{
	struct fiber *f = from.data;

	f->resumer = from.context;
	asan_after_switch(&f->asan, &f->asan_resumer);
	f->fn(f->argument);
	f->state = FIBER_DONE;
	leave(f, NULL);
	assert(!"a finished fiber was resumed");
	abort();
}

static void prepare(struct fiber *f, fiber_fn fn, void *argument)
{
	f->fn = fn;
	f->argument = argument;
	f->state = FIBER_SUSPENDED;
	f->context = make_fcontext(f->low + f->stack_bytes, f->stack_bytes, fiber_entry);
	f->asan = (struct asan_stack){.low = f->low, .bytes = f->stack_bytes};
	f->tsan = tsan_fiber_create();
}

static void drop(struct fiber *f)
{
	assert(f->state != FIBER_RUNNING);
	tsan_fiber_destroy(f->tsan);
	asan_stack_clean(f->low, f->stack_bytes);
}

/* How large a guard may be: a page, or none when there are so many. */
static size_t take_guard(void)
{
	if (atomic_fetch_add_explicit(&guarded_count, 1, memory_order_relaxed) < FIBER_GUARDED_MAX)
		return page_bytes();
	atomic_fetch_sub_explicit(&guarded_count, 1, memory_order_relaxed);
	return 0;
}

static void unmap_stack(struct fiber *f)
{
	munmap(f->low - f->guard_bytes, f->guard_bytes + f->stack_bytes);
	if (f->guard_bytes)
		atomic_fetch_sub_explicit(&guarded_count, 1, memory_order_relaxed);
}

static bool map_stack(struct fiber *f, size_t stack_bytes)
{
	f->stack_bytes = round_up_u64(stack_bytes, page_bytes());
	f->guard_bytes = take_guard();
	unsigned char *map = mmap(NULL, f->guard_bytes + f->stack_bytes, PROT_READ | PROT_WRITE,
				  MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE | MAP_STACK, -1, 0);

	if (map == MAP_FAILED) {
		if (f->guard_bytes)
			atomic_fetch_sub_explicit(&guarded_count, 1, memory_order_relaxed);
		return false;
	}
	f->low = map + f->guard_bytes;
	if (f->guard_bytes && mprotect(map, f->guard_bytes, PROT_NONE) != 0) {
		unmap_stack(f);
		return false;
	}
	/* Many in one mapping would do for huge pages, of which each stack uses the top alone. */
	if (!f->guard_bytes)
		madvise(map, f->stack_bytes, MADV_NOHUGEPAGE); /* a hint, for memory */
	return true;
}

struct fiber *fiber_create(fiber_fn fn, void *argument, size_t stack_bytes)
{
	struct fiber *f = calloc(1, sizeof(*f));

	if (!f)
		return NULL;
	if (!map_stack(f, stack_bytes ? stack_bytes : FIBER_STACK_BYTES_DEFAULT)) {
		free(f);
		return NULL;
	}
	f->valgrind_id = valgrind_stack_register(f->low, f->low + f->stack_bytes);
	prepare(f, fn, argument);
	return f;
}

void fiber_reset(struct fiber *f, fiber_fn fn, void *argument)
{
	drop(f);
	prepare(f, fn, argument);
}

void fiber_resume(struct fiber *f)
{
	struct asan_stack here = {0};
	struct fcontext_transfer from;

	assert(f->state == FIBER_SUSPENDED);
	f->state = FIBER_RUNNING;
	f->resumer_fiber = current;
	f->tsan_resumer = tsan_fiber_current();
	current = f;
	asan_before_switch(&here, &f->asan);
	tsan_fiber_switch(f->tsan);
	from = jump_fcontext(f->context, f);
	asan_after_switch(&here, NULL);
	f->context = from.context;
}

void fiber_yield(void)
{
	struct fiber *f = current;

	assert(f && f->state == FIBER_RUNNING);
	f->state = FIBER_SUSPENDED;
	leave(f, &f->asan);
}

int fiber_done(const struct fiber *f)
{
	return f->state == FIBER_DONE;
}

struct fiber *fiber_current(void)
{
	return current;
}

void fiber_destroy(struct fiber *f)
{
	if (!f)
		return;
	drop(f);
	valgrind_stack_deregister(f->valgrind_id);
	unmap_stack(f);
	free(f);
}
