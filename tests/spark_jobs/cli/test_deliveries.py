import json
import subprocess
import sys
from pathlib import Path

import pytest

from spark_jobs.delivery import deliver as delivery
from spark_jobs.delivery.deliver import DeliveryOutcome
from tests.fix_cli import Stratalog
from tests.lakes.delivered import Copy


def test_there_is_nothing_to_deliver_to(stratalog: Stratalog, pipeline_file: Path) -> None:
    output = stratalog("deliver", "-c", pipeline_file)
    message = "pipeline.yaml has no deliveries:, the databases that tables are written to"
    assert (output.status, output.err.strip()) == (2, message)


@pytest.mark.parametrize(
    "arguments, message",
    [
        (("--to", "other"), "pipeline.yaml: no delivery 'other'; it has replica"),
        (("--reload",), "--reload needs --table"),
        (("--yes",), "--yes is for --reload"),
        (("--table", "a.b"), "delivery replica has no such table; it has none: nothing is published yet"),
    ],
)
def test_wrong_use(stratalog: Stratalog, pipeline_file: Path, arguments: tuple[str, ...], message: str) -> None:
    with pipeline_file.open("a") as file:
        file.write("deliveries: {replica: {mysql: {host: 127.0.0.1, port: 1, user: w}}}\n")
    output = stratalog("deliver", "-c", pipeline_file, *arguments)
    assert output.status == 2
    assert message in output.err


def test_a_reload_as_json_prints_json_alone(
    stratalog: Stratalog, pipeline_file: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with pipeline_file.open("a") as file:
        file.write("deliveries: {replica: {mysql: {host: 127.0.0.1, port: 1, user: w}}}\n")
    reloaded: list[str] = []
    monkeypatch.setattr(delivery, "chosen_tables", lambda *_: ["shop.orders"])
    monkeypatch.setattr(delivery, "reload_tables", lambda *given: reloaded.extend(given[2]))
    monkeypatch.setattr(delivery, "deliver", lambda *_: DeliveryOutcome("replica"))
    arguments = ("deliver", "-c", pipeline_file, "--reload", "--table", "shop.orders", "--json")
    asked = stratalog(*arguments)
    assert (asked.status, asked.out, reloaded) == (0, "", [])
    assert "delivery replica: shop.orders: would empty the target's table\n" in asked.err
    done = stratalog(*arguments, "--yes")
    assert json.loads(done.out) == {"delivery": "replica", "tables": [], "stopped": {}, "codes": {}}
    assert "delivery replica: shop.orders: empties the target's table\n" in done.err
    assert reloaded == ["shop.orders"]


@pytest.mark.thorough
@pytest.mark.spark
@pytest.mark.mysql
def test_run_delivers(copy: Copy, stratalog: Stratalog) -> None:
    copy.shop.execute("CREATE TABLE t (id INT PRIMARY KEY)", "INSERT INTO t VALUES (1)")
    path = copy.pipeline().path
    command = [sys.executable, "-m", "spark_jobs.cli", "run", "-c", str(path)]  # it ends its own Spark session
    ended = subprocess.run(command, capture_output=True, text=True, check=False)
    assert ended.returncode == 0, ended.stderr
    assert f"delivery copy: {copy.schema}.t: 1 rows, up to mysql-bin." in ended.stdout
    copy.require_same("t")
    assert "delivery copy: nothing new" in stratalog("deliver", "-c", path).out
    copy.shop.execute(f"DELETE FROM `{copy.schema}`.t")
    arguments = ("deliver", "-c", path, "--reload", "--table", f"{copy.schema}.t")
    assert "would empty" in stratalog(*arguments).out
    output = stratalog(*arguments, "--yes")
    assert output.status == 0, output.err
    copy.require_same("t")
