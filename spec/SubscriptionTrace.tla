-------------------------- MODULE SubscriptionTrace --------------------------
(***************************************************************************)
(* What real consumers did to the record of one group, event by event, as  *)
(* steps of Subscription: each write has to count where its guards say so, *)
(* and nowhere else, and all invariants hold after it.  A trace with an    *)
(* event that cannot happen ends there, which TLC reports as a deadlock.   *)
(*                                                                         *)
(* Traces.tla is generated: tests/faults/tracing.py.  Each connection is a *)
(* consumer of its own.  `upon` is the version that a write was planned    *)
(* on; `ok` whether it counted; `answered` whether its consumer learned    *)
(* it; `over` whether the lease before it had ended.                       *)
(***************************************************************************)
EXTENDS Subscription, Traces

VARIABLES trace, at

Event == Traces[trace][at]
Mine(e) == consumer[e.connection]

(* lease.py::take: of a group that nobody has, or whose consumer gave no sign of life. *)
Taken(e) ==
  /\ Mine(e).at = "away" /\ e.ok = Fits(e.upon)
  /\ IF e.ok
     THEN /\ files[e.upon].holder = Nobody \/ e.over
          /\ e.cursor = files[e.upon].cursor
          /\ Write(e.upon, [holder |-> e.connection, cursor |-> e.cursor])
          /\ Goes(e.connection, IF e.answered THEN [at |-> "has", version |-> e.upon + 1, cursor |-> e.cursor, given |-> e.cursor]
                         ELSE Away)
     ELSE UNCHANGED <<files, newest, consumer>>
  /\ UNCHANGED <<acked, seen>>

(* lease.py::move and ::give_up: upon the version that the consumer knows, or its own newer one.  Others may have *)
(* come after that since: such a write is refused.                                                             *)
Moved(e) ==
  /\ Mine(e).at = "has" /\ e.ok = Fits(e.upon)
  /\ e.ok => e.upon = Mine(e).version \/ files[Top].holder = e.connection
  /\ e.cursor >= Mine(e).cursor
  /\ e.ok => e.cursor <= Mine(e).given \/ e.cursor <= files[e.upon].cursor   \* of its own write, whose answer was lost
  /\ IF e.ok
     THEN /\ Write(e.upon, [holder |-> IF e.frees THEN Nobody ELSE e.connection, cursor |-> e.cursor])
          /\ IF e.answered THEN Goes(e.connection, [Mine(e) EXCEPT !.version = e.upon + 1, !.cursor = e.cursor])
             ELSE UNCHANGED consumer
     ELSE UNCHANGED <<files, newest, consumer>>
  /\ UNCHANGED <<acked, seen>>

(* lease.py::_renew: the group stays where the consumer knows it, or where its own write without an answer moved it. *)
Renewed(e) ==
  /\ Moved(e)
  /\ e.ok => e.cursor = IF files[e.upon].cursor > Mine(e).cursor THEN files[e.upon].cursor ELSE Mine(e).cursor

(* subscription.py::get_without_ack: the entry after those that were given. *)
Given(e) ==
  /\ Mine(e).at = "has" /\ e.cursor = Mine(e).given + 1
  /\ Goes(e.connection, [Mine(e) EXCEPT !.given = e.cursor]) /\ seen' = seen \cup {e.cursor}
  /\ UNCHANGED <<files, newest, acked>>

(* subscription.py::rollback. *)
Again(e) ==
  /\ Mine(e).at = "has" /\ Goes(e.connection, [Mine(e) EXCEPT !.given = e.cursor]) /\ e.cursor <= Mine(e).cursor
  /\ UNCHANGED <<files, newest, acked, seen>>

(* The consumer has its answer: what is acknowledged stays so. *)
Answer(e) ==
  /\ Mine(e).at = "has" /\ e.cursor <= Mine(e).cursor /\ acked' = [acked EXCEPT ![e.connection] = e.cursor]
  /\ UNCHANGED <<files, newest, consumer, seen>>

(* It ends, or is refused. *)
Gone(e) == Goes(e.connection, Away) /\ UNCHANGED <<files, newest, acked, seen>>

Happens(e) ==
  CASE e.kind = "take" -> Taken(e)
    [] e.kind = "move" -> Moved(e)
    [] e.kind = "renew" -> Renewed(e)
    [] e.kind = "get" -> Given(e)
    [] e.kind = "rollback" -> Again(e)
    [] e.kind = "confirmed" -> Answer(e)
    [] e.kind = "gone" -> Gone(e)

TraceInit == Init /\ trace \in 1 .. Len(Traces) /\ at = 1

TraceNext ==
  \/ at <= Len(Traces[trace]) /\ Happens(Event) /\ at' = at + 1 /\ UNCHANGED <<trace, left>>
  \/ at > Len(Traces[trace]) /\ UNCHANGED vars /\ UNCHANGED <<trace, at>>

TraceSpec == TraceInit /\ [][TraceNext]_<<vars, trace, at>>
=============================================================================
