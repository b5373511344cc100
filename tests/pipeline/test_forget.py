"""Rows that are forgotten: no file of the lake has their values, and every other row is as it was."""

import shutil
import subprocess
import zlib
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import count
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest
from _pytest.mark.structures import ParameterSet
from pyspark.sql import SparkSession

from spark_jobs.binlog import TableName, list_events
from spark_jobs.bronze.export import export
from spark_jobs.config.model import Pipeline
from spark_jobs.delta import old_statistics, vacuum
from spark_jobs.downstream import publication as published
from spark_jobs.errors import ConfigError, TableStopped
from spark_jobs.lake.layout import lake_of
from spark_jobs.lake.table import Table
from spark_jobs.log.position import Position
from spark_jobs.operations.forgetting.forget import Forgotten, forget
from spark_jobs.operations.repair import plan_reset, reset
from spark_jobs.pipeline.backfill.request import BackfillRequest
from spark_jobs.pipeline.backfill.run import backfill
from spark_jobs.subscriptions.subscription import Subscription
from tests.fix_mysql import database_of
from tests.fix_pipeline import SOURCE, Shop, require_same
from tests.fix_servers import Servers
from tests.lakes.delivered import Copy
from tests.lakes.lake_tables import table_rows
from tests.services.servers import tool_of

pytestmark = [pytest.mark.spark, pytest.mark.mysql]

MYSQL, MARIADB, PACKED = "mysql-8.0", "mariadb-11.4", "mysql-9.7"
WORD = "Person-4711-hush"
KEY = 471_108_151
PEOPLE = (
    "CREATE TABLE people (id INT PRIMARY KEY, name VARCHAR(80), note TEXT)",
    f"INSERT INTO people VALUES (1, 'one', 'n'), ({KEY}, '{WORD}', REPEAT('{WORD}', 20)), (3, 'three', NULL)",
    "INSERT INTO people VALUES (4, 'four', 'm')",
)
LATER = (
    f"UPDATE people SET note = CONCAT(name, '!') WHERE id IN (1, {KEY})",
    "UPDATE people SET note = 'x' WHERE id = 4",
)


@pytest.fixture
def shop(request: pytest.FixtureRequest, servers: Servers, spark: SparkSession, tmp_path: Path) -> Iterator[Shop]:
    """A fresh schema in a server of either kind, and a pipeline whose source begins at the log's end."""
    with database_of(servers.get(getattr(request, "param", MYSQL))) as database:
        yield Shop(spark, database, tmp_path, Shop.end(Shop(spark, database, tmp_path, Position("", 0))))


def on(*servers: str | ParameterSet) -> pytest.MarkDecorator:
    return pytest.mark.parametrize("shop", servers, indirect=True)


def with_texts(shop: Shop, *statements: str) -> None:
    """Statements whose texts are in the log beside their rows."""
    is_mariadb = "mariadb" in shop.database.server.build.name
    shop.execute(f"SET SESSION {'binlog_annotate_row_events' if is_mariadb else 'binlog_rows_query_log_events'} = ON")
    shop.execute(*statements)


def forgotten(shop: Shop, pipeline: Pipeline, *keys: str, is_applied: bool = True, table: str = "people") -> Forgotten:
    texts = keys or (f"id={KEY}",)
    return forget(shop.spark, pipeline, SOURCE, TableName(shop.database.name, table), texts, is_applied=is_applied)


def needles() -> list[bytes]:
    """The values as files have them."""
    return [WORD.encode(), str(KEY).encode(), KEY.to_bytes(4, "little")]


def holders(folder: Path) -> Iterator[str]:
    """The files of a lake that have a value, as it is or in what Parquet and events pack."""
    for file in sorted(path for path in folder.rglob("*") if path.is_file()):
        content = file.read_bytes()
        parts = [content]
        if file.suffix == ".parquet":
            table = pq.read_table(file)
            parts += [bytes_of(table.column(name).to_pylist()) for name in table.column_names]
            if "payload" in table.column_names:
                parts += [bytes_of(packed(record)) for record in table.to_pylist()]
        if file.suffix == ".avro":
            parts.append(inflated(content))
        if any(needle in part for needle in needles() for part in parts):
            yield str(file.relative_to(folder))


