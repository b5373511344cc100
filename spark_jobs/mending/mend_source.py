"""Mending of tables whose rows differ from the server's: ``stratalog mend``.

Put here: which keys are read, by what verify finds or a user gives, and the merge of what was committed. Not here:
reading, comparing and committing rows (mend_table.py), or how it is printed (cli/mend.py).

Tables without a key are read again as a whole, by a load: equal rows are counted, so none can be mended by itself.
"""

import logging
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

import pyarrow as pa
from pyspark.sql import SparkSession

from spark_jobs.binlog import TableName
from spark_jobs.changes.lines import wanted_tables
from spark_jobs.checks.verify.compare import KeyDifference
from spark_jobs.checks.verify.lake_rows import LakeRows
from spark_jobs.checks.verify.named_tables import known_tables, named_tables
from spark_jobs.checks.verify.server_rows import ServerSession
from spark_jobs.checks.verify.tables import require_live, verify_source
from spark_jobs.checks.verify.verdict import FoundKeys, Verdict
from spark_jobs.config.model import Pipeline
from spark_jobs.errors import ConfigError, StratalogError, TableStopped
from spark_jobs.lake.layout import lake_of
from spark_jobs.lake.retry import CONFLICT_WAIT, retry_on_conflict
from spark_jobs.log.position import Position
from spark_jobs.mending.mend_table import MendableTable, mend_keys, mendable
from spark_jobs.mending.mend_task import NOTHING, MendCounts
from spark_jobs.operations.observation import verified
from spark_jobs.operations.observation.verified import DIFFERS, EQUAL, MENDED, NOT_COMPARED, Verified
from spark_jobs.pipeline.initial_load.anchor import Anchor
from spark_jobs.pipeline.initial_load.context import LoadContext
from spark_jobs.pipeline.initial_load.key_ranges import in_text
from spark_jobs.pipeline.initial_load.load import CHUNK_ROWS, load_source
from spark_jobs.pipeline.initial_load.selection import newest_checkpoint
from spark_jobs.pipeline.initial_load.snapshot import require_lock
from spark_jobs.pipeline.initial_load.throttle import Throttle
from spark_jobs.pipeline.initial_load.wanted_keys import WantedKeys, WantedRows, keys_of_texts
from spark_jobs.pipeline.outcome import Outcome
from spark_jobs.pipeline.run import extract_source, merge_forward
from spark_jobs.runtime.lazy_session import start_session
from spark_jobs.runtime.spark_session import session_over
from spark_jobs.text.progress import doing
from spark_jobs.text.remedies import advised

log = logging.getLogger(__name__)

_A_STATEMENT = 200
"""Keys that the server is asked for at once."""
_A_COMMIT = 5_000
"""Keys that are read in one snapshot, and committed together."""

WHOLE, STOPPED = "whole", "stopped"
"""States of a mended table, beside those of a comparison."""


