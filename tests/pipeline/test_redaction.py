"""Tables whose rows are kept out of the lake: none of their bytes is in it, and all else is as it would have been."""

import shutil
import subprocess
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import timedelta
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest
import yaml
from pyspark.sql import SparkSession

from spark_jobs.binlog import list_events
from spark_jobs.bronze import table as bronze
from spark_jobs.bronze.export import Exported, export
from spark_jobs.changes.bronze_feed import changes_of_bronze
from spark_jobs.changes.feed import changes_of_files
from spark_jobs.checks.integrity import breaks
from spark_jobs.config.loader import load
from spark_jobs.config.model import Pipeline
from spark_jobs.demo.server import MySQLServer
from spark_jobs.errors import ConfigError, DecodeError
from spark_jobs.lake.layout import lake_of
from spark_jobs.operations.observation import status
from spark_jobs.operations.retention.gc import gc_source
from spark_jobs.pipeline.archive import read_archive
from spark_jobs.pipeline.run import extract_source, run_source
from tests.fix_pair import execute
from tests.fix_pipeline import rows
from tests.fix_servers import build_or_skip
from tests.services.servers import tool_of

pytestmark = [pytest.mark.spark, pytest.mark.mysql]

SOURCE = "shop"
SECRET = "SeCrEt-4711"
KINDS: dict[str, tuple[str, dict[str, object]]] = {
    "plain": ("mysql-8.0", {"binlog_rows_query_log_events": "ON"}),
    "compressed rows": ("mariadb-11.4", {"log_bin_compress": "ON", "log_bin_compress_min_len": 10}),
    "compressed transactions": (
        "mysql-9.7",
        {"binlog_transaction_compression": "ON", "binlog_rows_query_log_events": "ON"},
    ),
}
TOOLS = {"mysql-8.0": ("mysql-9.7", "mysqlbinlog"), "mysql-9.7": ("mysql-9.7", "mysqlbinlog")}
BEFORE = (
    "CREATE DATABASE shop",
    "CREATE TABLE shop.orders (id INT PRIMARY KEY, note VARCHAR(200))",
    "CREATE TABLE shop.secrets (id INT PRIMARY KEY, word VARCHAR(200), more TEXT)",
    "INSERT INTO shop.orders VALUES (1, 'one'), (2, 'two')",
    f"INSERT INTO shop.secrets VALUES (1, '{SECRET}-a', REPEAT('{SECRET}', 300)), (2, '{SECRET}-b', NULL)",
    f"UPDATE shop.orders SET note = 'known' WHERE EXISTS (SELECT 1 FROM shop.secrets WHERE word = '{SECRET}-a')",
    f"UPDATE shop.secrets SET word = '{SECRET}-c' WHERE id = 2",
    "BEGIN",
    "INSERT INTO shop.orders VALUES (3, 'three')",
    f"INSERT INTO shop.secrets VALUES (3, '{SECRET}-d', '{SECRET}')",
    "UPDATE shop.orders SET note = 'four' WHERE id = 3",
    "COMMIT",
    f"UPDATE shop.orders o JOIN shop.secrets s USING (id) SET o.note = 'both', s.more = '{SECRET}-e'",
    "FLUSH BINARY LOGS",
)
AFTER = (
    f"DELETE FROM shop.secrets WHERE word = '{SECRET}-d'",
    "CREATE TABLE shop._secrets_gho LIKE shop.secrets",
    "INSERT INTO shop._secrets_gho SELECT * FROM shop.secrets",
    "INSERT INTO shop.orders VALUES (9, 'nine')",
    "FLUSH BINARY LOGS",
)
LATER = (
    "INSERT INTO shop.orders VALUES (11, 'eleven')",
    f"INSERT INTO shop.secrets VALUES (11, '{SECRET}-f', REPEAT('{SECRET}', 99))",
    "UPDATE shop.orders SET note = CONCAT(note, '!')",
)


