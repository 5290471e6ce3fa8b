/* A deleted version that is brought back has its objects.

   One version, deleted; its grace is over. The collector takes it out of what is in use, may stand still, and sweeps; someone brings it back at any moment.

   Violated: the version is live and its object is gone.

   Mutation: PURGE=0  the collector leaves the version out by the clock alone, without a transaction that removes its record */
#ifndef PURGE
#define PURGE 1
#endif
mtype = { LIVE, DELETED, GONE };
mtype v = DELETED; bool has = 1; bool in_use = 1;

active proctype Collector() {
#if PURGE
  atomic { if :: v == DELETED -> v = GONE :: else fi };
  atomic { in_use = (v != GONE) };
#else
  atomic { in_use = (v == LIVE) };
#endif
  atomic { if :: !in_use -> has = 0 :: else fi }
}
active proctype Restore() { atomic { if :: v == DELETED -> v = LIVE :: else fi } }
active proctype Monitor() { atomic { v == LIVE && !has -> assert(false) } }
