"""``python -m benchmarks.ui``: Dagster's pages and a sensor's ticks over hundreds of tables and thousands of files.

Put here: making such a source, and how long a browser and a tick take. Not here: how a page is looked at
(tests/browser/eyes.py). The lake has bronze alone, which is all that a tick reads; materializations are made up.
"""

import argparse
import shutil
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

import dagster as dg

from assets.lineage import lineages
from assets.partitions import register_files
from dagster_project.build import build_defs
from spark_jobs.config import known_tables
from spark_jobs.config.loader import load
from spark_jobs.config.model import Pipeline
from spark_jobs.pipeline.run import extract_source
from spark_jobs.runtime.spark_session import spark_session
from tests.binlogs.segment_spec import Insert, SegmentSpec, Table
from tests.binlogs.segment_types import INT
from tests.browser.eyes import Eyes, browser
from tests.services.dev_server import ROOT, development_server, environment

_TABLE = Table("shop.orders", key=["id"], id=INT.NOT_NULL)
_TIMES = 3


def main() -> None:
    arguments = argparse.ArgumentParser(prog="benchmarks.ui", description=__doc__)
    arguments.add_argument("--tables", type=int, default=200)
    arguments.add_argument("--files", type=int, default=2000)
    options = arguments.parse_args()
    folder = Path(tempfile.mkdtemp(prefix="stratalog-ui-"))
    try:
        measure(folder, options.tables, options.files)
    finally:
        shutil.rmtree(folder)


def measure(folder: Path, tables: int, files: int) -> None:
    """Prints a table of seconds: the first time, and the least of those after it."""
    pipeline = write_project(folder, tables, files)
    print(f"| {tables} tables, {files} binlog files | first (s) | then (s) |\n| --- | ---: | ---: |")
    timed("definitions loaded", lambda: build_defs(load(pipeline.path)).resolve_all_job_defs())
    with dg.DagsterInstance.from_config(str(folder / "dagster")) as instance:
        names = [path.name for path in sorted((folder / "binlogs").iterdir())]
        instance.add_dynamic_partitions(lineages(pipeline, [])[0].partitions, names)
        record_events(instance, tables)
        variables = environment(pipeline.path, folder / "dagster")
        with (
            browser(folder / "profile") as driver,
            development_server(variables, folder / "dev.log") as served,
        ):
            served.ask("mutation {setNuxSeen}")
            look(Eyes(driver, served.url))
        ticks(instance, pipeline)


def ticks(instance: dg.DagsterInstance, pipeline: Pipeline) -> None:
    """Times the sensor's ticks before bronze has anything, and when it has all files."""
    sensor = build_defs(pipeline).resolve_sensor_def("binlog_sensor_shop")

    def tick() -> None:
        with dg.build_sensor_context(instance=instance) as context:
            sensor.evaluate_tick(context)

    timed("a tick before the first run", tick)
    session = spark_session(pipeline.spark)
    extract_source(session, pipeline, "shop")
    session.stop()
    timed("a tick when bronze has it all", tick)
    timed("listing files as partitions, none new", lambda: register_files(instance, lineages(pipeline, [])[0]))


def look(eyes: Eyes) -> None:
    """Times pages until they show what one came for."""

    def page(path: str, *words: str) -> Callable[[], object]:
        def opened() -> None:
            eyes.open("/about:blank")
            eyes.open(path)
            eyes.see(*words)

        return opened

    silver = "/asset-groups?expanded=global%40global%3Ashop_silver"
    timed("graph, groups closed", page("/asset-groups", "shop_bronze", "shop_silver", "shop_downstream"))
    timed("asset catalog", page("/assets", "backfill / shop", "Materialized"))
    timed("a table's page", page("/assets/downstream/shop/table_0000", "Latest materialization", "Upstream assets"))
    timed("jobs", page("/jobs", "sync_shop"))

    def dialog() -> None:
        page("/assets/backfill/shop", "Materialize…")()
        eyes.press("Materialize…")
        eyes.click("//*[text()='Select a partition or create one']")
        eyes.see("Select all", "mysql-bin.000001")

    timed("backfill dialog, list of files open", dialog)
    eyes.click("//*[starts-with(text(), 'Select all')]")
    eyes.see("partitions selected")
    timed("graph, all silver tables", page(silver, "table_"))


def write_project(folder: Path, tables: int, files: int) -> Pipeline:
    """Binlog files of one row each, the list of tables, and an instance's home."""
    binlogs = folder / "binlogs"
    binlogs.mkdir()
    for number in range(1, files + 1):
        after = None if number == files else f"mysql-bin.{number + 1:06d}"
        spec = SegmentSpec([_TABLE], [Insert("shop.orders", (number,))], first_number=number * 10, rotate_to=after)
        (binlogs / f"mysql-bin.{number:06d}").write_bytes(spec.to_bytes())
    (folder / "dagster").mkdir()
    shutil.copy(ROOT / "docs" / "examples" / "dagster.yaml", folder / "dagster")
    path = folder / "pipeline.yaml"
    path.write_text('lake: ./lake\nsources: {shop: {files: ./binlogs}}\ntables: ["shop.*"]\n')
    pipeline = load(path)
    known_tables.add(pipeline.tables_file, {("shop", "shop", f"table_{number:04d}") for number in range(tables)})
    return pipeline


def record_events(instance: dg.DagsterInstance, tables: int) -> None:
    """A materialization of every asset of a table, with numbers; without any, pages have nothing to show."""
    metadata: dict[str, str | float] = {
        "binlog/end": "mysql-bin.000002:4",
        "binlog/lag_seconds": 1.5,
        "rows/inserted": 7,
    }
    for number in range(tables):
        for key in (["silver", "shop", "shop", f"table_{number:04d}"], ["downstream", "shop", f"table_{number:04d}"]):
            instance.report_runless_asset_event(dg.AssetMaterialization(dg.AssetKey(key), metadata=metadata))
    instance.report_runless_asset_event(dg.AssetMaterialization(dg.AssetKey(["bronze", "shop"]), metadata=metadata))


def timed(label: str, work: Callable[[], object], times: int = _TIMES) -> None:
    seconds = []
    for _ in range(times):
        began = time.monotonic()
        work()
        seconds.append(time.monotonic() - began)
    print(f"| {label} | {seconds[0]:.2f} | {min(seconds[1:]):.2f} |", flush=True)


if __name__ == "__main__":
    main()
