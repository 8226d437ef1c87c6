/*
 * The rings and who owns a chunk (DESIGN 5: enqueue, dequeue, CN dies, CN sleeps).
 *
 * Two rings: 0 is a ring of groups, 1 the ring of free chunks.  A position is a ticket which
 * never repeats; its node is position % SIZE, its cycle position / SIZE.  A node is EMPTY(cycle)
 * or FULL(cycle, chunk, generation).  There is no SKIP state: a position given up turns
 * EMPTY(cycle) into EMPTY(cycle + 1), and so does a reset; a producer whose CAS from
 * EMPTY(cycle) fails takes a new ticket.  The chunk word decides; every step is one verb.
 *
 * Workers are fibers; several may belong to one CN, which is what makes the owner alone too
 * weak a comparison.  A CN may die between any two verbs of any of its fibers, once or DEATHS
 * times.  When every worker has finished or died, a survivor recovers and drains both rings.
 *
 * Shown: whoever wins a CAS out of a state it claimed is the fiber which claimed it (no chunk
 * has two owners); after recovery and draining every chunk has an owner who lives (none lost);
 * no step waits for another process (there is no blocking statement but for the dead).
 */
#ifndef SIZE
#define SIZE 2
#endif
#ifndef CHUNKS
#define CHUNKS 2
#endif
#ifndef DEATHS
#define DEATHS 0
#endif
#ifndef FIBERS1
#define FIBERS1 1
#endif
#ifndef AMPLE
#define AMPLE 2		/* groups in the ring which make an FAA on head safe */
#endif
#ifndef BUSY
#define BUSY 0
#endif
#define ROUNDS 3
#define LAPS 14
#ifndef TICKETS
#define TICKETS 3	/* new tickets a producer takes before it leaves the rest to a scanner */
#endif

#define RESERVED 1	/* reserved or open: its owner may WRITE into it */
#define QUEUED 2	/* in ring 1: free */
#define EVICTING 3
#define WORD(st, own, ring, pos, gen) \
	((st) | ((own) << 2) | ((ring) << 4) | ((pos) << 5) | ((gen) << 10))
#define ST(w) ((w) & 3)
#define OWN(w) (((w) >> 2) & 3)
#define RING(w) (((w) >> 4) & 1)
#define POS(w) (((w) >> 5) & 31)
#define GEN(w) ((w) >> 10)

#define NODE(ring, pos) node[(ring) * SIZE + (pos) % SIZE]
#define EMPTY(cyc) ((cyc) << 1)
#define FULL(cyc, chunk, gen) (1 | ((cyc) << 1) | ((chunk) << 5) | ((gen) << 8))
#define IS_FULL(n) ((n) & 1)
#define CYC(n) (((n) >> 1) & 15)
#define CHUNK(n) (((n) >> 5) & 7)
#define NGEN(n) ((n) >> 8)

/* operations */
#define ALLOC 1		/* claim the head of the free ring */
#define ENQ 2		/* seal: enqueue the reserved chunk */
#define DEQ 3		/* claim at the head, by CAS on head */
#define DEQF 4		/* claim at the head, by FAA on head */
#define COMPACT 5	/* claim from the middle */
#define FREE 6		/* raise the generation, enqueue on the free ring */
#define SCAN 7		/* look after one position below head */
#define ORPHAN 8	/* look after one queued chunk which its node does not show */
#define RECOVER 9	/* take what a dead CN owned */
#define STEAL 10	/* requeue what another CN keeps in evicting */

int word[CHUNKS + 1];
int node[2 * SIZE];
byte head[2], tail[2];
byte claimer[CHUNKS + 1];	/* the fiber which claimed it last, 0 after it let go */
bit dead[4];
bit ready;			/* the world is set up */
bit left;			/* a producer left its chunk for a scanner */
byte done[4];			/* fibers of the CN which are through */

#ifdef NO_POSITION
#define SAME(w, seen) (ST(w) == ST(seen) && OWN(w) == OWN(seen) && RING(w) == RING(seen))
#else
#define SAME(w, seen) ((w) == (seen))
#endif

