"""What the last comparison of each table came to, in the lake."""

from datetime import timedelta
from pathlib import Path

import pytest

from spark_jobs.lake.layout import Lake
from spark_jobs.operations.observation import verified
from spark_jobs.operations.observation.verified import DIFFERS, EQUAL, Verified


def test_the_newest_comparison_of_each_table_is_kept(tmp_path: Path) -> None:
    lake = Lake(str(tmp_path / "lake"))
    assert verified.read(lake, "shop") == {}
    first = Verified("shop", "t", DIFFERS, "b.000001:200", "2026-11-28T10:00:00+00:00", missing=1, extra=2, unread=4)
    equal = Verified("shop", "u", EQUAL, "b.000001:200", verified.now())
    verified.note(lake, "shop", [first, equal])
    assert verified.read(lake, "shop") == {"shop.t": first, "shop.u": equal}
    assert verified.read(lake, "another") == {}
    assert (first.differing, equal.differing) == (7, 0)
    assert equal.age < timedelta(minutes=5) < first.age
    assert first.to_json()["verified_at"] == "2026-11-28T10:00:00+00:00"
    # Another table's comparison leaves it, its own takes its place; the position never goes back.
    second = Verified("shop", "t", "not compared", None, verified.now(), "it has stopped")
    verified.note(lake, "shop", [second])
    assert verified.read(lake, "shop") == {"shop.t": second, "shop.u": equal}
    head = lake.verified("shop").head()
    assert head
    assert str(head.position) == "b.000001:200"


@pytest.mark.parametrize("state", ["changing", "dropped", "mended"])
def test_any_state_comes_back(tmp_path: Path, state: str) -> None:
    lake = Lake(str(tmp_path))
    last = Verified("shop", "t", state, "2/b.000001:4", verified.now())
    verified.note(lake, "shop", [last])
    assert verified.read(lake, "shop")["shop.t"] == last
