/*
 * follow.c: going on when the memory nodes of the cache were changed under a running client.
 *
 * The mender's thread does all of it: operations only find out that their map is not the present
 * one, and wait until there is one.  doc/nodes.md has it for users.
 *
 * The argument.  `forge spread` claims every node, old and new, WRITEs the next record to each,
 * raises the epoch in each node's fence, waits until no operation can start by the old epoch any
 * more (pool/spread.h), and only then takes its claims back.
 *
 * Who competes: while fences are raised one by one, an operation of the old epoch at the old owner
 * of a key, which has not been raised, and one of the new epoch at the new owner.  If both were
 * done, the first could miss what the second stored and return an older value.  So nobody begins
 * by the new map before the claims are gone: follow() believes a record when at least half of its
 * members say it, none of those with a claim.  Any one without a claim proves that all fences were
 * raised and the time is over; half of them, that no later record has left them all behind, for a
 * change has to reach more than half (members.c).
 *
 * Who wins: the fence.  An operation says by which epoch it was led, in the same step in which it
 * takes its sample (cache_begin()), and that epoch is its map's, not its client's or attachment's.
 * So whichever thread takes whichever map when, a map is used only at nodes that are of its epoch.
 * That is also why a slot may be given to another member at once: who is led there by an old map
 * is refused there.
 *
 * What the loser sees: FORGE_E_SPREAD at the beginning of an operation, where nothing has been done
 * yet; so the view waits for the map and does it again, led anew.  An operation that began before
 * overlaps with the change, and takes its place before all that begins after it: what it leaves at
 * the old owner is out of everybody's sight, and over if the partition ever comes back there.
 *
 * From the first such answer on no operation of this client begins by the old map at any member,
 * also not at one that would still permit it: that may be one that the change could not reach.
 *
 * New members are reached after the map is there, beside the operations on all others; until then
 * what is sought there is a miss, for nothing is there that was anywhere before, and a change
 * waits.  A client that dies at whatever point leaves a compute node that is taken back as always;
 * it writes nothing here.  A `forge spread` that dies leaves claims: then operations end with
 * FORGE_E_SPREAD after a while, and go on when it was repeated.
 *
 * A name in a record is not believed any more than dial.c says, and what is there is used only if
 * it says itself that it is that member, of that record (mend.c).
 */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/log.h"
#include "client/inside.h"

/* Newer records found while looking for members of one. */
#define RESTARTS_MAX 4u

struct looking {
	struct client *client;
	struct spread_view view;
	struct spread_record record; /* the newest that was seen; epoch 0: none */
	const char *name;	     /* whose it is */
	char text[512];		     /* what went wrong last */
};

static uint64_t now_ns(void)
{
	return clock_now_ns(clock_monotonic());
}

void client_outdate(struct client *c, const struct map *map, uint32_t slot)
{
	pthread_mutex_lock(&c->lock);
	int is_news = map && atomic_load_explicit(&c->present, memory_order_relaxed) == map;

	if (is_news) {
		atomic_store(&c->outdated_ns, now_ns());
		atomic_store_explicit(&c->present, NULL, memory_order_release);
		c->told = slot;
		c->look_pause_ns = 0;
		/* Whoever it waits for may be a node that is frozen. */
		if (c->is_trying)
			cancel_fire(&c->cancel);
		mend_wake(c);
	}
	pthread_mutex_unlock(&c->lock);
	if (is_news && mend_start(c))
		log_error("no thread can be started that would find out who the memory nodes are");
}

int client_is_patient(const struct client *c)
{
	return now_ns() - atomic_load(&c->outdated_ns) < FOLLOW_PATIENCE_NS;
}

/* ---- looking ------------------------------------------------------------------------------ */

/* What a node says, over a connection of its own. */
static int look_at(struct looking *l, const char *name)
{
	struct client *c = l->client;
	struct link *link;
	struct fab *fab = NULL;
	struct worker w;
	struct pool pool;
	int status = link_open_with(name, LINK_LAZY | LINK_READ_ONLY, c->options.access, &c->cancel,
				    &link, l->text, sizeof(l->text));

	if (status)
		return status;
	status = link_connect(link, &fab);
	if (!status) {
		worker_init(&w, fab, clock_monotonic(), c->options.seed);
		status = pool_open(&w, &pool, l->text, sizeof(l->text));
		if (!status)
			status = spread_read(&w, &pool, &l->view);
	}
	fab_close(fab);
	link_close(link);
	return status;
}

