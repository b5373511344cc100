"""Checkpoints as Dagster metadata: positions and numbers of a commit <-> metadata of a materialization.

Put here: every metadata key, what is written under it, and how Dagster's copy of a position compares with the lake's.
Not here: where positions come from (spark_jobs), or when a materialization is written (bronze.py, silver.py, …).

Delta is the truth and Dagster holds a copy: events are wiped, reported by hand, or lost in a crash between the commit
and its event. So every step compares the two before it works, and says on the next materialization what it found.
"""

from collections.abc import Iterable, Mapping
from contextlib import suppress
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

import dagster as dg

from spark_jobs.errors import ConfigError
from spark_jobs.log.position import Position, Range
from spark_jobs.silver.commit import SilverCommit
from spark_jobs.silver.retired_columns import names_of

if TYPE_CHECKING:  # these import pyspark
    from spark_jobs.bronze.extract import Extracted
    from spark_jobs.bronze.log_index import Stretch
    from spark_jobs.checks.schema_drift import SchemaAudit
    from spark_jobs.checks.second_reader.compare import SecondReading
    from spark_jobs.delivery.table_delivery import Delivered
    from spark_jobs.downstream.merge_job import Merged
    from spark_jobs.lake.commit import Head
    from spark_jobs.lake.table import Table
    from spark_jobs.operations.observation.backlog import Backlog
    from spark_jobs.operations.observation.verified import Verified
    from spark_jobs.silver.compaction_job import Compacted
    from spark_jobs.source.retention_margin import Margin

START = "binlog/start"
END = "binlog/end"
END_FILE_NUMBER = "binlog/end_file_number"
GTID = "binlog/gtid"
"""The last transaction's of the range that a materialization is about."""
FILES = "binlog/files"
BYTES = "binlog/bytes"
TRANSACTIONS = "binlog/transactions"
EVENTS = "binlog/events"
IGNORED = "binlog/ignored_events"
REDACTED_EVENTS = "binlog/redacted_events"
REDACTED_BYTES = "binlog/redacted_bytes"
LAG = "binlog/lag_seconds"
MARGIN_BYTES = "binlog/retention_margin_bytes"
MARGIN_HOURS = "binlog/retention_margin_hours"
CHANGES = "rows/changes"
INSERTED = "rows/inserted"
UPDATED = "rows/updated"
DELETED = "rows/deleted"
LEFT_OUT = "rows/left_out"
DERIVED = "rows/derived"
"""Changes and statements that rules left out; after it, one key a rule with its name."""
NEVER_WHOLE = "rows/keys_never_whole"
"""Keys that a table lacks because row images left columns out and none held the row whole."""
SECONDS = "run/seconds"
BYTES_PER_SECOND = "run/bytes_per_second"
CHANGES_PER_SECOND = "run/changes_per_second"
ENDPOINT = "source/endpoint"
STRETCH = "source/stretch"
BACKLOG = "source/backlog_bytes"
LOG_END = "source/log_end"
HELD = "source/bronze"
ROWS_PER_SECOND = "run/rows_per_second"
LINEAGE = "dagster/column_lineage"
VERSION = "delta/version"
COUNTER = "delta/counter"
PATH = "delta/path"
COMPLETE = "table/complete"
"""True if a table has the rows from before its log begins, if there were any."""
NUMBERED = "table/columns_numbered"
"""True if nothing names a table's columns, so that they are called by their numbers; left out of others."""
KEPT_COLUMNS = "table/kept_columns"
"""Names of the columns that the lake keeps, of those that were restarted."""
WATERMARK = "binlog/watermark"
"""Metadata key, followed by the source's name: position up to which a table of several source tables has a source."""
NOTHING_NEW = "run/nothing_new"
REDONE = "delta/windows_done_again"
COLUMNS = "dagster/column_schema"
ROW_COUNT = "dagster/row_count"
ADOPTED = "checkpoint/adopted"
REPAIRED = "checkpoint/repaired"
ADVANCED = "checkpoint/advanced_outside_dagster"
DAGSTER_HAD = "checkpoint/dagster_had"
LAKE_HAD = "checkpoint/lake_had"
CURRENT = "tables/current"
STOPPED = "tables/stopped"
IGNORED_TABLES = "tables/out_of_scope"
NEW = "tables/shown_after_reload"
SKIPPED = "tables/events_passed_over"
QUARANTINED = "tables/quarantined_events"
DELIVERED = "delivery/position"
"""Metadata key: position up to which a target has a table; of a table of several source tables each one's."""
DELIVERED_VERSION = "delivery/version"
"""The version of the downstream table that a target has."""
DELIVERED_ROWS = "delivery/rows"
DELIVERED_WINDOWS = "delivery/windows"
DELIVERED_DDL = "delivery/statements"
"""The statements that changed the target's table."""
NUMBERED_TABLES = "tables/columns_numbered"
CASCADES = "tables/foreign_keys_unlogged"
SECOND_CHANGES = "binlog/changes_read_twice"
SECOND_VALUES = "binlog/values_read_twice"
SECOND_DIFFERENT = "binlog/values_read_differently"
SECOND_EXCLUDED = "binlog/values_not_compared"
"""Number of foreign keys that change rows of tables in scope without a record in the log."""
VERIFIED = "table/verified"
"""Result of the last comparison of a table with its server, whoever made it; left out where there was none."""
VERIFIED_AT = "table/verified_at"
COMMENT = "table/comment"
"""The table's comment at the server; left out where it has none."""
UNLOGGED_BY = "table/changed_unlogged_by"
"""The foreign keys by which the server changes a table's rows unlogged; left out of others."""
MODE = "table/mode"
"""Rows that a downstream table keeps besides the source's current ones; left out of mirrors."""
SCHEMA_COMPARED = "schema/tables_compared"
SCHEMA_DIFFERING = "schema/tables_differing"
SCHEMA_WAITING = "schema/tables_waiting"
SCHEMA_UNKNOWN = "schema/tables_without_rows"

