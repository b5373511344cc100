"""Downstream tables compared with the source's, table by table, while writes continue.

    from stratalog import verify_source
    for verdict in verify_source(spark, pipeline, "shop"):
        print(verdict.table, verdict.state, verdict.differences)

Put here: which tables are compared, and bringing the lake up to the log. Not here: comparing one (compare.py), or what
is said of a table (verdict.py).
"""

import logging
import time
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from functools import cached_property
from typing import Any

from pyspark.sql import SparkSession

from spark_jobs.binlog import TableName
from spark_jobs.bronze.index import read_index
from spark_jobs.bronze.scan import LoggedStatement, scan_metadata
from spark_jobs.bronze.seek import LogSeeker
from spark_jobs.bronze.source_endpoints import endpoints_of
from spark_jobs.bronze.table import BronzeSnapshot, redacted_within
from spark_jobs.checks.verify.compare import READ_AGAIN, TableComparison, buckets_for, compare, compare_keys
from spark_jobs.checks.verify.lake_rows import LakeRows, SilverRows
from spark_jobs.checks.verify.named_tables import (
    named_tables,
    suggested_tables,
    tables_in_scope,
    unknown_tables,
)
from spark_jobs.checks.verify.protocol import KeySet
from spark_jobs.checks.verify.row_digest import DigestLayout, layout
from spark_jobs.checks.verify.server_rows import ServerRows, ServerSession
from spark_jobs.checks.verify.verdict import FoundKeys, Verdict, verified_of
from spark_jobs.config.model import Pipeline
from spark_jobs.config.routes import Destination, Name
from spark_jobs.ddl.effects import CreateTable, effects
from spark_jobs.downstream import publication
from spark_jobs.downstream.commit import DownstreamCommit
from spark_jobs.downstream.modes import CURRENT_ROWS, MODE_COLUMNS
from spark_jobs.downstream.multi_source import SharedPart, is_own
from spark_jobs.downstream.publication import Entry
from spark_jobs.errors import ConfigError, DecodeError, LakeError, SourceError, StratalogError, TableStopped, about
from spark_jobs.lake.commit import Head
from spark_jobs.lake.layout import Lake, lake_of
from spark_jobs.lake.retry import retry_on_conflict
from spark_jobs.lake.table import Table
from spark_jobs.log.position import Position
from spark_jobs.operations.observation import verified
from spark_jobs.operations.observation.verified import CHANGING, DIFFERS, DROPPED, EQUAL, NOT_COMPARED, Verified
from spark_jobs.pipeline.cascades.unlogged_changes import unlogged_changes_of
from spark_jobs.pipeline.destinations import destinations_of, downstream_of
from spark_jobs.pipeline.outcome import Outcome, why_waiting
from spark_jobs.pipeline.run import extract_source, merge_forward
from spark_jobs.runtime.lazy_session import start_session
from spark_jobs.silver import table as silver
from spark_jobs.silver.commit import SilverCommit
from spark_jobs.silver.planning_context import filters_of
from spark_jobs.silver.retired_columns import restarts_of, types_of
from spark_jobs.silver.table_timeline import TableState
from spark_jobs.source.server import Server
from spark_jobs.text.progress import doing
from spark_jobs.text.sql import identifier

log = logging.getLogger(__name__)

LAST = "last"
"""Value in place of a location: the position up to which a table is known to be equal."""
_MANY = 100_000
"""Rows of a table from which it is said that it is begun."""
_TRIES = 5
_COUNTED = 5
"""Number of counts of a keyless table's rows before it is said to change all the time."""


def require_live(pipeline: Pipeline, name: str) -> Server:
    """A source that can be asked for its rows. Raises ConfigError for one that is read from files."""
    source = endpoints_of(pipeline, name).current()
    if not isinstance(source, Server):
        raise ConfigError(
            f"sources.{name}: it reads files, which have no tables to compare; verify needs a server (mysql:). Name "
            "the other sources by --source"
        )
    return source


