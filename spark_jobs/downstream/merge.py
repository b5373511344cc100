"""Silver -> downstream: one MERGE a table, exactly once.

Put here: which silver rows a merge takes, and the statement. Not here: how silver came about (silver/compact.py).

Live, the windows after the downstream table's checkpoint are folded per key and merged; a row is taken where its
position is newer than the target's. A table that holds nothing yet is not merged into but appended to.

What statements did to silver's columns is done to the target's first, step by step. Where one emptied the table,
silver's rows before it are left out, and the same MERGE deletes the target's.

Where windows were **done again** since the silver version that was last merged, the keys of their old and new rows are
folded over all of silver and written where the content differs: a mended decoder takes effect, an unchanged range
changes nothing, and no key goes back, because the fold holds the newest state. The same is done with the keys of rows
that were **loaded**: they count as older than all that the log says behind where the load began.

Where silver was **renewed** (by other rules about its columns, or about which statements empty the table, or because
the table was begun anew), all of silver is folded and replaces the target, columns and all, in one commit: once silver
is where the target is, so that nobody sees the table go back. The same is done where windows that the target has not
got were folded into one, while no route led to it.

A **part** of a table of several (multi_source.py) is merged as a table by itself, its marks beside each row and in the
key. The columns are the union of all parts', so statements are not carried out on it: where one changed values of rows,
the part is replaced by what silver folds to.

Where row images leave columns out, a silver row may lack some: then the rows of a key are laid over each other
(silver/partial_rows.py), and what they lack in the end the target keeps. A key that no row ever held whole has no row
downstream; commits count those, and while there are any the pending keys are folded over all of silver, in which a
later row, or one that was loaded, may complete them.

A **bag** (a table without a key) has as many copies of a row as silver's windows add up to: for each image that the
merge is about the sum over all of silver is taken and set, whatever the target holds. So live and done again are alike.
"""

import logging
import time
from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace

from pyspark.sql import Column, DataFrame, Observation, Row, SparkSession
from pyspark.sql import functions as F

from spark_jobs.binlog import TableName
from spark_jobs.downstream.commit import DownstreamCommit
from spark_jobs.downstream.multi_source import MARKS, PartTable, is_own, marked
from spark_jobs.errors import TableStopped, about
from spark_jobs.lake.commit import Checkpoint, CommitKind, Head, new_batch
from spark_jobs.lake.table import Table
from spark_jobs.log.position import Position, Range
from spark_jobs.runtime.lazy_session import start_session
from spark_jobs.runtime.spark_session import session_over
from spark_jobs.silver import partial_rows
from spark_jobs.silver import table as silver
from spark_jobs.silver.commit import SilverCommit
from spark_jobs.silver.compaction_job import BY_SPARK_SQL
from spark_jobs.silver.schema_evolution import carry_out
from spark_jobs.text.sql import identifier, literal, with_rows

log = logging.getLogger(__name__)


ADDED = {"_position": silver.CHANGE_PLACE, "_committed_at": "TIMESTAMP", "_raw": "MAP<STRING, STRING>"}


@dataclass(frozen=True, slots=True)
class Merged:
    """What one merge did to a downstream table, in rows; ``range`` is what it took from silver."""

    source: str
    name: TableName
    target: str
    head: Head
    range: Range
    inserted: int = 0
    updated: int = 0
    deleted: int = 0
    redone: int = 0
    seconds: float = 0.0
    unseen: int = 0
    """Keys that the table lacks because no row image of theirs was whole."""
    into: str | None = None
    """The downstream table's name, where the source table goes to several."""
    way: str = BY_SPARK_SQL
    """By the engine or by Spark SQL, and why by the latter."""


@dataclass(frozen=True, slots=True)
class Work:
    """A silver table at a pinned head, and the downstream table that it is merged into."""

    source: str
    name: TableName
    columns: silver.Columns
    origin: Table
    pinned: Head
    target: Table
    again: tuple[Range, ...] = ()
    """Windows whose keys are to be merged again although silver has not replaced them."""

    def __str__(self) -> str:
        return f"{self.source}: {self.name}"

    @property
    def floor(self) -> Position | None:
        """Where the last statement stands that emptied the table."""
        commit = SilverCommit.of_head(self.pinned)
        return commit.emptied_at if commit else None

    @property
    def lacks_older(self) -> bool:
        """Whether it is a bag for want of names alone, and its log begins amid what it had."""
        commit = SilverCommit.of_head(self.pinned)
        return commit is not None and commit.is_numbered and not commit.is_complete


