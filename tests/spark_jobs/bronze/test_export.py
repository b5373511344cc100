import re
from pathlib import Path

import pyarrow as pa
import pytest
from pyspark.sql import SparkSession
from pyspark.sql import functions as F

from spark_jobs.bronze import table as bronze
from spark_jobs.bronze.export import Exported, export
from spark_jobs.errors import LakeError, SourceError
from spark_jobs.lake.commit import Checkpoint, new_batch
from spark_jobs.lake.layout import Lake
from spark_jobs.log.position import Position
from tests.binlogs.segment_spec import Commit, Insert, SegmentSpec, Table
from tests.binlogs.segment_types import INT
from tests.binlogs.slicing import bronze_rows

SPEC = SegmentSpec(
    tables=[Table("shop.t", key=["id"], id=INT.NOT_NULL)],
    changes=[change for number in range(5) for change in (Insert("shop.t", (number,)), Commit())],
)
CONTENT = SPEC.to_bytes()


def test_nothing_is_exported_of_an_empty_bronze(tmp_path: Path) -> None:
    with pytest.raises(LakeError) as refused:
        list(export(None, Lake(str(tmp_path)), "shop", tmp_path))  # type: ignore[arg-type] # refused before Spark is asked
    assert str(refused.value) == "shop: bronze holds nothing to export"


@pytest.mark.spark
def test_files_come_back_byte_for_byte_and_holes_are_refused(spark: SparkSession, lake: Path, tmp_path: Path) -> None:
    filled = Lake(str(lake))
    table = filled.bronze("shop")
    head = table.unwritten_head(bronze.COLUMNS, bronze.PROPERTIES)
    first, second = (bronze_rows(name, CONTENT, target=1) for name in ("b.999999", "b.1000000"))
    later = second.filter(pa.compute.greater(second["start"], 4)).slice(1)
    at = Position("b.1000000", len(CONTENT))
    for rows in (later, first):
        head = table.append_rows(rows, head, Checkpoint(at, new_batch()))

    start = later["start"][0].as_py()
    exported = list(export(spark, filled, "shop", tmp_path / "out"))
    part = tmp_path / "out" / f"b.1000000.from-{start}"
    assert exported == [
        Exported(tmp_path / "out" / "b.999999", 0, len(CONTENT)),
        Exported(part, start, len(CONTENT) - start, f"from byte {start} on: bronze does not hold its beginning"),
    ]
    assert exported[0].path.read_bytes() == CONTENT
    assert part.read_bytes() == CONTENT[start:]

    with pytest.raises(SourceError) as refused:
        list(export(spark, filled, "shop", tmp_path / "out"))
    assert str(refused.value) == f"shop: {exported[0].path} is there already; export into an empty folder"

    middle = first["start"][len(first) // 2].as_py()
    hole = (F.col("number") == 999999) & (F.col("start") == middle)
    spark.sql(f"DELETE FROM {table.sql} WHERE number = 999999 AND start = {middle}")
    missing = len(CONTENT) - len(first["payload"][len(first) // 2].as_py())
    assert table.read(spark).where(hole).count() == 0
    with pytest.raises(LakeError) as holed:
        list(export(spark, filled, "shop", tmp_path / "again"))
    assert str(holed.value) == f"shop: b.999999: bronze holds {missing} bytes of [0, {len(CONTENT)}); it has a hole"


@pytest.mark.spark
def test_a_damaged_event_is_named_and_no_file_is_left(spark: SparkSession, lake: Path, tmp_path: Path) -> None:
    filled = Lake(str(lake))
    table = filled.bronze("shop")
    head = table.unwritten_head(bronze.COLUMNS, bronze.PROPERTIES)
    all_rows = bronze_rows("b.000001", CONTENT, target=1).to_pylist()
    at = next(number for number, row in enumerate(all_rows) if row["kind"] == "rows" and row["start"] > 4)
    damaged = bytearray(all_rows[at]["payload"])
    damaged[-6] ^= 1
    all_rows[at]["payload"] = bytes(damaged)
    rows = pa.Table.from_pylist(all_rows, schema=bronze.ARROW)
    table.append_rows(rows, head, Checkpoint(Position("b.000001", len(CONTENT)), new_batch()))

    with pytest.raises(LakeError) as refused:
        list(export(spark, filled, "shop", tmp_path / "out"))
    assert re.match(r"shop: b\.000001:\d+: .*CRC32.*bronze has been damaged", str(refused.value))
    assert list((tmp_path / "out").iterdir()) == []
