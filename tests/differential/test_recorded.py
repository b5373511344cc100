"""What servers logged once (record.py), read without them."""

import json
from collections.abc import Iterator
from dataclasses import replace
from itertools import zip_longest
from pathlib import Path
from typing import Any

import pytest

from spark_jobs.binlog import TableDefinition
from spark_jobs.binlog.slices.listing import list_events
from spark_jobs.changes.feed import changes_of_files
from spark_jobs.changes.lines import wanted_tables
from tests.differential.comparison import assert_same, assert_same_events
from tests.differential.kinds import same_json
from tests.differential.replica import Replica, Row

RECORDED = Path(__file__).parents[1] / "recorded"
LOGS = sorted(RECORDED.glob("*.held.json"))


def recording_of(recording: Path) -> dict[str, Any]:
    document: dict[str, Any] = json.loads(recording.read_text())
    return document


def chunks(recording: Path) -> Iterator[bytes]:
    content = recording.with_name(recording.name.replace(".held.json", ".000001")).read_bytes()
    return (content[at : at + 777] for at in range(0, len(content), 777))


@pytest.mark.parametrize("recording", LOGS, ids=lambda path: path.name)
def test_events_are_those_that_the_server_showed(recording: Path) -> None:
    listed = [
        (event.offset, event.type, event.server_id, event.stop) for event in list_events(chunks(recording), "log")
    ]
    assert_same_events(listed, [tuple(event) for event in recording_of(recording)["events"]])


TABLES = [(recording, table) for recording in LOGS for table in recording_of(recording)["tables"]]


@pytest.mark.thorough
@pytest.mark.parametrize("recording, table", TABLES, ids=[f"{path.name}-{table}" for path, table in TABLES])
def test_rows_are_those_that_the_server_held(recording: Path, table: str) -> None:
    expected = recording_of(recording)["tables"][table]
    kinds = ["", "", *expected["kinds"]]
    declared = {kind: kind for kind in ("uuid", "inet4", "inet6")}

    def complete(definition: TableDefinition, *_: object) -> TableDefinition:
        """Adds what only the server told: the types that MariaDB's log does not tell, and signs where none are."""
        columns = zip_longest(definition.columns, kinds, expected["unsigned"])
        also_reported = (
            replace(column, declared=declared.get(kind or "", column.declared)) for column, kind, _ in columns
        )
        if "before-metadata" not in recording.name:
            return replace(definition, columns=tuple(also_reported))
        signs = zip(also_reported, expected["unsigned"], strict=True)
        return replace(definition, columns=tuple(replace(column, unsigned=sign) for column, sign in signs))

    # Of the recordings with JSON only MySQL 9's have names; it prints a document's numbers as we do.
    documents = {f"@{offset}" for offset, kind in enumerate(kinds, 1) if kind == "json"}

    def comparable(row: Row) -> Row:
        return {name: same_json(value) if value and name in documents else value for name, value in row.items()}

    replica = Replica()
    replica.apply(changes_of_files([("log", chunks(recording))], wanted_tables([f"recorded.{table}"]), complete))
    all_rows = [comparable(row) for row in replica.table("recorded", table)]
    assert_same(f"{recording.name}: {table}", all_rows, expected["rows"])


@pytest.mark.parametrize("table", ["plain.j", "packed.j"])
def test_documents_after_partial_updates_are_those_of_the_server(table: str) -> None:
    """Through the whole decoder, in payloads and outside. Of row 4, which is very long, no text was kept."""
    expected = json.loads((RECORDED / "mysql-9.7-packed.tables.json").read_text(encoding="utf-8"))[table]
    content = (RECORDED / "mysql-9.7-packed.000001").read_bytes()
    replica = Replica()
    replica.apply(changes_of_files([("log", iter([content]))], wanted_tables([table])))
    all_rows = {str(row["id"]): row for row in replica.table(*table.split("."))}
    assert sorted(all_rows) == ["1", "3", "4", "5"]
    for row in expected["rows"]:
        reported_tables = dict(zip(expected["columns"], row, strict=True))
        assert all_rows[reported_tables["id"]] | {"id": reported_tables["id"]} == reported_tables
