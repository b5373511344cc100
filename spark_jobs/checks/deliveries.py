"""Checks of the targets of deliveries.

Put here: what a target is asked, and what is names_ of its answers. Not here: comparing rows (verify/deliveries.py).
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property

from spark_jobs.checks import Check, failed, ok, problem, run_checks, warning
from spark_jobs.config.deliveries import Delivery
from spark_jobs.config.model import Pipeline
from spark_jobs.config.table_patterns import Pattern
from spark_jobs.delivery.lake_table import LakeTable, LakeTableShape, published, shape_of
from spark_jobs.delivery.ordered.log_tables import require_ordered
from spark_jobs.delivery.privileges import grants_at, missing_privileges
from spark_jobs.delivery.progress import SCHEMA
from spark_jobs.delivery.target import Connection
from spark_jobs.delivery.target_table import Dialect, TargetTable, index_notes, key_notes, target_table
from spark_jobs.delta.snapshot import snapshot_of
from spark_jobs.errors import DeliveryError
from spark_jobs.lake.layout import Lake, lake_of, no_folder
from spark_jobs.source.grants import Grants, current_account

_LEAST_PACKET = 4 << 20
_OWN_KEY = "create the table yourself, if its key is to be another"
_OWN_INDEX = "make it as at the source, or finer: rows that are one by it and differ at the source stop the table"
_SHOWN = 5


@dataclass
class TargetView:
    """One delivery with a connection to its target."""

    pipeline: Pipeline
    name: str
    connection: Connection

    @property
    def settings(self) -> Delivery:
        return self.pipeline.deliveries[self.name]

    @property
    def lake(self) -> Lake:
        return lake_of(self.pipeline)

    @cached_property
    def grants(self) -> Grants:
        """The privileges of the user, with those of its active roles."""
        return grants_at(self.connection)

    @cached_property
    def account(self) -> str:
        return current_account(self.connection.ask)

    @cached_property
    def tables(self) -> list[LakeTable]:
        """The delivery's tables that are published."""
        if no_folder(self.pipeline.lake):
            return []
        scope = self.settings.scope
        return [table for table in published(self.pipeline, self.lake) if scope.holds(table.schema, table.name)]


def check_target(pipeline: Pipeline, name: str) -> Iterator[Check]:
    """The results of one delivery's target; where it cannot be connected to, that alone."""
    settings = pipeline.deliveries[name].mysql
    with Connection(name, settings) as connection:
        try:
            facts = connection.facts
        except DeliveryError as error:
            yield failed("connection", error, f"delivery {name}")
            return
        # A session that is there has the sql_mode and the character set that a delivery needs.
        product = "TiDB" if facts.is_tidb else "MariaDB" if facts.is_mariadb else "MySQL"
        yield ok("connection", f"{settings.host}:{settings.port} as {settings.user}, {product} {facts.version}")
        yield from run_checks(TargetView(pipeline, name, connection), CHECKS, f"delivery {name}")


def read_only(view: TargetView) -> Iterator[Check]:
    names = {str(row["Variable_name"]): str(row["Value"]) for row in view.connection.ask(_READ_ONLY)}
    on = [name for name, value in sorted(names.items()) if value.upper() in ("ON", "1")]
    if on:
        yield problem("read-only", f"{', '.join(on)} is on", "name the server that takes writes, as after a failover")
    else:
        yield ok("read-only", "off")


_READ_ONLY = "SHOW GLOBAL VARIABLES WHERE Variable_name IN ('read_only', 'super_read_only', 'innodb_read_only')"


def sql_mode(view: TargetView) -> Iterator[Check]:
    """Check whether the session got what it asked for: a proxy may keep another one."""
    row = view.connection.ask("SELECT @@SESSION.sql_mode mode, @@SESSION.time_zone zone")[0]
    missing = [mode for mode in ("STRICT_TRANS_TABLES", "NO_BACKSLASH_ESCAPES") if mode not in row["mode"].split(",")]
    if missing or row["zone"] != "+00:00":
        value = f"{row['mode'] or 'none'}, time zone {row['zone']}"
        yield problem("sql_mode", value, "let sessions set sql_mode and time_zone: a proxy in between may ignore that")
    else:
        yield ok("sql_mode", "as a delivery sets it")


def packet(view: TargetView) -> Iterator[Check]:
    size = view.connection.facts.max_packet
    if size < _LEAST_PACKET:
        yield warning("max_allowed_packet", f"{size:,} bytes", "raise it to 16 MiB: longer rows cannot be delivered")
    else:
        yield ok("max_allowed_packet", f"{size:,} bytes")


