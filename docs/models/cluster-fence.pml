/* The collector's fence in a cluster whose map changes: the whole of link, commit, pull, offer, drop, refusal and sweep.

   One object, three nodes, two of them its owners: nodes 0 and 1 at odd map versions, 1 and 2 at even ones. Each node learns map versions
   late. One upload in one session; its commit is made by a server that may have an old map, takes any copies that it finds or makes, and needs at
   least MIN of them. The version is deleted, brought back, purged. The collector makes ROUNDS rounds; each node applies each of them at any later time.
   Owners pull; nodes that do not own ask to drop. LOSSES disks are lost, each only when repair has nothing left to do.

   Violated: a version that is not purged names the object and no node has it.

   Without REFUSE an owner that refuses a copy does not make its holder delete it.

   Instance: VMAX=1 ROUNDS=2
   Mutation: MERGE=0    digests among owners cover ids only: touched_rev of two copies may differ for ever
   Mutation: NOLIST=1   a node keeps the fence of a round for a partition whose list it was not sent, and refuses by it
   Mutation: NOTOUCH=1  the question of a drop leaves touched_rev out
   Mutation: NOSES=1    the commit does not compare its session */
#ifndef MIN
#define MIN 1
#endif
#ifndef VMAX
#define VMAX 2
#endif
#ifndef ROUNDS
#define ROUNDS 1
#endif
#ifndef LOSSES
#define LOSSES 1
#endif
#ifndef MERGE
#define MERGE 1
#endif
#ifndef REFUSE
#define REFUSE 1
#endif
#ifndef NOTOUCH
#define NOTOUCH 0
#endif
#ifndef NOSES
#define NOSES 0
#endif
#ifndef NOLIST
#define NOLIST 0
#endif
#define own(v, n) (((v) & 1) -> (n) < 2 : (n) > 0)
#define owners(v) (((v) & 1) -> 3 : 6)                             /* as a mask */
#define cnt(m) (((m) & 1) + (((m) >> 1) & 1) + (((m) >> 2) & 1))
#define bit(n) (1 << (n))

byte t[3];                            /* copies: 0 absent, else touched_rev */
byte nv[3]; byte mapv = 1;            /* map versions: each node's, the newest */
byte rev = 1, srev = 0; bool slive = 0;
byte rec = 0;                         /* the version: 0 none, 1 live, 2 deleted, 3 purged */
byte ph = 0, cv = 0, mask = 0;        /* commit: 0 none, 1 session open, 2 counting, 3 over; the server's map; stores counted */
byte rounds = 0; byte M[2]; bool inL[2];
byte nr[3]; bool nl[3];               /* last round that a node applied; whether it kept its fence without a list */
byte lost = 0;
byte pn = 3, pt = 0;                  /* a copy on its way to node pn with touched_rev pt */
byte da = 3, dv = 0, dt = 0, dy = 0;  /* a node that asks to drop: version, touched_rev, who has said yes */

#define refuse(n, x) (nr[n] > 0 && (nl[n] || !inL[nr[n] - 1]) && (x) < M[nr[n] - 1])
inline raise(n, x) { if :: t[n] < x -> t[n] = x :: else fi }
/* Nothing is left to repair: all owners have it; with MERGE they agree on touched_rev, and nobody else has a greater one. */
#define first_owner ((mapv & 1) -> 0 : 2)
#define no_owner ((mapv & 1) -> 2 : 0)
#define QUIET (t[first_owner] > 0 && t[1] > 0 && (!MERGE || (t[first_owner] == t[1] && t[no_owner] <= t[1])))

