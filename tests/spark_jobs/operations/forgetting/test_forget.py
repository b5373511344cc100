"""What is refused before anything is read. Whole forgets: tests/pipeline/test_forget.py."""

from pathlib import Path
from typing import cast

import pytest
from pyspark.sql import SparkSession

from spark_jobs.binlog import TableName
from spark_jobs.config.loader import load
from spark_jobs.errors import ConfigError
from spark_jobs.operations.forgetting.forget import Forgotten, ForgottenIn, forget, remaining_copies


def test_a_table_that_the_lake_does_not_have_is_named(tmp_path: Path) -> None:
    path = tmp_path / "pipeline.yaml"
    path.write_text("lake: ./lake\nsources: {shop: {files: ./binlogs}}\n")
    with pytest.raises(ConfigError, match=r"shop has no table s\.people in the lake"):
        forget(cast("SparkSession", None), load(path, {}), "shop", TableName("s", "people"), ["id=1"])


def test_what_was_forgotten_as_json() -> None:
    positions = ForgottenIn("a", rows=1), ForgottenIn("b")
    assert [position.is_empty for position in positions] == [False, True]
    document = Forgotten("shop", TableName("s", "people"), 2, positions, ("held",)).to_json(is_applied=True)
    assert (document["table"], document["keys"], document["applied"]) == ("s.people", 2, True)
    assert [position["place"] for position in document["places"]] == ["a", "b"]


def test_an_archive_and_copies_outside_of_the_lake_are_named(tmp_path: Path) -> None:
    (tmp_path / "old").mkdir()
    path = tmp_path / "pipeline.yaml"
    path.write_text("lake: ./lake\nsources: {shop: {files: ./binlogs, archive: ./old}, other: {files: ./binlogs}}\n")
    archive, copies = remaining_copies(load(path, {}), "shop")
    assert archive.startswith(f"{tmp_path / 'old'}: the archive of the log still has the rows")
    assert [*remaining_copies(load(path, {}), "other")] == [copies]
    assert copies.startswith("not erased: the server's own log")
