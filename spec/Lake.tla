-------------------------------- MODULE Lake --------------------------------
(***************************************************************************)
(* The commits of one source and one table: log -> bronze -> silver ->     *)
(* downstream -> published, and what may run beside a run.                 *)
(*                                                                         *)
(* Each guard of the code has a name here, which On asks for, and a        *)
(* configuration may switch it off: then TLC has to find what it is for.   *)
(* The guards, the functions that have them, and what is left out are in   *)
(* docs/spec.md.                                                           *)
(*                                                                         *)
(* Position p is the place behind the p-th transaction of the log; the     *)
(* rows of p are what it did to the table.  They are counted, as those of  *)
(* a table without a key, so that a change that is merged twice shows.     *)
(* Version v of a table is its v-th commit.  The first one stands for a    *)
(* table that is not there yet.                                            *)
(***************************************************************************)
EXTENDS Integers, Sequences, FiniteSets, TLC

CONSTANTS
  LogEnd,      \* the log has the positions 1 .. LogEnd
  Touching,    \* positions of transactions that change the table
  Statements,  \* positions at which windows end, since a DDL statement follows
  Runs,        \* processes that run the pipeline: of two, the slower is the zombie
  Faults, Replays, Rewrites, Resets, Removals, Groups,  \* how often each happens at most
  Off          \* guards that are switched off

VARIABLES
  written,     \* up to where the source has written its log
  bronze, silver, down,  \* the tables: sequences of commits
  published,   \* the newest row of the table in `published`
  run,         \* what each run is at
  command,     \* what the operator's command is at: a replay or a reset
  upkeep,      \* what maintenance is at
  gc,          \* what gc is at
  group,       \* a consumer group, as a reader of the log
  kept,        \* the oldest versions of silver and downstream with all their files
  promised,    \* the log that the last reset was planned with began here
  left         \* what is left of the budget

vars == <<written, bronze, silver, down, published, run, command, upkeep, gc, group, kept, promised, left>>

On(guard) == guard \notin Off
Last(s) == s[Len(s)]
Max(a, b) == IF a > b THEN a ELSE b
Min(S) == CHOOSE x \in S : \A y \in S : x <= y
Idle == [at |-> "idle"]
Budget == [faults |-> Faults, replays |-> Replays, rewrites |-> Rewrites, resets |-> Resets, removals |-> Removals,
           groups |-> Groups]
May(what) == left[what] > 0
Spent(what) == [left EXCEPT ![what] = @ - 1]

(***************************************************************************)
(* Commits.  A plan names the version that it was made upon, and the       *)
(* counter that its commit takes.                                          *)
(***************************************************************************)
Fits(table, plan) ==
  Len(table) = plan.upon \/ ~On("exclusive") \/ ~On("sameVersion")

Landed(table, plan, commit) ==
  IF ~On("exclusive") /\ Len(table) > plan.upon
  THEN [table EXCEPT ![plan.upon + 1] = commit]     \* in the place of another writer's
  ELSE Append(table, commit)

(* The head of a table: what its newest commit says. *)
HeadOf(table) == Last(table)

VersionOf(table, plan) == IF On("exclusive") THEN Len(table) + 1 ELSE plan.upon + 1

PlanUpon(table) == [upon |-> Len(table), counter |-> Last(table).counter + 1]

(***************************************************************************)
(* Rows.  silver.rows are windows (from, to], with the decoding that made  *)
(* their rows (gen) and the version that added them (at).  down.rows has,  *)
(* by position, the decodings by which its changes were merged: of a       *)
(* table that is right, one.                                               *)
(***************************************************************************)
IsTouched(from, to) == \E p \in Touching : from < p /\ p <= to

RowsOf(windows) ==
  [p \in Touching |->
    LET all == {w \in windows : w.from < p /\ p <= w.to} IN
    IF all = {} THEN <<>>
    ELSE IF Cardinality(all) > 1 THEN <<0, 0>>      \* doubled
    ELSE <<(CHOOSE w \in all : TRUE).gen>>]

