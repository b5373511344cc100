"""Publication (the lake's ``published`` table): which Delta version of which table holds which position.

Put here: its rows and how a source's are written. Not here: who decides what has happened to a table.

One commit a run and source. A reader opens a consistent set of tables by it (``consistent``), and a run learns from it
up to where it has looked at bronze already: every table that bronze has shown before ``surveyed`` has a row here, in
scope or not. The source has a row of its own, without a table: which version of bronze holds the position.
"""

from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass, fields, replace
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from spark_jobs.config.modes import Mode
from spark_jobs.downstream.commit import PublishedCommit
from spark_jobs.downstream.multi_source import view
from spark_jobs.errors import LakeError, LostRace
from spark_jobs.lake.commit import Checkpoint, new_batch
from spark_jobs.lake.driver_commit import Cells
from spark_jobs.lake.layout import Lake, downstream_name
from spark_jobs.lake.retry import retry_on_conflict
from spark_jobs.lake.table import Table
from spark_jobs.log.position import Position

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

RESET = "reset"
"""State of a table that the next run does over."""


@dataclass(frozen=True, slots=True)
class Target:
    """One downstream table of a source table: up to where it is merged there, and which version holds that.

    reason: why it stopped there, while other targets of the table may continue. keys_never_whole: as the Entry has it.
    """

    path: str
    merged: str | None = None
    version: int | None = None
    reason: str | None = None
    keys_never_whole: int | None = None
    mode: str = Mode.MIRROR.value

    @property
    def name(self) -> tuple[str, str]:
        return downstream_name(self.path)


@dataclass(frozen=True, slots=True)
class Entry:
    """One source table. ``position`` is up to where it is compacted, ``merged`` up to where it is merged downstream.

    Of a table that goes to several downstream tables ``downstream`` and its version are the first one's, ``merged`` is
    the least of all, and ``targets`` names each.
    """

    source: str
    schema: str
    table: str
    state: str
    """``current``, ``stopped``, ``ignored`` (out of scope) or ``reset`` (the next run rebuilds it from bronze)."""
    reason: str | None = None
    position: str | None = None
    silver_version: int | None = None
    merged: str | None = None
    downstream: str | None = None
    downstream_version: int | None = None
    committed_at: datetime | None = None
    """Commit time of the newest change that was compacted."""
    surveyed: str | None = None
    """Position up to which the run that wrote the row had looked at the source's bronze."""
    published_at: datetime | None = None
    bronze_version: int | None = None
    """Version of bronze in the source's own row, whose ``schema`` and ``table`` are null. In the row of a table that
    was reset, without consent to lose rows, the version that this was planned with: bronze is to begin there still when
    it is rebuilt."""
    complete: bool | None = None
    """True if the table has the rows from before the log begins, if there were any; null where it has no row at all."""
    keys_never_whole: int | None = None
    """Keys that downstream lacks because no row image of theirs was whole; null where there is none."""
    resets: int | None = None
    """Number of times that the table was reset: a position of before it counts no more, nor does a run that read it."""
    numbered: bool | None = None
    """True where nothing names its columns, and they are called by their numbers; null otherwise."""
    targets: tuple[Target, ...] = ()
    """Downstream tables of a table that goes to several; null in the table where it goes to one."""
    modes: tuple[str, ...] = ()
    """Modes of its downstream tables, in their order; null where all are mirrors."""

    @property
    def name(self) -> tuple[str, str]:
        return self.schema, self.table

    @property
    def checkpoint(self) -> Position | None:
        return Position.parse(self.position) if self.position else None

    @property
    def is_reset(self) -> bool:
        """True if the table was reset, and no run has done it over to the log's end since."""
        return bool(self.resets) and self.position is None

    @property
    def into(self) -> tuple[Target, ...]:
        """The downstream tables of the entry; none if nothing was merged yet."""
        if self.targets or self.downstream is None:
            return self.targets
        mode = self.modes[0] if self.modes else Mode.MIRROR.value
        return (Target(self.downstream, self.merged, self.downstream_version, None, self.keys_never_whole, mode),)

    def reached(self, name: tuple[str, str]) -> str | None:
        """The position up to which the table is merged into one of its downstream tables; None if nothing is there."""
        if not self.targets:
            return self.merged
        return next((target.merged for target in self.targets if target.name == name), None)

    def is_stopped_in(self, name: tuple[str, str]) -> bool:
        """True if a downstream table of its own does not continue; where nothing says which does not, none does."""
        failing = {target.name for target in self.targets if target.reason}
        return self.state == "stopped" and (not failing or name in failing)

    def with_targets(self, targets: Sequence[Target]) -> "Entry":
        """The entry as it is where the table goes to these downstream tables, one at least."""
        first, reached = targets[0], [Position.parse(target.merged) for target in targets if target.merged]
        lacking = [target.keys_never_whole for target in targets if target.keys_never_whole]
        modes = tuple(target.mode for target in targets)
        return replace(
            self,
            merged=str(min(reached)) if len(reached) == len(targets) else None,
            downstream=first.path,
            downstream_version=first.version,
            keys_never_whole=max(lacking, default=None),
            targets=tuple(targets) if len(targets) > 1 else (),
            modes=modes if {*modes} != {Mode.MIRROR} else (),
        )

    def holds(self, position: str) -> bool:
        """True if both layers have all of the table up to a position; downstream has none where silver has none."""
        merged = self.silver_version is None or self.merged == self.position
        return self.state == "current" and self.position == position and merged


