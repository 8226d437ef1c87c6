/* load_options.c: pools, progress and reports of bench and replay. */
#include "tool/load_options.h"

#include <errno.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/compiler.h"
#include "fabric/shm.h"
#include "tool/attach.h"

int load_check_own(const struct command *c, const struct load_table *t,
		   const struct opts_parsed *parsed, const char *pool, const char *const own[],
		   unsigned count)
{
	if (!load_pool_is_named(&(struct load_pool){.name = pool}))
		return 0;
	for (unsigned i = 0; i < count; i++) {
		enum opts_origin from = opts_origin(&t->table, parsed, own[i]);

		if (from == OPTS_COMMAND_LINE || from == OPTS_FILE)
			return tool_fail(c,
					 "--%s is for a pool made for the run, but %s names %s, "
					 "which forge node makes: leave out one of the two",
					 own[i],
					 opts_origin(&t->table, parsed, "pool") == OPTS_ENVIRONMENT
					     ? "FORGE_POOL"
					     : "--pool",
					 pool);
	}
	return 0;
}

bool load_pool_is_named(const struct load_pool *p)
{
	return p->name && strcmp(p->name, "none") != 0;
}

static volatile sig_atomic_t stopped;

static void on_signal(int number)
{
	stopped = number;
}

/*
 * The name of a large pool stands for seconds before anybody can attach: who ends the run
 * meanwhile expects the memory back.  So signals stop the making, what was made is removed, and
 * then the signal does what it does otherwise, which ends the run.  One that is ignored stays so.
 */
static int create_or_end(struct own_pool *own, const struct plan_wish *wish, char *text,
			 size_t text_bytes)
{
	static const int numbers[] = {SIGINT, SIGTERM, SIGHUP};
	struct sigaction action = {.sa_handler = on_signal}, old[ARRAY_COUNT(numbers)];
	int status;

	stopped = 0;
	sigemptyset(&action.sa_mask);
	for (unsigned i = 0; i < ARRAY_COUNT(numbers); i++) {
		sigaction(numbers[i], NULL, &old[i]);
		if (old[i].sa_handler != SIG_IGN)
			sigaction(numbers[i], &action, NULL);
	}
	shm_stop_by(&stopped);
	status = own_pool_create(own, wish, text, text_bytes);
	shm_stop_by(NULL);
	for (unsigned i = 0; i < ARRAY_COUNT(numbers); i++)
		sigaction(numbers[i], &old[i], NULL);
	if (stopped) {
		own_pool_forget(own);
		raise(stopped);
	}
	return status;
}

int load_pool_open(const struct command *c, struct load_pool *p, struct bench_setup *setup)
{
	char text[512];

	p->own.named = false;
	setup->policy = p->policy;
	setup->pool = p->name;
	if (load_pool_is_named(p))
		return tool_check_served(c, p->name, false);
	const struct policy *policy = tool_policy(c, p->policy ? p->policy : "forge");

	if (!policy)
		return TOOL_ERROR;
	p->wish.policy = policy->name;
	p->wish.slot_words = policy->slot_words;
	/* Nobody else will join, and what a node may hold or count is shared by all permitted. */
	p->wish.cn_max = setup->processes > 1 ? setup->processes : 2;
	if (create_or_end(&p->own, &p->wish, text, sizeof(text)))
		return tool_fail(c, "%s", text);
	setup->pool = p->own.name;
	setup->attached = own_pool_forget;
	setup->attached_context = &p->own;
	return 0;
}

void load_pool_close(struct load_pool *p)
{
	own_pool_forget(&p->own);
}

int load_json_check(const struct command *c, const char *json_path)
{
	if (!json_path || strcmp(json_path, "-") == 0)
		return 0;
	FILE *file = fopen(json_path, "a");

	if (!file)
		return tool_fail(c, "--json=%s: %s", json_path, strerror(errno));
	fclose(file);
	return 0;
}

FILE *load_progress(bool wanted)
{
	return wanted || isatty(STDERR_FILENO) ? stderr : NULL;
}

static int run_engine(const struct command *c, const struct bench_setup *setup,
		      const struct bench_load *load, struct bench_report *report)
{
	struct bench_result *result = malloc(sizeof(*result));
	char text[1024];

	if (!result)
		return tool_fail(c, "%s", status_sentence(FORGE_E_NO_MEMORY));
	if (bench_run(setup, load, result, text, sizeof(text))) {
		tool_fail(c, "%s", text);
		free(result);
		return TOOL_NO;
	}
	report->result = result;
	return 0;
}

int load_run_processes(const struct load_where *where, void *more, struct load_pool *pool,
		       struct bench_setup *setup, const struct bench_load *load,
		       struct bench_report *report)
{
	int status = load_pool_open(where->command, pool, setup);

	if (!status)
		status = run_engine(where->command, setup, load, report);
	load_pool_close(pool);
	return status;
}

static bool is_without(const struct load_where *where, const char *name)
{
	for (unsigned i = 0; where->without && where->without[i]; i++)
		if (strcmp(where->without[i], name) == 0)
			return true;
	return false;
}

int load_table_parse(struct load_table *t, const struct load_where *where,
		     const struct opts_table *base, size_t config_bytes, int argc, char **argv,
		     struct opts_parsed *parsed)
{
	size_t more_at = round_up_u64(config_bytes, 16);
	unsigned n = 0;

	for (unsigned i = 0; i < base->option_count; i++)
		if (!is_without(where, base->options[i].name))
			t->options[n++] = base->options[i];
	assert(n + where->more_count <= OPTS_MAX);
	for (unsigned i = 0; i < where->more_count; i++) {
		t->options[n] = where->more[i];
		t->options[n++].offset += more_at;
	}
	t->table = *base;
	t->table.command = where->typed;
	t->table.options = t->options;
	t->table.option_count = n;
	/* Fields without a row stay zero. */
	t->config = calloc(1, more_at + where->more_bytes);
	if (!t->config)
		return tool_fail(where->command, "%s", status_sentence(FORGE_E_NO_MEMORY));
	t->more = (char *)t->config + more_at;
	int status = opts_parse_main(&t->table, argc, argv, t->config, parsed);

	if (status >= 0)
		load_table_fini(t);
	return status;
}

void load_table_fini(struct load_table *t)
{
	free(t->config);
	t->config = NULL;
}

static int print_reports(const struct command *c, struct bench_report *r, const char *json_path)
{
	bool page = !json_path || strcmp(json_path, "-") != 0;
	int status = 0;

	report_warn(r);
	errno = 0;
	if (page)
		status = report_print(r, stdout);
	else
		for (unsigned i = 0; i < r->warning_count; i++)
			fprintf(stderr, "forge %s: warning: %s\n", c->name, r->warnings[i]);
	if (!status && json_path)
		status = report_json(r, json_path);
	if (status)
		return tool_fail(
		    c, "cannot write %s: %s", page && json_path ? json_path : "the report",
		    status == FORGE_E_SYSTEM && errno ? strerror(errno) : status_sentence(status));
	return TOOL_OK;
}

int load_finish(const struct command *c, struct bench_report *report, int lru_status,
		const char *json_path)
{
	int status = lru_status ? tool_fail(c, "exact LRU: %s", status_sentence(lru_status))
				: print_reports(c, report, json_path);

	free((void *)(uintptr_t)report->result);
	report->result = NULL;
	return status;
}
