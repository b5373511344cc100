from dataclasses import replace
from pathlib import Path

import pytest

from spark_jobs.binlog import TableName
from spark_jobs.config.model import SchemaDump
from spark_jobs.ddl.foreign_keys import ForeignKey
from spark_jobs.ddl.server_facts import ServerFacts
from spark_jobs.errors import SourceError
from spark_jobs.log.position import Position
from spark_jobs.schema.dump import answer_of, dump_bytes, mark, problems
from spark_jobs.source.files import Files
from tests.binlogs.segment_spec import Change, Commit, Insert, SegmentSpec, Table
from tests.binlogs.segment_types import INT

CHANGES: list[Change] = [Insert("shop.t", (1,)), Commit(), Insert("shop.t", (2,)), Commit()]
SPEC = SegmentSpec(tables=[Table("shop.t", key=["id"], id=INT.NOT_NULL)], changes=CHANGES)
FIRST = next(end for event, end in zip(SPEC.events(), SPEC.offsets()[1:], strict=True) if event[4] == 16)
"""Position where the first transaction ends."""
TABLES = "USE shop;\nCREATE TABLE t (id INT PRIMARY KEY);\n"


def dump_text(at: str) -> str:
    file, offset = at.split(":")
    return f"-- CHANGE MASTER TO MASTER_LOG_FILE='{file}', MASTER_LOG_POS={offset};\n{TABLES}"


@pytest.fixture
def log(tmp_path: Path) -> Files:
    (tmp_path / "bin.000001").write_bytes(SPEC.to_bytes())
    (tmp_path / "bin.000002").write_bytes(replace(SPEC, in_use=True, rotate_to="").to_bytes())
    return Files("shop", tmp_path)


def dump(log: Files, text: str, at: str | None = None) -> SchemaDump:
    path = log.directory / "schema.sql"
    path.write_text(text, encoding="utf-8")
    return SchemaDump(file=path, at=at)


@pytest.mark.parametrize(
    "text, at, expected",
    [
        (dump_text(f"bin.000001:{FIRST}"), None, f"bin.000001:{FIRST}"),
        (dump_text("other.000009:999"), f"bin.000001:{FIRST}", f"bin.000001:{FIRST}"),
        (TABLES, "bin.000002:4", "bin.000002:4"),
        (dump_text("bin.000003:77"), None, "bin.000003:77"),
    ],
    ids=["its own", "that of the configuration instead", "that of the configuration", "behind the log"],
)
def test_a_dump_has_a_place(log: Files, text: str, at: str | None, expected: str) -> None:
    schema_dump = dump(log, text, at)
    answer = answer_of(log, schema_dump, dump_bytes("shop", schema_dump))
    assert (answer.at, answer.origin, answer.is_whole) == (Position.parse(expected), "dump", False)
    assert [str(definition.name) for definition in answer.definitions] == ["shop.t"]


def test_a_dump_tells_foreign_keys_that_cascade_and_system_versioning(log: Files) -> None:
    rule = "CONSTRAINT `f` FOREIGN KEY (`id`) REFERENCES `t` (`id`) ON DELETE CASCADE"
    text = (
        f"{TABLES}CREATE TABLE `c` (`id` int, {rule});\nDROP TABLE IF EXISTS `d`;\n"
        f"CREATE TABLE `d` (`id` int, {rule});\nDROP TABLE `d`;\nCREATE TABLE `v` (`id` int) WITH SYSTEM VERSIONING;\n"
    )
    answer = answer_of(log, dump(log, text, "bin.000002:4"), text.encode())
    key = ForeignKey("f", TableName("shop", "t"), "CASCADE", columns=("id",), parent_columns=("id",))
    facts = ServerFacts(answer.at, ((TableName("shop", "c"), key),), (TableName("shop", "v"),))
    assert answer.declared == facts


@pytest.mark.parametrize(
    "text, reason",
    [
        (TABLES, r"it does not say at which position .*--source-data=2 .*schema_dump: \{file: …, at:"),
        (dump_text("a.000001:4") + dump_text("bin.000001:4"), r"several positions \(a\.000001:4, bin\.000001:4\)"),
        (dump_text("relay.000001:4"), r"taken at relay\.000001:4, and the log's files are named like bin\.000001"),
        (dump_text(f"bin.000001:{FIRST + 3}"), rf"no transaction begins at bin.000001:{FIRST + 3}; the nearest"),
        (dump_text("bin.000001:4") + "CREATE TABLE u (a INT", r"line 4: the statement has no end"),
    ],
)
def test_a_dump_without_a_place_is_refused(log: Files, text: str, reason: str) -> None:
    schema_dump = dump(log, text)
    with pytest.raises(SourceError, match=rf"shop: the schema dump {schema_dump.file}: .*{reason}"):
        answer_of(log, schema_dump, dump_bytes("shop", schema_dump))


def test_what_cannot_be_read_is_told_of_its_table_alone(log: Files) -> None:
    schema_dump = dump(log, dump_text("bin.000001:4") + "CREATE TABLE u (a MADE_UP);\n")
    answer = answer_of(log, schema_dump, dump_bytes("shop", schema_dump))
    ((name, reason),) = answer.unread
    assert name == TableName("shop", "u")
    assert f"{schema_dump.file}: line 4: CREATE TABLE of shop.u cannot be read" in reason
    assert problems("shop", schema_dump, log) == [reason]


@pytest.mark.parametrize(
    "text, reason",
    [
        (dump_text("bin.000001:4"), None),
        (TABLES, "it does not say at which position"),
        ("-- CHANGE MASTER TO MASTER_LOG_FILE='bin.000001', MASTER_LOG_POS=4;", "it makes no table"),
        (dump_text("relay.000001:4"), "the log's files are named like bin.000001"),
    ],
)
def test_all_that_is_wrong_is_listed(log: Files, text: str, reason: str | None) -> None:
    schema_dump = dump(log, text)
    messages = problems("shop", schema_dump, log)
    assert len(messages) == (reason is not None)
    assert all(message.startswith(f"{schema_dump.file}: ") and reason and reason in message for message in messages)


def test_a_dump_that_is_not_there(log: Files) -> None:
    schema_dump = SchemaDump(file=log.directory / "none.sql")
    assert problems("shop", schema_dump, None) == [f"{schema_dump.file}: it cannot be read: No such file or directory"]
    with pytest.raises(SourceError, match=r"shop: the schema dump .*none\.sql: it cannot be read"):
        dump_bytes("shop", schema_dump)


def test_a_dump_is_another_one_by_its_bytes_and_its_place(log: Files) -> None:
    schema_dump = dump(log, TABLES, "bin.000001:4")
    marks = {mark(schema_dump, b"a"), mark(schema_dump, b"b"), mark(schema_dump.model_copy(update={"at": None}), b"a")}
    assert len(marks) == 3
    assert mark(schema_dump, b"a") in marks
