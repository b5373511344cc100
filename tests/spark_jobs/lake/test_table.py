import subprocess
import sys
import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import deltalake
import pyarrow as pa
import pyarrow.compute as pc
import pytest
from pyspark.sql import SparkSession

from spark_jobs.errors import LakeError, LostRace
from spark_jobs.lake.commit import Checkpoint, Head, new_batch
from spark_jobs.lake.layout import Lake
from spark_jobs.lake.table import Table
from spark_jobs.log.position import Position
from tests.lakes.lake_tables import schema_of, table_rows

_READING = """
import sys
from spark_jobs.lake.table import Table
table = Table(sys.argv[1], False)
assert [len(table.rows()), len(table.rows())] == [3, 3]
"""


@pytest.mark.thorough
@pytest.mark.slow
def test_a_process_that_ends_after_it_has_read_a_small_table_is_not_aborted(tmp_path: Path) -> None:
    for at in range(3):
        deltalake.write_deltalake(tmp_path, pa.table({"a": [at]}), mode="append")
    for path in (str(tmp_path), f"file://{tmp_path}"):
        command = [sys.executable, "-c", _READING, path]
        with ThreadPoolExecutor(4) as pool:
            ended = [*pool.map(lambda _, command=command: subprocess.run(command, check=False).returncode, range(8))]
        assert ended == [0] * 8, path


COLUMNS = {"id": "INT", "note": "STRING"}
AT = [Position("b.000001", offset) for offset in (100, 200, 300, 400)]


def rows(*ids: int) -> pa.Table:
    return pa.Table.from_pylist([{"id": number, "note": "x"} for number in ids], schema=schema_of(COLUMNS))


def checkpoint(at: int) -> Checkpoint:
    return Checkpoint(AT[at], new_batch())


def ids_of(table: Table) -> list[int]:
    return sorted(row["id"] for row in table.rows())


@pytest.fixture
def table(lake: Path) -> Table:
    """A table with one commit of ours: rows 1 and 2 at the first position."""
    lake_table = Lake(str(lake)).silver("shop", "shop", "t")
    lake_table.append_rows(rows(1, 2), lake_table.unwritten_head(COLUMNS, {}), checkpoint(0))
    return lake_table


def head_of(table: Table) -> Head:
    head = table.head()
    assert head is not None
    return head


@pytest.mark.spark
@pytest.mark.parametrize(
    "name",
    [
        "a b=[c]{d}+'~",
        "größe",
        "a:b*",
        "_t",
    ],
)
def test_spark_and_deltalake_find_the_same_table_whatever_its_name(spark: SparkSession, lake: Path, name: str) -> None:
    lake_table = Lake(str(lake)).downstream(name, name)
    head = lake_table.unwritten_head({"id": "INT", name: "STRING"}, {"delta.columnMapping.mode": "name"})
    landed = lake_table.append_rows(pa.table({"id": pa.array([1], pa.int32()), name: ["x"]}), head, checkpoint(0))
    assert lake_table.head() == landed
    assert lake_table.columns() == {"id": "INT", name: "STRING"}
    assert lake_table.read(spark).collect() == table_rows(lake_table) == [(1, "x")]


@pytest.mark.thorough
@pytest.mark.spark
def test_a_head_counts_our_commits_and_passes_over_those_of_others(spark: SparkSession, table: Table) -> None:
    first = head_of(table)
    assert (first.counter, first.position) == (1, AT[0])
    spark.sql(f"OPTIMIZE {table.sql}")
    spark.sql(f"UPDATE {table.sql} SET note = 'by hand' WHERE id = 1")
    meanwhile = head_of(table)
    assert meanwhile.version > first.version
    assert (meanwhile.counter, meanwhile.checkpoint) == (1, first.checkpoint)
    second = table.append_rows(rows(3), meanwhile, checkpoint(1))
    assert (second.counter, second.position) == (2, AT[1])
    spark.sql(f"DELETE FROM {table.sql} WHERE id = 3")
    assert (head_of(table).counter, head_of(table).position) == (2, AT[1])
    assert [checkpoint.position for _, checkpoint in table.since(first.version)] == [AT[1]]
    assert [checkpoint.position for _, checkpoint in table.since(-1)] == [AT[1], AT[0]]


def append(table: Table, head: Head, at: int) -> Head:
    return table.append_rows(rows(10 + at), head, checkpoint(at))


def replace(table: Table, head: Head, at: int) -> Head:
    return table.replace_rows(rows(10 + at), {"note": f"{at}"}, head, checkpoint(at))


@pytest.mark.parametrize("first, late", [(append, append), (append, replace), (replace, append)])
def test_the_later_of_two_plans_on_one_head_loses_and_leaves_nothing(
    table: Table, first: Callable[[Table, Head, int], Head], late: Callable[[Table, Head, int], Head]
) -> None:
    planned = head_of(table)
    winner = first(table, planned, 1)
    with pytest.raises(LostRace) as info:
        late(table, planned, 2)
    assert str(info.value) == (
        f"{table.path}: planned on version {planned.version}, but another writer committed first; "
        "nothing of this run is in the table, and the next run resumes from its head"
    )
    assert table.head() == winner
    assert ids_of(table) == [1, 2, 11]
    second = late(table, winner, 2)
    assert (second.counter, second.position) == (3, AT[2])
    assert ids_of(table) == [1, 2, 11, 12]


