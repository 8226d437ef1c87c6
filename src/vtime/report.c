/* report.c: what the parts of a virtual cluster were busy with, and what bounded the run. */
#include <stdio.h>
#include <string.h>

#include "vtime/run.h"

const char *vt_bound_name(enum vt_bound b)
{
	static const char *const name[VT_BOUNDS] = {
	    [VT_BOUND_LATENCY] = "latency", [VT_BOUND_OPERATIONS] = "operations",
	    [VT_BOUND_ATOMICS] = "atomics", [VT_BOUND_LINK] = "link",
	    [VT_BOUND_CN_CARD] = "cn-card", [VT_BOUND_CN_LINK] = "cn-link",
	    [VT_BOUND_CPU] = "cpu",
	};

	return name[b];
}

const char *vt_bound_sentence(enum vt_bound b)
{
	static const char *const sentence[VT_BOUNDS] = {
	    [VT_BOUND_LATENCY] = "nothing is busy: threads wait for round trips",
	    [VT_BOUND_OPERATIONS] =
		"the memory node's card (tcp: its processor) takes no more verbs",
	    [VT_BOUND_ATOMICS] = "atomics in host memory hold up the memory node's card",
	    [VT_BOUND_LINK] = "the memory node's link is full",
	    [VT_BOUND_CN_CARD] = "a compute node's card sends no more verbs",
	    [VT_BOUND_CN_LINK] = "a compute node's link is full",
	    [VT_BOUND_CPU] = "a compute node's processors are busy",
	};

	return sentence[b];
}

static enum vt_bound bound_of(const struct vt_report *r)
{
	if (r->card + r->held_up >= VT_BUSY_BOUND)
		return r->held_up > 0.1 ? VT_BOUND_ATOMICS : VT_BOUND_OPERATIONS;
	if (r->link_in >= VT_BUSY_BOUND || r->link_out >= VT_BUSY_BOUND)
		return VT_BOUND_LINK;
	if (r->cn_card >= VT_BUSY_BOUND)
		return VT_BOUND_CN_CARD;
	if (r->cn_link_in >= VT_BUSY_BOUND || r->cn_link_out >= VT_BUSY_BOUND)
		return VT_BOUND_CN_LINK;
	return r->cpu >= VT_BUSY_BOUND ? VT_BOUND_CPU : VT_BOUND_LATENCY;
}

void vt_report_fill(struct vt_report *r, const struct vt_setup *s, const struct vt_point *point,
		    const struct vt_busy *before, const struct vt_busy *after,
		    const struct fab_counts *verbs)
{
	double time_ps = (double)(after->now_ps - before->now_ps);
	uint64_t atomics =
	    fab_counts_of_code(verbs, FAB_CAS).verbs + fab_counts_of_code(verbs, FAB_FAA).verbs;
	uint32_t cores = s->cores && s->cores < s->bench->threads ? s->cores : s->bench->threads;

	*r = (struct vt_report){.profile_hash = vt_profile_hash(point->profile)};
	if (time_ps <= 0)
		return;
#define SHARE(part) ((double)(after->part##_ps - before->part##_ps) / time_ps)
	r->card = SHARE(node_card);
	r->held_up = SHARE(node_held_up);
	r->atomics = SHARE(node_atomics);
	r->link_in = SHARE(node_in);
	r->link_out = SHARE(node_out);
	r->cn_card = SHARE(cn_card);
	r->cn_link_in = SHARE(cn_in);
	r->cn_link_out = SHARE(cn_out);
	r->cpu = SHARE(cn_cpu) / cores;
#undef SHARE
	if (atomics)
		r->word_wait_ns =
		    (double)(after->node_word_waited_ps - before->node_word_waited_ps) / 1000 /
		    (double)atomics;
	r->bound = bound_of(r);
}
