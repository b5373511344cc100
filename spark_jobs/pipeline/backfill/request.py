"""Request of a backfill, and the callbacks about each table.

Put here: the request and what is wrong with it, the layers, the result of one table. Not here: who asks
(spark_jobs/cli, assets/backfill.py), or the work (run.py).
"""

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from spark_jobs.binlog import TableName
from spark_jobs.config.model import Pipeline
from spark_jobs.config.table_patterns import Pattern
from spark_jobs.errors import ConfigError
from spark_jobs.log.location import EARLIEST, LATEST, require_locations
from spark_jobs.log.position import Position, Range
from spark_jobs.pipeline.restore import Fetched, resolve_range
from spark_jobs.pipeline.table_choice import tables_in_scope, wrong_tables
from spark_jobs.silver.compaction_job import Compacted

Layer = Literal["silver", "downstream"]


SILVER: Layer = "silver"


DOWNSTREAM: Layer = "downstream"


LAYERS: tuple[Layer, ...] = (SILVER, DOWNSTREAM)
"""``silver``: windows are decoded again, and replaced where they differ. ``downstream``: what was replaced is merged;
without ``silver``, the keys of the windows are merged again from silver as it is."""


@dataclass(frozen=True, slots=True)
class BackfillRequest:
    """Range to replay: [start, stop) of a source's log, as locations; no tables means all of them.

    start, stop: also ``earliest`` and ``latest``, the ends of the log that bronze holds.

    archive: a folder with copies of files that bronze may lack, instead of the one that the configuration names.
    """

    source: str
    start: str | Position
    stop: str | Position
    tables: tuple[str, ...] = ()
    layers: tuple[Layer, ...] = LAYERS
    archive: Path | None = None

    def require_range(self) -> None:
        """Check the ends of the range without a configuration. Raises ConfigError."""
        require_locations(*(None if text in (EARLIEST, LATEST) else text for text in self._end_texts))

    @property
    def _end_texts(self) -> list[str]:
        return [str(location) for location in (self.start, self.stop)]

    def require_valid(self, pipeline: Pipeline) -> None:
        """Check a request without Spark. Raises ConfigError with all that is wrong, LakeError for no bronze."""
        # Everything that is wrong is named at once, by its key.
        problems: dict[str, str] = {}
        problems |= {
            key: "missing" for key, text in zip(("from", "to"), self._end_texts, strict=True) if not text.strip()
        }
        try:
            self.require_range()
        except ConfigError as error:
            problems |= error.problems
        problems |= self._wrong_layers()
        if self.archive and not self.archive.is_dir():
            problems["archive"] = f"{self.archive} is no folder"
        if self.source not in pipeline.sources:
            problems["source"] = f"no source {self.source!r}; there are {', '.join(pipeline.sources)}"
        else:
            problems |= wrong_tables(self.source, self.tables, tables_in_scope(pipeline, self.source))
        if problems:
            raise ConfigError(problems)

    def _wrong_layers(self) -> dict[str, str]:
        unknown = [repr(layer) for layer in self.layers if layer not in LAYERS]
        if unknown or not self.layers:
            return {"layers": f"{', '.join(unknown) or 'none'}: choose among {', '.join(LAYERS)}"}
        return {}

    def wants(self, name: TableName) -> bool:
        """True if a table is to be replayed."""
        patterns = map(Pattern.parse, self.tables)
        return not self.tables or any(pattern.matches(name.schema, name.table) for pattern in patterns)

    def range(self, pipeline: Pipeline) -> Range:
        """Range of the locations in the log, also before bronze. Raises SourceError, ConfigError, LakeError."""
        return resolve_range(pipeline, self.source, self.start, self.stop, archive=self.archive)

    def options(self, on_table: "OnTable", on_fetched: "OnFetched") -> "BackfillOptions":
        """Options with the calls for each table, and for log that is fetched into bronze."""
        return BackfillOptions(self.layers, on_table, on_fetched, self.archive)


@dataclass(frozen=True, slots=True)
class RowDifference:
    """Rows of some windows by what the log says now, beside those that silver holds.

    new: those that silver did not have so. removed: those of silver that are not among them. A changed row is both.
    """

    rows: int = 0
    new: int = 0
    removed: int = 0

    @property
    def is_nonempty(self) -> bool:
        return bool(self.new or self.removed)

    def __str__(self) -> str:
        return f"{self.new:,} new, {self.removed:,} gone" if self.is_nonempty else "nothing differs"


@dataclass(frozen=True, slots=True)
class ReplayedTable:
    """Result for one table: its windows in the range, what differed in them, and what was replaced if anything did.

    difference: None where silver was left alone.
    """

    name: TableName
    windows: tuple[Range, ...] = ()
    difference: RowDifference | None = None
    compacted: Compacted | None = None
    seconds: float = 0.0

    def __str__(self) -> str:
        if not self.windows:
            return f"{self.name}: has no window in the range"
        windows = f"{self.name}: windows: {len(self.windows)}"
        if self.difference is None:
            return f"{windows}, merged again as they are"
        return f"{windows}, rows: {self.difference.rows:,}, {self.difference} ({self.seconds:.1f} s)"


OnTable = Callable[[ReplayedTable, int, int], None]
"""Callback for each table: what became of it, its number, and of how many."""


OnFetched = Callable[[Fetched], None]
"""Callback for log that bronze lacked and has now."""


def without_report(_: ReplayedTable, __: int, ___: int) -> None:
    return None


def without_notice(_: Fetched) -> None:
    return None


@dataclass(frozen=True, slots=True)
class BackfillOptions:
    """Options of a replay: through which layers, and what is called for each table and for log that was fetched.

    archive: a folder with copies of files that bronze may lack, instead of the one that the configuration names.
    """

    layers: tuple[Layer, ...] = LAYERS
    on_table: OnTable = without_report
    on_fetched: OnFetched = without_notice
    archive: Path | None = None


DEFAULTS = BackfillOptions()
"""Options for both layers, without calls."""
