/*
 * members.c: finding the memory nodes of a cache, and that they agree on who they are.
 *
 * Every error names the node and the remedy.  doc/nodes.md has the cases as a table.  A list that
 * is of before is made up for by list.c, and looked at once more.
 */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "base/log.h"
#include "client/list.h"
#include "client/refuse.h"

/* While somebody changes the spread: looks, and between them. */
#define CLAIM_LOOKS_MAX 50u
#define CLAIM_NAP_NS	20000000
/* While somebody forms it; this takes a few ms. */
#define HALF_WAY_LOOKS_MAX 25u
/* Records that replace the list, each newer than the one before. */
#define RELISTS_MAX 4u

/* ---- what is there ------------------------------------------------------------------------ */

static int read_view(struct found *f, struct error_out *e)
{
	const struct timespec nap = {.tv_nsec = CLAIM_NAP_NS};
	struct attachment *a = f->attachment;

	for (unsigned i = 0; i < CLAIM_LOOKS_MAX; i++) {
		int status = spread_read(&a->worker, &a->pool, f->view);

		if (status)
			return REFUSE(e, status, "%s: %s", f->name, status_sentence(status));
		if (!f->view->claim)
			return 0;
		nanosleep(&nap, NULL);
	}
	return REFUSE(e, FORGE_E_AGAIN,
		      "%s: its memory nodes are being changed; if no 'forge spread' runs, one was "
		      "cut off: repeat it with --force",
		      f->name);
}

/* What came of reaching it. */
static int take(const struct client *c, struct found *f, struct reach *r, struct error_out *e)
{
	f->attachment = r->attachment;
	f->is_tried = 1;
	memcpy(f->why, r->why, sizeof(f->why));
	if (r->status && c->name_count > 1 && link_is_away(r->status))
		return 0;
	if (r->status)
		return REFUSE(e, r->status, "%s", f->why);
	f->view = calloc(1, sizeof(*f->view));
	return f->view ? 0 : REFUSE(e, FORGE_E_NO_MEMORY, "%s", status_sentence(FORGE_E_NO_MEMORY));
}

/* What it says of itself. */
static int judge(struct found *f, struct error_out *e)
{
	int status = read_view(f, e);

	if (!status && f->view->is_damaged)
		status = REFUSE(e, FORGE_E_CORRUPT,
				"%s: the record of its memory nodes is damaged: form it anew with "
				"'forge spread --set --force'",
				f->name);
	return status;
}

static int check_belongs(const struct client *c, const struct found *f, struct error_out *e)
{
	for (uint32_t i = 0; i < c->name_count; i++)
		if (f[i].attachment && f[i].view->epoch && !f[i].view->member)
			return REFUSE(e, FORGE_E_INVAL,
				      "%s was taken out of the memory nodes of its cache: leave it "
				      "out, make it one again with 'forge spread --set', or, for "
				      "another cache, replace it by an empty one with 'forge node "
				      "--size SIZE --force'",
				      f[i].name);
	return 0;
}

/* ---- do they agree ------------------------------------------------------------------------ */

static int check_same(const struct found *a, const struct found *b, struct error_out *e)
{
	if (spread_record_same(a->view->record, b->view->record))
		return 0;
	if (a->view->record->id == b->view->record->id)
		return REFUSE(e, FORGE_E_SPREAD,
			      "%s is of epoch %" PRIu64 " of its cache and %s of epoch %" PRIu64
			      ": a change of its memory nodes was cut off, or one was left out of "
			      "it; repeat it with 'forge spread --set'",
			      a->name, a->view->epoch, b->name, b->view->epoch);
	return REFUSE(e, FORGE_E_SPREAD,
		      "%s and %s are memory nodes of different caches: name those of one, or join "
		      "them with 'forge spread --set'",
		      a->name, b->name);
}

