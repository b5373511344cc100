"""Versions of random changes, beside a plain twin that goes through them one by one."""

import random
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from pyspark.sql import SparkSession

from spark_jobs.downstream.history import versions
from spark_jobs.silver import table as silver
from spark_jobs.silver.table import Columns

KEYED, BAG = Columns({"id": "INT"}, ("id",)), Columns({"id": "INT"}, ())
TYPES = f"id INT, _op STRING, _position {silver.CHANGE_PLACE}, _committed_at TIMESTAMP, _raw MAP<STRING, STRING>"
BEGIN = datetime(2026, 11, 25, tzinfo=UTC)

Change = tuple[int | None, str, int]
"""Key or image, operation, offset; the time goes with the offset."""


def at(offset: int) -> datetime:
    return BEGIN + timedelta(seconds=offset // 10)


def rows_of(spark: SparkSession, changes: list[Change], columns: Columns) -> list[tuple[Any, ...]]:
    changes_ = [(key, op, (1, 1, offset, 0), at(offset), None) for key, op, offset in changes]
    frame = versions(spark.createDataFrame(changes_, TYPES), columns)
    rows = frame.select("id", "_op", "_position.offset", "_valid_from", "_valid_to", "_is_current").collect()
    cells = [tuple(cell.replace(tzinfo=UTC) if isinstance(cell, datetime) else cell for cell in row) for row in rows]
    return sorted(cells, key=lambda row: (row[2], row[1] != "delete"))


def twin(changes: list[Change], columns: Columns) -> list[tuple[Any, ...]]:
    """The oldest version that is current ends: of a key there is one at most."""
    rows: list[list[Any]] = []
    current: dict[int | None, list[int]] = {}
    for key, op, offset in changes:
        if op == "truncate":
            for nth in (nth for open_rows in current.values() for nth in open_rows):
                rows[nth][4:] = [at(offset), False]
            current.clear()
        elif current.get(key) and (op == "delete" or not columns.is_bag):
            rows[current[key].pop(0)][4:] = [at(offset), False]
        is_row = op not in ("delete", "truncate")
        rows.append([key, op, offset, at(offset), None if is_row else at(offset), is_row])
        if is_row:
            current.setdefault(key, []).append(len(rows) - 1)
    return [tuple(row) for row in rows]


def stream(choose: random.Random, columns: Columns) -> list[Change]:
    changes: list[Change] = []
    for offset in range(40):
        kind = choose.random()
        if kind < 0.05:
            changes.append((None, "truncate", offset))
            continue
        op = choose.choice(["insert", "delete"] if columns.is_bag else ["insert", "update", "delete"])
        changes.append((choose.randrange(4), op, offset))
    return changes


@pytest.mark.spark
@pytest.mark.parametrize("columns", [KEYED, BAG], ids=["a key", "no key"])
@pytest.mark.parametrize("seed", range(3))
def test_versions_are_what_going_through_the_changes_gives(spark: SparkSession, columns: Columns, seed: int) -> None:
    changes = stream(random.Random(seed), columns)
    mixed = changes[:]
    random.Random(seed).shuffle(mixed)
    assert rows_of(spark, mixed, columns) == twin(changes, columns)


@pytest.mark.spark
def test_a_delete_of_a_copy_that_the_log_never_had_ends_none(spark: SparkSession) -> None:
    changes: list[Change] = [(1, "delete", 0), (1, "insert", 10), (1, "insert", 20), (1, "delete", 30)]
    assert [row[-1] for row in rows_of(spark, changes, BAG)] == [False, False, True, False]
