/* A node drops what it does not own only if it and the owner have the same map version.

   One object, two nodes, one owner: the map goes from version 1 (owner: node 0) over 2 (node 1) to 3 (node 0). Each node learns versions late. A
   node that owns and lacks the object pulls it; one that has it and does not own asks the owner and drops it on yes.

   Violated: nobody has the object.

   Mutation: FIX=0  neither the answer nor the drop compares map versions: each node drops because the other one owns */
#ifndef FIX
#define FIX 1
#endif
#define owner(v) (1 - ((v) & 1))

byte mapv = 1; byte nv[2]; bool has[2];

active proctype Map() { mapv = 2; mapv = 3 }
proctype Learn(byte n) { do :: atomic { nv[n] < mapv -> nv[n] = mapv } :: nv[n] == 3 -> break od }
proctype Puller(byte n) {
  byte k = 0;
  do
  :: k < 2 -> k++; if :: atomic { owner(nv[n]) == n && !has[n] && has[1 - n] -> has[n] = 1 } :: skip fi
  :: k >= 2 -> break
  od
}
proctype Dropper(byte n) {
  byte v; bool yes; byte k = 0;
  do
  :: k < 2 -> k++;
     yes = 0;
     atomic { v = nv[n]; if :: owner(v) != n && has[n] -> skip :: else -> v = 0 fi };
     if
     :: v == 0 -> skip
     :: v != 0 ->
        atomic { if :: has[1 - n] && (!FIX || nv[1 - n] == v) -> yes = 1 :: else fi };  /* the other node's answer */
        atomic { if :: yes && (!FIX || nv[n] == v) -> has[n] = 0 :: else fi }            /* when it arrives */
     fi
  :: k >= 2 -> break
  od
}
init {
  atomic {
    nv[0] = 1; nv[1] = 1; has[0] = 1; has[1] = 0;
    run Learn(0); run Learn(1); run Puller(0); run Puller(1); run Dropper(0); run Dropper(1); run Monitor()
  }
}
proctype Monitor() { atomic { !has[0] && !has[1] -> assert(false) } }
