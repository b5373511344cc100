"""What Spark answers about a downstream table, beside a plain twin of the texts and digests."""

import hashlib
from itertools import chain
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pytest
from pyspark.sql import SparkSession

from spark_jobs.binlog import TableName
from spark_jobs.checks.verify.bucket_sums import HashedColumns
from spark_jobs.checks.verify.lake_rows import LakeRows, SilverRows
from spark_jobs.checks.verify.protocol import Buckets, KeySet
from spark_jobs.checks.verify.row_digest import DIGITS, DigestLayout, layout
from spark_jobs.config.modes import Mode
from spark_jobs.delta.snapshot import DataFile, snapshot_of
from spark_jobs.downstream.modes import CURRENT_ROWS
from spark_jobs.errors import TableStopped
from spark_jobs.lake.table import Table
from spark_jobs.log.position import Position

pytestmark = pytest.mark.spark
LISTED = [
    {"name": "__key", "kind": "varchar", "declared": "varchar(9)", "charset": "utf8mb4", "fraction": None},
    {"name": "n", "kind": "int", "declared": "int", "charset": None, "fraction": None},
]
ROWS = [("a", 1), ("A", None), ("é,", 3), ("", 4)]


def text_of(word: str) -> bytes:
    return b"%d:%s" % (len(word.encode()), word.encode())


def digest(row: tuple[str, int | None]) -> int:
    text = text_of(row[0]) + (b"" if row[1] is None else b"%d" % row[1]) + b","
    return int(hashlib.sha256(text).hexdigest()[:DIGITS], 16)


def layout_of(lake: dict[str, str]) -> DigestLayout:
    return layout(TableName("shop", "t"), LISTED, lake, ("__key",))


def written_table(spark: SparkSession, path: Path, select: str) -> Table:
    spark.sql(select).write.format("delta").save(str(path))
    return Table(str(path), plain=False)


def test_what_is_told_of_rows(spark: SparkSession, tmp_path: Path) -> None:
    values = ", ".join(f"('{word}', {'NULL' if n is None else n})" for word, n in [*ROWS, ROWS[0]])
    table = written_table(
        spark,
        tmp_path / "t",
        "SELECT col1 AS `__key`, cast(col2 AS INT) AS n, cast(NULL AS MAP<STRING, STRING>) AS _raw "
        f"FROM VALUES {values}",
    )
    rows = LakeRows(spark, table, layout_of(table.columns()))
    buckets, columns = rows.buckets(8), HashedColumns.of(rows.layout, 8)
    stored = table.read(spark).toArrow().select(columns.schema.names)
    expected = Buckets.empty(8)
    expected.add_rows(columns.buckets_of(stored), columns.digests_of(stored))
    assert (buckets.rows.sum(), list(buckets.unlike(expected))) == (rows.count(), [])
    in_lake, absent = columns.key_hashes(stored), np.array([7], np.uint64)
    digests = rows.digests_of(KeySet.of([text_of("a"), text_of("A"), text_of("b")], in_lake, absent))
    pairs = sorted(zip(digests["key"].to_pylist(), digests["digest"].to_pylist(), strict=True))
    assert pairs == sorted([(text_of("A"), digest(ROWS[1])), *[(text_of("a"), digest(ROWS[0]))] * 2])
    chosen = {
        bucket: sorted(rows.digests_in([bucket], 8)["key"].to_pylist())
        for bucket in np.flatnonzero(buckets.rows).tolist()
    }
    assert sorted(chain(*chosen.values())) == sorted([text_of(word) for word, _ in ROWS] + [text_of("a")])
    assert [len(texts) for texts in chosen.values()] == [*buckets.rows[buckets.rows > 0]]
    assert rows.values_of(KeySet.of([text_of("A")], in_lake)) == {text_of("A"): [(b"A", None)]}
    hashes = rows.digests_in(range(8), 8)
    assert np.isin(in_lake, np.asarray(hashes["hash"])).all()
    of_a = hashes.filter(pc.equal(hashes["key"], text_of("a")))["hash"]
    found = rows.stored_keys(KeySet.of([text_of("a")], np.asarray(of_a)))
    assert found.to_pylist() == [{"__key": "a", "_raw": None}] * 2
    assert rows.values_of(KeySet.of([text_of("a")], absent)) == {}
    assert rows.values_of(KeySet()) == {}

    spark.sql(f"ALTER TABLE {table.sql} ADD COLUMN more INT")
    assert rows.count() == 5
    with pytest.raises(TableStopped, match="its columns changed while it was compared"):
        LakeRows(spark, table, layout(TableName("s", "t"), [LISTED[1] | {"name": "gone"}], {"gone": "INT"}, ()))


