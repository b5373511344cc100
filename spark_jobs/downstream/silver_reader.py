"""A silver table as a merge reads it: the newest row of each key, or the copies of each row.

Put here: which rows of silver a merge takes, and what tells them apart. Not here: what silver has committed since the
last merge (merge_job.py), or writing the rows (merge.py, merge_sql.py).
"""

from collections.abc import Iterable
from dataclasses import dataclass

from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as F

from spark_jobs.downstream.commit import DownstreamCommit
from spark_jobs.downstream.merge_job import ADDED, MergeJob, SilverDelta
from spark_jobs.lake.commit import Head
from spark_jobs.log.position import Position
from spark_jobs.silver import partial_rows
from spark_jobs.silver import table as silver
from spark_jobs.text.sql import identifier


@dataclass(frozen=True, slots=True)
class SilverReader:
    """A silver table as one merge reads it: at one version, in the session of the statement.

    What it gives for a merge are rows with the table's columns, ADDED, ``_gone``, and the values of ``identity`` by
    which they are found downstream.
    """

    session: SparkSession
    work: MergeJob

    @property
    def columns(self) -> silver.Columns:
        return self.work.columns

    def pending(self, after: Position | None, delta: SilverDelta) -> DataFrame:
        """The newest row of every key in the windows after a position; one window holds no key twice."""
        rows = self._alive(_after(after))
        if self.columns.is_bag:
            return self._copies(identities_of(rows, self.columns).distinct())
        if self.columns.has_partial:
            return self._laid_over(rows)
        rows = with_gone(rows, self.columns)
        return rows if delta.windows == 1 else newest(rows, self.columns)

    def all_rows(self) -> DataFrame:
        """The state of every key by all of silver; of a bag every copy."""
        rows = self._alive("TRUE")
        if self.columns.is_bag:
            return self._copies(identities_of(rows, self.columns).distinct(), self.rows("FALSE"))
        return self._state(rows)

    def touched_rows(self, head: Head, delta: SilverDelta) -> DataFrame:
        """The state, by all of silver, of every key that replaced windows had or have, of loaded and pending ones."""
        touched = self.touched(head, delta)
        if self.columns.is_bag:
            return self._copies(touched)
        state = with_lacking(self._state(self._alive("TRUE"), touched), touched)
        return state.withColumn("_gone", F.coalesce("_gone", F.lit(True)))

    def touched(self, head: Head, delta: SilverDelta) -> DataFrame:
        """The identities of the keys that replaced windows had or have, of loaded and pending ones."""
        if delta.steps:  # the old rows' columns may have had other names
            old, new = self.work.target.own_rows(self.session), self.rows("TRUE")
        else:
            commit = DownstreamCommit.of_head(head)
            merged = commit.silver_version if commit else self.work.pinned.version
            loaded = [f"_op = '{silver.Op.LOAD}'"] if delta.is_loaded else []
            ranges = " OR ".join([f"({silver.within_any(delta.redone)})", *loaded])
            old = self.work.origin.read(self.session, merged).where(f"({ranges}) AND _op <> '{silver.Op.TRUNCATE}'")
            new = self.rows(f"{ranges} OR {_after(head.position)}")
        return identities_of(old, self.columns).union(identities_of(new, self.columns)).distinct()

    def unseen(self) -> int:
        """How many keys have a row in silver and none downstream, since no row of theirs was ever whole."""
        rows = self._laid_over(self._alive("TRUE")).where(f"{silver.ABSENT} IS NOT NULL")
        return int(self.work.target.collect(rows.agg(F.count(F.lit(1)).alias("keys")))[0]["keys"])

    def _state(self, rows: DataFrame, touched: DataFrame | None = None) -> DataFrame:
        """What these rows, all that count of their keys, make of each; a key never seen whole counts as gone."""
        if not self.columns.has_partial:
            rows = with_gone(rows, self.columns)
            return newest(rows if touched is None else among(rows, touched), self.columns)
        state = self._laid_over(rows, touched)
        is_gone = F.expr(f"_gone OR {silver.ABSENT} IS NOT NULL")
        return state.withColumn("_gone", is_gone).drop(silver.ABSENT, partial_rows.ENDED)

    def _laid_over(self, rows: DataFrame, touched: DataFrame | None = None) -> DataFrame:
        rows = with_gone(rows, self.columns, silver.ABSENT)
        rows = rows if touched is None else among(rows, touched)
        return partial_rows.folded(rows, identity_names(self.columns), self.columns.types)

    def _copies(self, touched: DataFrame, target_rows: DataFrame | None = None) -> DataFrame:
        """For each of these images of a bag: rows to insert, and one to delete all of the target's where it has more.

        target_rows: the rows that count as the target's, instead of its own. Raises TableStopped, in the statement,
        where more copies went than the lake ever saw come.
        """
        # Copies of each touched image that silver has, and those that the target has.
        image = touched.columns[0]
        rows = with_gone(self._alive("TRUE"), self.columns, silver.COPIES)
        last = F.struct(*quoted([*self.columns.types, *ADDED]))
        silver_counts = (
            among(rows, touched)
            .groupBy(image)
            .agg(F.max_by(last, "_position").alias("last"), F.sum(silver.COPIES).alias("wanted"))
        )
        target_rows = self.silver_rows() if target_rows is None else target_rows
        target_counts = (
            among(identities_of(target_rows, self.columns), touched).groupBy(image).agg(F.count("*").alias("there"))
        )
        # Images with fewer copies in silver are deleted first (nth 0) and then inserted as often as silver has them.
        counts = touched.join(silver_counts, on=image, how="left").join(target_counts, on=image, how="left")
        counts = counts.selectExpr(image, "last", self._sum("wanted"), "coalesce(there, 0) AS there")
        nths = "IF(there > wanted, sequence(0L, wanted), sequence(1L, wanted - there))"
        copies = counts.where("there <> wanted").selectExpr(image, "last", f"explode({nths}) AS nth")
        return copies.selectExpr(f"IF(nth = 0, {image}, NULL) AS {image}", "last.*", "nth = 0 AS _gone")

    def silver_rows(self) -> DataFrame:
        """The target's rows, without what stands before the last statement that emptied the table."""
        if self.work.target.head() is None:
            return self.rows("FALSE")
        return self._since_emptied(self.work.target.own_rows(self.session))

    def _sum(self, name: str) -> str:
        return f"{silver.copies_sql(name, str(self.work), lacks_older=self.work.lacks_older)} AS {name}"

    def rows(self, condition: str) -> DataFrame:
        """Silver's rows that satisfy a condition, those before a statement that emptied the table too."""
        rows: DataFrame = self.work.origin.read(self.session, self.work.pinned.version)
        return rows.where(f"({condition}) AND _op <> '{silver.Op.TRUNCATE}'")

    def _alive(self, condition: str) -> DataFrame:
        """Without what stands before the last statement that emptied the table."""
        return self._since_emptied(self.rows(condition))

    def _since_emptied(self, rows: DataFrame) -> DataFrame:
        floor = self.work.floor
        return rows.where(f"_position > {silver.before_sql(floor)}") if floor else rows


