/*
 * mend.c: members that are lost, and the thread that brings them back.
 *
 * The thread connects and attaches, so that no operation does; with several members, or with one
 * that is to be watched (client.h), it also looks whether the names of mapped pools still stand for
 * them, when the system says that they may not, and every 10 s for what it does not say
 * (shm_watch.c); else it runs only after a loss.  When the members were changed it finds out who
 * they are (follow.c), and does that before all else.
 *
 * The argument for what was refused (doc/nodes.md): a member is published by the store to `now`,
 * under the lock, when each key in its set of refused ones was deleted since it was added.  A
 * change that fails later finds it published, and its caller's thread deletes the key itself.
 *
 * Verbs of ours that were on the way when the connection was lost could land after those deletes.
 * They cannot once the id we had there was taken back, because that needs the proof that whoever
 * had it can post no more, and that what he posted has landed (pool/registry.h).  So that is waited
 * for; and if it does not come, the node is flushed: what lands later has an older generation.
 *
 * Whoever closes the client does not wait for a node that the thread waits for: everything it does
 * to reach one is cancelled (base/cancel.h).  Publishing and the beginning of the end are under the
 * lock, so an attachment is either published, and leaves in order, or was given up.
 */
#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "base/log.h"
#include "client/inside.h"
#include "pool/recover.h"

#define PAUSE_FIRST_NS UINT64_C(10000000)
#define PAUSE_LAST_NS  UINT64_C(2000000000)
/*
 * Looks at the names of pools: where the system tells when it is time to (shm_watch.c), for what it
 * does not tell; and where it tells nothing.
 */
#define LOOK_TOLD_NS   UINT64_C(10000000000)
#define LOOK_UNTOLD_NS UINT64_C(100000000)
/* Where no name is watched there is nothing to do until a member is lost. */
#define IDLE_NS UINT64_C(3600000000000)
/* Looks at the record of a change that is under way. */
#define LOOK_AGAIN_FIRST_NS UINT64_C(1000000)
#define LOOK_AGAIN_LAST_NS  UINT64_C(100000000)
/* How long to wait until our old id is taken back, and between looks. */
#define FENCE_NS     UINT64_C(1000000000)
#define FENCE_NAP_NS 10000000

static uint64_t now_ns(void)
{
	return clock_now_ns(clock_monotonic());
}

void mend_wake(struct client *c)
{
	if (c->is_mending)
		wake_ring(&c->wake);
}

/* ---- losing ------------------------------------------------------------------------------- */

static void lose(struct client *c, struct member *m, struct attachment *a, const char *why)
{
	const char *name = NULL;

	pthread_mutex_lock(&c->lock);
	if (member_now(m) == a) {
		name = m->name;
		atomic_store(&a->is_lost, 1);
		atomic_store_explicit(&m->now, NULL, memory_order_release);
		atomic_fetch_sub(&c->up_count, 1);
		atomic_fetch_add(&c->losses, 1);
		m->pool_id = a->pool.pool_id;
		m->line = a->cn.member.cn;
		m->line_id = a->cn.member.id;
		m->pause_ns = PAUSE_FIRST_NS;
		m->due_ns = now_ns() + PAUSE_FIRST_NS;
		mend_wake(c);
	}
	pthread_mutex_unlock(&c->lock);
	if (!name)
		return;
	log_warn("%s: the memory node is lost%s; trying to reach it again", name, why);
	if (mend_start(c))
		log_error("%s: no thread can be started that would reach it again", name);
	/*
	 * Sessions that have nothing to do hold it until their next call, and with it the id we had
	 * there: a node that was only frozen would not take that back in time (is_fenced()), and be
	 * flushed for it.
	 */
	link_end(a->link);
	attachment_drop(a);
}

void member_lose(struct client *c, struct member *m, struct attachment *a)
{
	lose(c, m, a, "");
}

struct attachment *member_hold(struct client *c, const struct member *m)
{
	client_lock(c);
	struct attachment *a = member_now(m);

	if (a)
		attachment_hold(a);
	client_unlock(c);
	return a;
}

int member_refuse(struct client *c, struct member *m, struct cache_key key)
{
	pthread_mutex_lock(&c->lock);
	int is_lost = !member_now(m);

	if (is_lost)
		refused_add(&m->refused, key);
	pthread_mutex_unlock(&c->lock);
	return is_lost;
}

