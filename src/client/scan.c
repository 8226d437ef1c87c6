/* scan.c: dealing the buckets of a page out to flows. */
#include "client/scan.h"

#include "cache/scan.h"
#include "layout/spread.h"

/* Flows at once: more would take memory and gain little. */
#define FLOWS_MAX 32u
/*
 * Buckets of a page: some for each flow, because all wait for the last one of a page; and few where
 * there is nothing to wait for, since the caller may want no more than the first keys.
 */
#define PAGE_BUCKETS	 256u
#define PAGE_BUCKETS_NOW 16u
/* Tries at a bucket that others keep changing. */
#define TRIES_MAX 100u

struct page {
	const struct scan *at;
	scan_fn each;
	void *context;
	uint32_t next, end; /* buckets that no flow has taken */
	unsigned running;   /* flows that take them */
	int status;	    /* the first error */
};

/* Who looks at a bucket. */
struct finder {
	const struct page *page;
	const struct view *view;
	uint64_t now_ms;
};

static void found(void *context, struct cache_key key, const struct cache_value *value)
{
	const struct finder *f = context;

	/* Others were left behind when the nodes were changed. */
	if (view_member_of(f->view, key) == f->page->at->member)
		f->page->each(f->page->context, key, value, f->now_ms);
}

static MAY_WAIT int scan_bucket_once(const struct page *p, struct view *v, uint32_t bucket)
{
	struct finder f = {.page = p, .view = v};
	struct cache *cache;
	int status = view_cache(v, p->at->member, &cache);

	/* It came back with another pool: the page is of one that is gone. */
	if (!status && cache->cn->pool->plan.bucket_count != p->at->bucket_count)
		return FORGE_E_AGAIN;
	if (!status) {
		f.now_ms = cache_pool_ms(cache);
		status = FORGE_E_AGAIN;
	}
	for (unsigned try = 0; try < TRIES_MAX && status == FORGE_E_AGAIN; try++)
		status = cache_scan_home(cache, bucket, found, &f);
	if (status == FORGE_E_NODE)
		view_lost(v, p->at->member);
	return status;
}

/* A memory node that has left meanwhile has no keys. */
static MAY_WAIT int scan_bucket(const struct page *p, struct view *v, uint32_t bucket)
{
	uint64_t since_ns = 0;
	int status;

	do {
		status = scan_bucket_once(p, v, bucket);
	} while (status && view_again(v, p->at->member, &status, &since_ns));
	if (status == FORGE_E_NODE && !client_is_member(session_client(v->session), p->at->member))
		return 0;
	return status;
}

static MAY_WAIT void scan_buckets(struct page *p, struct view *v)
{
	while (!p->status && p->next < p->end) {
		int status = scan_bucket(p, v, p->next++);

		if (status && !p->status)
			p->status = status;
	}
}

static MAY_WAIT void flow_main(struct flow *f)
{
	struct page *p = f->set->context;

	scan_buckets(p, f->view);
	p->running--;
	flows_put(f);
}

static void start_flows(struct page *p, struct flows *set)
{
	uint32_t most = (uint32_t)min_u64(p->end - p->next, FLOWS_MAX);

	while (set->loop && p->running < most) {
		struct flow *f = flows_take(set);

		if (!f)
			return;
		p->running++;
		if (flows_start(f, flow_main)) {
			p->running--;
			flows_put(f);
			return;
		}
	}
}

static MAY_WAIT int run_page(struct page *p, struct flows *set)
{
	void *context = set->context;

	set->context = p;
	start_flows(p, set);
	if (p->running == 0)
		scan_buckets(p, session_view(set->session));
	while (p->running > 0) {
		flows_turn(set);
		fiber_loop_wait(set->loop, FAB_SLEEP_NS);
	}
	set->context = context;
	return p->status;
}

_Static_assert(SPREAD_NODES_MAX <= 64, "a bit of a scan for each memory node");

/* On to the next node that is wanted. */
static void next_member(struct scan *s, struct client *c)
{
	uint32_t end = client_member_end(c);

	s->bucket = s->bucket_count = 0;
	do {
		s->member++;
	} while (s->member < end &&
		 (!client_is_member(c, s->member) || (s->only && !(s->only >> s->member & 1))));
}

/* One that has left is not lost. */
static void forget_leavers(struct scan *s, struct client *c)
{
	for (uint64_t left = s->lost; left; left &= left - 1)
		if (!client_is_member(c, (uint32_t)__builtin_ctzll(left)))
			s->lost &= ~(left & -left);
}

/* Those that live are done: say so, and begin with the others again. */
static int begin_with_lost(struct scan *s)
{
	*s = (struct scan){.member = (uint32_t)__builtin_ctzll(s->lost), .only = s->lost};
	return FORGE_E_NODE;
}

static MAY_WAIT int scan_buckets_of(struct scan *s, struct flows *set, scan_fn each, void *context)
{
	struct view *view = session_view(set->session);
	struct cache *cache;
	uint64_t since_ns = 0;
	int status;

	do {
		status = view_cache(view, s->member, &cache);
	} while (status && view_again(view, s->member, &status, &since_ns));
	if (status == FORGE_E_NODE)
		view_lost(view, s->member);
	if (status)
		return status;
	uint32_t buckets = cache->cn->pool->plan.bucket_count;

	/* The node came back with another pool: what it has now is new. */
	if (s->bucket_count != buckets)
		s->bucket = 0;
	s->bucket_count = buckets;
	struct page p = {.at = s, .each = each, .context = context, .next = s->bucket};

	p.end = (uint32_t)min_u64(
	    buckets, s->bucket + (uint64_t)(set->loop ? PAGE_BUCKETS : PAGE_BUCKETS_NOW));
	status = run_page(&p, set);
	if (!status)
		s->bucket = p.end;
	return status;
}

int scan_page(struct scan *s, struct flows *set, scan_fn each, void *context)
{
	struct client *c = session_client(set->session);

	forget_leavers(s, c);
	if (s->member >= client_member_end(c))
		return s->lost ? begin_with_lost(s) : 0;
	if (!client_is_member(c, s->member)) {
		next_member(s, c);
		return 0;
	}
	int status = scan_buckets_of(s, set, each, context);

	if (status == FORGE_E_NODE && client_member_count(c) > 1) {
		s->lost |= UINT64_C(1) << s->member;
		next_member(s, c);
		return 0;
	}
	if (!status && s->bucket == s->bucket_count)
		next_member(s, c);
	return status;
}

int scan_is_over(const struct scan *s, struct client *c)
{
	return s->member >= client_member_end(c) && !s->lost;
}

double scan_progress(const struct scan *s, struct client *c)
{
	double here = s->bucket_count ? (double)s->bucket / s->bucket_count : 0;
	double done = (s->member + here) / client_member_end(c);

	return done < 1 ? done : 1;
}
