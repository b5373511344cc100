"""The form of a range, and the steps behind it."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import dagster as dg
import pytest
from pyspark.sql import SparkSession

from assets import failures
from dagster_project.build import build_defs
from spark_jobs.errors import ConfigError
from tests.lakes.code_location import CodeLocation, location

pytestmark = pytest.mark.dagster


@pytest.fixture
def form(tmp_path: Path) -> Iterator[CodeLocation]:
    with location(
        tmp_path, sources={"shop": {"files": "./binlogs"}, "archive": {"files": "./binlogs"}}
    ) as code_location:
        yield code_location


RIGHT = {"source": "shop", "from": "a.000001:4", "to": "a.000002:4"}


@pytest.mark.parametrize(
    "wrong, messages",
    [
        pytest.param(
            {"from": "yesterday"}, ["from: 'yesterday' is not a position, GTID set or time"], marks=pytest.mark.thorough
        ),
        pytest.param(
            {"from": "a.000003:4"},
            ["the range ends at a.000002:4, before its start at a.000003:4"],
            marks=pytest.mark.thorough,
        ),
        pytest.param(
            {"to": "2026-11-21T08:00:00"},
            ["to: '2026-11-21T08:00:00' has no offset from UTC"],
            marks=pytest.mark.thorough,
        ),
        ({"from": " ", "to": "x", "tables": ["orders"]}, ["from: missing", "to: 'x' is not a position", "tables[0]: "]),
        ({"tables": ["shop.nothing"]}, ["tables[0]: shop.nothing is no table of shop that a run has seen: none"]),
        pytest.param({"layers": []}, ["layers: none: choose among silver, downstream"], marks=pytest.mark.thorough),
        pytest.param({"archive": "/nowhere"}, ["archive: /nowhere is no folder"], marks=pytest.mark.thorough),
    ],
)
def test_what_is_wrong_is_said_at_once_and_in_one_message(
    form: CodeLocation, wrong: dict[str, Any], messages: list[str]
) -> None:
    ran = form.run_config("backfill_range", RIGHT | wrong)
    assert list(ran.failures) == ["range"], "no step of a source waits for its pool"
    assert [text for text in messages if text not in ran.failures["range"]] == []


@pytest.mark.parametrize(
    "wrong",
    [
        {"source": "shopp"},
        {"layers": ["gold"]},
        pytest.param({"until": "a.000002:4"}, marks=pytest.mark.thorough),
        pytest.param({"to": 4}, marks=pytest.mark.thorough),
    ],
)
def test_the_launchpad_refuses_what_is_no_choice(form: CodeLocation, wrong: dict[str, Any]) -> None:
    job = form.defs().resolve_job_def("backfill_range")
    dg.validate_run_config(job, RIGHT)
    with pytest.raises(dg.DagsterInvalidConfigError):
        dg.validate_run_config(job, RIGHT | wrong)


def test_the_launchpad_has_bronzes_range_and_the_form_alone(tmp_path: Path) -> None:
    with location(tmp_path) as code_location:
        job = code_location.defs().resolve_job_def("backfill_range")
    fields = job.run_config_schema.config_type.fields  # type: ignore[attr-defined] # of a form
    assert {name: field.default_value for name, field in fields.items()} == {
        "source": "shop",
        "from": "earliest",
        "to": "latest",
        "tables": [],
        "layers": ["silver", "downstream"],
        "archive": "",
    }
    dg.validate_run_config(job, {})


@pytest.mark.thorough
def test_a_source_waits_in_its_pool_and_other_sources_are_skipped(
    form: CodeLocation, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(failures, "RETRY", failures.RETRY._replace(max_retries=0))  # bronze holds nothing
    defs = form.defs()
    job = defs.resolve_job_def("backfill_range")
    pools = {node.name: node.definition.pool for node in job.graph.nodes}  # type: ignore[attr-defined] # steps are ops
    assert pools == {
        "range": None,
        "backfill_shop_range": "stratalog_source_shop",
        "backfill_archive_range": "stratalog_source_archive",
    }
    asset_definition = defs.resolve_assets_def(dg.AssetKey(["backfill", "shop"]))
    assert asset_definition.op.pool == "stratalog_source_shop"
    assert asset_definition.backfill_policy == dg.BackfillPolicy.single_run()
    ran = (
        build_defs(form.pipeline, {"spark": NoSpark()})
        .resolve_job_def("backfill_range")
        .execute_in_process(instance=form.instance, run_config=RIGHT, raise_on_error=False)
    )
    failed = [event.step_key for event in ran.all_events if event.is_step_failure]
    skipped = [event.step_key for event in ran.all_events if event.is_step_skipped]
    assert (failed, skipped) == (["backfill_shop_range"], ["backfill_archive_range"])


class NoSpark:
    """What is asked for a session says so; nobody tries again."""

    def session(self) -> SparkSession:
        raise ConfigError("there is no Spark here")