int member_refuse_all(struct client *c, struct member *m)
{
	pthread_mutex_lock(&c->lock);
	int is_lost = !member_now(m);

	if (is_lost)
		refused_add_all(&m->refused);
	pthread_mutex_unlock(&c->lock);
	return is_lost;
}

void member_came(struct client *c, struct member *m, struct attachment *a)
{
	refused_clear(&m->refused);
	m->pool_id = a->pool.pool_id;
	atomic_fetch_add(&c->up_count, 1);
	atomic_store_explicit(&m->now, a, memory_order_release);
	atomic_store(&m->is_arriving, 0);
}

int mend_retire(struct client *c, struct seat *s)
{
	pthread_mutex_lock(&c->lock);
	int is_taken = c->is_mending;

	if (is_taken) {
		s->next = c->retired;
		c->retired = s;
		mend_wake(c);
	}
	pthread_mutex_unlock(&c->lock);
	return is_taken;
}

/* Not under the lock: it waits. */
static void leave_retired(struct client *c)
{
	pthread_mutex_lock(&c->lock);
	struct seat *s = c->retired;

	c->retired = NULL;
	pthread_mutex_unlock(&c->lock);
	while (s) {
		struct seat *next = s->next;

		seat_drain(s);
		s->users = 1;
		seat_drop(s);
		s = next;
	}
}

/* ---- coming back -------------------------------------------------------------------------- */

/* Was what we left there taken back, so that nothing of it can land any more? */
static int is_fenced(struct attachment *a, const struct member *m, const struct cancel *cancel)
{
	struct recover_report report = {0};
	uint32_t dead_count;
	uint64_t id;
	struct fab_op op =
	    fab_read(FAB_CONTROL, plan_registry_address(&a->pool.plan, m->line), &id, sizeof(id));
	const struct timespec nap = {.tv_nsec = FENCE_NAP_NS};

	for (uint64_t end = now_ns() + FENCE_NS; now_ns() < end;) {
		int status = recover_dead_open(&a->pool, &a->worker, link_liveness(a->link),
					       &report, &dead_count);

		if (!status)
			status = flow_run(&a->worker, &op, 1);
		if (status)
			return status;
		if (id != m->line_id)
			return 1;
		if (cancel_is_fired(cancel))
			return FORGE_E_AGAIN;
		nanosleep(&nap, NULL);
	}
	return 0;
}

static int bring_back(struct client *c, struct member *m, struct attachment *a, char *text,
		      size_t text_bytes)
{
	struct seat *seat = NULL;
	int was_ever_there = m->pool_id != 0, was_awaited = atomic_load(&m->is_arriving);
	int is_same = a->pool.pool_id == m->pool_id; /* else there is nothing of ours on the way */
	int is_late = 0, status = attachment_join(a, c->newest->epoch, text, text_bytes);

	if (!status && is_same && m->line_id) {
		status = is_fenced(a, m, &c->cancel);
		is_late = status == 0;
		if (is_late)
			member_refuse_all(c, m);
		status = status < 0 ? status : 0;
	}
	if (!status)
		status = seat_open(c, a, c->options.session_count, 0, NULL, &seat);
	if (!status)
		status = cache_count_in_pool(&seat->cache);
	if (!status)
		status = settle(c, m, seat);
	if (status == FORGE_E_NODE)
		atomic_store(&a->is_lost, 1);
	if (seat) {
		seat_drain(seat);
		seat_drop(seat);
	}
	if (status && !text[0])
		snprintf(text, text_bytes, "%s", status_sentence(status));
	if (!status) {
		atomic_fetch_add(&c->returns, !was_awaited);
		log_warn("%s: the memory node is %s", m->name,
			 is_late	  ? "back, and was flushed: what this process had sent it "
					    "before could still have landed"
			 : is_same	  ? "back, with what it had"
			 : was_ever_there ? "back, with another memory"
					  : "there");
	}
	return status;
}

