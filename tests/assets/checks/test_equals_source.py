"""Checks that compare downstream tables with the source, over verdicts that are given."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import dagster as dg
import pytest

from spark_jobs.binlog import TableName
from spark_jobs.checks.verify import KeyDifference, Verdict
from spark_jobs.config import known_tables
from spark_jobs.log.position import Position
from tests.lakes.code_location import CodeLocation, location

pytestmark = pytest.mark.dagster
SOURCES = {"shop": {"mysql": {"user": "repl"}}, "archive": {"files": "./binlogs"}}


def definitions_of(code: CodeLocation) -> dg.Definitions:
    """The definitions of a location whose sources have had tables."""
    names = {("shop", "shop", "orders"), ("shop", "shop", "lines"), ("archive", "old", "orders")}
    known_tables.add(code.pipeline.tables_file, names)
    return code.defs()


def checks_of(defs: dg.Definitions, job: str) -> set[str]:
    selected = defs.resolve_job_def(job).asset_layer.asset_graph.asset_check_keys
    return {key.asset_key.to_user_string() for key in selected}


def test_tables_of_live_sources_are_checked_where_it_is_asked_for_and_by_no_other_job(tmp_path: Path) -> None:
    with location(tmp_path, sources=SOURCES, verify=True) as code:
        defs = definitions_of(code)
        assert checks_of(defs, "verify") == {"downstream/shop/orders", "downstream/shop/lines"}
        assert checks_of(defs, "sync") == checks_of(defs, "sync_shop") == set()
        assert "verify_weekly" in {schedule.name for schedule in defs.schedules or ()}
        code.keys["verify"] = False
        defs = definitions_of(code)
        assert "verify" not in {job.name for job in defs.jobs or ()}
        assert "verify_weekly" not in {schedule.name for schedule in defs.schedules or ()}


def test_a_check_says_what_differs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    answers: list[bool] = []

    def verdicts(_: Any, __: Any, source: str, is_wanted: Any, into: Any) -> Iterator[Verdict]:
        answers.append(into(TableName("shop", "orders"), ("shop", "orders")))
        answers.extend(is_wanted(TableName("shop", name)) for name in ("orders", "lines", "other"))
        unlike = (KeyDifference("different", {"id": "7"}, {"note": ("a", "b")}),)
        at = Position("bin.000001", 4)
        yield Verdict(source, TableName("shop", "orders"), "differs", at, 9, 9, different=1, differences=unlike)

    monkeypatch.setattr("spark_jobs.checks.verify.verify_source", verdicts)
    with location(tmp_path, sources=SOURCES, verify=True) as code:
        monkeypatch.setattr("tests.lakes.code_location.GivenSession.session", lambda _: None)
        ran = code.run("verify", defs=definitions_of(code))
        key = dg.AssetCheckKey(dg.AssetKey(["downstream", "shop", "orders"]), "equals_source")
        (record,) = code.instance.event_log_storage.get_asset_check_execution_history(key, limit=1)
    assert answers == [True, True, True, False]
    assert ran.checks == {
        "downstream/shop/orders": (False, "differs: shop.orders"),
        "downstream/shop/lines": (True, "neither the source nor the lake has the table any more"),
    }
    event: Any = record.event and record.event.dagster_event
    metadata = event.asset_check_evaluation_data.metadata
    assert (metadata["rows/different"].value, metadata["verify/keys"].value) == (1, "shop.orders different id=7: note")


def test_each_downstream_table_of_one_source_table_has_a_check_of_its_own(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def verdicts(_: Any, __: Any, source: str, is_wanted: Any, into: Any) -> Iterator[Verdict]:
        orders, lines = TableName("shop", "orders"), TableName("shop", "lines")
        yield Verdict(source, orders, "differs", into="audit.orders", missing=1)
        yield Verdict(source, orders, "equal", into="shop.orders")
        yield Verdict(source, lines, "equal")

    monkeypatch.setattr("spark_jobs.checks.verify.verify_source", verdicts)
    routes = [{"from": "shop.orders", "to": ["shop.orders", "audit.orders"]}]
    with location(tmp_path, sources=SOURCES, verify=True, routes=routes) as code:
        monkeypatch.setattr("tests.lakes.code_location.GivenSession.session", lambda _: None)
        ran = code.run("verify", defs=definitions_of(code))
    assert {key: is_passed for key, (is_passed, _) in ran.checks.items()} == {
        "downstream/shop/orders": True,
        "downstream/audit/orders": False,
        "downstream/shop/lines": True,
    }
