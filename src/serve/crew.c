/* crew.c: looks, trials and verdicts. */
#include "serve/crew.h"

#include <string.h>

#include "base/compiler.h"

#define ROUND_PARTS 4u

static void begin_count(struct crew *c, uint64_t now_ns, const struct crew_work *work)
{
	c->since_ns = now_ns;
	memcpy(c->begun, work, c->max * sizeof(*work));
}

void crew_init(struct crew *c, unsigned min, unsigned max, uint64_t now_ns)
{
	*c = (struct crew){
	    .min = min,
	    .max = max,
	    .serving = max,
	    .settled = max,
	    .since_ns = now_ns,
	    .hold_ns = CREW_HOLD_MIN_NS,
	};
}

uint64_t crew_next_ns(const struct crew *c)
{
	return c->since_ns + (c->is_settling ? CREW_SETTLE_NS : CREW_LOOK_NS);
}

/* What has been done since begin_count(). */
static struct crew_sum count(const struct crew *c, uint64_t now_ns, const struct crew_work *work)
{
	struct crew_sum sum = {.ns = now_ns - c->since_ns};

	for (unsigned i = 0; i < c->max; i++) {
		sum.requests += work[i].requests - c->begun[i].requests;
		/* It cannot be read of a thread that has ended. */
		if (work[i].waited_ns > c->begun[i].waited_ns)
			sum.waited_ns += work[i].waited_ns - c->begun[i].waited_ns;
	}
	return sum;
}

static void add(struct crew_sum *to, const struct crew_sum *from)
{
	to->requests += from->requests;
	to->waited_ns += from->waited_ns;
	to->ns += from->ns;
}

static uint64_t rate(const struct crew_sum *sum)
{
	return (uint64_t)((double)sum->requests * 1e9 / (double)max_u64(sum->ns, 1));
}

/* Do so many workers wait for processors? */
static bool is_waiting(const struct crew_sum *sum, unsigned workers)
{
	return sum->waited_ns * 100 >= sum->ns * workers * CREW_WAITED_PERCENT;
}

/* Do several have a part of the requests that is not much less than their share? */
static bool is_shared(const struct crew *c, const struct crew_sum *sum,
		      const struct crew_work *work)
{
	unsigned n = 0;

	for (unsigned i = 0; i < c->max; i++)
		n += (work[i].requests - c->begun[i].requests) * 4 * c->settled > sum->requests;
	return n > 1;
}

/* ---- trials ------------------------------------------------------------------------------- */

/* As many as are settled, as tried, as tried, as settled: what grows or shrinks falls on both. */
static bool part_is_tried(unsigned part)
{
	return part % ROUND_PARTS == 2 || part % ROUND_PARTS == 3;
}

static void begin_part(struct crew *c, unsigned part)
{
	unsigned serving = part_is_tried(part) ? c->tried : c->settled;

	c->part = part;
	c->is_settling = serving != c->serving;
	c->serving = serving;
}

static void begin_trial(struct crew *c, unsigned tried)
{
	c->tried = tried;
	c->trials++;
	memset(c->sums, 0, sizeof(c->sums));
	begin_part(c, 1);
}

/* Or end it: as many serve as are settled. */
static void abandon(struct crew *c)
{
	c->part = 0;
	c->is_settling = false;
	c->serving = c->settled;
}

static bool more_win(const struct crew_sum *more, const struct crew_sum *fewer, unsigned workers)
{
	uint64_t of_more = rate(more), of_fewer = rate(fewer);

	if (more->requests + fewer->requests < CREW_REQUESTS_MIN)
		of_more = of_fewer;
	if (of_more * 100 >= of_fewer * (100 + CREW_GAIN_PERCENT))
		return true;
	return !is_waiting(more, workers) && of_more * (100 + CREW_GAIN_PERCENT) >= of_fewer * 100;
}

/* More answer enough, but by so little that it may be chance? */
static bool is_close(const struct crew_sum *more, const struct crew_sum *fewer)
{
	uint64_t of_more = rate(more) * 100, of_fewer = rate(fewer);

	return of_more >= of_fewer * (100 + CREW_GAIN_PERCENT) &&
	       of_more <= of_fewer * (100 + CREW_GAIN_PERCENT + CREW_DOUBT_PERCENT);
}

/* The next trial, if something has changed. */
static uint64_t soon_ns(const struct crew *c)
{
	return max_u64(c->hold_ns / 16, CREW_HOLD_MIN_NS);
}

/* Is there a verdict? */
static bool end_round(struct crew *c, uint64_t now_ns)
{
	bool tries_more = c->tried > c->settled, wins;
	const struct crew_sum *more = &c->sums[tries_more], *fewer = &c->sums[!tries_more];

	if (is_close(more, fewer) && c->part < ROUND_PARTS * CREW_ROUNDS_MAX)
		return false;
	wins = more_win(more, fewer, tries_more ? c->tried : c->settled) == tries_more;
	c->rate = rate(&c->sums[wins]);
	c->due_ns = now_ns + (wins ? soon_ns(c) : c->hold_ns);
	c->hold_ns = min_u64(2 * c->hold_ns, CREW_HOLD_MAX_NS);
	/* Further where it was better, else the other way. */
	c->prefers_more = tries_more == wins;
	if (wins)
		c->settled = c->tried;
	abandon(c);
	return true;
}

static void go_on_with_trial(struct crew *c, uint64_t now_ns, const struct crew_sum *sum)
{
	if (c->is_settling) {
		c->is_settling = false;
		return;
	}
	add(&c->sums[part_is_tried(c->part)], sum);
	if (c->part % ROUND_PARTS || !end_round(c, now_ns))
		begin_part(c, c->part + 1);
}

/* ---- looks -------------------------------------------------------------------------------- */

/* Another load than the one that was judged: the next trial need not wait so long. */
static void notice_change(struct crew *c, uint64_t now_ns, uint64_t now_rate)
{
	bool differs = now_rate > 2 * c->rate || c->rate > 2 * now_rate;

	c->looks_changed = differs ? c->looks_changed + 1 : 0;
	if (c->looks_changed < CREW_LOOKS_CHANGED)
		return;
	c->looks_changed = 0;
	c->rate = now_rate;
	c->due_ns = min_u64(c->due_ns, now_ns + soon_ns(c));
	c->hold_ns = max_u64(c->hold_ns / 4, CREW_HOLD_MIN_NS);
}

static void look(struct crew *c, uint64_t now_ns, const struct crew_sum *sum,
		 const struct crew_work *work)
{
	unsigned fewer = (unsigned)max_u64((c->settled + 1) / 2, c->min);
	bool tries_fewer =
	    fewer < c->settled && is_waiting(sum, c->settled) && is_shared(c, sum, work);
	bool tries_more = c->settled < c->max;

	notice_change(c, now_ns, rate(sum));
	if (now_ns < c->due_ns)
		return;
	if (tries_more && (c->prefers_more || !tries_fewer))
		begin_trial(c, (unsigned)min_u64(2 * c->settled, c->max));
	else if (tries_fewer)
		begin_trial(c, fewer);
}

unsigned crew_step(struct crew *c, uint64_t now_ns, const struct crew_work *work)
{
	struct crew_sum sum = count(c, now_ns, work);

	if (now_ns < crew_next_ns(c))
		return c->serving;
	if (sum.ns >= CREW_IDLE_NS) {
		abandon(c);
	} else if (c->part) {
		go_on_with_trial(c, now_ns, &sum);
	} else {
		look(c, now_ns, &sum, work);
	}
	begin_count(c, now_ns, work);
	return c->serving;
}
