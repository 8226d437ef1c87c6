/*
 * The option table: precedence of default, environment and command line, each type, and each
 * mistake a user can make with the exact sentence it earns.  Every mistake must name the option
 * and the value and point at --help.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "base/opts.h"
#include "base/status.h"

struct config {
	uint64_t threads, pool_bytes, poll_us, wait_us, seed, runs, port;
	double theta, rate;
	const char *trace;
	unsigned policy;
	bool verify, quiet, lru;
};

static const struct opt rows[] = {
    OPT_U64(struct config, threads, "threads", 't', "1", "threads", 1, 64, "Threads to run."),
    OPT_BYTES(struct config, pool_bytes, "pool-bytes", 0, "1G", NULL, 1 << 20, 0, "Pool size."),
    OPT_DURATION(struct config, poll_us, "poll-interval", 0, "100us", NULL, 1, 1000000,
		 "Time between polls."),
    OPT_U64(struct config, seed, "seed", 0, NULL, NULL, 0, 0, "Seed."),
    OPT_DOUBLE(struct config, theta, "theta", 0, "0.99", NULL, 0, 2, "Skew."),
    OPT_U64(struct config, runs, "runs", 0, "1", "runs", 1, 0, "Runs."),
    OPT_U64(struct config, port, "port", 0, "1", "PORT", 0, 65535, "Where."),
    OPT_DOUBLE(struct config, rate, "rate", 0, "0", "op/s", 0, 1e6, "Operations begun."),
    OPT_DURATION(struct config, wait_us, "wait", 0, "0", NULL, 0, UINT64_C(86400000000), "Wait."),
    OPT_STRING(struct config, trace, "trace", 'T', NULL, "FILE", "Trace to replay."),
    OPT_CHOICE(struct config, policy, "policy", 'p', "forge", "forge|forge-paper|lru",
	       "Policy to use."),
    OPT_FLAG(struct config, verify, "verify", 'v', "Check every value."),
    OPT_FLAG(struct config, quiet, "quiet", 'q', "Print no progress."),
    {.name = "lru",
     .type = OPT_TYPE_FLAG,
     .offset = OPT_FIELD(struct config, lru, bool),
     .preset = "true",
     .sentence = "Compare."},
};

static const struct opts_table table = {
    .command = "forge bench",
    .operands = "KEY [VALUE]",
    .sentence = "Runs a load.",
    .options = rows,
    .option_count = sizeof(rows) / sizeof(*rows),
    .operands_min = 0,
    .operands_max = 2,
};

static struct config config;
static struct opts_parsed parsed;

/* Words are separated by single spaces. */
static int parse(const char *line)
{
	static char copy[256];
	static char *argv[32];
	int argc = 1;

	argv[0] = (char *)"forge";
	snprintf(copy, sizeof(copy), "%s", line);
	for (char *word = strtok(copy, " "); word; word = strtok(NULL, " "))
		argv[argc++] = word;
	memset(&config, 0xa5, sizeof(config));
	return opts_parse(&table, argc, argv, &config, &parsed);
}

static void assert_refused(const char *line, const char *message)
{
	assert_int_equal(parse(line), FORGE_E_INVAL);
	assert_string_equal(parsed.error, message);
}

static int clean_environment(void **state)
{
	unsetenv("FORGE_THREADS");
	unsetenv("FORGE_POLL_INTERVAL");
	unsetenv("FORGE_VERIFY");
	return 0;
}

static void defaults_fill_every_field(void **state)
{
	assert_int_equal(parse(""), 0);
	assert_int_equal(config.threads, 1);
	assert_int_equal(config.pool_bytes, 1 << 30);
	assert_int_equal(config.poll_us, 100);
	assert_int_equal(config.seed, 0);
	assert_true(config.theta == 0.99);
	assert_null(config.trace);
	assert_int_equal(config.policy, 0);
	assert_false(config.verify);
	assert_false(config.quiet);
	assert_int_equal(parsed.action, OPTS_RUN);
	assert_int_equal(parsed.operand_count, 0);
}

static void every_spelling_is_taken(void **state)
{
	assert_int_equal(parse("--threads 4 -T a.zst key --pool-bytes=2M -plru -vq "
			       "--poll-interval 5ms --seed 0x10 --theta=1.2 -- --value"),
			 0);
	assert_int_equal(config.threads, 4);
	assert_string_equal(config.trace, "a.zst");
	assert_int_equal(config.pool_bytes, 2 << 20);
	assert_int_equal(config.policy, 2);
	assert_true(config.verify);
	assert_true(config.quiet);
	assert_int_equal(config.poll_us, 5000);
	assert_int_equal(config.seed, 16);
	assert_true(config.theta == 1.2);
	assert_int_equal(parsed.operand_count, 2);
	assert_string_equal(parsed.operands[0], "key");
	assert_string_equal(parsed.operands[1], "--value");
	assert_int_equal(parse("--verify --no-verify --quiet=no -"), 0);
	assert_false(config.verify);
	assert_false(config.quiet);
	assert_string_equal(parsed.operands[0], "-");
}

