import json
from collections.abc import Iterator
from pathlib import Path

import pytest

from spark_jobs.config.model import Pipeline
from tests.fix_cli import Stratalog
from tests.lakes.recorded_lake import recorded

AT = "mysql-bin.000002:4320"


@pytest.fixture
def pipeline(tmp_path: Path) -> Iterator[Pipeline]:
    with recorded(tmp_path / "recorded") as (pipeline, _):
        yield pipeline


def test_a_table_on_the_terminal_is_limited_and_says_so(stratalog: Stratalog, pipeline: Pipeline) -> None:
    table = stratalog("at", AT, "-c", pipeline.path, "--table", "shop.goods", "--limit", 2)
    assert table.status == 0
    assert table.out.splitlines() == [
        f"shop.goods at {AT}: 3 rows, of which 2 are shown (--limit)",
        "id  a  doc                   note",
        '1   5  {"x": [1, 2.5, "é"]}  NULL',
        "2   6  NULL                  NULL",
    ]
    row = stratalog("at", AT, "-c", pipeline.path, "--table", "shop.goods", "--key", "3")
    assert row.out.splitlines()[2:] == ["3   7  NULL  seven"]


def test_lines_of_one_table(stratalog: Stratalog, pipeline: Pipeline) -> None:
    lines = stratalog("at", AT, "-c", pipeline.path, "--table", "shop.goods", "--where", "a > 6", "--format", "jsonl")
    assert json.loads(lines.out) == {"id": 3, "a": 7, "doc": None, "note": "seven"}
    lines = stratalog("at", AT, "-c", pipeline.path, "--table", "shop.*", "--format", "jsonl")
    assert lines.status == 2
    assert "one table goes to standard output; give --to DIR with it" in lines.err


def test_files_of_a_schema(stratalog: Stratalog, pipeline: Pipeline, tmp_path: Path) -> None:
    folder = tmp_path / "then"
    result = stratalog("at", "mysql-bin.000002:2000", "-c", pipeline.path, "--table", "shop.*", "--to", folder)
    assert result.status == 0
    assert f"{folder}/shop.orders.parquet\t2 rows of shop.orders at mysql-bin.000002:1713" in result.out.splitlines()
    assert "warning: left out: shop.goods was not there at mysql-bin.000002:1713: it was created later" in result.err


@pytest.mark.parametrize(
    "options, message",
    [
        ([AT], "--table: name a table"),
        ([AT, "--table", "shop.goods", "--format", "delta"], "--format delta writes files: give --to DIR with it"),
        ([AT, "--table", "shop.goods", "--format", "table", "--to", "x"], "--format table is for the terminal"),
        (["then", "--table", "shop.goods"], "'then' is not a position, GTID set or time"),
        ([AT, "--table", "shop.nope"], "tables[0]: shop.nope is no table of shop that a run has seen: shop.clicks, "),
        ([AT, "--table", "shop.goods", "--where", "a >"], "where: "),
    ],
)
def test_wrong_use_ends_with_status_2(
    stratalog: Stratalog, pipeline: Pipeline, options: list[str], message: str
) -> None:
    result = stratalog("at", "-c", pipeline.path, *options)
    assert (result.status, result.out) == (2, "")
    assert message in result.err
