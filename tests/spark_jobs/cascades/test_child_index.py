"""Rows of a child found through indexes of its data files."""

from dataclasses import replace
from pathlib import Path
from random import Random
from typing import Any

import pyarrow as pa
import pytest

from spark_jobs.cascades import child_index
from spark_jobs.cascades.key_columns import KeyColumns
from spark_jobs.cascades.mirror_rows import MirrorRows
from spark_jobs.delta import data_files, deletion_vectors, index_files
from spark_jobs.errors import TableStopped
from tests.spark_jobs.cascades.test_mirror_rows import DEFINITION, ROWS, found, mirror


@pytest.fixture(autouse=True)
def _small_files_have_indexes(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(child_index, "_INDEXED_ROWS", 1)
    monkeypatch.setattr(child_index, "_ROWS_A_WEIGHT", 1)


def indexes(rows: MirrorRows) -> list[Path]:
    assert rows.snapshot
    return sorted(index_files.index_files(rows.snapshot.path))


def reopened(rows: MirrorRows) -> MirrorRows:
    """As a later run has the mirror."""
    return MirrorRows(rows.snapshot)


@pytest.fixture
def no_scan(monkeypatch: pytest.MonkeyPatch) -> None:
    """From here on nothing reads columns of a whole file."""

    def refuse(*_args: Any) -> None:
        raise AssertionError("a file is scanned")

    monkeypatch.setattr(data_files, "read_columns", refuse)


def test_a_file_is_scanned_once_for_each_foreign_key(tmp_path: Path, request: pytest.FixtureRequest) -> None:
    rows = mirror(tmp_path, ROWS)
    assert found(rows, ["pid"], (5,)) == [1, 2]
    assert found(rows, ["x"], ("a",)) == [1, 2, 4]
    assert found(rows, ["pid", "x"], (5, "a")) == [1, 2]
    assert len(indexes(rows)) == 3
    request.getfixturevalue("no_scan")
    later = reopened(rows)
    assert found(later, ["PID"], (6,)) == [3]
    assert found(later, ["pid"], (99,)) == []
    assert found(later, ["x"], ("b",)) == [3]
    assert found(later, ["pid", "x"], (6, "a")) == []


def test_an_index_finds_what_a_scan_finds(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    chance = Random(7)
    texts = ["a", "A", "á", "b", "ß", "ss", "", None]
    rows = mirror(tmp_path, [(at, chance.choice([None, *range(40)]), chance.choice(texts)) for at in range(3_000)])
    wanted: dict[tuple[str, ...], list[tuple[Any, ...]]] = {
        ("pid",): [(at,) for at in range(45)],
        ("x", "pid"): [("a", at) for at in range(40)] + [("ss", 3)],
    }
    by_index = {names: {key: found(rows, [*names], key) for key in keys} for names, keys in wanted.items()}
    assert len(indexes(rows)) == 2
    monkeypatch.setattr(child_index, "_INDEXED_ROWS", 1 << 40)
    scanned = reopened(rows)
    assert by_index == {names: {key: found(scanned, [*names], key) for key in keys} for names, keys in wanted.items()}
    assert by_index["x", "pid"]["ss", 3]


def test_rows_that_are_marked_as_deleted_are_not_found(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    rows = mirror(tmp_path, ROWS)
    assert found(rows, ["pid"], (5,)) == [1, 2]
    monkeypatch.setattr(deletion_vectors, "row_numbers", lambda *_args: pa.array([0]).to_numpy())
    assert found(reopened(rows), ["pid"], (5,)) == [2]


def test_another_collation_makes_another_index(tmp_path: Path) -> None:
    rows = mirror(tmp_path, ROWS)
    assert found(rows, ["x"], ("a",)) == [1, 2, 4]
    binary = replace(DEFINITION.columns[2], charset=46)
    definition = replace(DEFINITION, columns=(*DEFINITION.columns[:2], binary))
    by_bytes = reopened(rows).located(KeyColumns.of(definition, ["x"]), ("a",))
    assert [row["id"] for row in by_bytes] == [1, 4]
    assert len(indexes(rows)) == 1
    assert found(reopened(rows), ["x"], ("a",)) == [1, 2, 4]


def test_an_index_that_is_damaged_or_gone_is_made_again(tmp_path: Path) -> None:
    rows = mirror(tmp_path, ROWS)
    assert found(rows, ["pid"], (5,)) == [1, 2]
    (index,) = indexes(rows)
    content = index.read_bytes()
    index.write_bytes(content[:70] + bytes([content[70] ^ 1]) + content[71:])
    assert found(reopened(rows), ["pid"], (5,)) == [1, 2]
    index.unlink()
    assert found(reopened(rows), ["pid"], (5,)) == [1, 2]
    assert index.read_bytes() == content


def test_many_values_are_looked_up_without_an_index(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    rows = mirror(tmp_path, ROWS)
    monkeypatch.setattr(child_index, "_ROWS_A_WEIGHT", 3)
    weights = [(number,) for number in range(2)]
    assert rows.find(KeyColumns.of(DEFINITION, ["pid"]), weights) == []
    assert indexes(rows) == []


def test_values_that_no_typed_column_holds_have_no_index(tmp_path: Path) -> None:
    rows = mirror(tmp_path, [(1, None, "a")], [("Pid", "0x00")])
    for mirror_rows in (rows, reopened(rows)):
        with pytest.raises(TableStopped, match="no typed column holds"):
            found(mirror_rows, ["pid"], (5,))
    assert indexes(rows) == []