_TARGETS = {"path": "STRING", "merged": "STRING", "version": "BIGINT", "reason": "STRING", "keys_never_whole": "BIGINT"}
_SPARK: dict[object, str] = {
    int | None: "BIGINT",
    datetime | None: "TIMESTAMP",
    bool | None: "BOOLEAN",
    tuple[str, ...]: "ARRAY<STRING>",
    tuple[Target, ...]: f"ARRAY<STRUCT<{', '.join(f'{name}: {kind}' for name, kind in _TARGETS.items())}>>",
}
_ARROW: dict[object, pa.DataType] = {
    int | None: pa.int64(),
    datetime | None: pa.timestamp("us", "UTC"),
    bool | None: pa.bool_(),
    tuple[str, ...]: pa.list_(pa.string()),
    tuple[Target, ...]: pa.list_(
        pa.struct([(name, pa.int64() if kind == "BIGINT" else pa.string()) for name, kind in _TARGETS.items()])
    ),
}
COLUMNS = {field.name: _SPARK.get(field.type, "STRING") for field in fields(Entry)}
_SCHEMA = pa.schema([(field.name, _ARROW.get(field.type, pa.string())) for field in fields(Entry)])


def read(lake: Lake, source: str) -> list[Entry]:
    """The rows of the source's tables, without a JVM; none where nothing was published yet."""
    return [entry for entry in _stored(lake, source) if entry.table]


def versions(lake: Lake) -> dict[str, int]:
    """Oldest published version of each downstream table, by path, of whatever source."""
    lowest: dict[str, int] = {}
    for target in (target for row in lake.published().rows() for target in _entry(row).into):
        if target.version is not None:
            lowest[target.path] = min(target.version, lowest.get(target.path, target.version))
    return lowest


def surveyed_to(lake: Lake, source: str) -> Position | None:
    """The position up to which the source's bronze was looked at; None if nothing was published yet."""
    return current(lake, source)[1]


def current(lake: Lake, source: str) -> tuple[list[Entry], Position | None]:
    """The results of ``read`` and ``surveyed_to`` of one version."""
    stored = _stored(lake, source)
    positions = [Position.parse(entry.surveyed) for entry in stored if entry.surveyed]
    return [entry for entry in stored if entry.table], max(positions, default=None)


def _stored(lake: Lake, source: str) -> list[Entry]:
    return [_entry(row) for row in lake.published().rows([("source", "=", source)])]


