/*
 * fiber_context.c: fibers over the C entry points of Boost.Context.
 *
 * A context is a stack pointer with the saved registers below it.  jump_fcontext() suspends the
 * caller and returns, on the other side, the context that was suspended, so resumer and fiber
 * exchange contexts at each switch: f->context is the fiber's while it is suspended, f->resumer
 * the other one while it runs.
 */
#include "fiber/fiber.h"

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
	size_t stack_bytes;
	struct asan_stack asan, asan_resumer;
	void *tsan, *tsan_resumer;
	unsigned valgrind_id;
};

/* Also in a shared library no call is needed to find it: 8 bytes of the space kept for that. */
static _Thread_local struct fiber *current __attribute__((tls_model("initial-exec")));

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

struct fiber *fiber_create(fiber_fn fn, void *argument, size_t stack_bytes)
{
	struct fiber *f = calloc(1, sizeof(*f));
	size_t guard_bytes = page_bytes();
	unsigned char *map;

	if (!f)
		return NULL;
	if (stack_bytes == 0)
		stack_bytes = FIBER_STACK_BYTES_DEFAULT;
	f->stack_bytes = round_up_u64(stack_bytes, guard_bytes);
	map = mmap(NULL, guard_bytes + f->stack_bytes, PROT_READ | PROT_WRITE,
		   MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE | MAP_STACK, -1, 0);
	if (map == MAP_FAILED) {
		free(f);
		return NULL;
	}
	if (mprotect(map, guard_bytes, PROT_NONE) != 0) {
		munmap(map, guard_bytes + f->stack_bytes);
		free(f);
		return NULL;
	}
	f->low = map + guard_bytes;
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
	size_t guard_bytes = page_bytes();

	if (!f)
		return;
	drop(f);
	valgrind_stack_deregister(f->valgrind_id);
	munmap(f->low - guard_bytes, guard_bytes + f->stack_bytes);
	free(f);
}