def inflated(content: bytes) -> bytes:
    """The block of an Avro file, which stands between two marks, behind two numbers of any length."""
    block = content[: -len(content[-16:])].partition(content[-16:])[2]
    while block and block[0] & 0x80:
        block = block[1:]
    block = block[1:]
    while block and block[0] & 0x80:
        block = block[1:]
    return zlib.decompress(block[1:], -15) if block else b""


def packed(record: dict[str, Any]) -> list[str]:
    """What the events of a slice say, those inside compressed ones too."""
    head = b"" if record["start"] == 0 else b"\xfebin" + (record["context"] or b"")
    return [repr(event) for event in list_events(iter([head + record["payload"]]), record["file"])]


def bytes_of(value: Any) -> bytes:
    """All that a column's values hold."""
    if isinstance(value, bytes):
        return value
    if isinstance(value, dict):
        return b"\0".join(map(bytes_of, value.values()))
    if isinstance(value, list | tuple):
        return b"\0".join(map(bytes_of, value))
    return repr(value).encode()


@dataclass(frozen=True)
class Rows:
    """The rows of all layers, but for those of the key."""

    silver: list[str]
    downstream: list[str]

    @classmethod
    def of(cls, shop: Shop, pipeline: Pipeline, table: str = "people") -> "Rows":
        lake, name = lake_of(pipeline), shop.database.name
        parts = [
            sorted(repr(row) for row in table_rows(position) if row["id"] != KEY)
            for position in (lake.silver(SOURCE, name, table), lake.downstream(name, table))
        ]
        return cls(*parts)


def lived(shop: Shop, **keys: Any) -> Pipeline:
    """A lake in which the key was inserted, updated and deleted, in several versions."""
    pipeline = shop.pipeline(**keys)
    with_texts(shop, *PEOPLE)
    shop.run(pipeline)
    with_texts(shop, *LATER)
    shop.run(pipeline)
    shop.execute(f"DELETE FROM people WHERE id IN ({KEY}, 3)")
    shop.run(pipeline)
    return pipeline


@on(MYSQL, pytest.param(MARIADB, marks=pytest.mark.thorough))
def test_no_file_has_the_values_and_all_else_is_as_it_was(shop: Shop) -> None:
    pipeline = lived(shop)
    folder, before = Path(pipeline.lake), Rows.of(shop, pipeline)
    files_before = [*holders(folder)]
    assert {name.split("/", 1)[0] for name in files_before} == {"bronze", "silver", "downstream"}
    planned = forgotten(shop, pipeline, is_applied=False)
    assert [*holders(folder)] == files_before, "nothing is erased without consent"
    erased = forgotten(shop, pipeline)
    assert erased == planned
    assert [*holders(folder)] == []
    assert Rows.of(shop, pipeline) == before
    require_same(shop, pipeline, "people")
    assert all(position.is_empty for position in forgotten(shop, pipeline).tables), "again there is nothing"
    # What is done later has the rows no more.
    shop.execute("INSERT INTO people VALUES (7, 'seven', NULL)", "UPDATE people SET note = 'y' WHERE id = 1")
    shop.run(pipeline)
    require_same(shop, pipeline, "people")
    assert [*holders(folder)] == []


LOCATIONS: dict[str, tuple[str, Any, set[str]]] = {
    "bronze": ("logged_rows.erase", lambda *_: None, {"bronze"}),
    "bronze's older versions": ("logged_rows.files_that_hold", lambda *_: [], {"bronze"}),
    "silver": ("_Forgetting._erase_silver", lambda _: None, {"silver"}),
    "downstream": ("_Forgetting._erase_downstream", lambda *_: None, {"downstream"}),
    "older versions": ("lake_rows.files_that_hold", lambda *_: [], {"silver", "downstream"}),
    "statistics": ("lake_rows.remove_old_statistics", lambda _: 0, {"silver", "downstream"}),
    "Iceberg's metadata": ("iceberg_tables.renew", lambda *_: None, {"downstream"}),
}
"""What erases each place: left out, with what then has the values."""