/* Which lost member is it, if any?  *m, or why not. */
static int recognise(struct client *c, const char *name, struct attachment *a, struct member **m,
		     char *text, size_t text_bytes)
{
	struct spread_view *v = calloc(1, sizeof(*v));
	int status = v ? spread_read(&a->worker, &a->pool, v) : FORGE_E_NO_MEMORY;

	if (status)
		snprintf(text, text_bytes, "%s", status_sentence(status));
	else
		status = recognise_member(c, name, a, v, m, text, text_bytes);
	free(v);
	return status;
}

void mend_say(struct client *c, const char *name, const char *text)
{
	char line[sizeof(c->said)];

	snprintf(line, sizeof(line), "%s: %s", name, text);
	if (strcmp(line, c->said) != 0)
		log_info("%s", line);
	memcpy(c->said, line, sizeof(line));
}

static int try_name(struct client *c, const char *name)
{
	struct attachment *a;
	struct member *m;
	char text[512] = "";
	int status = attachment_open(name, &c->options, &c->cancel, &a, text, sizeof(text));

	if (!status) {
		status = recognise(c, name, a, &m, text, sizeof(text));
		if (!status)
			status = bring_back(c, m, a, text, sizeof(text));
		if (status)
			attachment_drop(a);
	}
	if (status && !cancel_is_fired(&c->cancel))
		mend_say(c, name, text);
	return status;
}

/* ---- the thread --------------------------------------------------------------------------- */

/* Between half of it and all of it, so that not all clients come at once; then twice as long. */
static void put_off(struct client *c, struct member *m)
{
	m->pause_ns = max_u64(m->pause_ns, PAUSE_FIRST_NS);
	m->due_ns = now_ns() + m->pause_ns / 2 + prng_u64(&c->prng) % (m->pause_ns / 2 + 1);
	m->pause_ns = min_u64(2 * m->pause_ns, PAUSE_LAST_NS);
}

/* A member whose time has come, put off; or NULL.  *due_ns is lowered to when the next one is. */
static struct member *take_due(struct client *c, uint64_t *due_ns)
{
	for (uint32_t i = 0; i < c->newest->slot_end; i++) {
		struct member *m = &c->members[i];

		if (!map_has(c->newest, i) || member_now(m))
			continue;
		if (m->due_ns <= now_ns()) {
			put_off(c, m);
			return m;
		}
		*due_ns = min_u64(*due_ns, m->due_ns);
	}
	return NULL;
}

/* By its name; one whose name is not known may be behind any that is nobody's. */
static int try_names(struct client *c, const struct member *m)
{
	int status = FORGE_E_NODE;

	if (m->name)
		return try_name(c, m->name);
	for (uint32_t i = 0; i < c->name_count && !member_now(m); i++)
		if (!recognise_is_known(c, c->names[i]))
			status = try_name(c, c->names[i]);
	return status;
}

/*
 * A new member is waited for: until it is there, or it is seen that it is not; not only because its
 * claim stands yet, or because this was given up for something that is more urgent.  Nor because
 * the map is old, of which it may be the first to tell: one that is in the next map as well is new
 * there, too.  That somebody else has told so cancels a try only once it is under way.
 */
static void try_member(struct client *c, struct member *m)
{
	int status = try_names(c, m);
	int goes_on = (status == FORGE_E_AGAIN || cancel_is_fired(&c->cancel) || !map_present(c)) &&
		      now_ns() < m->arriving_until_ns;

	if (status && goes_on && atomic_load(&m->is_arriving))
		m->due_ns = now_ns() + LOOK_AGAIN_FIRST_NS;
	else
		atomic_store(&m->is_arriving, 0);
}

int mend_watches_names(const struct client *c)
{
	const char *name = c->members[c->newest->only].name;

	return c->newest->member_count > 1 ||
	       (c->options.watch_name && name && !name_is_of_socket(name));
}

/* Does it not stand for its pool any more?  *pause_ns is lowered to when to look again. */
static int name_is_gone(struct client *c, struct attachment *a, uint64_t *pause_ns)
{
	if (!link_base(a->link))
		return 0;
	/* Watched first: what happens to the name from here on is told, or was before the look. */
	int is_told = link_watch(a->link, wake_names(&c->wake));

	*pause_ns = min_u64(*pause_ns, is_told ? LOOK_TOLD_NS : LOOK_UNTOLD_NS);
	return link_is_held(a->link, a->cn.member.cn) == FORGE_E_POOL_ABSENT;
}

