"""Rows that lack columns, laid over each other by Spark, against the same done one by one."""

import random
from typing import Any

import pytest
from pyspark.sql import SparkSession

from spark_jobs.silver import partial_rows

pytestmark = pytest.mark.spark

TYPES = {"id": "INT", "a": "STRING", "b": "INT", "`c` d": "STRING"}
REST = list(TYPES)[1:]
DDL = (
    "id INT, a STRING, b INT, ```c`` d` STRING, _absent ARRAY<STRING>, _gone BOOLEAN, "
    "_position STRUCT<offset: BIGINT, row: INT>, _committed_at TIMESTAMP, _raw MAP<STRING, STRING>"
)


def random_row(generator: random.Random, key: int, at: int) -> dict[str, Any]:
    """Whole, or lacking columns, or gone; every third text has an exact one in its place."""
    is_deleted = generator.random() < 0.2
    absent = [] if generator.random() < 0.25 else [name for name in REST if generator.random() < 0.6]
    row: dict[str, Any] = {"id": key, "a": None, "b": None, "`c` d": None}
    raw = {}
    for name in REST:
        if name in absent or generator.random() < 0.2:
            continue
        if name != "b" and at % 3 == 0:
            raw[name] = f"exact {at}"
        else:
            row[name] = at if name == "b" else str(at)
    state = {"_absent": None if is_deleted or not absent else absent, "_gone": is_deleted, "_raw": raw or None}
    return row | state | {"_position": (at // 3, at % 3), "_committed_at": None}


def plain(rows: list[dict[str, Any]]) -> dict[str, Any]:
    """What one key's rows, in order, make of it."""
    values: dict[str, tuple[Any, str | None]] = {}
    was_gone = ended = False
    for row in rows:
        values = {} if was_gone or row["_gone"] else values
        values |= {n: (row[n], (row["_raw"] or {}).get(n)) for n in REST if n not in (row["_absent"] or [])}
        was_gone = row["_gone"]
        ended = ended or was_gone
    last = rows[-1]
    absent = [] if last["_gone"] else [name for name in REST if name not in values]
    return {
        "id": last["id"],
        **{name: values[name][0] if name in values else None for name in REST},
        "_absent": absent or None,
        "_gone": last["_gone"],
        "_position": last["_position"],
        "_raw": {name: text for name, (_, text) in values.items() if text is not None} or None,
        "_ended": bool(absent) and ended,
    }


def test_rows_laid_over_each_other_are_what_each_in_turn_makes_of_the_key(spark: SparkSession) -> None:
    generator = random.Random(7)
    rows = [random_row(generator, generator.randrange(200), at) for at in range(1200)]
    names = DDL.replace("```c`` d`", "c")
    cells = [
        tuple(row[name] for name in (*TYPES, "_absent", "_gone", "_position", "_committed_at", "_raw")) for row in rows
    ]
    frame = (
        spark.createDataFrame(generator.sample(cells, len(cells)), names).withColumnRenamed("c", "`c` d").repartition(3)
    )
    merged = partial_rows.folded(frame.withColumn("key", frame.id), ["key"], TYPES)
    merged_rows = {row["id"]: row.asDict() for row in merged.drop("_committed_at", "key").collect()}
    by_key: dict[int, list[dict[str, Any]]] = {}
    for row in rows:
        by_key.setdefault(row["id"], []).append(row)
    assert len(merged_rows) == len(by_key) > 150
    for key, key_rows in by_key.items():
        expected = plain(key_rows)
        assert merged_rows[key] | {"_position": tuple(merged_rows[key]["_position"])} == expected, key_rows
    assert {(row_["_absent"] is None, row_["_gone"], row_["_ended"]) for row_ in merged_rows.values()} == {
        (True, False, False), (True, True, False), (False, False, False), (False, False, True),
    }  # fmt: skip


def test_columns_that_a_row_lacks_go_and_are_renamed_with_the_table(spark: SparkSession) -> None:
    names = {"a": None, "b": "c", "c": "b", "d": "d"}
    rows = spark.createDataFrame([(["a"],), (["a", "b", "d"],), (["c"],), (None,)], "_absent ARRAY<STRING>")
    rows_ = rows.selectExpr(f"{partial_rows.renamed(names)} AS found").collect()
    assert [row.found for row in rows_] == [None, ["c", "d"], ["b"], None]
