"""What a user of Dagster's UI sees of a source, and does by clicking: in Chromium, on a real `dagster dev`."""

import json
import re
import shutil
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest

from tests.browser.eyes import Eyes
from tests.fix_browser import UserInterface
from tests.services.waiting import wait_for

pytestmark = [pytest.mark.dagster, pytest.mark.spark, pytest.mark.thorough, pytest.mark.processes]

TABLES = ["carts", "customers", "order_lines", "orders", "products"]


def group(name: str) -> str:
    """A group's box in the graph."""
    return f"//*[local-name()='foreignObject']//*[text()='{name}']"


def test_the_graph_reads_from_the_source_to_the_tables(ui: UserInterface) -> None:
    eyes = ui.eyes
    eyes.open("/asset-groups")
    eyes.show_in_order(*(group(f"shop_{layer}") for layer in ("bronze", "silver", "downstream")))
    eyes.click("//button[.//*[@aria-label='panel_show_right']]")
    eyes.click(group("shop_silver"))
    eyes.reach("silver")
    with eyes.frame(1000):  # of all tables
        eyes.driver.refresh()  # the graph is fitted into its frame when it is loaded
        eyes.see(*TABLES, "Materialized", "Spark", "Delta Lake")
        eyes.miss("fetching statuses")
        eyes.picture("graph")


@pytest.mark.parametrize(
    "asset, group, before, after",
    [
        ("source/shop", "shop_bronze", None, "bronze / shop"),
        ("bronze/shop", "shop_bronze", "source / shop", "silver / shop / shop / orders"),
        ("silver/shop/shop/orders", "shop_silver", "bronze / shop", "downstream / shop / orders"),
        ("downstream/shop/orders", "shop_downstream", "silver / shop / shop / orders", "published / shop"),
    ],
)
def test_an_asset_names_its_group_and_its_neighbours(
    ui: UserInterface, asset: str, group: str, before: str | None, after: str
) -> None:
    ui.eyes.open(f"/assets/{asset}")
    neighbours = [name for name in (before, after) if name]
    words = ui.eyes.see("Upstream assets", "Downstream assets", f"Group\n{group}\n", *neighbours)
    upstream, downstream = words.split("Upstream assets")[1].split("Downstream assets")
    assert before is None or before in upstream
    assert after in downstream
    assert "No description" not in words


def test_a_materialization_says_its_positions_rows_and_lag(ui: UserInterface) -> None:
    eyes = ui.eyes
    eyes.open("/assets/downstream/shop/orders?view=events")
    words = eyes.see("binlog/start", "binlog/lag_seconds", "delta/version", "delta/path")
    metadata = dict(re.findall(r"^((?:binlog|rows|delta|run)/\w+)\n(.+)$", words, re.MULTILINE))
    assert re.fullmatch(r"mysql-bin\.000001:\d+", metadata["binlog/start"])
    last = max(ui.folder.binlogs.iterdir())
    assert metadata["binlog/end"] == f"{last.name}:{last.stat().st_size}"
    assert int(metadata["rows/inserted"]) > 100
    assert (metadata["rows/updated"], metadata["rows/deleted"]) == ("0", "0")
    assert float(metadata["binlog/lag_seconds"]) > 0
    assert float(metadata["run/rows_per_second"]) > 0
    assert metadata["delta/path"] == str(ui.folder.lake / "downstream" / "shop" / "orders")
    eyes.miss("Loading")
    with eyes.frame(1000):  # of all metadata
        eyes.picture("materialization")


def backfills(ui: UserInterface) -> list[dict[str, Any]]:
    query = "{partitionBackfillsOrError {... on PartitionBackfills {results {id status partitionNames numCancelable}}}}"
    results: list[dict[str, Any]] = ui.served.ask(query)["partitionBackfillsOrError"]["results"]
    return results


def choose(eyes: Eyes, *files: str) -> None:
    """Ticks files in the dialog of `backfill/shop`."""
    eyes.open("/assets/backfill/shop")
    eyes.press("Materialize…")
    eyes.see("Partition selection")
    eyes.click("//*[text()='Select a partition or create one']")
    for file in files:
        eyes.click(f"//*[text()='{file}']")
    eyes.see(f"{len(files)} partitions")
    eyes.picture("backfill")
    eyes.click("//*[text()='Launch runs to materialize backfill / shop']")


def test_a_range_of_files_is_done_again_by_clicking(ui: UserInterface) -> None:
    eyes, files = ui.eyes, ("mysql-bin.000002", "mysql-bin.000003")
    choose(eyes, *files)
    eyes.press("Launch backfill")
    (started,) = wait_for("the backfill is there", lambda: backfills(ui))
    assert sorted(started["partitionNames"]) == [*files]

    def ended() -> str | None:
        (now,) = backfills(ui)
        return None if now["status"] in {"REQUESTED", "COMPLETED"} else str(now["status"])

    assert wait_for("the backfill has ended", ended, 300) == "COMPLETED_SUCCESS"
    eyes.open("/assets/backfill/shop?view=events&partition=mysql-bin.000003")
    words = eyes.see("backfill/files", "binlog/start", "rows/touched")
    metadata = dict(re.findall(r"^((?:backfill|binlog|rows)/\w+)\n(.+)$", words, re.MULTILINE))
    assert metadata["backfill/files"] == "2"
    assert metadata["binlog/start"] == "mysql-bin.000002:4"
    assert metadata["binlog/end"].startswith("mysql-bin.00000")
    assert int(metadata["rows/touched"]) > 0
    assert metadata["backfill/tables_changed"] == "0", "what is there already is not written"