/*
 * Mapped memory goes on when its name does not: then others use another pool of that name.  When to
 * look again, unless the system tells.
 */
static uint64_t look_at_names(struct client *c)
{
	uint64_t pause_ns = IDLE_NS;

	for (uint32_t i = 0; i < c->newest->slot_end && mend_watches_names(c); i++) {
		struct attachment *a = member_hold(c, &c->members[i]);

		if (!a)
			continue;
		if (name_is_gone(c, a, &pause_ns)) {
			lose(c, &c->members[i], a,
			     ", for its pool is gone or another has its name ('forge node' "
			     "with --size makes one)");
			pause_ns = 0;
		}
		attachment_drop(a);
	}
	return now_ns() + pause_ns;
}

/* Under the lock, which is given back meanwhile. */
static void sleep_until(struct client *c, uint64_t at_ns)
{
	uint64_t start_ns = now_ns();

	pthread_mutex_unlock(&c->lock);
	if (at_ns > start_ns)
		wake_wait(&c->wake, at_ns - start_ns);
	pthread_mutex_lock(&c->lock);
}

/* Find out who the members are.  0, or when to look again. */
static uint64_t look_again(struct client *c)
{
	int status = follow(c);

	if (!status)
		return 0;
	c->look_pause_ns = c->look_pause_ns ? min_u64(2 * c->look_pause_ns, LOOK_AGAIN_LAST_NS)
					    : LOOK_AGAIN_FIRST_NS;
	return now_ns() + c->look_pause_ns;
}

/* 0: at once; else when there is something to do again. */
static uint64_t do_next(struct client *c, struct member *m, uint64_t due_ns)
{
	if (!map_present(c))
		return look_again(c);
	if (m) {
		try_member(c, m);
		return 0;
	}
	return min_u64(due_ns, look_at_names(c));
}

static void *mend(void *argument)
{
	struct client *c = argument;

	pthread_mutex_lock(&c->lock);
	while (!c->is_closing) {
		int is_outdated = !map_present(c);
		uint64_t due_ns = UINT64_MAX;
		struct member *m = is_outdated ? NULL : take_due(c, &due_ns);

		c->is_trying = m != NULL;
		pthread_mutex_unlock(&c->lock);
		due_ns = do_next(c, m, due_ns);
		leave_retired(c);
		pthread_mutex_lock(&c->lock);
		c->is_trying = 0;
		if (!c->is_closing && cancel_is_fired(&c->cancel))
			cancel_reset(&c->cancel);
		if (due_ns && !c->is_closing && (is_outdated || map_present(c)) && !c->retired)
			sleep_until(c, due_ns);
	}
	pthread_mutex_unlock(&c->lock);
	return NULL;
}

static int start(struct client *c)
{
	sigset_t all, before;

	sigfillset(&all);
	if (cancel_open(&c->cancel))
		return FORGE_E_SYSTEM;
	if (!wake_open(&c->wake)) {
		pthread_sigmask(SIG_SETMASK, &all, &before);
		int failed = pthread_create(&c->mender, NULL, mend, c);

		pthread_sigmask(SIG_SETMASK, &before, NULL);
		if (!failed)
			return 0;
		wake_close(&c->wake);
	}
	cancel_close(&c->cancel);
	return FORGE_E_SYSTEM;
}

int mend_start(struct client *c)
{
	int status = 0;

	pthread_mutex_lock(&c->lock);
	if (!c->is_mending && !c->is_closing) {
		status = start(c);
		c->is_mending = !status;
	}
	pthread_mutex_unlock(&c->lock);
	return status;
}

void mend_stop(struct client *c)
{
	if (forked_since(c->forked_mark)) {
		if (c->is_mending) {
			wake_close(&c->wake);
			cancel_forget(&c->cancel);
		}
		return;
	}
	pthread_mutex_lock(&c->lock);
	c->is_closing = 1;
	if (c->is_mending)
		cancel_fire(&c->cancel);
	mend_wake(c);
	pthread_mutex_unlock(&c->lock);
	if (!c->is_mending)
		return;
	pthread_join(c->mender, NULL);
	leave_retired(c);
	c->is_mending = 0;
	wake_close(&c->wake);
	cancel_close(&c->cancel);
}