/* every fiber of a living CN is through (FIBERS1 of them on CN 1, and so on) */
#ifndef FIBERS2
#define FIBERS2 1
#endif
#define QUIET \
	(ready && (dead[1] || done[1] == FIBERS1) && (dead[2] || done[2] == FIBERS2))

#define ALIVE (!dead[cn])

/* Bring chunk h from the word seen to queued in ring r with generation g. */
inline put(r)
{
	tries = 0;
	do
	:: atomic { ALIVE -> p = tail[r]; tail[r]++; assert(p < 31) };
		atomic {
			ALIVE ->
			if
			:: SAME(word[h], seen) ->
				/* its owner lets go of it: it had better be the owner */
				assert(!mine || claimer[h] == _pid);
				word[h] = WORD(QUEUED, 0, r, p, g);
				seen = word[h]; claimer[h] = 0; mine = 0
			:: else -> break
			fi
		};
		atomic {
			ALIVE ->
			if
			:: NODE(r, p) == EMPTY(p / SIZE) ->
				NODE(r, p) = FULL(p / SIZE, h, g); break
			:: else ->
				tries++;
				if
#ifdef NO_NEW_TICKET
				:: true -> break
#else
				:: tries == TICKETS -> left = 1; break
				:: else -> skip
#endif
				fi
			fi
		}
	od;
	atomic { h = 0; seen = 0; mine = 0; g = 0; p = 0; tries = 0 }
}

/* Node n of position p in ring r is FULL: try to own its chunk, then reset the node. */
inline claim(r)
{
	atomic {
		ALIVE ->
		if
		:: SAME(word[CHUNK(n)], WORD(QUEUED, 0, r, p, NGEN(n))) ->
			h = CHUNK(n); g = NGEN(n); mine = 1;
			claimer[h] = _pid;
			if
			:: r == 0 -> word[h] = WORD(EVICTING, cn, 0, p, g)
			:: r == 1 -> word[h] = WORD(RESERVED, cn, 0, 0, g)
			fi;
			seen = word[h]
		:: else -> skip
		fi
	};
	reset(r)
}

inline reset(r)
{
	atomic {
		ALIVE ->
#ifdef PLAIN_RESET
		NODE(r, p) = EMPTY(CYC(n) + 1);
#else
		if
		:: NODE(r, p) == n -> NODE(r, p) = EMPTY(CYC(n) + 1)
		:: else -> skip
		fi;
#endif
		n = 0; p = 0
	}
}

/* a position below head */
inline scan(r)
{
	atomic { ALIVE -> n = NODE(r, p) };
	if
	:: CYC(n) == p / SIZE && IS_FULL(n) -> claim(r)
#ifndef NO_SKIP
	:: CYC(n) == p / SIZE && !IS_FULL(n) -> reset(r)
#endif
	:: else -> n = 0; p = 0
	fi
}

inline dequeue(r)
{
	atomic { ALIVE -> p = head[r]; t = tail[r] };
	if
	:: p >= t -> atomic { p = 0; t = 0 }
	:: else ->
		atomic { ALIVE -> t = 0; n = NODE(r, p) };
		if
		:: CYC(n) < p / SIZE ->		/* the round before is not tidied yet */
			p = p - SIZE;
			scan(r)
#ifdef NO_SKIP
		:: CYC(n) == p / SIZE && !IS_FULL(n) -> atomic { n = 0; p = 0 }
		:: CYC(n) > p / SIZE || (CYC(n) == p / SIZE && IS_FULL(n)) ->
#else
		:: CYC(n) >= p / SIZE ->
#endif
			atomic {
				ALIVE ->
				if
				:: head[r] == p -> head[r] = p + 1
				:: else -> n = 0; p = 0; goto next
				fi
			};
			if
			:: CYC(n) == p / SIZE && IS_FULL(n) -> claim(r)
			:: CYC(n) == p / SIZE && !IS_FULL(n) -> reset(r)	/* skip */
			:: CYC(n) > p / SIZE -> atomic { n = 0; p = 0 }
			fi
		fi
	fi
}

