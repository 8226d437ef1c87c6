/*
 * serve.c: what the tcp server asks of the node: the locks of compute nodes, and what the pool is.
 *
 * An instance that holds locks has a struct alive of its own, so that one instance cannot take or
 * give back what another has, whichever thread of the server acts for it.
 */
#include "node/serve.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "client/alive.h"
#include "client/host.h"
#include "fabric/shm.h"

#define LIST_BYTES 4096u

struct node_server {
	struct tcp_server *server;
	const struct shm_map *map;
	const char *where;
	struct alive *looker; /* holds nothing */
	uint32_t cn_max;
	struct wire_welcome pool; /* what of it does not change while the node serves */
	char list[LIST_BYTES];	  /* the addresses, taken apart */
};

static int check_cn(const struct node_server *s, uint64_t cn)
{
	return cn < s->cn_max ? 0 : FORGE_E_INVAL;
}

/* The locks of the instance; NULL when there is no memory. */
static struct alive *alive_of(const struct node_server *s, void **holder)
{
	struct alive *alive = *holder;

	if (!alive && alive_open(s->where, s->map, &alive) == 0)
		*holder = alive;
	return *holder;
}

static int serve_hold(void *context, void **holder, uint64_t cn)
{
	const struct node_server *s = context;
	int status = check_cn(s, cn);
	struct alive *alive = status ? NULL : alive_of(s, holder);

	if (!alive)
		return status ? status : FORGE_E_AGAIN;
	const struct liveness *l = alive_liveness(alive);

	return l->hold(l->context, (uint32_t)cn);
}

static int serve_release(void *context, void **holder, uint64_t cn)
{
	const struct node_server *s = context;
	int status = check_cn(s, cn);

	if (!status && *holder) {
		const struct liveness *l = alive_liveness(*holder);

		l->release(l->context, (uint32_t)cn);
	}
	return status;
}

static int serve_hold_all(void *context, void **holder, uint64_t count)
{
	const struct node_server *s = context;
	int status = count <= s->cn_max ? 0 : FORGE_E_INVAL;
	struct alive *alive = status ? NULL : alive_of(s, holder);

	if (!alive)
		return status ? status : FORGE_E_AGAIN;
	return alive_hold_all(alive, (uint32_t)count);
}

static int serve_release_all(void *context, void **holder, uint64_t count)
{
	const struct node_server *s = context;

	if (count > s->cn_max)
		return FORGE_E_INVAL;
	if (*holder)
		alive_release_all(*holder, (uint32_t)count);
	return 0;
}

static int serve_is_held(void *context, uint64_t cn)
{
	const struct node_server *s = context;
	int status = check_cn(s, cn);

	return status ? status : alive_is_held(s->looker, (uint32_t)cn);
}

static void serve_ended(void *context, void **holder)
{
	alive_close(*holder);
	*holder = NULL;
}

static void serve_describe(void *context, struct wire_welcome *w)
{
	const struct node_server *s = context;

	w->pool_id = s->pool.pool_id;
	w->epoch = s->pool.epoch;
	w->fingerprint = s->pool.fingerprint;
	w->plan_checksum = s->pool.plan_checksum;
	w->host = s->pool.host;
	w->cn_max = s->cn_max;
}

/* Commas become ends of strings.  How many there are; 0 if there are too many, or nothing in one.
 */
static unsigned split(char *list, const char *out[TCP_SERVER_LISTEN_MAX])
{
	unsigned count = 0;

	for (char *rest = list, *at; (at = strsep(&rest, ","));) {
		if (count == TCP_SERVER_LISTEN_MAX || !*at)
			return 0;
		out[count++] = at;
	}
	return count;
}

int node_server_open(const char *addresses, const struct tcp_server_settings *settings,
		     struct node_server **out, char *error_text, size_t error_bytes)
{
	const char *listen[TCP_SERVER_LISTEN_MAX];
	struct tcp_server_settings own = *settings;
	struct node_server *s = calloc(1, sizeof(*s));
	int status;

	if (!s) {
		snprintf(error_text, error_bytes, "%s", status_sentence(FORGE_E_NO_MEMORY));
		return FORGE_E_NO_MEMORY;
	}
	snprintf(s->list, sizeof(s->list), "%s", addresses);
	own.listen = listen;
	own.listen_count = strlen(addresses) < sizeof(s->list) ? split(s->list, listen) : 0;
	if (own.listen_count == 0) {
		snprintf(error_text, error_bytes,
			 "'%.40s' is no list of addresses to listen on: write 1 to %u of "
			 "tcp://address:port and unix:/path with commas between them",
			 addresses, TCP_SERVER_LISTEN_MAX);
		status = FORGE_E_INVAL;
	} else {
		status = tcp_server_open(&own, error_text, error_bytes, &s->server);
	}
	if (status) {
		free(s);
		return status;
	}
	*out = s;
	return 0;
}

const char *node_server_address(const struct node_server *s, unsigned index)
{
	return tcp_server_address(s->server, index);
}

const char *node_server_address_of_network(const struct node_server *s)
{
	return tcp_server_address_of_network(s->server);
}

unsigned node_server_recheck(struct node_server *s)
{
	return tcp_server_recheck(s->server);
}

int node_server_start(struct node_server *s, struct node *n)
{
	const struct tcp_server_calls calls = {
	    .context = s,
	    .hold = serve_hold,
	    .release = serve_release,
	    .hold_all = serve_hold_all,
	    .release_all = serve_release_all,
	    .is_held = serve_is_held,
	    .ended = serve_ended,
	    .describe = serve_describe,
	};
	const struct pool *pool = node_pool(n);
	struct layout_superblock sb;

	s->map = node_map(n);
	s->where = node_where(n);
	memcpy(&sb, shm_map_base(s->map), sizeof(sb));
	s->cn_max = pool->plan.cn_max;
	s->pool = (struct wire_welcome){
	    .pool_id = pool->pool_id,
	    .epoch = pool->epoch,
	    .fingerprint = sb.fingerprint,
	    .plan_checksum = sb.plan_checksum,
	    .host = host_boot(),
	};
	int status = alive_open(s->where, s->map, &s->looker);

	if (status)
		return status;
	return tcp_server_start(s->server, shm_map_base(s->map), shm_map_bytes(s->map), &calls);
}

void node_server_close(struct node_server *s)
{
	if (!s)
		return;
	tcp_server_close(s->server);
	alive_close(s->looker);
	free(s);
}

void node_server_count(struct node_server *s, struct tcp_server_counts *out)
{
	tcp_server_count(s->server, out);
}
