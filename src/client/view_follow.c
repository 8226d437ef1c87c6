/*
 * view_follow.c: what a view does when the members of its cache were changed: it takes the client's
 * map, lets go of members that are gone, and does again what was led by the old one (follow.c).
 */
#include <time.h>

#include "client/inside.h"
#include "run/fiber_loop.h"

/* Between looks at whether there is a map again, where no other flow is waited for meanwhile. */
#define NAP_NS 100000

void place_tell_all(struct place *p, const struct worker *lead)
{
	if (!p->cache->tally.tells || atomic_load(&p->of->is_lost))
		return;
	p->cache->worker->wait = lead->wait;
	p->cache->worker->wait_context = lead->wait_context;
	tally_close(&p->cache->tally, p->cache->worker);
}

/* The session's own view tells with its seat. */
void view_let_go(struct view *v, const struct worker *lead)
{
	struct session *s = v->session;

	for (uint32_t i = 0; i < SPREAD_NODES_MAX; i++) {
		const struct attachment *now = member_now(&s->client->members[i]);

		if (v->places[i] && v->places[i]->of != now) {
			if (!v->is_own)
				place_tell_all(v->places[i], lead);
			place_close(v, i);
		}
		struct seat *seat = s->seats[i];

		if (seat && seat->of != now) {
			s->seats[i] = NULL;
			seat_drop(seat);
		}
	}
}

int view_holds_on(const struct view *v)
{
	for (uint32_t i = 0; i < SPREAD_NODES_MAX; i++)
		if (v->places[i] && v->places[i]->of != member_now(&v->session->client->members[i]))
			return 1;
	return 0;
}

int view_follow(struct view *v)
{
	struct client *c = v->session->client;

	if (likely(v->map && v->map == map_present(c)))
		return 0;
	struct map *m = map_hold_present(c);

	if (!m)
		return FORGE_E_SPREAD;
	map_drop(v->map);
	v->map = m;
	view_let_go(v, &v->lead);
	return 0;
}

/* A little: the other flows of the thread go on, or, if there are none, the other threads. */
static MAY_WAIT void nap(struct view *v)
{
	const struct timespec t = {.tv_nsec = NAP_NS};

	if (fiber_loop_of(&v->lead))
		flow_pause(&v->lead);
	else
		nanosleep(&t, NULL);
}

/*
 * Was nothing sent to a member that could not be reached?  Then the view has no place there.  It
 * may be there by now, or have left since the view took its map, or be one that is waited for.
 */
static int is_worth_a_wait(const struct view *v, uint32_t i)
{
	struct client *c = v->session->client;
	struct member *m = &c->members[i];

	return !v->places[i] &&
	       (v->map != map_present(c) || atomic_load(&m->is_arriving) || member_now(m));
}

/* Is what it waits for there? */
static int is_there(const struct view *v, uint32_t i, int is_node)
{
	struct client *c = v->session->client;
	const struct map *present = map_present(c);

	return present &&
	       (!is_node || v->map != present || !atomic_load(&c->members[i].is_arriving));
}

int view_again(struct view *v, uint32_t i, int *status, uint64_t *since_ns)
{
	struct client *c = v->session->client;
	int is_node = *status == FORGE_E_NODE;

	if (is_node ? !is_worth_a_wait(v, i) : *status != FORGE_E_SPREAD)
		return 0;
	if (!is_node)
		client_outdate(c, v->map, i);
	if (!*since_ns)
		*since_ns = clock_now_ns(v->lead.clock);
	for (;;) {
		if (clock_now_ns(v->lead.clock) - *since_ns >= FOLLOW_PATIENCE_NS)
			return 0;
		if (is_there(v, i, is_node))
			return 1;
		if (!map_present(c) && !client_is_patient(c))
			return 0;
		if (view_is_late(v)) {
			*status = FORGE_E_DEADLINE;
			return 0;
		}
		nap(v);
	}
}