Bring = Callable[[SparkSession, Work, Head, "News", Checkpoint], tuple[Head, dict[str, int]]]
"""Brings what silver has to the target, in one commit: the new head, and Delta's counts of rows."""


def merge(spark: SparkSession, work: Work, way: Bring | None = None) -> Merged | None:
    """Brings a downstream table up to a silver table's pinned head; None where it is there already.

    way: how, where it is not by this part's rows alone. Raises TableStopped, LakeError, LostRace.
    """
    began = time.monotonic()
    with about(str(work)):
        head, news = _prepared(spark, work)
        taken = range_of(work, head, news)
        if taken is None:
            return None
        is_first = head.checkpoint is None and work.target.empty()
        session = session_over(start_session(spark), news.size)
        bring = way or (_appended if is_first else _renewed if news.is_renewed else _merged)
        unseen = 0
        if work.columns.has_partial and not work.columns.is_bag:
            news = replace(news, has_unseen=bring is not _merged or _has_unseen(session, work, head, news))
            unseen = Origin(session, work).unseen() if news.has_unseen else 0
        landed, done = bring(session, work, head, news, commit_of(work, taken, unseen))
    return Merged(
        source=work.source,
        name=work.name,
        target=work.target.path,
        head=landed,
        range=taken,
        inserted=done["num_inserted_rows"],
        updated=done["num_updated_rows"],
        deleted=done["num_deleted_rows"],
        redone=len(news.redone),
        seconds=time.monotonic() - began,
        unseen=unseen,
    )


def _has_unseen(spark: SparkSession, work: Work, head: Head, news: "News") -> bool:
    """Whether keys are without a row for want of a whole image, or were, or pending ones may be."""
    merged = DownstreamCommit.of_head(head)
    if news.redone or news.is_loaded or (merged and merged.keys_never_whole):
        return True
    silver_rows = Origin(spark, work)
    lacking = silver_rows.pending(head.position, news).where(f"{silver.ABSENT} IS NOT NULL")
    lacking = lacking.select(*_identities(work.columns), partial_rows.ENDED)
    there = _identified(silver_rows.held(), work.columns)
    matched = _same_identity(there)
    unmatched = lacking.alias("one").join(there.withColumn("there", F.lit(True)).alias("other"), matched, how="left")
    found = unmatched.where(f"there IS NULL OR {partial_rows.ENDED}").select(F.lit(1)).limit(1)
    return bool(work.target.collect(found))


def range_of(work: Work, head: Head, news: "News") -> Range | None:
    """What a merge takes from silver; None where it has nothing that the target has not."""
    start, stop = head.position or _first(work.origin), work.pinned.position
    has_old = bool(news.redone) or news.is_loaded or news.is_renewed
    if stop is None or start is None or news.waits or (start >= stop and not has_old):
        return None
    return Range(start, max(start, stop))


def commit_of(work: Work, taken: Range, keys_never_whole: int = 0) -> DownstreamCommit:
    """What the commit of a merge says."""
    pinned, is_part = SilverCommit.of_head(work.pinned), bool(work.target.marks)
    return DownstreamCommit(
        taken.stop,
        new_batch(),
        source=work.source,
        table=str(work.name),
        silver_version=work.pinned.version,
        start=taken.start,
        is_complete=bool(pinned and pinned.is_complete),
        is_numbered=silver.is_numbered(work.pinned),
        columns=work.columns.types if is_part else None,
        key=work.columns.key if is_part else None,
        keys_never_whole=keys_never_whole,
    )


def _appended(
    spark: SparkSession, work: Work, head: Head, news: "News", checkpoint: Checkpoint
) -> tuple[Head, dict[str, int]]:
    """Fills a table that holds no row, so that none has to be looked for."""
    counted = Observation()
    rows = _stored(Origin(spark, work).pending(None, news), work)
    landed = work.target.append(rows.observe(counted, F.count(F.lit(1)).alias("rows")), head, checkpoint)
    return landed, {"num_inserted_rows": counted.get["rows"], "num_updated_rows": 0, "num_deleted_rows": 0}