static void the_command_line_beats_the_environment(void **state)
{
	setenv("FORGE_THREADS", "8", 1);
	setenv("FORGE_POLL_INTERVAL", "1ms", 1);
	setenv("FORGE_VERIFY", "yes", 1);
	assert_int_equal(parse("-t 3"), 0);
	assert_int_equal(config.threads, 3);
	assert_int_equal(config.poll_us, 1000);
	assert_true(config.verify);
	assert_int_equal(parsed.origin[0], OPTS_COMMAND_LINE);
	assert_int_equal(parsed.origin[1], OPTS_DEFAULT);
	assert_int_equal(parsed.origin[2], OPTS_ENVIRONMENT);
	assert_true(opts_given(&table, &parsed, "threads"));
	assert_true(opts_given(&table, &parsed, "verify"));
	assert_false(opts_given(&table, &parsed, "pool-bytes"));
}

static void a_bad_environment_names_the_variable(void **state)
{
	setenv("FORGE_THREADS", "many", 1);
	assert_refused("", "forge bench: FORGE_THREADS=many: not a whole number; "
			   "see 'forge bench --help'");
	/* and does not keep the help away */
	assert_int_equal(parse("--help"), 0);
	assert_int_equal(parsed.action, OPTS_HELP);
}

static void unknown_options_name_the_nearest(void **state)
{
	assert_refused("--thread=4", "forge bench: unknown option --thread, did you mean "
				     "--threads?; see 'forge bench --help'");
	assert_refused("--polcy lru", "forge bench: unknown option --polcy, did you mean "
				      "--policy?; see 'forge bench --help'");
	assert_refused("--pool 4", "forge bench: unknown option --pool, did you mean "
				   "--pool-bytes?; see 'forge bench --help'");
	assert_refused("--frobnicate",
		       "forge bench: unknown option --frobnicate; before an argument that begins "
		       "with a dash write --; see 'forge bench --help'");
	assert_refused("-x", "forge bench: unknown option -x; before an argument that begins with "
			     "a dash write --; see 'forge bench --help'");
	/* --no- is for flags only */
	assert_refused("--no-threads",
		       "forge bench: unknown option --no-threads, did you mean --threads?; "
		       "see 'forge bench --help'");
}

static void bad_values_name_option_and_value(void **state)
{
	assert_refused("--threads=4x", "forge bench: --threads=4x: not a whole number; "
				       "see 'forge bench --help'");
	assert_refused("-t -5", "forge bench: -t=-5: not a whole number; see 'forge bench --help'");
	assert_refused("--threads 65", "forge bench: --threads=65: must be between 1 and 64 "
				       "threads; see 'forge bench --help'");
	assert_refused("--threads 0", "forge bench: --threads=0: must be between 1 and 64 "
				      "threads; see 'forge bench --help'");
	assert_refused("--threads 99999999999999999999",
		       "forge bench: --threads=99999999999999999999: must be between 1 and 64 "
		       "threads; see 'forge bench --help'");
	assert_refused("--seed 99999999999999999999",
		       "forge bench: --seed=99999999999999999999: does not fit 64 bits; "
		       "see 'forge bench --help'");
	assert_refused("--pool-bytes 1Q", "forge bench: --pool-bytes=1Q: not a size such as 64K, "
					  "1.5G or 4096; see 'forge bench --help'");
	assert_refused("--pool-bytes 1K", "forge bench: --pool-bytes=1K: must be at least "
					  "1M bytes; see 'forge bench --help'");
	assert_refused("--poll-interval 5days",
		       "forge bench: --poll-interval=5days: not a duration such as 100us, 5ms "
		       "or 2s; see 'forge bench --help'");
	assert_refused("--theta x", "forge bench: --theta=x: not a number such as 0.99; "
				    "see 'forge bench --help'");
	assert_refused("--theta 3", "forge bench: --theta=3: must be between 0 and 2; "
				    "see 'forge bench --help'");
	assert_refused("--rate -1", "forge bench: --rate=-1: must be between 0 and 1e+06 op/s; "
				    "see 'forge bench --help'");
	assert_refused("--wait 25h", "forge bench: --wait=25h: must be between 0 and 24h; "
				     "see 'forge bench --help'");
	assert_refused("--poll-interval 0", "forge bench: --poll-interval=0: must be between 1us "
					    "and 1s; see 'forge bench --help'");
	assert_refused("--policy LRU", "forge bench: --policy=LRU: must be one of "
				       "forge|forge-paper|lru; see 'forge bench --help'");
	/* a prefix of a choice is no choice */
	assert_refused("--policy forg", "forge bench: --policy=forg: must be one of "
					"forge|forge-paper|lru; see 'forge bench --help'");
	assert_refused("--verify=maybe", "forge bench: --verify=maybe: must be yes or no; "
					 "see 'forge bench --help'");
}

