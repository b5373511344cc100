"""Silver of several source tables -> one downstream table in which equal keys are one row: ``keys: shared``.

Every source table says in silver what its last change of a key was, a delete too. Among these the one with the greatest
(order time, source, position) is what the table has: the row, or none. So it does not matter in which order sources are
merged, and none waits for another. Order times never go back within a source (commit_clock.py), so the last change by
position is a source table's greatest.

A merge is about the keys that one source table changed since it was merged last. It reads of the others' silver, at the
versions that were merged of them, who wrote these keys last, and writes those that the one in question did. Where its
windows were replayed another one may have written a key last: then the rows are read too, and what differs is put
right. TRUNCATE, and DROP with ``on_drop: drop``, delete the keys that their own table has at that place, as deleting
them one by one would.

Put here: that fold, and the statement. Not here: what is merged and when (merge.py, pipeline/delivery.py), or the
columns of such a table (multi_source.py).
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace

from pyspark.sql import Column, DataFrame, Observation, Row, SparkSession
from pyspark.sql import functions as F

from spark_jobs.downstream import commit_clock as clock
from spark_jobs.downstream.commit import DownstreamCommit
from spark_jobs.downstream.commit_clock import LATE, ORDER, Clock
from spark_jobs.downstream.merge import merge
from spark_jobs.downstream.merge_job import ADDED, Merged, MergeJob, SilverDelta
from spark_jobs.downstream.multi_source import MARKS, Owner, Part, SharedPart, marked
from spark_jobs.errors import LakeError, TableStopped, about
from spark_jobs.lake.commit import Checkpoint, Head
from spark_jobs.lake.layout import Lake
from spark_jobs.lake.ranges import union
from spark_jobs.lake.table import Table
from spark_jobs.silver import table as silver
from spark_jobs.text.sql import identifier, literal, with_rows

_CUTS = "_cuts"
_GUARD = f"struct({ORDER}, _source, _position)"
"""SQL: what the last change of a key is known by."""


@dataclass(frozen=True, slots=True)
class Side:
    """A source table's silver at one version, and its source's order times."""

    owner: Owner
    table: Table
    version: int
    columns: dict[str, str]
    clock: Clock
    is_emptied: bool
    """Whether a statement may have emptied it."""

    @property
    def marks(self) -> dict[str, str]:
        return dict(zip(MARKS, self.owner, strict=True))

    def __str__(self) -> str:
        source, schema, table = self.owner
        return f"{source}: {schema}.{table}"

    def rows(self, session: SparkSession, condition: str = "TRUE") -> DataFrame:
        """Silver's rows with ORDER. Raises TableStopped, in the query, for one that has no order time."""
        rows_ = self.table.read(session, self.version).where(condition)
        ordered = self.clock.order(session, rows_)
        return ordered.withColumn(ORDER, F.expr(f"CASE {self._refused()} ELSE {ORDER} END"))

    def _refused(self) -> str:
        begin = silver.before_sql(self.clock.begin)
        prefix = f"order times are known from {self.clock.begin} on ({self.clock.table.path})"
        reasons = {
            f"_op = '{silver.Op.LOAD}'": "it has rows that were loaded, and nothing tells when these were written",
            f"_op = '{silver.Op.RENAME}'": "it has rows that came with its name, or with a change of its key, and "
            "nothing tells when these were written",
            f"_position < {begin}": f"{prefix}, and it has rows from before that",
        }
        remedy = "and keys: shared has to know when; route it to a table of its own (docs/routes.md)"
        stop = f"spark_jobs.errors.TableStopped: {self}"
        raised = {
            condition: f"raise_error({literal(f'{stop}: {reason}, {remedy}')} || '\\n\\n')"
            for condition, reason in reasons.items()
        }
        return " ".join(f"WHEN {condition} THEN CAST({error} AS TIMESTAMP)" for condition, error in raised.items())