def _renewed(
    spark: SparkSession, work: Work, head: Head, _news: "News", checkpoint: Checkpoint
) -> tuple[Head, dict[str, int]]:
    """Replaces the table by what all of silver folds to."""
    counted = Observation()
    rows = _stored(Origin(spark, work).whole(), work)
    rows = rows.observe(counted, F.count(F.lit(1)).alias("rows"))
    landed = work.target.renew(rows, head, checkpoint)
    return landed, {"num_inserted_rows": counted.get["rows"], "num_updated_rows": 0, "num_deleted_rows": 0}


def _merged(
    spark: SparkSession, work: Work, head: Head, news: "News", checkpoint: Checkpoint
) -> tuple[Head, dict[str, int]]:
    """Runs the statement; returns the new head and Delta's counts of rows."""
    again = bool(news.redone) or (news.is_loaded and head.checkpoint is not None) or news.has_unseen
    floor = work.floor if again or (work.floor and head.position and head.position <= work.floor) else None
    statement = _statement(work.target, work.columns, floor, again=again)
    counts: list[Row] = []

    def run(session: SparkSession) -> None:
        silver_rows = Origin(session, work)
        rows = silver_rows.again(head, news) if again else silver_rows.pending(head.position, news)
        counts.extend(session.sql(statement, source=rows).collect())

    landed = work.target.statement(spark, head, checkpoint, run)
    return landed, counts[0].asDict()


def _stored(rows: DataFrame, work: Work) -> DataFrame:
    """The rows of a merge that are there, as a table without any takes them."""
    marks = (f"{literal(value)} AS {name}" for name, value in work.target.marks.items())
    is_whole = f" AND {silver.ABSENT} IS NULL" if silver.ABSENT in rows.columns else ""
    return rows.where(f"NOT _gone{is_whole}").selectExpr(*_named([*work.columns.types, *ADDED]), *marks)


def _prepared(spark: SparkSession, work: Work) -> tuple[Head, "News"]:
    """The target with silver's columns, and what silver has that it has not."""
    if isinstance(work.target, PartTable):
        require_settled(work)
        return _prepared_part(spark, work, work.target, work.target.head())
    head = head_of(work)
    news = news_of(work, head)
    if news.is_renewed:
        return head, news
    merged = DownstreamCommit.of_head(head)
    left = (merged.steps_left if merged else None) or ()
    altering = replace(merged, altered_version=work.pinned.version) if merged else None
    head = carry_out(spark, work.target, head, [*left, *news.steps], altering)
    silver.require_same_columns(work.target, work.columns.types | ADDED, str(work.name))
    return head, news


def require_settled(work: Work) -> None:
    """Raises TableStopped where a run ended amid a change of silver's columns."""
    if work.pinned.checkpoint and work.pinned.checkpoint.kind == CommitKind.ALTERING:
        raise TableStopped(f"{work.origin.path} is between two sets of columns, where a run ended; compact it first")


def head_of(work: Work) -> Head:
    """The head of a target that one table alone is merged into. Raises TableStopped where it is another's."""
    require_settled(work)
    head = work.target.head() or work.target.new(work.columns.types | ADDED, silver.properties(work.target))
    merged = DownstreamCommit.of_head(head)
    if merged and not is_own(merged, work.source, work.name):
        owner = f"{merged.table or work.name} of source {merged.source or work.source}"
        whose = owner if merged.parts is None else "several source tables"
        raise TableStopped(
            f"{work.target.path} is merged from {whose}, and by routes: it is of one. Route this one to a table of its "
            "own, or several to that one by a pattern or by sources: (docs/routes.md), and move the table away: the "
            "next run writes it anew from silver"
        )
    return head


def _prepared_part(spark: SparkSession, work: Work, target: PartTable, head: Head | None) -> tuple[Head, "News"]:
    """The same of a part: the target has all columns that silver has. Raises TableStopped where it cannot have them."""
    collisions = [name for name in work.columns.types if name.lower() in MARKS]
    if collisions:
        raise TableStopped(
            f"its column {collisions[0]} has the name of one that is added where several tables are merged into one; "
            "rename it, or route it to a table of its own"
        )
    if head is None:
        head = target.new(work.columns.types | MARKS | ADDED, silver.properties(target))
        return head, news_of(work, head)
    news = news_of(work, head)
    if news.waits:
        return head, news
    head = target.fit(spark, head, work.columns.types)
    is_changed = not all(step.startswith(_LEAVES_ROWS) for step in news.steps)
    return head, replace(news, is_renewed=news.is_renewed or (head.checkpoint is not None and is_changed))