def require_named(pipeline: Pipeline, sources: Sequence[str], tables: Sequence[str]) -> None:
    """Check that each name or pattern is of a table that a server, or the lake, has now in scope. Nothing is changed.

    Raises ConfigError; SourceError, LakeError for a single source that cannot be asked, and for a name that only such a
    source may have. What keeps a source from being asked is left to its comparison otherwise.
    """
    if not tables:
        return
    names: list[TableName] = []
    unasked: dict[str, StratalogError] = {}
    for source in sources:
        try:
            with about(source):
                entries = publication.read(lake_of(pipeline), source)
                names += tables_in_scope(pipeline, (), entries)
                with ServerSession(require_live(pipeline, source)) as session:
                    names += tables_in_scope(pipeline, session.tables(), entries)
        except (SourceError, LakeError) as error:
            if len(sources) == 1:
                raise
            unasked[source] = error
    # A name that the other sources lack is wrong only if all of them have answered.
    wrong = unknown_tables(names, tables)
    if wrong and unasked:
        asked = [source for source in sources if source not in unasked]
        raise SourceError(
            f"{', '.join(unasked)}: could not be asked for a table like {', '.join(wrong)}, which is not among the "
            f"tables in scope of {', '.join([*asked, 'the lake'])}: {'; '.join(map(str, unasked.values()))}"
            f"{suggested_tables(names, wrong)}"
        )
    named_tables(names, tables, sources[0] if len(sources) == 1 else "a source")


def verify_source(
    spark: SparkSession,
    pipeline: Pipeline,
    name: str,
    wanted: Callable[[TableName], bool] | None = None,
    into: Callable[[TableName, Name], bool] | None = None,
    *,
    since: str | Position | None = None,
) -> Iterator[Verdict]:
    """Compare the tables of a source with the server's rows, and yield a verdict for each table.

    The lake is first brought up to the end of the source's log, as by a run. Raises ConfigError for a source without a
    server; SourceError, DecodeError, LakeError. The results are kept in the lake (operations/observation/verified.py).

    Args:
        spark: The session.
        pipeline: The configuration.
        name: The source.
        wanted: Which source tables to compare; all in scope by default.
        into: Which of their downstream tables to compare; all by default.
        since: Location in the log, or LAST, the position up to which a table is known to be equal. Only rows with
            changes since then are compared. A table without such a position, without a key, with too many changes or
            emptied since then is compared whole.
    """
    server = require_live(pipeline, name)
    with ServerSession(server) as session:
        checking = _ComparedSource(spark, pipeline, name, session, since)
        position = checking.end()
        checking.catch_up(position)
        names = [name for name in checking.names() if wanted is None or wanted(name)]
        _say_redacted(checking.lake, name)
        gaps = unlogged_changes_of(pipeline, checking.lake, name)
        results: list[Verified] = []
        try:
            for table in names:
                with doing(f"{name}: comparing {table}"):
                    verdicts = list(checking.verdicts(table, position, into))
                are_all = checking.wants_all_targets(table, into)
                results += verified_of(verdicts, checking.last.get(str(table)), is_of_all_targets=are_all)
                causes = tuple(map(str, gaps.of(table)))
                for verdict in verdicts:
                    rows, seconds = f"{verdict.source_rows:,}", verdict.seconds
                    log.info("%s: %s: %s, %s rows in %.1f s", name, verdict.label, verdict.state, rows, seconds)
                    yield verdict if verdict.is_right else replace(verdict, causes=causes)
        finally:
            # What was compared is verified_of, also where what comes after it fails, or is not asked for.
            if results:
                retry_on_conflict(lambda: verified.note(checking.lake, name, results))


def _say_redacted(lake: Lake, source: str) -> None:
    """Log what of bronze is not the server's own: no comparison with it can tell that."""
    table = lake.bronze(source)
    head = table.head()
    redacted = redacted_within(table, head.version) if head else None
    if redacted:
        log.warning("%s: in bronze, %s", source, redacted)