def _after(position: Position | None) -> str:
    """SQL: the rows of windows behind a position. Loaded ones are in no window, wherever they count from."""
    return f"_window_start >= {silver.place_sql(position)} AND _op <> '{silver.Op.LOAD}'" if position else "TRUE"


def quoted(names: Iterable[str]) -> list[str]:
    return [identifier(name) for name in names]


def identity_names(columns: silver.Columns) -> list[str]:
    """Names of the columns that hold the values of ``identity``."""
    return [f"{silver.IDENTITY}{at}" for at in range(len(columns.identity()))]


def identities_of(rows: DataFrame, columns: silver.Columns) -> DataFrame:
    """What tells the rows apart, alone."""
    pairs = zip(columns.identity(), identity_names(columns), strict=True)
    return rows.selectExpr(*(f"{cell} AS {name}" for cell, name in pairs))


def same_identity(touched: DataFrame) -> Column:
    """One key is the other's; a part of it that only an exact text tells is NULL."""
    return F.expr(" AND ".join(f"one.{name} <=> other.{name}" for name in touched.columns))


def among(rows: DataFrame, touched: DataFrame) -> DataFrame:
    """Those rows whose identity is among the touched ones."""
    return rows.alias("one").join(touched.alias("other"), same_identity(touched), how="left_semi")


def with_lacking(rows: DataFrame, touched: DataFrame) -> DataFrame:
    """The touched identities with their rows; those without one have NULL in its columns."""
    names = [name for name in rows.columns if name not in touched.columns]
    joined = touched.alias("one").join(rows.alias("other"), same_identity(touched), how="left")
    return joined.select("one.*", *(F.col(f"other.{identifier(name)}") for name in names))


def with_gone(rows: DataFrame, columns: silver.Columns, *more_columns: str) -> DataFrame:
    pairs = zip(columns.identity(), identity_names(columns), strict=True)
    cells_ = (F.expr(cell).alias(name) for cell, name in pairs)
    names = quoted([*columns.types, *ADDED, *more_columns])
    return rows.select(*cells_, *names, (F.col("_op") == silver.Op.DELETE).alias("_gone"))


def newest(rows: DataFrame, columns: silver.Columns) -> DataFrame:
    names, columns_ = identity_names(columns), (*columns.types, *ADDED, "_gone")
    last = rows.groupBy(*names).agg(F.max_by(F.struct(*quoted(columns_)), "_position").alias("last"))
    return last.select(*names, "last.*")
