import pytest
from pyspark.sql import SparkSession

from spark_jobs.log.position import Position, Range
from spark_jobs.silver import table as silver
from spark_jobs.silver.window_rows import _last_per_key, _silver_rows, counted_images

pytestmark = pytest.mark.spark

KEYED = silver.Columns({"id": "INT", "v": "STRING"}, ("id",))
KEYLESS = silver.Columns({"v": "STRING"}, ())
RANGES = [Range(Position("b.000001", 4), Position("b.000002", 4))]
ADDED = "_window INT, _position STRUCT<row: INT>, _committed_at TIMESTAMP, _raw MAP<STRING, STRING>"


def test_of_a_key_the_last_image_counts_and_whether_it_was_there_before_the_first(spark: SparkSession) -> None:
    images = [
        # id, v, existed before it, exists after it, row
        (1, "inserted", False, True, 1),
        (1, "updated", True, True, 2),
        (2, "before", True, True, 3),
        (2, "deleted", True, False, 4),
        (3, "inserted", False, True, 5),
        (3, "deleted", True, False, 6),
        (4, "updated", True, True, 7),
    ]
    rows = [(id_, v, was, is_, 0, (row,), None, None) for id_, v, was, is_, row in images]
    changes = spark.createDataFrame(rows, f"id INT, v STRING, _existed BOOLEAN, _exists BOOLEAN, {ADDED}")
    settled = _silver_rows(_last_per_key(changes, KEYED), KEYED, RANGES).collect()
    assert {(row["id"], row["v"], row["_op"], row["_existed"]) for row in settled} == {
        (1, "updated", silver.Op.INSERT, False),
        (2, "deleted", silver.Op.DELETE, True),
        (3, "deleted", silver.Op.DELETE, False),
        (4, "updated", silver.Op.UPDATE, True),
    }
    assert {row["_window_stop"]["number"] for row in settled} == {2}


def test_images_of_a_keyless_table_are_counted(spark: SparkSession) -> None:
    images = [("a", 1), ("a", 1), ("a", -1), ("b", -1), ("c", 1), ("c", -1), (None, 1)]
    rows = [(v, copies, 0, (nth,), None, None) for nth, (v, copies) in enumerate(images)]
    changes = spark.createDataFrame(rows, f"v STRING, {silver.COPIES} BIGINT, {ADDED}")
    settled = _silver_rows(counted_images(changes, KEYLESS), KEYLESS, RANGES).collect()
    assert {(row["v"], row["_op"], row[silver.COPIES]) for row in settled} == {
        ("a", silver.Op.INSERT, 1),
        ("b", silver.Op.DELETE, -1),
        ("c", silver.Op.UPDATE, 0),
        (None, silver.Op.INSERT, 1),
    }
