/*
 * recoverers.c: several recover at once, and die at it; the memory node dies, too.
 *
 *	system_recoverers PROGRAM [ROUNDS]	PROGRAM: forge; 40 rounds by default
 *
 * Races: two or three of the compute nodes kill themselves right before random verbs.  Four
 * processes that are not compute nodes, new nodes that want to join, and in half of the rounds a
 * survivor under load recover all of them at the same time.  Some of the recoverers kill
 * themselves right before the n-th verb that changes memory, as often as it takes until one gets
 * through.  Then no line is a dead node's, and the pool is at rest.
 *
 * The memory node: `forge node` serves the pool, is killed by kill -9 under load and started
 * again, which must take the pool over as it is.  Compute nodes go on all the while (no processor
 * of the memory node works for them), with one more being killed now and then, and every value
 * they read is verified; nothing is lost, so the node started last finds the pool warm.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <inttypes.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/compiler.h"
#include "base/parse.h"
#include "base/prng.h"
#include "client/alive.h"
#include "client/link.h"
#include "herd.h"
#include "jitter.h"
#include "node/node.h"
#include "pool/recover.h"

#define NODES  4u
#define RACERS 6u
#define TRIES  200u

static const char *program;
static uint64_t rounds = 40;
static struct herd herd;

static const struct stress_wish small = {
    .policy = "forge",
    .chunks = 96,
    .group_objects = 8,
    .object_bytes = 80,
    .cn_max = NODES + RACERS,
    .nodes = NODES,
    .threads = 1,
    .ops = UINT64_MAX,
    .keys = 2000,
    .value_bytes_max = 120,
    .set_percent = 35,
    .delete_percent = 6,
    .jitter = 1,
    .seed = 1,
};

/* What the racers share. */
struct race {
	_Atomic uint32_t go;
	_Atomic uint64_t recovered; /* dead nodes, by whoever finished them */
	_Atomic uint64_t joined;
	_Atomic uint64_t doom[RACERS];
	struct recover_report report[RACERS]; /* of those who got through */
};

static struct race *race;

/* ---- racers ------------------------------------------------------------------------------- */

/* A process that recovers but has no compute node, as the memory node or a repair would. */
static int recover_as_stranger(const char *pool_name, unsigned number)
{
	struct shm_map *map;
	struct fab *fab, *below;
	struct worker worker;
	struct pool pool;
	struct alive *alive;
	char error[256];
	uint32_t dead_count;

	if (shm_map_open(pool_name, 0, error, sizeof(error), &map) ||
	    shm_open_connection(map, &below) || alive_open(pool_name, map, &alive))
		return 2;
	fab = jitter_open(below, number, &race->doom[number]);
	worker_init(&worker, fab, clock_monotonic(), number);
	if (pool_open(&worker, &pool, error, sizeof(error)))
		return 2;
	int status = recover_dead_open(&pool, &worker, alive_liveness(alive), &race->report[number],
				       &dead_count);

	atomic_fetch_add(&race->recovered, dead_count);
	alive_close(alive);
	fab_close(fab);
	fab_close(below);
	shm_map_close(map);
	return status ? 2 : 0;
}

static int recover_and_join(const char *pool_name)
{
	const struct client_options options = {.session_count = 1};
	struct client *client;
	char error[256];

	if (client_open(pool_name, &options, &client, error, sizeof(error))) {
		fprintf(stderr, "%s\n", error);
		return 2;
	}
	atomic_fetch_add(&race->joined, 1);
	client_close(client);
	return 0;
}

/* The last two join, the others do not. */
static pid_t start_racer(unsigned number)
{
	const char *pool_name = stress_pool_name(herd.s);

	fflush(NULL);
	pid_t pid = fork();

	assert_true(pid >= 0);
	if (pid)
		return pid;
	while (!atomic_load(&race->go))
		;
	_exit(number >= RACERS - 2 ? recover_and_join(pool_name)
				   : recover_as_stranger(pool_name, number));
}

static uint64_t cut_short, races;

