/* attach.c: attaching for one operation, and what its errors mean to the user. */
#include "tool/attach.h"

#include <string.h>
#include <time.h>
#include <unistd.h>

#include "client/link.h"
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

/* Of several nodes one is enough: the cache goes on without the others. */
static int check_any_served(const struct command *c, const struct tool_names *names)
{
	char text[512];

	for (unsigned i = 0; i < names->count; i++) {
		int served = link_probe(names->name[i], text, sizeof(text));

		if (served > 0)
			return 0;
		/* What would be the same for the others, and is not for them to mend. */
		if (served < 0 && !link_is_away(served))
			return tool_fail(c, "%s", text);
	}
	return tool_fail(c, "none of the %u memory nodes is there: start them with 'forge node'",
			 names->count);
}

static int check_one_served(const struct command *c, const char *pool_name)
{
	char text[512], remedy[512];
	int served = link_probe(pool_name, text, sizeof(text));

	if (served > 0)
		return 0;
	if (served == 0) {
		tool_node_remedy(pool_name, remedy, sizeof(remedy));
		return tool_fail(c, "%s has no memory node, it has ended: %s", pool_name, remedy);
	}
	if (served == FORGE_E_POOL_ABSENT)
		return tool_fail_absent(c, pool_name);
	return tool_fail(c, "%s", text);
}

int tool_check_served(const struct command *c, const char *pool_name)
{
	struct tool_names names;
	int status = tool_names_open(c, pool_name, &names);

	if (!status)
		status =
		    names.count == 1 ? check_one_served(c, pool_name) : check_any_served(c, &names);
	tool_names_close(&names);
	return status;
}

int tool_attach(const struct command *c, const char *pool_name, struct attached *out)
{
	struct timespec now;
	char text[512];
	int status = tool_check_served(c, pool_name);

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
	/* Some of these sentences name the pool already. */
	if (strstr(text, pool_name))
		return tool_fail(c, "%s", text);
	return tool_fail(c, "%s: %s", pool_name, text);
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
		remedy = "name them as they are now";
	else if (status == FORGE_E_NO_SPACE)
		remedy = "every chunk is in use by a compute node: close some, or format a larger "
			 "pool";
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
