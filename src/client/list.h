/*
 * list.h: the names that a client is opened with, and what becomes of them when they are of before.
 *
 * Internal to src/client; called by who opens the client (members.c), and freed by who closes it.
 *
 * The argument.  A list says where to look, and nothing of what it names is believed: the members
 * are those of a record, and a record counts only if at least half of its members say it, without a
 * claim (members.c).  So a list that is not what the record of one of its nodes says is replaced by
 * the members of that record, and from there on all is as if they had been named: each is reached,
 * has to say itself that it is that member, and that the record is the same.
 *
 * A stale record, of a node that a change has left behind: of its members more than half have the
 * next one.  If one of those is reached the newest record is found, and replaces the list once
 * more; if none is, fewer than half say the stale one, and it is refused.  A node that stands
 * behind a name and is of another cache, or used as one of its own: it does not say that it is the
 * member; named by the list it is a mistake, and refused, and in the record's names it is refused
 * as in a list.  A node that was replaced by a new one: it takes its predecessor's place by the
 * rules for a whole list.  A node that was taken out says so; it is left out if another one of the
 * list still belongs, and refused if none does, for nobody of that list is known to be there.
 *
 * What cannot be seen: that all nodes of a list were replaced by new ones.  Nothing is left then
 * that knows of the others, and the list is a new cache.
 */
#ifndef FORGE_CLIENT_LIST_H
#define FORGE_CLIENT_LIST_H

#include "client/inside.h"
#include "client/reach.h"

/* A node of the list as it was found. */
struct found {
	const char *name;
	struct attachment *attachment; /* NULL: it cannot be reached */
	struct spread_view *view;
	int member;	  /* index in the record, -1 for none */
	uint8_t is_tried; /* what came of reaching it is known */
	char why[REACH_WHY_BYTES];
};

/* Take the list apart.  0; FORGE_E_INVAL, FORGE_E_NO_MEMORY with a sentence. */
int list_take(struct client *, const char *list, char *error_text, size_t error_bytes);

/* [name_count] for the names of it, or NULL. */
struct found *list_found(const struct client *);

void list_found_free(const struct client *, struct found *);

/*
 * Who the members are is known.  From now on a lost one that is in the record by another name may
 * be behind a name that was given and that nobody was reached by, too.
 */
void list_settle(struct client *);

void list_free(struct client *);

/*
 * All have been looked at: the record that the list is replaced by, of a node that belongs, or NULL
 * when the list is what the record says, or names a stranger.  It is one of the views'.  A name
 * that nobody is reached by and that the record does not have may be of before, or another name of
 * a member that is lost; so the record's is tried, too.
 */
const struct spread_record *list_record(const struct client *, const struct found *);

/*
 * Replace the list by the members of that record; who was found there stays so.
 * 0; FORGE_E_SPREAD when the record has no name for one that may be used, FORGE_E_NO_MEMORY; then
 * the list is what it was.
 */
int list_replace(struct client *, struct found **, const struct spread_record *, char *error_text,
		 size_t error_bytes);

#endif