/* All at once; whoever dies is started again.  0 when all got through in the end. */
static int race_once(struct prng *prng)
{
	pid_t pids[RACERS];
	int failed = 0;

	atomic_store(&race->go, 0);
	for (unsigned i = 0; i < RACERS; i++) {
		atomic_store(&race->doom[i], i % 2 ? 1 + prng_below(prng, 60) : 0);
		pids[i] = start_racer(i);
	}
	atomic_store(&race->go, 1);
	for (unsigned i = 0; i < RACERS; i++)
		for (unsigned try = 0;; try++) {
			int status;

			waitpid(pids[i], &status, 0);
			if (status == 0)
				break;
			if (!WIFSIGNALED(status) || WTERMSIG(status) != SIGKILL || try == TRIES) {
				print_error("recoverer %u: wait status %x\n", i, (unsigned)status);
				failed = -1;
				break;
			}
			cut_short++;
			/* The next one comes a little further, and once to the end. */
			atomic_store(&race->doom[i],
				     try % 4 < 3 ? 1 + prng_below(prng, 60 + 10 * try) : 0);
			pids[i] = start_racer(i);
		}
	races++;
	return failed;
}

/*
 * Who has died holds its line until somebody recovers it.  A survivor may be at it still; without
 * one it is done.
 */
static int nobody_is_dead(const struct herd_line *lines, unsigned count)
{
	for (unsigned i = 0; i < count; i++) {
		double ms;

		if (!lines[i].joined)
			continue;
		if (count == NODES && herd_line_stands(&herd, &lines[i])) {
			print_error("CN %u has not been recovered\n", lines[i].cn);
			return -1;
		}
		if (herd_recovered(&herd, &lines[i], herd_now_ns(), 0, &ms))
			return -1;
	}
	return 0;
}

static int race_round(struct prng *prng, uint64_t round)
{
	/* In every other round nobody survives, and the racers are alone. */
	unsigned dying = round % 2 ? NODES : 2 + (unsigned)prng_below(prng, NODES - 2);
	struct herd_line lines[NODES];

	if (herd_progress(&herd, 100))
		return -1;
	for (unsigned i = 0; i < dying; i++)
		lines[i] = herd_line_of(&herd, herd.pids[i]);
	for (unsigned i = 0; i < dying; i++)
		stress_doom(herd.s, i, 1 + prng_below(prng, 300));
	for (unsigned i = 0; i < dying; i++)
		if (herd_reap(&herd, i))
			return -1;
	if (race_once(prng) || nobody_is_dead(lines, dying) || herd_progress(&herd, 50) ||
	    herd_conserved(&herd))
		return -1;
	for (unsigned i = 0; i < dying; i++)
		herd_start(&herd, i);
	return 0;
}

static void run_races(const char *policy, uint64_t seed)
{
	struct stress_wish wish = small;
	struct prng prng;

	wish.policy = policy;
	wish.seed = seed;
	prng_seed(&prng, seed);
	cut_short = races = 0;
	atomic_store(&race->recovered, 0);
	int failed = herd_begin(&herd, &wish);

	/* Whether any recoverer dies is a matter of luck: 1 in 200 runs had none, so some more. */
	for (uint64_t round = 0;
	     (round < rounds || (cut_short == 0 && round < 4 * rounds)) && !failed; round++)
		failed = race_round(&prng, round);
	failed = failed || herd_progress(&herd, 200);
	uint64_t hits = herd_hits(&herd);

	failed = herd_end(&herd) || failed;
	print_message("%s: %" PRIu64 " races of %u, %" PRIu64 " recoverers killed, %" PRIu64
		      " nodes recovered by strangers, %" PRIu64 " joins; %" PRIu64
		      " verified hits\n",
		      policy, races, RACERS, cut_short, atomic_load(&race->recovered),
		      atomic_load(&race->joined), hits);
	assert_false(failed);
	assert_true(cut_short > 0);
	assert_true(atomic_load(&race->recovered) > 0);
}

static void test_races(void **state)
{
	run_races("forge", 1);
}

static void test_races_paper(void **state)
{
	run_races("forge-paper", 2);
}

/* ---- the memory node ---------------------------------------------------------------------- */

static int wait_until_served(int served)
{
	uint64_t start_ns = herd_now_ns();
	char error[256];

	while (link_probe(stress_pool_name(herd.s), error, sizeof(error)) != served) {
		if (herd_now_ns() - start_ns > HERD_STALL_S * UINT64_C(1000000000)) {
			print_error("the pool is%s served\n", served ? " not" : " still");
			return -1;
		}
		herd_sleep_us(500);
	}
	return 0;
}

