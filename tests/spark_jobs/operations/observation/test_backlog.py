"""Check whether there is anything to do, by what the lake and the source say."""

import os
import subprocess
import sys
from dataclasses import asdict, replace
from pathlib import Path

import deltalake
import pyarrow as pa
import pytest
from deltalake import CommitProperties, Transaction

from spark_jobs.bronze import table as bronze
from spark_jobs.bronze.commit import BronzeCommit
from spark_jobs.config.model import Pipeline, RouteRule, SourceSettings
from spark_jobs.config.modes import ModeRule
from spark_jobs.downstream import publication
from spark_jobs.downstream.publication import Entry, Target
from spark_jobs.errors import SourceError
from spark_jobs.lake.layout import lake_of
from spark_jobs.log.position import Position
from spark_jobs.operations.observation import backlog as backlog_module
from spark_jobs.operations.observation import failures
from spark_jobs.operations.observation.backlog import Backlog
from spark_jobs.operations.observation.failures import noted
from tests.binlogs.segment_spec import Commit, Insert, SegmentSpec
from tests.fix_cli import Stratalog
from tests.lakes.code_location import ORDERS

ROOT = Path(__file__).parents[3]
OLD, END = Position("mysql-bin.000001", 4), Position("mysql-bin.000001", 500)


def a_pipeline(folder: Path, *tables: str) -> Pipeline:
    source = SourceSettings(files=folder / "binlogs")
    return Pipeline(path=folder / "pipeline.yaml", lake=str(folder / "lake"), sources={"shop": source}, tables=tables)


@pytest.mark.parametrize(
    "end, bronze, processed, moved, left_behind",
    [
        (END, END, END, False, False),
        (END, None, None, True, False),
        (END, OLD, OLD, True, False),
        (END, END, OLD, False, True),
        (END, END, None, False, True),
        (END, OLD, None, True, True),
    ],
)
def test_a_backlog(
    end: Position, bronze: Position | None, processed: Position | None, moved: bool, left_behind: bool
) -> None:
    backlog = Backlog(end, bronze, processed, 0)
    assert (backlog.moved, backlog.left_behind) == (moved, left_behind)
    assert replace(backlog, reset=True).left_behind is (bronze is not None), "a table is to be done over"
    assert replace(backlog, rerouted=True).left_behind is (bronze is not None), "a table goes to another one too"


def test_a_source_never_read_is_behind_by_all_its_bytes(tmp_path: Path) -> None:
    content = SegmentSpec([ORDERS], [Insert("shop.orders", (1, "a"))]).to_bytes()
    (tmp_path / "binlogs").mkdir()
    (tmp_path / "binlogs" / "mysql-bin.000001").write_bytes(content)
    backlog = backlog_module.backlog(a_pipeline(tmp_path), "shop")
    assert backlog == Backlog(Position("mysql-bin.000001", len(content)), None, None, len(content))


def test_a_source_that_is_not_there_says_so(tmp_path: Path) -> None:
    with pytest.raises(SourceError, match="cannot be read"):
        backlog_module.backlog(a_pipeline(tmp_path), "shop")


AT_END = str(END)
WHOLE = Entry("shop", "shop", "orders", "current", position=AT_END, silver_version=3, merged=AT_END, surveyed=AT_END)
OTHER = Entry("shop", "shop", "rare", "current", position=AT_END, surveyed=AT_END)


@pytest.mark.parametrize(
    "entries, expected",
    [
        ([WHOLE, OTHER], True),
        ([], False),  # nothing was ever published
        ([Entry("shop", "shop", "orders", "stopped", "why", surveyed=AT_END)], False),
        ([Entry("shop", "shop", "orders", "ignored", surveyed=AT_END)], False),  # in scope by now
        ([Entry("shop", "shop", "orders", "reset", merged=AT_END, surveyed=AT_END, resets=1)], False),
        ([Entry("shop", "audit", "log", "ignored", surveyed=AT_END), OTHER], True),  # out of scope still
        ([Entry("shop", "shop", "orders", "current", position=str(OLD), surveyed=AT_END)], False),
        ([Entry("shop", "shop", "orders", "current", position=AT_END, silver_version=3, surveyed=AT_END)], False),
        ([Entry("shop", "shop", "orders", "current", position=str(OLD), surveyed=str(OLD))], False),
    ],
)
def test_a_source_is_current_when_every_table_has_all(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, entries: list[Entry], expected: bool
) -> None:
    furthest = max((Position.parse(entry.surveyed or "") for entry in entries), default=None)
    monkeypatch.setattr(publication, "read", lambda *_: entries)
    monkeypatch.setattr(publication, "surveyed_to", lambda *_: furthest)
    monkeypatch.setattr(backlog_module, "bronze_position", lambda *_: END)
    monkeypatch.setattr(backlog_module, "heads", lambda tables: [Version(3) for _ in tables])
    assert backlog_module.is_every_table_current(a_pipeline(tmp_path, "shop.*"), "shop") is expected


