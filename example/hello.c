/*
 * hello.c: store a value in a FORGE pool, find it again, count, and let something expire.
 *
 *	cc hello.c $(pkg-config --cflags --libs forge) -o hello
 *	forge node --size 64M		(in a terminal of its own; wait until it says "ready")
 *	./hello [POOL]
 */
#include <forge/forge.h>

#include <stdio.h>
#include <stdlib.h>

/* Errors are negative, outcomes such as FORGE_MISS are not. */
static int check(int status, const char *what)
{
	if (status < 0) {
		fprintf(stderr, "%s: %s (%s)\n", what, forge_detail(), forge_status_name(status));
		exit(1);
	}
	return status;
}

int main(int argc, char **argv)
{
	struct forge_client *client;
	struct forge_session *session;
	struct forge_value value;
	struct forge_bytes sky = forge_text("sky");
	struct forge_item blue = {.value = forge_text("blue"),
				  .expiry = forge_expire_after_ms(60 * 1000)};

	check(forge_open(argc > 1 ? argv[1] : "shm:/forge", NULL, &client), "open");
	check(forge_session_open(client, &session), "session");

	check(forge_set(session, sky, &blue), "set");
	if (check(forge_get(session, sky, &value), "get") == FORGE_MISS)
		printf("gone already: it is a cache\n");
	else
		printf("sky: %.*s\n", (int)value.bytes, (const char *)value.data);

	check(forge_delete(session, sky), "delete");
	printf("then: %s\n", forge_status_text(check(forge_get(session, sky, &value), "get")));

	forge_session_close(session);
	check(forge_close(client), "close");
	return 0;
}