/* What the record says against what the list has.  Nobody new has become a member yet. */
static int check_list(const struct client *c, const struct found *f, const struct spread_record *r,
		      struct error_out *e)
{
	for (uint32_t i = 0; i < c->name_count; i++) {
		if (f[i].attachment && f[i].member < 0 && f[i].view->was_used)
			return REFUSE(e, FORGE_E_SPREAD,
				      "%s is no memory node of this cache, and was used as one of "
				      "its own: leave it out; or, if what it holds may be "
				      "forgotten, add it with 'forge spread --set --force', or "
				      "replace it alone by an empty one, with 'forge node --size "
				      "SIZE --force'",
				      f[i].name);
		for (uint32_t j = 0; j < i; j++)
			if (f[i].member >= 0 && f[i].member == f[j].member)
				return REFUSE(e, FORGE_E_SPREAD,
					      "%s and %s are the same member of the cache: name "
					      "each memory node once",
					      f[j].name, f[i].name);
	}
	if (c->name_count > r->member_count)
		return REFUSE(e, FORGE_E_SPREAD,
			      "the cache lies on %u memory node%s, %u are named: leave out those "
			      "that are none "
			      "('forge spread' shows them), or add them with 'forge spread --set'",
			      r->member_count, r->member_count == 1 ? "" : "s", c->name_count);
	if (c->name_count < r->member_count)
		return REFUSE(
		    e, FORGE_E_SPREAD,
		    "the cache lies on %u memory nodes, %u %s named: name all of them, "
		    "separated by commas ('forge spread' shows them), or change them with "
		    "'forge spread --set'",
		    r->member_count, c->name_count, c->name_count == 1 ? "is" : "are");
	return 0;
}

static int check_half(const struct client *c, const struct found *f, const struct spread_record *r,
		      struct error_out *e)
{
	uint32_t reached = 0;

	for (uint32_t i = 0; i < c->name_count; i++)
		reached += f[i].member >= 0;
	for (uint32_t i = 0; reached < (r->member_count + 1) / 2 && i < c->name_count; i++)
		if (!f[i].attachment)
			return REFUSE(e, FORGE_E_NODE,
				      "%u of the %u memory nodes can be reached, at least half "
				      "are needed: %s",
				      reached, r->member_count, f[i].why);
	return 0;
}

/*
 * A new pool takes the place of the member that had its name, if that is nobody else here.  Under
 * another name it does not: somebody with another list might still use the one it stands for.
 */
static int adopt(const struct client *c, struct found *f, uint32_t i, const struct spread_record *r,
		 struct error_out *e)
{
	int member = spread_record_named(r, c->places[i]);

	for (uint32_t j = 0; j < c->name_count && member >= 0; j++)
		if (f[j].member == member)
			member = -1;
	if (member < 0)
		return REFUSE(e, FORGE_E_SPREAD,
			      "%s is new, and no memory node of the cache had this name: put "
			      "it in the place of a lost one with 'forge spread --set --lost'",
			      f[i].name);
	struct attachment *a = f[i].attachment;
	int status = spread_join(&a->worker, &a->pool, r, r->member[member].id, f[i].view);

	if (status)
		return REFUSE(e, status, "%s: joining the cache: %s", f[i].name,
			      status_sentence(status));
	log_info("%s: new, in place of a memory node that was lost", f[i].name);
	f[i].member = member;
	return 0;
}

static int check_spread(struct client *c, struct found *f, const struct found *first,
			struct error_out *e)
{
	int status = 0;

	c->newest->record = *first->view->record;
	for (uint32_t i = 0; i < c->name_count && !status; i++) {
		if (!f[i].attachment || !f[i].view->epoch)
			continue;
		status = check_same(first, &f[i], e);
		f[i].member = spread_record_find(&c->newest->record, f[i].view->member);
	}
	if (!status)
		status = check_list(c, f, &c->newest->record, e);
	for (uint32_t i = 0; i < c->name_count && !status; i++)
		if (f[i].attachment && f[i].member < 0)
			status = adopt(c, f, i, &c->newest->record, e);
	return status ? status : check_half(c, f, &c->newest->record, e);
}

/* ---- forming it --------------------------------------------------------------------------- */

/* Two names may stand for one node. */
static int check_names(const struct client *c, const struct found *f, struct error_out *e)
{
	for (uint32_t i = 0; i < c->name_count; i++)
		for (uint32_t j = 0; j < i; j++)
			if (f[i].attachment && f[j].attachment &&
			    f[i].attachment->pool.pool_id == f[j].attachment->pool.pool_id)
				return REFUSE(e, FORGE_E_SPREAD,
					      "%s and %s are the same memory node: name it once",
					      f[j].name, f[i].name);
	return 0;
}