_LEAVES_ROWS = ("ADD COLUMN", "ALTER COLUMN", "SET TBLPROPERTIES")
"""Steps behind which all rows are as they were, those of a new column NULL."""


def _first(origin: Table) -> Position | None:
    """Where silver's first window starts: its oldest checkpoint says it."""
    known = origin.since(-1)
    return SilverCommit.of(known[-1][1]).start if known else None


@dataclass(frozen=True, slots=True)
class News:
    """What silver has committed since the version that was merged last."""

    windows: int
    """Windows appended."""
    steps: list[str]
    """What was done to its columns, and is still to be done downstream."""
    redone: list[Range]
    """Windows replaced, or to be merged again."""
    size: int
    """Bytes of log that all of them were decoded from."""
    is_loaded: bool = False
    """Whether rows were loaded since something was merged."""
    is_renewed: bool = False
    """Whether all rows and the columns were replaced."""
    has_unseen: bool = False
    """Whether keys were never seen whole, or may not have been."""
    waits: bool = False
    """Whether silver was begun anew and is not yet where the target is: the target keeps what it has until then."""


def news_of(work: Work, head: Head) -> News:
    """What silver has up to its pinned head, and the target at its own has not."""
    last = DownstreamCommit.of_head(head)
    merged = last.silver_version if last else -1
    new = [(version, one) for version, one in work.origin.since(merged) if version <= work.pinned.version]
    unmerged = [
        (version, SilverCommit.of(one))
        for version, one in new
        if one.kind not in (CommitKind.ALTERING, CommitKind.MAINTENANCE)
    ]
    commits = [one for _, one in unmerged]
    altered = work.pinned.version if last is None else merged if last.altered_version is None else last.altered_version
    changes = [one for version, one in reversed(unmerged) if version > altered and one.kind == CommitKind.CHANGE]
    redone = [] if merged < 0 else [windows for one in commits for windows in one.ranges]
    again = () if merged < 0 else work.again
    here, there, floor = head.position, work.pinned.position, silver.folded(work.pinned)
    is_folded_since = here is not None and floor is not None and here < floor  # while no route led there
    is_renewed = merged >= 0 and (is_folded_since or any(one.is_overwrite for one in commits))
    return News(
        windows=sum(one.kind != CommitKind.CHANGE or one.inherited_from is not None for one in commits),
        steps=[step for change in changes for step in change.steps or ()],
        redone=[*redone, *again],
        size=sum(one.log_bytes or 0 for one in commits),
        is_loaded=any(one.kind == CommitKind.LOAD for one in commits),
        is_renewed=is_renewed,
        waits=is_renewed and here is not None and there is not None and there < here,
    )


