/*
 * sim.h: what `forge sim` is made of: one command of its own for each first word behind it.
 *
 * A subcommand takes argc and argv as a command of `forge` does, argv[0] being its own name.  Main
 * thread only.
 */
#ifndef FORGE_TOOL_SIM_H
#define FORGE_TOOL_SIM_H

#include "bench/report.h"
#include "tool/command.h"
#include "vtime/run.h"

extern const struct command command_sim_bench, command_sim_replay, command_sim_calibrate;
extern const struct command command_sim_faults;

/* The purposes of the tax's account, in its order. */
#define SIM_TAX_PURPOSES 4u
extern const enum fab_purpose sim_tax_purposes[SIM_TAX_PURPOSES];

/* Throughputs, operations a second: as it is, with all housekeeping free, with one purpose free. */
struct sim_tax {
	bool measured;
	double paid, all_free, one_free[SIM_TAX_PURPOSES];
};

/* What the simulated machines did, for the page and the JSON of a run. */
struct sim_page {
	const struct vt_profile *profile;
	struct vt_report report;
	struct sim_tax tax;
	struct bench_aside aside;
};

/* Fill in page->aside for the rest of it. */
void sim_page_make(struct sim_page *page);

#endif
