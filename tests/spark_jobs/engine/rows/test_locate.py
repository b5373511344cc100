from collections.abc import Iterator
from datetime import date, datetime
from decimal import Decimal
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given
from hypothesis import strategies as st
from pyroaring import BitMap64

from spark_jobs.delta import data_files, deletion_vectors
from spark_jobs.delta.snapshot import DataFile, new_table
from spark_jobs.engine.rows import locate
from spark_jobs.engine.rows.locate import Keys, hits
from tests.fix_hypothesis import examples

TYPES = {"id": "BIGINT", "code": "STRING", "day": "DATE", "note": "STRING", "_raw": "MAP<STRING, STRING>"}
RAW = pa.map_(pa.string(), pa.string())
Key = tuple[Any, ...]


def table(keys: list[Key], key: tuple[str, ...]) -> pa.Table:
    """Rows with these keys; a key's part that begins with ! is one that only an exact text holds."""
    columns: dict[str, pa.Array] = {}
    raw: list[dict[str, str]] = [{} for _ in keys]
    for name, kind in (("id", pa.int64()), ("code", pa.string()), ("day", pa.date32()), ("note", pa.string())):
        values = [key_values[key.index(name)] if name in key else None for key_values in keys]
        for at, value in enumerate(values):
            if isinstance(value, str) and value.startswith("!"):
                raw[at][name], values[at] = value, None
        columns[name] = pa.array(values, kind)
    return pa.table({**columns, "_raw": pa.array([list(texts.items()) or None for texts in raw], RAW)})


def located(path: Path, files: list[DataFile], keys: list[Key], key: tuple[str, ...]) -> Iterator[tuple[int, int, Key]]:
    """File, row number, and key of every hit."""
    schema = new_table(str(path), TYPES, {}).schema
    for hit in hits(str(path), files, schema, Keys(table(keys, key), key)):
        for row, at in zip(hit.rows.tolist(), hit.keys.tolist(), strict=True):
            yield files.index(hit.file), row, keys[at]


KEYS: dict[tuple[str, ...], st.SearchStrategy[Key]] = {
    ("id",): st.tuples(st.integers(-5, 40)),
    ("code",): st.tuples(st.text("ab!", max_size=3)),
    ("id", "code"): st.tuples(st.integers(0, 3), st.text("ab!", max_size=2)),
    ("day",): st.tuples(st.one_of(st.dates(date(2026, 1, 1), date(2026, 12, 31)), st.sampled_from(["!0", "!1"]))),
}


@pytest.mark.parametrize("key", KEYS, ids=["+".join(key) for key in KEYS])
def test_hits_are_the_rows_that_have_wanted_keys(key: tuple[str, ...], tmp_path: Path) -> None:
    key_strategy = KEYS[key]

    @examples(40)
    @given(
        st.lists(st.lists(key_strategy, min_size=1, max_size=30), max_size=4),
        st.sets(key_strategy, min_size=1),
        st.integers(1, 8),
    )
    def check(contents: list[list[Key]], looked_for: set[Key], group: int) -> None:
        snapshot = new_table(str(tmp_path), TYPES, {})
        files = [
            data_files.write(str(tmp_path), table(keys, key), snapshot.schema, {}, row_group_rows=group)
            for keys in contents
        ]
        expected = sorted(
            (
                (at, row, value)
                for at, keys in enumerate(contents)
                for row, value in enumerate(keys)
                if value in looked_for
            ),
            key=repr,
        )
        assert sorted(located(tmp_path, files, list(looked_for), key), key=repr) == expected

    check()


def test_rows_that_a_deletion_vector_marks_are_no_hits(tmp_path: Path) -> None:
    snapshot = new_table(str(tmp_path), TYPES, {"delta.enableDeletionVectors": "true"})
    rows = table([(at % 3,) for at in range(9)], ("id",))
    file = data_files.write(str(tmp_path), rows, snapshot.schema, snapshot.configuration)
    (vector,) = deletion_vectors.write(str(tmp_path), [BitMap64([1, 4])])
    marked = DataFile(dict(file.action) | {"deletionVector": vector.to_json()})
    assert [row for _, row, _ in located(tmp_path, [marked], [(1,)], ("id",))] == [7]