@dataclass(frozen=True, slots=True)
class Origin:
    """A silver table as one merge reads it: at one version, in the session of the statement.

    What it gives for a merge are rows with the table's columns, ADDED, ``_gone``, and the values of ``identity`` by
    which they are found downstream.
    """

    session: SparkSession
    work: Work

    @property
    def columns(self) -> silver.Columns:
        return self.work.columns

    def pending(self, after: Position | None, news: News) -> DataFrame:
        """The newest row of every key in the windows after a position; one window holds no key twice."""
        rows = self._alive(_after(after))
        if self.columns.is_bag:
            return self._copies(_identified(rows, self.columns).distinct())
        if self.columns.has_partial:
            return self._laid_over(rows)
        rows = _with_gone(rows, self.columns)
        return rows if news.windows == 1 else _newest(rows, self.columns)

    def whole(self) -> DataFrame:
        """The state of every key by all of silver; of a bag every copy."""
        rows = self._alive("TRUE")
        if self.columns.is_bag:
            return self._copies(_identified(rows, self.columns).distinct(), self._rows("FALSE"))
        return self._state(rows)

    def again(self, head: Head, news: News) -> DataFrame:
        """The state, by all of silver, of every key that replaced windows had or have, of loaded and pending ones."""
        if news.steps:  # the old rows' columns may have had other names
            old, new = self.work.target.held(self.session), self._rows("TRUE")
        else:
            commit = DownstreamCommit.of_head(head)
            merged = commit.silver_version if commit else self.work.pinned.version
            loaded = [f"_op = '{silver.Op.LOAD}'"] if news.is_loaded else []
            ranges = " OR ".join([f"({silver.within_any(news.redone)})", *loaded])
            old = self.work.origin.read(self.session, merged).where(f"({ranges}) AND _op <> '{silver.Op.TRUNCATE}'")
            new = self._rows(f"{ranges} OR {_after(head.position)}")
        touched = _identified(old, self.columns).union(_identified(new, self.columns)).distinct()
        if self.columns.is_bag:
            return self._copies(touched)
        state = self._state(self._alive("TRUE"), touched)
        gone = F.coalesce("_gone", F.lit(True))
        names = [name for name in state.columns if name not in touched.columns]
        found = touched.alias("one").join(state.alias("other"), _same_identity(touched), how="left")
        return found.select("one.*", *(F.col(f"other.{identifier(name)}") for name in names)).withColumn("_gone", gone)

    def unseen(self) -> int:
        """How many keys have a row in silver and none downstream, since no row of theirs was ever whole."""
        rows = self._laid_over(self._alive("TRUE")).where(f"{silver.ABSENT} IS NOT NULL")
        return int(self.work.target.collect(rows.agg(F.count(F.lit(1)).alias("keys")))[0]["keys"])

    def _state(self, rows: DataFrame, touched: DataFrame | None = None) -> DataFrame:
        """What these rows, all that count of their keys, make of each; a key never seen whole counts as gone."""
        if not self.columns.has_partial:
            rows = _with_gone(rows, self.columns)
            return _newest(rows if touched is None else _among(rows, touched), self.columns)
        found = self._laid_over(rows, touched)
        is_gone = F.expr(f"_gone OR {silver.ABSENT} IS NOT NULL")
        return found.withColumn("_gone", is_gone).drop(silver.ABSENT, partial_rows.ENDED)

    def _laid_over(self, rows: DataFrame, touched: DataFrame | None = None) -> DataFrame:
        rows = _with_gone(rows, self.columns, silver.ABSENT)
        rows = rows if touched is None else _among(rows, touched)
        return partial_rows.folded(rows, _identities(self.columns), self.columns.types)

    def _copies(self, touched: DataFrame, held: DataFrame | None = None) -> DataFrame:
        """For each of these images of a bag: rows to insert, and one to delete all of the target's where it has more.

        held: the rows that count as the target's, instead of its own. Raises TableStopped, in the statement, where more
        copies went than the lake ever saw come.
        """
        image = touched.columns[0]
        rows = _with_gone(self._alive("TRUE"), self.columns, silver.COPIES)
        last = F.struct(*_named([*self.columns.types, *ADDED]))
        wanted = (
            _among(rows, touched)
            .groupBy(image)
            .agg(F.max_by(last, "_position").alias("last"), F.sum(silver.COPIES).alias("wanted"))
        )
        held = self.held() if held is None else held
        there = _among(_identified(held, self.columns), touched).groupBy(image).agg(F.count("*").alias("there"))
        counts = touched.join(wanted, on=image, how="left").join(there, on=image, how="left")
        counts = counts.selectExpr(image, "last", self._sum("wanted"), "coalesce(there, 0) AS there")
        nths = "IF(there > wanted, sequence(0L, wanted), sequence(1L, wanted - there))"
        each = counts.where("there <> wanted").selectExpr(image, "last", f"explode({nths}) AS nth")
        return each.selectExpr(f"IF(nth = 0, {image}, NULL) AS {image}", "last.*", "nth = 0 AS _gone")

    def held(self) -> DataFrame:
        """The target's rows, without what stands before the last statement that emptied the table."""
        if self.work.target.head() is None:
            return self._rows("FALSE")
        return self._since_emptied(self.work.target.held(self.session))

    def _sum(self, name: str) -> str:
        return f"{silver.copies_sql(name, str(self.work), lacks_older=self.work.lacks_older)} AS {name}"

    def _rows(self, condition: str) -> DataFrame:
        rows: DataFrame = self.work.origin.read(self.session, self.work.pinned.version)
        return rows.where(f"({condition}) AND _op <> '{silver.Op.TRUNCATE}'")

    def _alive(self, condition: str) -> DataFrame:
        """Without what stands before the last statement that emptied the table."""
        return self._since_emptied(self._rows(condition))

    def _since_emptied(self, rows: DataFrame) -> DataFrame:
        floor = self.work.floor
        return rows.where(f"_position > {silver.before_sql(floor)}") if floor else rows


