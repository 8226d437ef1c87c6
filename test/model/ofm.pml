/*
 * The rows of the OFM on the memory node (DESIGN 5: FAA carries, late flush).
 *
 * One counter per row; position p uses row p % ROWS.  One chunk goes round: queued at p, claimed
 * by an evictor, requeued (or freed and queued again, which is the same to the rows) at p + 1.
 * The evictor READs the row and empties it by CAS from what it READ, before the CAS out of
 * evicting.  A thief takes the chunk from a sleeper in the same manner.  Compute nodes flush
 * one unit per position, as late as they like, but once per position.
 *
 * Shown: a row never goes negative; what is in a row is what was flushed and not yet subtracted
 * (nothing is lost); and a row never holds more than three positions' worth from each CN (one
 * late flush, one for the position whose evictor has READ already, one for its successor), so
 * that a CN may add 255 / 3 / (CNs permitted) per counter and position without a carry.
 */
#ifndef ROWS
#define ROWS 2
#endif
#ifndef POSITIONS
#define POSITIONS 6
#endif
#ifndef FLUSHERS
#define FLUSHERS 2
#endif

bit evicting;
byte owner;
byte pos;		/* with evicting and owner: the chunk word */
short row[ROWS];
byte flushed[ROWS], taken[ROWS];	/* since the two were last equal */

#define LAST (pos >= POSITIONS)

inline account(r)
{
	assert(row[r] >= 0);
	assert(row[r] == flushed[r] - taken[r]);
	flushed[r] = row[r];
	taken[r] = 0
}

/* empty the row: by CAS from what was READ, again and again while the chunk is still (o, p) */
inline take()
{
#ifdef THIEF_LEAVES_ROW
	do
	:: o != _pid -> break
	:: o == _pid && v == 0 -> break
	:: o == _pid && v != 0 ->
#else
	do
	:: v == 0 -> break
	:: v != 0 ->
#endif
		atomic {
			if
#ifdef WRITE_ZERO
			:: true ->
#else
			:: row[p % ROWS] == v ->
#endif
				row[p % ROWS] = 0;
				taken[p % ROWS] = taken[p % ROWS] + v;
				account(p % ROWS);
				v = 0
#ifndef WRITE_ZERO
			:: else -> v = row[p % ROWS]	/* the CAS returns it */
#endif
			fi
		};
		atomic {
			if
			:: v == 0 || (evicting && owner == o && pos == p) -> skip
			:: else -> v = 0; p = 0; o = 0; goto next
			fi
		}
	od;
	v = 0
}

/* what DESIGN says: FAA of minus what was READ */
inline subtract()
{
	atomic {
		row[p % ROWS] = row[p % ROWS] - v;
		taken[p % ROWS] = taken[p % ROWS] + v;
		account(p % ROWS);
		v = 0
	}
}

/* the chunk is seen as evicting(o, p) */
inline finish()
{
	atomic { v = row[p % ROWS] };
#ifdef SUBTRACT_BEFORE_WIN
	subtract();
#elif !defined(SUBTRACT_AFTER_WIN)
	take();
#endif
	atomic {
		if
		:: evicting && owner == o && pos == p -> evicting = 0; owner = 0; pos++
		:: else -> v = 0; p = 0; o = 0; goto next
		fi
	};
#ifdef SUBTRACT_AFTER_WIN
	subtract();
#endif
	atomic { p = 0; o = 0 }
}

active [2] proctype evictor()
{
	byte p, v, o;

next:
end:
	do
	:: atomic { !LAST && !evicting -> evicting = 1; owner = _pid; o = _pid; p = pos };
		finish()
	:: atomic { !LAST && evicting && owner != _pid -> o = owner; p = pos };
		finish()
	:: LAST -> break
	od
}

active [FLUSHERS] proctype flusher()
{
	byte p, due;

end:
	do
	/* a poll: READ the cursors, then flush what is in the window */
#ifdef FLUSH_EVERY_MISSED
	:: atomic { due <= pos && !LAST -> p = due; due = p + 1 };
#else
	:: atomic { due <= pos && !LAST -> p = pos; due = p + 1 };
#endif
		atomic {
			row[p % ROWS]++;
			flushed[p % ROWS]++;
			assert(row[p % ROWS] <= 3 * FLUSHERS);
			p = 0
		}
	:: LAST -> break
	od
}
