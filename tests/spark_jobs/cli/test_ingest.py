from pathlib import Path

import pytest

from tests.command_result import CommandResult
from tests.fix_cli import Stratalog
from tests.fix_mysql import Database


@pytest.mark.mysql
def test_a_load_of_an_unknown_table_is_refused_before_spark_is_started(
    stratalog: Stratalog, database: Database, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("spark_jobs.cli.app.spark_of", lambda *_, **__: pytest.fail("Spark is started"))
    server, path = database.server, tmp_path / "pipeline.yaml"
    access = f"{{host: {server.host}, port: {server.port}, user: {server.user}, password: {server.password}}}"
    path.write_text(f"lake: ./lake\nsources: {{shop: {{mysql: {access}}}}}\n")
    ran = stratalog("load", "-c", path, "--table", f"{database.name}.none")
    refusal = f"shop: the server has no table {database.name}.none, or the user may not see it\n"
    assert ran == CommandResult(2, "", refusal)


def test_a_demo_of_a_failover_needs_servers(stratalog: Stratalog, tmp_path: Path) -> None:
    ran = stratalog("demo", "--files", "--failover", "--dir", tmp_path / "demo")
    assert ran.status == 2
    assert "--files and --failover do not go together: a failover needs servers" in ran.err
    assert not (tmp_path / "demo").exists()


def test_a_server_to_practise_on_runs_no_pipeline(stratalog: Stratalog, tmp_path: Path) -> None:
    ran = stratalog("demo", "--files", "--serve", "--dir", tmp_path / "demo")
    assert ran.status == 2
    assert "--serve is without --files and --failover: it runs one server and no pipeline" in ran.err
    assert not (tmp_path / "demo").exists()
