/*
 * schedule.h: fault schedules: which faults a trial has, and when, as a short text.
 *
 *   at=1.5ms pause cn=1 for=3ms; at=2ms kill cn=0 for=1ms; at=0 skew cn=2 by=-40ms drift=300
 *
 * Faults are apart by ';' or a newline.  Each is a kind with settings; those that a kind has not
 * are refused, as are times of more than SCHEDULE_TIME_MAX_NS and a pause, slow, delay or skew that
 * says not how long or how much.  Times are counted from when the load starts.  The text is what a
 * failing trial prints, what --faults takes, and what shrinking makes shorter; printing and parsing
 * are inverse.
 *
 * Pure functions on the caller's struct, from any thread.
 */
#ifndef FORGE_VTIME_SCHEDULE_H
#define FORGE_VTIME_SCHEDULE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/prng.h"

/* KIND(name, settings beside cn, sentence) */
#define SCHEDULE_KINDS(KIND)                                                                      \
	KIND(PAUSE, "pause", SCHEDULE_FOR | SCHEDULE_THREAD, "no thread of it runs, or that one") \
	KIND(SLOW, "slow", SCHEDULE_FOR | SCHEDULE_BY,                                            \
	     "its processors take so many times as long")                                         \
	KIND(DELAY, "delay", SCHEDULE_FOR | SCHEDULE_BY,                                          \
	     "verbs and completions late by up to that, each by another while")                   \
	KIND(CUT, "cut", SCHEDULE_FOR, "its connections are lost; it attaches anew after that")   \
	KIND(KILL, "kill", SCHEDULE_FOR, "its process dies; another starts after that")           \
	KIND(LEAVE, "leave", SCHEDULE_FOR, "it leaves in order, and attaches anew after that")    \
	KIND(RESTART, "restart", SCHEDULE_FOR | SCHEDULE_NODE,                                    \
	     "the memory node is away for so long, and keeps its memory")                         \
	KIND(WIPE, "wipe", SCHEDULE_FOR | SCHEDULE_NODE, "the same, and it starts empty")         \
	KIND(SKEW, "skew", SCHEDULE_BY | SCHEDULE_DRIFT,                                          \
	     "its clock is ahead by that, and fast by so many millionths")

/* Settings of a kind; for is how long, by how much. */
#define SCHEDULE_FOR	0x1u
#define SCHEDULE_THREAD 0x2u
#define SCHEDULE_BY	0x4u
#define SCHEDULE_DRIFT	0x8u
#define SCHEDULE_NODE	0x10u /* of the memory node: no cn */

enum fault_kind {
#define KIND(name, text, settings, sentence) FAULT_##name,
	SCHEDULE_KINDS(KIND)
#undef KIND
	    FAULT_KINDS
};

/* As long as the longest load: whoever is away for longer sees nothing of it. */
#define SCHEDULE_TIME_MAX_NS INT64_C(1000000000)
#define SCHEDULE_SLOW_MAX    1000 /* times */

/* All threads of the compute node. */
#define SCHEDULE_EVERY_THREAD UINT32_MAX

struct fault {
	uint64_t at_ns;
	uint64_t for_ns;
	int64_t by; /* slow: a factor; delay and skew: ns */
	int32_t drift_ppm;
	uint32_t cn, thread;
	enum fault_kind kind;
};

#define SCHEDULE_FAULTS_MAX 24u

struct schedule {
	struct fault faults[SCHEDULE_FAULTS_MAX];
	uint32_t count;
};

const char *fault_kind_name(unsigned kind); /* NULL beyond the last */
const char *fault_kind_sentence(unsigned kind);

/* What to choose from. */
struct schedule_wish {
	uint32_t cns, threads;
	uint64_t span_ns;     /* faults begin before that */
	uint32_t faults_most; /* 0 to that many, beside skews */
	uint32_t kinds;	      /* bit per kind; 0: all */
};

/* Choose at random, with times from some verbs' to several leases'. */
void schedule_make(struct schedule *, struct prng *, const struct schedule_wish *);

/* 0, or FORGE_E_INVAL with what is wrong and what there is instead in error_text. */
int schedule_parse(struct schedule *, const char *text, char *error_text, size_t error_bytes);

/* Is everybody it names in a cluster of that size?  As schedule_parse(). */
int schedule_check(const struct schedule *, uint32_t cns, uint32_t threads, char *error_text,
		   size_t error_bytes);

/* The text of it, without a newline; "" when nothing goes wrong.  Returns its length. */
size_t schedule_print(const struct schedule *, char *text, size_t text_bytes);

void schedule_remove(struct schedule *, uint32_t index);

#endif