def _entry(row: dict[str, Any]) -> Entry:
    modes = tuple(row.get("modes") or ())
    stored: list[dict[str, Any]] = row.get("targets") or []
    target_modes = modes or (Mode.MIRROR.value,) * len(stored)
    targets = tuple(Target(**cells, mode=mode) for cells, mode in zip(stored, target_modes, strict=False))
    return Entry(**row | {"targets": targets, "modes": modes})


def _entry_row(entry: Entry) -> dict[str, object]:
    targets = [{name: getattr(target, name) for name in _TARGETS} for target in entry.targets]
    return asdict(entry) | {"targets": targets or None, "modes": list(entry.modes) or None}


def write(
    lake: Lake, source: str, entries: Sequence[Entry], position: Position, *, found: Sequence[Entry] = ()
) -> None:
    """Replace the source's rows, its own among them, in one commit.

    found: the rows that the run began with. A table that was reset since stays so, and one that another run has
    published further since keeps that row. Raises LostRace where another run of the source has published a later
    position, and where other sources keep winning.
    """
    before = {entry.name: entry for entry in found}

    def rows() -> list[dict[str, object]]:
        stored, published_to = current(lake, source)
        _require_no_further(lake, source, position, published_to)
        now = {entry.name: entry for entry in stored}
        written = [_newer(entry, now.get(entry.name), before.get(entry.name)) for entry in entries]
        return [*map(_entry_row, written), _row_of_source(lake, source, position)]

    _put(lake, {"source": source}, rows, PublishedCommit(position, new_batch(), source=source))


def _newer(entry: Entry, stored: Entry | None, found: Entry | None) -> Entry:
    """The row of a table after a run: its own one, or what was published since it found the table."""
    if stored is None:
        return entry
    if _is_reset_since(entry, stored):
        return stored
    return replace(stored, surveyed=entry.surveyed) if _is_published_further(entry, stored, found) else entry


def _is_reset_since(entry: Entry, stored: Entry) -> bool:
    return (stored.resets or 0) > (entry.resets or 0)


def _is_published_further(entry: Entry, stored: Entry, found: Entry | None) -> bool:
    """True if another run has published the table since, with more of the log than this run could merge.

    Such a run finds versions with log after its own position, which it may not publish.
    """
    if found is not None and stored == replace(found, published_at=stored.published_at, surveyed=stored.surveyed):
        return False
    pairs = ((target.merged, entry.reached(target.name)) for target in stored.into)
    return any(now and (not merged or Position.parse(now) > Position.parse(merged)) for now, merged in pairs)


def overwrite(lake: Lake, source: str, change: Callable[[Entry], Entry]) -> None:
    """Change the current rows of a source's tables in one commit.

    Nothing is written where that is what they are. Raises LostRace where other writers keep winning.
    """
    entries, position = current(lake, source)
    if position is None or [*map(change, entries)] == entries:
        return

    def rows() -> list[dict[str, object]]:
        stored, now = current(lake, source)
        return [*(_entry_row(change(entry)) for entry in stored), _row_of_source(lake, source, now or position)]

    _put(lake, {"source": source}, rows, PublishedCommit(position, new_batch(), source=source))


def amend(lake: Lake, entry: Entry, change: Callable[[Entry], Entry]) -> Entry:
    """Change the current row of a table in one commit, and return it.

    Raises LostRace where other writers keep winning, and what ``change`` raises.
    """
    entries: list[Entry] = []

    def rows() -> list[dict[str, object]]:
        now = next(
            (stored_entry for stored_entry in read(lake, entry.source) if stored_entry.name == entry.name), entry
        )
        entries.append(replace(change(now), published_at=datetime.now(UTC)))
        return [_entry_row(entries[-1])]

    position = surveyed_to(lake, entry.source)
    assert position is not None
    cells = {"source": entry.source, "schema": entry.schema, "table": entry.table}
    _put(lake, cells, rows, PublishedCommit(position, new_batch(), source=entry.source))
    return entries[-1]


