/* trial_shrink.c: a shorter schedule with which the same trial still fails. */
#include "vtime/trial.h"

#include <stdlib.h>

/* Does it still fail with that schedule?  If so that is the result. */
static bool fails(const struct trial_options *options, const struct schedule *schedule,
		  struct trial_result *failed, struct trial_result *scratch, unsigned *tries)
{
	struct trial_options o = *options;

	if (!*tries)
		return false;
	--*tries;
	o.schedule = schedule;
	if (trial_run(&o, scratch) != FORGE_E_CORRUPT)
		return false;
	*failed = *scratch;
	return true;
}

/* One fault less, or one that takes half as long. */
static bool shorten(const struct trial_options *options, struct trial_result *failed,
		    struct trial_result *scratch, unsigned *tries)
{
	for (uint32_t i = failed->schedule.count; i-- > 0;) {
		struct schedule s = failed->schedule;

		schedule_remove(&s, i);
		if (fails(options, &s, failed, scratch, tries))
			return true;
	}
	for (uint32_t i = 0; i < failed->schedule.count; i++) {
		struct schedule s = failed->schedule;

		s.faults[i].for_ns /= 2;
		if (s.faults[i].for_ns >= 1000 && fails(options, &s, failed, scratch, tries))
			return true;
	}
	return false;
}

void trial_shrink(const struct trial_options *options, struct trial_result *failed, unsigned tries)
{
	struct trial_result *scratch = malloc(sizeof(*scratch));
	struct trial_options o = *options;

	if (!scratch)
		return; /* it is as good a counterexample as it was */
	o.trace = NULL;
	while (shorten(&o, failed, scratch, &tries))
		;
	free(scratch);
}