@dataclass(frozen=True, slots=True)
class MendedTable:
    """Differences that a mend has found in one table and, where it was applied, repaired.

    state: ``mended``: rows differ by keys; ``equal``: none does; ``whole``: it has no key, and is read again as a
    whole; ``stopped``: ``reason`` says why. at: the position that the rows are of. differences: the keys that verify
    found. unread: rows that differ and were too many to be looked at one by one.
    """

    source: str
    table: TableName
    state: str
    counts: MendCounts = NOTHING
    at: Position | None = None
    differences: tuple[KeyDifference, ...] = ()
    rows: int = 0
    """Number of rows that the server has of a table without a key; 0 for other tables."""
    unread: int = 0
    reason: str | None = None

    @property
    def is_whole(self) -> bool:
        """True if all that was known to differ was mended."""
        if self.state == WHOLE:
            return True
        return self.state == MENDED and bool(self.differences) and not (self.unread or self.counts.rows_left)

    def to_json(self, *, is_applied: bool) -> dict[str, Any]:
        """The object of ``stratalog mend --json``."""
        counts = {name: getattr(self.counts, name) for name in MendCounts.__slots__}
        return {
            "source": self.source,
            "table": str(self.table),
            "state": self.state,
            "applied": is_applied and self.state in (MENDED, WHOLE),
            **counts,
            "at": self.at and str(self.at),
            "rows": self.rows,
            "unread": self.unread,
            "keys": [difference.to_json() for difference in self.differences],
            "reason": self.reason,
        }

    def lines(self) -> Iterator[str]:
        """A line for people for each key that verify found."""
        for difference in self.differences:
            yield f"{self.table} {difference}"

    def remarks(self, *, is_applied: bool) -> Iterator[str]:
        """Tables and keys that were not mended, and why."""
        table = f"{self.source}: {self.table}"
        if self.reason:
            yield self.reason
        # Keys that were left out, and what follows from it.
        if self.counts.changed:
            yield f"{table}: {self.counts.changed} keys were changed by the log since they were read; verify them"
        if self.counts.tied:
            yield (
                f"{table}: {self.counts.tied} keys were loaded at {self.at}, where the log still ends: they are not "
                f"mended until it has grown; mend it again after a write, or after FLUSH BINARY LOGS at the server"
            )
        if self.unread:
            yield f"{table}: {self.unread} more rows differ than were compared one by one; mend it again for them"
        if self.state == EQUAL and self.differences:
            yield (
                f"{table}: silver has the server's rows, and downstream has not: something else wrote to the "
                "downstream table; merge the keys from silver once more (stratalog docs verify#when-a-row-differs)"
            )
        if self.state == WHOLE and not is_applied:
            yield f"{table}: has no key, so that all of its rows are read in one snapshot, and replace the lake's"


def require_keys(tables: Sequence[str], keys: Sequence[str]) -> None:
    """Check that keys are given with exactly one table. Raises ConfigError."""
    is_one = len(tables) == 1 and "*" not in tables[0] and "?" not in tables[0]
    if keys and not is_one:
        raise ConfigError({"--key": "keys are of one table; name it by --table"})


def mend_source(
    spark: SparkSession,
    pipeline: Pipeline,
    source: str,
    *,
    tables: Sequence[str] = (),
    keys: Sequence[str] = (),
    is_applied: bool = False,
) -> "Mended":
    """Replace rows that differ by the server's, in silver and downstream, and publish the result.

    The lake is first brought up to the end of the source's log, as by a run. Nothing is written at the server. Raises
    ConfigError for a source without a server and a table that nobody has; SourceError, LakeError.

    Args:
        spark: The session.
        pipeline: The configuration.
        source: The source.
        tables: ``DB.TABLE`` or patterns; all whose rows differ by default.
        keys: As a user writes them, of one table, in place of those that a comparison finds.
        is_applied: Whether anything is changed; otherwise the result says what would be.
    """
    # What keeps tables from being mended is said before anything is read; a dry run reads in the same snapshots.
    server = require_live(pipeline, source)
    require_keys(tables, keys)
    with ServerSession(server) as session:
        at_server = set(session.tables())
    names = named_tables(known_tables(pipeline, source, at_server), tables, source)
    require_lock(server, [name for name in names if name in at_server])
    # Which keys: those that are given, or those that a comparison finds.
    work = _Mending(spark, pipeline, source, is_applied=is_applied)
    if keys:
        work.catch_up(None)
        start_session(spark)  # the server has answered; reading keys makes Spark's columns
        results = [work.by_given(TableName(*tables[0].split(".", 1)), keys)]
    else:
        verdicts = list(verify_source(spark, pipeline, source, wanted_tables(tables)))
        results = [*work.by_verdicts(verdicts, is_named=bool(tables))]
    # Silver has the rows; downstream gets them as in a run.
    outcome = work.merged() if is_applied else None
    if is_applied:
        work.note(results)
    return Mended(results, outcome)