class OwnPart(Table):
    """A source table's part of a table that several share."""

    provenance = {"_source": "shop"}  # noqa: RUF012 - as the property of a part


@pytest.mark.parametrize(
    "mode, kind, expected",
    [(Mode.MIRROR, Table, 7), (Mode.SOFT_DELETE, Table, 3), (Mode.HISTORY, Table, 4), (Mode.MIRROR, OwnPart, 6),
     (Mode.SOFT_DELETE, OwnPart, 2)],
)  # fmt: skip
def test_rows_are_counted_without_spark(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, mode: Mode, kind: type[Table], expected: int
) -> None:
    path = f"{tmp_path}/t"
    spark.sql(
        "SELECT cast(col1 AS INT) AS n, col2 AS _deleted, col3 AS _is_current, col4 AS _source, "
        "cast(NULL AS MAP<STRING, STRING>) AS _raw FROM VALUES (1, false, true, 'shop'), (2, true, false, 'shop'), "
        "(3, NULL, NULL, 'shop'), (4, false, true, 'crm'), (5, false, true, 'shop'), (6, true, true, 'shop'), "
        "(7, true, false, 'shop'), (8, true, false, 'shop')"
    ).coalesce(1).write.format("delta").option("delta.enableDeletionVectors", "true").save(path)
    spark.sql(f"DELETE FROM delta.`{path}` WHERE n = 8")
    table = kind(path, plain=False)
    (file,) = snapshot_of(path).files  # type: ignore[union-attr]
    assert file.deletion_vector
    with_spark = table.read(spark).where(CURRENT_ROWS[mode])
    for name, value in table.provenance.items():
        with_spark = with_spark.where(f"{name} = '{value}'")
    assert with_spark.count() == expected
    rows = LakeRows(spark, table, layout(TableName("s", "t"), [LISTED[1]], {"n": "INT"}, ()), mode)
    monkeypatch.setattr(Table, "read", lambda *_: pytest.fail("Spark reads the table"))
    assert rows.count() == expected
    # Where the log has no statistics of a file, its rows are counted.
    monkeypatch.setattr(DataFile, "num_records", None)
    assert rows.count() == expected


def test_what_silver_remembers(spark: SparkSession, tmp_path: Path) -> None:
    def row(word: str, op: str, offset: int) -> str:
        location = "named_struct('stretch', 1, 'number', 1L, 'offset', {}L)"
        change = f"named_struct('stretch', 1, 'number', 1L, 'offset', {offset}L, 'row', 0)"
        return (
            f"SELECT '{word}' AS `__key`, 1 AS n, '{op}' AS _op, {change} AS _position, "
            f"{location.format(4)} AS _window_start, {location.format(offset + 100)} AS _window_stop, "
            "cast(NULL AS MAP<STRING, STRING>) AS _raw"
        )

    parts = [row("a", "insert", 100), row("b", "delete", 200)]
    table = written_table(spark, tmp_path / "t", " UNION ALL ".join(parts))
    silver = SilverRows(spark, table, layout(TableName("s", "t"), LISTED, {"__key": "STRING", "n": "INT"}, ("__key",)))
    keys = [text_of(word) for word in "abc"]
    assert silver.keys_in_silver(keys) == {text_of("a"), text_of("b")}
    assert silver.changed_since(keys, Position("bin.000001", 100)) == {text_of("a"), text_of("b")}
    assert silver.changed_since(keys, Position("bin.000001", 101)) == {text_of("b")}
    changed = silver.keys_since(Position("bin.000001", 101), 1)
    assert changed is not None
    assert [*changed] == [text_of("b")]
    words = pa.table({"__key": ["b"], "_raw": pa.nulls(1, pa.map_(pa.string(), pa.string()))})
    assert changed.hashes.tolist() == HashedColumns.of(silver.layout, 1).key_hashes(words).tolist()
    assert silver.keys_since(Position("bin.000001", 100), 1) is None
    assert silver.any_since(Position("bin.000001", 200))
    assert not silver.any_since(Position("bin.000001", 201))
    spark.sql(row("a", "truncate", 300)).write.format("delta").mode("append").save(table.path)
    assert silver.changed_since(keys, Position("bin.000001", 250)) == set(keys), "the table was emptied since"
