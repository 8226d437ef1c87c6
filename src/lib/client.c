/*
 * client.c: opening and closing clients and sessions.
 *
 * A session's handle is not freed with it but kept by its client for the next session, so that
 * calls on a session that was closed, a second close among them, are noticed while its client is
 * open and no other session has taken the handle.  At most sessions_max are kept.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "base/log.h"
#include "base/prng.h"
#include "lib/lib.h"

static uint64_t make_seed(void)
{
	struct timespec now;

	clock_gettime(CLOCK_MONOTONIC, &now);
	uint64_t state =
	    (uint64_t)now.tv_sec << 30 ^ (uint64_t)now.tv_nsec ^ (uint64_t)getpid() << 40;

	return prng_splitmix64(&state);
}

static int check_options(const struct forge_options *o)
{
	if (o->sessions_max > CN_WORKERS_MAX)
		return lib_fail(FORGE_E_INVAL,
				"sessions_max is %u, the limit is %u: use several processes",
				o->sessions_max, CN_WORKERS_MAX);
	if (o->in_flight_max > LIB_IN_FLIGHT_MAX)
		return lib_fail(FORGE_E_INVAL, "in_flight_max is %u, the limit is %u",
				o->in_flight_max, LIB_IN_FLIGHT_MAX);
	if (o->dead_percent > 100)
		return lib_fail(FORGE_E_INVAL,
				"dead_percent is %u, which is more than all: at "
				"most 100",
				o->dead_percent);
	return 0;
}

/* Each flow counts in the pool, which has 16 bits for how many do. */
#define FLOWS_MAX 65535u

static int check_flows(const struct forge_options *o)
{
	if (o->sessions_max * (o->in_flight_max + 1) <= FLOWS_MAX)
		return 0;
	return lib_fail(FORGE_E_INVAL,
			"sessions_max %u with in_flight_max %u make too many operations at once: "
			"lower one of them",
			o->sessions_max, o->in_flight_max);
}

/* The largest value that fits beside a key of any length. */
static struct forge_limits limits_of(const struct plan *p)
{
	return (struct forge_limits){
	    .key_bytes = LAYOUT_KEY_BYTES_MAX,
	    .value_bytes =
		p->part_count_max
		    ? p->value_bytes_max
		    : plan_object_bytes_max(p) - LAYOUT_OBJECT_HEADER_BYTES - LAYOUT_KEY_BYTES_MAX,
	};
}

static void free_client(struct forge_client *c)
{
	free((char *)(uintptr_t)c->options.key_file);
	free((char *)(uintptr_t)c->options.ca_file);
	free(c);
}

/* The caller's strings are its own again when forge_open() returns. */
static int copy_file(const char *from, const char **to)
{
	*to = from ? strdup(from) : NULL;
	return from && !*to ? FORGE_E_NO_MEMORY : 0;
}

static int copy_access(struct forge_client *c, const struct forge_options *options)
{
	int status = copy_file(options->key_file, &c->options.key_file);

	/* Both, so that neither is the caller's when they are freed. */
	if (copy_file(options->ca_file, &c->options.ca_file) || status)
		return FORGE_E_NO_MEMORY;
	c->access.key_file = c->options.key_file;
	c->access.files.authority = c->options.ca_file;
	return 0;
}

int forge_open(const char *pool, const struct forge_options *options, struct forge_client **out)
{
	static const struct forge_options defaults;
	char text[512] = "";

	if (!pool || !out)
		return lib_fail(FORGE_E_INVAL, "%s is NULL",
				pool ? "the pointer for the client" : "the pool's name");
	if (!options)
		options = &defaults;
	int status = check_options(options);

	if (status)
		return status;
	struct forge_client *c = calloc(1, sizeof(*c));

	if (!c)
		return lib_fail(FORGE_E_NO_MEMORY, "%s", status_sentence(FORGE_E_NO_MEMORY));
	c->options = *options;
	c->options.policy = NULL;
	if (!c->options.sessions_max)
		c->options.sessions_max = LIB_SESSIONS_DEFAULT;
	if (!c->options.in_flight_max)
		c->options.in_flight_max = LIB_IN_FLIGHT_DEFAULT;
	status = copy_access(c, options);
	if (status) {
		free_client(c);
		return lib_fail(status, "%s", status_sentence(status));
	}
	status = check_flows(&c->options);
	if (status) {
		free_client(c);
		return status;
	}
	struct client_options client_options = {
	    .policy = options->policy,
	    .session_count = c->options.sessions_max,
	    .dead_percent = options->dead_percent,
	    .seed = make_seed(),
	    .watch_name = 1,
	    .access = &c->access,
	};

	status = client_open(pool, &client_options, &c->client, text, sizeof(text));
	if (status) {
		free_client(c);
		return lib_fail(status, "%s", text);
	}
	pthread_mutex_init(&c->lock, NULL);
	snprintf(c->pool_name, sizeof(c->pool_name), "%s", pool);
	log_info("%s: attached as compute node %u", c->pool_name, client_cn(c->client));
	c->limits = limits_of(&client_pool(c->client)->plan);
	*out = c;
	return 0;
}