static int form(struct client *c, struct found *f, struct error_out *e)
{
	struct spread_member members[SPREAD_NODES_MAX];
	const char *names[SPREAD_NODES_MAX];
	const struct spread_wish wish = {
	    .epoch = 1, .members = members, .names = names, .count = c->name_count};
	int status = check_names(c, f, e);

	if (status)
		return status;

	for (uint32_t i = 0; i < c->name_count; i++) {
		if (!f[i].attachment)
			return REFUSE(e, FORGE_E_NODE, "%s", f[i].why);
		if (f[i].view->was_used)
			return REFUSE(
			    e, FORGE_E_SPREAD,
			    "%s was used as a cache of its own: join the memory nodes with "
			    "'forge spread --set', which says what becomes of it",
			    f[i].name);
		members[i] = (struct spread_member){
		    f[i].attachment->pool.pool_id,
		    spread_weight(f[i].attachment->pool.plan.pool_bytes),
		    c->places[i],
		};
		names[i] = c->texts[i];
	}
	if (spread_record_make(&c->newest->record, &wish))
		return REFUSE(e, FORGE_E_SPREAD,
			      "two of the names are of the same pool: name each "
			      "memory node once");
	for (uint32_t i = 0; i < c->name_count && !status; i++) {
		struct attachment *a = f[i].attachment;

		status =
		    spread_join(&a->worker, &a->pool, &c->newest->record, members[i].id, f[i].view);
		if (status == FORGE_E_AGAIN)
			snprintf(
			    e->text, e->bytes,
			    "%s: somebody else uses it with other memory nodes at this moment: "
			    "agree on them, and form the cache with 'forge spread --set --force'",
			    f[i].name);
		else if (status)
			snprintf(e->text, e->bytes, "%s: joining the cache: %s", f[i].name,
				 status_sentence(status));
		f[i].member = spread_record_find(&c->newest->record, members[i].id);
	}
	return status;
}

/* Reach all of them; of several mistakes the first in the list is told. */
static int find_all(struct client *c, struct found *f, struct error_out *e)
{
	struct reach *nodes = calloc(c->name_count, sizeof(*nodes));
	uint32_t n = 0;
	int status = 0;

	if (!nodes)
		return REFUSE(e, FORGE_E_NO_MEMORY, "%s", status_sentence(FORGE_E_NO_MEMORY));
	for (uint32_t i = 0; i < c->name_count; i++)
		if (!f[i].is_tried)
			nodes[n++].name = f[i].name;
	if (n)
		reach_all(&c->options, nodes, n);
	for (uint32_t i = 0, at = 0; i < c->name_count; i++) {
		if (f[i].is_tried)
			continue;
		int why = take(c, &f[i], &nodes[at++], status ? &(struct error_out){NULL, 0} : e);

		status = status ? status : why;
	}
	free(nodes);
	return status;
}

/* What they say now, together. */
static int judge_all(struct client *c, struct found *f, struct error_out *e)
{
	int status = 0;

	for (uint32_t i = 0; i < c->name_count && !status; i++) {
		f[i].member = -1;
		if (!f[i].attachment)
			continue;
		status = judge(&f[i], e);
		/* Lost since it was reached: the others may be enough. */
		if (status == FORGE_E_NODE && c->name_count > 1) {
			snprintf(f[i].why, sizeof(f[i].why), "%s", e->text);
			attachment_drop(f[i].attachment);
			f[i].attachment = NULL;
			status = 0;
		}
	}
	if (!status)
		status = check_belongs(c, f, e);
	if (status)
		return status;
	for (uint32_t i = 0; i < c->name_count; i++)
		if (f[i].attachment && f[i].view->epoch)
			return check_spread(c, f, &f[i], e);
	return form(c, f, e);
}

/*
 * Others may be forming it meanwhile, and were seen half-way: then some nodes still say that they
 * are nobody's, and a moment later they do not.
 */
static int is_half_way(const struct client *c, const struct found *f, int status)
{
	int nobodys = 0, somebodys = 0;

	for (uint32_t i = 0; i < c->name_count; i++) {
		nobodys += f[i].attachment && f[i].view->epoch == 0;
		somebodys += f[i].attachment && f[i].view->epoch != 0;
	}
	return (status == FORGE_E_AGAIN || status == FORGE_E_SPREAD) && nobodys && somebodys;
}

static int find_spread(struct client *c, struct found *f, struct error_out *e)
{
	const struct timespec nap = {.tv_nsec = CLAIM_NAP_NS};
	int status = find_all(c, f, e);
	uint32_t reached = 0;

	for (uint32_t i = 0; i < c->name_count; i++)
		reached += f[i].attachment != NULL;
	if (!status && reached == 0)
		status = REFUSE(e, FORGE_E_NODE, "none of the %u memory nodes can be reached: %s",
				c->name_count, f[0].why);
	if (status)
		return status;
	if (c->name_count == 1) {
		status = judge(&f[0], e);
		if (status)
			return status;
		if (!f[0].view->epoch) {
			f[0].member = 0;
			return 0;
		}
	}
	status = judge_all(c, f, e);
	for (unsigned i = 0; i < HALF_WAY_LOOKS_MAX && is_half_way(c, f, status); i++) {
		nanosleep(&nap, NULL);
		status = judge_all(c, f, e);
	}
	return status;
}