def test_two_keys_with_one_hash_are_told_apart(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(locate, "hashes_of", lambda _, count, *__: np.full(count, 7, np.uint64))
    snapshot = new_table(str(tmp_path), TYPES, {})
    file = data_files.write(str(tmp_path), table([(at,) for at in range(6)], ("id",)), snapshot.schema, {})
    assert sorted(located(tmp_path, [file], [(4,), (9,), (1,)], ("id",))) == [(0, 1, (1,)), (0, 4, (4,))]


def test_files_and_row_groups_without_wanted_keys_are_not_read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    snapshot = new_table(str(tmp_path), TYPES, {})
    files = [
        data_files.write(
            str(tmp_path), table([(begin + at,) for at in range(100)], ("id",)), snapshot.schema, {}, row_group_rows=10
        )
        for begin in (0, 100, 200)
    ]
    rows_read: list[int] = []
    original = Keys.ordinals_of

    def counted(self: Keys, rows: pa.Table) -> Any:
        rows_read.append(len(rows))
        return original(self, rows)

    monkeypatch.setattr(Keys, "ordinals_of", counted)
    assert sorted(located(tmp_path, files, [(105,), (119,), (333,)], ("id",))) == [(1, 5, (105,)), (1, 19, (119,))]
    assert rows_read == [10, 10]


def moments(*texts: str) -> list[datetime]:
    return [datetime.fromisoformat(f"{text}+00:00") for text in texts]


@pytest.mark.parametrize(
    "ddl, stored, key_values, rows",
    [
        (
            "TIMESTAMP",
            pa.array(moments("2026-01-02T03:04:05.000001", "9999-12-31"), pa.timestamp("us", "UTC")),
            None,
            [0, 1],
        ),
        ("BIGINT", pa.array([-1, 5, -(1 << 31)], pa.int32()), None, [0, 1, 2]),
        ("INT", pa.array([-1, 5], pa.int8()), [-1], [0]),
        ("DECIMAL(20,4)", pa.array([Decimal("-1.25"), Decimal(7)], pa.decimal128(10, 2)), None, [0, 1]),
        ("TIMESTAMP_NTZ", pa.array([date(1582, 1, 1), date(2026, 1, 1)]), None, [0, 1]),
    ],
)
def test_keys_are_found_in_files_of_another_form(
    tmp_path: Path, ddl: str, stored: pa.Array, key_values: list[Any] | None, rows: list[int]
) -> None:
    """Times as Spark writes them, and types from before a column was widened."""
    schema = new_table(str(tmp_path), {"k": ddl, "_raw": "MAP<STRING, STRING>"}, {}).schema
    pq.write_table(pa.table({"k": stored}), tmp_path / "a.parquet", use_deprecated_int96_timestamps=True)
    kind = schema.arrow(physical=False).field("k").type
    values = stored.cast(kind) if key_values is None else pa.array(key_values, kind)
    keys = Keys(pa.table({"k": values, "_raw": pa.nulls(len(values), RAW)}), ("k",))
    (hit,) = hits(str(tmp_path), [DataFile({"path": "a.parquet"})], schema, keys)
    assert hit.rows.tolist() == rows


def test_a_file_from_before_the_keys_column_has_no_key(tmp_path: Path) -> None:
    schema = new_table(str(tmp_path), {"k": "BIGINT", "_raw": "MAP<STRING, STRING>"}, {}).schema
    pq.write_table(pa.table({"other": [1, 2]}), tmp_path / "a.parquet")
    keys = Keys(pa.table({"k": pa.array([1, None], pa.int64()), "_raw": pa.nulls(2, RAW)}), ("k",))
    (hit,) = hits(str(tmp_path), [DataFile({"path": "a.parquet"})], schema, keys)
    assert (hit.rows.tolist(), hit.keys.tolist()) == ([0, 1], [1, 1])
