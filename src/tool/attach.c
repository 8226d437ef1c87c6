/* attach.c: attaching for one operation, and what its errors mean to the user. */
#include "tool/attach.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "client/link.h"
#include "client/name.h"
#include "tool/at_once.h"
#include "tool/names.h"

static void hold_signals(sigset_t *before)
{
	sigset_t end;

	sigemptyset(&end);
	sigaddset(&end, SIGINT);
	sigaddset(&end, SIGTERM);
	sigaddset(&end, SIGHUP);
	sigprocmask(SIG_BLOCK, &end, before);
}

/* Does a node serve it?  1; 0 or an error of link_probe(), and then text says what helps. */
static int probe(const char *name, char *text, size_t bytes)
{
	char remedy[512];
	int served = link_probe(name, text, bytes);

	if (served == 0) {
		tool_node_remedy(name, remedy, sizeof(remedy));
		snprintf(text, bytes, "%s has no memory node, it has ended: %s", name, remedy);
	} else if (served == FORGE_E_POOL_ABSENT) {
		tool_absent(name, text, bytes);
	}
	return served;
}

/* A memory node of several, asked. */
struct asked {
	const char *name;
	int served;
	char why[TOOL_WHY_BYTES];
};

static void ask(void *context, unsigned i)
{
	struct asked *a = (struct asked *)context + i;

	a->served = probe(a->name, a->why, sizeof(a->why));
}

/* Does one serve?  1; 0; or the exit status, the error printed, of what is no loss but a mistake.
 */
static int judge(const struct command *c, const struct asked *asked, unsigned count)
{
	int any = 0;

	for (unsigned i = 0; i < count; i++) {
		int served = asked[i].served;

		any |= served > 0;
		/* What would be the same for the others, and is not for them to mend. */
		if (served < 0 && !link_is_away(served))
			return tool_fail(c, "%s", asked[i].why);
	}
	return any;
}

/*
 * Of several nodes one is enough: the cache goes on without the others.  Those in memory of this
 * host are asked first, since they answer at once; those behind sockets all together, and only if
 * none of these is served.  If there is none at all, what helps with the first is said, as when
 * attaching to all of them has failed.
 */
static int check_any_served(const struct command *c, const struct tool_names *names)
{
	struct asked *asked = calloc(names->count, sizeof(*asked));
	unsigned near = 0, n = 0;
	int any = 0;

	if (!asked)
		return tool_fail(c, "%s", status_sentence(FORGE_E_NO_MEMORY));
	for (int of_socket = 0; of_socket < 2; of_socket++) {
		for (unsigned i = 0; i < names->count; i++)
			if ((name_is_of_socket(names->name[i]) != 0) == of_socket)
				asked[n++].name = names->name[i];
		near = of_socket ? near : n;
	}
	for (unsigned i = 0; i < near && !any; i++) {
		ask(asked, i);
		any = judge(c, asked + i, 1);
	}
	if (!any) {
		at_once(n - near, ask, asked + near);
		any = judge(c, asked + near, n - near);
	}
	if (!any)
		any =
		    tool_fail(c, "none of the %u memory nodes can be reached: %s", n, asked[0].why);
	free(asked);
	return any == TOOL_ERROR ? TOOL_ERROR : TOOL_OK;
}

static int check_one_served(const struct command *c, const char *pool_name)
{
	char text[TOOL_WHY_BYTES];

	return probe(pool_name, text, sizeof(text)) > 0 ? 0 : tool_fail(c, "%s", text);
}

/* Behind sockets alone, who can be reached serves. */
static bool is_of_sockets(const struct tool_names *names)
{
	bool all = true;

	for (unsigned i = 0; i < names->count; i++)
		all = all && name_is_of_socket(names->name[i]);
	return all;
}

int tool_check_served(const struct command *c, const char *pool_name, bool attaches)
{
	struct tool_names names;
	int status = tool_names_open(c, pool_name, &names);

	if (status)
		return status;
	if (names.count == 1)
		status = check_one_served(c, pool_name);
	else if (!attaches || !is_of_sockets(&names))
		status = check_any_served(c, &names);
	tool_names_close(&names);
	return status;
}

int tool_attach_error(const struct command *c, const char *pool_name, const char *why)
{
	const char *name = pool_name;

	for (size_t bytes; *name; name += bytes + (name[bytes] == ',')) {
		bytes = name_first_bytes(name);
		if (memmem(why, strlen(why), name, bytes))
			return tool_fail(c, "%s", why);
	}
	return tool_fail(c, "%s: %s", pool_name, why);
}

int tool_attach(const struct command *c, const char *pool_name, struct attached *out)
{
	struct timespec now;
	char text[TOOL_WHY_BYTES];
	int status = tool_check_served(c, pool_name, true);

	if (status)
		return status;
	clock_gettime(CLOCK_REALTIME, &now);
	struct client_options options = {.seed = (uint64_t)now.tv_nsec ^
						 (uint64_t)now.tv_sec << 32 ^ (uint64_t)getpid()};

	memset(out, 0, sizeof(*out));
	hold_signals(&out->signals_before);
	status = client_open(pool_name, &options, &out->client, text, sizeof(text));
	if (!status)
		status = session_open(out->client, &out->session, text, sizeof(text));
	if (!status)
		return 0;
	tool_detach(out);
	return tool_attach_error(c, pool_name, text);
}

void tool_detach(struct attached *a)
{
	session_close(a->session);
	client_close(a->client);
	a->session = NULL;
	a->client = NULL;
	sigprocmask(SIG_SETMASK, &a->signals_before, NULL);
}

int tool_key(const struct command *c, const char *text, struct cache_key *out)
{
	size_t bytes = strlen(text);

	if (bytes == 0)
		return tool_fail(c, "the key is empty: give one of 1 to %u bytes",
				 LAYOUT_KEY_BYTES_MAX);
	if (bytes > LAYOUT_KEY_BYTES_MAX)
		return tool_fail(c, "the key has %zu bytes, the limit is %u: shorten or hash it",
				 bytes, LAYOUT_KEY_BYTES_MAX);
	*out = (struct cache_key){.data = text, .bytes = (uint32_t)bytes};
	return 0;
}

int tool_flow_error(const struct command *c, const char *pool_name, int status)
{
	const char *remedy = "see 'forge stat' and 'forge check'";

	if (status == FORGE_E_AGAIN)
		remedy = "try again";
	else if (status == FORGE_E_NODE && strstr(pool_name, "://"))
		remedy = "start its memory node again, or give a busy one longer (?timeout= "
			 "behind its name)";
	else if (status == FORGE_E_NODE)
		remedy = "start its memory node again with 'forge node'";
	else if (status == FORGE_E_SPREAD)
		remedy = "look with 'forge spread', and repeat a change that was cut off";
	else if (status == FORGE_E_NO_SPACE)
		remedy = "every chunk is in use by a compute node: close some, use a larger pool, "
			 "or add a memory node ('forge spread --set')";
	return tool_fail(c, "%s: %s (%s): %s", pool_name, status_sentence(status),
			 status_name(status), remedy);
}

int tool_key_error(const struct command *c, struct attached *a, const char *pool_name,
		   struct cache_key key, int status)
{
	const char *owner = client_owner_name(a->client, key);

	/* What is wrong with the list is not wrong with one of it. */
	if (owner && status != FORGE_E_SPREAD)
		pool_name = owner;
	int exit_status = tool_flow_error(c, pool_name, status);

	tool_detach(a);
	return exit_status;
}
