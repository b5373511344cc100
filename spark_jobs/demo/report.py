"""Report of a demo on standard output when it is done.

Put here: the report's words and columns. Not here: how its numbers came about.
"""

import shutil
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from spark_jobs.binlog import TableName
from spark_jobs.config.project_files import with_webserver
from spark_jobs.demo.compare import DemoComparison
from spark_jobs.demo.export_check import ExportedFiles
from spark_jobs.demo.folder import SOURCE, DemoFolder
from spark_jobs.demo.gtid_check import BronzeGtids
from spark_jobs.demo.run_totals import RunTotals

_WORKSPACE = Path(__file__).parents[2] / "workspace.yaml"
"""Workspace file of a clone, which has `make dev`; an installed package has none."""

_SILVER_ROWS = (
    "silver: one row per key and run; a change of a row's key makes two, so that there may be more rows than changes"
)


@dataclass(frozen=True, slots=True)
class DemoReport:
    """``story`` says in a line what was done; ``reference`` who has said what the rows should be."""

    story: str
    reference: str
    folder: DemoFolder
    totals: RunTotals
    compared: Mapping[TableName, DemoComparison]
    log: ExportedFiles | BronzeGtids
    """Bronze beside the log that it was read from."""
    rates: bool = True
    """True if there was enough to do for a rate to say anything."""
    hints: Sequence[tuple[str, str]] = ()
    """Further commands, each with what it shows."""

    @property
    def equal(self) -> bool:
        """True if every row, every column and every byte of the log is what it should be."""
        tables = self.compared.values()
        return not self.totals.stopped and all(table.is_equal for table in tables) and not self.log.differences

    def text(self) -> str:
        parts = [[self.story], self._log(), self._layers(), self._table_lines(), self._verdict(), self._look()]
        return "\n\n".join("\n".join(part) for part in parts)

    def _log(self) -> list[str]:
        total = self.totals
        return aligned(
            [
                ("positions", f"{total.ranges[0].start} to {total.ranges[-1].stop}, in {total.runs} runs"),
                *((f"  run {n}", str(log_range)) for n, log_range in enumerate(total.ranges, 1)),
            ],
        )

    def _layers(self) -> list[str]:
        total = self.totals
        changes, net = total.changes.total(), total.net.total()
        rows = [
            ("bronze", f"{total.bytes:,} bytes of log, {total.transactions:,} transactions", total.bytes, "bytes"),
            ("silver", f"{changes:,} changes decoded, {net:,} rows: one per key and run", changes, "changes"),
            ("downstream", f"{total.merged:,} rows merged", total.merged, "rows"),
        ]
        timed = [self._timed(*row) for row in rows]
        return aligned([("layer", "processed", "seconds", "a second")[: len(timed[0])], *timed], right=(2, 3))

    def _timed(self, layer: str, took: str, count: int, unit: str) -> tuple[str, ...]:
        measured_seconds = self.totals.seconds[layer]
        plain = (layer, took, f"{measured_seconds:.1f}")
        return (*plain, f"{count / max(measured_seconds, 1e-9):,.0f} {unit}") if self.rates else plain

    def _table_lines(self) -> list[str]:
        total = self.totals
        head = ("table", "changes", "silver", "downstream", "equal", "missing", "extra", "different")
        rows = [
            (str(name), *(f"{count:,}" for count in (total.changes[name], total.net[name], *_counts(comparison))))
            for name, comparison in self.compared.items()
        ]
        return [*aligned([head, *rows], right=range(1, len(head))), _SILVER_ROWS]

    def _verdict(self) -> list[str]:
        rows = sum(comparison.rows for comparison in self.compared.values())
        differing = [str(name) for name, comparison in self.compared.items() if not comparison.is_equal]
        lines = [f"{name}: {line}" for name, comparison in self.compared.items() for line in comparison.samples]
        lines += [f"stopped: {reason}" for reason in self.totals.stopped.values()]
        if differing:
            lines.append(f"NOT EQUAL to {self.reference}: {', '.join(differing)}")
        else:
            lines.append(f"equal: {rows:,} rows in {len(self.compared)} tables, every column, to {self.reference}")
        differences, compared = self.log.differences, self.log.text
        unequal = f"NOT EQUAL: {compared}: {', '.join(differences)}"
        lines.append(unequal if differences else f"equal: {compared}, to the server's own")
        return lines

    def _look(self) -> list[str]:
        command, config = command_name(), self.folder.config
        orders = self.folder.lake / "downstream" / SOURCE / "orders"
        rows = [
            ("the lake", str(self.folder.lake)),
            ("its status", f"{command} status -c {config}"),
            ("its changes", f"{command} changes -c {config} --source {SOURCE} --table {SOURCE}.orders | head"),
            ("its tables", f"spark.read.format('delta').load('{orders}').show()"),
            *self.hints,
            ("Dagster's UI", self._dagster()),
        ]
        return aligned(rows)

    def _dagster(self) -> str:
        if _WORKSPACE.exists() and Path.cwd() == _WORKSPACE.parent:
            return "make dev" if self.folder.path == Path("demo") else f"make dev DEMO={self.folder.path}"
        config, home = self.folder.config.absolute(), self.folder.dagster.absolute()
        return with_webserver(f"STRATALOG_CONFIG={config} DAGSTER_HOME={home} dagster dev -m stratalog.definitions")


def _counts(comparison: DemoComparison) -> tuple[int, ...]:
    lake_rows = comparison.equal + comparison.different + comparison.extra
    return lake_rows, comparison.equal, comparison.missing, comparison.extra, comparison.different


def command_name() -> str:
    """`stratalog` as it can be typed again: by the path that it was started by, unless the shell finds it."""
    started = Path(sys.argv[0])
    if started.name != "stratalog":
        return "stratalog"
    command = shutil.which("stratalog")
    if command and Path(command).resolve() == started.resolve():
        return "stratalog"
    here = Path.cwd()
    return str(started.relative_to(here)) if started.is_relative_to(here) else str(started)


def aligned(rows: Sequence[Sequence[str]], right: Sequence[int] = ()) -> list[str]:
    """Lines whose columns stand below one another with two spaces between; those of ``right`` end at one position."""
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    lines = []
    for row in rows:
        cells = [c.rjust(w) if at in right else c.ljust(w) for at, (c, w) in enumerate(zip(row, widths, strict=True))]
        lines.append("  ".join(cells).rstrip())
    return lines
