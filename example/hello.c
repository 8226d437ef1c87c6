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

	uint64_t visits = 0;

	check(forge_add(session, forge_text("visits"),
			&(struct forge_item){.value = forge_text("0")}),
	      "add");
	check(forge_incr(session, forge_text("visits"), 1, &visits), "count");
	printf("visits: %llu\n", (unsigned long long)visits);

	struct forge_item soon = {.value = forge_text("soon gone"),
				  .expiry = forge_expire_after_ms(1)};

	check(forge_set(session, sky, &soon), "set");
	while (check(forge_get(session, sky, &value), "get") != FORGE_MISS)
		;
	printf("then: %s\n", forge_status_text(FORGE_MISS));

	forge_session_close(session);
	check(forge_close(client), "close");
	return 0;
}
