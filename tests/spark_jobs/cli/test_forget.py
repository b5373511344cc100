"""What forget says. Whole forgets: tests/pipeline/test_forget.py."""

from pathlib import Path

import pytest

from spark_jobs.binlog import TableName
from spark_jobs.cli.forget import _say
from spark_jobs.operations.forgetting.forget import Forgotten, ForgottenIn
from tests.fix_cli import Stratalog

LOCATIONS = (
    ForgottenIn("/lake/bronze/shop", events=3, bytes=99, old_files=1),
    ForgottenIn("/lake/silver/shop/shop/people"),
)
HELD = ("mysql-bin.000001:99: a statement that changes rows of the table is logged as text",)


@pytest.mark.parametrize(
    "arguments, message",
    [
        (["people", "--key", "id=1"], "'people' is no table; write it like shop.orders"),
        (["shop.people"], "Missing option '--key'"),
    ],
)
def test_wrong_use_is_said_before_anything_starts(
    stratalog: Stratalog, pipeline_file: Path, arguments: list[str], message: str
) -> None:
    ran = stratalog("forget", *arguments, "-c", pipeline_file)
    assert (ran.status, ran.out) == (2, "")
    assert message in ran.err


@pytest.mark.parametrize("yes", [False, True])
def test_places_that_have_something_and_what_still_holds_it(capsys: pytest.CaptureFixture[str], yes: bool) -> None:
    forgotten = Forgotten("shop", TableName("shop", "people"), 1, LOCATIONS, HELD)
    _say(forgotten, yes=yes)
    output = capsys.readouterr()
    assert "/lake/bronze/shop" in output.out
    assert "silver" not in output.out
    assert ("erased" in output.out) == yes
    assert "is logged as text" in output.err
    assert ("nothing is erased yet; --yes does it" in output.err) != yes
    assert forgotten.to_json(is_applied=yes)["places"][0] == {
        "place": "/lake/bronze/shop", "events": 3, "bytes": 99, "rows": 0, "marked": 0, "old_files": 1,
    }  # fmt: skip


def test_nothing_found_is_said(capsys: pytest.CaptureFixture[str]) -> None:
    _say(Forgotten("shop", TableName("shop", "people"), 1, LOCATIONS[1:], ()), yes=True)
    assert "shop: shop.people: nothing of these keys is in the lake" in capsys.readouterr().out