static pid_t start_memory_node(void)
{
	fflush(NULL);
	pid_t pid = fork();

	assert_true(pid >= 0);
	if (pid)
		return pid;
	/* Not the test's output: its line is of no interest. */
	if (freopen("/dev/null", "w", stdout))
		execl(program, program, "node", "--pool", stress_pool_name(herd.s), "--keep",
		      (char *)NULL);
	_exit(2);
}

/* Has the node said so with a new epoch?  Served alone does not tell that it got so far. */
static uint64_t epoch_of_pool(void)
{
	uint64_t epoch = 0;
	struct fab_op op =
	    fab_read(FAB_CONTROL, offsetof(struct layout_superblock, epoch), &epoch, 8);

	assert_int_equal(flow_run(&herd.worker, &op, 1), 0);
	return epoch;
}

/* It raises the epoch when it takes over, some time after it has the lock. */
static int wait_until_raised(uint64_t before)
{
	uint64_t start_ns = herd_now_ns();

	while (epoch_of_pool() != before + 1) {
		if (herd_now_ns() - start_ns > HERD_STALL_S * UINT64_C(1000000000)) {
			print_error("the node did not raise the epoch\n");
			return -1;
		}
		herd_sleep_us(500);
	}
	return 0;
}

/* Kill the memory node at a random moment of its life, in its take-over too. */
static int kill_memory_node(struct prng *prng, int early)
{
	uint64_t epoch = epoch_of_pool();
	pid_t pid = start_memory_node();
	int status, failed = 0;

	if (early) {
		herd_sleep_us(prng_below(prng, 6000));
	} else {
		failed =
		    wait_until_served(1) || herd_progress(&herd, 200) || wait_until_raised(epoch);
	}
	kill(pid, SIGKILL);
	waitpid(pid, &status, 0);
	if (!failed && (!WIFSIGNALED(status) || WTERMSIG(status) != SIGKILL)) {
		print_error("the memory node ended with wait status %x\n", (unsigned)status);
		failed = -1;
	}
	return failed || wait_until_served(0) || herd_progress(&herd, 100) ? -1 : 0;
}

static int kill_compute_node(struct prng *prng)
{
	uint32_t victim = (uint32_t)prng_below(prng, NODES);

	kill(herd.pids[victim], SIGKILL);
	if (herd_reap(&herd, victim))
		return -1;
	herd_start(&herd, victim);
	return herd_progress(&herd, 50);
}

static int memory_nodes(struct prng *prng)
{
	int failed = herd_progress(&herd, 200);

	for (uint64_t round = 0; round < rounds && !failed; round++) {
		failed = kill_memory_node(prng, round % 2);
		if (!failed && round % 4 == 0)
			failed = kill_compute_node(prng);
		if (!failed)
			failed = herd_conserved(&herd);
	}
	return failed;
}

/* A node takes over what is there, and everything in it is there. */
static int last_is_warm(void)
{
	struct node_wish wish = {.where = stress_pool_name(herd.s)};
	struct node *node;
	char error[512];

	if (node_open(&wish, &node, error, sizeof(error))) {
		print_error("%s\n", error);
		return -1;
	}
	int warm = node_is_warm(node) && node_pool(node)->pool_id == herd.pool.pool_id;

	node_close(node, true, error, sizeof(error));
	return warm ? 0 : -1;
}

static void test_memory_node(void **state)
{
	struct stress_wish wish = small;
	struct prng prng;

	prng_seed(&prng, 3);
	int failed = herd_begin(&herd, &wish) || memory_nodes(&prng) || last_is_warm() ||
		     herd_progress(&herd, 200);
	uint64_t hits = herd_hits(&herd), ops = herd_ops(&herd);

	failed = herd_end(&herd) || failed;
	print_message("%" PRIu64 " memory nodes killed; %" PRIu64 " operations, %" PRIu64
		      " verified hits\n",
		      rounds, ops, hits);
	assert_false(failed);
	assert_true(hits > 1000);
}

int main(int argc, char **argv)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test(test_races),
	    cmocka_unit_test(test_races_paper),
	    cmocka_unit_test(test_memory_node),
	};

	if (argc < 2 || (argc > 2 && parse_u64(argv[2], &rounds)))
		return 2;
	program = argv[1];
	race = mmap(NULL, sizeof(*race), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	if (race == MAP_FAILED)
		return 1;
	return cmocka_run_group_tests(tests, NULL, NULL);
}
