/*
 * One key in the index (DESIGN 5: stale slots, several CNs insert one key, Delete), while chunks
 * are freed and re-used and objects are moved at any time.
 *
 * Clients run up to three operations each (P1..P4); maps may be out of date at will, so a stale
 * word may be taken for stale or for live as long as the object is intact.  Every verb is one
 * step and a bucket READ is a step per slot.  The monitor, in bucket.pmh, is exact: a Get may
 * miss, but the values returned are those of a linearizable register.
 *
 * The rules that go beyond DESIGN's wording are marked by the mutations GET_LEAVES_DEAD,
 * GET_LEAVES_MATCHES and SET_OVER_LEAVES_DEAD; doc/models.md has the histories.
 */
#ifndef CLUSTERS
#define CLUSTERS 4
#endif
#define SET 1
#define GET 2
#define DEL 3
#define ADD 4
#define REP 5

#define called() \
	if \
	:: fresh -> fresh = 0; snap = answered; \
		if \
		:: op == SET || op == ADD || op == REP -> \
			clusters_used++; c = clusters_used; before[c] = answered; \
			copies_used++; me = copies_used; life[me] = OPEN; cluster_of[me] = c \
		:: op == DEL -> \
			clusters_used++; c = clusters_used; before[c] = answered \
		:: else -> skip \
		fi \
	:: else -> skip \
	fi

#include "bucket.pmh"

inline set_done()
{
	life[me] = LIVE;
	values = values | BIT(c);
	answer(c, before[c]);
}

/* a crash: the group of its Set in flight stays open until someone seals it */
#ifdef CRASH
#define may_die() \
	if \
	:: skip \
	:: atomic { crashed[me] = 1; goto out } \
	fi
#else
#define may_die() skip
#endif

/* duplicate resolution evicts what it removes (DESIGN 5, "Semantics promised") */
#define dropped(w) \
	if \
	:: op != DEL && w < TENT -> freed = freed | BIT(cluster_of[w]) \
	:: else -> skip \
	fi

/* CAS to 0, highest first, every slot whose class is in the two given, except slot keep */
inline drop(class1, class2, keep)
{
	i = SLOTS;
	do
	:: i == 0 -> break
	:: else ->
		atomic {
			i--;
			if
			:: i != keep && b[i] != 0 && (cl[i] == class1 || cl[i] == class2) ->
				if
				:: slot[i] == b[i] ->
					slot[i] = 0;
					dropped(b[i])
				:: else -> skip
				fi
			:: else -> skip
			fi
		};
		may_die()
	od
}
inline drop_lowest_first(class1, class2)
{
	i = 0;
	do
	:: i == SLOTS -> break
	:: else ->
		atomic {
			if
			:: b[i] != 0 && (cl[i] == class1 || cl[i] == class2) ->
				if
				:: slot[i] == b[i] -> slot[i] = 0
				:: else -> skip
				fi
			:: else -> skip
			fi;
			i++
		}
	od;
	i = 0
}

/* with a dead word left, only that one may be taken */
#if defined(NO_CLEAR_BEFORE_INSERT) || defined(TAKE_EMPTY_WITHOUT_FRESH_READ)
#define EMPTY_OK true
#else
#define EMPTY_OK (deads == 0)
#endif

#if defined(GET_LEAVES_MATCHES) && defined(GET_LEAVES_DEAD)
#define GET_ALONE (matches > 0)
#elif defined(GET_LEAVES_MATCHES)
#define GET_ALONE (matches > 0 && deads == 0)
#elif defined(GET_LEAVES_DEAD)
#define GET_ALONE (matches == 1)
#else
#define GET_ALONE (matches == 1 && deads == 0)
#endif

#define forget() \
	i = 0; do :: i == SLOTS -> break :: else -> b[i] = 0; cl[i] = 0; i++ od; \
	i = 0; low = 0; own = 0; matches = 0; deads = 0; tents = 0

