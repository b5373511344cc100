"""A kept log says what one that is read says, whoever commits, and whatever becomes of the table meanwhile."""

import shutil
from collections.abc import Iterator
from pathlib import Path
from random import Random
from threading import Thread
from typing import Any

import pytest
from pyroaring import BitMap64

from spark_jobs.delta import data_files, deletion_vectors, kept, log_files
from spark_jobs.delta.commits import CommitConflict, commit, write_checkpoint
from spark_jobs.delta.history import added_since
from spark_jobs.delta.kept import KeptLog, keeping, kept_log
from spark_jobs.delta.log_files import LogListing
from spark_jobs.delta.snapshot import Snapshot, snapshot_of
from spark_jobs.errors import LakeError
from spark_jobs.lake.commit import APPLICATION
from tests.spark_jobs.delta.tables import MAPPED, append, begin, rows

KEYS = {"key": "BIGINT"}


@pytest.fixture
def logs_are_kept() -> Iterator[None]:
    with keeping():
        yield


def not_kept(path: str, version: int | None = None) -> Snapshot | None:
    """A version as another process reads it."""
    logs, kept._KeptHere.logs = kept._KeptHere.logs, None
    try:
        return snapshot_of(path, version)
    finally:
        kept._KeptHere.logs = logs


def by_another_process(snapshot: Snapshot, **changes: Any) -> int:
    """A commit that this process is not told of."""
    logs, kept._KeptHere.logs = kept._KeptHere.logs, None
    try:
        return commit(snapshot, **changes)
    finally:
        kept._KeptHere.logs = logs


def facts_of(snapshot: Snapshot | None) -> object:
    """Everything that a snapshot says; files in no order, since checkpoints have none."""
    if snapshot is None:
        return None
    files = {file.key: (file.size, file.stats, file.partition_values) for file in snapshot.files}
    rest = snapshot.commit_info, dict(snapshot.transactions), snapshot.domains
    return snapshot.version, snapshot.protocol, snapshot.metadata, files, rest


def random_commit(rng: Random, snapshot: Snapshot, key: int) -> dict[str, Any]:
    """What a writer commits upon a version: rows, rows that go, vectors, or a checkpointed transaction alone."""
    targets = rng.sample(snapshot.files, min(len(snapshot.files), rng.randint(0, 2)))
    transaction = (APPLICATION, snapshot.version + 1)
    match rng.randrange(4):
        case 0 if targets:
            return {"removes": targets, "transaction": transaction}
        case 1 if targets:
            vectors = deletion_vectors.write(snapshot.path, [BitMap64([key % 3]) for _ in targets])
            return {"dv_updates": list(zip(targets, vectors, strict=True)), "transaction": transaction}
        case 2:
            return {"transaction": transaction, "user_metadata": f"u{key}"}
    table = rows(snapshot.schema, [3 * key, 3 * key + 1, 3 * key + 2])
    added = data_files.write(snapshot.path, table, snapshot.schema, snapshot.configuration)
    return {"adds": [added], "transaction": transaction}


def clean(path: str, version: int) -> None:
    """Removes what is older than a version from the log, which has a checkpoint, as maintenance does."""
    for file in Path(path, "_delta_log").iterdir():
        if file.name[:20].isdigit() and int(file.name[:20]) < version:
            file.unlink()


@pytest.mark.parametrize("seed", [0, *(pytest.param(seed, marks=pytest.mark.thorough) for seed in range(1, 6))])
def test_a_kept_log_is_the_one_that_another_process_reads(tmp_path: Path, logs_are_kept: None, seed: int) -> None:
    rng, path = Random(seed), str(tmp_path / "t")
    newest = append(begin(path, MAPPED, KEYS), [0, 1, 2])
    for at in range(1, 50):
        # Two writers; the one without news loses.
        upon = snapshot_of(path) if rng.random() < 0.8 else newest
        assert upon is not None
        change = random_commit(rng, upon, at)
        is_conflict = upon.version != not_kept(path).version  # type: ignore[union-attr]
        write = commit if rng.random() < 0.5 else by_another_process
        if is_conflict:
            with pytest.raises(CommitConflict):
                write(upon, **change)
        else:
            write(upon, **change)
        newest = upon
        # What befalls a table besides.
        version = not_kept(path).version  # type: ignore[union-attr]
        match rng.randrange(12):
            case 0:
                write_checkpoint(path, version)
                clean(path, version - rng.randint(0, 3))
            case 1 if rng.random() < 0.3:
                shutil.rmtree(path)
                assert snapshot_of(path) is None
                newest = append(
                    begin(path, rng.choice([MAPPED, {**MAPPED, "delta.checkpointInterval": "3"}]), KEYS), [at]
                )
            case 2:
                shutil.rmtree(path)
                for number in range(version + 1):  # as many commits as it had, and other rows
                    newest = append(begin(path, MAPPED, KEYS) if number == 0 else newest, [at])
        if rng.random() < 0.6:
            assert facts_of(snapshot_of(path)) == facts_of(not_kept(path)), at
        if rng.random() < 0.2:
            earlier = rng.randint(0, version)
            assert facts_of(snapshot_of(path, earlier)) == facts_of(not_kept(path, earlier)), (at, earlier)
    assert facts_of(snapshot_of(path)) == facts_of(not_kept(path))