FORM = """\
source: shop
at: {at}
tables: [shop.orders, shop.customers]
to: {to}
format: parquet
"""


def test_tables_as_they_were_by_the_form(ui: UserInterface, tmp_path: Path) -> None:
    """What docs/howto/accident.md says of Dagster: a form that is refused, then one that is not."""
    eyes, at = ui.eyes, "mysql-bin.000002:20000"
    eyes.open("/locations/stratalog/jobs/table_at/playground")
    eyes.write(FORM.format(at="yesterday", to=ui.folder.lake))
    eyes.press("Launch Run")
    eyes.see("at: 'yesterday' is not a position, GTID set or time", "to: ", "is of the lake", seconds=180)
    eyes.open("/locations/stratalog/jobs/table_at/playground")
    eyes.write(FORM.format(at=at, to=tmp_path / "then"))
    eyes.picture("table_at_form")
    eyes.press("Launch Run")
    eyes.see("RUN_SUCCESS", seconds=180)
    eyes.open("/assets/table_at/shop?view=events")
    words = eyes.see("table_at/table", "table_at/to", "table_at/asked", "dagster/row_count")
    metadata = dict(re.findall(r"^((?:table_at|binlog|dagster)/\w+)\n(.+)$", words, re.MULTILINE))
    assert metadata["table_at/table"] == "shop.orders", "the last one by name"
    assert metadata["table_at/asked"] == at
    assert metadata["table_at/to"] == str(tmp_path / "then" / "shop.orders.parquet")
    assert metadata["binlog/end"] == "mysql-bin.000002:19900", "where the transaction begins"
    assert pq.read_metadata(metadata["table_at/to"]).num_rows == int(metadata["dagster/row_count"]) > 0
    eyes.miss("Loading")
    with eyes.frame(1000):  # of all metadata
        eyes.picture("table_at")


def test_a_source_says_where_its_report_is(ui: UserInterface) -> None:
    ui.eyes.open("/assets/source/shop")
    page = ui.folder.path / "reports" / "shop.html"
    ui.eyes.see("source/report", str(page))
    ui.eyes.driver.get(page.as_uri())
    ui.eyes.see("shop", "bronze", "Rows merged downstream")
    with ui.eyes.frame():
        ui.eyes.picture("report")


def write_again(table: Path) -> None:
    """Has the rows of a table's first file in it a second time, as somebody might who appends where he should merge."""
    log = sorted((table / "_delta_log").glob("*.json"))
    actions = [json.loads(line) for file in log for line in file.read_text().splitlines()]
    added = next(action["add"] for action in actions if "add" in action)
    copy = f"again-{Path(added['path']).name}"
    shutil.copy(table / added["path"], table / copy)
    log[-1].with_name(f"{int(log[-1].stem) + 1:020d}.json").write_text(json.dumps({"add": added | {"path": copy}}))


def run_of(ui: UserInterface, check: str) -> tuple[str, str] | None:
    """Id and status of the newest run of a check by itself; None where there is none."""
    query = "{runsOrError {... on Runs {results {runId status assetCheckSelection {name}}}}}"
    runs = ui.served.ask(query)["runsOrError"]["results"]
    names = ((run, [chosen["name"] for chosen in run["assetCheckSelection"] or ()]) for run in runs)
    return next(((run["runId"], run["status"]) for run, chosen in names if chosen == [check]), None)


def messages_of(ui: UserInterface, run: str) -> str:
    query = """query ($run: ID!) {
      logsForRun(runId: $run) {... on EventConnection {events {... on MessageEvent {message}}}}
    }"""
    return "\n".join(event["message"] for event in ui.served.ask(query, run=run)["logsForRun"]["events"])


def test_a_check_that_fails_is_shown_as_failed(ui: UserInterface) -> None:
    eyes = ui.eyes
    write_again(ui.folder.lake / "downstream" / "shop" / "customers")
    eyes.open("/assets/downstream/shop/customers?view=checks")
    eyes.click("//*[text()='keys_unique']")
    eyes.press("Execute")
    # A run that does not come, hangs, or fails by anything but the check says so by itself, and not as missing words.
    run, _ = wait_for("a run of keys_unique is there", lambda: run_of(ui, "keys_unique"))

    def ended() -> str | None:
        _, status = run_of(ui, "keys_unique") or ("", "")
        return status if status in {"SUCCESS", "FAILURE", "CANCELED"} else None

    wait_for("the run of keys_unique has ended", ended, 300)
    messages = messages_of(ui, run)
    assert "Asset check 'keys_unique' on 'downstream/shop/customers' did not pass" in messages, messages
    eyes.see("Failed", "keys in several rows: another writer changed the table")
    eyes.picture("check")
