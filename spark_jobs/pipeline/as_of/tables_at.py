"""Tables of a source as of a location of its log: which ones, at which position, and why one is not known.

Put here: the question, and its answer while a temporary folder lasts. Not here: the states that the lake has
(bases.py), the work (replayed.py), or rows (table_rows.py).
"""

import tempfile
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path

import pyarrow as pa

from spark_jobs.binlog import TableDefinition, TableName
from spark_jobs.bronze.boundaries import transaction_at
from spark_jobs.bronze.derived_slices import CascadesCommit
from spark_jobs.bronze.seek import LogSeeker
from spark_jobs.bronze.table import BronzeSnapshot
from spark_jobs.config.filters import TableFilters
from spark_jobs.config.model import Pipeline
from spark_jobs.config.table_patterns import Pattern
from spark_jobs.delta.snapshot import new_table, snapshot_of
from spark_jobs.downstream import publication
from spark_jobs.downstream.commit import DownstreamCommit
from spark_jobs.downstream.merge_job import ADDED
from spark_jobs.errors import ConfigError, LakeError
from spark_jobs.lake.layout import Lake, lake_of
from spark_jobs.log.position import FIRST_EVENT, Position
from spark_jobs.pipeline.as_of.bases import Base, SilverVersions, merged_version
from spark_jobs.pipeline.as_of.replayed import CompactedTable, Replay
from spark_jobs.pipeline.as_of.scratch import ScratchLake
from spark_jobs.pipeline.as_of.table_rows import RowQuery, TableAt, located, read_hit, wanted_keys
from spark_jobs.pipeline.destinations import destinations_of
from spark_jobs.pipeline.table_choice import tables_in_scope, wrong_tables
from spark_jobs.schema import history
from spark_jobs.silver import table as silver
from spark_jobs.silver.commit import SilverCommit
from spark_jobs.silver.masking import columns_seen
from spark_jobs.silver.planning_context import PlanningContext, filters_of
from spark_jobs.silver.rename_lineage import RenameLineage
from spark_jobs.silver.table_timeline import TableState


class NotKnown(LakeError):
    """The rows of a table at a position cannot be told from what the lake has."""


@dataclass(frozen=True, slots=True)
class SourceAt:
    """Tables of one source at one position.

    Attributes:
        at: where the last transaction ends that counts.
        tables: by name, those that were there.
        absent: those that are not known at the position, and why.
    """

    at: Position
    tables: tuple[TableAt, ...]
    absent: Mapping[TableName, str] = field(default_factory=dict)


@contextmanager
def tables_at(
    pipeline: Pipeline,
    source: str,
    tables: Sequence[str],
    location: str | Position,
    *,
    choice: RowQuery | None = None,
    is_raw: bool = False,
) -> Iterator[SourceAt]:
    """Tables as they were at a location, to be read inside the ``with`` block. Starts no JVM.

    Args:
        pipeline: the configuration.
        source: whose log the location is in.
        tables: names and patterns, as ``shop.orders`` or ``shop.*``.
        location: a position, a GTID set or a time; inside a transaction it is where that begins.
        choice: which rows are asked for; all without it.
        is_raw: whether rows are as the source had them, without the rules of the configuration.

    Raises:
        ConfigError: a location or a table that is none.
        SourceError: a location that the stored log does not have.
        LakeError: NotKnown for a table that is asked for by its name, where it was not there then, or the lake cannot
            tell its rows.
    """
    lake = lake_of(pipeline)
    snapshot = BronzeSnapshot.of(lake, source)
    names = _chosen_tables(pipeline, source, tables)
    at = position_of(snapshot, location)
    if is_raw:
        pipeline = pipeline.model_copy(update={"event_rules": {}, "row_rules": {}, "column_rules": {}})
    # A table that a pattern names may be absent; one that is named, or all of them, may not.
    with tempfile.TemporaryDirectory(prefix="stratalog-at-") as folder:
        scratch = ScratchLake(lake, Path(folder), names)
        query = _TablesQuery(pipeline, lake, snapshot, at, choice or RowQuery(), is_raw=is_raw)
        source_at = query.answered(scratch, names)
        exact = {text.strip() for text in tables}
        for name, reason in source_at.absent.items():
            if str(name) in exact or not source_at.tables:
                raise NotKnown(
                    f"{source}: {reason}; name a position at which {name} can be shown (stratalog docs howto/as-it-was)"
                )
        yield source_at


