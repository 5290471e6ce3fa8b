/* A drop loses no touched_rev.

   One object, which both nodes have; node 0 owns it, node 1 does not and asks to drop. An upload puts or links it on any of them, or reuses a
   version's object; its session may end; versions are deleted; the collector makes two rounds and may stand still anywhere.

   Violated: a version that is not deleted names the object and neither node has it.

   Mutation: RAISE=0  an owner that says yes does not raise its touched_rev to the asker's
   Mutation: SAME=0   the asker drops although its own touched_rev has grown since it asked */
#ifndef RAISE
#define RAISE 1
#endif
#ifndef SAME
#define SAME 1
#endif
#define V 2     /* versions */

byte rev = 1;
byte srev; bool live;            /* the session: create revision, alive */
bool verlive[V]; byte nver = 0;
bool has[2] = 1; byte t[2];      /* copies */

inline put(n, r) { atomic { has[n] = 1; if :: t[n] < r -> t[n] = r :: else fi } }

active proctype Client() {
  bool acked, reused;
  atomic { rev++; srev = rev; live = 1 };
  if
  :: if :: put(0, srev); acked = 1 :: skip fi;
     if :: put(1, srev); acked = 1 :: skip fi
  :: atomic { if :: nver > 0 && verlive[0] -> reused = 1 :: else fi }
  fi;
  atomic {
    if
    :: live && nver < V && reused && verlive[0] -> verlive[nver] = 1; nver++; rev++
    :: live && nver < V && !reused && acked -> verlive[nver] = 1; nver++; rev++
    :: else
    fi;
    live = 0
  }
}
active proctype Expire() { live = 0 }
active proctype Deleter() {
  byte k = 0;
  do
  :: k < 2 -> k++; atomic { if :: verlive[0] -> verlive[0] = 0; rev++ :: verlive[1] -> verlive[1] = 0; rev++ :: else fi }
  :: k >= 2 -> break
  od
}
active proctype Collector() {
  bool in_use; byte m, n, c = 0;
  do
  :: c < 2 -> c++;
     atomic { m = rev + 1; if :: live && srev < m -> m = srev :: else fi; in_use = verlive[0] || verlive[1] };
     n = 0;
     do
     :: n < 2 -> atomic { if :: has[n] && !in_use && t[n] < m -> has[n] = 0; t[n] = 0 :: else fi; n++ }
     :: n >= 2 -> break
     od
  :: c >= 2 -> break
  od
}
active proctype Drop() {
  byte asked; bool yes;
  atomic { has[1] -> asked = t[1] };
  atomic { if :: has[0] -> yes = 1; if :: RAISE && t[0] < asked -> t[0] = asked :: else fi :: else fi };
  atomic { if :: yes && (!SAME || t[1] == asked) -> has[1] = 0; t[1] = 0 :: else fi }
}
#define safe(v) (!verlive[v] || has[0] || has[1])
active proctype Monitor() { atomic { !(safe(0) && safe(1)) -> assert(false) } }