@dataclass(frozen=True)
class Redacting:
    """A server with a table whose rows are not to be kept, and a folder for the lake."""

    spark: SparkSession
    server: MySQLServer
    version: str
    folder: Path

    def pipeline(self, *, redact: tuple[str, ...] = ("shop.secrets",), **keys: Any) -> Pipeline:
        server = self.server
        login = {"host": server.host, "port": server.port, "user": server.user, "password": server.password}
        origin: dict[str, Any] = {"mysql": login, "start": "earliest"} | ({"redact": list(redact)} if redact else {})
        settings = {"lake": "./lake", "sources": {SOURCE: origin}, "tables": ["shop.orders"]} | keys
        path = self.folder / "pipeline.yaml"
        path.write_text(yaml.safe_dump(settings), encoding="utf-8")
        return load(path)

    def require_nothing_held(self) -> None:
        """No file of the lake has the secret, neither as it is nor in what Parquet packs."""
        word = SECRET.encode()
        for file in (path for path in self.folder.joinpath("lake").rglob("*") if path.is_file()):
            assert word not in file.read_bytes(), file
            if file.suffix == ".parquet":
                table = pq.read_table(file)
                assert word not in b"".join(_bytes(table.column(name).to_pylist()) for name in table.column_names), file

    def exported(self, pipeline: Pipeline, name: str) -> list[Exported]:
        return list(export(self.spark, lake_of(pipeline), SOURCE, self.folder / name))

    def require_exported(self, exports: list[Exported]) -> int:
        """The files are the server's but for what is said to be redacted; how many bytes those are."""
        blank = 0
        for file in exports:
            server_bytes, own_bytes = _closed((self.server.data / file.path.name).read_bytes()), file.path.read_bytes()
            assert len(own_bytes) <= len(server_bytes)
            spans = {
                (event.offset, event.stop)
                for event in list_events(iter([own_bytes]), file.path.name)
                if _is_blank(event)
            }
            redacted_bytes = file.redacted.bytes if file.redacted else 0
            assert redacted_bytes == sum(stop - start for start, stop in spans)
            at = 0
            for start, stop in [*sorted(spans), (len(own_bytes), len(own_bytes))]:
                assert own_bytes[at:start] == server_bytes[at:start]
                at = stop
            blank += redacted_bytes
        return blank


def _is_blank(event: Any) -> bool:
    return bool(event.type == "Redacted")


def _closed(content: bytes) -> bytes:
    """A file of the server's without its flag for being in use."""
    return content[:21] + bytes([content[21] & 0xFE]) + content[22:]


def _bytes(value: Any) -> bytes:
    """All that a column's values hold."""
    if isinstance(value, bytes):
        return value
    if isinstance(value, dict):
        return _bytes(list(value.values()))
    if isinstance(value, (list, tuple)):
        return b"".join(map(_bytes, value))
    return str(value).encode()


@pytest.fixture(
    scope="module", params=[pytest.param(kind, marks=[] if kind == "plain" else pytest.mark.thorough) for kind in KINDS]
)
def redacting(
    request: pytest.FixtureRequest, spark: SparkSession, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Redacting]:
    """Each kind of log in turn, read in two runs: the second begins inside what the first one left."""
    version, options = KINDS[request.param]
    folder = tmp_path_factory.mktemp("redacting")
    build = build_or_skip(version)
    with MySQLServer(folder / "server", options, build) as server:
        fixture = Redacting(spark, server, version, folder)
        execute(server, *BEFORE)
        run_source(spark, fixture.pipeline(), SOURCE)
        execute(server, *AFTER)
        run_source(spark, fixture.pipeline(), SOURCE)
        yield fixture


@pytest.mark.thorough
def test_no_byte_of_a_redacted_table_is_in_the_lake_and_other_tables_are_the_servers(redacting: Redacting) -> None:
    redacting.require_nothing_held()
    pipeline = redacting.pipeline()
    lake = lake_of(pipeline)
    truth = sorted(execute(redacting.server, "SELECT * FROM shop.orders"))
    assert rows(lake.downstream("shop", "orders").read(redacting.spark)) == truth
    head = lake.bronze(SOURCE).head()
    assert head
    assert breaks(lake.bronze(SOURCE), head) == []


def test_an_export_is_the_servers_files_but_for_what_it_says(redacting: Redacting) -> None:
    pipeline = redacting.pipeline()
    files = redacting.exported(pipeline, "exported")
    blank = redacting.require_exported(files)
    redactions = [file.redacted for file in files if file.redacted]
    assert {name for redacted in redactions for name in redacted.tables} == {"shop.secrets", "shop._secrets_gho"}
    redacted = status.status(pipeline, lake_of(pipeline), SOURCE).to_json()["redacted"]
    assert redacted == {
        "events": sum(redacted.events for redacted in redactions),
        "bytes": sum(redacted.bytes for redacted in redactions),
    }
    assert blank == redacted["bytes"]
    for file in files:
        assert SECRET.encode() not in file.path.read_bytes()
        tool = _tool(redacting.version)
        if tool:
            process = subprocess.run(
                [*tool, "-v", "--base64-output=decode-rows", str(file.path)],
                capture_output=True,
                text=True,
                check=False,
            )
            assert (process.returncode, SECRET in process.stdout) == (0, False), process.stderr


def _tool(version: str) -> list[str] | None:
    build, name = TOOLS.get(version, (version, "mariadb-binlog"))
    return tool_of(build, name)


