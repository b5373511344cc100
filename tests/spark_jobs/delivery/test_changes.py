from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from pyroaring import BitMap64

from spark_jobs.delivery import changes
from spark_jobs.delivery.changes import (
    KeyedChanges,
    KeylessChanges,
    TableDelta,
    key_shares,
    require_different_keys,
    windows,
)
from spark_jobs.delivery.encode import OutputColumn
from spark_jobs.delta import commits, data_files, deletion_vectors
from spark_jobs.delta.snapshot import Snapshot
from spark_jobs.errors import DeliveryError, LakeError
from tests.spark_jobs.delta.tables import begin, newest

COLUMNS = (OutputColumn("key", "int"), OutputColumn("n", "int"))
TYPES = {"key": "BIGINT", "n": "INT", "_raw": "MAP<STRING, STRING>"}


def commit(snapshot: Snapshot, rows: dict[int, int], delete: tuple[int, ...] = (), *, moves: bool = False) -> Snapshot:
    """Adds a file of rows, and deletes row numbers of the first file; moves: the file has all rows, as by OPTIMIZE."""
    decoded: dict[str, Any] = {}
    if rows:
        table = pa.Table.from_pydict(
            {"key": list(rows), "n": list(rows.values()), "_raw": [None] * len(rows)},
            schema=snapshot.schema.arrow(physical=False),
        )
        decoded["adds"] = [data_files.write(snapshot.path, table, snapshot.schema, snapshot.configuration)]
    if delete:
        file = snapshot.files[0]
        present = deletion_vectors.row_numbers(snapshot.path, file.deletion_vector)
        [vector] = deletion_vectors.write(snapshot.path, [BitMap64([*present.tolist(), *delete])])
        decoded["dv_updates"] = [(file, vector)]
    if moves:
        decoded["removes"] = list(snapshot.files)
    version = commits.commit(snapshot, **decoded)
    if moves:
        log = Path(snapshot.path) / "_delta_log" / f"{version:020}.json"
        log.write_text(log.read_text().replace('"dataChange":true', '"dataChange":false'))
    return newest(snapshot.path, version)


def net(window: TableDelta) -> tuple[list[int], dict[int, int], dict[int, int]]:
    """Keys deleted; rows updated and inserted."""
    deleted: list[int] = []
    writes: dict[bool, dict[int, int]] = {True: {}, False: {}}
    for share in key_shares(window):
        keyed = KeyedChanges(window, COLUMNS, COLUMNS[:1], COLUMNS[:1], share)
        deleted += [key for rows in keyed.deletes() for key in rows.column("key").to_pylist()]
        for rows, is_update in keyed.writes():
            writes[is_update] |= dict(zip(*(rows.column(name).to_pylist() for name in ("key", "n")), strict=True))
    return sorted(deleted), writes[True], writes[False]


@pytest.fixture
def table(tmp_path: Path) -> Snapshot:
    return commit(begin(str(tmp_path / "t"), types=TYPES), {1: 1, 2: 2, 3: 3, 4: 4})


def test_the_first_window_has_all_rows(table: Snapshot) -> None:
    after = commit(table, {}, (0,))
    [window] = windows(table.path, None, after.version)
    assert net(window) == ([], {}, {2: 2, 3: 3, 4: 4})
    assert (window.rows, window.after.version) == (3, 1)


@pytest.mark.parametrize("keys_at_once", [1 << 20, 1])
def test_the_net_change_of_some_versions(table: Snapshot, keys_at_once: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(changes, "KEYS_AT_ONCE", keys_at_once)
    after = commit(table, {1: 10, 9: 9}, (0, 1))  # 1 is updated, 2 deleted, 9 inserted
    after = commit(after, {8: 8}, (3,))
    [window] = windows(table.path, 0, after.version)
    assert net(window) == ([2, 4], {1: 10}, {8: 8, 9: 9})
    [window] = windows(table.path, 1, after.version)
    assert net(window) == ([4], {}, {8: 8})
    assert list(windows(table.path, 2, 2)) == []


def test_rows_that_only_move_are_left_out(table: Snapshot) -> None:
    after = commit(table, {5: 5})
    moved = commit(after, {1: 1, 2: 2, 3: 3, 4: 4, 5: 5}, moves=True)
    after = commit(moved, {6: 6})
    assert [net(window) for window in windows(table.path, 0, after.version)] == [([], {}, {5: 5}), ([], {}, {6: 6})]
    # A version in which rows have moved is one that the target can have.
    for since in (0, 1):
        *_, window = windows(table.path, since, moved.version)
        assert (window.after.version, window.rows) == (moved.version, 0)


def test_rows_without_a_key_are_counted(table: Snapshot) -> None:
    after = commit(table, {}, (0,))
    after = commit(after, {2: 2, 7: 7}, ())
    [window] = windows(table.path, 0, after.version)
    rows, copies = KeylessChanges(window, COLUMNS, key_shares(window)[0]).net()
    assert dict(zip(rows.column("key").to_pylist(), copies.tolist(), strict=True)) == {1: -1, 2: 1, 7: 1}


@pytest.mark.parametrize("keys_at_once", [1 << 20, 1])
def test_rows_that_came_and_have_one_key(table: Snapshot, keys_at_once: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(changes, "KEYS_AT_ONCE", keys_at_once)
    after = commit(commit(table, {5: 5, 6: 6}), {7: 5})
    [window] = windows(table.path, 0, after.version)
    require_different_keys("delivery x: s.t", window, COLUMNS[:1], ("key",))
    with pytest.raises(DeliveryError, match=r"^delivery x: s\.t: rows of the source have one key .* source \(key\), "):
        require_different_keys("delivery x: s.t", window, COLUMNS[1:], ("key",))
    with pytest.raises(DeliveryError, match="or remove it, and deliver again"):
        require_different_keys("delivery x: s.t", window, COLUMNS[1:], ())
    # Those that went count for nothing.
    [window] = windows(table.path, after.version, commit(after, {1: 8}, (0, 1)).version)
    require_different_keys("delivery x: s.t", window, COLUMNS[1:], ("key",))


def test_a_version_that_the_lake_does_not_have(table: Snapshot) -> None:
    after = commit(table, {5: 5})
    (Path(table.path) / "_delta_log" / f"{1:020}.json").unlink()
    with pytest.raises(LakeError, match="--reload"):
        list(windows(table.path, 0, after.version + 1))
