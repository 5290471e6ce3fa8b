/* A commit happens once, whoever sends it how often, and disturbs no version of another writer.

   One commit request with its id is run by two nodes, since the client tried again; each sends its transaction twice at most, since the reply may
   be lost. Beside them another writer commits, and a version is deleted.

   Violated: a deleted version is live again, another writer's version is overwritten, or one request has made two versions.

   Mutation: HEAD=0  the transaction compares only that its session and its base exist, not the model record's mod_revision
   Mutation: ONCE=0  it does not compare that no record of its commit id is there */
#ifndef HEAD
#define HEAD 1
#endif
#ifndef ONCE
#define ONCE 1
#endif
#define NV 5

byte head = 1, hrev = 1;           /* the model record: newest number, mod_revision */
byte st[NV];                       /* versions: 0 none, 1 live, 2 deleted */
byte who[NV];                      /* whose: 1 this request's, 2 the other writer's */
bool ckey = 0;                     /* the record of the commit id */
byte made = 0; bool broken = 0;

proctype Node() {
  byte h, r; bool done = 0; byte tries = 0;
  atomic { h = head; r = hrev };
  do
  :: tries < 2 && !done -> tries++;
     atomic {
       if
       :: (!HEAD || hrev == r) && (!ONCE || !ckey) ->
          if :: st[h + 1] == 2 || (st[h + 1] == 1 && who[h + 1] == 2) -> broken = 1 :: else fi;
          st[h + 1] = 1; who[h + 1] = 1;
          if :: head < h + 1 -> head = h + 1; hrev++ :: else fi;
          ckey = 1; made++; done = 1
       :: else -> if :: ckey -> done = 1 :: else fi; h = head; r = hrev
       fi
     };
     if :: skip :: done = 0 fi       /* the reply may be lost */
  :: else -> break
  od
}
proctype Other() {
  byte r, h;
  atomic { h = head; r = hrev };
  atomic { if :: hrev == r && h + 1 < NV -> head = h + 1; hrev++; st[h + 1] = 1; who[h + 1] = 2 :: else fi }
}
proctype Deleter() { byte k; if :: k = 2 :: k = 3 fi; atomic { if :: st[k] == 1 -> st[k] = 2 :: else fi } }
proctype Monitor() { atomic { broken || made > 1 -> assert(false) } }
init { atomic { st[1] = 1; run Node(); run Node(); run Other(); run Deleter(); run Monitor() } }
