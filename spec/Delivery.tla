------------------------------ MODULE Delivery ------------------------------
(***************************************************************************)
(* A table of a delivery: versions of the lake's table into a database     *)
(* that has the progress row, stratalog.checkpoint.  Deliverers take the   *)
(* table over from each other; COMMIT may be carried out and its answer be *)
(* lost; a session that was given up may still execute what it was sent.   *)
(* Guards are switched off by configurations, as in Lake.                  *)
(*                                                                         *)
(* A version's change is Parts transactions: one is a window of one        *)
(* transaction, several are an open window.  The target's rows are counted *)
(* per version and part.  A version may also have a statement that commits *)
(* by itself (ALTER TABLE), which may be carried out once and late.        *)
(***************************************************************************)
EXTENDS Integers, FiniteSets

CONSTANTS Versions, Parts, Deliverers, Altered, Faults, Takeovers, Off

VARIABLES
  rows,       \* by version and part: how often the target has its changes
  altered,    \* which ALTERs were carried out, and at which version the target was then
  progress,   \* the progress row
  who,        \* what each deliverer is at
  sessions,   \* statements that a server executes though nobody waits for them
  left

vars == <<rows, altered, progress, who, sessions, left>>
On(guard) == guard \notin Off
Idle == [at |-> "idle", fence |-> 0]
AllParts == 1 .. Parts
IsSplit == Parts > 1
Goes(d, to) == who' = [who EXCEPT ![d] = to]
Spend(what) == left[what] > 0 /\ left' = [left EXCEPT ![what] = @ - 1]

(* progress.py::claim: whoever takes a table over raises the fence, and outlasts a session that may be executing. *)
Claim(d) ==
  /\ who[d].at = "idle" /\ progress.version < Versions
  /\ IF \A e \in Deliverers : who[e].at = "idle" THEN UNCHANGED left ELSE Spend("takeovers")
  /\ progress.executing = 0 \/ ~On("outlasts") \/ sessions = {}
  /\ progress' = [progress EXCEPT !.fence = @ + 1, !.executing = 0]
  /\ Goes(d, [at |-> "plan", fence |-> progress.fence + 1, version |-> progress.version + 1,
              todo |-> AllParts \ progress.parts])
  /\ UNCHANGED <<rows, altered, sessions>>

Holds(d) == progress.fence = who[d].fence \/ ~On("fence")

(* transactions.py::execute_alone: the row says who executes, before anything is sent. *)
Alter(d) ==
  LET v == who[d].version IN
  /\ who[d].at = "plan" /\ v \in Altered \ DOMAIN altered /\ progress.exit = 0
  /\ IF Holds(d) /\ (progress.executing = 0 \/ ~On("notes"))
     THEN /\ progress' = [progress EXCEPT !.executing = IF On("notes") THEN who[d].fence ELSE 0]
          /\ sessions' = sessions \cup {[fence |-> who[d].fence, version |-> v]}
          /\ Goes(d, [who[d] EXCEPT !.at = "altering"])
     ELSE Goes(d, Idle) /\ UNCHANGED <<progress, sessions>>
  /\ UNCHANGED <<rows, altered, left>>

(* The server carries it out, whoever waits; what is altered already is found so by the next attempt. *)
Executes(s) ==
  /\ sessions' = sessions \ {s}
  /\ altered' = IF s.version \in DOMAIN altered THEN altered
                ELSE [v \in DOMAIN altered \cup {s.version} |-> IF v = s.version THEN progress.version ELSE altered[v]]
  /\ UNCHANGED <<rows, progress, who, left>>

Ended(d) ==
  /\ who[d].at = "altering" /\ who[d].version \in DOMAIN altered
  /\ IF progress.fence = who[d].fence THEN progress' = [progress EXCEPT !.executing = 0] ELSE UNCHANGED progress
  /\ Goes(d, [who[d] EXCEPT !.at = "plan"])
  /\ UNCHANGED <<rows, altered, sessions, left>>

IsAltered(d) == who[d].version \in DOMAIN altered \/ who[d].version \notin Altered

(* progress.py::opened, of a window of several transactions. *)
Open(d) ==
  /\ IsSplit /\ who[d].at = "plan" /\ IsAltered(d) /\ progress.exit = 0
  /\ IF Holds(d) /\ progress.version + 1 = who[d].version
     THEN progress' = [progress EXCEPT !.exit = who[d].version, !.parts = {}] /\ UNCHANGED who
     ELSE Goes(d, Idle) /\ UNCHANGED progress
  /\ UNCHANGED <<rows, altered, sessions, left>>

Written(version, parts) == [rows EXCEPT ![version] = [p \in AllParts |-> @[p] + IF p \in parts THEN 1 ELSE 0]]

(* The answer to COMMIT comes; or it is lost, and the deliverer sends the transaction again. *)
Answered(d, next) ==
  \/ Goes(d, next) /\ UNCHANGED left
  \/ Spend("faults") /\ UNCHANGED who

(* progress.py::part_complete: rows and the part's name in one transaction, unless the row has the name. *)
Part(d, p) ==
  LET v == who[d].version IN
  /\ IsSplit /\ who[d].at = "plan" /\ p \in who[d].todo /\ progress.exit # 0
  /\ IF Holds(d) /\ progress.exit = v /\ (p \notin progress.parts \/ ~On("once"))
     THEN /\ rows' = Written(v, {p})
          /\ progress' = [progress EXCEPT !.parts = @ \cup {p}]
          /\ Answered(d, [who[d] EXCEPT !.todo = @ \ {p}])
     ELSE /\ Goes(d, IF Holds(d) THEN [who[d] EXCEPT !.todo = @ \ {p}] ELSE Idle)
          /\ UNCHANGED <<rows, progress, left>>
  /\ UNCHANGED <<altered, sessions>>

(* progress.py::complete: the last transaction moves the position, conditional on the version that was there. *)
Complete(d) ==
  LET v == who[d].version IN
  /\ who[d].at = "plan" /\ IsAltered(d)
  /\ IF IsSplit THEN (who[d].todo = {} \/ ~On("allParts")) /\ progress.exit # 0 ELSE progress.exit = 0
  /\ IF Holds(d) /\ (progress.version = v - 1 \/ ~On("versionBefore"))
     THEN /\ rows' = IF IsSplit THEN rows ELSE Written(v, AllParts)
          /\ progress' = [progress EXCEPT !.version = v, !.exit = 0, !.parts = {}]
          /\ Answered(d, Idle)
     ELSE Goes(d, Idle) /\ UNCHANGED <<rows, progress, left>>
  /\ UNCHANGED <<altered, sessions>>

(* A deliverer ends, and its statement goes on; what is rolled back with its connection leaves nothing. *)
Crash(d) == who[d].at # "idle" /\ Spend("faults") /\ Goes(d, Idle) /\ UNCHANGED <<rows, altered, progress, sessions>>

Init ==
  /\ rows = [v \in 1 .. Versions |-> [p \in AllParts |-> 0]] /\ altered = [v \in {} |-> 0]
  /\ progress = [fence |-> 0, version |-> 0, exit |-> 0, parts |-> {}, executing |-> 0]
  /\ who = [d \in Deliverers |-> Idle] /\ sessions = {} /\ left = [faults |-> Faults, takeovers |-> Takeovers]

Step(d) == Claim(d) \/ Alter(d) \/ Ended(d) \/ Open(d) \/ (\E p \in AllParts : Part(d, p)) \/ Complete(d)
Next == (\E d \in Deliverers : Step(d) \/ Crash(d)) \/ (\E s \in sessions : Executes(s))
Spec == Init /\ [][Next]_vars /\ WF_vars(\E s \in sessions : Executes(s)) /\ \A d \in Deliverers : WF_vars(Step(d))

(***************************************************************************)
(* Up to its position the target has each change once; of an open window   *)
(* the parts that are named; and nothing behind.                           *)
(***************************************************************************)
Once == \A v \in 1 .. Versions, p \in AllParts :
  rows[v][p] = IF v <= progress.version \/ (v = progress.exit /\ p \in progress.parts) THEN 1 ELSE 0

(* No ALTER takes effect once rows of later columns are there, nor while another deliverer writes. *)
AlteredInTime == \A v \in DOMAIN altered : altered[v] = v - 1
Alone == \A s \in sessions : progress.fence = s.fence

Monotone == [][progress'.version >= progress.version /\ progress'.fence >= progress.fence]_progress
Delivered == <>(progress.version = Versions)
=============================================================================
