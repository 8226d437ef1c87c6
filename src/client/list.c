/* list.c: the names of a client's memory nodes, as it was told and as a record says. */
#include "client/list.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* ---- as it was told ----------------------------------------------------------------------- */

/* Room for so many. */
static int make_room(struct client *c, unsigned count)
{
	c->names = calloc(count, sizeof(*c->names));
	c->places = calloc(count, sizeof(*c->places));
	c->texts = calloc(count, sizeof(*c->texts));
	return c->names && c->places && c->texts ? 0 : FORGE_E_NO_MEMORY;
}

/* They stay names; each is taken apart again where it is used. */
static int copy_names(struct client *c, const char *list, unsigned count)
{
	for (; c->name_count < count; c->name_count++) {
		size_t bytes = name_first_bytes(list);
		char *name = calloc(1, bytes + 1);

		if (!name)
			return FORGE_E_NO_MEMORY;
		memcpy(name, list, bytes);
		c->names[c->name_count] = name;
		list += bytes + 1;
	}
	return 0;
}

int list_take(struct client *c, const char *list, char *error_text, size_t error_bytes)
{
	struct pool_name *parsed;
	unsigned n;
	int status = name_parse_list(list, &parsed, &n, error_text, error_bytes);

	if (status)
		return status;
	status = make_room(c, n);
	for (unsigned i = 0; !status && i < n; i++) {
		c->places[i] = name_place_hash(&parsed[i]);
		if (name_place_text(&parsed[i], c->texts[i], sizeof(c->texts[i])))
			c->texts[i][0] = '\0';
	}
	free(parsed);
	if (!status)
		status = copy_names(c, list, n);
	if (status)
		snprintf(error_text, error_bytes, "%s", status_sentence(status));
	return status;
}

void list_free(struct client *c)
{
	for (uint32_t i = 0; i < c->name_count + c->names_left; i++)
		free(c->names[i]);
	free(c->names);
	free(c->places);
	free(c->texts);
}

struct found *list_found(const struct client *c)
{
	struct found *f = calloc(c->name_count, sizeof(*f));

	for (uint32_t i = 0; f && i < c->name_count; i++)
		f[i].name = c->names[i];
	return f;
}

static void forget(struct found *f)
{
	attachment_drop(f->attachment);
	free(f->view);
	f->attachment = NULL;
	f->view = NULL;
}

void list_found_free(const struct client *c, struct found *f)
{
	for (uint32_t i = 0; f && i < c->name_count; i++)
		forget(&f[i]);
	free(f);
}

/* ---- as a record says --------------------------------------------------------------------- */

/* Was it found, and what does it say that it is? */
static uint64_t member_id(const struct found *f)
{
	return f->attachment && f->view->epoch ? spread_page_member(&f->view->page) : 0;
}

static int has_place(const struct spread_record *r, uint64_t place)
{
	for (uint32_t m = 0; m < r->member_count; m++)
		if (r->member[m].name == place)
			return 1;
	return 0;
}

/* Of those that say they belong. */
static const struct spread_record *newest(const struct client *c, const struct found *f)
{
	const struct spread_record *r = NULL;

	for (uint32_t i = 0; i < c->name_count; i++) {
		const struct spread_view *v = f[i].attachment ? f[i].view : NULL;

		if (v && v->member && v->record && (!r || v->record->epoch > r->epoch))
			r = v->record;
	}
	return r;
}

/* Does it have nothing to do with that cache? */
static int is_stranger(const struct client *c, const struct found *f, uint32_t i,
		       const struct spread_record *r)
{
	const struct spread_view *v = f[i].view;

	if (!f[i].attachment)
		return 0; /* nobody knows */
	if (!v->epoch)
		return v->was_used || !has_place(r, c->places[i]);
	return !v->record || v->record->id != r->id;
}

static int is_named_twice(const struct found *f, uint32_t i)
{
	for (uint32_t j = 0; j < i; j++)
		if (member_id(&f[i]) && member_id(&f[i]) == member_id(&f[j]))
			return 1;
	return 0;
}

const struct spread_record *list_record(const struct client *c, const struct found *f)
{
	const struct spread_record *r = newest(c, f);
	int is_old = r && c->name_count != r->member_count;

	for (uint32_t i = 0; r && i < c->name_count; i++) {
		if (is_stranger(c, f, i, r) || is_named_twice(f, i))
			return NULL;
		is_old |= f[i].attachment
			      ? member_id(&f[i]) && spread_record_find(r, member_id(&f[i])) < 0
			      : !has_place(r, c->places[i]);
	}
	return is_old ? r : NULL;
}