@dataclass(frozen=True, slots=True)
class Mended:
    """Result of a mend: tables, and the outcome of the run that carried it on, where anything was changed."""

    tables: list[MendedTable]
    outcome: Outcome | None

    @property
    def differing(self) -> list[MendedTable]:
        """The tables that were mended, or would be."""
        return [table for table in self.tables if table.state in (MENDED, WHOLE)]

    @property
    def stopped(self) -> list[MendedTable]:
        return [table for table in self.tables if table.state == STOPPED]


class _Mending:
    """A mend of one source."""

    def __init__(self, spark: SparkSession, pipeline: Pipeline, source: str, *, is_applied: bool) -> None:
        self.spark = spark
        self.pipeline = pipeline
        self.source = source
        self.lake = lake_of(pipeline)
        self.is_applied = is_applied
        self.load: LoadContext | None = None

    def catch_up(self, position: Position | None) -> Outcome:
        """Run all layers up to a position, or to the end of the log."""

        def caught_up() -> Outcome:
            head = self.lake.bronze(self.source).head()
            if position is None or head is None or head.position is None or head.position < position:
                extract_source(self.spark, self.pipeline, self.source, until=position)
            return merge_forward(self.spark, self.pipeline, self.source)

        return retry_on_conflict(caught_up, wait=CONFLICT_WAIT)

    def merged(self) -> Outcome:
        """Merge and publish what was committed, as a run does."""
        forward_merge = partial(merge_forward, self.spark, self.pipeline, self.source)
        return retry_on_conflict(forward_merge, wait=CONFLICT_WAIT)

    def note(self, tables: Sequence[MendedTable]) -> None:
        """Record in the lake that differing rows were mended. Given keys are not all of a table's."""
        mended = [_as_verified(table) for table in tables if table.is_whole]
        if mended:
            retry_on_conflict(lambda: verified.note(self.lake, self.source, mended))

    @property
    def context(self) -> LoadContext:
        """Context that reading rows shares with loads. Raises SourceError where bronze ends in another server's log."""
        if self.load is None:
            server = require_live(self.pipeline, self.source)
            anchor = Anchor.of(server, newest_checkpoint(self.lake.bronze(self.source)))
            spark = session_over(self.spark, 0)
            self.load = LoadContext(
                spark, self.pipeline, self.lake, self.source, anchor, CHUNK_ROWS, lambda *_: None, Throttle(server)
            )
        return self.load

    def by_given(self, name: TableName, keys: Sequence[str]) -> MendedTable:
        return self._or_stopped(name, partial(self._by_texts, name, keys))

    def _by_texts(self, name: TableName, keys: Sequence[str]) -> MendedTable:
        table = mendable(self.context, name)
        if not table.columns.key:
            raise ConfigError({"--key": f"{name} has no key; without --key it is read as a whole"})
        read_keys = keys_of_texts(keys, table.columns, table.fields.arrow(physical=False), str(name))
        return self._by_keys(table, [read_keys])

    def by_verdicts(self, verdicts: Sequence[Verdict], *, is_named: bool) -> Iterator[MendedTable]:
        """is_named: whether the tables were named, so that it is said of each what became of it."""
        for name in dict.fromkeys(verdict.table for verdict in verdicts):
            of_table = [verdict for verdict in verdicts if verdict.table == name]
            unlike_keys = [
                verdict.unlike_keys for verdict in of_table if verdict.unlike_keys and verdict.unlike_keys.keys
            ]
            differing = [verdict for verdict in of_table if verdict.state == DIFFERS]
            is_counted = any(verdict.unlike_keys and verdict.unlike_keys.are_counted for verdict in of_table)
            refused = next((verdict.reason for verdict in of_table if verdict.state == NOT_COMPARED), None)
            with doing(f"{self.source}: mending {name}"):
                if unlike_keys:
                    result = self._or_stopped(name, partial(self._by_found_keys, name, unlike_keys))
                    differences = {str(item.key): item for verdict in differing for item in verdict.differences}
                    unread = sum(verdict.unread for verdict in differing)
                    yield replace(result, differences=tuple(differences.values()), unread=unread)
                elif is_counted and (is_named or differing):
                    yield self._load_again(name, of_table[0].source_rows)
                elif differing:
                    yield MendedTable(self.source, name, STOPPED, reason=self._unmerged(differing[0]))
                elif refused and is_named:
                    text = f"{refused}; name its keys: stratalog mend --source {self.source} --table {name} --key …"
                    yield MendedTable(self.source, name, STOPPED, reason=text)
                elif is_named:
                    yield MendedTable(self.source, name, EQUAL)

    def _unmerged(self, verdict: Verdict) -> str:
        """Reason why a table that differs has no keys to mend: one side has no table."""
        table = f"{self.source}: {verdict.table}"
        if verdict.missing:
            return (
                f"{table}: nothing of it is in the lake, and the server has {verdict.missing} rows; load it: stratalog "
                f"load --source {self.source} --table {verdict.table}"
            )
        return f"{table}: the server has no such table, and the lake has {verdict.extra} rows of it (on_drop: drop)"

    def _by_found_keys(self, name: TableName, unlike_keys: Sequence[FoundKeys]) -> MendedTable:
        table = mendable(self.context, name)
        fields = table.fields.arrow(physical=False)
        batches = [
            self._keys_to_read(batch, keys, table, fields)
            for batch in unlike_keys
            for keys in _parts([*batch.keys], _A_COMMIT)
        ]
        return self._by_keys(table, batches)

    def _keys_to_read(
        self, unlike_keys: FoundKeys, keys: Sequence[bytes], table: MendableTable, fields: pa.Schema
    ) -> WantedKeys:
        """Keys that verify found: the lake's own are read there, the others the server tells."""
        names = [*table.columns.key, "_raw"]
        rows = LakeRows(self.spark, unlike_keys.downstream, unlike_keys.layout).stored_keys(unlike_keys.keys.only(keys))
        lake_keys = rows.select(names).cast(pa.schema([fields.field(name) for name in names]))
        parts = (WantedRows(in_text(unlike_keys.layout.condition_for(part))) for part in _parts(keys, _A_STATEMENT))
        return WantedKeys(tuple(parts), lake_keys)

    def _by_keys(self, table: MendableTable, batches: Sequence[WantedKeys]) -> MendedTable:
        counts, at = NOTHING, None
        for keys in batches:
            mended = mend_keys(self.context, table, keys, self.catch_up, is_applied=self.is_applied)
            counts, at = counts + mended.counts, mended.position
        state = MENDED if counts.rows else EQUAL
        return MendedTable(self.source, table.name, state, counts, at)

    def _load_again(self, name: TableName, rows: int) -> MendedTable:
        """A table without a key: loaded again."""
        result = MendedTable(self.source, name, WHOLE, rows=rows)
        if not self.is_applied:
            return result
        loaded = load_source(self.spark, self.pipeline, self.source, tables=[str(name)], is_again=True)
        if name in loaded.tables:
            commit = loaded.tables[name]
            return replace(result, rows=commit.rows, at=commit.since)
        return replace(result, state=STOPPED, reason=loaded.stopped.get(name))

    def _or_stopped(self, name: TableName, mend: Callable[[], MendedTable]) -> MendedTable:
        """Result of work on a table, or its stop: one table's stop does not stop the next."""
        try:
            return mend()
        except (TableStopped, ConfigError) as error:
            if isinstance(error, ConfigError):
                raise
            reason = str(error)
            prefix = f"{self.source}: {name}: "
            reason = reason if reason.startswith(prefix) else prefix + reason
            return MendedTable(self.source, name, STOPPED, reason=advised(StratalogError(reason), self.source, name))


def _as_verified(table: MendedTable) -> Verified:
    name, at = table.table, str(table.at) if table.at else None
    return Verified(name.schema, name.table, MENDED, at, verified.now())


def _parts(keys: Sequence[bytes], size: int) -> Iterator[Sequence[bytes]]:
    return (keys[at : at + size] for at in range(0, len(keys), size))