def opened_by(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Names of files that are read from here on."""
    names, read_bytes = list[str](), Path.read_bytes

    def noted(path: Path) -> bytes:
        content = read_bytes(path)
        names.append(path.name)
        return content

    monkeypatch.setattr(Path, "read_bytes", noted)
    return names


def test_a_look_reads_what_came_since(tmp_path: Path, logs_are_kept: None, monkeypatch: pytest.MonkeyPatch) -> None:
    snapshot = begin(str(tmp_path / "t"), MAPPED, KEYS)
    for key in range(25):
        snapshot = append(snapshot, [key])
    assert len(snapshot.files) == 25
    opened = opened_by(monkeypatch)
    # Of own commits nothing.
    snapshot = append(snapshot, [25])
    assert len(snapshot.files) == 26
    assert opened == []
    # Of another writer's commits each once, whoever looks.
    by_another_process(snapshot, transaction=(APPLICATION, 1), user_metadata="u")
    for _ in range(3):
        assert snapshot_of(snapshot.path).version == snapshot.version + 1  # type: ignore[union-attr]
        assert added_since(snapshot.path, snapshot.version, snapshot.version + 1) == ()
    assert opened == [f"{snapshot.version + 1:020}.json"]


def test_files_that_nobody_asks_for_are_not_listed(
    tmp_path: Path, logs_are_kept: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A table that is appended to for ever takes the same memory, and a look reads its log again now and then."""
    snapshot = begin(str(tmp_path / "t"), MAPPED, KEYS)
    reads: list[str] = []
    read = log_files.read_log

    def noted(path: str) -> LogListing | None:
        reads.append(path)
        return read(path)

    monkeypatch.setattr(kept, "read_log", noted)
    weights = set()
    for key in range(100):
        snapshot = append(snapshot, [key])
        with kept_log(snapshot.path) as log:
            assert log is not None
            log.weigh()
            weights.add(log.weight)
    assert len(reads) <= 100 // 20 + 2
    assert max(weights) < 50 * 3_000
    assert len(snapshot.files) == 100


def test_logs_are_forgotten_where_all_take_too_much(
    tmp_path: Path, logs_are_kept: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(kept, "_ALL_BYTES", 5 * 3_000)
    tables = [append(begin(str(tmp_path / name), MAPPED, KEYS), [1]) for name in "abcdefgh"]
    for snapshot in (*tables, *tables):
        assert len(snapshot_of(snapshot.path).files) == 1  # type: ignore[union-attr]
        assert len(kept._KeptHere.logs.by_path) <= 5  # type: ignore[union-attr]


def test_what_a_thread_sees_is_what_others_committed(tmp_path: Path, logs_are_kept: None) -> None:
    """Threads commit by turns of their own, and lose; none sees a state that was not there."""
    path = append(begin(str(tmp_path / "t"), MAPPED, KEYS), [0]).path
    wins: list[int] = []

    def write() -> None:
        for _ in range(15):
            upon = snapshot_of(path)
            assert upon is not None
            assert upon.transactions.get(APPLICATION, 0) == upon.version
            try:
                wins.append(commit(upon, transaction=(APPLICATION, upon.version + 1)))
            except CommitConflict:
                continue

    threads = [Thread(target=write) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert sorted(wins) == list(range(1, len(wins) + 1))
    assert facts_of(snapshot_of(path)) == facts_of(not_kept(path))


def test_a_commit_without_actions_stops_a_kept_log_too(tmp_path: Path, logs_are_kept: None) -> None:
    snapshot = append(begin(str(tmp_path / "t"), MAPPED, KEYS), [0])
    broken = tmp_path / "t" / "_delta_log" / f"{1:020}.json"
    broken.write_bytes(b"")
    with pytest.raises(LakeError, match="version 1 of its log is empty"):
        snapshot_of(snapshot.path)
    broken.unlink()
    assert snapshot_of(snapshot.path).version == 0  # type: ignore[union-attr]


def test_nothing_is_kept_by_default(tmp_path: Path) -> None:
    path = append(begin(str(tmp_path / "t"), MAPPED, KEYS), [0]).path
    with kept_log(path) as log:
        assert log is None
    with keeping(), kept_log(path) as log:
        assert isinstance(log, KeptLog)


def test_a_checkpoint_that_is_removed_before_its_files_were_listed(tmp_path: Path) -> None:
    snapshot = begin(str(tmp_path / "t"), MAPPED, KEYS)
    for key in range(12):
        snapshot = append(snapshot, [key])
    with keeping():
        upon = snapshot_of(snapshot.path)
        assert upon is not None
        by_another_process(upon, transaction=(APPLICATION, 1))
        write_checkpoint(snapshot.path, 12)
        clean(snapshot.path, 11)  # the newest commit that was looked at stays
        assert len(snapshot_of(snapshot.path).files) == 12  # type: ignore[union-attr]


def test_an_earlier_snapshot_says_what_it_said(tmp_path: Path, logs_are_kept: None) -> None:
    first = append(begin(str(tmp_path / "t"), MAPPED, KEYS), [0], transaction=(APPLICATION, 1))
    assert len(first.files) == 1
    second = append(first, [1], transaction=(APPLICATION, 2))
    assert (len(second.files), second.transactions) == (2, {APPLICATION: 2})
    assert (len(first.files), first.transactions) == (1, {APPLICATION: 1})


def test_a_version_that_is_asked_for_is_that_one_where_another_follows_meanwhile(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    first, read_log = append(begin(str(tmp_path / "t"), MAPPED, KEYS), [0]), log_files.read_log
    with keeping():
        kept.newest_commits(first.path)
        by_another_process(first, transaction=(APPLICATION, 1))
        assert kept.newest_commits(first.path).version == 1  # type: ignore[union-attr]
        upon = not_kept(first.path)
        assert upon

        def late_read(path: str) -> LogListing | None:
            by_another_process(upon, transaction=(APPLICATION, 2))
            return read_log(path)

        monkeypatch.setattr(kept, "read_log", late_read)
        assert facts_of(snapshot_of(first.path, 1)) == facts_of(upon)
