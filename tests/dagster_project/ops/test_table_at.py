"""Tables as they were by the form: what is refused, what is written, and what its materializations name."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import dagster as dg
import deltalake
import pyarrow.parquet as pq
import pytest

from dagster_project.build import build_defs
from spark_jobs.config.model import Pipeline
from spark_jobs.pipeline.as_of.api import as_of
from spark_jobs.pipeline.as_of.row_files import FORMATS
from tests.lakes.code_location import JobResult, ran_of
from tests.lakes.recorded_lake import recorded

pytestmark = pytest.mark.dagster

AT = "mysql-bin.000002:2000"
BEGIN = "mysql-bin.000002:1713"
"""Position where the transaction begins that AT is in."""
Recorded = tuple[Pipeline, dg.DagsterInstance]


@pytest.fixture
def lake(tmp_path: Path) -> Iterator[Recorded]:
    with recorded(tmp_path / "recorded") as (pipeline, instance):
        yield pipeline, instance


def job_of(pipeline: Pipeline, **options: Any) -> dg.JobDefinition:
    return build_defs(pipeline, **options).resolve_job_def(f"{options.get('job_prefix', '')}table_at")


def form(**config: Any) -> dict[str, Any]:
    return {"at": AT, "tables": ["shop.orders"], **config}


def run(lake: Recorded, config: dict[str, Any], **options: Any) -> JobResult:
    pipeline, instance = lake
    result = job_of(pipeline, **options).execute_in_process(instance=instance, run_config=config, raise_on_error=False)
    return ran_of(result, instance)


def test_a_table_is_written_and_its_materialization_names_it(lake: Recorded, tmp_path: Path) -> None:
    ran = run(lake, form(to=str(tmp_path / "then"), at=f" {AT} "))
    assert ran.success, ran.failures
    path = tmp_path / "then" / "shop.orders.parquet"
    assert pq.read_table(path).sort_by("id") == as_of(lake[0], "shop.orders", AT)
    metadata = ran.materialized["table_at/shop"]
    columns = [(column.name, column.type) for column in metadata.pop("dagster/column_schema").columns]
    assert columns[:2] == [("id", "decimal(20,0)"), ("customer", "int")]
    assert metadata == {
        "table_at/table": "shop.orders",
        "table_at/asked": AT,
        "binlog/end": BEGIN,
        "binlog/end_file_number": 2,
        "dagster/row_count": 2,
        "table_at/to": str(path),
        "table_at/format": "parquet",
    }
    assert list(ran.materialized) == ["table_at/shop"], "no table of the lake changed"


def test_tables_of_a_pattern_have_a_materialization_each(lake: Recorded, tmp_path: Path) -> None:
    _, instance = lake
    config = form(
        tables=["shop.orders", "shop.customers"], to=str(tmp_path / "t"), format="delta", raw=True, where="id > 1"
    )
    ran = run(lake, config, job_prefix="a_", key_prefix="mysql")
    assert ran.success, ran.failures
    key = dg.AssetKey(["mysql", "table_at", "shop"])
    records = instance.fetch_materializations(key, limit=9).records
    materializations = [record.asset_materialization for record in records if record.asset_materialization]
    assert [of.description for of in materializations] == [
        f"shop.orders at {BEGIN}: 1 rows in {tmp_path}/t/shop/orders",
        f"shop.customers at {BEGIN}: 2 rows in {tmp_path}/t/shop/customers",
    ]
    assert {name: of.value for name, of in materializations[0].metadata.items() if name.startswith("table_at/")} == {
        "table_at/table": "shop.orders",
        "table_at/asked": AT,
        "table_at/to": f"{tmp_path}/t/shop/orders",
        "table_at/format": "delta",
        "table_at/where": "id > 1",
        "table_at/raw": True,
    }
    table = deltalake.DeltaTable(str(tmp_path / "t" / "shop" / "customers")).to_pyarrow_table()
    assert sorted(table.column("id").to_pylist()) == [2, 3]


def test_a_table_that_was_not_there_is_left_out_with_a_warning(lake: Recorded, tmp_path: Path) -> None:
    ran = run(lake, form(tables=["shop.goods", "shop.customers"], to=str(tmp_path / "a")))
    assert "shop.goods was not there at" in ran.failures["moment"], "it was asked for by name"
    assert not (tmp_path / "a").exists()
    ran = run(lake, form(tables=["shop.o*", "shop.g*"], to=str(tmp_path / "b")))
    assert ran.success, ran.failures
    logged = [entry.user_message for entry in lake[1].all_logs(ran.run.run_id) if "left out" in entry.user_message]
    assert logged == [f"left out: shop.goods was not there at {BEGIN}: it was created later"]


@pytest.mark.parametrize(
    "wrong, messages",
    [
        pytest.param(
            {"at": "yesterday"}, ["at: 'yesterday' is not a position, GTID set or time"], marks=pytest.mark.thorough
        ),
        ({"at": " ", "tables": [], "to": ""}, ["at: missing", "tables: missing", "to: missing"]),
        pytest.param(
            {"at": "2026-11-21T08:00:00"},
            ["at: '2026-11-21T08:00:00' has no offset from UTC"],
            marks=pytest.mark.thorough,
        ),
        ({"tables": ["orders", "shop.nope"]}, ["tables[0]: ", "tables[1]: shop.nope is no table of shop that a run"]),
        ({"where": "id >", "to": "{lake}/then"}, ["where: ", "to: {lake}/then is of the lake {lake}"]),
        pytest.param({"to": "{lake}/.."}, ["to: {lake}/.. is of the lake"], marks=pytest.mark.thorough),
        pytest.param({"to": "{tests}"}, ["to: {tests} is not empty; name a new folder"], marks=pytest.mark.thorough),
        pytest.param({"to": "hdfs://host/then"}, ["to: "], marks=pytest.mark.thorough),
        ({"keys": ["a"]}, ["what is given for id of shop.orders is no DECIMAL(20,0)"]),
        ({"at": "mysql-bin.000009:4"}, ["mysql-bin.000009:4 is after the end of the log in bronze"]),
    ],
)
def test_what_is_wrong_is_said_in_one_message(
    lake: Recorded, tmp_path: Path, wrong: dict[str, Any], messages: list[str]
) -> None:
    positions = {"lake": str(tmp_path / "recorded" / "lake"), "tests": str(Path(__file__).parent)}
    filled = {key: text.format(**positions) if isinstance(text, str) else text for key, text in wrong.items()}
    ran = run(lake, form(**{"to": str(tmp_path / "then"), **filled}))
    message = ran.failures["moment"]
    assert [text for text in messages if text.format(**positions) not in message] == [], message
    assert "Traceback" not in message
    assert not (tmp_path / "then").exists()


@pytest.mark.parametrize("wrong", [{"source": "shopp"}, {"format": "xml"}, {"until": "x"}, {"at": 4}, {"raw": "yes"}])
def test_the_launchpad_refuses_what_is_no_choice(lake: Recorded, wrong: dict[str, Any]) -> None:
    job = job_of(lake[0])
    for name in FORMATS:
        dg.validate_run_config(job, form(to="then", format=name))
    with pytest.raises(dg.DagsterInvalidConfigError):
        dg.validate_run_config(job, form(to="then", **wrong))


def test_it_waits_in_no_pool_and_nothing_in_the_graph_makes_the_asset(lake: Recorded) -> None:
    defs = build_defs(lake[0])
    dg.Definitions.validate_loadable(defs)
    job = defs.resolve_job_def("table_at")
    assert [node.definition.pool for node in job.graph.nodes] == [None]  # type: ignore[attr-defined] # steps are ops
    graph = defs.resolve_asset_graph()
    key = dg.AssetKey(["table_at", "shop"])
    assert graph.get(key).parent_keys == {dg.AssetKey(["bronze", "shop"])}
    assert not graph.get(key).is_executable
    for name in ("sync", "sync_shop"):
        assert key not in defs.resolve_job_def(name).asset_layer.asset_graph.executable_asset_keys
