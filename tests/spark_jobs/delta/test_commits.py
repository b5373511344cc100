import json
import logging
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path

import deltalake
import pytest

from spark_jobs.delta import commits, data_files
from spark_jobs.delta.commits import CommitConflict, commit
from spark_jobs.delta.deletion_vectors import Descriptor
from spark_jobs.delta.features import why_not
from spark_jobs.delta.log_files import UnsupportedTable
from spark_jobs.delta.snapshot import DataFile, Snapshot, commit_info_of, new_table, snapshot_of
from spark_jobs.errors import LakeError, LostRace
from tests.spark_jobs.delta.tables import BRONZE, MAPPED, all_rows, append, begin, newest, rows


def actions(snapshot: Snapshot) -> list[dict[str, object]]:
    text = Path(snapshot.path, "_delta_log", f"{snapshot.version:020}.json").read_text()
    return [json.loads(line) for line in text.splitlines()]


def test_the_first_commit_makes_the_table(tmp_path: Path) -> None:
    snapshot = begin(str(tmp_path / "new" / "t"))
    assert not (tmp_path / "new").exists(), "nothing is written before"
    assert commit(snapshot, user_metadata="m") == 0
    first = newest(snapshot.path, 0)
    assert [next(iter(action)) for action in actions(first)] == ["commitInfo", "protocol", "metaData"]
    assert (first.metadata, first.protocol, first.files) == (snapshot.metadata, snapshot.protocol, ())
    assert first.schema == snapshot.schema


def test_what_a_commit_says(tmp_path: Path) -> None:
    snapshot = append(
        begin(str(tmp_path / "t")),
        range(3),
        transaction=("stratalog", 7),
        user_metadata='{"ü": "${x}"}\n',
        operation="MERGE",
        operation_parameters={"predicate": "[]"},
        metrics={"numOutputRows": 3},
    )
    snapshot = append(snapshot, range(3, 5))
    info = commit_info_of(snapshot.path, 0)
    assert info is not None
    assert info["operation"] == "MERGE"
    assert info["operationParameters"] == {"predicate": "[]"}
    assert info["operationMetrics"] == {"numOutputRows": "3"}
    assert info["userMetadata"] == '{"ü": "${x}"}\n'
    assert "readVersion" not in info
    assert snapshot.commit_info["readVersion"] == 0
    assert snapshot.commit_info["isBlindAppend"]
    assert snapshot.transactions == {"stratalog": 7}
    assert all_rows(snapshot) == rows(snapshot.schema, range(5)).to_pylist()


def test_a_commit_that_adds_files_lists_none(tmp_path: Path) -> None:
    """However many files a table has, an append costs the same."""
    snapshot = append(begin(str(tmp_path / "t")), [1])

    def listed() -> tuple[DataFile, ...]:
        raise AssertionError("the table's files are listed")

    file = data_files.write(snapshot.path, rows(snapshot.schema, [2]), snapshot.schema, snapshot.configuration)
    upon = replace(snapshot, list_files=listed)
    assert why_not(upon, appends=True) is None
    assert commit(upon, adds=[file]) == 1
    with pytest.raises(AssertionError, match="files are listed"):
        commit(upon, removes=[file])
    assert all_rows(newest(snapshot.path, 1)) == rows(snapshot.schema, [1, 2]).to_pylist()


def test_whoever_planned_on_an_older_version_loses(tmp_path: Path) -> None:
    old = append(begin(str(tmp_path / "t")), [1])
    append(old, [2])
    with pytest.raises(CommitConflict, match=r"t: planned on version 0, but another writer committed first") as info:
        append(old, [3])
    assert isinstance(info.value, LostRace)
    with pytest.raises(CommitConflict):
        append(begin(str(tmp_path / "t")), [3])
    assert [row["key"] for row in all_rows(newest(old.path, 1))] == [1, 2]


def test_of_writers_at_once_each_version_has_one(tmp_path: Path) -> None:
    snapshot = append(begin(str(tmp_path / "t")), [0])

    def work(writer: int) -> list[int]:
        versions: list[int] = []
        while len(versions) < 4:
            head = snapshot_of(snapshot.path)
            assert head is not None
            try:
                versions.append(commit(head, user_metadata=str(writer)))
            except CommitConflict:
                continue
        return versions

    with ThreadPoolExecutor(4) as pool:
        by_writer = list(pool.map(work, range(4)))
    assert sorted(version for versions in by_writer for version in versions) == list(range(1, 17))
    for writer, own_versions in enumerate(by_writer):
        infos = [commit_info_of(snapshot.path, version) for version in own_versions]
        assert [info and info["userMetadata"] for info in infos] == [str(writer)] * 4


