import os
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from spark_jobs.delta import data_files, index_files, key_index
from spark_jobs.delta.index_files import FOLDER, Damaged
from spark_jobs.delta.snapshot import DataFile, new_table
from spark_jobs.delta.value_hash import Hashes
from spark_jobs.engine.rows import locate
from spark_jobs.engine.rows.locate import Keys, hits
from tests.fix_hypothesis import examples

TYPES = {"id": "BIGINT", "_raw": "MAP<STRING, STRING>"}
RAW = pa.map_(pa.string(), pa.string())


def table(keys: list[int]) -> pa.Table:
    return pa.table({"id": pa.array(keys, pa.int64()), "_raw": pa.nulls(len(keys), RAW)})


def file_of(folder: Path, keys: list[int]) -> DataFile:
    return data_files.write(str(folder), table(keys), new_table(str(folder), TYPES, {}).schema, {})


def hashed(keys: list[int]) -> tuple[Hashes, key_index.Checks]:
    return Keys(table(keys), ["id"]).hashed(table(keys))


def build(folder: Path, file: DataFile, keys: list[int]) -> None:
    key_index.build(folder, file, ["id"], hashed(keys))


def looked_up(folder: Path, file: DataFile, keys: list[int]) -> list[tuple[int, int]]:
    index = key_index.stored_index(folder, file, ["id"])
    assert index
    rows, ordinals = index.lookup(*hashed(keys))
    return sorted(zip(rows.tolist(), (keys[at] for at in ordinals.tolist()), strict=True))


def test_a_lookup_finds_the_rows_that_have_a_key(tmp_path: Path) -> None:
    @examples(30)
    @given(st.lists(st.integers(0, 4000), max_size=1600), st.sets(st.integers(-5, 4005), max_size=40))
    def check(keys: list[int], looked_for: set[int]) -> None:
        file = file_of(tmp_path, keys or [0])
        build(tmp_path, file, keys or [0])
        expected = [(at, key) for at, key in enumerate(keys or [0]) if key in looked_for]
        assert looked_up(tmp_path, file, list(looked_for)) == expected

    check()


def test_keys_with_equal_hashes_span_blocks(tmp_path: Path) -> None:
    keys = [7] * 1500 + list(range(100, 400))
    file = file_of(tmp_path, keys)
    build(tmp_path, file, keys)
    assert [row for row, _ in looked_up(tmp_path, file, [7])] == list(range(1500))


def test_every_damaged_byte_is_seen_before_a_row_is_named(tmp_path: Path) -> None:
    keys = list(range(1200))
    file = file_of(tmp_path, keys)
    build(tmp_path, file, keys)
    (path,) = (tmp_path / FOLDER).iterdir()
    content = path.read_bytes()
    expected = looked_up(tmp_path, file, keys)
    harmless = range(44, 64)  # the header's filling
    for at in (at for at in range(0, len(content), 61) if at not in harmless):
        path.write_bytes(content[:at] + bytes([content[at] ^ 0x10]) + content[at + 1 :])
        index = key_index.stored_index(tmp_path, file, ["id"])
        if index is not None:
            with pytest.raises(Damaged):
                index.lookup(*hashed(keys))
    path.write_bytes(content)
    assert looked_up(tmp_path, file, keys) == expected


@pytest.mark.parametrize("content", [b"", b"STRKEYS2", b"x" * 64], ids=["empty", "short", "another"])
def test_what_is_no_index_is_none(content: bytes, tmp_path: Path) -> None:
    file = file_of(tmp_path, [1, 2])
    build(tmp_path, file, [1, 2])
    (path,) = (tmp_path / FOLDER).iterdir()
    path.write_bytes(content)
    assert key_index.stored_index(tmp_path, file, ["id"]) is None


def test_an_index_of_another_key_or_file_is_none(tmp_path: Path) -> None:
    file = file_of(tmp_path, [1, 2])
    build(tmp_path, file, [1, 2])
    assert key_index.stored_index(tmp_path, file, ["id", "more"]) is None
    assert key_index.stored_index(tmp_path, DataFile(dict(file.action) | {"size": file.size + 1}), ["id"]) is None


def test_locating_keys_by_index_and_by_reading_the_file_is_the_same(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(locate, "_INDEXED_ROWS", 1)
    monkeypatch.setattr(locate, "_ROWS_A_KEY", 1)
    rng = np.random.default_rng(11)
    keys = rng.permutation(5000).tolist()
    file = file_of(tmp_path, keys)
    looked_for = rng.integers(-100, 5100, 300)
    schema = new_table(str(tmp_path), TYPES, {}).schema
    for _ in ("built", "used"):
        (hit,) = hits(str(tmp_path), [file], schema, Keys(table(np.unique(looked_for).tolist()), ["id"]))
        assert {keys[row] for row in hit.rows.tolist()} == {*keys} & {*looked_for.tolist()}
        assert (tmp_path / FOLDER).is_dir()


@pytest.mark.skipif(os.geteuid() == 0, reason="root writes everywhere")
def test_a_folder_that_cannot_be_written_has_no_index(tmp_path: Path) -> None:
    file = file_of(tmp_path, [1, 2])
    tmp_path.chmod(0o555)
    build(tmp_path, file, [1, 2])
    assert key_index.stored_index(tmp_path, file, ["id"]) is None


def test_a_place_that_is_taken_has_no_index(tmp_path: Path) -> None:
    file = file_of(tmp_path, [1, 2])
    (tmp_path / FOLDER).write_bytes(b"")
    build(tmp_path, file, [1, 2])
    assert [path.name for path in tmp_path.glob(f"{FOLDER}*")] == [FOLDER]


def test_indexes_go_with_their_data_files(tmp_path: Path) -> None:
    first, second = (file_of(tmp_path, keys) for keys in ([1], [2]))
    for file, keys in ((first, [1]), (second, [2])):
        build(tmp_path, file, keys)
    first.location(str(tmp_path)).unlink()
    assert index_files.remove_stale(str(tmp_path)) == 1
    assert key_index.stored_index(tmp_path, first, ["id"]) is None
    assert looked_up(tmp_path, second, [2]) == [(0, 2)]