class _ComparedSource:
    """A source, the lake's tables of it, and the log between the two."""

    def __init__(
        self,
        spark: SparkSession,
        pipeline: Pipeline,
        name: str,
        session: ServerSession,
        since: str | Position | None = None,
    ) -> None:
        self.spark = spark
        self.pipeline = pipeline
        self.lake = lake_of(pipeline)
        self.name = name
        self.session = session
        self.entries: dict[TableName, Entry] = {}
        self.waiting: Mapping[TableName, Position] = {}
        """Child tables that lack the end of the log, and where they wait for a stopped table of their foreign keys."""
        self.position: Position | None = None
        self._since = since
        self.stretch: int | None = None

    def end(self) -> Position:
        """Position where the server's log ends now. Raises SourceError where bronze continues with another log."""
        head = self.lake.bronze(self.name).head()
        stretch = head.position.stretch if head and head.position else 1
        self.stretch = self.stretch or stretch
        if self.stretch != stretch:
            raise SourceError(f"{self.name}: a run went on with another log, in stretch {stretch}; verify again")
        return self.session.end(stretch)

    def catch_up(self, position: Position) -> None:
        """Run all layers up to a position, and no further unless another run has."""
        if self.position and self.position >= position:
            return
        outcome = retry_on_conflict(
            lambda: self._compare_tables(position)
        )  # another run may bring the same tables forward
        self.entries = {TableName(*entry.name): entry for entry in outcome.entries}
        self.waiting = outcome.waiting
        self.position = outcome.position

    def _compare_tables(self, position: Position) -> Outcome:
        head = self.lake.bronze(self.name).head()
        if head is None or head.position is None or head.position < position:
            extract_source(self.spark, self.pipeline, self.name, until=position)
        outcome = merge_forward(self.spark, self.pipeline, self.name)
        self.end()
        return outcome

    @cached_property
    def last(self) -> dict[str, Verified]:
        """The last comparison of each table, by ``schema.table``."""
        return verified.read(self.lake, self.name)

    def changes_from(self, name: TableName) -> Position | None:
        """Position from which on a table's changes are compared; None where all of its rows are."""
        if self._since == LAST:
            last = self.last.get(str(name))
            return last.equal_to if last else None
        return self._resolved_since

    @cached_property
    def _resolved_since(self) -> Position | None:
        if self._since is None:
            return None
        return LogSeeker(BronzeSnapshot.of(self.lake, self.name)).position(self._since)

    def names(self) -> list[TableName]:
        """The tables in scope that the server or the lake has."""
        return tables_in_scope(self.pipeline, self.session.tables(), self.entries.values())

    def verdicts(
        self, name: TableName, since: Position, is_wanted: Callable[[TableName, Name], bool] | None
    ) -> Iterator[Verdict]:
        """One of each downstream table that the table goes to and that is wanted."""
        try:
            destinations = destinations_of(self.pipeline, self.name, name)
        except TableStopped as error:
            yield Verdict(self.name, name, NOT_COMPARED, self.position, reason=str(error))
            return
        for destination in destinations:
            if is_wanted is None or is_wanted(name, destination.name):
                verdict = self.verdict(name, destination, since)
                yield replace(verdict, into=str(destination)) if len(destinations) > 1 else verdict

    def wants_all_targets(self, name: TableName, is_wanted: Callable[[TableName, Name], bool] | None) -> bool:
        """True if none of the downstream tables that a table goes to is left out."""
        if is_wanted is None:
            return True
        try:
            return all(is_wanted(name, target.name) for target in destinations_of(self.pipeline, self.name, name))
        except TableStopped:
            return True

    def verdict(self, name: TableName, into: Destination, since: Position) -> Verdict:
        began = time.monotonic()
        try:
            with about(f"{self.name}: {name}"):
                outcome = self._outcome(name, into, since)
        except TableStopped as error:
            outcome = {"state": NOT_COMPARED, "reason": str(error)}
        return Verdict(self.name, name, position=self.position, seconds=time.monotonic() - began, **outcome)

    def _outcome(self, name: TableName, into: Destination, since: Position) -> dict[str, Any]:
        table = _ComparedTable(self, name, into)
        try:
            return table.verdict(since)
        except (SourceError, TableStopped):  # of what a task met no more than the text comes back
            if not table.is_altered():
                raise
        log.info("%s: %s was altered while it was compared; comparing it again", self.name, name)
        return _ComparedTable(self, name, into).verdict(since)

    def has_all(self, name: TableName) -> bool:
        """True if no row of a table can be missing for being older than the log: it was loaded, or made in it."""
        entry = self.entries.get(name)
        return bool(entry and entry.complete) or name in self.created

    @cached_property
    def created(self) -> frozenset[TableName]:
        """The tables whose CREATE bronze holds, so that none of their rows is older than the log."""
        table = self.lake.bronze(self.name)
        head = table.head()
        assert head is not None
        statements = scan_metadata(read_index(table, head.version, kind="statement")).statements
        return frozenset(name for statement in statements for name in _created_by(statement))


def _created_by(statement: LoggedStatement) -> Iterator[TableName]:
    """The table that a statement creates; nothing where it cannot be read."""
    if statement.statement.verb.startswith("CREATE"):
        with suppress(DecodeError):
            table_effects = effects(statement.statement, statement.database, statement.session)
            yield from [effect.table for effect in table_effects if isinstance(effect, CreateTable)]


