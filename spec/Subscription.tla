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
  Renewals,    \* how often a consumer renews its lease
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

(* lease.py::_written_record: upon the version that is known; or where the answer to one's own last write was lost, *)
(* upon that one.  ::_onward: the group does not go back behind what that one says.                              *)
Known(c) ==
  IF Fits(consumer[c].version) THEN consumer[c].version
  ELSE IF files[Top].holder = c \/ ~On("ownRecord") THEN Top ELSE 0

Onward(c, version, cursor) ==
  IF On("onward") /\ version # consumer[c].version /\ files[version].cursor > cursor THEN files[version].cursor
  ELSE cursor

(* Writes, if it may, and goes on as `next` says by the version and the cursor written; or the answer is lost. *)
Move(c, holder, to, next(_, _), budget) ==
  LET known == Known(c) IN
  IF known > 0 /\ Fits(known)
  THEN LET cursor == Onward(c, known, to) IN
       /\ Write(known, [holder |-> holder, cursor |-> cursor])
       /\ \/ Goes(c, next(known + 1, cursor)) /\ left' = budget
          \/ consumer' = consumer /\ left.faults > 0 /\ left' = [budget EXCEPT !.faults = @ - 1]
  ELSE Goes(c, Away) /\ left' = budget /\ UNCHANGED <<files, newest>>

Stays(c, version, cursor) == [consumer[c] EXCEPT !.version = version, !.cursor = cursor]

(* lease.py::move. *)
Ack(c) ==
  /\ consumer[c].at = "has" /\ consumer[c].given > consumer[c].cursor
  /\ Move(c, c, consumer[c].given, LAMBDA version, cursor : Stays(c, version, cursor), left)
  /\ acked' = IF consumer'[c].cursor > consumer[c].cursor THEN [acked EXCEPT ![c] = consumer'[c].cursor] ELSE acked
  /\ UNCHANGED seen

(* lease.py::_renew: the record as the consumer knows it, so that its age begins again. *)
Renew(c) ==
  /\ consumer[c].at = "has" /\ left.renewals > 0
  /\ Move(c, c, consumer[c].cursor, LAMBDA version, cursor : Stays(c, version, cursor), [left EXCEPT !.renewals = @ - 1])
  /\ UNCHANGED <<acked, seen>>

(* lease.py::give_up. *)
GiveUp(c) ==
  /\ consumer[c].at = "has" /\ consumer[c].cursor = LogEnd
  /\ Move(c, Nobody, consumer[c].cursor, LAMBDA version, cursor : Away, left) /\ UNCHANGED <<acked, seen>>

Die(c) == consumer[c].at # "away" /\ Spend("takeovers") /\ Goes(c, Away) /\ UNCHANGED <<files, newest, acked, seen>>

Init ==
  /\ files = [v \in {1} |-> [holder |-> Nobody, cursor |-> 0]] /\ newest = 1
  /\ consumer = [c \in Consumers |-> Away] /\ acked = [c \in Consumers |-> 0] /\ seen = {}
  /\ left = [takeovers |-> Takeovers, faults |-> Faults, renewals |-> Renewals]

Next == \E c \in Consumers : Read(c) \/ Take(c) \/ Get(c) \/ Ack(c) \/ Renew(c) \/ GiveUp(c) \/ Die(c)
Spec == Init /\ [][Next]_vars

(* Nothing is passed over: what the group stands behind was delivered. *)
NothingSkipped == \A e \in 1 .. files[Top].cursor : e \in seen
(* What was confirmed stays: the group never goes back behind an acknowledgement. *)
Confirmed == \A c \in Consumers : acked[c] <= files[Top].cursor
(* Versions are not given twice, so that who holds the newest is the only one that can write. *)
Newest == Top = newest
(* It goes forward, and to another consumer only when that one takes it: not to one that goes on as if it had it. *)
Forward ==
  [][/\ files'[newest'].cursor >= files[newest].cursor
     /\ files'[newest'].holder \in {files[newest].holder, Nobody} \cup {c \in Consumers : consumer[c].at # "has"}
    ]_<<files, newest>>
=============================================================================
