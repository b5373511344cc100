"""Ranges of files and of places done again from Dagster, and which files it knows."""

import shutil
from collections.abc import Iterator
from datetime import timedelta
from pathlib import Path
from typing import Any

import dagster as dg
import pytest
from pyspark.sql import SparkSession

from assets import backfill
from assets.backfill import file_partitions, register_files
from dagster_project.build import build_defs
from spark_jobs.bronze import files as log_files
from spark_jobs.bronze.commit import BronzeCommit
from spark_jobs.bronze.files import BinlogFile
from spark_jobs.errors import ConfigError
from spark_jobs.lake.commit import Head
from spark_jobs.lake.layout import lake_of
from spark_jobs.log.position import Position
from spark_jobs.operations.gc import gc_source
from tests.code_location import CodeLocation, location
from tests.segment_spec import Commit, Insert, Update

pytestmark = pytest.mark.dagster

PARTITIONS = file_partitions("shop").name or ""
FILES = ["mysql-bin.000001", "mysql-bin.000002", "mysql-bin.000003"]
SILVER, DOWNSTREAM = "silver/shop/shop/orders", "downstream/shop/orders"


@pytest.fixture
def shop(tmp_path: Path, spark: SparkSession) -> Iterator[CodeLocation]:
    """Three files in two runs, so that silver has two windows."""
    with location(tmp_path, spark) as code_location:
        code_location.write(1, Insert("shop.orders", (1, "a")), Insert("shop.lines", (1, 1)))
        code_location.run()
        code_location.write(2, Insert("shop.orders", (2, "b")), Commit(), Insert("shop.orders", (3, "c")))
        code_location.write(3, Update("shop.orders", (1, "a"), (1, "z")))
        code_location.run()
        yield code_location


def partitions_of(shop: CodeLocation) -> list[str]:
    return list(shop.instance.get_dynamic_partitions(PARTITIONS))


def spoil(shop: CodeLocation, layer: str) -> None:
    """Key 2 gets another note, by somebody else's hand."""
    lake = lake_of(shop.pipeline)
    table = lake.silver("shop", "shop", "orders") if layer == "silver" else lake.downstream("shop", "orders")
    assert shop.spark
    shop.spark.sql(f"UPDATE {table.sql} SET note = 'spoilt' WHERE id = 2")


def orders(shop: CodeLocation) -> list[tuple[Any, ...]]:
    assert shop.spark
    return sorted(
        tuple(row)[:2] for row in lake_of(shop.pipeline).downstream("shop", "orders").read(shop.spark).collect()
    )


@pytest.mark.spark
@pytest.mark.long
def test_three_ways_do_a_range_again_and_say_what_differed(shop: CodeLocation) -> None:
    assert partitions_of(shop) == FILES

    spoil(shop, "silver")
    ran = shop.backfill(FILES[1], FILES[2], layers=["silver"])
    assert ran.success, ran.failures
    assert set(ran.materialized) == {SILVER, "backfill/shop"}, "the merge is left to the next run"
    metadata = ran.materialized["backfill/shop"]
    assert (metadata["binlog/start"], metadata["backfill/files"]) == ("mysql-bin.000002:4", 2)
    assert metadata["binlog/end"] == shop.latest("bronze/shop")["binlog/end"]
    assert (metadata["backfill/tables"], metadata["backfill/windows"], metadata["backfill/tables_changed"]) == (1, 1, 1)
    assert (metadata["rows/touched"], metadata["rows/new"], metadata["rows/gone"]) == (3, 1, 1)
    assert (metadata["rows/inserted"], metadata["rows/updated"], metadata["rows/deleted"]) == (0, 0, 0)
    assert "windows: 1, rows: 3, 1 new, 1 gone" in metadata["backfill/changes"]
    assert ran.run.tags["stratalog/source"] == "shop"
    assert ran.run.tags["stratalog/from"] == "mysql-bin.000002:4"
    silver = ran.materialized[SILVER]
    assert (silver["backfill/from"], silver["binlog/end"]) == ("mysql-bin.000002:4", metadata["binlog/end"])
    assert ran.versions[SILVER] == f"{silver['binlog/end']} version {silver['delta/version']}"
    status = shop.instance.get_materialized_partitions(dg.AssetKey(["backfill", "shop"]))
    assert status == set(FILES[1:])

    spoil(shop, "downstream")
    assert (2, "spoilt") in orders(shop)
    form = {"source": "shop", "from": "mysql-bin.000002:4", "to": "mysql-bin.000003:4", "tables": ["shop.orders"]}
    second = shop.run_config("backfill_range", {"ops": {"range": {"config": form | {"layers": ["downstream"]}}}})
    assert second.success, second.failures
    observed_metadata = second.observed["backfill/shop"]
    assert (
        observed_metadata["backfill/windows"],
        observed_metadata["rows/updated"],
        observed_metadata["rows/new"],
    ) == (1, 1, 0)
    assert set(second.materialized) == {DOWNSTREAM}
    assert second.run.tags["stratalog/to"] == "mysql-bin.000003:4"
    assert orders(shop) == [(1, "z"), (2, "b"), (3, "c")]

    unchanged = shop.backfill(FILES[0], FILES[2], tables=["shop.*"])
    assert unchanged.success
    assert set(unchanged.materialized) == {"backfill/shop"}, "what decodes to the same is not written"
    assert unchanged.materialized["backfill/shop"]["rows/new"] == 0

    shop.instance.delete_dynamic_partition(PARTITIONS, FILES[1])  # a list of before it was read from an archive
    hole = shop.backfill(FILES[0], FILES[2])
    assert not hole.success
    (message,) = hole.failures.values()
    assert "between mysql-bin.000001 and mysql-bin.000003 bronze holds mysql-bin.000002 too" in message
    assert partitions_of(shop) == FILES, "registered again, in order"


