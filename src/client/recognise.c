/*
 * recognise.c: which member of a cache is it that was lost, and is reached again?
 *
 * By the mender (mend.c).  What is behind a name is believed only if it says itself that it is that
 * member, of the record the client goes by; and a new pool only under the name of the one it stands
 * for.  doc/nodes.md has the cases.
 */
#include <inttypes.h>
#include <stdlib.h>

#include "client/inside.h"
#include "client/refuse.h"

int recognise_is_known(const struct client *c, const char *name)
{
	for (uint32_t i = 0; i < c->newest->slot_end; i++)
		if (map_has(c->newest, i) && c->members[i].name == name)
			return 1;
	return 0;
}

/* The lost member with that id; a new pool is the one that had its name. */
static struct member *lost_member(struct client *c, const char *name, uint64_t id)
{
	const struct spread_record *r = &c->newest->record;
	struct pool_name parsed;
	char ignored[256];
	int at = id ? spread_record_find(r, id) : -1;

	if (!id && !name_parse(name, &parsed, ignored, sizeof(ignored)))
		at = spread_record_named(r, name_place_hash(&parsed));
	struct member *m = at >= 0 ? &c->members[c->newest->slot[at]] : NULL;

	return m && !member_now(m) ? m : NULL;
}

/* Whose slot it is. */
static uint64_t id_of(const struct client *c, const struct member *m)
{
	const struct map *map = c->newest;

	for (uint32_t i = 0; i < map->record.member_count; i++)
		if (&c->members[map->slot[i]] == m)
			return map->record.member[i].id;
	return 0;
}

int recognise_member(struct client *c, const char *name, struct attachment *a,
		     const struct spread_view *v, struct member **out, char *error_text,
		     size_t error_bytes)
{
	struct error_out e = {error_text, error_bytes};
	int is_new = v->epoch == 0 && c->newest->epoch != 0;

	if (v->claim)
		return REFUSE(&e, FORGE_E_AGAIN, "its memory nodes are being changed");
	if (is_new && v->was_used)
		return REFUSE(&e, FORGE_E_SPREAD,
			      "it was used as a cache of its own: if what it holds may be "
			      "forgotten, replace it alone by an empty one, with 'forge node "
			      "--size SIZE --force'");
	/* It was changed while this one was away, and perhaps nobody else could say so. */
	if (v->record && v->epoch > c->newest->epoch && follow_is_ours(c, v->record))
		client_outdate(c, c->newest, c->told);
	if (!is_new && (v->epoch != c->newest->epoch || v->is_damaged ||
			(v->epoch && !spread_record_same(v->record, &c->newest->record))))
		return REFUSE(&e, FORGE_E_SPREAD,
			      "it is of another cache, or of another epoch of this one (%" PRIu64
			      ", not %u)",
			      v->epoch, c->newest->epoch);
	*out = c->newest->epoch ? lost_member(c, name, is_new ? 0 : v->member) : &c->members[0];
	if (!*out)
		return REFUSE(
		    &e, FORGE_E_SPREAD,
		    "it is new, and the memory node that was lost had another name: put it "
		    "in its place with 'forge spread --set --lost'");
	if (is_new) {
		struct spread_view *after = calloc(1, sizeof(*after));
		int status = after ? spread_join(&a->worker, &a->pool, &c->newest->record,
						 id_of(c, *out), after)
				   : FORGE_E_NO_MEMORY;

		free(after);
		if (status)
			return REFUSE(&e, status, "joining the cache: %s", status_sentence(status));
	}
	pthread_mutex_lock(&c->lock);
	(*out)->name = name;
	pthread_mutex_unlock(&c->lock);
	return 0;
}
