from pathlib import Path
from typing import Any

import pytest

from spark_jobs.checks.iceberg import check_iceberg
from spark_jobs.config.model import Pipeline
from spark_jobs.downstream import publication
from spark_jobs.downstream.publication import Entry
from spark_jobs.lake.layout import lake_of
from tests.spark_jobs.delta.tables import MAPPED, append, begin


def pipeline_of(folder: Path, **keys: Any) -> Pipeline:
    document = {"path": folder / "pipeline.yaml", "lake": str(folder), "sources": {"shop": {"files": str(folder)}}}
    return Pipeline.model_validate(document | keys)


@pytest.fixture
def tables(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A published table as it is by default, and one without column mapping."""
    lake, entries = lake_of(pipeline_of(tmp_path)), []
    for name, properties in (("a", MAPPED), ("b", {})):
        path = lake.downstream("s", name).path
        append(begin(path, properties, {"key": "BIGINT"}), range(2))
        entries.append(Entry("shop", "s", name, "current", downstream=path, downstream_version=0))
    monkeypatch.setattr(publication, "read", lambda *_: entries)


@pytest.mark.usefixtures("tables")
def test_each_table_that_cannot_be_shown_is_a_problem(tmp_path: Path) -> None:
    (check,) = check_iceberg(pipeline_of(tmp_path, iceberg=True))
    assert (check.name, check.status) == ("iceberg", "problem")
    assert check.value == "s.b cannot be shown: it has no column mapping, and so its files have no field ids"
    assert check.remedy == "set iceberg: false for it under downstream:"


@pytest.mark.usefixtures("tables")
def test_tables_that_are_not_to_be_shown_are_not_looked_at(tmp_path: Path) -> None:
    rules = [{"tables": "s.b", "iceberg": False}]
    (check,) = check_iceberg(pipeline_of(tmp_path, iceberg=True, downstream=rules))
    assert (check.status, check.value) == ("ok", "1 table in the lake can be shown")
    assert list(check_iceberg(pipeline_of(tmp_path))) == []