@pytest.mark.spark
@pytest.mark.long
def test_files_that_only_the_archive_has_are_partitions_and_are_brought(tmp_path: Path, spark: SparkSession) -> None:
    sources = {"shop": {"files": "./binlogs", "archive": "./archive"}}
    with location(tmp_path, spark, sources=sources) as shop:
        for number in (1, 2, 3):
            shop.write(number, Insert("shop.orders", (number, "a")))
        shutil.copytree(tmp_path / "binlogs", tmp_path / "archive")
        shop.run()
        pipeline = shop.pipeline
        retention = pipeline.retention.model_copy(update={"bronze": timedelta(days=1)})
        gc_source(spark, pipeline.model_copy(update={"retention": retention}), "shop")
        for name in FILES[:2]:
            (tmp_path / "binlogs" / name).unlink()
        shop.run()
        assert partitions_of(shop) == FILES
        spoil(shop, "silver")
        size = sum((tmp_path / "archive" / name).stat().st_size for name in FILES[:2])

        ran = shop.backfill(FILES[1], FILES[1])
        assert ran.success, ran.failures
        metadata = ran.materialized["backfill/shop"]
        assert (metadata["binlog/start"], metadata["binlog/end"]) == ("mysql-bin.000002:4", "mysql-bin.000003:4")
        assert (metadata["rows/new"], metadata["brought/files"], metadata["brought/bytes"]) == (1, 2, size), (
            "its window began before"
        )
        assert metadata["brought/range"] == "[mysql-bin.000001:4, mysql-bin.000003:4)"
        assert metadata["brought/from"] == f"the archive {tmp_path / 'archive'}"
        assert partitions_of(shop) == FILES
        assert orders(shop) == [(1, "a"), (2, "a"), (3, "a")]


@pytest.fixture
def form(tmp_path: Path) -> Iterator[CodeLocation]:
    with location(
        tmp_path, sources={"shop": {"files": "./binlogs"}, "archive": {"files": "./binlogs"}}
    ) as code_location:
        yield code_location


RIGHT = {"source": "shop", "from": "a.000001:4", "to": "a.000002:4"}


@pytest.mark.parametrize(
    "wrong, messages",
    [
        ({"from": "yesterday"}, ["from: 'yesterday' is no place in a log"]),
        ({"from": "a.000003:4"}, ["the range ends at a.000002:4, before its start at a.000003:4"]),
        ({"to": "2026-11-21T08:00:00"}, ["to: '2026-11-21T08:00:00' has no offset from UTC"]),
        ({"from": " ", "to": "x", "tables": ["orders"]}, ["from: missing", "to: 'x' is no place", "tables[0]: "]),
        ({"tables": ["shop.nothing"]}, ["tables[0]: shop.nothing is no table of shop that a run has seen: none"]),
        ({"layers": []}, ["layers: none: choose among silver, downstream"]),
        ({"archive": "/nowhere"}, ["archive: /nowhere is no folder"]),
    ],
)
def test_what_is_wrong_is_said_at_once_and_in_one_message(
    form: CodeLocation, wrong: dict[str, Any], messages: list[str]
) -> None:
    ran = form.run_config("backfill_range", {"ops": {"range": {"config": RIGHT | wrong}}})
    assert list(ran.failures) == ["range"], "no step of a source waits for its pool"
    assert [text for text in messages if text not in ran.failures["range"]] == []


@pytest.mark.parametrize("wrong", [{"source": "shopp"}, {"layers": ["gold"]}, {"until": "a.000002:4"}, {"to": 4}])
def test_the_launchpad_refuses_what_is_no_choice(form: CodeLocation, wrong: dict[str, Any]) -> None:
    job = form.defs().resolve_job_def("backfill_range")
    dg.validate_run_config(job, {"ops": {"range": {"config": RIGHT}}})
    with pytest.raises(dg.DagsterInvalidConfigError):
        dg.validate_run_config(job, {"ops": {"range": {"config": RIGHT | wrong}}})


