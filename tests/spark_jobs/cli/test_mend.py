"""What mend says. Whole mends: tests/pipeline/test_mend.py."""

from contextlib import nullcontext
from pathlib import Path

import pytest

from spark_jobs.binlog import TableName
from spark_jobs.checks.verify import KeyDifference
from spark_jobs.cli.mend import _print_mended
from spark_jobs.log.position import Position
from spark_jobs.mending.mend_source import STOPPED, WHOLE, Mended, MendedTable
from spark_jobs.mending.mend_task import MendCounts
from spark_jobs.operations.observation.verified import EQUAL, MENDED
from tests.fix_cli import Stratalog

AT = Position("mysql-bin.000042", 1337)
LINES, KEYLESS = TableName("shop", "lines"), TableName("shop", "bag")
FOUND = (
    KeyDifference("extra", {"order_id": "1", "line": "2"}),
    KeyDifference("missing", {"order_id": "2", "line": "1"}),
)


@pytest.mark.parametrize(
    "options, message",
    [
        (["--key", "id=1"], "--key: keys are of one table; name it by --table"),
        (["--key", "id=1", "--table", "shop.*"], "--key: keys are of one table; name it by --table"),
        ([], "sources.shop: it reads files, which have no tables to compare"),
    ],
)
def test_wrong_use_is_said_before_anything_starts(
    stratalog: Stratalog, pipeline_file: Path, options: list[str], message: str
) -> None:
    ran = stratalog("mend", "-c", pipeline_file, *options)
    assert (ran.status, ran.out) == (2, "")
    assert message in ran.err


def test_what_would_be_done_and_what_was(capsys: pytest.CaptureFixture[str]) -> None:
    counts = MendCounts(inserted=1, deleted=1, changed=2, tied=3)
    tables = [
        MendedTable("shop", LINES, MENDED, counts, AT, FOUND, unread=7),
        MendedTable("shop", KEYLESS, WHOLE, rows=1234),
        MendedTable("shop", TableName("shop", "t"), EQUAL, differences=FOUND[:1]),
        MendedTable("shop", TableName("shop", "u"), STOPPED, reason="shop: shop.u: has keys in common"),
    ]
    _print_mended("shop", Mended(tables, None), yes=False)
    out, err = capsys.readouterr()
    assert [line.split() for line in out.splitlines()] == [
        ["table", "to", "insert", "to", "update", "to", "delete", "as", "of"],
        ["shop.lines", "1", "0", "1", "mysql-bin.000042:1337"],
        ["shop.bag", "all", "1,234"],
        ["shop.lines", "extra", "order_id=1,", "line=2"],
        ["shop.lines", "missing", "order_id=2,", "line=1"],
        ["shop:", "shop.t:", "has", "the", "server's", "rows"],
        ["shop.t", "extra", "order_id=1,", "line=2"],
    ]
    for text in (
        "shop.lines: 2 keys were changed by the log since they were read",
        "3 keys were loaded at mysql-bin.000042:1337, where the log still ends",
        "7 more rows differ than were compared one by one; mend it again for them",
        "shop.bag: has no key, so that all of its rows are read in one snapshot",
        "shop.t: silver has the server's rows, and downstream has not",
        "shop: shop.u: has keys in common",
    ):
        assert text in err
    _print_mended("shop", Mended(tables[1:2], None), yes=True)
    out, err = capsys.readouterr()
    assert out.splitlines()[0].split() == ["table", "inserted", "updated", "deleted", "as", "of"]
    assert err == ""
    _print_mended("shop", Mended([], None), yes=True)
    assert capsys.readouterr().out == "shop: no table differs\n"


@pytest.mark.parametrize(
    "table, options, status, is_printed",
    [
        (MendedTable("shop", LINES, MENDED, MendCounts(updated=1), AT, FOUND[:1]), [], 0, True),
        (MendedTable("shop", LINES, MENDED, MendCounts(updated=1), AT, FOUND[:1]), ["--yes"], 0, False),
        (MendedTable("shop", LINES, EQUAL), [], 0, False),
        (MendedTable("shop", LINES, STOPPED, reason="shop: shop.lines: has keys in common"), [], 1, False),
    ],
)
def test_a_dry_run_says_so_where_rows_differ(
    stratalog: Stratalog,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    table: MendedTable,
    options: list[str],
    status: int,
    is_printed: bool,
) -> None:
    monkeypatch.setattr("spark_jobs.cli.app.spark_of", lambda *_, **__: nullcontext())
    monkeypatch.setattr("spark_jobs.mending.mend_source.mend_source", lambda *_, **__: Mended([table], None))
    path = tmp_path / "pipeline.yaml"
    path.write_text("lake: ./lake\nsources:\n  shop: {mysql: {user: repl}}\n")
    ran = stratalog("mend", "-c", path, *options)
    assert (ran.status, "nothing is mended yet; --yes does it" in ran.err) == (status, is_printed)


def test_a_table_as_json() -> None:
    table = MendedTable("shop", LINES, MENDED, MendCounts(updated=1), AT, FOUND[:1])
    fields = table.to_json(is_applied=False)
    assert (fields["applied"], fields["at"], fields["updated"]) == (False, "mysql-bin.000042:1337", 1)
    assert fields["keys"] == [{"kind": "extra", "key": {"order_id": "1", "line": "2"}, "columns": {}}]
    assert table.to_json(is_applied=True)["applied"]
    assert not MendedTable("shop", LINES, EQUAL).to_json(is_applied=True)["applied"]
