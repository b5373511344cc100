from dataclasses import replace
from pathlib import Path

import pytest

from spark_jobs.bronze.commit import BronzeCommit
from spark_jobs.bronze.scan import RangeScan
from spark_jobs.errors import LakeError, LostRace, TableStopped
from spark_jobs.lake.commit import Head
from spark_jobs.log.position import Position
from spark_jobs.pipeline.table_planner import TablePlanner
from spark_jobs.silver.timeline.inputs import TimelineInputs
from tests.spark_jobs.pipeline.plans import END, ORDERS, entry, planner

RULES = TimelineInputs(lambda logged, _: logged, lambda *_: {})
P1, P2, P3 = (Position(f"b.{number:06d}", 4) for number in (1, 2, 3))


@pytest.mark.parametrize(
    "position, published, surveyed, oldest, since",
    [
        pytest.param(None, False, None, None, P1, id="the first run"),
        pytest.param(None, False, P3, P3, P3, id="a table that comes after gc has nothing before it"),
        pytest.param(None, False, P2, P3, None, id="it may have had something where nobody had looked"),
        pytest.param(None, False, None, P3, None, id="nobody has looked anywhere"),
        pytest.param(None, True, P3, P3, None, id="a table that was out of scope until now"),
        pytest.param(P2, True, P3, P3, None, id="gc went past it"),
        pytest.param(P3, True, P3, P3, P3, id="gc went up to it"),
    ],
)
def test_a_table_stops_where_gc_removed_what_it_needs(
    tmp_path: Path,
    position: Position | None,
    published: bool,
    surveyed: Position | None,
    oldest: Position | None,
    since: Position | None,
) -> None:
    commit = BronzeCommit(END, "batch", begin=P1, oldest=oldest)
    source_planner = replace(planner(tmp_path, commit=commit), surveyed=surveyed)
    tables = TablePlanner(
        source_planner.pipeline, source_planner.lake, source_planner.snapshot, RangeScan({}, ()), RULES
    )
    before = entry(ORDERS, position=position and str(position), surveyed=str(P3) if published else None)
    if since is None:
        with pytest.raises(TableStopped, match=r"^s: shop\.orders: bronze no longer holds \[.*, b\.000003:4\);"):
            tables.job(before, source_planner._since(before))
    else:
        assert tables.job(before, source_planner._since(before)) is None
        assert source_planner._since(before) == since


@pytest.mark.parametrize("is_overtaken", [True, False])
def test_a_table_that_is_ahead_of_the_log_is_not_compacted(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, *, is_overtaken: bool
) -> None:
    """Another run has gone on meanwhile, or bronze is not the one that the tables came from."""
    source_planner, ahead = planner(tmp_path), Position("b.000009", 4)
    tables = TablePlanner(
        source_planner.pipeline, source_planner.lake, source_planner.snapshot, RangeScan({}, ()), RULES
    )
    commit = BronzeCommit(Position("b.000010", 4) if is_overtaken else END, "batch", begin=P1)
    monkeypatch.setattr(type(source_planner.snapshot.table), "head", lambda _: Head(1, 1, commit))
    reason = "another writer has gone on" if is_overtaken else "is not the bronze that the tables came from"
    with pytest.raises(LostRace if is_overtaken else LakeError, match=reason):
        tables._window_start(entry(ORDERS, position=str(ahead)), ahead, None, 0)
