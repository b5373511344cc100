import json
from pathlib import Path

import deltalake
import pyarrow as pa
import pytest

from spark_jobs.errors import LakeError
from spark_jobs.lake import own_commits
from spark_jobs.lake.commit import Checkpoint, CommitKind
from spark_jobs.lake.layout import Lake
from spark_jobs.lake.table import Table
from spark_jobs.log.position import Position
from tests.spark_jobs.delta.tables import append, begin


def test_files_written_together_say_what_the_commit_below_them_says(tmp_path: Path) -> None:
    """Theirs was told before it began, and another one has come by meanwhile."""

    def saying(offset: int, kind: str) -> deltalake.CommitProperties:
        checkpoint = Checkpoint(Position("f.000001", offset), f"{kind} at {offset}", kind)
        return deltalake.CommitProperties(custom_metadata={"userMetadata": checkpoint.to_json()})

    for offset, commit_kind in ((4, "live"), (4, CommitKind.MAINTENANCE), (9, "live")):
        rows = pa.table({"a": [offset]})
        deltalake.write_deltalake(tmp_path, rows, mode="append", commit_properties=saying(offset, commit_kind))
    table = Table(str(tmp_path), plain=False)
    for _ in range(2):
        deltalake.DeltaTable(tmp_path).optimize.compact(commit_properties=saying(4, CommitKind.MAINTENANCE))
        deltalake.write_deltalake(tmp_path, pa.table({"a": [1]}), mode="append")  # by somebody else
    deltalake.DeltaTable(tmp_path).optimize.compact(commit_properties=saying(4, CommitKind.MAINTENANCE))
    head = table.head()
    assert head is not None
    assert head.checkpoint is not None
    assert (head.version, head.position, head.checkpoint.kind) == (7, Position("f.000001", 9), CommitKind.MAINTENANCE)
    newer = [(version, checkpoint.position.offset, checkpoint.kind) for version, checkpoint in table.since(0)]
    moved = [(version, 9, CommitKind.MAINTENANCE) for version in (7, 5, 3)]
    assert newer == [*moved, (2, 9, "live"), (1, 4, CommitKind.MAINTENANCE)]
    assert [version for version, _ in table.since(4)] == [7, 5], "what they say is below"


BETWEEN: list[dict[str, object]] = [
    {"kind": "altering"},
    {"kind": "widened"},
    {"left": ["DROP COLUMN `v`"]},
    {"altered": 7},
]
"""What commits of earlier versions said in the middle of a statement."""


@pytest.mark.parametrize("members", BETWEEN, ids=str)
@pytest.mark.parametrize("is_moved", [False, True], ids=["", "its files were written together"])
def test_a_table_in_the_middle_of_a_statement_is_refused(
    tmp_path: Path, members: dict[str, object], *, is_moved: bool
) -> None:
    """Once its version has finished it, the commits in the middle are none of the table's."""

    def saying(offset: int, **members: object) -> deltalake.CommitProperties:
        text = json.dumps({"stratalog": json.loads(commit_info_at(offset))["stratalog"] | members})
        return deltalake.CommitProperties(custom_metadata={"userMetadata": text})

    rows = pa.table({"a": [1]})
    deltalake.write_deltalake(tmp_path, rows, mode="append", commit_properties=saying(4))
    table = Table(str(tmp_path), plain=False)
    assert table.head()
    deltalake.write_deltalake(tmp_path, rows, mode="append", commit_properties=saying(9, **members))
    if is_moved:
        deltalake.DeltaTable(tmp_path).optimize.compact(commit_properties=saying(9, kind="maintenance"))
    with pytest.raises(LakeError, match=rf"^{tmp_path}: .* ended in the middle of a statement.* run that version once"):
        table.head()
    deltalake.write_deltalake(tmp_path, rows, mode="append", commit_properties=saying(12))
    head = table.head()
    assert head
    assert head.position == Position("f.000001", 12)
    assert [commit.position.offset for _, commit in table.since(-1)] == [12, 4]


def test_there_is_no_head_without_a_table(tmp_path: Path) -> None:
    table = Lake(str(tmp_path)).bronze("shop")
    assert (table.head(), table.columns(), table.since(0)) == (None, {}, [])


def test_a_broken_log_is_said_with_its_path(tmp_path: Path) -> None:
    table = Lake(str(tmp_path)).bronze("shop")
    log = Path(table.path, "_delta_log")
    log.mkdir(parents=True)
    (log / "00000000000000000000.json").write_text("{")
    with pytest.raises(LakeError, match=rf"^{table.path}: cannot be read: "):
        table.head()


def commit_info_at(offset: int) -> str:
    return Checkpoint(Position("f.000001", offset), f"batch {offset}").to_json()


def test_the_newest_commits_say_the_head_and_no_table_is_opened(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = str(tmp_path / "t")
    snapshot = begin(path)
    for counter in range(1, 13):  # a checkpoint at version 10
        snapshot = append(
            snapshot, [counter], transaction=("stratalog", counter), user_metadata=commit_info_at(counter)
        )
    opened = Table(path, plain=False)
    by_whole_log = own_commits._head_by_whole_log(path)
    monkeypatch.setattr(own_commits, "deltalake_table", lambda _: pytest.fail("the table was opened"))
    head = opened.head()
    assert head == by_whole_log
    assert head is not None
    assert (head.version, head.counter, head.position) == (11, 12, Position("f.000001", 12))
    assert [version for version, _ in opened.since(4)] == list(range(11, 4, -1))


def test_commits_of_others_hide_the_head_from_a_glance(tmp_path: Path) -> None:
    path = str(tmp_path / "t")
    snapshot = append(begin(path), [1], transaction=("stratalog", 1), user_metadata=commit_info_at(7))
    for key in range(own_commits._LOOKED_AT + 1):
        snapshot = append(snapshot, [key])
    head = Table(path, plain=False).head()
    assert head is not None
    assert (head.version, head.counter, head.position) == (snapshot.version, 1, Position("f.000001", 7))


def test_commits_that_were_removed_are_asked_of_the_whole_log(tmp_path: Path) -> None:
    path = str(tmp_path / "t")
    snapshot = begin(path)
    for counter in range(1, 13):
        snapshot = append(
            snapshot, [counter], transaction=("stratalog", counter), user_metadata=commit_info_at(counter)
        )
    for version in range(9):
        (tmp_path / "t" / "_delta_log" / f"{version:020}.json").unlink()
    assert [version for version, _ in Table(path, plain=False).since(2)] == [11, 10, 9]