def privileges(view: TargetView) -> Iterator[Check]:
    """Privileges granted on the schemas of the tables, and on that of the progress."""
    # The schemas of published tables, or those that the patterns name.
    schemas = sorted({table.schema for table in view.tables})
    patterns = [Pattern(schema, "*") for schema in schemas] or [
        Pattern(pattern.schema, "*") for pattern, is_wanted in view.settings.scope.rules if is_wanted
    ]
    missing = missing_privileges(view.grants, view.settings, patterns)
    if not missing:
        yield ok("privileges", "granted")
        return
    value = ", ".join(map(str, missing))
    remedy = "; ".join(lacking.grant(view.account) for lacking in missing)
    yield problem("privileges", f"not granted: {value}", remedy)


def ordered_delivery_checks(view: TargetView) -> Iterator[Check]:
    """Check whether the tables can be delivered in order, where they are to be."""
    if view.settings.apply == "ordered":
        require_ordered(view.tables, f"delivery {view.name}")
        yield ok("apply: ordered", f"{len(view.tables)} tables published")


def definitions(view: TargetView) -> Iterator[Check]:
    """Definitions of the target's tables that keep their rows from being found, or found exactly once."""
    # Engines first: without transactions nothing is exactly once.
    problems: list[Check] = []
    present = 0
    engines = _engines(view, [(SCHEMA, "checkpoint"), *((table.schema, table.name) for table in view.tables)])
    for name, engine in engines.items():
        if engine.upper() not in ("INNODB", "TOKUDB", "ROCKSDB", "NDBCLUSTER"):
            label = ".".join(name)
            problems.append(
                problem(label, f"engine {engine} has no transactions", f"ALTER TABLE {label} ENGINE = InnoDB")
            )
    for table in view.tables:
        target, snapshot = (
            target_table(view.connection, table.schema, table.name),
            snapshot_of(table.table.path, table.version),
        )
        if target is None:
            if view.settings.ddl != "apply":
                problems.append(problem(str(table), "the target has no such table", "create it, or set ddl: apply"))
            elif snapshot is not None:
                notes = key_notes(shape_of(view.lake, table, snapshot), Dialect.of(view.connection))
                problems += [warning(str(table), note, _OWN_KEY) for note in notes]
        elif snapshot is not None:
            present += 1
            problems += _definition(view, table, target, shape_of(view.lake, table, snapshot))
    yield from problems[:_SHOWN]
    if len(problems) > _SHOWN:
        yield warning("tables", f"{len(problems) - _SHOWN} more", "correct these first, and check again")
    if not problems:
        yield ok("tables", f"{present} of {len(view.tables)} are there; no problem with their definitions")


def _definition(view: TargetView, table: LakeTable, target: TargetTable, shape: LakeTableShape) -> Iterator[Check]:
    # What the target has and the lake has not, and the other way round.
    columns = target.output_columns(shape)
    column_names = {column.name.casefold() for column in columns}
    lacking = [column.name for column in shape.columns if target.column(column.name) is None]
    required = [
        column.name
        for column in target.columns
        if column.name.casefold() not in column_names
        and not (column.is_nullable or column.is_generated or column.has_default)
    ]
    if required:
        yield problem(
            str(table),
            f"column {required[0]} has no default, and is not delivered",
            "give it a default, or let it be NULL",
        )
    if lacking and view.settings.ddl == "stop":
        yield warning(
            str(table), f"the target lacks {', '.join(lacking)}", "the next delivery stops, with the statement"
        )
    if shape.key and not target.key(columns):
        yield warning(
            str(table),
            "the target has no primary key, and no unique index without NULL, of delivered columns",
            "add one: rows are found by all of their columns without it, which is slow",
        )
    for note in index_notes(shape, target, Dialect.of(view.connection)):
        yield warning(str(table), note, _OWN_INDEX)


def _engines(view: TargetView, names: Sequence[tuple[str, str]]) -> dict[tuple[str, str], str]:
    """Storage engines of those tables that are there."""
    schemas = sorted({schema for schema, _ in names})
    marks = ", ".join(["%s"] * len(schemas))
    query = (
        "SELECT TABLE_SCHEMA s, TABLE_NAME t, ENGINE e FROM information_schema.TABLES "
        f"WHERE TABLE_SCHEMA IN ({marks}) AND ENGINE IS NOT NULL"
    )
    rows = {(row["s"], row["t"]): str(row["e"]) for row in view.connection.ask(query, schemas)}
    return {name: rows[name] for name in names if name in rows}


CHECKS = [read_only, sql_mode, packet, privileges, ordered_delivery_checks, definitions]
