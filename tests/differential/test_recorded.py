"""What servers logged once (record.py), read without them."""

import json
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from spark_jobs.binlog import TableDefinition
from spark_jobs.binlog.events import list_events
from spark_jobs.changes import as_logged, changes_of_files, wanted_tables
from spark_jobs.errors import Unsupported
from tests.differential.comparison import assert_same, assert_same_events
from tests.differential.kinds import KINDS
from tests.differential.replica import Replica
from tests.differential.test_differential import SETTINGS

RECORDED = Path(__file__).parents[1] / "recorded"
LOGS = sorted(RECORDED.glob("*.held.json"))


def told(recording: Path) -> dict[str, Any]:
    said: dict[str, Any] = json.loads(recording.read_text())
    return said


def chunks(recording: Path) -> Iterator[bytes]:
    content = recording.with_name(recording.name.replace(".held.json", ".000001")).read_bytes()
    return (content[at : at + 777] for at in range(0, len(content), 777))


def pending(recording: Path, kinds: list[str]) -> str | None:
    """Why a table of that recording is not read yet."""
    settings = (SETTINGS[name].pending for name in SETTINGS if recording.name.endswith(f"-{_dashed(name)}.held.json"))
    return next((why for why in (*settings, *(KINDS[kind].pending for kind in kinds)) if why), None)


def _dashed(setting: str) -> str:
    return setting.replace(" ", "-")


@pytest.mark.parametrize("recording", LOGS, ids=lambda path: path.name)
def test_events_are_those_that_the_server_showed(recording: Path) -> None:
    listed = [
        (event.offset, event.type, event.server_id, event.stop) for event in list_events(chunks(recording), "log")
    ]
    assert_same_events(listed, [tuple(event) for event in told(recording)["events"]])


TABLES = [(recording, table) for recording in LOGS for table in told(recording)["tables"]]


@pytest.mark.parametrize("recording, table", TABLES, ids=[f"{path.name}-{table}" for path, table in TABLES])
def test_rows_are_those_that_the_server_held(recording: Path, table: str, request: pytest.FixtureRequest) -> None:
    expected = told(recording)["tables"][table]
    if why := pending(recording, expected["kinds"]):
        request.applymarker(pytest.mark.xfail(raises=(Unsupported, AssertionError), reason=why, strict=True))

    def signed(definition: TableDefinition) -> TableDefinition:
        columns = zip(definition.columns, expected["unsigned"], strict=True)
        return replace(definition, columns=tuple(replace(one, unsigned=sign) for one, sign in columns))

    complete = signed if "before-metadata" in recording.name else as_logged
    replica = Replica()
    replica.apply(changes_of_files([("log", chunks(recording))], wanted_tables([f"recorded.{table}"]), complete))
    assert_same(f"{recording.name}: {table}", replica.table("recorded", table), expected["rows"])