/* The slots are in the order of the record. */
static void make_map(struct client *c)
{
	for (uint32_t i = 0; i < SPREAD_NODES_MAX; i++)
		c->newest->slot[i] = (uint8_t)i;
	map_fill(c->newest);
	atomic_store(&c->is_shifting, c->newest->member_count > 1);
	atomic_store_explicit(&c->present, c->newest, memory_order_release);
}

/* ---- joining them ------------------------------------------------------------------------- */

/* What programs ask about all of the cache: the first member's, but for the narrowest limit. */
static void note_pool(struct client *c, const struct attachment *a)
{
	uint64_t now_ns = clock_now_ns(clock_monotonic());
	int is_first = !c->policy;

	if (is_first || plan_value_limit(&a->pool.plan) < plan_value_limit(&c->pool.plan))
		c->pool = a->pool;
	if (!is_first)
		return;
	c->policy = a->policy;
	c->cn = a->cn.member.cn;
	c->time_base_ms = cn_pool_ms(&a->cn, now_ns) - now_ns / 1000000u;
}

static int join_member(struct client *c, struct found *f, struct error_out *e)
{
	struct member *m = &c->members[f->member];
	struct attachment *a = f->attachment;
	char why[REACH_WHY_BYTES];
	int status = attachment_join(a, c->newest->epoch, why, sizeof(why));

	m->name = f->name;
	if (status == FORGE_E_NODE && c->name_count > 1) {
		log_warn("%s: the memory node is lost; going on without it", f->name);
		return 0;
	}
	if (status && c->name_count > 1)
		return REFUSE(e, status, "%s: %s", f->name, why);
	if (status)
		return REFUSE(e, status, "%s", why);
	f->attachment = NULL;
	member_came(c, m, a);
	note_pool(c, a);
	return 0;
}

static int join_all(struct client *c, struct found *f, struct error_out *e)
{
	int status = 0;

	make_map(c);
	for (uint32_t i = 0; i < c->newest->member_count; i++)
		c->members[i].pause_ns = 1000000000u;
	for (uint32_t i = 0; i < c->name_count && !status; i++) {
		if (f[i].attachment)
			status = join_member(c, &f[i], e);
		else
			log_warn("%s; going on without it", f[i].why);
	}
	if (!status && atomic_load(&c->up_count) == 0)
		status = REFUSE(e, FORGE_E_NODE, "no memory node of the cache can be reached");
	return status;
}

/* A list that is not what the record says is replaced by the record's (list.h). */
static int find(struct client *c, struct found **f, struct error_out *e)
{
	int status = find_spread(c, *f, e), is_other = 0;

	for (unsigned i = 0; i < RELISTS_MAX; i++) {
		int is_enough = status == 0;

		if (!is_enough && status != FORGE_E_SPREAD && status != FORGE_E_INVAL)
			break;
		const struct spread_record *r = list_record(c, *f);

		if (!r)
			break;
		status = list_replace(c, f, r, e->text, e->bytes);
		if (status)
			return is_enough && status == FORGE_E_SPREAD ? 0 : status;
		is_other |= !is_enough;
		status = find_spread(c, *f, e);
	}
	if (!status && is_other)
		log_warn(
		    "%s: the cache lies on other memory nodes than were named: going on with "
		    "the %u of its record, of epoch %u; name those ('forge spread' shows them)",
		    c->names[0], c->name_count, (unsigned)c->newest->record.epoch);
	return status;
}

int members_open(struct client *c, const char *list, char *error_text, size_t error_bytes)
{
	struct error_out e = {error_text, error_bytes};
	int status = list_take(c, list, error_text, error_bytes);

	if (status)
		return status;
	struct found *f = list_found(c);

	c->newest = map_create();
	if (!f || !c->newest) {
		free(f);
		return REFUSE(&e, FORGE_E_NO_MEMORY, "%s", status_sentence(FORGE_E_NO_MEMORY));
	}
	status = find(c, &f, &e);
	if (!status)
		status = join_all(c, f, &e);
	list_found_free(c, f);
	list_settle(c);
	return status;
}

void members_close(struct client *c)
{
	for (uint32_t i = 0; i < SPREAD_NODES_MAX; i++) {
		attachment_drop(member_now(&c->members[i]));
		refused_clear(&c->members[i].refused);
	}
	while (c->dialled) {
		struct dialled *d = c->dialled;

		c->dialled = d->next;
		free(d);
	}
	map_drop(c->newest);
	list_free(c);
}
