"""Output of ``stratalog run`` for a source: lines for people, or one JSON object.

Put here: both forms of one run's results. Not here: what other verbs print alike (output.py), or the work itself.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from spark_jobs.cli.app import echo, echo_json
from spark_jobs.cli.group import ERRORS
from spark_jobs.cli.output import print_outcome, print_stops
from spark_jobs.log.position import Position
from spark_jobs.text.codes import codes_in

if TYPE_CHECKING:
    from spark_jobs.bronze.extract import Extracted
    from spark_jobs.checks.schema_drift import SchemaAudit
    from spark_jobs.operations.catalog import CatalogChanges
    from spark_jobs.pipeline.outcome import Outcome


@dataclass(frozen=True, slots=True)
class RunReport:
    """The results of one source's run. Without ``extracted`` and ``outcome``, it had nothing to do.

    Attributes:
        source: its name.
        position: where bronze ends.
        extracted: what bronze got.
        outcome: what silver and downstream got, and which tables stopped.
        catalog: which tables Spark's catalog got and lost.
        audit: how the server's columns compare with the recorded ones; None for a source that is no server.
    """

    source: str
    position: Position
    extracted: "Extracted | None" = None
    outcome: "Outcome | None" = None
    catalog: "CatalogChanges | None" = None
    audit: "SchemaAudit | None" = None

    def print_report(self, *, as_json: bool) -> None:
        """Print it to standard output, and why tables stopped to standard error."""
        if as_json:
            echo_json(self.to_json())
            if self.outcome:
                print_stops(self.outcome)
            return
        print_extracted(self.source, self.position, self.extracted)
        if self.outcome:
            print_outcome(self.source, self.outcome)
        else:
            echo(f"{self.source}: silver and downstream have nothing new")
        if self.catalog and self.catalog.registered:
            echo(f"catalog: registered {', '.join(self.catalog.registered)}")
        if self.catalog and self.catalog.removed:
            echo(f"catalog: removed {', '.join(self.catalog.removed)}")
        print_audit(self.audit)

    def to_json(self) -> dict[str, Any]:
        """The object of ``run --json``; positions are text, times seconds."""
        # A run that had nothing to do has the same members, with nothing in them.
        extracted, outcome = self.extracted, self.outcome
        bronze = {
            "position": str(self.position),
            "bytes": extracted.bytes if extracted else 0,
            "transactions": extracted.transactions if extracted else 0,
            "events": extracted.events if extracted else 0,
            "redacted_events": extracted.redacted_events if extracted else 0,
            "seconds": round(extracted.seconds, 3) if extracted else 0.0,
        }
        return {
            "source": self.source,
            "bronze": bronze,
            "silver": [_compacted_json(table) for table in outcome.compacted] if outcome else [],
            "derived": {str(table): count for table, count in sorted(outcome.derived.items())} if outcome else {},
            "downstream": [_merged_json(table) for table in outcome.merged] if outcome else [],
            "stopped": {str(table): reason for table, reason in outcome.stopped.items()} if outcome else {},
            "codes": stop_codes(outcome.stopped) if outcome else {},
            "schema": {"summary": str(self.audit), "differences": list(self.audit.lines())} if self.audit else None,
        }


def stop_codes(stopped: Mapping[Any, str]) -> dict[str, list[str]]:
    """The codes of why tables stopped, by table: the member ``codes`` of ``--json``."""
    return {str(table): codes_in(reason) for table, reason in stopped.items()}


def _compacted_json(table: Any) -> Mapping[str, Any]:
    return {
        "table": str(table.name),
        "changes": table.changes,
        "inserted": table.inserts,
        "updated": table.updates,
        "deleted": table.deletes,
        "left_out": table.left_out,
        "position": str(table.range.stop),
        "seconds": round(table.seconds, 3),
    }


def _merged_json(table: Any) -> Mapping[str, Any]:
    return {
        "table": str(table.name),
        "into": table.into or str(table.name),
        "inserted": table.inserted,
        "updated": table.updated,
        "deleted": table.deleted,
        "position": str(table.range.stop),
        "seconds": round(table.seconds, 3),
    }


def print_audit(audit: "SchemaAudit | None") -> None:
    """Print what the comparison with the server's columns found; nothing for a source that is no server."""
    if audit is None:
        return
    echo(f"{audit.source}: {audit}")
    for line in audit.lines():
        ERRORS.print(f"{audit.source}: {line}", style="yellow", markup=False, highlight=False)


def print_extracted(source: str, position: Position, extracted: "Extracted | None") -> None:
    """Print what bronze got, in a line or two."""
    if not extracted or not extracted.bytes:
        echo(f"{source}: bronze is at {position}; nothing new")
        return
    echo(
        f"{source}: bronze {extracted.range}: {extracted.bytes} bytes, "
        f"{extracted.transactions} transactions, {extracted.events} events in {extracted.seconds:.1f} s"
    )
    if extracted.redacted_events:
        echo(f"{source}: {extracted.redacted_events} events redacted, in {extracted.redacted_bytes} bytes")