DATA_VERSION = "dagster/data_version"

_ADDED = {
    "_op": "Added: what the change did to the row; in silver, all changes of its window",
    "_existed": "Added: whether the key existed before its window",
    "_position": "Added: where in the log the key was changed last",
    "_committed_at": "Added: when that transaction committed on the server",
    "_window_start": "Added: where the part of the log begins that the row sums up",
    "_window_stop": "Added: where that part ends",
    "_copies": "Added: of rows without a key, copies that came less copies that went",
    "_absent": "Added: the columns that the row has no value of, which are as they were before its window",
    "_deleted": "Added: whether the row was deleted",
    "_deleted_at": "Added: when it was deleted",
    "_gtid": "Added: the GTID of the change's transaction",
    "_valid_from": "Added: when the row became so",
    "_valid_to": "Added: when the row became otherwise, or went; NULL while it is so",
    "_is_current": "Added: whether the row is so now",
    "_raw": "Added: the exact text of values that their typed column cannot hold",
}
"""Descriptions of the columns that the lake adds; those of the source have names of their own."""

_LARGEST_PLOTTED = 2**31 - 1
"""GraphQL's Int ends here: larger integers reach the UI as text, which it does not plot."""

Metadata = dict[str, Any]


@dataclass(frozen=True, slots=True)
class Comparison:
    """Dagster's copy of an asset's position beside the lake's, as both stood before a run."""

    recorded: Position | None
    in_lake: Position | None

    @property
    def adopted(self) -> bool:
        """True if Dagster had nothing of a table that the lake has: the command line filled it, or events were lost."""
        return self.recorded is None and self.in_lake is not None

    @property
    def repaired(self) -> bool:
        """True if Dagster's copy was ahead of what the lake has."""
        return self.recorded is not None and (self.in_lake is None or self.recorded > self.in_lake)

    @property
    def advanced(self) -> bool:
        """True if the lake went on outside Dagster, from the command line for instance."""
        return self.recorded is not None and self.in_lake is not None and self.recorded < self.in_lake

    @property
    def differs(self) -> bool:
        return self.recorded != self.in_lake

    def to_metadata(self) -> Metadata:
        """Metadata of a difference; empty where the two were equal."""
        if not self.differs:
            return {}
        if self.adopted:
            return {ADOPTED: True}
        flags = {REPAIRED: True} if self.repaired else {ADVANCED: True}
        return flags | {DAGSTER_HAD: _text_of(self.recorded), LAKE_HAD: _text_of(self.in_lake)}

    def __str__(self) -> str:
        if self.adopted:
            return f"adopted: in the lake up to {self.in_lake}"
        verdict = "advanced outside Dagster" if self.advanced else "repaired" if self.repaired else "as it was"
        return f"{verdict}: Dagster had {_text_of(self.recorded)}, the lake {_text_of(self.in_lake)}"


