/*
 * many.c: many operations in flight from one thread.
 *
 *	cc many.c $(pkg-config --cflags --libs forge) -o many
 *	./many [POOL [COUNT]]
 *
 * Stores COUNT keys (1000) by submitting them and finds them again the same way: while one
 *operation waits for the network, the others go on.
 */
#include <forge/forge.h>

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define IN_FLIGHT 32

struct slot {
	struct forge_op op;
	char key[24], value[24];
};

static void die(const char *what)
{
	fprintf(stderr, "%s: %s\n", what, forge_detail());
	exit(1);
}

/* The next operation in a slot whose last one is done. */
static void begin(struct forge_session *session, struct slot *slot, enum forge_verb verb,
		  long number)
{
	snprintf(slot->key, sizeof(slot->key), "key-%ld", number);
	snprintf(slot->value, sizeof(slot->value), "value-%ld", number);
	slot->op = (struct forge_op){
	    .verb = verb,
	    .key = forge_text(slot->key),
	    .item = {.value = forge_text(slot->value)},
	    .user = slot,
	};
	if (forge_submit(session, &slot->op, 1))
		die("submit");
}

/* Was it done, and if it was to find something, is it what we stored? */
static int is_right(const struct slot *slot)
{
	const struct forge_op *op = &slot->op;

	if (op->status < 0)
		fprintf(stderr, "%s: %s\n", slot->key, forge_status_text(op->status));
	return op->status == FORGE_OK &&
	       (op->verb != FORGE_GET ||
		(op->found.bytes == strlen(slot->value) &&
		 memcmp(op->found.data, slot->value, op->found.bytes) == 0));
}

/* Do one operation on each of count keys; how many were right. */
static long do_all(struct forge_session *session, enum forge_verb verb, long count)
{
	static struct slot slots[IN_FLIGHT];
	long begun = 0, right = 0;

	for (; begun < count && begun < IN_FLIGHT; begun++)
		begin(session, &slots[begun], verb, begun);
	while (forge_pending(session) > 0) {
		struct forge_op *done[IN_FLIGHT];
		int n = forge_poll(session, done, IN_FLIGHT, FORGE_WAIT_FOREVER);

		if (n < 0)
			die("poll");
		for (int i = 0; i < n; i++) {
			struct slot *slot = done[i]->user;

			right += is_right(slot);
			if (begun < count)
				begin(session, slot, verb, begun++);
		}
	}
	return right;
}

int main(int argc, char **argv)
{
	const char *pool = argc > 1 ? argv[1] : "shm:/forge";
	long count = argc > 2 ? atol(argv[2]) : 1000;
	struct forge_client *client;
	struct forge_session *session;

	if (forge_open(pool, NULL, &client) || forge_session_open(client, &session))
		die(pool);
	long stored = do_all(session, FORGE_SET, count);
	long found = do_all(session, FORGE_GET, count);

	printf("%ld stored, %ld found\n", stored, found);
	forge_session_close(session);
	return forge_close(client) || stored != count;
}
