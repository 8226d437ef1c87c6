/*
 * How many of a server's workers serve, on loads that a model makes: what each number of them
 * answers and how long it waits for processors is given, and what matters is how many serve in the
 * end, how soon, and how much of the time is spent on trying.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "base/compiler.h"
#include "base/prng.h"
#include "serve/crew.h"

#define WORKERS_MAX 16u
#define MS	    UINT64_C(1000000)
#define SECOND	    (1000 * MS)
/* How often a worker's loop turns, and so how exactly a look comes when it is due. */
#define TURN_NS (MS / 4)

/* With so many workers. */
struct going {
	uint64_t rate;		 /* requests a second, of all */
	unsigned waited_percent; /* of the time of each */
};

struct model {
	struct crew crew;
	struct crew_work work[WORKERS_MAX];
	struct going going[WORKERS_MAX + 1];
	unsigned noise_percent; /* by which what is answered in a millisecond is off, either way */
	unsigned busy;		/* workers that have connections; 0: all that serve */
	uint64_t now_ns;
	uint64_t ns_at[WORKERS_MAX + 1]; /* how long so many served */
	struct prng prng;
};

static void begin(struct model *m, unsigned min, unsigned max)
{
	memset(m, 0, sizeof(*m));
	m->now_ns = 7 * SECOND;
	prng_seed(&m->prng, 1);
	crew_init(&m->crew, min, max, m->now_ns);
}

static void go(struct model *m, unsigned workers, uint64_t rate, unsigned waited_percent)
{
	m->going[workers] = (struct going){rate, waited_percent};
}

static void turn(struct model *m)
{
	unsigned serving = m->crew.serving, busy = m->busy ? m->busy : serving;
	const struct going *g = &m->going[serving];
	uint64_t percent = 100 - m->noise_percent + prng_below(&m->prng, 2 * m->noise_percent + 1);

	m->now_ns += TURN_NS;
	m->ns_at[serving] += TURN_NS;
	for (unsigned i = 0; i < busy; i++) {
		m->work[i].requests += g->rate * TURN_NS / SECOND * percent / 100 / busy;
		m->work[i].waited_ns += TURN_NS * g->waited_percent / 100;
	}
	if (m->now_ns >= crew_next_ns(&m->crew))
		crew_step(&m->crew, m->now_ns, m->work);
	assert_in_range(m->crew.serving, m->crew.min, m->crew.max);
}

static void run(struct model *m, uint64_t ns)
{
	memset(m->ns_at, 0, sizeof(m->ns_at));
	for (uint64_t end_ns = m->now_ns + ns; m->now_ns < end_ns;)
		turn(m);
}

/* Two workers and a client on two processors. */
static void go_scarce(struct model *m)
{
	go(m, 1, 200000, 2);
	go(m, 2, 165000, 23);
}

/* The same with pipelines: a client does little for a request. */
static void go_scarce_with_pipelines(struct model *m)
{
	go(m, 1, 1600000, 2);
	go(m, 2, 1900000, 30);
}

static void all_serve_while_there_are_processors(void **state)
{
	struct model m;

	begin(&m, 1, 4);
	/* Whatever fewer would do. */
	go(&m, 1, 900000, 0);
	go(&m, 2, 900000, 0);
	go(&m, 4, 300000, 9);
	run(&m, 60 * SECOND);
	assert_int_equal(m.crew.trials, 0);
	assert_int_equal(m.ns_at[4], 60 * SECOND);
}

static void fewer_serve_where_they_answer_more(void **state)
{
	struct model m;

	begin(&m, 1, 2);
	go_scarce(&m);
	run(&m, 60 * MS);
	assert_int_equal(m.crew.serving, 1);
	/* It is tried again whether two are better, ever more rarely. */
	run(&m, SECOND);
	assert_true(m.ns_at[2] < SECOND / 10);
	run(&m, 60 * SECOND);
	assert_int_equal(m.crew.settled, 1);
	assert_true(m.ns_at[2] > 0);
	assert_true(m.ns_at[2] < 60 * SECOND / 200);
}

static void as_many_serve_as_answer_more(void **state)
{
	struct model m;

	begin(&m, 1, 2);
	go_scarce_with_pipelines(&m);
	run(&m, 60 * MS);
	assert_int_equal(m.crew.serving, 2);
	assert_int_equal(m.crew.trials, 1);
	run(&m, 60 * SECOND);
	assert_int_equal(m.crew.settled, 2);
	assert_true(m.ns_at[1] < 60 * SECOND / 200);
}

static void fewer_serve_where_more_answer_but_as_much(void **state)
{
	struct model m;

	begin(&m, 1, 2);
	go(&m, 1, 280000, 1);
	go(&m, 2, 285000, 20);
	run(&m, SECOND);
	assert_int_equal(m.crew.settled, 1);
}