proctype client(byte op1; byte op2; byte op3)
{
	byte b[SLOTS], cl[SLOTS];
	byte op, i, j, k, me, c, snap, low, own, matches, deads, tents;
	bit fresh;

next:
	atomic {
		forget();
		me = 0; c = 0; snap = 0;
		op = op1; op1 = op2; op2 = op3; op3 = 0; fresh = 1;
	}
	if
	:: op == SET -> goto set
	:: op == GET -> goto get
	:: op == DEL -> goto del
#ifdef CONDITIONAL
	:: op == ADD -> goto add
	:: op == REP -> goto rep
#endif
	:: else -> goto out
	fi;

set:
	read_bucket();
	if
	:: matches >= 2 ->
		drop(C_MATCH, C_MATCH, low);
		goto set
#ifndef SET_OVER_LEAVES_DEAD
	:: matches == 1 && deads > 0 ->
		drop(C_DEAD, C_DEAD, SLOTS);
		goto set
	:: matches == 1 && deads == 0 ->
#else
	:: matches == 1 ->
#endif
		atomic {
			if
			:: slot[low] == b[low] -> slot[low] = me; set_done(); goto next
			:: else -> goto set
			fi
		}
#ifndef NO_CLEAR_BEFORE_INSERT
	:: matches == 0 && deads > 0 ->
#ifdef TAKE_EMPTY_WITHOUT_FRESH_READ
		drop(C_DEAD, C_DEAD, SLOTS);
		goto insert
#else
		if
		:: drop(C_DEAD, C_DEAD, SLOTS); goto set
		:: deads == 1 -> goto insert	/* put the own word over the last one */
		fi
#endif
	:: matches == 0 && deads == 0 -> goto insert
#else
	:: matches == 0 -> goto insert
#endif
	fi;

insert:
	/* where to: over the last dead one if there is one, else into any empty slot */
	atomic {
		if
		:: b[0] == 0 && EMPTY_OK -> own = 0
		:: b[1] == 0 && EMPTY_OK -> own = 1
#if SLOTS > 2
		:: b[2] == 0 && EMPTY_OK -> own = 2
#endif
		:: cl[0] == C_DEAD -> own = 0
		:: cl[1] == C_DEAD -> own = 1
#if SLOTS > 2
		:: cl[2] == C_DEAD -> own = 2
#endif
		:: else -> goto out	/* full: section 5, "bucket full", is not modelled */
		fi;
		if
		:: slot[own] == b[own] -> slot[own] = me
		:: else -> goto set
		fi
	}
#ifdef NO_REREAD_AFTER_INSERT
	atomic { set_done(); goto next }
#endif
check:
	may_die();
	read_bucket();
	if
	:: b[own] != me -> atomic { set_done(); goto next }	/* replaced or removed */
	:: b[own] == me && low < own ->
		atomic {
#ifndef NO_REMOVE_SELF_IF_NOT_LOWEST
			if
			:: slot[own] == me -> slot[own] = 0
			:: else -> skip
			fi;
#endif
			set_done(); goto next
		}
	:: b[own] == me && low > own ->
#ifdef NO_REMOVE_OTHERS_BEFORE_ACK
		matches = 0;
#endif
#ifdef ACK_LEAVES_DEAD
		deads = 0;
#endif
		if
		:: matches == 0 && deads == 0 -> atomic { set_done(); goto next }
		:: matches > 0 && deads == 0 -> drop(C_MATCH, C_MATCH, SLOTS); goto check
		:: matches == 0 && deads > 0 -> drop(C_DEAD, C_DEAD, SLOTS); goto check
		:: matches > 0 && deads > 0 -> drop(C_MATCH, C_DEAD, SLOTS); goto check
		fi
	fi;

get:
	read_bucket();
	if
	:: matches == 0 -> goto next		/* a miss */
#ifndef GET_LEAVES_MATCHES
	:: matches > 1 -> drop(C_MATCH, C_MATCH, low); goto get
#endif
#ifndef GET_LEAVES_DEAD
	:: matches > 0 && deads > 0 -> drop(C_DEAD, C_DEAD, low); goto get
#endif
	:: GET_ALONE -> atomic { answer(cluster_of[b[low]], snap); goto next }
	fi;

del:
	read_bucket();
#ifdef DELETE_NO_CLEAR_STALE
	deads = 0;
#endif
	if
	:: matches == 0 && deads == 0 -> atomic { answer(c, before[c]); goto next }
	:: else ->
#ifdef DELETE_LOWEST_FIRST
		drop_lowest_first(C_MATCH, C_DEAD);
#else
		drop(C_MATCH, C_DEAD, SLOTS);
#endif
#ifdef DELETE_NO_REREAD
		atomic { answer(c, before[c]); goto next }
#else
		goto del
#endif
	fi;

#ifdef CONDITIONAL
#include "conditional.pmh"
#endif

out:
	atomic { forget(); me = 0; c = 0; snap = 0; fresh = 0; op = 0 }
}

init {
	atomic {
		run client(P1);
		run client(P2);
#ifdef P3
		run client(P3);
#endif
#ifdef P4
		run client(P4);
#endif
		skip
	}
}
