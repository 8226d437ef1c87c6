/*
 * reach.c: a thread for each node behind a socket, for as long as it is being reached.
 *
 * Who owns what.  A try is its thread's from pthread_create() to pthread_join(), the node and its
 * attachment included; nobody else touches either in between, but to fire its cancel, which is open
 * before the first thread starts and until the last has ended.  After that all is the caller's, and
 * no attachment knows its cancel any more.  So whoever fails for good fires those of the others and
 * goes: none of them is cut off in its middle, each ends by itself, drops what it had, and is
 * waited for.
 *
 * Memory of this host is mapped on the caller's thread, in turn: nothing there waits for anybody.
 * So is what no thread can be had for, which then waits in turn as well.
 */
#include "client/reach.h"

#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>

#include "base/cancel.h"
#include "client/name.h"

struct tries;

struct
try {
	struct tries *of;
	struct reach *node;
	struct cancel cancel;
	pthread_t thread;
	int is_started;
};

struct tries {
	const struct client_options *options;
	struct try *all;
	unsigned count;
};

static int fail(struct reach *node, int status, const char *why)
{
	snprintf(node->why, sizeof(node->why), "%s: %s", node->name, why);
	return node->status = status;
}

static void give_others_up(const struct try *t)
{
	for (unsigned i = 0; i < t->of->count; i++)
		if (&t->of->all[i] != t)
			cancel_fire(&t->of->all[i].cancel);
}

static void *try_main(void *argument)
{
	struct try *t = argument;
	struct reach *n = t->node;

	n->status = attachment_open(n->name, t->of->options, &t->cancel, &n->attachment, n->why,
				    sizeof(n->why));
	if (n->status && !link_is_away(n->status))
		give_others_up(t);
	return NULL;
}

/* Signals are the business of the program's own threads. */
static void start(struct try *t)
{
	sigset_t all, before;

	sigfillset(&all);
	pthread_sigmask(SIG_SETMASK, &all, &before);
	t->is_started = !pthread_create(&t->thread, NULL, try_main, t);
	pthread_sigmask(SIG_SETMASK, &before, NULL);
}

static void run(struct tries *tries)
{
	for (unsigned i = 0; i < tries->count; i++)
		if (name_is_of_socket(tries->all[i].node->name))
			start(&tries->all[i]);
	for (unsigned i = 0; i < tries->count; i++) {
		struct try *t = &tries->all[i];

		if (t->is_started)
			continue;
		if (cancel_is_fired(&t->cancel))
			fail(t->node, FORGE_E_NODE, "reaching it was given up");
		else
			try_main(t);
	}
	for (unsigned i = 0; i < tries->count; i++)
		if (tries->all[i].is_started)
			pthread_join(tries->all[i].thread, NULL);
}

static void reach_together(struct tries *tries, struct reach *nodes, unsigned count)
{
	int status = FORGE_OK;

	for (; tries->count < count; tries->count++) {
		struct try *t = &tries->all[tries->count];

		*t = (struct try){.of = tries, .node = &nodes[tries->count]};
		status = cancel_open(&t->cancel);
		if (status)
			break;
	}
	if (status)
		fail(&nodes[tries->count], status, attachment_why(status));
	else
		run(tries);
	for (unsigned i = 0; i < tries->count; i++) {
		if (nodes[i].attachment)
			link_keep(nodes[i].attachment->link);
		cancel_close(&tries->all[i].cancel);
	}
}

void reach_all(const struct client_options *options, struct reach *nodes, unsigned count)
{
	struct tries tries = {.options = options};

	for (unsigned i = 0; i < count; i++)
		fail(&nodes[i], FORGE_E_NODE, "it was not tried");
	if (count == 1) {
		nodes[0].status =
		    attachment_open(nodes[0].name, options, NULL, &nodes[0].attachment,
				    nodes[0].why, sizeof(nodes[0].why));
		return;
	}
	tries.all = calloc(count, sizeof(*tries.all));
	if (tries.all)
		reach_together(&tries, nodes, count);
	else
		fail(&nodes[0], FORGE_E_NO_MEMORY, status_sentence(FORGE_E_NO_MEMORY));
	free(tries.all);
}
