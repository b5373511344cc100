from pathlib import Path

import pytest

from spark_jobs.config.model import Pipeline
from spark_jobs.errors import ConfigError
from spark_jobs.pipeline.as_of.request import TablesRequest

AT = "mysql-bin.000002:4320"
RIGHT: dict[str, object] = {"source": "shop", "at": AT, "tables": ("shop.goods",), "to": "then"}


@pytest.mark.parametrize(
    "values, problems",
    [
        ({"at": "", "to": " ", "tables": ()}, {"at": "missing", "to": "missing", "tables": "missing"}),
        ({"at": "now"}, {"at": "'now' is not a position, GTID set or time"}),
        ({"source": "shopp"}, {"source": "no source 'shopp'; there are shop"}),
        ({"form": "xml"}, {"format": "'xml': choose among csv, jsonl, parquet, delta"}),
        ({"condition": "a >"}, {"where": ""}),
        ({"to": "hdfs://there/x", "tables": ("shop.x",)}, {"to": "", "tables[0]": "shop.x is no table of shop that"}),
    ],
)
def test_all_problems_are_listed(pipeline: Pipeline, values: dict[str, object], problems: dict[str, str]) -> None:
    with pytest.raises(ConfigError) as refused:
        TablesRequest(**RIGHT | values).require_valid(pipeline)  # type: ignore[arg-type]
    assert {key: text[: len(problems.get(key, ""))] for key, text in refused.value.problems.items()} == problems


def test_a_right_request_is_answered(pipeline: Pipeline, tmp_path: Path) -> None:
    request = TablesRequest(
        "shop", f" {AT}", ("shop.goods",), str(tmp_path / "then"), keys=("3", "1"), condition=" a > 6 "
    )
    request.require_valid(pipeline)
    with request.answered(pipeline) as source_at:
        (table,) = source_at.tables
        assert (str(table.name), str(source_at.at)) == ("shop.goods", AT)
        assert table.selection().table().column("id").to_pylist() == [3]
    assert not (tmp_path / "then").exists(), "nothing is written by asking"
