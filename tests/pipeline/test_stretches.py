"""What reads bronze reads it across stretches: a log of three, whose servers name their files alike."""

import json
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from spark_jobs.bronze.commit import stretches
from spark_jobs.bronze.export import export
from spark_jobs.bronze.log_index import Stretch
from spark_jobs.bronze.seek import range_in
from spark_jobs.bronze.table import BronzeSnapshot
from spark_jobs.changes.bronze_feed import changes_of_bronze
from spark_jobs.changes.lines import wanted_tables
from spark_jobs.config.loader import load
from spark_jobs.config.model import Pipeline, Retention
from spark_jobs.errors import ConfigError, LakeError, SourceError
from spark_jobs.lake.layout import Lake, lake_of
from spark_jobs.log.position import Position
from spark_jobs.operations.log_store import Store
from spark_jobs.operations.retention.gc import gc_source
from tests.binlogs.gtid_logs import A, ServerFolder, land, write_log

pytestmark = pytest.mark.spark

FIRST = [("", ["a:1", "a:2"]), ("a:1-2", ["a:3", "a:4"])]
SECOND = [("", ["a:1", "a:2", "a:3", "a:5", "a:4", "a:6"]), ("a:1-6", ["a:7"])]
THIRD = [("", ["a:1", "a:2"]), ("a:1-2", ["a:3", "a:4", "a:6", "a:5", "a:7", "a:9", "a:8"])]


@pytest.fixture(scope="module")
def pipeline(tmp_path_factory: pytest.TempPathFactory) -> Pipeline:
    """Landed from three servers. In the second one's first file one that is held lies between two new ones."""
    folder = tmp_path_factory.mktemp("stretches")
    bronze = Lake(str(folder / "lake")).bronze("shop")
    for at, (files, base) in enumerate(((FIRST, "b"), (SECOND, "other"), (THIRD, "b")), 1):
        write_log(folder / str(at), files, base)
        land(bronze, ServerFolder(folder / str(at), f"{at}{A[1:]}", f"db{at}:3306"))
    path = folder / "pipeline.yaml"
    path.write_text("lake: ./lake\nsources: {shop: {files: ./1}}\nretention: {bronze: 1d}\n")
    return load(path)


def index(pipeline: Pipeline) -> tuple[Stretch, ...]:
    head = lake_of(pipeline).bronze("shop").head()
    assert head is not None
    assert head.checkpoint is not None
    return stretches(head.checkpoint)


def ids(spark: SparkSession, pipeline: Pipeline, start: str | None, stop: str | None) -> list[int]:
    text = "".join(changes_of_bronze(lake_of(pipeline), "shop", start, stop, is_wanted=wanted_tables([])))
    return [json.loads(line)["after"]["id"] for line in text.splitlines()]


def test_each_transaction_is_there_once_in_the_order_of_the_stretches(spark: SparkSession, pipeline: Pipeline) -> None:
    assert ids(spark, pipeline, None, None) == [1, 2, 3, 4, 5, 6, 7, 9, 8]
    _, second, third = index(pipeline)
    assert ids(spark, pipeline, str(second.begin), str(third.begin)) == [5, 6, 7]
    assert ids(spark, pipeline, "1/b.000002:4", str(second.begin)) == [3, 4]
    inside = f"3/{third.begin.file}:{third.begin.offset + 1}"
    assert ids(spark, pipeline, inside, None) == [9, 8], "a range is snapped outward, in the file that it names"


def test_a_name_that_occurs_in_several_stretches_is_refused(spark: SparkSession, pipeline: Pipeline) -> None:
    lake = lake_of(pipeline)
    assert range_in(BronzeSnapshot.of(lake, "shop"), "other.000002:4", None).start == Position("other.000002", 4, 2)
    assert range_in(BronzeSnapshot.of(lake, "shop"), "b.000001:4", None).start == Position("b.000001", 4)
    message = "^shop: b.000002:9 may lie in several stretches of the log; write 1/b.000002:9 or 3/b.000002:9$"
    with pytest.raises(ConfigError, match=message):
        range_in(BronzeSnapshot.of(lake, "shop"), "b.000002:9", None)


@pytest.mark.parametrize(
    "location, position",
    [
        (f"{A}:1-2", "b.000002:4"),
        (f"{A}:1-6", "2/other.000002:4"),
        ("2023-11-14T22:13:20Z", "b.000001:4"),
    ],
)
def test_gtids_and_times_are_looked_for_in_all_stretches(
    spark: SparkSession, pipeline: Pipeline, location: str, position: str
) -> None:
    assert str(range_in(BronzeSnapshot.of(lake_of(pipeline), "shop"), location, None).start) == position


def test_what_lies_in_a_file_held_in_part_is_to_be_named_by_position(spark: SparkSession, pipeline: Pipeline) -> None:
    with pytest.raises((SourceError, LakeError), match="name a position"):
        range_in(BronzeSnapshot.of(lake_of(pipeline), "shop"), f"{A}:1-5", None)


def test_the_store_reads_all_of_it(spark: SparkSession, pipeline: Pipeline) -> None:
    store = Store(spark, pipeline, "shop")
    pieces = list(store.pull(store.first))
    assert [piece.start.stretch for piece in pieces] == sorted(piece.start.stretch for piece in pieces)
    last = store.get(pieces[-1].start)
    assert last is not None
    assert last.start == pieces[-1].start
    assert sorted(row["gtid"] for row in store.changes(store.first, store.last).collect()) == [
        f"{A}:{n}" for n in range(1, 10)
    ]


def test_what_is_exported_is_the_servers_bytes(spark: SparkSession, pipeline: Pipeline, tmp_path: Path) -> None:
    files = list(export(spark, lake_of(pipeline), "shop", tmp_path))
    for exported in files:
        name, _, start = exported.path.name.partition(".from-")
        stretch, _, file = name.rpartition("-")
        content = (pipeline.path.parent / (stretch or "1") / file).read_bytes()[int(start or 0) :]
        assert content[: exported.size] == exported.path.read_bytes()
        assert bool(exported.partial) == bool(start)
        assert start or len(content) == exported.size, "what is not named as partial is whole"
    names = [file.path.name.partition(".from-")[0] for file in files]
    assert names == ["b.000001", "b.000002", "2-other.000001", "2-other.000001", "2-other.000002", "3-b.000002"]
    assert "an earlier stretch has" in str(files[2].partial)


def test_gc_removes_stretches_that_are_over(spark: SparkSession, pipeline: Pipeline, tmp_path: Path) -> None:
    """Last: it takes away what the others read."""
    retaining = pipeline.model_copy(update={"retention": Retention(bronze=timedelta(days=1))})
    collected = gc_source(spark, retaining, "shop", ignored=["silver"], now=datetime.now(UTC))
    assert [(file.stretch, file.file) for file in collected.files] == [
        *((1, "b.000001"), (1, "b.000002")),
        *((2, "other.000001"), (2, "other.000002")),
    ]
    assert collected.oldest == index(pipeline)[2].begin
    assert ids(spark, pipeline, None, None) == [9, 8]
    with pytest.raises(LakeError, match="bronze no longer holds"):
        ids(spark, pipeline, "2/other.000002:4", None)
    third = [THIRD[0], ("a:1-2", [*THIRD[1][1], "a:10"])]
    write_log(pipeline.path.parent / "3", third)
    onward = land(lake_of(pipeline).bronze("shop"), ServerFolder(pipeline.path.parent / "3", f"3{A[1:]}", "db3:3306"))
    assert not onward.opens, "the log index is still there"