@dataclass(frozen=True, slots=True)
class Fold:
    """What source tables make of keys together. types: of the downstream table's columns, those of sources."""

    session: SparkSession
    types: dict[str, str]
    key: tuple[str, ...]

    @property
    def identities(self) -> list[str]:
        """Names of the columns that tell one key from another."""
        return [f"{silver.IDENTITY}{at}" for at in range(len(self._keyed.identity()))]

    @property
    def cells(self) -> list[str]:
        """The columns of a downstream row."""
        return [*self.types, *ADDED, *MARKS]

    def touched(self, rows: DataFrame) -> DataFrame:
        """The keys of some rows of silver."""
        keys = rows.where(f"_op <> '{silver.Op.TRUNCATE}'").select(*self._cells(rows, self.key), "_raw")
        return keys.selectExpr(*self._identity()).distinct()

    def last(
        self, side: Side, touched: DataFrame | None, condition: str = "TRUE", *, has_values: bool = True
    ) -> DataFrame:
        """Of each key of a source table its last change: the row's columns, ORDER and _gone.

        touched: the keys asked for; all without. has_values: whether the columns are read that are not the key's.
        """
        rows = side.rows(self.session, condition)
        names = list(self.types) if has_values else self.key
        marks = [F.lit(value).alias(name) for name, value in side.marks.items()]
        beside: list[str | Column] = [*ADDED, ORDER, (F.col("_op") == silver.Op.DELETE).alias("_gone")]
        rows_ = rows.where(f"_op <> '{silver.Op.TRUNCATE}'")
        beside += [*self._cells(rows, names), *marks]
        rows_ = rows_.select(*beside).selectExpr("*", *self._identity())
        rows_ = rows_ if touched is None else _joined(rows_, touched, "left_semi")
        newest = F.max_by(_struct([*self.cells, ORDER, "_gone"]), "_position").alias("last")
        rows_ = rows_.groupBy(*self.identities).agg(newest).select(*self.identities, "last.*")
        return self._cut(rows_, side) if side.is_emptied else rows_

    def all_of(self, sides: Sequence[DataFrame]) -> DataFrame:
        """Of each key the last change of all source tables. sides: as ``last`` gives them."""
        together = union(sides)
        newest = F.max_by(_struct([*self.cells, "_gone"]), F.expr(_GUARD)).alias("last")
        return together.groupBy(*self.identities).agg(newest).select(*self.identities, "last.*")

    def statement(self, target: Table) -> str:
        """MERGE of rows with the identities and _gone into a table; what is there already is left alone."""
        names = [identifier(name) for name in self.cells]
        on = self._keyed.is_same_row("t.", [f"s.{name}" for name in self.identities])
        equalities = [f"t.{name} <=> s.{name}" for name in names if name != identifier("_raw")]
        equalities.append("map_entries(t._raw) <=> map_entries(s._raw)")
        clauses = (
            f" s ON {on} WHEN MATCHED AND s._gone THEN DELETE "
            f"WHEN MATCHED AND NOT ({' AND '.join(equalities)}) THEN "
            f"UPDATE SET {', '.join(f't.{name} = s.{name}' for name in names)} "
            f"WHEN NOT MATCHED AND NOT s._gone THEN INSERT ({', '.join(names)}) "
            f"VALUES ({', '.join(f's.{name}' for name in names)})"
        )
        return with_rows(f"MERGE INTO {target.sql} t USING ", clauses)

    def _cut(self, last: DataFrame, side: Side) -> DataFrame:
        """With a row that stands before a statement that emptied the table as one that it deleted."""
        markers = side.rows(self.session, f"_op = '{silver.Op.TRUNCATE}'")
        cuts = F.array_sort(F.collect_list(F.struct(F.col("_position").alias("p"), F.col(ORDER).alias("o"))))
        crossed = last.crossJoin(F.broadcast(markers.agg(cuts.alias(_CUTS))))
        cut = f"IF(_gone, NULL, get(filter({_CUTS}, cut -> cut.p > _position), 0))"
        crossed = crossed.withColumn(_CUTS, F.expr(cut))
        cells_ = {"_gone": f"_gone OR {_CUTS} IS NOT NULL"}
        cells_ |= {ORDER: f"coalesce({_CUTS}.o, {ORDER})", "_position": f"coalesce({_CUTS}.p, _position)"}
        return crossed.withColumns({name: F.expr(sql) for name, sql in cells_.items()}).drop(_CUTS)

    def _cells(self, rows: DataFrame, names: Sequence[str]) -> list[Column]:
        """The table's columns, those of ``names`` from rows of silver, with the table's types."""
        by_name = {name.casefold(): identifier(name) for name in rows.columns}
        present = {name.casefold() for name in names} & by_name.keys()
        return [
            F.expr(f"CAST({by_name[n.casefold()] if n.casefold() in present else 'NULL'} AS {kind})").alias(n)
            for n, kind in self.types.items()
        ]

    def _identity(self) -> list[str]:
        pairs = zip(self._keyed.identity(), self.identities, strict=True)
        return [f"{cell} AS {name}" for cell, name in pairs]

    @property
    def _keyed(self) -> silver.Columns:
        return silver.Columns(self.types, self.key)


