from pathlib import Path

from tests.fix_cli import Stratalog


def test_a_lake_without_tables_is_one_message(stratalog: Stratalog, pipeline_file: Path) -> None:
    ran = stratalog("dbt", "sources", "-c", pipeline_file)
    assert (ran.status, ran.out) == (2, "")
    assert ran.err == "--table: no such downstream table is published; stratalog status lists those that are\n"


def test_an_adapter_that_is_not_known_is_wrong_use(stratalog: Stratalog, pipeline_file: Path) -> None:
    ran = stratalog("dbt", "sources", "-c", pipeline_file, "--adapter", "trino")
    assert ran.status == 2
    assert "'trino' is not one of 'duckdb', 'spark'" in ran.err
