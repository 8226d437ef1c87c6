/* node_listen.c: see node_listen.h. */
#include "tool/node_listen.h"

#include <signal.h>
#include <stdio.h>

#include "base/log.h"
#include "tool/command.h"

extern const struct command command_node;

static int check_files(const struct listen_config *c)
{
	if (c->insecure && (c->key_file || c->tls_authority))
		return tool_fail(&command_node,
				 "--insecure lets everybody in, --%s does not: give one of them",
				 c->key_file ? "key-file" : "tls-ca");
	return TOOL_OK;
}

static int open_door(const struct listen_config *c, struct door **out)
{
	const struct door_wish wish = {
	    .key_file = c->key_file,
	    .files = {c->tls_certificate, c->tls_key, c->tls_authority},
	    .strangers_max = (unsigned)c->strangers_max,
	};
	char text[512];

	if (door_open(&wish, out, text, sizeof(text)))
		return tool_fail(&command_node, "%s", text);
	return TOOL_OK;
}

/* Nobody has been accepted yet. */
static int check_addresses(const struct listen_config *c, const struct node_listen *l)
{
	const char *address = node_server_address_of_network(l->server);

	if (!address || c->insecure || door_knows_who_comes(l->door))
		return TOOL_OK;
	return tool_fail(
	    &command_node,
	    "other hosts reach %s, and nothing asks who comes: give --key-file (and "
	    "--tls-cert, --tls-key against who can listen), or --tls-ca beside these, or "
	    "--insecure if everybody there may read and change the whole cache",
	    address);
}

int node_listen_open(const struct listen_config *c, struct node_listen *out)
{
	struct tcp_server_settings settings = {
	    .threads = (unsigned)c->threads,
	    .connections_max = (unsigned)c->connections_max,
	    .spin_us = (uint32_t)c->spin_us,
	    .timeout_ms = (uint32_t)(c->client_timeout_us / 1000),
	};
	char text[1024];
	int status = check_files(c);

	*out = (struct node_listen){0};
	if (status || !c->list)
		return status;
	status = open_door(c, &out->door);
	if (status)
		return status;
	settings.door = out->door;
	if (node_server_open(c->list, &settings, &out->server, text, sizeof(text)))
		status = tool_fail(&command_node, "%s", text);
	else
		status = check_addresses(c, out);
	if (status) {
		node_listen_close(out);
		return status;
	}
	/* OpenSSL writes to connections whose client has gone as to any other. */
	signal(SIGPIPE, SIG_IGN);
	return TOOL_OK;
}

void node_listen_close(struct node_listen *l)
{
	node_server_close(l->server);
	door_close(l->door);
	*l = (struct node_listen){0};
}

void node_listen_print(const struct node_listen *l)
{
	const char *address;

	for (unsigned i = 0; l->server && (address = node_server_address(l->server, i)); i++)
		printf("listens %s\n", address);
}

bool node_listen_reloads(const struct listen_config *c)
{
	return c->list && (c->key_file || c->tls_certificate);
}

void node_listen_reload(struct node_listen *l, const char *name)
{
	char text[512];

	if (door_reload(l->door, text, sizeof(text))) {
		log_error("%s: keys and certificates stay as they were: %s", name, text);
		return;
	}
	unsigned ended = node_server_recheck(l->server);

	printf("reloaded %s: keys and certificates; %u client%s ended whose key is gone\n", name,
	       ended, ended == 1 ? "" : "s");
	fflush(stdout);
}
