/* sim_calibrate.c: `forge sim calibrate`: the model beside what is published. */
#include <stdio.h>
#include <string.h>

#include "base/text.h"
#include "tool/sim.h"
#include "vtime/calibrate.h"

static int run(int argc, char **argv);

const struct command command_sim_calibrate = {
    "calibrate", "Compare the model with published micro-benchmarks, verb by verb.", run};

static const struct command for_errors = {"sim calibrate", "", run};

static void add_row(void *context, const struct vt_calibration *c)
{
	struct text_table *t = context;

	text_table_cell(t, "%s", c->what);
	if (c->low == c->high)
		text_table_cell(t, "%.4g %s", c->low, c->unit);
	else
		text_table_cell(t, "%.4g to %.4g %s", c->low, c->high, c->unit);
	text_table_cell(t, "%.4g", c->model);
	text_table_cell(t, "%.1f %%%s", 100 * c->off,
			c->off > VT_CALIBRATION_TOLERANCE ? " TOO FAR" : "");
	text_table_cell(t, "%s", c->source);
}

/* How many rows are too far off, or FORGE_E_NO_MEMORY. */
static int print_profile(const struct vt_profile *p)
{
	struct text_table *t = text_table_open("lrrrl");

	text_table_cell(t, "%s, hash %016llx", p->name, (unsigned long long)vt_profile_hash(p));
	text_table_cell(t, "published");
	text_table_cell(t, "model");
	text_table_cell(t, "off by");
	text_table_cell(t, "source");
	text_table_rule(t);
	int off = vt_calibrate(p, add_row, t);

	if (off >= 0 && text_table_print(t, stdout))
		off = FORGE_E_NO_MEMORY;
	text_table_close(t);
	return off;
}

static int run(int argc, char **argv)
{
	const struct vt_profile *p;
	int off = 0;

	if (argc > 1 && (strcmp(argv[1], "--help") == 0 || strcmp(argv[1], "-h") == 0)) {
		printf("Usage: forge sim calibrate\n\n%s\n"
		       "Exit status: 0 every row is within %.0f %%, 1 some is not, 2 error.\n",
		       command_sim_calibrate.sentence, 100 * VT_CALIBRATION_TOLERANCE);
		return TOOL_OK;
	}
	if (argc > 1)
		return tool_fail(&for_errors,
				 "unexpected argument '%s'; see 'forge sim calibrate --help'",
				 argv[1]);
	for (unsigned i = 0; (p = vt_profile_at(i)); i++) {
		if (i)
			putchar('\n');
		int more = print_profile(p);

		if (more < 0)
			return tool_fail(&for_errors, "%s", status_sentence(more));
		off += more;
	}
	return off ? TOOL_NO : TOOL_OK;
}