@pytest.mark.parametrize("late", [append, replace])
def test_what_was_planned_before_a_fence_loses(table: Table, late: Callable[[Table, Head, int], Head]) -> None:
    planned = head_of(table)
    table.fence()
    with pytest.raises(LostRace):
        late(table, planned, 1)
    head = head_of(table)
    assert (head.counter, head.position, ids_of(table)) == (planned.counter + 1, planned.position, [1, 2])
    assert late(table, head, 1).position == AT[1]


def test_of_writers_at_the_same_time_one_wins(table: Table) -> None:
    planned = head_of(table)
    together = threading.Barrier(3)
    outcomes: list[str] = []

    def race(at: int) -> None:
        together.wait()
        try:
            replace(table, planned, at)
            outcomes.append("won")
        except LostRace:
            outcomes.append("lost")

    racers = [threading.Thread(target=race, args=(at,)) for at in (1, 2, 3)]
    for racer in racers:
        racer.start()
    for racer in racers:
        racer.join()
    assert sorted(outcomes) == ["lost", "lost", "won"]
    assert len(ids_of(table)) == 3
    assert head_of(table).counter == 2


def test_a_version_that_cannot_be_read_is_an_error_of_the_lake(table: Table) -> None:
    condition = pc.field("id") > 0
    assert sum(batch.num_rows for batch in table.scan(0, ["id"], condition, rows=1)) == 2
    for file in Path(table.path).glob("*.parquet"):
        file.unlink()
    with pytest.raises(LakeError, match=str(table.path)):
        list(table.scan(0, ["id"], condition, rows=1))


def test_a_history_that_cannot_be_read_is_an_error_of_the_lake(table: Table) -> None:
    deltalake.DeltaTable(table.path).create_checkpoint()
    Path(table.path, "_delta_log", f"{0:020}.json").write_text("{")
    with pytest.raises(LakeError, match=rf"^{table.path}: cannot be read: "):
        table.history()


def test_rows_of_other_columns_are_an_error_of_the_lake(table: Table) -> None:
    with pytest.raises(LakeError) as refused:
        table.append_rows(pa.table({"id": [["x"]], "note": ["x"]}), head_of(table), checkpoint(1))
    assert str(refused.value).startswith(f"{table.path}: has columns of other types than what is written: ")
    assert ids_of(table) == [1, 2]


def test_a_table_is_made_by_its_first_commit_with_just_its_columns(lake: Path) -> None:
    lake_table = Lake(str(lake)).bronze("shop")
    columns = {"id": "BIGINT", "at": "STRUCT<n: INT>"}
    head = lake_table.unwritten_head(columns, {"delta.dataSkippingNumIndexedCols": "1"})
    assert lake_table.head() is None
    wider = pa.Table.from_pylist([{"more": "x", "at": {"n": 5}, "id": number} for number in (1, 2)])
    landed = lake_table.replace_rows(wider, {}, head, checkpoint(0))
    assert (landed, landed.version, landed.position) == (lake_table.head(), 0, AT[0])
    assert (lake_table.columns(), ids_of(lake_table)) == (columns, [1, 2])
    assert deltalake.DeltaTable(lake_table.path).metadata().configuration["delta.dataSkippingNumIndexedCols"] == "1"
    assert all(field.nullable for field in deltalake.DeltaTable(lake_table.path).schema().fields)


def test_of_two_that_make_a_table_one_loses(lake: Path) -> None:
    lake_table = Lake(str(lake)).bronze("shop")
    head = lake_table.unwritten_head(COLUMNS, {})
    with ThreadPoolExecutor(2) as racers:
        running = [racers.submit(lake_table.append_rows, rows(value), head, checkpoint(0)) for value in (1, 2)]
    errors = [future.exception() for future in running]
    assert [isinstance(exception, LostRace) for exception in errors if exception] == [True]
    with pytest.raises(LostRace):
        lake_table.append_rows(rows(3), head, checkpoint(0))
    assert ids_of(lake_table) == [1 if errors[1] else 2]


@pytest.mark.spark
def test_an_older_version_is_read_as_it_was(spark: SparkSession, table: Table) -> None:
    before = head_of(table)
    append(table, before, 1)
    assert sorted(row["id"] for row in table.read(spark, before.version).collect()) == [1, 2]


@pytest.mark.spark
def test_a_counter_without_any_checkpoint_is_not_trusted(spark: SparkSession, lake: Path) -> None:
    lake_table = Lake(str(lake)).bronze("shop")
    options = {"txnAppId": "stratalog", "txnVersion": "1"}
    spark.createDataFrame(rows(1)).write.format("delta").mode("append").options(**options).save(lake_table.path)
    with pytest.raises(LakeError) as refused:
        lake_table.head()
    assert str(refused.value) == (
        f"{lake_table.path}: no commit in its history names a position; restore the table's _delta_log"
    )
