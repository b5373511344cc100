from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
from pydantic import BaseModel

from spark_jobs.config.loader import load
from spark_jobs.config.routes import Destination
from spark_jobs.config.servers import Model
from spark_jobs.errors import ConfigError
from tests.spark_jobs.config.test_loader import LEAST, SERVER, write


def test_what_is_left_out_has_its_default(tmp_path: Path) -> None:
    pipeline = load(write(tmp_path, LEAST), {})
    assert pipeline.sources["shop"].start == "earliest"
    assert (pipeline.tables, pipeline.routes, pipeline.compat) == ((), (), "full")
    assert (pipeline.spark.master, pipeline.spark.remote, pipeline.spark.conf) == ("local[*]", None, {})
    server = load(write(tmp_path, "lake: x\nsources: {s: {mysql: {user: u}}}\n"), {}).sources["s"].mysql
    assert server is not None
    assert (server.host, server.port, server.password.get_secret_value(), server.tls) == ("127.0.0.1", 3306, "", None)


def test_scope_and_routes_are_those_of_the_file(tmp_path: Path) -> None:
    text = (
        LEAST + 'tables: ["shop.*", "!shop.audit_*"]\nroutes:\n  - {from: "shop_*.orders_*", to: shop.`all.orders`}\n'
    )
    pipeline = load(write(tmp_path, text), {})
    assert pipeline.scope.holds("shop", "orders")
    assert not pipeline.scope.holds("shop", "audit_1")
    assert pipeline.routing.of("shop", "shop_1", "orders_2") == (Destination("shop", "all.orders", is_merged=True),)


def test_working_tables_of_tools_are_left_out_unless_the_file_says_otherwise(tmp_path: Path) -> None:
    def outside(text: str) -> list[str]:
        scope = load(write(tmp_path, f"{LEAST}tables: [shop.*]\n{text}"), {}).scope
        return [name for name in ("_x_gho", "_x_new", "_y_old", "x") if not scope.holds("shop", name)]

    assert outside("") == ["_x_gho", "_x_new", "_y_old"]
    assert outside("online_ddl: {follow: [gh-ost]}") == ["_x_gho"]
    assert outside("online_ddl: {real: [shop._y*]}") == ["_x_gho", "_x_new"]
    assert outside("online_ddl: {follow: []}") == []


def models(of: type[BaseModel]) -> list[type[BaseModel]]:
    return [of, *(model for subclass in of.__subclasses__() for model in models(subclass))]


@pytest.mark.parametrize("model", models(Model), ids=lambda model: model.__name__)
def test_no_model_takes_unknown_keys_or_changes(model: type[BaseModel]) -> None:
    settings: dict[str, Any] = dict(model.model_config)
    assert (settings["extra"], settings["frozen"]) == ("forbid", True)


SHARED = "mysql: {user: repl, port: 3307, tls: {verify: false}}"


def test_endpoints_have_what_mysql_says_and_what_they_say(tmp_path: Path) -> None:
    listed = "endpoints: [{host: db1}, {host: db2, port: 3308, user: other}]"
    text = f"lake: /lake\nsources:\n  shop:\n    {SHARED}\n    {listed}\n    on_new_server: continue\n"
    source = load(write(tmp_path, text), {}).sources["shop"]
    assert [(server.host, server.port, server.user) for server in source.servers] == [
        ("db1", 3307, "repl"),
        ("db2", 3308, "other"),
    ]
    assert all(server.tls and not server.tls.verify for server in source.servers)
    assert (source.choose, source.on_new_server) == ("listed", "continue")


def test_without_endpoints_mysql_is_the_server(tmp_path: Path) -> None:
    source = load(write(tmp_path, SERVER), {"SECRET": "x"}).sources["shop"]
    assert source.servers == (source.mysql,)
    assert load(write(tmp_path, LEAST), {}).sources["shop"].servers == ()


def test_a_salt_does_not_print(tmp_path: Path) -> None:
    text = f'{LEAST}columns:\n  c: {{tables: [shop.d], mask: {{A: {{hash: "${{SALT}}"}}}}}}\n'
    pipeline = load(write(tmp_path, text), {"SALT": "pepper"})
    rule = pipeline.filters.of("shop", "d").columns
    assert rule is not None
    assert rule.masks["a"].salt == "pepper"
    assert "pepper" not in f"{pipeline!r}{pipeline.filters!r}"


def test_what_stays_after_a_run_is_local(tmp_path: Path) -> None:
    assert load(write(tmp_path, LEAST + "spark: {keep: 15m}\n"), {}).spark.keep == timedelta(minutes=15)
    for keys in ("keep: 15m, remote: 'sc://h:1'", "keep: 15m, master: yarn", "keep: 0m"):
        with pytest.raises(ConfigError, match=r"remove keep|remove the key"):
            load(write(tmp_path, f"{LEAST}spark: {{{keys}}}\n"), {})
