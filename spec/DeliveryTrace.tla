---------------------------- MODULE DeliveryTrace ----------------------------
(***************************************************************************)
(* What real deliverers did to one table of a target, event by event, as   *)
(* steps of Delivery: each transaction has to count where its guards say   *)
(* so, and nowhere else; the row of progress has to be what the step makes *)
(* of it; and all invariants hold after it.  A trace with an event that    *)
(* cannot happen ends there, which TLC reports as a deadlock.              *)
(*                                                                         *)
(* Traces.tla is generated: tests/faults/tracing.py.  `ok` is whether a    *)
(* transaction counted; `parts` are those that it writes, numbered by      *)
(* window; fence, reached, open and named are what the row says after it.  *)
(***************************************************************************)
EXTENDS Delivery, Sequences, Traces

VARIABLES trace, at

Event == Traces[trace][at]
Mine(e) == who[e.deliverer]

(* progress.py::claim: whoever it is, and again where the answer to it was lost. *)
Claimed(e) ==
  /\ progress' = [progress EXCEPT !.fence = @ + 1]
  /\ Goes(e.deliverer, [at |-> "plan", fence |-> progress.fence + 1, version |-> progress.version + 1, todo |-> {}])
  /\ UNCHANGED rows

Holding(e) == progress.fence = Mine(e).fence

(* progress.py::open_window_sql. *)
Opened(e) ==
  /\ Mine(e).at = "plan" /\ e.version = Mine(e).version
  /\ e.ok = (Holding(e) /\ progress.exit = 0 /\ progress.version + 1 = e.version)
  /\ progress' = IF e.ok THEN [progress EXCEPT !.exit = e.version, !.parts = {}] ELSE progress
  /\ UNCHANGED <<rows, who>>

(* progress.py::complete_part_sql. *)
Wrote(e) ==
  /\ Mine(e).at = "plan" /\ e.version = Mine(e).version
  /\ e.ok = (Holding(e) /\ progress.exit = e.version /\ e.parts \cap progress.parts = {})
  /\ rows' = IF e.ok THEN Written(e.version, e.parts) ELSE rows
  /\ progress' = IF e.ok THEN [progress EXCEPT !.parts = @ \cup e.parts] ELSE progress
  /\ UNCHANGED who

(* progress.py::complete_version_sql. *)
Completed(e) ==
  /\ Mine(e).at = "plan" /\ e.version = Mine(e).version
  /\ e.ok = (Holding(e) /\ progress.version = e.version - 1)
  /\ rows' = IF e.ok THEN Written(e.version, e.parts) ELSE rows
  /\ progress' = IF e.ok THEN [progress EXCEPT !.version = e.version, !.exit = 0, !.parts = {}] ELSE progress
  /\ UNCHANGED who

(* transactions.py::commit: the deliverer takes it for committed, by the answer or by the row, and it is. *)
Learned(e) ==
  /\ Mine(e).at = "plan" /\ e.version = Mine(e).version
  /\ CASE e.of = "open" -> progress.exit = e.version
       [] e.of = "part" -> e.parts \subseteq progress.parts
       [] e.of = "complete" -> progress.version = e.version
  /\ Goes(e.deliverer, IF e.of = "complete" THEN [Mine(e) EXCEPT !.version = @ + 1] ELSE Mine(e))
  /\ UNCHANGED <<rows, progress>>

Gone(e) == Goes(e.deliverer, Idle) /\ UNCHANGED <<rows, progress>>

Happens(e) ==
  /\ CASE e.kind = "claim" -> Claimed(e)
       [] e.kind = "open" -> Opened(e)
       [] e.kind = "part" -> Wrote(e)
       [] e.kind = "complete" -> Completed(e)
       [] e.kind = "learned" -> Learned(e)
       [] e.kind = "gone" -> Gone(e)
  /\ progress'.fence = e.fence /\ progress'.version = e.reached /\ progress'.exit = e.open /\ progress'.parts = e.named

TraceInit == Init /\ trace \in 1 .. Len(Traces) /\ at = 1

TraceNext ==
  \/ /\ at <= Len(Traces[trace]) /\ Happens(Event) /\ at' = at + 1 /\ UNCHANGED trace
     /\ UNCHANGED <<altered, sessions, left>>
  \/ at > Len(Traces[trace]) /\ UNCHANGED vars /\ UNCHANGED <<trace, at>>

TraceSpec == TraceInit /\ [][TraceNext]_<<vars, trace, at>>
=============================================================================