static void another_load_is_judged_anew(void **state)
{
	struct model m;

	begin(&m, 1, 2);
	go_scarce(&m);
	run(&m, 60 * SECOND);
	assert_int_equal(m.crew.settled, 1);
	for (unsigned i = 0; i < 5; i++) {
		go_scarce_with_pipelines(&m);
		run(&m, 4 * SECOND);
		assert_int_equal(m.crew.settled, 2);
		assert_true(m.ns_at[1] < 4 * SECOND);
		go_scarce(&m);
		run(&m, 4 * SECOND);
		assert_int_equal(m.crew.settled, 1);
	}
}

/* The clients move to a host of their own. */
static void all_serve_again_when_there_are_processors(void **state)
{
	struct model m;

	begin(&m, 1, 2);
	go_scarce(&m);
	run(&m, 2 * SECOND);
	assert_int_equal(m.crew.settled, 1);
	go(&m, 1, 150000, 0);
	go(&m, 2, 150000, 1);
	run(&m, 4 * SECOND);
	assert_int_equal(m.crew.settled, 2);
	/* So little that nothing can be counted. */
	go_scarce(&m);
	run(&m, 2 * SECOND);
	assert_int_equal(m.crew.settled, 1);
	go(&m, 1, 4000, 0);
	go(&m, 2, 4000, 1);
	run(&m, 4 * SECOND);
	assert_int_equal(m.crew.settled, 2);
}

static void many_are_halved_and_doubled(void **state)
{
	struct model m;

	begin(&m, 3, 16);
	for (unsigned n = 1; n <= 16; n++)
		go(&m, n, n < 3 ? 900000 : 300000 - 10000 * n, 40);
	run(&m, 2 * SECOND);
	assert_int_equal(m.crew.settled, 3);
	for (unsigned n = 1; n <= 16; n++)
		go(&m, n, 100000 * n, 40);
	run(&m, 4 * SECOND);
	assert_int_equal(m.crew.settled, 16);
}

static void the_fewest_may_be_all(void **state)
{
	struct model m;

	begin(&m, 2, 2);
	go_scarce(&m);
	run(&m, 10 * SECOND);
	assert_int_equal(m.crew.trials, 0);
}

/* One connection, or several that happen to be one worker's: who else serves is the same. */
static void a_worker_by_itself_is_left_alone(void **state)
{
	struct model m;

	begin(&m, 1, 2);
	m.busy = 1;
	go(&m, 1, 20000, 60);
	go(&m, 2, 20000, 60);
	run(&m, 10 * SECOND);
	assert_int_equal(m.crew.trials, 0);
}

/* In a trial nobody has anything to do any more: it counts for nothing. */
static void silence_ends_a_trial(void **state)
{
	struct model m;

	begin(&m, 1, 2);
	go_scarce(&m);
	while (m.crew.part != 3)
		turn(&m);
	assert_int_equal(m.crew.serving, 1);
	m.now_ns += 3 * SECOND;
	assert_int_equal(crew_step(&m.crew, m.now_ns, m.work), 2);
	assert_int_equal(m.crew.part, 0);
	run(&m, 60 * MS);
	assert_int_equal(m.crew.settled, 1);
}

/* Each turn answers up to a third more or less than the model says. */
static void noise_does_not_matter(void **state)
{
	struct model m;

	begin(&m, 1, 2);
	m.noise_percent = 33;
	for (unsigned i = 0; i < 20; i++) {
		go_scarce(&m);
		run(&m, 30 * SECOND);
		assert_true(m.ns_at[2] < 30 * SECOND / 20);
		go_scarce_with_pipelines(&m);
		run(&m, 30 * SECOND);
		assert_true(m.ns_at[1] < 30 * SECOND / 20);
	}
}

/* A load that is another one all the time cannot be judged, but costs no more than this. */
static void a_load_that_changes_always_is_tried_for_a_part_of_the_time(void **state)
{
	struct model m;
	uint64_t trials;

	begin(&m, 1, 2);
	for (unsigned i = 0; i < 100; i++) {
		uint64_t times = i % 2 ? 1 : 5;

		go(&m, 1, 40000 * times, 2);
		go(&m, 2, 33000 * times, 23);
		run(&m, SECOND / 4);
	}
	trials = m.crew.trials;
	/* Four parts, with what connections take to find their worker. */
	assert_true(trials * (4 * CREW_LOOK_NS + 3 * CREW_SETTLE_NS + 7 * TURN_NS) <
		    25 * SECOND * 3 / 10);
	assert_int_equal(m.crew.settled, 1);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test(all_serve_while_there_are_processors),
	    cmocka_unit_test(fewer_serve_where_they_answer_more),
	    cmocka_unit_test(as_many_serve_as_answer_more),
	    cmocka_unit_test(fewer_serve_where_more_answer_but_as_much),
	    cmocka_unit_test(another_load_is_judged_anew),
	    cmocka_unit_test(all_serve_again_when_there_are_processors),
	    cmocka_unit_test(many_are_halved_and_doubled),
	    cmocka_unit_test(the_fewest_may_be_all),
	    cmocka_unit_test(a_worker_by_itself_is_left_alone),
	    cmocka_unit_test(silence_ends_a_trial),
	    cmocka_unit_test(noise_does_not_matter),
	    cmocka_unit_test(a_load_that_changes_always_is_tried_for_a_part_of_the_time),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
