/* at_once.c: a thread for each, for as long as it takes. */
#include "tool/at_once.h"

#include <pthread.h>
#include <signal.h>
#include <stdbool.h>
#include <stdlib.h>

struct task {
	at_once_fn one;
	void *context;
	unsigned i;
	pthread_t thread;
	bool is_started;
};

static void *task_main(void *argument)
{
	const struct task *t = argument;

	t->one(t->context, t->i);
	return NULL;
}

void at_once(unsigned count, at_once_fn one, void *context)
{
	struct task *tasks = count > 1 ? calloc(count, sizeof(*tasks)) : NULL;
	sigset_t all, before;

	/* Signals are the business of the program's own thread, but for those that a fault raises.
	 */
	sigfillset(&all);
	sigdelset(&all, SIGBUS);
	sigdelset(&all, SIGSEGV);
	pthread_sigmask(SIG_SETMASK, &all, &before);
	for (unsigned i = 0; i < count && tasks; i++) {
		tasks[i] = (struct task){.one = one, .context = context, .i = i};
		tasks[i].is_started = !pthread_create(&tasks[i].thread, NULL, task_main, &tasks[i]);
	}
	pthread_sigmask(SIG_SETMASK, &before, NULL);
	for (unsigned i = 0; i < count; i++)
		if (!tasks || !tasks[i].is_started)
			one(context, i);
	for (unsigned i = 0; i < count && tasks; i++)
		if (tasks[i].is_started)
			pthread_join(tasks[i].thread, NULL);
	free(tasks);
}