class _ComparedTable:
    """One table of a source, as the server, silver and one downstream table have it."""

    def __init__(self, source: _ComparedSource, name: TableName, into: Destination) -> None:
        self.source = source
        self.name = name
        lake = source.lake
        self.silver = lake.silver(source.name, name.schema, name.table)
        self.into = into
        self.downstream: Table = downstream_of(lake, source.name, name, into)
        self._layout: DigestLayout | None = None
        self._listed: list[dict[str, Any]] | None = None
        self.unknown: dict[str, int] = {}

    # What compare.Lag asks for.

    def end(self) -> Position:
        return self.source.end()

    def caught_up(self, position: Position) -> LakeRows:
        self.source.catch_up(position)
        self._require_going()
        return LakeRows(self.source.spark, self.downstream, self.layout, self.into.mode)

    def changed_since(self, keys: Collection[bytes], since: Position) -> set[bytes]:
        if self._has_stood_still(since):
            return set()
        return SilverRows(self.source.spark, self.silver, self.layout).changed_since(keys, since)

    def _has_stood_still(self, since: Position) -> bool:
        """True if silver ends at or before a position: no row needs to be read, for which Spark opens the table."""
        head = self.silver.head()
        return head is not None and head.position is not None and head.position <= since

    @property
    def layout(self) -> DigestLayout:
        if self._layout is None:
            self._layout = self._laid_out()
        return self._layout

    def is_altered(self) -> bool:
        """True if the server's columns are others than those that the comparison was made by."""
        listed = self.source.session.columns(self.name.schema, self.name.table)
        return self._layout is not None and listed != self._listed

    def _laid_out(self) -> DigestLayout:
        """Layout by the columns of server and lake now; where they differ, the lake may not have heard of it yet."""
        for tries_left in reversed(range(_TRIES)):
            listed = self._listed = self.source.session.columns(self.name.schema, self.name.table)
            try:
                state = self._definition_in_log()
                omitted = {*types_of(state.retired), *MODE_COLUMNS[self.into.mode]}
                columns = {column: kind for column, kind in self.downstream.columns().items() if column not in omitted}
                self.unknown = self._count_rows_before_restarts(restarts_of(state.retired))
                return layout(self.name, listed, columns, self._key_columns(), self.unknown)
            except TableStopped:
                if not tries_left:
                    raise
                self.source.catch_up(self.end())
        raise AssertionError

    def _key_columns(self) -> tuple[str, ...]:
        head = self.silver.head()
        return silver.stored_columns(self.silver, head).key if head and head.checkpoint else ()

    def _count_rows_before_restarts(self, restarts: Mapping[str, Position]) -> dict[str, int]:
        """Number of downstream rows that are older than the restart of each retired column.

        Columns without such rows are omitted.
        """
        if not restarts:
            return {}
        counts = (
            f"count_if(_position < {silver.before_sql(at)}) AS {identifier(name)}" for name, at in restarts.items()
        )
        current = self.downstream.read(start_session(self.source.spark)).where(CURRENT_ROWS[self.into.mode])
        rows = current.selectExpr(*counts).collect()[0]
        return {name: rows[name] for name in restarts if rows[name]}

    def _definition_in_log(self) -> TableState:
        commit = SilverCommit.of_head(self.silver.head())
        return TableState.of(commit) if commit else TableState(None)

    def verdict(self, since: Position) -> dict[str, Any]:
        """The fields of the Verdict. Raises TableStopped where the table cannot be compared."""
        # What cannot be compared is refused by name, before anything is read.
        ruled = filters_of(self.source.pipeline.filters, self.source.name, self.name).names()
        if ruled:
            raise TableStopped(f"has other rows or columns than the source, by {', '.join(ruled)}: it is not compared")
        if isinstance(self.downstream, SharedPart):
            raise TableStopped(
                "shares its keys with other source tables, which may have written rows last: not compared"
            )
        if self.into.mode not in CURRENT_ROWS:
            raise TableStopped(
                f"has every change as a row (mode: {self.into.mode}), and the server has the current rows alone: not "
                "compared"
            )
        if self._definition_in_log().is_numbered:
            raise TableStopped("its columns have no names (on_unnamed: number), and no key is known: not compared")
        self._require_going()
        is_there = bool(self.source.session.columns(self.name.schema, self.name.table))
        head = self.downstream.head()
        if not is_there:
            return self._dropped()
        # A table without a downstream one may be about to get it: the lake catches up first.
        if head is None or head.checkpoint is None:
            rows = self.source.session.count(self.name.schema, self.name.table)
            self.source.catch_up(self.end())
            head = self.downstream.head()
            if head is None or head.checkpoint is None:
                return self._never_seen(rows)
        self._require_own(head)
        # Without a key rows are counted.
        if not self.layout.key:
            return self._counted(since)
        return self._compared(since)

    def _require_going(self) -> None:
        entry = self.source.entries.get(self.name)
        if entry and entry.is_stopped_in(self.into.name):
            raise TableStopped(entry.reason or "it has stopped")
        if at := self.source.waiting.get(self.name):
            raise TableStopped(why_waiting(at))

    def _require_own(self, head: Head) -> None:
        commit = DownstreamCommit.of_head(head)
        if commit and not is_own(commit, self.source.name, self.name):
            owner = f"{commit.table or self.name} of source {commit.source or self.source.name}"
            raise TableStopped(
                f"{self.downstream.path} holds the rows of others ({owner}), and by routes: it "
                "is this table's alone: it is not compared"
            )

    def _dropped(self) -> dict[str, Any]:
        """A table that the server does not have or show."""
        self.source.catch_up(self.end())
        head = self.downstream.head()
        if head is None:
            return {"state": DROPPED}
        if not self._definition_in_log().is_dropped:
            raise TableStopped(
                "the server has no such table, or does not show it to this user; the log did not drop it"
            )
        # Its rows are counted, so no column is compared.
        no_columns = layout(self.name, [], {}, ())
        rows = LakeRows(self.source.spark, self.downstream, no_columns, self.into.mode, head.version).count()
        remaining = rows if self.source.pipeline.on_drop == "drop" else 0
        return {"state": DIFFERS if remaining else DROPPED, "lake_rows": rows, "extra": remaining}

    def _never_seen(self, rows: int) -> dict[str, Any]:
        """A table of which nothing was ever merged: right where it has no row."""
        if rows and not self.source.has_all(self.name):
            return {"state": EQUAL, "source_rows": rows, "older": rows}
        return {"state": DIFFERS if rows else EQUAL, "source_rows": rows, "missing": rows}

    def _compared(self, since: Position) -> dict[str, Any]:
        """The fields by a comparison row by row, with the states that it means."""
        origin = ServerRows(self.source.spark, self.source.session, self.layout)
        begin = self.source.changes_from(self.name)
        if begin:
            keys = SilverRows(self.source.spark, self.silver, self.layout).keys_since(begin, READ_AGAIN)
            if keys is not None:
                result = compare_keys(self.layout, origin, self, since, keys)
                return self._compared_rows(result) | {"changes_since": begin}
        rows = self.source.session.estimate(self.name.schema, self.name.table)
        # Reading many rows takes minutes, in which nothing else is logged.
        if rows >= _MANY:
            log.info(
                "%s: %s: reading about %s rows, of the server and of the lake", self.source.name, self.name, f"{rows:,}"
            )
        return self._compared_rows(compare(self.layout, origin, self, since, buckets_for(rows)))

    def _compared_rows(self, result: TableComparison) -> dict[str, Any]:
        return {
            "state": DIFFERS if result.differing else CHANGING if result.changing else EQUAL,
            "source_rows": result.source,
            "lake_rows": result.lake,
            **result.counts(),
            "older": result.older,
            "changing": result.changing,
            "unknown": self.unknown,
            "differences": result.differences,
            "unlike_keys": FoundKeys(self.layout, self.downstream, result.keys),
        }

    def older(self, keys: Collection[bytes]) -> set[bytes]:
        """The given keys that are older than the table's log, and of which silver has no change."""
        if not keys or self.source.has_all(self.name):
            return set()
        self.source.catch_up(self.end())
        return set(keys) - SilverRows(self.source.spark, self.silver, self.layout).keys_in_silver(keys)

    def _counted(self, start: Position) -> dict[str, Any]:
        """Rows without a key are counted, until the counts agree or the table stood still between two of them."""
        since = start
        for tries_left in reversed(range(_COUNTED)):
            now = self.end()
            rows = self.source.session.count(self.name.schema, self.name.table)
            here = self.caught_up(self.end()).count()
            unlike_keys = FoundKeys(self.layout, self.downstream, KeySet())
            counts = {"source_rows": rows, "lake_rows": here, "unlike_keys": unlike_keys}
            if rows == here:
                return counts | {"state": EQUAL}
            # Counts of a table that did not change between them are counts of the same rows.
            stood_still = self._has_stood_still(since)
            if stood_still or not SilverRows(self.source.spark, self.silver, self.layout).any_since(since):
                return counts | {"state": DIFFERS, "missing": max(rows - here, 0), "extra": max(here - rows, 0)}
            if not tries_left:
                return counts | {"state": CHANGING, "changing": abs(rows - here)}
            since = now
        raise AssertionError
