/* pools.c: several own pools, and a client and a session of them. */
#include "support/pools.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <stdio.h>
#include <string.h>
#include <time.h>

#include "support/clean.h"

static void make(struct pools *p, unsigned count, const struct plan_wish *wish, uint64_t step)
{
	char error[512];

	assert_true(count <= POOLS_MAX);
	*p = (struct pools){.count = count};
	for (unsigned i = 0; i < count; i++) {
		struct plan_wish next = *wish;

		next.pool_bytes += i * step;
		if (own_pool_create(&p->pool[i], &next, error, sizeof(error)))
			fail_msg("%s", error);
		p->names[i] = p->pool[i].name;
	}
	pools_list(p, (1u << count) - 1, p->list);
}

void pools_make(struct pools *p, unsigned count)
{
	make(p, count,
	     &(struct plan_wish){
		 .pool_bytes = 8u << 20, .object_bytes = 100, .cn_max = 8, .policy = "forge"},
	     4u << 20);
}

void pools_make_alike(struct pools *p, unsigned count, const struct plan_wish *wish)
{
	make(p, count, wish, 0);
}

void pools_list(const struct pools *p, unsigned which, char list[POOLS_LIST_BYTES])
{
	size_t at = 0;

	list[0] = '\0';
	for (unsigned i = 0; i < p->count; i++)
		if (which >> i & 1)
			at += (size_t)snprintf(list + at, POOLS_LIST_BYTES - at, "%s%s",
					       at ? "," : "", p->names[i]);
	assert_true(at < POOLS_LIST_BYTES);
}

struct client_options pools_options(struct pools *p)
{
	p->cuts.user = pthread_self();
	return (struct client_options){
	    .session_count = 2, .wrap = cuts_wrap, .wrap_context = &p->cuts, .seed = 1};
}

void pools_check(const struct pools *p, const struct check_options *options, uint64_t *live)
{
	for (unsigned i = 0; i < p->count; i++) {
		uint64_t found = assert_pool_clean(p->names[i], options);

		if (live)
			live[i] = found;
	}
}

void pools_forget(struct pools *p)
{
	for (unsigned i = 0; i < p->count; i++)
		own_pool_forget(&p->pool[i]);
}

void pools_end(struct pools *p)
{
	const struct check_options at_rest = {0};

	pools_check(p, &at_rest, NULL);
	pools_forget(p);
}

void user_attach(struct user *u, const char *list, const struct client_options *options)
{
	char error[512];

	if (client_open(list, options, &u->client, error, sizeof(error)) ||
	    session_open(u->client, &u->session, error, sizeof(error)))
		fail_msg("%s", error);
}

void user_detach(struct user *u)
{
	session_close(u->session);
	client_close(u->client);
}

void user_attach_to(struct user *u, struct pools *p, unsigned which)
{
	const struct client_options options = pools_options(p);
	char list[POOLS_LIST_BYTES];

	pools_list(p, which, list);
	user_attach(u, list, &options);
}

static void nap(void)
{
	nanosleep(&(struct timespec){.tv_nsec = 1000000}, NULL);
}

void user_wait_for_members(struct user *u, unsigned count)
{
	for (unsigned i = 0; i < 20000 && client_members_up(u->client) != count; i++)
		nap();
	assert_int_equal(client_members_up(u->client), count);
}

void user_wait_for_return(struct user *u, uint64_t n)
{
	uint64_t losses, returns = 0;

	for (unsigned i = 0; i < 20000 && returns < n; i++) {
		client_losses(u->client, &losses, &returns);
		nap();
		session_tend(u->session); /* lets go of what the old connection held */
	}
	assert_int_equal(returns, n);
}

struct cache_key user_key(unsigned n)
{
	static _Thread_local char text[32];

	return (struct cache_key){text, (uint32_t)snprintf(text, sizeof(text), "key-%u", n)};
}

int user_set(struct user *u, unsigned n, int version)
{
	const struct user_value value = {n, version};

	return session_set(u->session, user_key(n),
			   &(struct cache_item){.value = &value, .bytes = sizeof(value)});
}

int user_get(struct user *u, unsigned n)
{
	struct cache_value v;
	struct user_value value;
	int status = session_get(u->session, user_key(n), &v);

	if (status)
		return status == FORGE_MISS ? -1 : status;
	assert_int_equal(v.bytes, sizeof(value));
	memcpy(&value, v.data, sizeof(value));
	assert_int_equal(value.key, n);
	return value.version;
}