def read_last(instance: dg.DagsterInstance, keys: Iterable[dg.AssetKey]) -> dict[dg.AssetKey, Position | None]:
    """The positions that the newest materializations of assets name; None where none does."""
    wanted_keys = list(keys)
    materializations = instance.get_latest_materialization_events(wanted_keys)
    newest = {key: entry.asset_materialization if (entry := materializations.get(key)) else None for key in wanted_keys}
    return {key: _materialized_position(materialization) for key, materialization in newest.items()}


def version_tag(version: str) -> dict[str, str]:
    """Tag that gives a materialization that is logged, not yielded, its data version."""
    return {DATA_VERSION: version}


def backlog_metadata(ahead: "Backlog") -> Metadata:
    """Metadata of a source before a run: the end of its log, and how much of it bronze lacks."""
    position = {HELD: str(ahead.bronze)} if ahead.bronze else {}
    return {LOG_END: str(ahead.end), BACKLOG: number(ahead.bytes), **position}


def read_source_metadata(extracted: "Extracted") -> Metadata:
    """Metadata of a source after a run: how near it was to purging the log that the run read."""
    position = {LOG_END: str(extracted.range.stop), HELD: str(extracted.range.stop), BACKLOG: 0}
    return {**position, **_origin(extracted.stretch), **lag(extracted.committed_at), **_margin(extracted.margin)}


def extraction_metadata(extracted: "Extracted", table: "Table") -> Metadata:
    """Metadata of a bronze commit."""
    return {
        **range_metadata(extracted.range),
        FILES: extracted.files,
        BYTES: number(extracted.bytes),
        TRANSACTIONS: number(extracted.transactions),
        EVENTS: number(extracted.events),
        IGNORED: number(extracted.ignored),
        **gtid_metadata(extracted.gtid),
        **_redacted(extracted),
        **_origin(extracted.stretch),
        **lag(extracted.committed_at),
        **_margin(extracted.margin),
        **_pace(BYTES_PER_SECOND, extracted.bytes, extracted.seconds),
        **head_metadata(extracted.head, table),
    }


def _redacted(extracted: "Extracted") -> Metadata:
    """Metadata about the redacted events of a source; empty where there were none."""
    if not extracted.redacted_events:
        return {}
    return {REDACTED_EVENTS: number(extracted.redacted_events), REDACTED_BYTES: number(extracted.redacted_bytes)}


def compaction_metadata(compacted: "Compacted", table: "Table", derived: int = 0) -> Metadata:
    """Metadata of a silver commit: its rows are keys, by net operation in the window.

    derived: changes of the run that were derived from foreign keys.
    """
    return {
        **range_metadata(compacted.range),
        CHANGES: number(compacted.changes),
        INSERTED: number(compacted.inserts),
        UPDATED: number(compacted.updates),
        DELETED: number(compacted.deletes),
        **_left_out(compacted.left_out),
        **({DERIVED: number(derived)} if derived else {}),
        **lag(compacted.committed_at),
        **_log_bytes(compacted.head),
        **_pace(CHANGES_PER_SECOND, compacted.changes, compacted.seconds),
        **table_metadata(compacted.head, table),
        **columns_metadata(table),
    }