def _put(lake: Lake, cells: Cells, rows: Callable[[], list[dict[str, object]]], checkpoint: Checkpoint) -> None:
    """Replace rows by what is asked for again upon each head."""
    table = lake.published()

    def put() -> None:
        head = table.head() or table.unwritten_head(COLUMNS, {})
        # A table of an earlier version may lack columns.
        table.replace_rows(pa.Table.from_pylist(rows(), schema=_SCHEMA), cells, head, checkpoint, columns=COLUMNS)

    retry_on_conflict(put)  # another source may publish meanwhile; its rows are not ours


def _require_no_further(lake: Lake, source: str, position: Position, published_to: Position | None) -> None:
    """A run that slept while another went on must not set back what is published."""
    bronze_head = lake.bronze(source).head()
    if (
        published_to
        and published_to > position
        and bronze_head
        and bronze_head.position
        and bronze_head.position >= published_to
    ):
        raise LostRace(
            f"{source}: this run has processed the log up to {position}, and another writer up to {published_to}"
        )


def _row_of_source(lake: Lake, source: str, position: Position) -> dict[str, object]:
    fields = {"source": source, "state": "current", "position": str(position), "surveyed": str(position)}
    bronze = lake.bronze(source)
    head = bronze.head()
    newest = (head.version - 1, -1) if head else ()  # most often it is the last commit; each one is a file that is read
    commits = (pair for since in newest for pair in bronze.since(since))
    holding = (version for version, checkpoint in commits if checkpoint.position == position)
    return fields | {"bronze_version": next(holding, None), "published_at": datetime.now(UTC)}


@dataclass(frozen=True, slots=True)
class PublishedTable:
    """A source table in a consistent set: its row here, and its downstream rows at the version named there.

    Of a downstream table of several source tables these are its own.
    """

    entry: Entry
    rows: "DataFrame | None"
    """None where nothing of it was merged yet; the first downstream table's where it goes to several."""
    targets: dict[tuple[str, str], "DataFrame"]
    """The source table's rows in each of its downstream tables, by the names of these."""


@dataclass(frozen=True, slots=True)
class Consistent:
    """A source's tables in scope as one run left them, by (schema, table); those not ``behind`` hold ``position``."""

    source: str
    position: Position
    tables: dict[tuple[str, str], PublishedTable]

    @property
    def behind(self) -> dict[tuple[str, str], Entry]:
        """The tables that hold less: ``merged`` says how far they are, and ``reason`` why those stopped that did."""
        return {name: table.entry for name, table in self.tables.items() if not table.entry.holds(str(self.position))}


def consistent(spark: "SparkSession", lake: Lake, source: str) -> Consistent:
    """The tables of a source in scope, each at the version that was published with the others.

    The rows stay those of these versions while later runs continue, as long as maintenance keeps the versions
    (``retention.versions``). Raises LakeError where nothing was published yet.
    """
    stored = _stored(lake, source)
    position = max((Position.parse(entry.surveyed) for entry in stored if entry.surveyed), default=None)
    if position is None:
        raise LakeError(f"{source}: nothing was published yet; stratalog run publishes what it leaves")
    tables = {entry.name: _opened_table(spark, entry) for entry in stored if _is_kept(entry)}
    return Consistent(source, position, tables)


def _is_kept(entry: Entry) -> bool:
    return bool(entry.table) and entry.state != "ignored"


def _opened_table(spark: "SparkSession", entry: Entry) -> PublishedTable:
    owner = (entry.source, entry.schema, entry.table)
    frames = {
        target.name: view(Table(target.path, plain=False), owner).read(spark, target.version)
        for target in entry.into
        if target.version is not None
    }
    first = next((target.name for target in entry.into if target.path == entry.downstream), None)
    return PublishedTable(entry, frames.get(first) if first else None, frames)
