/* Byte budgets of writes: three nodes in a circle, each the head of one client stream and a replica of its neighbour's.

   A unit of a budget is given back when the next one has taken the block.

   Violated: all three stand still.

   Mutation: SPLIT=0  client streams and replica writes share one budget */
#ifndef SPLIT
#define SPLIT 1
#endif
byte stream[3] = 1, replica[3] = 1;   /* free units */
#if SPLIT
#define replica_units(n) replica[n]
#else
#define replica_units(n) stream[n]
#endif
proctype Stream(byte head) {
  byte next = (head + 1) % 3;
  atomic { stream[head] > 0 -> stream[head]-- };                 /* a block has come */
  atomic { replica_units(next) > 0 -> replica_units(next)-- };   /* it is sent on */
  stream[head]++;
  replica_units(next)++                                          /* it is on that disk */
}
init { atomic { run Stream(0); run Stream(1); run Stream(2) } }