def test_changes_leave_redacted_rows_out(redacting: Redacting, caplog: pytest.LogCaptureFixture) -> None:
    pipeline = redacting.pipeline()
    exports = redacting.exported(pipeline, "for changes")
    files = ((file.path.name, iter([file.path.read_bytes()])) for file in exports)
    of_files = [line.split('"schema"')[1] for line in changes_of_files(files, lambda name: name.schema == "shop")]
    assert "events were redacted" in caplog.text
    lake = lake_of(pipeline)
    of_bronze = changes_of_bronze(lake, SOURCE, None, None, is_wanted=lambda name: name.schema == "shop")
    assert of_files == [line.split('"schema"')[1] for line in of_bronze]
    assert of_files
    assert "secrets" not in "".join(of_files)


@pytest.mark.thorough
def test_what_gc_removed_and_what_was_not_read_comes_redacted_from_an_archive(redacting: Redacting) -> None:
    restored = Redacting(redacting.spark, redacting.server, redacting.version, redacting.folder / "again")
    restored.folder.mkdir()
    (restored.folder / "archive").mkdir()
    pipeline = restored.pipeline()
    execute(redacting.server, *LATER)
    extract_source(redacting.spark, pipeline, SOURCE)
    retention = pipeline.retention.model_copy(update={"bronze": timedelta(microseconds=1)})
    collected = gc_source(
        redacting.spark, pipeline.model_copy(update={"retention": retention}), SOURCE, ignored=frozenset({"silver"})
    )
    assert collected.files
    execute(
        redacting.server, "INSERT INTO shop.orders VALUES (12, 'twelve')", f"UPDATE shop.secrets SET word = '{SECRET}'"
    )
    for file in sorted(redacting.server.data.glob("*-bin.0*")):
        shutil.copy(file, restored.folder / "archive")
    read_archive(redacting.spark, pipeline, SOURCE, restored.folder / "archive")
    restored.require_nothing_held()
    files = restored.exported(pipeline, "exported")
    assert [file.partial for file in files] == [None] * len(files)
    assert len(files) >= 3
    restored.require_exported(files)
    totals = bronze.redacted_in_all(lake_of(pipeline).bronze(SOURCE), _version(pipeline))
    redactions = [file.redacted for file in files if file.redacted]
    assert totals == (sum(redacted.events for redacted in redactions), sum(redacted.bytes for redacted in redactions))


def _version(pipeline: Pipeline) -> int:
    head = lake_of(pipeline).bronze(SOURCE).head()
    assert head
    return head.version


@pytest.mark.thorough
def test_a_list_that_changes_holds_from_the_next_extraction_on(redacting: Redacting) -> None:
    later = Redacting(redacting.spark, redacting.server, redacting.version, redacting.folder / "later")
    later.folder.mkdir()
    before = later.pipeline(redact=())
    extract_source(redacting.spark, before, SOURCE)
    ends = []
    for at, pipeline in enumerate((later.pipeline(), later.pipeline(redact=())), 100):
        execute(redacting.server, f"INSERT INTO shop.secrets VALUES ({at}, 'x', NULL)", "FLUSH BINARY LOGS")
        extracted = extract_source(redacting.spark, pipeline, SOURCE)
        ends.append(extracted.redacted_events)
    totals = bronze.redacted_in_all(lake_of(before).bronze(SOURCE), _version(before))
    assert (ends[1], ends[0] > 0, ends[0]) == (0, True, totals[0])
    files = later.exported(before, "exported")
    assert later.require_exported(files) == totals[1]
    has_words = any(SECRET.encode() in file.path.read_bytes() for file in files)  # of what was read before the list
    assert has_words or redacting.version == "mysql-9.7", "packed, words are none in a file"


def test_a_table_that_was_redacted_stops_by_name_where_it_comes_into_scope(redacting: Redacting) -> None:
    pipeline = redacting.pipeline(redact=(), tables=["shop.*"])
    _, outcome = run_source(redacting.spark, pipeline, SOURCE)
    (reason,) = [reason for name, reason in outcome.stopped.items() if name.table == "secrets"]
    assert "shop.secrets: rows of it were redacted here when the log was extracted" in reason


def test_check_refuses_redacted_tables_in_scope(redacting: Redacting) -> None:
    with pytest.raises(ConfigError, match=r"sources.shop.redact\[0\]: shop.secrets can be in scope"):
        redacting.pipeline(tables=["shop.*"])


def test_statements_that_change_rows_are_refused_by_name(redacting: Redacting) -> None:
    if redacting.version != "mysql-8.0":
        pytest.skip("once is enough")
    statement_format = Redacting(redacting.spark, redacting.server, redacting.version, redacting.folder / "statements")
    statement_format.folder.mkdir()
    pipeline = statement_format.pipeline()
    extract_source(redacting.spark, pipeline, SOURCE)
    execute(redacting.server, "SET SESSION binlog_format = STATEMENT", "UPDATE shop.orders SET note = 'x' WHERE id = 1")
    with pytest.raises(DecodeError, match="UPDATE in statement format: the source redacts"):
        extract_source(redacting.spark, pipeline, SOURCE)