int forge_close(struct forge_client *c)
{
	if (!c)
		return 0;
	pthread_mutex_lock(&c->lock);
	unsigned open = c->session_count;

	pthread_mutex_unlock(&c->lock);
	/* A child may have copies of open sessions and closes none of them. */
	if (open > 0 && !client_is_forked(c->client))
		return lib_fail(FORGE_E_INVAL,
				"%u session%s of the client %s still open: close sessions first",
				open, open == 1 ? "" : "s", open == 1 ? "is" : "are");
	while (c->closed) {
		struct forge_session *s = c->closed;

		c->closed = s->next_closed;
		free(s);
	}
	log_info("%s: leaving", c->pool_name);
	client_close(c->client);
	pthread_mutex_destroy(&c->lock);
	free_client(c);
	return 0;
}

int forge_get_limits(const struct forge_client *c, struct forge_limits *limits)
{
	if (!c || !limits)
		return lib_fail(FORGE_E_INVAL, "%s is NULL", c ? "limits" : "the client");
	*limits = c->limits;
	return 0;
}

/* A handle, counted as open; NULL: there are as many as may be, or there is no memory. */
static int handle_take(struct forge_client *c, struct forge_session **out)
{
	int status = 0;

	pthread_mutex_lock(&c->lock);
	struct forge_session *s = c->closed;

	if (c->session_count >= c->options.sessions_max) {
		status = FORGE_E_INVAL;
	} else {
		if (s)
			c->closed = s->next_closed;
		else
			s = calloc(1, sizeof(*s));
		status = s ? 0 : FORGE_E_NO_MEMORY;
		c->session_count += !status;
	}
	pthread_mutex_unlock(&c->lock);
	*out = s;
	return status;
}

static void handle_put(struct forge_session *s)
{
	struct forge_client *c = s->client;

	*s = (struct forge_session){.client = c};
	pthread_mutex_lock(&c->lock);
	s->next_closed = c->closed;
	c->closed = s;
	c->session_count--;
	pthread_mutex_unlock(&c->lock);
}

int forge_session_open(struct forge_client *c, struct forge_session **out)
{
	char text[256] = "";

	if (!c || !out)
		return lib_fail(FORGE_E_INVAL, "%s is NULL",
				c ? "the pointer for the session" : "the client");
	if (client_is_forked(c->client))
		return lib_fail(FORGE_E_FORKED,
				"this process is a child of the one that opened the client: open a "
				"client of its own with forge_open()");
	struct forge_session *s;
	int status = handle_take(c, &s);

	if (status == FORGE_E_INVAL)
		return lib_fail(status,
				"all %u sessions of the client are open: close one, or open the "
				"client with a larger sessions_max",
				c->options.sessions_max);
	if (status)
		return lib_fail(status, "%s", status_sentence(status));
	*s = (struct forge_session){.client = c,
				    .timeout_ns = lib_timeout_ns(c->options.timeout_us)};
	status = session_open(c->client, &s->session, text, sizeof(text));
	if (!status) {
		s->view = session_view(s->session);
		status = flight_open(s, c->options.in_flight_max);
		if (status) {
			session_close(s->session);
			snprintf(text, sizeof(text), "%s", status_sentence(status));
		}
	}
	if (status) {
		handle_put(s);
		return lib_fail(status, "%s", text);
	}
	*out = s;
	return 0;
}

void forge_session_close(struct forge_session *s)
{
	if (!s || !s->session)
		return;
	flight_close(s, client_is_forked(s->client->client));
	session_close(s->session);
	handle_put(s);
}

int forge_session_timeout(struct forge_session *s, uint64_t timeout_us)
{
	int status = lib_check_session(s);

	if (!status)
		s->timeout_ns = lib_timeout_ns(timeout_us);
	return status;
}