WindowCommit(plan, stop) ==
  LET base == Last(silver)
      window == [from |-> plan.from, to |-> stop, gen |-> 1, at |-> VersionOf(silver, plan)]
  IN [kind |-> IF plan.anew THEN "reset" ELSE "live", counter |-> plan.counter, from |-> plan.from, pos |-> stop,
      rows |-> IF plan.anew THEN {window} ELSE IF plan.rows THEN base.rows \cup {window} ELSE base.rows,
      redone |-> {}, resets |-> IF plan.anew THEN plan.resets ELSE base.resets,
      begin |-> IF plan.anew THEN plan.from ELSE base.begin]

(* What a target lacks of a version of silver, by silver's commits since the version that it merged last. *)
MergePlan(version) ==
  LET last == HeadOf(down)
      since == {v \in last.silver + 1 .. version : silver[v].kind # "maintenance"}
      redone == IF On("learnsOfReplays") /\ last.silver > 1 THEN UNION {silver[v].redone : v \in since} ELSE {}
      anew == last.silver > 1 /\ \E v \in since : silver[v].kind = "reset"
      pos == HeadOf(SubSeq(silver, 1, version)).pos
      added == {w \in silver[version].rows : w.at > last.silver}
  IN PlanUpon(down) @@ [silver |-> version, from |-> last.pos, pos |-> Max(pos, last.pos), anew |-> anew,
      added |-> added, redone |-> redone,
      waits |-> On("waits") /\ anew /\ pos < last.pos,
      isEmpty |-> pos <= last.pos /\ redone = {} /\ ~anew]

MergeCommit(plan) ==
  LET content == RowsOf(silver[plan.silver].rows)
      new == RowsOf(plan.added)
      base == IF On("exclusive") THEN Last(down) ELSE down[plan.upon]
      again == {p \in Touching : \E w \in plan.redone : w.from < p /\ p <= w.to}
  IN [kind |-> "live", counter |-> plan.counter, from |-> plan.from, pos |-> plan.pos, silver |-> plan.silver,
      rows |-> IF plan.anew THEN content
               ELSE [p \in Touching |-> IF p \in again THEN content[p] ELSE base.rows[p] \o new[p]]]

(***************************************************************************)
(* A run.  Each step either reads and plans, or commits what was planned.  *)
(***************************************************************************)
Settled ==
  /\ written = LogEnd /\ HeadOf(bronze).pos = LogEnd
  /\ published.end = LogEnd /\ published.merged = LogEnd /\ ~published.isReset
  /\ published.down = Len(down) /\ MergePlan(Len(silver)).isEmpty

At(r, step) == run[r].at = step
Goes(r, to) == run' = [run EXCEPT ![r] = to]

(* After a commit: the run goes on; or its answer is lost and the commit sent again. *)
Answered(r, next) ==
  \/ Goes(r, next) /\ UNCHANGED left
  \/ May("faults") /\ left' = Spent("faults") /\ UNCHANGED run

(* Another writer was first: the work is planned again. *)
Loses(r, table, again) ==
  /\ Goes(r, IF On("replans") THEN again ELSE [run[r] EXCEPT !.plan = PlanUpon(table) @@ @])
  /\ UNCHANGED <<bronze, silver, down, published, left>>

Write == written < LogEnd /\ written' = written + 1
         /\ UNCHANGED <<bronze, silver, down, published, run, command, upkeep, gc, group, kept, promised, left>>

Elsewhere == UNCHANGED <<written, command, upkeep, gc, group, kept, promised>>

PlanExtract(r) ==
  /\ At(r, "idle") /\ ~Settled
  /\ LET from == IF On("head") THEN HeadOf(bronze).pos ELSE published.end IN
     Goes(r, IF from = written THEN [at |-> "compact"]
             ELSE [at |-> "extract", plan |-> PlanUpon(bronze) @@ [from |-> from, to |-> written]])
  /\ UNCHANGED <<bronze, silver, down, published, left>> /\ Elsewhere

ExtractCommit(plan) ==
  [kind |-> "live", counter |-> plan.counter, from |-> plan.from, pos |-> plan.to, oldest |-> bronze[plan.upon].oldest]

Extract(r) ==
  /\ At(r, "extract") /\ Elsewhere
  /\ IF Fits(bronze, run[r].plan)
     THEN /\ bronze' = Landed(bronze, run[r].plan, ExtractCommit(run[r].plan))
          /\ Answered(r, [at |-> "compact"])
          /\ UNCHANGED <<silver, down, published>>
     ELSE Loses(r, bronze, Idle)

(* The plan of compaction begins with bronze and with what is published, ... *)
Read(r) ==
  /\ At(r, "compact") /\ Elsewhere
  /\ Goes(r, [at |-> "plan", end |-> HeadOf(bronze).pos, oldest |-> Last(bronze).oldest, seen |-> published])
  /\ UNCHANGED <<bronze, silver, down, published, left>>

(* ... and then looks at each table's head. *)
PlanCompact(r) ==
  LET head == HeadOf(silver)
      seen == run[r].seen
      isRebuilt == seen.isReset /\ seen.resets > head.resets
      since == IF seen.isReset THEN run[r].oldest ELSE seen.pos
      from == IF isRebuilt THEN since ELSE IF seen.isReset THEN head.pos ELSE Max(since, head.pos)
      isStale == ~isRebuilt /\ head.resets > seen.resets /\ since > head.pos
      end == run[r].end
  IN
  /\ At(r, "plan") /\ Elsewhere /\ UNCHANGED <<bronze, silver, down, published, left>>
  /\ Goes(r, CASE \/ isStale /\ On("resetSince")
                  \/ from > end
                  \/ isRebuilt /\ from > promised /\ On("asPromised") -> Idle
               [] isRebuilt \/ IsTouched(from, end) ->
                    [at |-> "silver", end |-> end, seen |-> seen,
                     plan |-> PlanUpon(silver) @@ [from |-> from, to |-> end, anew |-> isRebuilt,
                                                   resets |-> seen.resets, rows |-> On("withRows")]]
               [] OTHER -> [at |-> "merge", end |-> end, seen |-> seen])

(* A commit a window, the next one upon it. *)
Compact(r) ==
  LET plan == run[r].plan
      stop == Min({plan.to} \cup {s \in Statements : plan.from < s /\ s < plan.to})
      isApart == ~plan.rows       \* the rows come in a commit of their own
      next == PlanUpon(silver') @@ [plan EXCEPT !.from = IF isApart THEN @ ELSE stop, !.anew = FALSE, !.rows = TRUE]
  IN
  /\ At(r, "silver") /\ Elsewhere
  /\ IF Fits(silver, plan)
     THEN /\ silver' = Landed(silver, plan, WindowCommit(plan, stop))
          /\ Answered(r, IF isApart \/ stop < plan.to THEN [run[r] EXCEPT !.plan = next]
                         ELSE [at |-> "merge", end |-> run[r].end,
                               seen |-> [run[r].seen EXCEPT !.resets = Max(@, Last(silver').resets)]])
          /\ UNCHANGED <<bronze, down, published>>
     ELSE Loses(r, silver, [at |-> "compact"])

(* What a run has to publish.  Where another one has gone on, the versions are of a later moment than its own, and *)
(* those stay that are published: where it says nothing new of the table, what it found, or what another run has   *)
(* published since.                                                                                                *)
Reached(r, silverVersion, silverPos, downVersion, downPos) ==
  LET seen == run[r].seen
      isOwn == ~On("atPosition") \/ (silverPos <= run[r].end /\ downPos <= run[r].end)
  IN [at |-> "publish", isOwn |-> isOwn,
      row |-> [version |-> 0, end |-> run[r].end, pos |-> run[r].end, isReset |-> FALSE, resets |-> seen.resets,
               merged |-> IF isOwn THEN run[r].end ELSE seen.merged,
               silver |-> IF isOwn THEN silverVersion ELSE seen.silver,
               down |-> IF isOwn THEN downVersion ELSE seen.down]]

PlanMerge(r) ==
  LET plan == MergePlan(Len(silver)) IN
  /\ At(r, "merge") /\ Elsewhere /\ UNCHANGED <<bronze, silver, down, published, left>>
  /\ Goes(r, IF plan.waits \/ plan.isEmpty THEN Reached(r, plan.silver, HeadOf(silver).pos, Len(down), HeadOf(down).pos)
             ELSE [run[r] EXCEPT !.at = "down"] @@ [plan |-> plan])

Merge(r) ==
  LET plan == run[r].plan IN
  /\ At(r, "down") /\ Elsewhere
  /\ IF Fits(down, plan)
     THEN /\ down' = Landed(down, plan, MergeCommit(plan))
          /\ Answered(r, Reached(r, plan.silver, plan.pos, Len(down'), plan.pos))
          /\ UNCHANGED <<bronze, silver, published>>
     ELSE Loses(r, down, [at |-> "merge", end |-> run[r].end, seen |-> run[r].seen])

PlanPublish(r) ==
  LET mine == run[r].row
      keeps == \/ published.resets > mine.resets /\ On("keepsReset")
               \/ ~run[r].isOwn /\ published.resets = mine.resets /\ On("keepsNews")
      row == IF keeps THEN [published EXCEPT !.end = mine.end] ELSE mine
      isSame == [row EXCEPT !.version = published.version] = published
  IN
  /\ At(r, "publish") /\ Elsewhere /\ UNCHANGED <<bronze, silver, down, published, left>>
  /\ Goes(r, IF isSame \/ (published.end > mine.end /\ On("notBack")) THEN Idle
             ELSE [at |-> "put", isOwn |-> run[r].isOwn, row |-> mine, put |-> [row EXCEPT !.version = published.version + 1]])

Publish(r) ==
  /\ At(r, "put") /\ Elsewhere /\ UNCHANGED <<bronze, silver, down, left>>
  /\ IF run[r].put.version = published.version + 1 \/ ~On("exclusive")
     THEN published' = run[r].put /\ Goes(r, Idle)
     ELSE Goes(r, [at |-> "publish", isOwn |-> run[r].isOwn, row |-> run[r].row]) /\ UNCHANGED published

Crash(r) ==
  /\ ~At(r, "idle") /\ May("faults") /\ left' = Spent("faults") /\ Goes(r, Idle)
  /\ UNCHANGED <<bronze, silver, down, published>> /\ Elsewhere

(***************************************************************************)
(* Commands of an operator, and maintenance, beside runs.                  *)
(***************************************************************************)
Begins(what, plan) ==
  /\ command = Idle /\ May(what) /\ left' = Spent(what) /\ command' = [at |-> what] @@ plan
  /\ UNCHANGED <<written, bronze, silver, down, published, run, upkeep, gc, group, kept, promised>>

Ends == command' = Idle /\ UNCHANGED <<written, bronze, run, upkeep, gc, group, left>>

(* Backfill: a window is decoded again, and replaced where a row differs. *)
PlanReplay == \E w \in HeadOf(silver).rows :
  w.from >= Last(bronze).oldest /\ Begins("replays", [plan |-> PlanUpon(silver), window |-> w])

ReplayCommit(plan, old) ==
  LET new == [old EXCEPT !.gen = @ + 1, !.at = VersionOf(silver, plan)] IN
  [Last(silver) EXCEPT !.kind = "redo", !.counter = plan.counter, !.rows = (@ \ {old}) \cup {new}, !.redone = {new}]

Replay ==
  /\ command.at = "replays" /\ Ends /\ UNCHANGED <<down, published, kept, promised>>
  /\ silver' = IF Fits(silver, command.plan)
               THEN Landed(silver, command.plan, ReplayCommit(command.plan, command.window)) ELSE silver

(* Maintenance: files with the same rows, in the place of those that were there when they were read. *)
(* Versions that are published, or that a run is about to publish: it found them published not long ago. *)
Named(layer) == {published[layer]} \cup {run[r].seen[layer] : r \in {q \in Runs : "seen" \in DOMAIN run[q]}}
                \cup {run[r].row[layer] : r \in {q \in Runs : "row" \in DOMAIN run[q]}}

PlanRewrite ==
  /\ upkeep = Idle /\ Len(silver) > 1 /\ May("rewrites") /\ left' = Spent("rewrites")
  /\ upkeep' = [at |-> "rewrites", files |-> HeadOf(silver).rows,
                pins |-> [silver |-> Min({HeadOf(down).silver} \cup Named("silver")), down |-> Min(Named("down"))]]
  /\ UNCHANGED <<written, bronze, silver, down, published, run, command, gc, group, kept, promised>>

RewriteCommit(files) ==
  [Last(silver) EXCEPT !.kind = "maintenance", !.counter = @ + 1, !.rows = @ \cup files, !.redone = {}]

Rewrite ==
  /\ upkeep.at = "rewrites" /\ upkeep' = Idle
  /\ UNCHANGED <<written, bronze, down, published, run, command, gc, group, promised, left>>
  /\ silver' = IF upkeep.files \subseteq Last(silver).rows \/ ~On("filesThere")
               THEN Append(silver, RewriteCommit(upkeep.files)) ELSE silver
  /\ kept' = IF On("pins") THEN upkeep.pins ELSE [silver |-> Len(silver), down |-> Len(down)]

(* Reset: the next run rebuilds the table from bronze. *)
PlanReset == published.silver > 1 /\ ~published.isReset /\ Begins("resets", [oldest |-> Last(bronze).oldest])

Reset ==
  /\ command.at = "resets" /\ Ends /\ UNCHANGED <<silver, down, kept>>
  /\ promised' = command.oldest
  /\ published' = [published EXCEPT !.version = @ + 1, !.isReset = TRUE, !.pos = 0,
                                    !.resets = Max(@, HeadOf(silver).resets) + 1]

(***************************************************************************)
(* gc, and who reads the log.                                              *)
(***************************************************************************)
Readers == {published.end, published.pos} \cup (IF group.at \in {"waits", "open"} THEN {group.pos} ELSE {})

PlanGc ==
  LET limit == IF On("gcWaits") THEN Min(Readers) ELSE HeadOf(bronze).pos IN
  /\ gc = Idle /\ May("removals") /\ limit > Last(bronze).oldest /\ left' = Spent("removals")
  /\ gc' = [at |-> "removes", plan |-> PlanUpon(bronze), oldest |-> limit]
  /\ UNCHANGED <<written, bronze, silver, down, published, run, command, upkeep, group, kept, promised>>

Gc ==
  /\ gc.at = "removes" /\ gc' = Idle
  /\ bronze' = IF Fits(bronze, gc.plan)
               THEN Landed(bronze, gc.plan, [bronze[gc.plan.upon] EXCEPT !.kind = "gc", !.counter = gc.plan.counter,
                                                                         !.oldest = gc.oldest]) ELSE bronze
  /\ UNCHANGED <<written, silver, down, published, run, command, upkeep, group, kept, promised, left>>

Open ==
  /\ group.at = "none" /\ May("groups") /\ left' = Spent("groups")
  /\ group' = [at |-> "opens", pos |-> Last(bronze).oldest]
  /\ UNCHANGED <<written, bronze, silver, down, published, run, command, upkeep, gc, kept, promised>>

(* A new group has its record, takes the next counter of bronze, so that a gc loses that did not see the record, and *)
(* then looks where the log begins.                                                                                  *)
Recorded ==
  /\ group.at = "opens" /\ group' = [group EXCEPT !.at = IF On("fencesGc") THEN "waits" ELSE "open"]
  /\ UNCHANGED <<written, bronze, silver, down, published, run, command, upkeep, gc, kept, promised, left>>

Opened ==
  /\ group.at = "waits" /\ group' = [at |-> "open", pos |-> Max(group.pos, Last(bronze).oldest)]
  /\ bronze' = Append(bronze, [Last(bronze) EXCEPT !.kind = "maintenance", !.counter = @ + 1])
  /\ UNCHANGED <<written, silver, down, published, run, command, upkeep, gc, kept, promised, left>>

Acknowledge ==
  /\ group.at = "open" /\ group.pos < HeadOf(bronze).pos /\ Last(bronze).oldest <= group.pos /\ group' = [group EXCEPT !.pos = @ + 1]
  /\ UNCHANGED <<written, bronze, silver, down, published, run, command, upkeep, gc, kept, promised, left>>

(***************************************************************************)
Nothing == [kind |-> "none", counter |-> 0, from |-> 0, pos |-> 0]

Init ==
  /\ written = 0
  /\ bronze = <<Nothing @@ [oldest |-> 0]>>
  /\ silver = <<Nothing @@ [rows |-> {}, redone |-> {}, resets |-> 0, begin |-> 0]>>
  /\ down = <<Nothing @@ [silver |-> 1, rows |-> [p \in Touching |-> <<>>]]>>
  /\ published = [version |-> 0, end |-> 0, pos |-> 0, merged |-> 0, silver |-> 1, down |-> 1,
                resets |-> 0, isReset |-> FALSE]
  /\ run = [r \in Runs |-> Idle] /\ command = Idle /\ upkeep = Idle /\ gc = Idle /\ group = [at |-> "none", pos |-> 0]
  /\ kept = [silver |-> 1, down |-> 1] /\ promised = 0 /\ left = Budget

Step(r) ==
  \/ PlanExtract(r) \/ Extract(r) \/ Read(r) \/ PlanCompact(r) \/ Compact(r)
  \/ PlanMerge(r) \/ Merge(r) \/ PlanPublish(r) \/ Publish(r)

Ended == Replay \/ Rewrite \/ Reset \/ Gc \/ Recorded \/ Opened

Next == Write \/ (\E r \in Runs : Step(r) \/ Crash(r))
        \/ PlanReplay \/ PlanRewrite \/ PlanReset \/ PlanGc \/ Open \/ Acknowledge \/ Ended

Spec == Init /\ [][Next]_vars /\ WF_vars(Write) /\ WF_vars(Ended) /\ \A r \in Runs : WF_vars(Step(r))

(***************************************************************************)
(* What holds.                                                             *)
(***************************************************************************)
Tables == {bronze, silver, down}

(* Each commit was planned upon the one before it. *)
Fenced == \A t \in Tables : \A v \in 2 .. Len(t) :
  t[v].counter = t[v - 1].counter + 1

Contiguous == \A v \in 2 .. Len(bronze) :
  bronze[v].from = bronze[v - 1].pos \/ (bronze[v].kind # "live" /\ bronze[v].pos = bronze[v - 1].pos)

(* Silver has each change up to its position once, from where it was begun. *)
Whole(rows, begin, pos) == \A p \in Touching : IF begin < p /\ p <= pos THEN Len(rows[p]) = 1 ELSE rows[p] = <<>>
SilverOnce == \A v \in 1 .. Len(silver) :
  Whole(RowsOf(silver[v].rows), silver[v].begin, silver[v].pos)
Rebuilt == HeadOf(silver).begin <= promised

(* Downstream has what silver's version has that it says: no change twice, none left out, no decoding mixed. *)
DownOnce == \A v \in 2 .. Len(down) : down[v].rows = RowsOf(silver[down[v].silver].rows)

Monotone ==
  /\ \A v \in 2 .. Len(bronze) : bronze[v].pos >= bronze[v - 1].pos
  /\ \A v \in 2 .. Len(down) : down[v].pos >= down[v - 1].pos
  /\ \A v \in 2 .. Len(silver) : silver[v].kind = "reset" \/ silver[v].pos >= silver[v - 1].pos
NeverBack == [][/\ published'.end >= published.end
                /\ published'.resets = published.resets /\ ~published'.isReset => published'.merged >= published.merged]_published

(* What is published is committed, has what it says, and has it still. *)
Committed == published.silver <= Len(silver) /\ published.down <= Len(down) /\ published.end <= HeadOf(bronze).pos
Consistent == published.down <= Len(down) /\ ~published.isReset =>
  Whole(down[published.down].rows, silver[published.silver].begin, published.merged)
Readable == kept.silver <= published.silver /\ kept.down <= published.down /\ kept.silver <= HeadOf(down).silver

(* The log is there for all that read it. *)
LogKept == /\ group.at = "open" => Last(bronze).oldest <= group.pos
           /\ published.isReset \/ Last(bronze).oldest <= published.pos

Delivered == <>[](Settled /\ Whole(Last(down).rows, HeadOf(silver).begin, LogEnd))
=============================================================================
