/*
 * fault.h: what goes wrong in a virtual world: the single faults, as they happen.
 *
 * Pauses, slowness and delays end by themselves at a time that is given with them.  A machine whose
 * connections were cut never has them again: whoever goes on is another process (another compute
 * node of the world).  What of its verbs was under way lands whole, in part or not at all, and that
 * in the order of the connection: a prefix of them, then perhaps half a WRITE.
 *
 * A kill is a cut, too: every verb that the dead process's code still asks for fails at once and
 * touches nothing, so its threads only find their way out and give their memory back.  What its
 * locks do is the caller's business: they may be dropped when vt_has_settled() says so.
 *
 * Chance comes from the world's seed.  Called from a thread of the world or between steps.
 */
#ifndef FORGE_VTIME_FAULT_H
#define FORGE_VTIME_FAULT_H

#include <stdbool.h>

#include "vtime/world.h"

/* No thread of the compute node runs until that time (ns on the world's clock). */
void vt_pause(struct vt_world *, uint32_t cn, uint64_t until_ns);

/* One thread of it only. */
void vt_pause_thread(struct vt_thread *, uint64_t until_ns);

/* What its threads work takes so many times as long. */
void vt_slow(struct vt_world *, uint32_t cn, uint32_t factor, uint64_t until_ns);

/*
 * A third of its verbs and of its completions take up to that much longer, each another while, most
 * of them far less.  Verbs of one connection stay in order, those of different ones do not.
 */
void vt_delay(struct vt_world *, uint32_t cn, uint64_t most_ns, uint64_t until_ns);

/* Its connections are lost; see above.  Returns how many verbs were under way. */
uint32_t vt_cut(struct vt_world *, uint32_t cn);

/* Nothing of what it posted can take effect any more. */
bool vt_has_settled(const struct vt_world *, uint32_t cn);

/* Nothing that was to happen does: for who closes a world in which somebody is not at his end. */
void vt_abandon(struct vt_world *);

/* How often a compute node felt that something was wrong, since the world began. */
struct vt_felt {
	uint64_t held_up; /* a thread that was to go on, by a pause */
	uint64_t slowed;  /* a piece of work */
	uint64_t delayed; /* a verb or a completion */
};
struct vt_felt vt_felt_by(const struct vt_world *, uint32_t cn);

/* The clock its threads see: the world's, faster by drift_ppm millionths, and offset_ns ahead. */
void vt_skew(struct vt_world *, uint32_t cn, int64_t offset_ns, int32_t drift_ppm);

#endif
