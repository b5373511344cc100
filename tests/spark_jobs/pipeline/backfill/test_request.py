from pathlib import Path

import pytest

from spark_jobs.binlog import TableName
from spark_jobs.config.loader import from_keys
from spark_jobs.config.model import Pipeline
from spark_jobs.errors import ConfigError
from spark_jobs.log.position import Position, Range
from spark_jobs.pipeline.backfill.request import BackfillRequest, ReplayedTable, RowDifference

T, U = TableName("shop", "t"), TableName("shop", "u")
WINDOW = Range(Position("b.000001", 4), Position("b.000002", 4))


@pytest.fixture
def pipeline(tmp_path: Path) -> Pipeline:
    keys = {"lake": str(tmp_path / "lake"), "sources": {"shop": {"files": str(tmp_path)}}}
    return from_keys(keys, tmp_path / "pipeline.yaml")


@pytest.mark.parametrize(
    "values, problems",
    [
        ({}, {}),
        ({"start": " "}, {"from": "'' is not a position, GTID set or time"}),
        ({"source": "shopp"}, {"source": "no source 'shopp'; there are shop"}),
        ({"layers": ("bronze",)}, {"layers": "'bronze': choose among silver, downstream"}),
        ({"layers": ()}, {"layers": "none: choose among silver, downstream"}),
        ({"archive": Path("nowhere")}, {"archive": "nowhere is no folder"}),
        ({"tables": ("shop.t",)}, {"tables[0]": "shop.t is no table of shop that a run has seen: none"}),
    ],
)
def test_all_problems_are_listed(pipeline: Pipeline, values: dict[str, object], problems: dict[str, str]) -> None:
    arguments: dict[str, object] = {"source": "shop", "start": "b.000001:4", "stop": "b.000002:4"} | values
    request = BackfillRequest(**arguments)  # type: ignore[arg-type]
    if not problems:
        request.require_valid(pipeline)
        return
    with pytest.raises(ConfigError) as refused:
        request.require_valid(pipeline)
    assert {key: text[: len(problems[key])] for key, text in refused.value.problems.items()} == problems


@pytest.mark.parametrize(
    "tables, selected", [((), [T, U]), (("shop.t",), [T]), (("*.t", "shop.u"), [T, U]), (("other.*",), [])]
)
def test_tables_are_chosen_by_patterns(tables: tuple[str, ...], selected: list[TableName]) -> None:
    request = BackfillRequest("shop", "b.000001:4", "b.000002:4", tables)
    assert [name for name in (T, U) if request.wants(name)] == selected


@pytest.mark.parametrize(
    "replayed, text",
    [
        (ReplayedTable(T), "shop.t: has no window in the range"),
        (ReplayedTable(T, (WINDOW,)), "shop.t: windows: 1, merged again as they are"),
        (ReplayedTable(T, (WINDOW,), RowDifference(7)), "shop.t: windows: 1, rows: 7, nothing differs (0.0 s)"),
        (
            ReplayedTable(T, (WINDOW,), RowDifference(7000, 1, 2), seconds=1.25),
            "shop.t: windows: 1, rows: 7,000, 1 new, 2 gone (1.2 s)",
        ),
    ],
)
def test_a_table_s_result_is_a_line(replayed: ReplayedTable, text: str) -> None:
    assert str(replayed) == text