static void missing_values_and_surplus_words(void **state)
{
	assert_refused("--trace",
		       "forge bench: --trace needs a value (FILE); see 'forge bench --help'");
	assert_refused("--threads", "forge bench: --threads needs a value (a whole number of "
				    "threads); see 'forge bench --help'");
	assert_refused("-t --verify", "forge bench: -t needs a value (a whole number of threads); "
				      "see 'forge bench --help'");
	assert_refused("--rate", "forge bench: --rate needs a value (a number such as 0.99, in "
				 "op/s); see 'forge bench --help'");
	assert_refused("--pool-bytes", "forge bench: --pool-bytes needs a value (a size such as "
				       "64K, 1.5G or 4096); see 'forge bench --help'");
	assert_refused("--poll-interval", "forge bench: --poll-interval needs a value (a duration "
					  "such as 100us, 5ms or 2s); see 'forge bench --help'");
	assert_refused("--policy", "forge bench: --policy needs a value (forge|forge-paper|lru); "
				   "see 'forge bench --help'");
	assert_refused("--trace=",
		       "forge bench: --trace needs a value (FILE); see 'forge bench --help'");
	assert_refused("--runs 0", "forge bench: --runs=0: must be at least 1 run; "
				   "see 'forge bench --help'");
	assert_refused("--port", "forge bench: --port needs a value (PORT); "
				 "see 'forge bench --help'");
	assert_refused("--port 70000", "forge bench: --port=70000: must be between 0 and 65535; "
				       "see 'forge bench --help'");
	assert_refused("--trace --threads 3",
		       "forge bench: --trace needs a value (FILE); see 'forge bench --help'");
	assert_refused("a b c", "forge bench: unexpected argument 'c'; see 'forge bench --help'");
}

static char *printed(void (*print)(FILE *))
{
	char *got = NULL;
	size_t bytes;
	FILE *out = open_memstream(&got, &bytes);

	assert_non_null(out);
	print(out);
	fclose(out);
	return got;
}

static void print_help(FILE *out)
{
	opts_print_help(&table, out);
}

static void print_config(FILE *out)
{
	opts_print_config(&table, &config, &parsed, out);
}

static void help_names_every_option(void **state)
{
	char *help = printed(print_help);

	assert_non_null(strstr(help, "Usage: forge bench [options] KEY [VALUE]\n"));
	assert_non_null(strstr(help, "\n  -t, --threads threads     Threads to run. (1 to 64; "
				     "default 1)\n"));
	assert_non_null(strstr(help, "\n      --pool-bytes SIZE     Pool size. (at least 1.00 "
				     "MiB; default 1G)\n"));
	assert_non_null(strstr(help, "Time between polls. (1us to 1s; default 100us)\n"));
	assert_non_null(strstr(help, "Wait. (0 to 24h; default 0)\n"));
	assert_null(strstr(help, " \n"));
	assert_non_null(strstr(help, "(one of forge|forge-paper|lru;\n"));
	assert_non_null(strstr(help, "  -q, --quiet               Print no progress.\n"));
	assert_non_null(strstr(help, "--lru                 Compare. (default yes; --no-lru)\n"));
	for (unsigned i = 0; i < table.option_count; i++)
		assert_non_null(strstr(help, table.options[i].name));
	for (const char *line = help; *line; line = strchr(line, '\n') + 1)
		assert_true(strchr(line, '\n') - line <= 80);
	free(help);
}

/* The file is called FILE, in the working directory. */
static void write_file(const char *text)
{
	FILE *f = fopen("FILE", "w");

	assert_non_null(f);
	fputs(text, f);
	assert_int_equal(fclose(f), 0);
}

static int remove_file(void **state)
{
	remove("FILE");
	return 0;
}