int follow_is_ours(const struct client *c, const struct spread_record *r)
{
	const struct map *m = c->newest;

	return m->epoch ? r->id == m->record.id : r->kept && r->kept == c->members[0].pool_id;
}

/* Is what was looked at a record to go by, and not older than any other? */
static int take_record(struct looking *l, const char *name)
{
	const struct map *m = l->client->newest;
	const struct spread_record *r = l->view.record;

	if (!r || r->epoch < m->epoch || r->epoch < l->record.epoch)
		return FORGE_E_AGAIN;
	if (!follow_is_ours(l->client, r)) {
		snprintf(l->text, sizeof(l->text),
			 "it is a memory node of another cache now: open the cache anew");
		return FORGE_E_SPREAD;
	}
	l->record = *r;
	l->name = name;
	return 0;
}

/* The one that told first, then the others that are up, then those that were lost. */
static int look_for_record(struct looking *l)
{
	struct client *c = l->client;
	uint32_t end = c->newest->slot_end;
	int status = FORGE_E_NODE, first = 0;

	for (uint32_t n = 0; n < 2 * end && status; n++) {
		uint32_t slot = (c->told + n) % end;
		const struct member *m = &c->members[slot];

		if (!map_has(c->newest, slot) || !m->name || (member_now(m) != NULL) != (n < end))
			continue;
		status = look_at(l, m->name);
		if (!status)
			status = take_record(l, m->name);
		if (!first)
			first = status;
		if (status == FORGE_E_SPREAD || cancel_is_fired(&c->cancel))
			break;
	}
	return status ? first ? first : status : 0;
}

/* ---- names -------------------------------------------------------------------------------- */

/*
 * How to reach a member of the record: by the name it was reached by, by the list's, or by the
 * record's.  NULL: it is not known.
 */
static const char *name_of(struct looking *l, uint32_t member)
{
	struct client *c = l->client;
	const struct spread_record *r = &l->record;
	uint32_t slot = map_id_slot(c->newest, r->member[member].id);

	if (slot != MAP_NOWHERE && c->members[slot].name)
		return c->members[slot].name;
	for (uint32_t i = 0; i < c->name_count; i++)
		if (c->places[i] == r->member[member].name)
			return c->names[i];
	return dial_name(c, r, member);
}

/* ---- do half of them agree? --------------------------------------------------------------- */

/* 1: it is the member and says the same; 0: it does not; less: a claim, or a newer record. */
static int confirms(struct looking *l, uint32_t member)
{
	const char *name = name_of(l, member);

	if (!name || look_at(l, name) || !l->view.record ||
	    !follow_is_ours(l->client, l->view.record))
		return 0;
	if (l->view.record->epoch > l->record.epoch) {
		take_record(l, name);
		return FORGE_E_SPREAD;
	}
	if (l->view.claim)
		return FORGE_E_AGAIN;
	return l->view.member == l->record.member[member].id &&
	       spread_record_same(l->view.record, &l->record);
}

static int is_up(const struct client *c, uint64_t id)
{
	uint32_t slot = map_id_slot(c->newest, id);

	return slot != MAP_NOWHERE && member_now(&c->members[slot]);
}

/* Those that are up first, for others may be waited for in vain. */
static int confirm(struct looking *l)
{
	const struct spread_record *r = &l->record;
	uint32_t n = 0;

	for (unsigned pass = 0; pass < 2; pass++)
		for (uint32_t i = 0; i < r->member_count && 2 * n < r->member_count; i++) {
			if (is_up(l->client, r->member[i].id) != (pass == 0))
				continue;
			int answer = confirms(l, i);

			if (answer < 0)
				return answer;
			if (cancel_is_fired(&l->client->cancel))
				return FORGE_E_AGAIN;
			n += (uint32_t)answer;
		}
	return 2 * n >= r->member_count ? 0 : FORGE_E_NODE;
}

/* ---- the new map -------------------------------------------------------------------------- */

/* Where each member of the record is: where it was, or where nobody of the record is. */
static void give_slots(const struct client *c, struct map *m)
{
	const struct map *old = c->newest;
	uint64_t taken = 0;

	for (uint32_t i = 0; i < m->record.member_count; i++) {
		uint64_t id = m->record.member[i].id;
		uint32_t slot = map_id_slot(old, id);

		if (!old->epoch && id == c->members[0].pool_id)
			slot = 0;
		m->slot[i] = (uint8_t)slot;
		if (slot != MAP_NOWHERE)
			taken |= UINT64_C(1) << slot;
	}
	for (uint32_t i = 0, slot = 0; i < m->record.member_count; i++) {
		if (m->slot[i] != MAP_NOWHERE)
			continue;
		while (taken >> slot & 1)
			slot++;
		m->slot[i] = (uint8_t)slot;
		taken |= UINT64_C(1) << slot;
	}
}