def merge_metadata(
    merged: "Merged", table: "Table", silver: "tuple[dg.AssetKey, Table]", committed_at: datetime | None
) -> Metadata:
    """Metadata of a downstream commit.

    silver: the source table's asset and table; ``committed_at`` is that of its newest change.
    """
    return {
        **range_metadata(merged.range),
        INSERTED: number(merged.inserted),
        UPDATED: number(merged.updated),
        DELETED: number(merged.deleted),
        **({REDONE: merged.redone} if merged.redone else {}),
        **({NEVER_WHOLE: number(merged.unseen)} if merged.unseen else {}),
        **lag(committed_at),
        **_pace(ROWS_PER_SECOND, merged.inserted + merged.updated + merged.deleted, merged.seconds),
        **({MODE: str(merged.mode)} if merged.mode != "mirror" else {}),
        **table_metadata(merged.head, table),
        **columns_metadata(table),
        **_column_lineage(*silver, table),
    }


def merged_part_metadata(part: Metadata, before: Metadata, watermarks: Mapping[str, str]) -> Metadata:
    """Metadata of a table of several after a merge of one of its parts; ``before``: after those of the same run."""
    counts = {key: number(part[key] + before.get(key, 0)) for key in (INSERTED, UPDATED, DELETED)}
    flags = {f"{WATERMARK}/{source}": text for source, text in watermarks.items()}
    return {**part, **counts, **flags}


def watermark_metadata(watermark: datetime | None) -> Metadata:
    """The time up to which a table with shared keys has all writes of its sources; empty if that is not known."""
    return {WATERMARK: dg.MetadataValue.timestamp(watermark)} if watermark else {}


def delivery_metadata(table: "Delivered") -> Metadata:
    """Metadata of a delivered table: its position is the checkpoint in the target."""
    return {
        DELIVERED: table.position or "",
        DELIVERED_VERSION: number(table.version),
        DELIVERED_ROWS: number(table.rows),
        DELIVERED_WINDOWS: table.windows,
        **({DELIVERED_DDL: "\n".join(table.statements)} if table.statements else {}),
        **_pace(ROWS_PER_SECOND, table.rows, table.seconds),
    }


def gtid_metadata(last: str | None) -> Metadata:
    """Metadata of the last GTID; empty where no transaction of the range has one."""
    return {GTID: last} if last else {}


def quarantine_metadata(events: int) -> Metadata:
    """Number of events that are quarantined for a table, or for all of a source."""
    return {QUARANTINED: number(events)}


def cascade_metadata(keys: list[str]) -> Metadata:
    """The foreign keys by which the server changes a table's rows unlogged."""
    return {UNLOGGED_BY: ", ".join(keys)} if keys else {}


def verification_metadata(last: "Verified | None") -> Metadata:
    """The last comparison of a table with its server; empty where there was none."""
    return {VERIFIED: last.state, VERIFIED_AT: last.verified_at} if last else {}


def range_metadata(log_range: Range) -> Metadata:
    return {START: str(log_range.start), **position_metadata(log_range.stop)}


def position_metadata(position: Position) -> Metadata:
    return {END: str(position), END_FILE_NUMBER: number(position.number)}


def head_metadata(head: "Head", table: "Table") -> Metadata:
    """Metadata of a table's head."""
    checkpoint_state = position_metadata(head.position) if head.position else {}
    path = dg.MetadataValue.path(table.path)
    commit = SilverCommit.of_head(head)  # a commit of another layer says less
    flags: Metadata = {COMPLETE: commit.is_complete} if commit and commit.is_complete is not None else {}
    flags |= {NUMBERED: True} if commit and commit.is_numbered else {}
    names = names_of(commit.retired_columns) if commit else ""
    retired = {KEPT_COLUMNS: names} if names else {}
    return {
        **checkpoint_state,
        VERSION: number(head.version),
        COUNTER: number(head.counter),
        PATH: path,
        **flags,
        **retired,
    }


def second_reading_metadata(reading: "SecondReading") -> Metadata:
    """Metadata of a comparison by a second decoder: what it compared, what differs, and what it does not read."""
    return {
        SECOND_CHANGES: number(reading.changes),
        SECOND_VALUES: number(reading.values),
        SECOND_DIFFERENT: number(reading.different),
        SECOND_EXCLUDED: number(sum(reading.excluded.values())),
    }