def test_a_source_waits_in_its_pool_and_other_sources_are_skipped(form: CodeLocation) -> None:
    defs = form.defs()
    job = defs.resolve_job_def("backfill_range")
    pools = {node.name: node.definition.pool for node in job.graph.nodes}  # type: ignore[attr-defined] # steps are ops
    assert pools == {
        "range": None,
        "backfill_shop_range": "stratalog_source_shop",
        "backfill_archive_range": "stratalog_source_archive",
    }
    asset_definition = defs.resolve_assets_def(dg.AssetKey(["backfill", "shop"]))
    assert asset_definition.op.pool == "stratalog_source_shop"
    assert asset_definition.backfill_policy == dg.BackfillPolicy.single_run()
    ran = (
        build_defs(form.pipeline, {"spark": NoSpark()})
        .resolve_job_def("backfill_range")
        .execute_in_process(
            instance=form.instance, run_config={"ops": {"range": {"config": RIGHT}}}, raise_on_error=False
        )
    )
    failed = [event.step_key for event in ran.all_events if event.is_step_failure]
    skipped = [event.step_key for event in ran.all_events if event.is_step_skipped]
    assert (failed, skipped) == (["backfill_shop_range"], ["backfill_archive_range"])


def test_an_archive_that_cannot_be_listed_leaves_its_files_as_they_are(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    bronze = Bronze("a.000003", "a.000004")
    monkeypatch.setattr("spark_jobs.lake.layout.lake_of", lambda _: bronze)
    monkeypatch.setattr(log_files, "held_files", bronze.list)
    archive = tmp_path / "archive"
    archive.mkdir()
    for name in ("a.000000", "a.000002", "a.000001", "a.000007"):
        (archive / name).touch()
    with location(tmp_path, sources={"shop": {"files": "./binlogs", "archive": "./archive"}}) as code_location:
        for number in (1, 2):
            register_files(code_location.instance, code_location.pipeline, "shop")
            assert partitions_of(code_location) == [f"a.00000{at}" for at in range(5)], number
        archive.rename(tmp_path / "unmounted")
        register_files(code_location.instance, code_location.pipeline, "shop")
        assert partitions_of(code_location) == [f"a.00000{at}" for at in range(5)]
        assert bronze.listed == [None], "bronze is not read for what the archive has"
        (tmp_path / "unmounted").rename(archive)
        (archive / "a.000001").unlink()
        register_files(code_location.instance, code_location.pipeline, "shop")
        assert partitions_of(code_location) == ["a.000002", "a.000003", "a.000004"]


class NoSpark:
    """What is asked for a session says so; nobody tries again."""

    def session(self) -> SparkSession:
        raise ConfigError("there is no Spark here")


class Bronze:
    """A bronze table of which only the files are known, and how often they are listed."""

    def __init__(self, *files: str) -> None:
        self.files = [BinlogFile.parse(file) for file in files]
        self.listed: list[object] = []

    def bronze(self, _: str) -> "Bronze":
        return self

    def head(self) -> Head | None:
        if not self.files:
            return None
        first, last = (f"{file}:4" for file in (self.files[0], self.files[-1]))
        return Head(
            1, 1, BronzeCommit(Position.parse(last), "batch", begin=Position.parse(first), oldest=Position.parse(first))
        )

    def list(self, table: object, head: Head, beyond: tuple[BinlogFile, BinlogFile] | None = None) -> list[BinlogFile]:
        self.listed.append(beyond)
        return [file for file in self.files if beyond is None or file < beyond[0] or file > beyond[1]]


@pytest.mark.parametrize(
    "before, now, is_whole",
    [
        ([], [], True),
        ([], ["a.000001", "a.000002"], True),
        (["a.000001", "a.000002"], ["a.000001", "a.000002", "a.000003", "2/b.000001"], False),  # behind the end
        (["a.000003"], ["a.000001", "a.000002", "a.000003"], False),  # older ones, out of an archive
        (["a.000001", "a.000002", "a.000003"], ["a.000002", "a.000003"], False),  # gc removed one
        (["a.000002", "a.000001"], ["a.000001", "a.000002"], True),  # out of order
        (["a.000001", "by hand"], ["a.000001"], True),
        (["a.999999"], ["a.999999", "a.1000000"], False),
    ],
)
def test_files_are_registered_in_the_order_of_the_log(
    form: CodeLocation, monkeypatch: pytest.MonkeyPatch, before: list[str], now: list[str], is_whole: bool
) -> None:
    bronze = Bronze(*now)
    monkeypatch.setattr("spark_jobs.lake.layout.lake_of", lambda _: bronze)
    monkeypatch.setattr(log_files, "held_files", bronze.list)
    monkeypatch.setattr(backfill, "_AT_ONCE", 2)
    form.instance.add_dynamic_partitions(PARTITIONS, before)
    register_files(form.instance, form.pipeline, "shop")
    assert partitions_of(form) == now
    assert all((beyond is None) is is_whole for beyond in bronze.listed), "no more is read than what is not known"
    bronze.listed.clear()
    register_files(form.instance, form.pipeline, "shop")
    assert bronze.listed == [], "nothing is read where nothing is new"