/* Chunk h is queued, in w's ring and position; is it there? */
inline orphan(w)
{
	p = POS(w); g = GEN(w);
	if
	:: RING(w) == 0 -> orphan_ring(w, 0)
	:: RING(w) == 1 -> orphan_ring(w, 1)
	fi
}

inline orphan_ring(w, r)
{
	atomic { ALIVE -> n = NODE(r, p) };
	if
	:: n == FULL(p / SIZE, h, g) -> atomic { n = 0; p = 0; g = 0; h = 0 }
	:: n == EMPTY(p / SIZE) ->
		atomic {
			ALIVE ->
			if
			:: NODE(r, p) == n -> NODE(r, p) = FULL(p / SIZE, h, g)
			:: else -> skip
			fi;
			n = 0; p = 0; g = 0; h = 0
		}
#ifdef NO_NEW_TICKET
	:: else -> atomic { n = 0; p = 0; g = 0; h = 0 }
#else
	:: else -> atomic { n = 0; seen = w; mine = 0 }; put(r)
#endif
	fi
}

inline any_chunk(v)
{
	if
	:: v = 1
#if CHUNKS > 1
	:: v = 2
#endif
#if CHUNKS > 2
	:: v = 3
#endif
	fi
}

/* chunk h is owned by a dead CN: w says how */
inline recover(w)
{
	atomic { seen = w; mine = 0; g = GEN(w) };
	if
	:: ST(w) == EVICTING -> put(0)
	:: ST(w) == RESERVED -> g++; put(1)
	fi
}

proctype worker(byte cn; byte op1; byte op2; byte op3; byte op4)
{
	byte op, h, g, p, t, tries;
	int n, seen, w;
	bit mine;

next:
	atomic {
		ALIVE ->
		w = 0;
		op = op1; op1 = op2; op2 = op3; op3 = op4; op4 = 0
	}
	if
	:: op == ALLOC && h == 0 -> dequeue(1); goto next
	:: op == DEQ && h == 0 -> dequeue(0); goto next
	:: op == DEQF && h == 0 ->
		atomic {
			ALIVE ->
			if
			:: tail[0] - head[0] >= AMPLE -> skip
			:: else -> goto next
			fi
		};
		atomic { ALIVE -> p = head[0]; head[0]++ };
		atomic { ALIVE -> n = NODE(0, p) };
		if
		:: CYC(n) == p / SIZE && IS_FULL(n) -> claim(0)
		:: else -> atomic { n = 0; p = 0 }
		fi;
		goto next
	:: op == COMPACT && h == 0 ->
		atomic {
			ALIVE ->
			if
			:: p = 0
			:: p = 1
#if SIZE > 2
			:: p = 2
#endif
			fi;
			n = node[p];
			p = CYC(n) * SIZE + p
		};
		if
		:: IS_FULL(n) -> claim(0)
		:: else -> atomic { n = 0; p = 0 }
		fi;
		goto next
	:: op == ENQ && h != 0 && ST(seen) == RESERVED -> put(0); goto next
	:: op == FREE && h != 0 && ST(seen) == EVICTING ->
		atomic {
			ALIVE ->
			if
			:: SAME(word[h], seen) ->
				assert(claimer[h] == _pid);
				g++;
				word[h] = WORD(RESERVED, cn, 0, 0, g);
				seen = word[h]
			:: else -> h = 0; g = 0; seen = 0; mine = 0; goto next
			fi
		};
		put(1);
		goto next
	:: op == SCAN && h == 0 ->
		atomic {
			ALIVE ->
			if
			:: head[0] > 0 -> p = head[0] - 1
			:: head[0] > 1 -> p = head[0] - 2
			:: else -> goto next
			fi
		};
		scan(0);
		goto next
	:: (op == ORPHAN || op == STEAL || op == RECOVER) && h == 0 ->
		atomic {
			ALIVE ->
			any_chunk(h);
			w = word[h];
			if
#ifndef NO_ORPHANS
			:: op == ORPHAN && ST(w) == QUEUED -> skip
#endif
			:: op == STEAL && ST(w) == EVICTING && OWN(w) != cn -> skip
			:: op == RECOVER && ST(w) != QUEUED && dead[OWN(w)] -> skip
			:: else -> h = 0; w = 0; goto next
			fi
		};
		if
		:: op == ORPHAN -> orphan(w)
		:: op == STEAL -> seen = w; mine = 0; g = GEN(w); put(0)
		:: op == RECOVER -> recover(w)
		fi;
		goto next
	:: op == 0 -> skip
	:: else -> goto next
	fi;
	atomic { ALIVE -> done[cn]++ }
}