def table_metadata(head: "Head", table: "Table") -> Metadata:
    """Metadata of a silver or downstream table: its position, and how many rows it has."""
    from spark_jobs.lake.rows import row_count

    rows = row_count(table.path, head.version)
    count = {} if rows is None else {ROW_COUNT: rows}
    return count | head_metadata(head, table)


def schema_metadata(audit: "SchemaAudit | None") -> Metadata:
    """Number of tables' columns that were held against the server's; empty for a source that is no server."""
    if audit is None or audit.why_not:
        return {}
    return {
        SCHEMA_COMPARED: number(audit.compared),
        SCHEMA_DIFFERING: number(len(audit.differing)),
        SCHEMA_WAITING: number(len(audit.waiting)),
        SCHEMA_UNKNOWN: number(audit.unknown),
    }


def number(value: int) -> int | float:
    """A number that the UI plots, however large."""
    return value if abs(value) <= _LARGEST_PLOTTED else float(value)


def _materialized_position(materialization: dg.AssetMaterialization | None) -> Position | None:
    value = materialization.metadata.get(END) if materialization else None
    with suppress(ConfigError):  # a text that is no position, reported by hand, is a lost copy
        return Position.parse(str(value.value)) if value else None
    return None


def _text_of(position: Position | None) -> str:
    return str(position) if position else "nothing"


def lag(committed_at: datetime | None) -> Metadata:
    """Seconds from the newest change's commit on its server to now; 0 where that server's clock is ahead of ours."""
    return {LAG: round(max((datetime.now(UTC) - committed_at).total_seconds(), 0.0), 3)} if committed_at else {}


def _left_out(by_rule: Mapping[str, int]) -> Metadata:
    """Metadata of what rules filtered; empty where that is nothing."""
    by_rule_name = {f"{LEFT_OUT}/{rule}": number(count) for rule, count in sorted(by_rule.items())}
    return {LEFT_OUT: number(sum(by_rule.values()))} | by_rule_name if by_rule_name else {}


def _origin(stretch: "Stretch | None") -> Metadata:
    """Server whose log was read, and the number of its stretch of logs."""
    if stretch is None:
        return {}
    return ({ENDPOINT: stretch.endpoint} if stretch.endpoint else {}) | {STRETCH: stretch.number}


def _margin(remaining: "Margin | None") -> Metadata:
    if remaining is None:
        return {}
    hours = {} if remaining.hours is None else {MARGIN_HOURS: remaining.hours}
    return {MARGIN_BYTES: number(remaining.bytes)} | hours


def _pace(key: str, amount: int, seconds: float) -> Metadata:
    pace = {key: round(amount / seconds, 1)} if seconds else {}
    return {SECONDS: round(seconds, 3), **pace}


def _log_bytes(head: "Head") -> Metadata:
    """Bytes of log that a window's rows were decoded from."""
    commit = SilverCommit.of_head(head)
    return {} if commit is None or commit.log_bytes is None else {BYTES: number(commit.log_bytes)}


def _column_lineage(key: dg.AssetKey, silver: "Table", table: "Table") -> Metadata:
    """Each downstream column comes from that of its name in silver."""
    columns = silver.columns()
    deps = {name: [dg.TableColumnDep(key, name)] for name in table.columns() if name in columns}
    return {LINEAGE: dg.TableColumnLineage(deps)} if deps else {}


def columns_metadata(table: "Table") -> Metadata:
    """The columns of a table as Dagster shows them, and its comment, both with what the server says of them."""
    columns, comments = table.columns(), table.comments()
    described = _ADDED | dict(comments.columns)
    listed = [dg.TableColumn(name, kind.lower(), described.get(name)) for name, kind in columns.items()]
    schema = {COLUMNS: dg.TableSchema(columns=listed)} if listed else {}
    return schema | ({COMMENT: comments.table} if comments.table else {})