def merge_shared(spark: SparkSession, lake: Lake, work: MergeJob) -> Merged | None:
    """As ``merge`` does, for a table that has keys in common with others.

    Raises TableStopped where these cannot be identified by it, LakeError, LostRace.
    """
    target = work.target
    assert isinstance(target, SharedPart)
    assert work.pinned.position
    with about(str(work)):
        head = target.head()
        _require_one_key(work, target.other_parts(head) if head else [])
        own_clock = clock.clock_of(lake, work.source)
        if own_clock is None or own_clock.position < work.pinned.position:
            own_clock = clock.advance(spark, lake, work.source)
        if own_clock is None:
            raise LakeError(f"{lake.bronze(work.source).path} is gone, by which it is told when rows were written")
    return merge(spark, work, _Way(lake, own_clock).bring)


def _require_one_key(work: MergeJob, parts: Sequence[Part]) -> None:
    """Raises TableStopped where its rows cannot be told from the others', or from each other."""
    # Keys can be shared only if each row has one, and is whole.
    columns = work.columns
    if columns.is_bag:
        raise TableStopped("has no key that it could share with others (keys: shared); give it one, or leave keys: out")
    if columns.has_partial:
        raise TableStopped(
            "has row images that leave columns out, which are not completed where keys are shared; "
            "SET GLOBAL binlog_row_image = 'FULL', and reset it: stratalog reset"
        )
    # Columns of the statement's own, which would hide those of the table.
    reserved = [name for name in columns.types if name.lower() in {ORDER, _CUTS} or name.lower().startswith(LATE)]
    if reserved:
        raise TableStopped(
            f"its column {reserved[0]} has the name of one that rows have on the way where keys are shared; rename it, "
            "or route it to a table of its own"
        )
    # The same key must mean the same row in every part; floats are not compared for equality.
    for part in parts:
        kinds = [{columns.types.get(name), part.columns.get(name)} for name in columns.key]
        if sorted(part.key) != sorted(columns.key) or {"FLOAT", "DOUBLE"} in kinds:
            own_key = _listed(columns.key, columns.types)
            raise TableStopped(
                f"its key is ({own_key}), and that of {part}, which it has keys in common with, is "
                f"({_listed(part.key, part.columns)}); alter one of them, or route it to a table of its own"
            )


def _listed(key: Sequence[str], types: dict[str, str]) -> str:
    return ", ".join(f"{name} {types.get(name)}" for name in key)


@dataclass(frozen=True, slots=True)
class _Way:
    """How a part's news come to a table in which it has keys in common with others. clock: of the part's source."""

    lake: Lake
    clock: Clock

    def bring(
        self, spark: SparkSession, work: MergeJob, head: Head, delta: SilverDelta, checkpoint: Checkpoint
    ) -> tuple[Head, dict[str, int]]:
        """Merges the rows of all sources that share a key: of each key the newest of any source."""
        target = work.target
        assert isinstance(target, SharedPart)
        # Every source's silver takes part: who owns a key is decided by the order of commits of all of them.
        types, key = target.all_columns() or work.columns.types, tuple(sorted(work.columns.key))
        own_side = Side(
            _owner(work), work.origin, work.pinned.version, work.columns.types, self.clock, bool(work.floor)
        )
        sides = [own_side, *(_side(self.lake, part) for part in target.other_parts(head))]
        if head.design or delta.is_renewed:
            return _all_rows(Fold(spark, types, key), target, sides, head, checkpoint)
        counts: list[Row] = []

        def run(session: SparkSession) -> None:
            fold = Fold(session, types, key)
            rows = _changed(fold, work, head, delta, sides)
            counts.extend(session.sql(fold.statement(target), source=rows).collect())

        landed = target.statement(spark, head, checkpoint, run)
        return landed, counts[0].asDict()


