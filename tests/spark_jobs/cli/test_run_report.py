import json

import pytest

from spark_jobs.binlog import TableName
from spark_jobs.bronze.extract import Extracted
from spark_jobs.cli.run_report import RunReport, print_extracted
from spark_jobs.downstream.merge_job import Merged
from spark_jobs.lake.commit import Checkpoint, Head
from spark_jobs.log.position import Position, Range
from spark_jobs.pipeline.outcome import Outcome
from spark_jobs.silver.compaction_job import Compacted

BEGIN, END = Position("b.000001", 4), Position("b.000001", 900)
NEW = Range(BEGIN, END)
HEAD = Head(1, 1, Checkpoint(END, "b"))
EXTRACTED = Extracted("shop", NEW, HEAD, bytes=896, transactions=2, events=9, seconds=0.25)
ORDERS, BAD = TableName("shop", "orders"), TableName("shop", "bad")
OUTCOME = Outcome(
    [],
    END,
    compacted=[Compacted("shop", ORDERS, NEW, HEAD, changes=5, inserts=2, deletes=1, left_out={"hidden": 1})],
    merged=[Merged("shop", ORDERS, "/lake/sales", HEAD, NEW, inserted=2, deleted=1, into="sales.orders")],
    stopped={BAD: "[SL-1010] shop: shop.bad: it is wrong"},
    derived={ORDERS: 3},
)


@pytest.mark.parametrize(
    "extracted, message",
    [
        (Extracted("shop", Range(END, END), HEAD), "shop: bronze is at b.000001:900; nothing new\n"),
        (EXTRACTED, "shop: bronze [b.000001:4, b.000001:900): 896 bytes, 2 transactions, 9 events in 0.2 s\n"),
    ],
    ids=["nothing", "something"],
)
def test_what_is_said_of_an_extraction(capsys: pytest.CaptureFixture[str], extracted: Extracted, message: str) -> None:
    print_extracted("shop", extracted.range.stop, extracted)
    assert capsys.readouterr().out == message


def test_a_run_as_json(capsys: pytest.CaptureFixture[str]) -> None:
    RunReport("shop", END, EXTRACTED, OUTCOME).print_report(as_json=True)
    streams = capsys.readouterr()
    counts = {"inserted": 2, "updated": 0, "deleted": 1, "position": "b.000001:900", "seconds": 0.0}
    assert json.loads(streams.out) == {
        "source": "shop",
        "bronze": {
            "position": "b.000001:900",
            "bytes": 896,
            "transactions": 2,
            "events": 9,
            "redacted_events": 0,
            "seconds": 0.25,
        },
        "silver": [{"table": "shop.orders", "changes": 5, "left_out": {"hidden": 1}} | counts],
        "derived": {"shop.orders": 3},
        "downstream": [{"table": "shop.orders", "into": "sales.orders"} | counts],
        "stopped": {"shop.bad": "[SL-1010] shop: shop.bad: it is wrong"},
        "codes": {"shop.bad": ["SL-1010"]},
        "schema": None,
    }
    assert streams.err == "stopped: [SL-1010] shop: shop.bad: it is wrong\n"


def test_a_run_without_news(capsys: pytest.CaptureFixture[str]) -> None:
    RunReport("shop", END).print_report(as_json=False)
    assert capsys.readouterr().out == (
        "shop: bronze is at b.000001:900; nothing new\nshop: silver and downstream have nothing new\n"
    )
    RunReport("shop", END).print_report(as_json=True)
    counts = {"bytes": 0, "transactions": 0, "events": 0, "redacted_events": 0}
    bronze = {"position": "b.000001:900"} | counts | {"seconds": 0.0}
    assert json.loads(capsys.readouterr().out) == {
        "source": "shop",
        "bronze": bronze,
        "silver": [],
        "derived": {},
        "downstream": [],
        "stopped": {},
        "codes": {},
        "schema": None,
    }