def _after(position: Position | None) -> str:
    """SQL: the rows of windows behind a position. Loaded ones are in no window, wherever they count from."""
    return f"_window_start >= {silver.place_sql(position)} AND _op <> '{silver.Op.LOAD}'" if position else "TRUE"


def _named(names: Iterable[str]) -> list[str]:
    return [identifier(name) for name in names]


def _identities(columns: silver.Columns) -> list[str]:
    """Names of the columns that hold the values of ``identity``."""
    return [f"{silver.IDENTITY}{at}" for at in range(len(columns.identity()))]


def _identified(rows: DataFrame, columns: silver.Columns) -> DataFrame:
    """What tells the rows apart, alone."""
    pairs = zip(columns.identity(), _identities(columns), strict=True)
    return rows.selectExpr(*(f"{cell} AS {name}" for cell, name in pairs))


def _same_identity(touched: DataFrame) -> Column:
    """One key is the other's; a part of it that only an exact text tells is NULL."""
    return F.expr(" AND ".join(f"one.{name} <=> other.{name}" for name in touched.columns))


def _among(rows: DataFrame, touched: DataFrame) -> DataFrame:
    """Those rows whose identity is among the touched ones."""
    return rows.alias("one").join(touched.alias("other"), _same_identity(touched), how="left_semi")


def _with_gone(rows: DataFrame, columns: silver.Columns, *others: str) -> DataFrame:
    pairs = zip(columns.identity(), _identities(columns), strict=True)
    told = (F.expr(cell).alias(name) for cell, name in pairs)
    names = _named([*columns.types, *ADDED, *others])
    return rows.select(*told, *names, (F.col("_op") == silver.Op.DELETE).alias("_gone"))


def _newest(rows: DataFrame, columns: silver.Columns) -> DataFrame:
    names, carried = _identities(columns), (*columns.types, *ADDED, "_gone")
    last = rows.groupBy(*names).agg(F.max_by(F.struct(*_named(carried)), "_position").alias("last"))
    return last.select(*names, "last.*")


def _statement(target: Table, columns: silver.Columns, floor: Position | None, *, again: bool) -> str:
    """``floor``: rows of the target from before go, where it is given: none of them is matched.

    They may be of a table with another key, and then several may have what is one key now.
    """
    names = [identifier(name) for name in (*columns.types, *ADDED)]
    lays_over = columns.has_partial and not (again or columns.is_bag)
    given = partial_rows.over(list(columns.types), "t.", "s.") if lays_over else {}
    assigned = ", ".join(f"t.{identifier(n)} = {given.get(n, f's.{identifier(n)}')}" for n in (*columns.types, *ADDED))
    whole = f" AND s.{silver.ABSENT} IS NULL" if lays_over else ""
    mine = f" AND {marked(target.marks, 't.')}" if target.marks else ""
    on = columns.same("t.", [f"s.{name}" for name in _identities(columns)]) + mine
    on += f" AND t._position > {silver.before_sql(floor)}" if floor else ""
    again = again or columns.is_bag
    newer = _differs(columns) if again else "s._position > t._position"
    delete = "s._gone" if again else f"s._gone AND {newer}"
    old = f" WHEN NOT MATCHED BY SOURCE{mine} AND t._position < {silver.before_sql(floor)} THEN DELETE" if floor else ""
    values = [*(f"s.{name}" for name in names), *map(literal, target.marks.values())]
    clauses = (
        f" s ON {on} "
        f"WHEN MATCHED AND {delete} THEN DELETE "
        f"WHEN MATCHED AND NOT s._gone AND {newer} THEN UPDATE SET {assigned} "
        f"WHEN NOT MATCHED AND NOT s._gone{whole} THEN INSERT ({', '.join([*names, *target.marks])}) "
        f"VALUES ({', '.join(values)}){old}"
    )
    return with_rows(f"MERGE INTO {target.sql} t USING ", clauses)


def _differs(columns: silver.Columns) -> str:
    """Whether source and target rows differ; maps compare as arrays of their entries."""
    plain = _named([*columns.rest, "_position", "_committed_at"])
    same = [f"t.{name} <=> s.{name}" for name in plain] + ["map_entries(t._raw) <=> map_entries(s._raw)"]
    return f"NOT ({' AND '.join(same)})"