class Ended(BaseException):
    """In the place of the end of the process."""


@dataclass(frozen=True)
class SavedLake:
    """A lake in which the key lived, as it was before it was forgotten."""

    shop: Shop
    pipeline: Pipeline
    copy: Path
    rows: Rows

    @classmethod
    def of(cls, shop: Shop, folder: Path) -> "SavedLake":
        name = f"{shop.database.name}.people"
        rule = {"tables": name, "mode": "soft_delete", "change_data_feed": True, "iceberg": True}
        pipeline = lived(shop, downstream=[rule])
        shutil.copytree(pipeline.lake, folder)
        return cls(shop, pipeline, folder, Rows.of(shop, pipeline))

    @property
    def lake(self) -> Path:
        return Path(self.pipeline.lake)

    def restore(self) -> None:
        shutil.rmtree(self.lake)
        shutil.copytree(self.copy, self.lake)

    def require_forgotten(self, remark: object) -> None:
        assert [*holders(self.lake)] == [], remark
        assert Rows.of(self.shop, self.pipeline) == self.rows, remark


@pytest.mark.thorough
def test_each_place_has_the_values_until_it_is_erased(
    shop: Shop, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    saved = SavedLake.of(shop, tmp_path / "saved")
    for location, (attribute, replacement, folders) in LOCATIONS.items():
        saved.restore()
        with monkeypatch.context() as context:
            context.setattr(f"spark_jobs.operations.forgetting.forget.{attribute}", replacement)
            forgotten(shop, saved.pipeline)
        assert folders <= {file.split("/", 1)[0] for file in holders(saved.lake)}, location
        forgotten(shop, saved.pipeline)
        saved.require_forgotten(f"{location}, erased by the next forget")
    shop.run(saved.pipeline)
    saved.require_forgotten("after a run")


@pytest.mark.thorough
@pytest.mark.parametrize(
    "owner, attribute, moment, limit",
    [
        (Table, "land", "before", 50),
        (Table, "land", "after", 50),
        (vacuum, "remove", "before", 50),
        (published, "overwrite", "before", 50),
        (old_statistics, "_commit", "before", 2),
    ],
)
def test_a_forget_that_ends_anywhere_is_finished_by_another(
    shop: Shop,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    owner: Any,
    attribute: str,
    moment: str,
    limit: int,
) -> None:
    saved, number = SavedLake.of(shop, tmp_path / "saved"), 0
    while number < limit and interrupted(saved, (owner, attribute, moment, number), monkeypatch):
        saved.require_forgotten(number)
        number += 1
    assert number, "it ended at least once"


def interrupted(saved: SavedLake, end: tuple[Any, str, str, int], monkeypatch: pytest.MonkeyPatch) -> bool:
    """True if a forget ended at a call, and was finished by another; False where it has fewer calls."""
    owner, attribute, moment, number = end
    right, calls = getattr(owner, attribute), count()

    def ending(*arguments: Any, **options: Any) -> Any:
        is_it = next(calls) == number
        result = None if is_it and moment == "before" else right(*arguments, **options)
        if is_it:
            raise Ended
        return result

    saved.restore()
    with monkeypatch.context() as context:
        context.setattr(owner, attribute, ending)
        try:
            forgotten(saved.shop, saved.pipeline)
        except Ended:
            pass
        else:
            return False
    forgotten(saved.shop, saved.pipeline)
    return True


def test_what_cannot_be_forgotten_is_refused_and_nothing_is_changed(shop: Shop) -> None:
    pipeline = shop.pipeline()
    shop.execute(*PEOPLE, f"UPDATE people SET id = {KEY + 1} WHERE id = {KEY}", "CREATE TABLE bag (id INT)")
    shop.execute("INSERT INTO bag VALUES (1)")
    shop.run(pipeline)
    files_before = [*holders(Path(pipeline.lake))]
    refused = [
        (
            "people",
            ("id=1",),
            TableStopped,
            "rows of these keys are not deleted: 1, 1 in .*; delete them at the source",
        ),
        (
            "people",
            (f"id={KEY}",),
            TableStopped,
            f"have had other keys; name these too: {KEY + 1}",
        ),
        ("people", ("name=x",), ConfigError, "no value of"),
        ("bag", ("id=1",), TableStopped, "has no key with names"),
        ("nowhere", ("id=1",), ConfigError, "has no table .*nowhere in the lake"),
    ]
    for table, keys, kind, text in refused:
        with pytest.raises(kind, match=text):
            forgotten(shop, pipeline, *keys, table=table)
    shop.execute(f"DELETE FROM people WHERE id = {KEY + 1}")
    with Subscription(pipeline, SOURCE, "search", start=str(shop.start)) as subscription:
        shop.run(pipeline)
        pair = f"id={KEY}", f"id={KEY + 1}"
        with pytest.raises(TableStopped, match="group:search has not read the log up to the last change of these rows"):
            forgotten(shop, pipeline, *pair)
        assert [*holders(Path(pipeline.lake))] != []
        assert subscription.group == "search"
    assert len(files_before) > 3
    table_name = TableName(shop.database.name, "people")
    forget(shop.spark, pipeline, SOURCE, table_name, pair, ignored=["group:search"], is_applied=True)
    assert [*holders(Path(pipeline.lake))] == []


@on(MYSQL, MARIADB, PACKED)
@pytest.mark.thorough
def test_replays_have_the_rows_no_more_and_the_exported_log_is_one(shop: Shop, tmp_path: Path) -> None:
    if "9.7" in shop.database.server.build.name:
        shop.execute("SET SESSION binlog_transaction_compression = ON")
    pipeline = lived(shop)
    forgotten(shop, pipeline)
    request = BackfillRequest(SOURCE, str(shop.start), str(shop.end()))
    assert not backfill(shop.spark, pipeline, request).stopped
    reset(pipeline, SOURCE, plan_reset(pipeline, SOURCE, f"{shop.database.name}.people", drops_older=True))
    shop.run(pipeline)
    require_same(shop, pipeline, "people")
    assert {row["id"] for row in table_rows(lake_of(pipeline).silver(SOURCE, shop.database.name, "people"))} == {
        1,
        3,
        4,
    }
    # The log as it is written back says what is not the server's own, and is read by the server's tool.
    exported = [*export(shop.spark, lake_of(pipeline), SOURCE, tmp_path / "exported")]
    (notice,) = [file.redacted for file in exported if file.redacted]
    assert notice.tables == (f"{shop.database.name}.people",)
    assert notice.events >= 5
    is_mariadb = "mariadb" in shop.database.server.build.name
    tool = tool_of("mariadb-10.11", "mariadb-binlog") if is_mariadb else tool_of("mysql-9.7", "mysqlbinlog")
    for file in exported:
        content = file.path.read_bytes()
        if not content.startswith(b"\xfebin"):
            continue
        if tool:
            command = [*tool, "--no-defaults", "--verify-binlog-checksum", "-vv", str(file.path)]
            ended = subprocess.run(command, capture_output=True, text=True, check=False)
            assert ended.returncode == 0, ended.stderr
            assert WORD not in ended.stdout
            assert "'three'" in ended.stdout
    assert [*holders(Path(pipeline.lake))] == []


@pytest.mark.thorough
def test_a_delivery_that_lags_is_brought_up_to_date_before_its_files_go(copy: Copy) -> None:
    shop, pipeline = copy.shop, copy.pipeline()
    shop.execute(*PEOPLE)
    assert not copy.run(pipeline).stopped
    assert KEY in [row[0] for row in copy.rows("people")]
    shop.execute(*LATER, f"DELETE FROM people WHERE id IN ({KEY}, 3)")
    shop.run(pipeline)
    forgotten(shop, pipeline)
    assert [(row[0], row[1]) for row in copy.rows("people")] == [(1, "one"), (4, "four")]
    # The target is the source's own server, whose log has what was written to the copy.
    assert [name for name in holders(Path(pipeline.lake)) if not name.startswith("bronze/")] == []
    shop.execute("INSERT INTO people VALUES (9, 'nine', NULL)")
    assert not copy.run(pipeline).stopped
    assert [row[0] for row in copy.rows("people")] == [1, 4, 9]
