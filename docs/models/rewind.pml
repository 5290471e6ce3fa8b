/* A sweep of a round that the catalog has forgotten deletes nothing.

   The catalog goes back from revision 9 to 5 while a round with S = M = 9 stands still at a node, which has seen revision SEEN of the old history.
   A new session begins, uploads and commits; other writes push the revision on; the old sweep comes at any moment.

   Violated: the upload is committed and its object is gone.

   Instance: SEEN=6
   Instance: SEEN=9
   Mutation: ROUND=0  the node sweeps unless the catalog's revision is below the greatest that it has seen, instead of looking for the round's
                      own record, with its random value, by a linearizable read */
#ifndef ROUND
#define ROUND 1
#endif
#ifndef SEEN
#define SEEN 4
#endif
byte rev = 9, roundrec = 7, seen = SEEN, t = 0, srev = 0;
bool back = 0, com = 0, stop = 0;
#define look if :: rev < seen -> stop = 1 :: else -> seen = rev fi

active proctype Rewind() { atomic { rev = 5; roundrec = 0; back = 1 } }
active proctype Traffic() { byte k = 0; do :: back && k < 5 -> atomic { rev++; k++ } :: k >= 5 -> break od }
active proctype Upload() {
  atomic { back -> rev++; srev = rev };
  atomic { look; if :: !stop -> t = srev :: else fi };
  atomic { if :: t == srev && !stop -> com = 1; rev++ :: else fi }
}
active proctype Sweep() {
  atomic {
    if
    :: ROUND -> if :: roundrec == 7 -> skip :: else -> goto end fi
    :: else -> look; if :: stop -> goto end :: else fi
    fi;
    if :: t > 0 && t < 9 -> t = 0 :: else fi
  };
end: skip
}
active proctype Monitor() { atomic { com && t == 0 -> assert(false) } }