def _all_rows(
    fold: Fold, target: SharedPart, sides: Sequence[Side], head: Head, checkpoint: Checkpoint
) -> tuple[Head, dict[str, int]]:
    """Puts what all of silver folds to in the place of what the table has."""
    counted = Observation()
    rows = fold.all_of([fold.last(side, None) for side in sides]).where("NOT _gone")
    rows = rows.select(*map(identifier, fold.cells)).observe(counted, F.count(F.lit(1)).alias("rows"))
    landed = (target.append if head.design else target.overwrite)(rows, head, checkpoint)
    return landed, {"num_inserted_rows": counted.get["rows"], "num_updated_rows": 0, "num_deleted_rows": 0}


def _changed(fold: Fold, work: MergeJob, head: Head, delta: SilverDelta, sides: Sequence[Side]) -> DataFrame:
    """The keys that a merge is about, and what is to be there of them. sides: its own first."""
    own_side, *other_sides = sides
    pending = f"_window_start >= {silver.place_sql(head.position)}" if head.position else "TRUE"
    is_emptied = bool(work.floor and head.position and work.floor >= head.position)
    if not delta.redone:
        condition = "TRUE" if is_emptied else pending
        touched = fold.touched(own_side.table.read(fold.session, own_side.version).where(condition))
        own_rows = fold.last(replace(own_side, is_emptied=is_emptied or not head.position), None, condition)
        last_rows = fold.all_of([own_rows, *(fold.last(side_, touched, has_values=False) for side_ in other_sides)])
        return last_rows.where(marked(own_side.marks))  # the others' are there already
    commit = DownstreamCommit.of_head(head)
    merged = commit.silver_version if commit else own_side.version
    ranges = f"({silver.within_any(delta.redone)})"
    old = own_side.table.read(fold.session, merged).where(ranges)
    new = own_side.table.read(fold.session, own_side.version).where("TRUE" if is_emptied else f"{ranges} OR {pending}")
    touched = fold.touched(old).union(fold.touched(new)).distinct()
    last_rows = fold.all_of([fold.last(side, touched) for side in sides])
    touched_rows = _joined(touched, last_rows, "left")
    return touched_rows.withColumn("_gone", F.coalesce("_gone", F.lit(True)))


def _owner(work: MergeJob) -> Owner:
    return work.source, work.name.schema, work.name.table


def _side(lake: Lake, part: Part) -> Side:
    """A part as it was merged last. Raises LakeError."""
    table = lake.silver(*part.owner)
    part_clock = clock.clock_of(lake, part.owner[0])
    if part_clock is None:
        raise LakeError(f"{lake.clock(part.owner[0]).path} is gone, by which it is told when {part} was written")
    return Side(part.owner, table, part.silver_version, part.columns, part_clock, is_emptied=True)


def _struct(names: Sequence[str]) -> Column:
    return F.struct(*map(identifier, names))


def _joined(rows: DataFrame, keys: DataFrame, join_type: str) -> DataFrame:
    """Rows and keys whose identities are the same; a part of one that only an exact text tells is NULL."""
    names = [name for name in rows.columns if name.startswith(silver.IDENTITY)]
    is_same_key = F.expr(" AND ".join(f"one.{name} <=> other.{name}" for name in names))
    joined = rows.alias("one").join(keys.alias("other"), is_same_key, join_type)
    if join_type == "left_semi":
        return joined
    added = (F.col(f"other.{identifier(name)}") for name in keys.columns if name not in names)
    return joined.select("one.*", *added)
