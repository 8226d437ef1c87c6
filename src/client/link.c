/* link.c: what all media have in common, and which of them a name means. */
#include "client/link.h"

#include <stdio.h>

#include "base/clock.h"
#include "client/name.h"
#include "fabric/delay.h"

static const struct link_medium *medium_of(const struct pool_name *name)
{
	return name->kind == NAME_SHM ? &link_shm : &link_tcp;
}

int link_open(const char *pool_name, int flags, struct link **out, char *error_text,
	      size_t error_bytes)
{
	return link_open_with(pool_name, flags, NULL, NULL, out, error_text, error_bytes);
}

int link_open_with(const char *pool_name, int flags, const struct pass_wish *beside,
		   struct cancel *cancel, struct link **out, char *error_text, size_t error_bytes)
{
	struct pool_name name;
	struct link *l;
	int status = name_parse(pool_name, &name, error_text, error_bytes);

	if (!status)
		status = medium_of(&name)->open(&name, flags, beside, cancel, &l, error_text,
						error_bytes);
	if (status)
		return status;
	l->medium = medium_of(&name);
	l->latency_us = name.latency_us;
	*out = l;
	return 0;
}

void link_keep(struct link *l)
{
	if (l->medium->keep)
		l->medium->keep(l);
}

void link_end(struct link *l)
{
	if (l->medium->end)
		l->medium->end(l);
}

void link_close(struct link *l)
{
	if (l)
		l->medium->close(l);
}

int link_connect(struct link *l, struct fab **out)
{
	struct fab *inner;
	int status = l->medium->connect(l, &inner);

	if (status)
		return status;
	if (l->latency_us)
		return delay_open(inner, 1000 * l->latency_us, clock_monotonic(), out);
	*out = inner;
	return 0;
}

int link_is_held(struct link *l, uint32_t cn)
{
	return l->medium->is_held(l, cn);
}

int link_watch(struct link *l, int fd)
{
	return l->medium->watch ? l->medium->watch(l, fd) : 1;
}

int link_is_served(struct link *l)
{
	return l->medium->is_served(l);
}

int link_counters(struct link *l, char text[LINK_COUNTERS_BYTES + 1])
{
	text[0] = '\0';
	return l->medium->counters ? l->medium->counters(l, text) : 0;
}

int link_hold_all(struct link *l, uint32_t cn_max)
{
	for (uint32_t cn = 0; cn < cn_max; cn++)
		if (l->liveness->hold(l->liveness->context, cn)) {
			link_release_all(l, cn);
			return FORGE_E_AGAIN;
		}
	return 0;
}

void link_release_all(struct link *l, uint32_t cn_max)
{
	for (uint32_t cn = 0; cn < cn_max; cn++)
		l->liveness->release(l->liveness->context, cn);
}

int link_probe(const char *pool_name, char *error_text, size_t error_bytes)
{
	struct pool_name name;
	int status = name_parse(pool_name, &name, error_text, error_bytes);

	return status ? status : medium_of(&name)->probe(&name, error_text, error_bytes);
}