def test_silver_done_again_elsewhere_is_still_to_be_merged(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(publication, "read", lambda *_: [WHOLE])
    monkeypatch.setattr(publication, "surveyed_to", lambda *_: END)
    monkeypatch.setattr(backlog_module, "bronze_position", lambda *_: END)
    monkeypatch.setattr(backlog_module, "heads", lambda tables: [Version(4) for _ in tables])
    assert not backlog_module.is_every_table_current(a_pipeline(tmp_path), "shop")


class Version:
    """A head of which only the version counts."""

    def __init__(self, version: int) -> None:
        self.version = version


THERE, TOO = "/lake/downstream/shop/orders", "/lake/downstream/audit/orders"
MERGED = replace(WHOLE, downstream=THERE, downstream_version=2)
BOTH = MERGED.with_targets([Target(TOO, AT_END, 1), Target(THERE, AT_END, 1)])


@pytest.mark.parametrize(
    "entry, to, expected",
    [
        (MERGED, "shop.orders", False),
        (MERGED, "audit.orders", True),
        (MERGED, "history.orders", True),
        (replace(MERGED, downstream="/lake/downstream/history/orders"), "history.orders", True),
        (
            replace(MERGED, downstream="/lake/downstream/history/orders", modes=("history",)),
            "history.orders",
            False,
        ),
        (MERGED, ["shop.orders", "audit.orders"], True),
        (
            MERGED.with_targets([Target(TOO, AT_END, 1), Target(THERE, AT_END, 1)]),
            ["shop.orders", "audit.orders"],
            False,
        ),
        (BOTH, "audit.orders", False),
        (replace(MERGED, state="stopped"), "audit.orders", False),  # a run has tried, or will with the next news
        (WHOLE, "audit.orders", False),  # nothing of it was merged anywhere
    ],
)
def test_a_table_is_rerouted_where_a_downstream_table_has_nothing_of_it(
    tmp_path: Path, entry: Entry, to: str | list[str], expected: bool
) -> None:
    routes = (RouteRule.model_validate({"from": "shop.orders", "to": to}),)
    modes = (ModeRule.model_validate({"tables": "history.*", "mode": "history"}),)
    pipeline = a_pipeline(tmp_path).model_copy(update={"routes": routes, "downstream": modes})
    assert backlog_module._is_rerouted(pipeline, "shop", [entry]) is expected


def lake_at_end(folder: Path, *, is_merged: bool = True) -> Pipeline:
    """A pipeline whose layers hold all of a log of one file, written without Spark."""
    content = SegmentSpec([ORDERS], [Insert("shop.orders", (1, "a")), Commit()]).to_bytes()
    (folder / "binlogs").mkdir()
    (folder / "binlogs" / "mysql-bin.000001").write_bytes(content)
    pipeline, end = a_pipeline(folder), Position("mysql-bin.000001", len(content))
    lake = lake_of(pipeline)
    checkpoint = BronzeCommit(end, "b", begin=Position("mysql-bin.000001", 4))
    commit_properties = CommitProperties(
        custom_metadata={"userMetadata": checkpoint.to_json()}, app_transactions=[Transaction("stratalog", 1)]
    )
    tables = [lake.silver("shop", "shop", "orders"), *([lake.downstream("shop", "orders")] if is_merged else [])]
    for path, columns in ((lake.bronze("shop").path, bronze.ARROW), *((table.path, ROWS) for table in tables)):
        deltalake.write_deltalake(path, columns.empty_table(), commit_properties=commit_properties)
    target = Target(lake.downstream("shop", "orders").path, str(end), 0)
    entry = replace(WHOLE, position=str(end), merged=str(end), surveyed=str(end), silver_version=0, targets=(target,))
    rows = pa.Table.from_pylist([asdict(replace(entry, downstream_version=0))], schema=publication._SCHEMA)
    deltalake.write_deltalake(lake.published().path, rows)
    return pipeline


ROWS = pa.schema([("id", pa.int32())])


def test_a_run_has_nothing_new_where_every_layer_is_at_the_end(tmp_path: Path) -> None:
    pipeline = lake_at_end(tmp_path)
    assert backlog_module.nothing_new(pipeline, "shop") == backlog_module.bronze_position(pipeline, "shop")
    log = tmp_path / "binlogs" / "mysql-bin.000001"
    log.rename(log.with_name("mysql-bin.000002"))
    with pytest.raises(SourceError):
        backlog_module.nothing_new(pipeline, "shop")


def test_a_downstream_table_that_was_moved_away_is_work(tmp_path: Path) -> None:
    assert backlog_module.nothing_new(lake_at_end(tmp_path, is_merged=False), "shop") is None


def test_new_log_is_work(tmp_path: Path) -> None:
    pipeline = lake_at_end(tmp_path)
    log = tmp_path / "binlogs" / "mysql-bin.000001"
    log.with_name("mysql-bin.000002").write_bytes(log.read_bytes())
    assert backlog_module.nothing_new(pipeline, "shop") is None


def test_an_idle_run_starts_no_spark(tmp_path: Path, stratalog: Stratalog, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("spark_jobs.cli.app.spark_of", lambda *_, **__: pytest.fail("Spark is started"))
    pipeline = lake_at_end(tmp_path)
    pipeline.path.write_text("lake: ./lake\nsources:\n  shop: {files: ./binlogs}\n")
    with pytest.raises(SourceError), noted(pipeline.path, "shop", is_last=True):
        raise SourceError("shop: away")
    ran = stratalog("run", "-c", pipeline.path)
    assert (ran.status, ran.err[9:]) == (0, f"shop: reading {pipeline.path.parent / 'binlogs'}\n")
    assert ran.out.splitlines() == [
        f"shop: bronze is at {backlog_module.bronze_position(pipeline, 'shop')}; nothing new",
        "shop: silver and downstream have nothing new",
    ]
    assert failures.read(pipeline.path) == {}, "the run went well"
    pipeline.path.write_text("lake: ./lake\nsources:\n  shop: {files: ./binlogs}\ntables: ['shopp.*']\n")
    assert "none of the 1 table of the log is in scope (tables: shopp.*); " in stratalog("run", "-c", pipeline.path).err


LOOK = """
import sys
from pathlib import Path
from spark_jobs.config.loader import load
from spark_jobs.operations.observation.backlog import backlog

assert backlog(load(Path("pipeline.yaml")), "shop").moved
print([name for name in sys.modules if name.startswith(("spark_jobs.engine", "spark_jobs.pipeline"))])
"""


@pytest.mark.slow
def test_a_run_that_finds_nothing_has_imported_nothing_of_the_engine(tmp_path: Path) -> None:
    (tmp_path / "binlogs").mkdir()
    content = SegmentSpec((ORDERS,), (Insert("shop.orders", (1, "a")), Commit())).to_bytes()
    (tmp_path / "binlogs" / "mysql-bin.000001").write_bytes(content)
    (tmp_path / "pipeline.yaml").write_text("lake: ./lake\nsources: {shop: {files: ./binlogs}}\n")
    variables = os.environ | {"PYTHONPATH": str(ROOT)}
    command = [sys.executable, "-c", LOOK]
    process = subprocess.run(command, cwd=tmp_path, env=variables, capture_output=True, text=True, check=False)
    assert (process.stdout, process.returncode) == ("[]\n", 0), process.stderr


LIGHT = """
import sys
from spark_jobs.cli import main
try:
    main()
finally:
    heavy = {"numba", "pyspark", "pandas", "sqlglot", "spark_jobs.engine", "spark_jobs.pipeline.run"}
    print(sorted(heavy & set(sys.modules)), file=sys.stderr)
"""


@pytest.mark.slow
@pytest.mark.parametrize("verb", ["status", "run"])
def test_a_verb_without_work_imports_neither_kernels_nor_spark(tmp_path: Path, verb: str) -> None:
    pipeline = lake_at_end(tmp_path)
    pipeline.path.write_text("lake: ./lake\nsources:\n  shop: {files: ./binlogs}\n")
    variables = os.environ | {"PYTHONPATH": str(ROOT)}
    command = [sys.executable, "-c", LIGHT, verb, "-c", str(pipeline.path)]
    process = subprocess.run(command, env=variables, capture_output=True, text=True, check=False)
    assert (process.stderr.splitlines()[-1], process.returncode) == ("[]", 0), process.stderr