def test_files_are_removed_as_they_are_in_the_log(tmp_path: Path) -> None:
    snapshot = append(append(begin(str(tmp_path / "t")), [1]), [2])
    file = snapshot.files[0]
    commit(snapshot, removes=[file])
    after = newest(snapshot.path, 2)
    assert [row["key"] for row in all_rows(after)] == [2]
    removed = next(action["remove"] for action in actions(after) if "remove" in action)
    assert isinstance(removed, dict)
    assert (removed["path"], removed["size"], removed["dataChange"]) == (file.path, file.size, True)
    assert not after.commit_info["isBlindAppend"]
    with pytest.raises(LakeError, match="version 2 has no file"):
        commit(after, removes=[file])
    with pytest.raises(LakeError, match="version 2 has no file"):
        commit(after, removes=[after.files[0], after.files[0]])


def test_a_new_vector_takes_the_place_of_the_old_one(tmp_path: Path) -> None:
    snapshot = append(begin(str(tmp_path / "t")), range(5))
    for count, name in ((1, "a"), (2, "b")):
        commit(snapshot, dv_updates=[(snapshot.files[0], Descriptor("u", name, 1, 40, count))])
        snapshot = newest(snapshot.path, snapshot.version + 1)
    (file,) = snapshot.files
    assert (file.num_records, file.num_rows, file.stats["tightBounds"]) == (5, 3, False)
    assert file.deletion_vector == Descriptor("u", "b", 1, 40, 2)
    commit(snapshot, dv_updates=[(file, Descriptor("u", "c", 1, 40, 5))])
    assert newest(snapshot.path, 3).files == ()


@pytest.mark.parametrize("properties", [MAPPED, BRONZE, {}])
def test_each_tenth_version_has_a_checkpoint(tmp_path: Path, properties: dict[str, str]) -> None:
    snapshot = begin(str(tmp_path / "t"), properties)
    for key in range(22):
        snapshot = append(snapshot, [key])
    names = sorted(file.name for file in (tmp_path / "t" / "_delta_log").glob("*.checkpoint*"))
    assert names == [f"{version:020}.checkpoint.parquet" for version in (10, 20)]
    assert json.loads((tmp_path / "t" / "_delta_log" / "_last_checkpoint").read_text())["version"] == 20
    assert all_rows(snapshot) == rows(snapshot.schema, range(22)).to_pylist()


def test_the_table_says_how_often(tmp_path: Path) -> None:
    snapshot = begin(str(tmp_path / "t"), MAPPED | {"delta.checkpointInterval": "3"})
    for key in range(5):
        snapshot = append(snapshot, [key])
    assert [file.name for file in (tmp_path / "t" / "_delta_log").glob("*.checkpoint*")] == [
        f"{3:020}.checkpoint.parquet"
    ]


def test_a_checkpoint_is_durable_with_what_names_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    synced = list[str]()
    monkeypatch.setattr(commits, "sync_file", lambda file: synced.append(file.name))
    snapshot = append(begin(str(tmp_path / "t"), {"delta.checkpointInterval": "2"}), [0])
    append(append(snapshot, [1]), [2])
    assert synced == [f"{2:020}.checkpoint.parquet", "_last_checkpoint"]


def test_a_checkpoint_that_fails_fails_no_commit(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    snapshot = append(begin(str(tmp_path / "t"), {"delta.checkpointInterval": "2"}), [0])
    snapshot = append(snapshot, [1])
    blocked = tmp_path / "t" / "_delta_log" / f"{2:020}.checkpoint.parquet"
    blocked.mkdir()
    with caplog.at_level(logging.WARNING):
        assert commit(snapshot) == 2
    assert "version 2 has no checkpoint" in caplog.text
    blocked.rmdir()
    assert len(newest(snapshot.path, 2).files) == 2


@pytest.mark.parametrize("path", ["hdfs://name/t", "wasb://b/t"])
def test_other_stores_are_refused(path: str) -> None:
    with pytest.raises(UnsupportedTable, match="are not read or written"):
        commit(new_table(path, {"a": "INT"}, {}))


def test_deltalake_reads_what_is_written(tmp_path: Path) -> None:
    snapshot = begin(str(tmp_path / "t"), {})
    for keys in (range(3), range(3, 6)):
        snapshot = append(snapshot, keys, transaction=("stratalog", keys.stop), user_metadata="m")
    table = deltalake.DeltaTable(snapshot.path)
    assert table.version() == 1
    assert table.transaction_version("stratalog") == 6
    assert table.history(1)[0]["userMetadata"] == "m"
    opened = deltalake.QueryBuilder().register("t", table).execute("SELECT key FROM t ORDER BY key").read_all()
    assert (
        [row["key"] for row in opened.to_struct_array().to_pylist()] == list(range(6))
        if hasattr(opened, "to_struct_array")
        else True
    )
    assert commits.write_checkpoint(snapshot.path, 1)