static void a_file_comes_before_the_default_only(void **state)
{
	char *text;

	setenv("FORGE_THREADS", "8", 1);
	write_file("# a comment\n\n\tthreads = 4\r\npolicy=lru # not forge\n"
		   "trace = a = b#c\nverify = yes\nlru = no\npoll-interval = 3ms");
	assert_int_equal(parse("--poll-interval 5ms --config FILE --print-config key"), 0);
	assert_int_equal(config.threads, 8);
	assert_int_equal(config.policy, 2);
	assert_string_equal(config.trace, "a = b#c");
	assert_true(config.verify);
	assert_false(config.lru);
	assert_int_equal(config.poll_us, 5000);
	assert_int_equal(parsed.operand_count, 1);
	assert_true(opts_given(&table, &parsed, "policy"));
	assert_false(opts_given(&table, &parsed, "seed"));
	text = printed(print_config);
	assert_non_null(strstr(text, "threads = 8  (environment, FORGE_THREADS)\n"));
	assert_non_null(strstr(text, "poll-interval = 5ms  (command line)\n"));
	assert_non_null(strstr(text, "policy = lru  (FILE:4)\n"));
	assert_non_null(strstr(text, "trace = a = b#c  (FILE:5)\n"));
	assert_non_null(strstr(text, "seed = 0  (default)\n"));
	free(text);
	write_file("");
	assert_int_equal(parse("--config=FILE"), 0);
	assert_int_equal(config.policy, 0);
}

static void assert_file_refused(const char *text, const char *what)
{
	char message[512];

	snprintf(message, sizeof(message), "forge bench: %s; see 'forge bench --help'", what);
	write_file(text);
	assert_refused("--config FILE --threads 2", message);
}

static void mistakes_in_a_file_name_the_line(void **state)
{
	char *text;

	assert_file_refused("\nthread = 3",
			    "FILE:2: thread: unknown option, did you mean threads?");
	assert_file_refused("frobnicate = 3", "FILE:1: frobnicate: unknown option");
	/* also where the command line has another value */
	assert_file_refused("threads = x", "FILE:1: threads=x: not a whole number");
	assert_file_refused("theta = 3", "FILE:1: theta=3: must be between 0 and 2");
	assert_file_refused("policy", "FILE:1: policy: not a line 'name = value'");
	assert_file_refused("= 3", "FILE:1: : unknown option");
	assert_file_refused("trace = # none", "FILE:1: trace needs a value; leave the line out for "
					      "the default");
	assert_file_refused("seed = 1\nlru = no\nseed = 1\n",
			    "FILE:3: seed: set before, in line 1; remove one of them");
	text = malloc(OPTS_FILE_BYTES + 1);
	assert_non_null(text);
	memset(text, '#', OPTS_FILE_BYTES);
	text[OPTS_FILE_BYTES] = '\0';
	assert_file_refused(text, "--config=FILE: too long for a file of options");
	text[OPTS_FILE_BYTES - 1] = '\0';
	write_file(text);
	assert_int_equal(parse("--config FILE"), 0);
	free(text);
	remove("FILE");
	assert_refused("--config FILE", "forge bench: --config=FILE: No such file or directory; "
					"see 'forge bench --help'");
	assert_refused("--config --lru", "forge bench: --config needs a value (FILE); "
					 "see 'forge bench --help'");
	/* The help is shown all the same. */
	assert_int_equal(parse("--config FILE --help"), 0);
}

static void the_configuration_shows_value_and_origin(void **state)
{
	char *text;

	setenv("FORGE_THREADS", "8", 1);
	assert_int_equal(parse("--policy lru --print-config -T x"), 0);
	assert_int_equal(parsed.action, OPTS_PRINT_CONFIG);
	text = printed(print_config);
	assert_non_null(strstr(text, "threads = 8  (environment, FORGE_THREADS)\n"));
	assert_non_null(strstr(text, "pool-bytes = 1073741824  (default)\n"));
	assert_non_null(strstr(text, "poll-interval = 100us  (default)\n"));
	assert_non_null(strstr(text, "trace = x  (command line)\n"));
	assert_non_null(strstr(text, "policy = lru  (command line)\n"));
	assert_non_null(strstr(text, "verify = no  (default)\n"));
	free(text);
}

#define TEST(f) cmocka_unit_test_setup(f, clean_environment)

int main(void)
{
	const struct CMUnitTest tests[] = {
	    TEST(defaults_fill_every_field),
	    TEST(every_spelling_is_taken),
	    TEST(the_command_line_beats_the_environment),
	    TEST(a_bad_environment_names_the_variable),
	    TEST(unknown_options_name_the_nearest),
	    TEST(bad_values_name_option_and_value),
	    TEST(missing_values_and_surplus_words),
	    TEST(help_names_every_option),
	    TEST(the_configuration_shows_value_and_origin),
	    cmocka_unit_test_setup_teardown(a_file_comes_before_the_default_only, clean_environment,
					    remove_file),
	    cmocka_unit_test_setup_teardown(mistakes_in_a_file_name_the_line, clean_environment,
					    remove_file),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
