from pathlib import Path

import pytest
import yaml

from spark_jobs.checks.checklist import run_checklist
from spark_jobs.config.loader import load
from spark_jobs.demo.server import MySQLServer
from tests.fix_mysql import Database


def test_every_source_the_lake_and_the_tables_have_a_section(pipeline_file: Path) -> None:
    pipeline_file.write_text(pipeline_file.read_text() + "  gone: {files: ./gone}\n")
    sections = {section.about: section.checks for section in run_checklist(load(pipeline_file))}
    assert list(sections) == ["sources.shop", "sources.gone", "lake"]
    assert [(check.name, check.value) for check in sections["sources.shop"]][-1] == (
        "start position",
        "earliest: found, bronze is empty",
    )
    assert [check.status for check in sections["sources.gone"]] == ["problem"]


def test_a_server_that_is_down_has_the_remedy_that_a_run_names(tmp_path: Path) -> None:
    source = {"mysql": {"host": "127.0.0.1", "port": 1, "user": "repl", "password": "secret"}}
    path = tmp_path / "pipeline.yaml"
    path.write_text(yaml.safe_dump({"lake": "./lake", "sources": {"shop": source}}))
    (check,) = next(section.checks for section in run_checklist(load(path)) if section.about == "sources.shop")
    assert check.value == "127.0.0.1:1 cannot be reached: Connection refused"
    assert check.remedy.startswith("start the server, or correct host and port of source shop")


def test_a_start_that_the_log_does_not_have_is_a_problem(pipeline_file: Path) -> None:
    pipeline_file.write_text(pipeline_file.read_text().replace("./binlogs", "./binlogs, start: 'mysql-bin.000009:4'"))
    by_name = {check.name: check for section in run_checklist(load(pipeline_file)) for check in section.checks}
    assert by_name["start position"].status == "problem"
    assert by_name["start position"].value.startswith("has no file mysql-bin.000009")


@pytest.mark.mysql
def test_endpoints_are_checked_each_and_their_source_once(
    tmp_path: Path, mysql: MySQLServer, database: Database
) -> None:
    database.execute("CREATE TABLE t (id INT PRIMARY KEY)")
    shared = {"user": mysql.user, "password": mysql.password, "connect_timeout": 2}
    endpoints = [{"host": mysql.host, "port": mysql.port}, {"host": "localhost", "port": mysql.port}]
    path = tmp_path / "pipeline.yaml"

    def check(*listed: object) -> dict[str, list[str]]:
        sources = {"shop": {"mysql": shared, "endpoints": list(listed)}}
        path.write_text(yaml.safe_dump({"lake": "./lake", "sources": sources, "tables": [f"{database.name}.*"]}))
        return {section.about: [check.name for check in section.checks] for section in run_checklist(load(path))}

    names = check(*endpoints)
    first, second = (f"sources.shop ({endpoint['host']}:{endpoint['port']})" for endpoint in endpoints)
    assert list(names) == [first, second, "sources.shop", "lake", "tables"]
    assert names[first] == names[second]
    assert names["sources.shop"] == ["start position"]
    assert names["tables"] == [f"tables: {database.name}.*", "tables in scope", "names", "primary keys"]
    names = check(endpoints[0], {"host": "127.0.0.1", "port": 1})
    assert names["sources.shop (127.0.0.1:1)"] == ["connection"]
    assert "tables" not in names
