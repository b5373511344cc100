"""What a table's log says of values after a file with them is gone: nothing, and every version reads as before."""

import json
from pathlib import Path

import pyarrow.parquet as pq
import pytest

from spark_jobs.delta import commits, data_files
from spark_jobs.delta.old_statistics import counts_alone, remove_old_statistics
from spark_jobs.delta.snapshot import Snapshot, snapshot_of
from spark_jobs.errors import LakeError
from tests.spark_jobs.delta.tables import all_rows, append, begin, newest, rows

KEY = 771_177


def log_of(snapshot: Snapshot) -> Path:
    return Path(snapshot.path, "_delta_log")


def texts_of(snapshot: Snapshot) -> str:
    """All that the log says, checkpoints unpacked."""
    return "\n".join(
        repr(pq.read_table(file).to_pylist()) if file.suffix == ".parquet" else file.read_text("utf-8")
        for file in sorted(log_of(snapshot).iterdir())
    )


@pytest.fixture
def replaced(tmp_path: Path) -> Snapshot:
    """A table whose second file replaced the first, which had the key, with a checkpoint of before."""
    first = append(begin(str(tmp_path / "t")), [1, KEY])
    assert commits.write_checkpoint(first.path, first.version)
    file = data_files.write(first.path, rows(first.schema, [1]), first.schema, first.configuration)
    second = newest(first.path, commits.commit(first, adds=[file], removes=first.files))
    return append(second, [5])


def test_bounds_of_files_that_are_gone_are_removed_and_others_stay(replaced: Snapshot) -> None:
    assert texts_of(replaced).count(str(KEY)) >= 2
    before, versions = all_rows(replaced), [commits_of(replaced, version) for version in range(replaced.version + 1)]
    assert remove_old_statistics(replaced) >= 3
    assert str(KEY) not in texts_of(replaced)
    after = newest(replaced.path, replaced.version)
    assert all_rows(after) == before
    assert [file.stats for file in after.files] == [file.stats for file in replaced.files]
    assert [commits_of(replaced, version) for version in range(replaced.version + 1)] == versions
    old = snapshot_of(replaced.path, replaced.version - 2)
    assert old
    assert [row["key"] for row in all_rows(old)] == [1, KEY], "old versions read as before"
    assert remove_old_statistics(replaced) == 0, "a second time changes nothing"


def commits_of(snapshot: Snapshot, version: int) -> list[object]:
    """What a commit says but for statistics."""
    lines = (log_of(snapshot) / f"{version:020}.json").read_text("utf-8").splitlines()
    actions = [json.loads(line) for line in lines]
    for action in actions:
        for kind in ("add", "remove"):
            action.get(kind, {}).pop("stats", None)
    return actions


def test_what_another_tool_searched_for_and_sums_of_its_own_go(replaced: Snapshot) -> None:
    commit = log_of(replaced) / f"{replaced.version:020}.json"
    info = {"commitInfo": {"engineInfo": "Spark", "operationParameters": {"predicate": f"[(key = {KEY})]", "n": 1}}}
    commit.write_text(json.dumps(info) + "\n" + "\n".join(commit.read_text("utf-8").splitlines()[1:]) + "\n")
    commit.with_name(f".{commit.name}.crc").write_bytes(b"sum")
    commit.with_name(f"{replaced.version:020}.crc").write_text(f'{{"allFiles": [{KEY}]}}')
    remove_old_statistics(replaced)
    assert str(KEY) not in texts_of(replaced)
    assert not [file.name for file in log_of(replaced).iterdir() if file.name.endswith(".crc")]
    assert json.loads(commit.read_text("utf-8").splitlines()[0])["commitInfo"]["operationParameters"]["n"] == 1


def test_a_log_that_cannot_be_read_is_named(replaced: Snapshot) -> None:
    assert replaced.files
    (log_of(replaced) / f"{7:020}.checkpoint.parquet").write_bytes(b"none")
    with pytest.raises(LakeError, match="the statistics in its log cannot be removed"):
        remove_old_statistics(replaced)


def test_counts_stay() -> None:
    assert counts_alone('{"numRecords":3,"minValues":{"a":1}}') == '{"numRecords":3}'
    assert counts_alone("{}") == "{}"
