----------------------------- MODULE TraceCheck -----------------------------
(***************************************************************************)
(* What real runs did to one table, event by event, as steps of Lake: each *)
(* commit has to be one that Lake's plans and guards allow there, and all  *)
(* of Lake's invariants hold after it.  A trace with an event that cannot  *)
(* happen ends there, which TLC reports as a deadlock.                     *)
(*                                                                         *)
(* Traces.tla is generated: tests/faults/tracing.py.  Positions are        *)
(* numbered so that multiples of Stride end log that changes the table, and  *)
(* no number between two positions is one if nothing does.                 *)
(* Version v of Delta is Lake's v + 2.                                     *)
(***************************************************************************)
EXTENDS Lake, Traces

VARIABLES trace, at,
  dead,        \* runs that were killed
  newest,      \* by run the table of its newest commit, whose answer it may lack
  rows         \* what was published, version by version

traceVars == <<trace, at, dead, newest, rows>>
Event == Traces[trace][at]
Changing == {Stride * part : part \in 1 .. LogEnd \div Stride}
Untouched == UNCHANGED <<run, command, upkeep, gc, group, kept, promised, left>>
Plan(e) == [upon |-> e.upon + 2, counter |-> e.counter]
By(e) == e.run \notin dead /\ newest' = [r \in DOMAIN newest \cup {e.run} |-> IF r = e.run THEN e.do ELSE newest[r]]
         /\ UNCHANGED dead

(* The source wrote on, and bronze has it. *)
Grow(e) ==
  /\ e.to > HeadOf(bronze).pos /\ written' = e.to
  /\ bronze' = Append(bronze, ExtractCommit(PlanUpon(bronze) @@ [from |-> HeadOf(bronze).pos, to |-> e.to]))
  /\ UNCHANGED <<silver, down, dead, newest>>

(* An extraction, where bronze is a table of the scenario: from bronze's end on. *)
Extracted(e) ==
  LET plan == Plan(e) @@ [from |-> e.from, to |-> e.to] IN
  /\ Fits(bronze, plan) /\ By(e) /\ e.from = HeadOf(bronze).pos /\ e.to > e.from /\ written' = e.to
  /\ bronze' = Landed(bronze, plan, ExtractCommit(plan))
  /\ UNCHANGED <<silver, down>>

(* gc removes log that every reader has passed. *)
Collected(e) ==
  /\ Fits(bronze, Plan(e)) /\ By(e) /\ e.to = HeadOf(bronze).pos
  /\ e.from > Last(bronze).oldest /\ e.from <= Min(Readers)
  /\ bronze' = Landed(bronze, Plan(e), [Last(bronze) EXCEPT !.kind = "gc", !.counter = e.counter, !.oldest = e.from])
  /\ UNCHANGED <<written, silver, down>>

(* A window of silver begins where the one before it ended, or later, where nothing changes the table in between. *)
SilverWindow(e) ==
  LET plan == Plan(e) @@ [from |-> e.from, anew |-> FALSE, rows |-> TRUE] IN
  /\ Fits(silver, plan) /\ By(e)
  /\ e.from >= HeadOf(silver).pos /\ ~IsTouched(HeadOf(silver).pos, e.from) /\ e.to <= HeadOf(bronze).pos
  /\ silver' = Landed(silver, plan, WindowCommit(plan, e.to))
  /\ UNCHANGED <<written, bronze, down>>

(* A backfill puts windows that are there, decoded again, in their place, and moves nothing. *)
SilverRedo(e) ==
  LET replaced == {w \in HeadOf(silver).rows : <<w.from, w.to>> \in e.ranges}
      new == {[w EXCEPT !.gen = @ + 1, !.at = Len(silver) + 1] : w \in replaced}
  IN
  /\ Fits(silver, Plan(e)) /\ By(e) /\ e.to = HeadOf(silver).pos
  /\ e.ranges # {} /\ Cardinality(replaced) = Cardinality(e.ranges)
  /\ silver' = Append(silver, [Last(silver) EXCEPT !.kind = "redo", !.counter = e.counter,
                                                  !.rows = (@ \ replaced) \cup new, !.redone = new])
  /\ UNCHANGED <<written, bronze, down>>

(* Rows that a load read are no part of the log, and move nothing. *)
SilverLoad(e) ==
  /\ Fits(silver, Plan(e)) /\ By(e) /\ e.to = HeadOf(silver).pos
  /\ silver' = Append(silver, [Last(silver) EXCEPT !.kind = "load", !.counter = e.counter])
  /\ UNCHANGED <<written, bronze, down>>

(* A merge takes what silver's version has after the target's, and says the position of that version.  The first one *)
(* begins where silver does, which may be later than the log did that gc has removed.                                *)
DownMerge(e) ==
  LET planned == MergePlan(e.silver + 2)
      plan == [planned EXCEPT !.from = e.from]
      again == [plan EXCEPT !.redone = silver[plan.silver].rows]   \* windows that are merged again
  IN
  /\ e.silver + 2 <= Len(silver) /\ By(e)
  /\ plan.upon = e.upon + 2 /\ plan.counter = e.counter /\ plan.pos = e.to /\ ~plan.waits
  /\ e.from = planned.from \/ (Len(down) = 1 /\ e.from > planned.from /\ ~IsTouched(planned.from, e.from))
  /\ down' = Landed(down, plan, MergeCommit(IF plan.isEmpty THEN again ELSE plan))
  /\ UNCHANGED <<written, bronze, silver>>

(* Another source table's part of a table of several: its commit takes the counter, and leaves this part as it is. *)
DownOther(e) ==
  /\ Fits(down, Plan(e)) /\ By(e)
  /\ down' = Append(down, [Last(down) EXCEPT !.counter = e.counter])
  /\ UNCHANGED <<written, bronze, silver>>

(* What a run left is published: versions that are there and hold no more than the run's position, and never less log. *)
Published(e) ==
  /\ By(e) /\ published.version = e.upon + 1 /\ e.to >= published.end /\ e.to <= HeadOf(bronze).pos
  /\ e.silver + 2 <= Len(silver) /\ silver[e.silver + 2].pos <= e.to
  /\ e.down + 2 <= Len(down) /\ down[e.down + 2].pos <= e.to
  /\ rows' = Append(rows, [published EXCEPT !.version = @ + 1, !.end = e.to, !.pos = e.from, !.merged = e.merged,
                                            !.silver = e.silver + 2, !.down = e.down + 2])
  /\ UNCHANGED <<written, bronze, silver, down>>

(* A commit that was refused: the version was there. *)
Refused(e, table) == ~Fits(table, Plan(e)) /\ UNCHANGED <<written, bronze, silver, down, dead, newest>>

Killed(e) == dead' = dead \cup {e.run} /\ UNCHANGED <<written, bronze, silver, down, newest>>

(* A power cut takes a commit that nobody had the answer to: the newest of its table, and of a run that it ended. *)
Gone(e) ==
  /\ e.run \in dead /\ newest[e.run] = e.do
  /\ CASE e.do = "down" -> Len(down) > 1 /\ down' = SubSeq(down, 1, Len(down) - 1) /\ UNCHANGED <<silver, rows>>
       [] e.do = "silver" -> Len(silver) > 1 /\ silver' = SubSeq(silver, 1, Len(silver) - 1) /\ UNCHANGED <<down, rows>>
       [] e.do = "published" -> Len(rows) > 1 /\ rows' = SubSeq(rows, 1, Len(rows) - 1) /\ UNCHANGED <<silver, down>>
       [] e.do = "bronze" -> Len(bronze) > 1 /\ UNCHANGED <<silver, down, rows>>
  /\ bronze' = IF e.do = "bronze" THEN SubSeq(bronze, 1, Len(bronze) - 1) ELSE bronze
  /\ UNCHANGED <<written, dead, newest>>

Happens(e) ==
  CASE e.kind = "grow" -> Grow(e)
    [] e.kind = "extract" -> Extracted(e)
    [] e.kind = "gc" -> Collected(e)
    [] e.kind = "redo" -> SilverRedo(e)
    [] e.kind = "window" -> SilverWindow(e)
    [] e.kind = "load" -> SilverLoad(e)
    [] e.kind = "merge" -> DownMerge(e)
    [] e.kind = "other" -> DownOther(e)
    [] e.kind = "publish" -> Published(e)
    [] e.kind = "refused" -> Refused(e, CASE e.do = "down" -> down [] e.do = "silver" -> silver [] e.do = "published" -> rows
                                         [] e.do = "bronze" -> bronze)
    [] e.kind = "killed" -> Killed(e)
    [] e.kind = "gone" -> Gone(e)

TraceInit ==
  Init /\ trace \in 1 .. Len(Traces) /\ at = 1 /\ dead = {} /\ newest = [r \in {} |-> ""] /\ rows = <<published>>

TraceNext ==
  \/ /\ at <= Len(Traces[trace]) /\ Happens(Event) /\ at' = at + 1 /\ UNCHANGED trace /\ Untouched
     /\ Event.kind \in {"publish", "gone"} \/ UNCHANGED rows
     /\ published' = Last(rows')
  \/ at > Len(Traces[trace]) /\ UNCHANGED vars /\ UNCHANGED traceVars

TraceSpec == TraceInit /\ [][TraceNext]_<<vars, traceVars>>
=============================================================================
