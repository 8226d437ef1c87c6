/*
 * layout.h: every byte a compute node can find on a memory node, defined in this folder and nowhere
 * else.
 *
 * Everyone above base may include it; it owns no memory.  All words are little-endian, fixed
 * width, and read and written as whole aligned 8-byte words.  Nobody else shifts or masks.
 *
 * This is the picture.  The bits are in a header for each region, all of which this one includes:
 *
 *   word.h      sizes, bits of a word, generations
 *   rings.h     cursors, fence, ring nodes
 *   chunk.h     chunk word, dead words, TWIM
 *   slot.h      index word, group word
 *   object.h    objects and parts
 *   registry.h  a compute node's line
 *
 * What has more to say than its bits is beside them: plan.h (superblock and offsets), stats.h,
 * spread.h.
 *
 * The export, in this order (offsets are in the plan, layout/plan.h):
 *
 *   REGION       SIZE                         CONTENT
 *   superblock   12288                        magic, version, fingerprint, ids, the plan
 *   cursors      64                           ring cursors, flush generation       (hot words)
 *   ofm          2 x rows x row_bytes         one counter byte per object          (hot words)
 *   registry     64 x cn_max                  one line per compute node
 *   stats        256 x cn_max                 one line of counters per compute node (stats.h)
 *   chunk table  8 x chunk_count              one word per chunk, the point of truth
 *   dead map     8 x dead_words x chunk_count which objects lost their slot, and in which life
 *   rings        3 x 8 x ring_nodes           small, main, free
 *   index        bucket_bytes x (buckets + 1) slots; the last bucket is the overflow bucket
 *   chunks       chunk_bytes x chunk_count    objects from the front, TWIM from the back; or one
 *                                             part of an object larger than a chunk
 *   pad          64                           so that a READ rounded up stays inside
 *
 * Life of each word (who writes it, with which verb, what a reader may conclude):
 *
 *   superblock   written by the node before it says READY, never after, except epoch, time and
 *                how keys are spread over nodes (spread.h).
 *   fence        FAA of a generation by a flush, CAS of the epoch by who changes the spread.
 *   cursors      FAA or CAS by any CN; never wrap (64 bits); a READ of them is a hint.
 *   ofm counter  FAA by every CN for positions in the window; subtracted by the evictor that won
 *                the chunk out of `evicting`.  A hint by nature.
 *   registry     the id word by CAS; the rest by WRITE of its owner alone.
 *   stats        FAA; the first word of a line also by WRITE of the node that joins with the id.
 *   chunk word   CAS only, from the exact word seen.  Who wins the CAS owns the chunk.
 *   dead word    FAA of the members a CN saw die and of the life they died in, each by the one CN
 *                that won its slot's CAS; zeroed with the free of the chunk.  What is added after
 *                that shows (chunk.h), and then nothing in the word is believed.
 *   ring node    CAS only.  A node is a hint; the chunk word decides.
 *   index word   CAS only, from the exact word seen.
 *   group word   (16-byte slots) detached WRITE after the CAS of its index word; a hint that
 *                counts only while its version equals the index word's.
 *   object       WRITE by the owner of the open chunk before the index CAS; never overwritten
 *                in place while its generation lives.
 *   part         WRITE by the owner of the reserved chunk before the index CAS of its head; the
 *                same then holds.
 *   part count   FAA by whoever makes chunks parts or frees them; a hint, set right by sweeps.
 *   TWIM         WRITE by the owner once, before the chunk is queued; immutable while queued.
 *
 * Differences from the first design, and why:
 *  - a TWIM entry holds the length in 16-byte units (16 bits) and the slot in 36 bits, because
 *    an object's offset is the sum of the lengths before it and objects are packed at 16 bytes;
 *  - a ring node carries the chunk's generation, so that the claim's expected chunk word and the
 *    pollers' maps need no READ of the chunk table;
 *  - there is no SKIP state: skipping is the CAS EMPTY(cycle) -> EMPTY(cycle + 1), which makes a
 *    late producer's CAS fail exactly as SKIP and its reset would;
 *  - the fence (flush generation, epoch of the spread) lives beside the cursors, because every
 *    poll reads both.
 */
#ifndef FORGE_LAYOUT_LAYOUT_H
#define FORGE_LAYOUT_LAYOUT_H

#include "layout/chunk.h"
#include "layout/object.h"
#include "layout/registry.h"
#include "layout/rings.h"
#include "layout/slot.h"
#include "layout/word.h"

#endif