/* Which name of the list is the member's: who says so, else the one of that place; or -1. */
static int listed(const struct client *c, const struct found *f, const struct spread_member *m)
{
	for (uint32_t i = 0; i < c->name_count; i++)
		if (member_id(&f[i]) == m->id)
			return (int)i;
	for (uint32_t i = 0; i < c->name_count; i++)
		if (!member_id(&f[i]) && c->places[i] == m->name)
			return (int)i;
	return -1;
}

static int add(struct client *next, uint32_t at, const char *name, uint64_t place, const char *text)
{
	next->names[at] = strdup(name);
	if (!next->names[at])
		return FORGE_E_NO_MEMORY;
	next->places[at] = place;
	snprintf(next->texts[at], sizeof(next->texts[at]), "%s", text);
	return 0;
}

/* The names of the next list: those of this one where they are the members'. */
static int fill(struct client *next, struct client *c, struct found *to, const struct found *from,
		const struct spread_record *r)
{
	int status = 0;

	for (uint32_t m = 0; m < r->member_count && !status; m++) {
		int i = listed(c, from, &r->member[m]);
		const char *name = i < 0 ? dial_name(c, r, m) : c->names[i];

		if (!name)
			return FORGE_E_SPREAD;
		status = add(next, m, name, i < 0 ? r->member[m].name : c->places[i],
			     i < 0 ? spread_record_name(r, m) : c->texts[i]);
		next->name_count += !status;
		to[m].name = next->names[m];
		to[m].member = i; /* for the moment: where it was */
	}
	return status;
}

/* Behind them the names that nobody was reached by, and that the record does not have. */
static int fill_left(struct client *next, const struct client *c, const struct found *from,
		     const struct spread_record *r)
{
	int status = 0;

	for (uint32_t i = 0; i < c->name_count + c->names_left && !status; i++) {
		if ((i < c->name_count && from[i].attachment) || has_place(r, c->places[i]))
			continue;
		status = add(next, next->name_count + next->names_left, c->names[i], c->places[i],
			     c->texts[i]);
		next->names_left += !status;
	}
	return status;
}

void list_settle(struct client *c)
{
	c->name_count += c->names_left;
	c->names_left = 0;
}

static void take_over(const struct client *c, struct found *to, struct found *from, uint32_t count)
{
	for (uint32_t m = 0; m < count; m++) {
		int i = to[m].member;
		const char *name = to[m].name;

		if (i < 0)
			continue;
		to[m] = from[i];
		to[m].name = name;
		from[i] = (struct found){0};
	}
	list_found_free(c, from);
}

static int replace(struct client *c, struct client *next, struct found **f,
		   const struct spread_record *r)
{
	struct found *to = calloc(r->member_count, sizeof(*to));
	int status = to ? make_room(next, r->member_count + c->name_count + c->names_left)
			: FORGE_E_NO_MEMORY;

	if (!status)
		status = fill(next, c, to, *f, r);
	if (!status)
		status = fill_left(next, c, *f, r);
	if (status) {
		free(to);
		list_free(next);
		return status;
	}
	take_over(c, to, *f, r->member_count);
	list_free(c);
	c->names = next->names;
	c->places = next->places;
	c->texts = next->texts;
	c->name_count = next->name_count;
	c->names_left = next->names_left;
	*f = to;
	return 0;
}

int list_replace(struct client *c, struct found **f, const struct spread_record *of_a_view,
		 char *error_text, size_t error_bytes)
{
	struct spread_record *r = malloc(sizeof(*r));
	/* For its names alone. */
	struct client *next = calloc(1, sizeof(*next));
	int status = FORGE_E_NO_MEMORY;

	if (r && next) {
		*r = *of_a_view;
		status = replace(c, next, f, r);
	}
	if (status == FORGE_E_SPREAD)
		snprintf(error_text, error_bytes,
			 "the cache lies on %u memory nodes, %u %s named, and its record has no "
			 "name by which this client may reach another one: name all of them, "
			 "separated by commas ('forge spread' shows them)",
			 r->member_count, c->name_count, c->name_count == 1 ? "is" : "are");
	else if (status)
		snprintf(error_text, error_bytes, "%s", status_sentence(status));
	free(next);
	free(r);
	return status;
}