def position_of(snapshot: BronzeSnapshot, location: str | Position) -> Position:
    """The transaction boundary at a location, or before it. Raises ConfigError, SourceError, LakeError."""
    at = LogSeeker(snapshot).position(location)
    if at > snapshot.end:
        raise LakeError(
            f"{snapshot.source}: {at} is after the end of the log in bronze, {snapshot.end}; name an "
            "earlier position, or execute stratalog run first"
        )
    begin = transaction_at(snapshot.table, snapshot.version, at) or at
    return max(begin, replace(begin, offset=FIRST_EVENT)) if at.offset >= FIRST_EVENT else at


def _chosen_tables(pipeline: Pipeline, source: str, tables: Sequence[str]) -> list[TableName]:
    """The tables that are asked for. Raises ConfigError where a pattern or a name matches none."""
    listed = tables_in_scope(pipeline, source)
    if problems := wrong_tables(source, tables, listed):
        raise ConfigError(problems)
    patterns = [Pattern.parse(text) for text in tables]
    return sorted(name for name in listed if any(pattern.matches(name.schema, name.table) for pattern in patterns))


def _is_there(commit: SilverCommit | None) -> bool:
    """True if a table exists by silver's newest commit."""
    return commit is not None and not commit.is_dropped and commit.definition is not None