/* It has left; its attachment is the caller's to drop. */
static struct attachment *member_leave(struct client *c, struct member *m)
{
	struct attachment *a = member_now(m);

	if (a)
		atomic_fetch_sub(&c->up_count, 1);
	atomic_store_explicit(&m->now, NULL, memory_order_release);
	atomic_store(&m->is_arriving, 0);
	refused_clear(&m->refused);
	m->name = NULL;
	m->pool_id = m->line_id = 0;
	m->line = 0;
	return a;
}

static void member_arrives(struct member *m, const char *name)
{
	m->name = name;
	m->due_ns = 0;
	m->pause_ns = 0;
	m->arriving_until_ns = now_ns() + FOLLOW_PATIENCE_NS;
	/* One nobody knows how to reach is lost at once. */
	atomic_store(&m->is_arriving, name != NULL);
}

/* From now on operations are led by it. */
static void take_map(struct looking *l, struct map *m)
{
	struct attachment *left[SPREAD_NODES_MAX] = {0};
	struct client *c = l->client;
	struct map *old = c->newest;
	const char *names[SPREAD_NODES_MAX] = {0};
	uint64_t stay = 0;

	for (uint32_t i = 0; i < m->record.member_count; i++) {
		uint64_t id = m->record.member[i].id;

		if (map_id_slot(old, id) != MAP_NOWHERE ||
		    (!old->epoch && id == c->members[0].pool_id))
			stay |= UINT64_C(1) << m->slot[i];
		else
			names[i] = name_of(l, i);
	}
	pthread_mutex_lock(&c->lock);
	for (uint32_t slot = 0; slot < old->slot_end; slot++)
		if (map_has(old, slot) && !(stay >> slot & 1))
			left[slot] = member_leave(c, &c->members[slot]);
	for (uint32_t i = 0; i < m->record.member_count; i++)
		if (!(stay >> m->slot[i] & 1))
			member_arrives(&c->members[m->slot[i]], names[i]);
	if (m->member_count > 1)
		atomic_store(&c->is_shifting, 1);
	c->newest = m;
	atomic_store_explicit(&c->present, m, memory_order_release);
	pthread_mutex_unlock(&c->lock);
	for (uint32_t slot = 0; slot < SPREAD_NODES_MAX; slot++)
		attachment_drop(left[slot]);
	map_drop(old);
	log_info("%s: the memory nodes of the cache were changed; going on with %u, of epoch %u",
		 l->name, m->member_count, m->epoch);
}

/* It was a false alarm, or the record was read before: nothing has changed. */
static void keep_map(struct client *c)
{
	pthread_mutex_lock(&c->lock);
	atomic_store_explicit(&c->present, c->newest, memory_order_release);
	pthread_mutex_unlock(&c->lock);
}

static int take_record_over(struct looking *l)
{
	struct client *c = l->client;

	if (l->record.epoch == c->newest->epoch) {
		if (!spread_record_same(&l->record, &c->newest->record)) {
			snprintf(l->text, sizeof(l->text),
				 "its record of the memory nodes is another one of the same epoch");
			return FORGE_E_SPREAD;
		}
		keep_map(c);
		return 0;
	}
	struct map *m = map_create();

	if (!m)
		return FORGE_E_NO_MEMORY;
	m->record = l->record;
	give_slots(c, m);
	map_fill(m);
	take_map(l, m);
	return 0;
}

static int look(struct looking *l)
{
	int status = look_for_record(l);

	if (!status)
		status = confirm(l);
	for (unsigned i = 0; status == FORGE_E_SPREAD && l->record.epoch && i < RESTARTS_MAX; i++)
		status = confirm(l);
	return status ? status : take_record_over(l);
}

int follow(struct client *c)
{
	struct looking *l = calloc(1, sizeof(*l));

	if (!l)
		return FORGE_E_NO_MEMORY;
	l->client = c;
	int status = look(l);

	if (status && status != FORGE_E_AGAIN && !cancel_is_fired(&c->cancel))
		mend_say(c, l->name ? l->name : "the memory nodes were changed",
			 l->text[0] ? l->text : status_sentence(status));
	free(l);
	return status;
}
