import pytest

from spark_jobs.cli.running import _say_extracted
from spark_jobs.extract import Extracted
from spark_jobs.lake import Checkpoint, Head
from spark_jobs.position import Position, Range

BEGIN, END = Position("b.000001", 4), Position("b.000001", 900)
HEAD = Head(1, 1, Checkpoint(END, "b"))


@pytest.mark.parametrize(
    "found, said",
    [
        (Extracted("shop", Range(END, END), HEAD), "shop: bronze is at b.000001:900; nothing new\n"),
        (
            Extracted("shop", Range(BEGIN, END), HEAD, bytes=896, transactions=2, events=9, seconds=0.25),
            "shop: bronze [b.000001:4, b.000001:900): 896 bytes, 2 transactions, 9 events in 0.2 s\n",
        ),
    ],
    ids=["nothing", "something"],
)
def test_what_is_said_of_an_extraction(capsys: pytest.CaptureFixture[str], found: Extracted, said: str) -> None:
    _say_extracted(found)
    assert capsys.readouterr().out == said