@dataclass(frozen=True, slots=True)
class _TablesQuery:
    """A query for tables at a position, and the lake that answers it."""

    pipeline: Pipeline
    lake: Lake
    snapshot: BronzeSnapshot
    at: Position
    choice: RowQuery
    is_raw: bool

    @property
    def source(self) -> str:
        return self.snapshot.source

    def answered(self, scratch: ScratchLake, names: Sequence[TableName]) -> SourceAt:
        """The tables, compacted and merged in a scratch lake."""
        absent = dict(self._underived(names))
        bases = {name: self._base(name) for name in names if name not in absent}
        if not bases:
            return SourceAt(self.at, (), absent)
        # Tables without any row have no silver to merge.
        for name, base in bases.items():
            if base:
                scratch.copy_silver(name, base.snapshot)
        replay = Replay(self.pipeline, scratch, self.snapshot, self.at)
        with_rows: list[CompactedTable] = []
        tables: list[TableAt] = []
        for table in replay.compacted(bases):
            if not isinstance(table, CompactedTable):
                absent[table[0]] = self._not_known(table[0], table[1])
            elif reason := self._reason_without_rows(table):
                absent[table.name] = reason
            elif table.head is None or not _is_there(SilverCommit.of_head(table.head)):
                tables.append(self._empty(scratch, table.name))
            else:
                with_rows.append(table)
        for table in with_rows:
            self._copy_merged(scratch, table, bases[table.name])
        replay.merge(with_rows)
        tables += [self._table_at(scratch, table) for table in with_rows]
        return SourceAt(self.at, tuple(sorted(tables, key=lambda table: table.name)), absent)

    def _underived(self, names: Sequence[TableName]) -> Iterator[tuple[TableName, str]]:
        """Child tables of which it is not known yet what foreign keys did to their rows, and up to where it is."""
        commit = CascadesCommit.of_head(self.lake.cascades(self.source).head())
        if commit is None:
            return
        compacted = {entry.name: entry.checkpoint for entry in publication.read(self.lake, self.source)}
        for name in names:
            if text := commit.positions.get(str(name)):
                known = max(Position.parse(text), compacted.get((name.schema, name.table)) or Position.parse(text))
                if self.at > known:
                    reason = f"what foreign keys did to its rows is derived up to {known}; execute stratalog run first"
                    yield name, self._not_known(name, reason)

    def _empty(self, scratch: ScratchLake, name: TableName) -> TableAt:
        """A table that has had no row yet at the position, with the columns that statements gave it."""
        definition = self._defined(name)
        assert definition
        columns = columns_seen(definition, self._filters(name).columns)
        return self._without_rows(scratch, name, definition, columns)

    def _defined(self, name: TableName) -> TableDefinition | None:
        """Definition by the log of a table that has no row in it up to the position; None where there was none then."""
        context = PlanningContext.of(self.pipeline, self.lake, self.snapshot)
        if RenameLineage(context).created_at(name, self.at) is None:
            return None
        version = history.read(self.lake, self.source).at(self.at).get(name)
        if version is None or version.definition is None or version.is_dropped:
            return None
        # No row has been identified yet: where no statement tells the key, there is none to be identified by it.
        return replace(version.definition, key=version.definition.key or ())

    def _filters(self, name: TableName) -> TableFilters:
        return filters_of(self.pipeline.filters, self.source, name)

    def _versions(self, name: TableName) -> SilverVersions:
        return SilverVersions.of(self.lake.silver(self.source, name.schema, name.table))

    def _base(self, name: TableName) -> Base | None:
        return self._versions(name).base(self.at, self._filters(name), self.snapshot.complete_from, is_raw=self.is_raw)

    def _reason_without_rows(self, table: CompactedTable) -> str | None:
        """Reason why a table has no rows to be told; None where it has."""
        commit = SilverCommit.of_head(table.head)
        if commit and _is_there(commit):
            is_complete = TableState.of(commit).is_complete
            return None if is_complete else self._not_known(table.name, "rows from before the log are missing")
        # A table that was created, or created again, has no commit of silver before it has a row.
        if self._defined(table.name):
            return None
        if commit:
            return f"{table.name} was not there at {self.at}: it had been dropped or renamed"
        if self._versions(table.name).began_in_log:
            return f"{table.name} was not there at {self.at}: it was created later"
        return self._not_known(table.name, "neither a row nor a CREATE of it lies before that in the log of bronze")

    def _not_known(self, name: TableName, reason: str) -> str:
        oldest = self._versions(name).oldest(self._filters(name), self.snapshot.complete_from, is_raw=self.is_raw)
        reason = reason.removeprefix(f"{self.source}: ").removeprefix(f"{name}: ")
        hint = f"the oldest position at which it is known is {oldest}" if oldest else "it is known at no position"
        return f"{name} at {self.at} is not known: {reason}; {hint}"

    def _copy_merged(self, scratch: ScratchLake, table: CompactedTable, base: Base | None) -> None:
        """Let the current rows begin with those of downstream, where it has them; with none else."""
        into = destinations_of(self.pipeline, self.source, table.name)
        if base is None or len(into) != 1 or into[0].is_merged or self.is_raw:
            return
        version = merged_version(self.lake.downstream(*into[0].name), base)
        if version is None:
            return
        # Rows of other keys are not needed, as far as keys are compared alike on both sides of the log in between.
        key = SilverCommit.of_head(table.head)
        if not (self.choice.keys and table.has_one_shape and key and key.key):
            scratch.copy_merged(table.name, version)
            return
        keys = wanted_keys(self.choice.keys, version.schema, key.key, str(table.name))
        names = version.schema.names
        rows = [read_hit(version, hit, names) for hit in located(version, keys)]
        no_rows = pa.schema([column.arrow(physical=False) for column in version.schema.columns]).empty_table()
        scratch.put_merged(table.name, version, pa.concat_tables([no_rows, *rows]))

    def _table_at(self, scratch: ScratchLake, table: CompactedTable) -> TableAt:
        # A merge of nothing makes no table: silver has the columns.
        commit = SilverCommit.of_head(table.head)
        assert commit
        assert commit.definition
        merged = scratch.merged(table.name)
        snapshot = snapshot_of(merged.path)
        if snapshot is None:
            origin = scratch.silver(self.source, table.name.schema, table.name.table)
            assert table.head
            columns = silver.stored_columns(origin, table.head)
            return self._without_rows(scratch, table.name, commit.definition, columns)
        never_whole = DownstreamCommit.of_head(merged.head())
        rule = self._filters(table.name).columns
        return TableAt(
            table.name,
            self.at,
            commit.key or (),
            commit.definition,
            snapshot,
            self.choice,
            rule,
            never_whole.keys_never_whole if never_whole else 0,
        )

    def _without_rows(
        self, scratch: ScratchLake, name: TableName, definition: TableDefinition, columns: silver.Columns
    ) -> TableAt:
        target = scratch.merged(name)
        snapshot = new_table(target.path, columns.types | ADDED, silver.properties(target))
        return TableAt(name, self.at, columns.key, definition, snapshot, self.choice, self._filters(name).columns)