active proctype Sys() {
  byte n, s, k;
  atomic {
    nv[0] = 1; nv[1] = 1; nv[2] = 1;
    if :: t[0] = 1 :: skip fi; if :: t[1] = 1 :: skip fi; if :: t[2] = 1 :: skip fi
  }
  do
  /* the session; puts and links at any node, late ones too */
  :: atomic { ph == 0 -> rev++; srev = rev; slive = 1; ph = 1 }
  :: atomic { slive -> slive = 0 }
  :: atomic { srev > 0 && ph < 3 -> select(n : 0..2); raise(n, srev); n = 0 }
  :: atomic { srev > 0 && rec == 0 && ph == 3 -> select(n : 0..2); raise(n, srev); n = 0 }
  /* the commit: it links what the owners of its map have, and copies to them what they lack */
  :: atomic { ph == 1 -> select(cv : 1..2); if :: cv > mapv -> cv = mapv :: else fi; mask = 0; ph = 2 }
  :: atomic { ph == 2 -> select(n : 0..2); if :: own(cv, n) && t[n] > 0 -> raise(n, srev); mask = mask | bit(n) :: else fi; n = 0 }
  :: atomic { ph == 2 && mask -> select(n : 0..2); if :: own(cv, n) -> raise(n, srev); mask = mask | bit(n) :: else fi; n = 0 }
  :: atomic { ph == 2 -> if :: (slive || NOSES) && cnt(mask) >= MIN -> rec = 1 :: else fi; ph = 3; mask = 0; cv = 0 }
  :: atomic { rec == 1 -> rec = 2 }
  :: atomic { rec == 2 -> rec = 1 }
  /* the collector: a round, in which a deleted version may be purged; each node applies it when it comes */
  :: atomic {
       rounds < ROUNDS -> if :: rec == 2 -> rec = 3 :: skip fi;
       M[rounds] = (slive -> srev : rev + 1); inL[rounds] = (rec == 1 || rec == 2); rounds++
     }
  :: atomic {
       rounds > 0 -> select(n : 0..2); if :: k = 1 :: rounds > 1 -> k = 2 fi;
       if :: nr[n] < k -> nr[n] = k; if :: NOLIST && !own(nv[n], n) -> nl[n] = 1 :: else -> nl[n] = 0 fi :: else fi;
       if :: t[n] > 0 && !inL[k - 1] && t[n] < M[k - 1] -> t[n] = 0 :: else fi;
       n = 0; k = 0
     }
  /* offer and pull: an owner takes a copy, or refuses it */
  :: atomic {
       pn == 3 -> select(n : 0..2); select(s : 0..2);
       if
       :: n != s && own(nv[n], n) && t[n] == 0 && t[s] > 0 ->
          if
          :: refuse(n, t[s]) -> if :: REFUSE && !own(nv[s], s) -> t[s] = 0 :: else fi
          :: else -> pn = n; pt = t[s]
          fi
       :: else
       fi;
       n = 0; s = 0
     }
  :: atomic { pn < 3 -> if :: !refuse(pn, pt) -> raise(pn, pt) :: else fi; pn = 3; pt = 0 }
  :: atomic { pn < 3 -> pn = 3; pt = 0 }
  :: atomic { MERGE -> select(n : 0..2); select(s : 0..2); if :: n != s && t[n] > 0 && t[s] > 0 -> raise(n, t[s]) :: else fi; n = 0; s = 0 }
  /* drop: ask, be answered, act */
  :: atomic { da == 3 -> select(n : 0..2); if :: t[n] > 0 && !own(nv[n], n) -> da = n; dv = nv[n]; dt = t[n]; dy = 0 :: else fi; n = 0 }
  :: atomic {
       da < 3 -> select(n : 0..2);
       if
       :: n != da && own(dv, n) && t[n] > 0 && nv[n] == dv -> if :: NOTOUCH -> skip :: else -> raise(n, dt) fi; dy = dy | bit(n)
       :: else
       fi;
       n = 0
     }
  :: atomic {
       da < 3 -> if :: dy == owners(dv) && nv[da] == dv && (NOTOUCH || t[da] == dt) -> t[da] = 0 :: else fi;
       da = 3; dv = 0; dt = 0; dy = 0
     }
  /* the map changes, nodes learn it, a disk is lost */
  :: atomic { mapv < VMAX -> mapv++ }
  :: atomic { select(n : 0..2); if :: nv[n] < mapv -> nv[n]++ :: else fi; n = 0 }
  :: atomic {
       lost < LOSSES && rec == 1 && da == 3 && pn == 3 && nv[0] == mapv && nv[1] == mapv && nv[2] == mapv && QUIET ->
       select(n : 0..2); t[n] = 0; nr[n] = 0; lost++; n = 0
     }
  od
}

active proctype Monitor() { atomic { (rec == 1 || rec == 2) && t[0] == 0 && t[1] == 0 && t[2] == 0 -> assert(false) } }
