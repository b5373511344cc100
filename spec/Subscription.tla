---------------------------- MODULE Subscription ----------------------------
(***************************************************************************)
(* A consumer group: its record is a file a version, created exclusively,  *)
(* and the newest counts.  A consumer has the group as long as its lease,  *)
(* the age of the newest version, lasts; clocks may tell it early.  What   *)
(* is acknowledged is never delivered again, and nothing is skipped.       *)
(* Guards are switched off by configurations, as in Lake.                  *)
(***************************************************************************)
EXTENDS Integers, Sequences, FiniteSets

CONSTANTS
  LogEnd,      \* entries 1 .. LogEnd
  Consumers,
  Takeovers,   \* how often a lease ends while its consumer lives, or a consumer dies
  Kept,        \* versions that stay when older ones are removed
  Faults,      \* answers that are lost
  Off

VARIABLES
  files,       \* the records: by version [holder, cursor]
  newest,      \* the newest version there ever was
  consumer,    \* what each consumer is at: the version and cursor that it knows, and what it was given
  acked,       \* by consumer the entries whose acknowledgement was confirmed to it
  seen,        \* entries that were delivered to anybody
  left

vars == <<files, newest, consumer, acked, seen, left>>
On(guard) == guard \notin Off
Nobody == "nobody"
Away == [at |-> "away", version |-> 0, cursor |-> 0, given |-> 0]
Top == CHOOSE v \in DOMAIN files : \A w \in DOMAIN files : w <= v
Goes(c, to) == consumer' = [consumer EXCEPT ![c] = to]
Spend(what) == left[what] > 0 /\ left' = [left EXCEPT ![what] = @ - 1]

(* records.py::write: the version after the one that is known, if it is the newest, and that one is there still. *)
Fits(version) ==
  /\ version + 1 \notin DOMAIN files \/ ~On("exclusive")
  /\ (version + 1 >= Top /\ version \in DOMAIN files) \/ ~On("newest")

Write(version, record) ==
  LET stays == {v \in DOMAIN files : v > version + 1 - Kept} \cup {version + 1} IN
  /\ files' = [v \in stays |-> IF v = version + 1 THEN record ELSE files[v]]
  /\ newest' = IF version + 1 > newest THEN version + 1 ELSE newest

(* lease.py::take. *)
Read(c) ==
  /\ consumer[c].at = "away" /\ files[Top].cursor < LogEnd
  /\ \/ files[Top].holder = Nobody /\ UNCHANGED left
     \/ Spend("takeovers")                                  \* the lease is over, whether or not its consumer is
  /\ Goes(c, [at |-> "takes", version |-> Top, cursor |-> files[Top].cursor, given |-> files[Top].cursor])
  /\ UNCHANGED <<files, newest, acked, seen>>

Take(c) ==
  /\ consumer[c].at = "takes"
  /\ IF Fits(consumer[c].version)
     THEN /\ Write(consumer[c].version, [holder |-> c, cursor |-> consumer[c].cursor])
          /\ Goes(c, [consumer[c] EXCEPT !.at = "has", !.version = @ + 1])
     ELSE Goes(c, Away) /\ UNCHANGED <<files, newest>>
  /\ UNCHANGED <<acked, seen, left>>

(* subscription.py::get_without_ack: the entry after those that were given. *)
Get(c) ==
  /\ consumer[c].at = "has" /\ consumer[c].given < LogEnd
  /\ Goes(c, [consumer[c] EXCEPT !.given = IF On("inOrder") THEN @ + 1 ELSE LogEnd])
  /\ seen' = seen \cup {consumer'[c].given}
  /\ UNCHANGED <<files, newest, acked, left>>

(* lease.py::move, and ::_written_record where an answer was lost. *)
Move(c, holder, to, next) ==
  LET mine == consumer[c]
      known == IF Fits(mine.version) THEN mine.version
               ELSE IF files[Top].holder = c \/ ~On("ownRecord") THEN Top ELSE 0
  IN IF known > 0 /\ Fits(known)
     THEN /\ Write(known, [holder |-> holder, cursor |-> to])
          /\ \/ Goes(c, [next EXCEPT !.version = known + 1]) /\ acked' = [acked EXCEPT ![c] = to] /\ UNCHANGED left
             \/ Spend("faults") /\ UNCHANGED <<consumer, acked>>
     ELSE Goes(c, Away) /\ UNCHANGED <<files, newest, acked, left>>

Ack(c) ==
  /\ consumer[c].at = "has" /\ consumer[c].given > consumer[c].cursor
  /\ Move(c, c, consumer[c].given, [consumer[c] EXCEPT !.cursor = consumer[c].given]) /\ UNCHANGED seen

GiveUp(c) ==
  /\ consumer[c].at = "has" /\ consumer[c].cursor = LogEnd
  /\ Move(c, Nobody, consumer[c].cursor, Away) /\ UNCHANGED seen

Die(c) == consumer[c].at # "away" /\ Spend("takeovers") /\ Goes(c, Away) /\ UNCHANGED <<files, newest, acked, seen>>

Init ==
  /\ files = [v \in {1} |-> [holder |-> Nobody, cursor |-> 0]] /\ newest = 1
  /\ consumer = [c \in Consumers |-> Away] /\ acked = [c \in Consumers |-> 0] /\ seen = {}
  /\ left = [takeovers |-> Takeovers, faults |-> Faults]

Next == \E c \in Consumers : Read(c) \/ Take(c) \/ Get(c) \/ Ack(c) \/ GiveUp(c) \/ Die(c)
Spec == Init /\ [][Next]_vars

(* Nothing is passed over: what the group stands behind was delivered. *)
NothingSkipped == \A e \in 1 .. files[Top].cursor : e \in seen
(* What was confirmed stays: the group never goes back behind an acknowledgement. *)
Confirmed == \A c \in Consumers : acked[c] <= files[Top].cursor
(* Versions are not given twice, so that who holds the newest is the only one that can write. *)
Newest == Top = newest
Forward == [][files'[newest'].cursor >= files[newest].cursor]_<<files, newest>>
=============================================================================
