/* The collector's fence: an object that a committed version names is never swept.

   One object, two nodes. Two uploads, each with a session, put the object on any of the nodes or reuse a committed version's object
   without touching it; sessions end at any moment; versions are deleted; the collector makes CYCLES rounds and may stand still between
   its snapshot and each deletion; a node copies the object to the other one REPAIRS times. A revision is `rev`; a node keeps with its copy touched_rev `t`.

   Violated: a committed version names a node that has acknowledged the object and lost it.

   Mutation: NOFENCE=1  the sweep ignores touched_rev
   Mutation: ONESES=1   the fence misses a session
   Mutation: NOSES=1    the commit does not compare its session */
#ifndef CYCLES
#define CYCLES 2
#endif
#ifndef REPAIRS
#define REPAIRS 2
#endif
#ifndef NOFENCE
#define NOFENCE 0
#endif
#ifndef ONESES
#define ONESES 0
#endif
#ifndef NOSES
#define NOSES 0
#endif
#define N 2             /* nodes */
#define V 2             /* versions */

byte rev = 1;
byte srev[2]; bool live[2];                  /* sessions: create revision, alive */
bool verlive[V]; byte vernodes[V]; byte nver; /* versions: not deleted, nodes that acknowledged */
bool has[N]; byte t[N];                      /* copies */

inline put(n, r) {
  atomic { has[n] = 1; if :: t[n] < r -> t[n] = r :: else fi }
}
#define alive(i) (live[i] || NOSES)

proctype Client(bool i) {
  byte acked, base = V;
  atomic { rev++; srev[i] = rev; live[i] = 1 };
  if
  :: if :: put(0, srev[i]); acked = acked | 1 :: skip fi;
     if :: put(1, srev[i]); acked = acked | 2 :: skip fi
  :: atomic { if :: nver > 0 && verlive[0] -> base = 0 :: nver > 1 && verlive[1] -> base = 1 :: else fi }
  fi;
  atomic {   /* commit: the session is alive, and the base is still there or something was acknowledged */
    if
    :: alive(i) && nver < V && base < V && verlive[base] -> verlive[nver] = 1; vernodes[nver] = vernodes[base]; nver++; rev++
    :: alive(i) && nver < V && base == V && acked > 0 -> verlive[nver] = 1; vernodes[nver] = acked; nver++; rev++
    :: else
    fi;
    live[i] = 0; acked = 0; base = V
  }
}
active proctype Expire() { if :: live[0] = 0 :: live[1] = 0 fi }
active proctype Deleter() {
  byte k;
  do :: k < 2 -> atomic { if :: verlive[0] -> verlive[0] = 0; rev++ :: verlive[1] -> verlive[1] = 0; rev++ :: else fi; k++ }
     :: k >= 2 -> break
  od
}
proctype Collector() {
  byte m, n, c; bool in_use;
  do
  :: c < CYCLES ->
     atomic {  /* the snapshot: fence and what is in use */
       c++;
       m = rev + 1;
       if :: live[0] && srev[0] < m -> m = srev[0] :: else fi;
       if :: !ONESES && live[1] && srev[1] < m -> m = srev[1] :: else fi;
       in_use = verlive[0] || verlive[1]
     };
     atomic { if :: has[0] && !in_use && (NOFENCE || t[0] < m) -> has[0] = 0; t[0] = 0 :: else fi };
     atomic { if :: has[1] && !in_use && (NOFENCE || t[1] < m) -> has[1] = 0; t[1] = 0 :: else fi; m = 0; in_use = 0 }
  :: c >= CYCLES -> break
  od
}
active proctype Repair() {
  byte k, r; bool s;
  do
  :: k < REPAIRS -> k++;
     if :: s = 0 :: s = 1 fi;
     if :: atomic { has[s] -> r = t[s] }; put(1 - s, r) :: skip fi;
     r = 0; s = 0
  :: k >= REPAIRS -> break
  od
}
init { atomic { run Client(0); run Client(1); run Collector() } }

#define safe(v) (!verlive[v] || ((!(vernodes[v] & 1) || has[0]) && (!(vernodes[v] & 2) || has[1])))
active proctype Monitor() { atomic { !(safe(0) && safe(1)) -> assert(false) } }