#if DEATHS > 0
active proctype death()
{
	atomic { dead[1] = 1 }
#if DEATHS > 1
	;
	atomic { dead[2] = 1 }
#endif
}
#endif

/* CN 3 lives, comes when all is quiet, recovers and drains. */
active proctype survivor()
{
	byte cn = 3;
	byte h, g, p, t, tries, c, rounds;
	int n, seen, w;
	bit mine;

	atomic {
		QUIET ->
		c = 1;
		do
		:: c > CHUNKS -> break
		:: else ->
			w = word[c];
			/* without a death no chunk depends on anybody's recovery */
			assert(left || dead[1] || dead[2] || ST(w) != QUEUED ||
			    NODE(RING(w), POS(w)) == FULL(POS(w) / SIZE, c, GEN(w)));
			c++
		od
	};
	rounds = 0;
next:
	do
	:: rounds >= ROUNDS -> break
	:: else ->
		rounds++;
		c = 1;
		do
		:: c > CHUNKS -> break
		:: else ->
			w = word[c];
			h = c;
			if
			:: ST(w) != QUEUED && dead[OWN(w)] -> recover(w)
#ifndef NO_ORPHANS
			:: ST(w) == QUEUED -> orphan(w)
#endif
			:: else -> skip
			fi;
			h = 0;
			c++
		od;
		c = 0;
		do
		:: head[0] == tail[0] || c > LAPS -> break
		:: else -> dequeue(0); atomic { h = 0; seen = 0; mine = 0; g = 0; c++ }
		od;
		c = 0;
		do
		:: head[1] == tail[1] || c > LAPS -> break
		:: else -> dequeue(1); atomic { h = 0; seen = 0; mine = 0; g = 0; c++ }
		od;
		/* whatever lies below head: the last lap */
		c = 0;
		do
		:: c == SIZE -> break
		:: else ->
			c++;
			if
			:: head[0] >= c -> p = head[0] - c; scan(0)
			:: else -> skip
			fi;
			atomic { h = 0; seen = 0; mine = 0; g = 0 };
			if
			:: head[1] >= c -> p = head[1] - c; scan(1)
			:: else -> skip
			fi;
			atomic { h = 0; seen = 0; mine = 0; g = 0 }
		od
	od;
	atomic {
		c = 1;
		do
		:: c > CHUNKS -> break
		:: else ->
			assert(ST(word[c]) != QUEUED && !dead[OWN(word[c])]);
			c++
		od
	}
}

init {
	atomic {
		/* chunks 1 and up start in the free ring, but the last QUEUED_FIRST in ring 0 */
		byte c = 1;
		do
		:: c > CHUNKS -> break
		:: c <= CHUNKS - BUSY ->
			word[c] = WORD(QUEUED, 0, 1, tail[1], 0);
			NODE(1, tail[1]) = FULL(0, c, 0);
			tail[1]++; c++
		:: c > CHUNKS - BUSY && c <= CHUNKS ->
			word[c] = WORD(QUEUED, 0, 0, tail[0], 0);
			NODE(0, tail[0]) = FULL(0, c, 0);
			tail[0]++; c++
		od;
		c = 0;
		run worker(W1);
		run worker(W2);
#ifdef W3
		run worker(W3);
#endif
		ready = 1
	}
}
