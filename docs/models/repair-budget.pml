/* Byte budgets of repair: two nodes that pull from each other.

   Violated: both stand still.

   Mutation: SPLIT=0  what is pulled and what is served to the other one's pull share one budget */
#ifndef SPLIT
#define SPLIT 1
#endif
byte pull[2] = 1, serve[2] = 1;   /* free units */
#if SPLIT
#define serve_units(n) serve[n]
#else
#define serve_units(n) pull[n]
#endif
proctype Pull(byte n) {
  atomic { pull[n] > 0 -> pull[n]-- };
  atomic { serve_units(1 - n) > 0 -> serve_units(1 - n)-- };
  serve_units(1 - n)++;
  pull[n]++
}
init { atomic { run Pull(0); run Pull(1) } }
