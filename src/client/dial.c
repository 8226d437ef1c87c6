/*
 * dial.c: how a client reaches a member that its list does not have: by the name in a record.
 *
 * A record is a text by somebody else, also when it is whole.  A name in it makes this client
 * connect somewhere, so it counts only if it is a place and nothing else, and has the hash that the
 * record has beside it; one in this host's memory or file system only if the client was opened with
 * such a one.  What is shown there (keys, certificates) and what is demanded (TLS) is what the
 * client was opened with for nodes of that kind; TLS is never dropped.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "client/inside.h"

struct dialling {
	struct pool_name there, own;
	char text[NAME_WHERE_BYTES + 16];
	char ignored[256];
};

static const char *keep(struct client *c, const char *name)
{
	for (struct dialled *d = c->dialled; d; d = d->next)
		if (strcmp(d->name, name) == 0)
			return d->name;
	struct dialled *d = malloc(sizeof(*d) + strlen(name) + 1);

	if (!d)
		return NULL;
	strcpy(d->name, name);
	d->next = c->dialled;
	c->dialled = d;
	return d->name;
}

static int is_here(const struct pool_name *n)
{
	return n->kind == NAME_SHM || n->kind == NAME_UNIX;
}

static const char *dial(struct client *c, struct dialling *d, const char *text, uint64_t place)
{
	struct pool_name *n = &d->there, *own = &d->own;
	int has_model = 0, may_be_here = 0;

	if (name_parse(text, n, d->ignored, sizeof(d->ignored)) || name_place_hash(n) != place ||
	    name_place_text(n, d->text, sizeof(d->text)) || strcmp(d->text, text) != 0)
		return NULL;
	for (uint32_t i = 0; i < c->name_count && !has_model; i++) {
		if (name_parse(c->names[i], own, d->ignored, sizeof(d->ignored)))
			continue;
		may_be_here |= is_here(own);
		has_model = own->kind == n->kind;
	}
	if ((is_here(n) && !may_be_here) ||
	    name_as(n, has_model ? own : NULL, d->text, sizeof(d->text)))
		return NULL;
	return keep(c, d->text);
}

const char *dial_name(struct client *c, const struct spread_record *r, uint32_t member)
{
	struct dialling *d = malloc(sizeof(*d));
	const char *name =
	    d ? dial(c, d, spread_record_name(r, member), r->member[member].name) : NULL;

	free(d);
	return name;
}
