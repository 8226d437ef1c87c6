/*
 * calibrate.h: the model against published micro-benchmarks, one verb or two at a time.
 *
 * No cache takes part: threads post verbs in closed loops on a world of one memory node, and what
 * comes out is compared with a number that somebody measured on a card, or that follows from a
 * specification.  Nothing is compared with what a whole system reported.
 *
 * For the tool and tests; one thread.
 */
#ifndef FORGE_VTIME_CALIBRATE_H
#define FORGE_VTIME_CALIBRATE_H

#include "vtime/profile.h"

/* How far the model may be from what is published. */
#define VT_CALIBRATION_TOLERANCE 0.10

struct vt_calibration {
	const char *what;
	const char *unit;
	double low, high; /* published; the same where it is one number */
	const char *source;
	double model;
	double
	    off; /* the model's distance from [low, high], as a share of the nearer one; 0 inside */
};

/*
 * Run every comparison there is for a profile and hand it to found().  How many are further off
 * than the tolerance; or FORGE_E_NO_MEMORY.
 */
int vt_calibrate(const struct vt_profile *, void (*found)(void *, const struct vt_calibration *),
		 void *context);

#endif
