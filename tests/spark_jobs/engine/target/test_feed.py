"""What merges say in a target's change data feed, against the difference between its rows before and after."""

import json
from collections import Counter
from dataclasses import replace
from pathlib import Path
from typing import Any

import deltalake
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from spark_jobs.config.modes import Mode
from spark_jobs.delta import data_files
from spark_jobs.delta.schema import DeltaColumn, TableSchema
from spark_jobs.delta.snapshot import DataFile, Snapshot
from spark_jobs.lake.table import Table
from tests.fix_hypothesis import examples
from tests.spark_jobs.engine.lake_rows import Row, newest, rows_of
from tests.spark_jobs.engine.merge import test_keyless_merge
from tests.spark_jobs.engine.merge.test_keyless_merge import ROWS
from tests.spark_jobs.engine.merge.test_keyless_merge import cells_of as cells_of_copy
from tests.spark_jobs.engine.silver_lakes import STEPS, Silver

Cells = tuple[Any, ...]


def cells_of(row: dict[str, Any]) -> Cells:
    return tuple(repr(row[name]) for name in sorted(row) if name != "_change_type")


def feed_of(snapshot: Snapshot) -> Counter[tuple[str, Cells]] | None:
    """Changes that the files of a version's commit say; None where it has none."""
    rows = rows_of_feed(snapshot)
    return Counter((row["_change_type"], cells_of(row)) for row in rows) if rows else None


def rows_of_feed(snapshot: Snapshot) -> list[dict[str, Any]]:
    content = Path(snapshot.path, "_delta_log", f"{snapshot.version:020}.json").read_text(encoding="utf-8")
    actions = [json.loads(line) for line in content.splitlines()]
    files = [DataFile(action["cdc"]) for action in actions if "cdc" in action]
    schema = TableSchema((*snapshot.schema.columns, DeltaColumn("_change_type", "string")))
    return [
        row for file in files for row in data_files.read_columns(snapshot.path, file, schema.names, schema).to_pylist()
    ]


def difference(before: list[dict[str, Any]], after: list[dict[str, Any]], floor: int = 0) -> Counter[tuple[str, Cells]]:
    """What the feed is to have of a merge: keys that came, went, or have another row.

    floor: where a statement emptied the table. A key that comes again after it is a delete and an insert.
    """
    old, new = ({row["id"]: row for row in rows} for rows in (before, after))
    changes: Counter[tuple[str, Cells]] = Counter()
    for key in old.keys() | new.keys():
        if key not in new:
            changes["delete", cells_of(old[key])] += 1
        elif key not in old:
            changes["insert", cells_of(new[key])] += 1
        elif old[key]["_position"]["offset"] < floor:
            changes["delete", cells_of(old[key])] += 1
            changes["insert", cells_of(new[key])] += 1
        elif old[key] != new[key]:
            changes["update_preimage", cells_of(old[key])] += 1
            changes["update_postimage", cells_of(new[key])] += 1
    return changes


@pytest.mark.parametrize("mode", [Mode.MIRROR, Mode.SOFT_DELETE])
def test_a_feed_is_the_difference_between_two_versions(mode: Mode, tmp_path: Path) -> None:
    number = 0

    @examples(4)
    @given(st.lists(STEPS, min_size=4, max_size=9), st.sampled_from([6000, 32 << 20]), st.data())
    def check(steps: list[str], task_bytes: int, data: st.DataObject) -> None:
        nonlocal number
        number += 1
        lake = Silver(tmp_path / f"{mode}-{number}", mode=mode, has_feed=True, task_bytes=task_bytes)
        for step in ["window", "merge", *steps, "merge"]:
            replays = lake.take(step, data.draw)
            if step not in ("merge", "again"):
                continue
            before = newest(lake.target.path) if lake.target.head() else None
            if lake.merge(replays) is None:
                continue
            snapshot = newest(lake.target.path)
            assert snapshot.has_change_data or is_overwrite(snapshot)
            floor = (lake.floor or 0) if mode is Mode.MIRROR else 0
            # Rows before, by the columns of now; of a commit of all rows files say what changed.
            if before is None or is_overwrite(snapshot):
                assert feed_of(snapshot) is None
                continue
            changes = difference(rows_of(replace(before, metadata=snapshot.metadata)), rows_of(snapshot), floor)
            assert feed_of(snapshot) == (changes or None) or (not before.files and feed_of(snapshot) is None)

    check()


def is_overwrite(snapshot: Snapshot) -> bool:
    return bool((snapshot.commit_info.get("operationParameters") or {}).get("mode") == "Overwrite")


def test_copies_that_come_and_go_are_in_the_feed(tmp_path: Path) -> None:
    lake = test_keyless_merge.Silver(tmp_path, has_feed=True)
    lake.window({ROWS[0]: 3, ROWS[1]: 1})
    lake.merge()
    assert feed_of(newest(lake.target.path)) is None, "a first commit adds rows alone"
    lake.window({ROWS[0]: -2, ROWS[1]: 2})
    lake.merge()
    changes = rows_of_feed(newest(lake.target.path))
    assert Counter((row["_change_type"], cells_of_copy(row)) for row in changes) == {
        ("delete", ROWS[0]): 2,
        ("insert", ROWS[1]): 2,
    }
    lake.empty()
    lake.window({ROWS[2]: 1})
    lake.merge()
    changes = rows_of_feed(newest(lake.target.path))
    assert Counter((row["_change_type"], cells_of_copy(row)) for row in changes) == {
        ("delete", ROWS[0]): 1,
        ("delete", ROWS[1]): 3,
        ("insert", ROWS[2]): 1,
    }


def test_deltalake_reads_the_feed_of_a_plain_table(tmp_path: Path) -> None:
    """Of tables with column mapping it reads none, whoever wrote them."""
    lake = Silver(tmp_path, has_feed=True)
    lake.target = Table(lake.target.path, plain=True)
    lake.window([Row((1,), 10, 1), Row((2,), 20, 2)])
    lake.merge()
    lake.window([Row((1,), 11, 1, "update"), Row((2,), 20, 2, "delete"), Row((3,), 30, 3)])
    lake.merge()
    rows = pa.table(deltalake.DeltaTable(lake.target.path).load_cdf(starting_version=0).read_all()).to_pylist()
    assert sorted((row["_commit_version"], row["_change_type"], row["id"], row["v"]) for row in rows) == [
        (0, "insert", 1, 10),
        (0, "insert", 2, 20),
        (1, "delete", 2, 20),
        (1, "insert", 3, 30),
        (1, "update_postimage", 1, 11),
        (1, "update_preimage", 1, 10),
    ]
