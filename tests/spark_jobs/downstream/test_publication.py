from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path

import pyarrow as pa
import pytest
from pyspark.sql import SparkSession

from spark_jobs.downstream.commit import PublishedCommit
from spark_jobs.downstream.publication import (
    COLUMNS,
    Consistent,
    Entry,
    Target,
    amend,
    consistent,
    read,
    surveyed_to,
    versions,
    write,
)
from spark_jobs.errors import LakeError, LostRace
from spark_jobs.lake.commit import new_batch
from spark_jobs.lake.layout import Lake
from spark_jobs.log.position import Position
from tests.binlogs.logs import SOURCE, Logs
from tests.binlogs.segment_spec import Commit, Insert, Statement, Update
from tests.lakes.lake_tables import schema_of

AT = Position("b.000002", 100)
FULL = Entry(
    source="shop",
    schema="shop",
    table="orders",
    state="current",
    reason=None,
    position="b.000002:100",
    silver_version=3,
    merged="b.000002:100",
    downstream="/lake/downstream/shop/orders",
    downstream_version=7,
    committed_at=datetime(2026, 11, 21, 8, 3, 5, 483578, UTC),
    surveyed="b.000002:100",
    published_at=datetime(2026, 11, 21, 8, 4, tzinfo=UTC),
)
BARE = Entry("shop", "shop", "audit", "ignored")


def test_nothing_is_published_before_the_first_run(tmp_path: Path) -> None:
    assert read(Lake(str(tmp_path)), "shop") == []


def test_columns_have_types() -> None:
    assert COLUMNS["silver_version"] == COLUMNS["downstream_version"] == COLUMNS["resets"] == "BIGINT"
    assert COLUMNS["committed_at"] == COLUMNS["published_at"] == "TIMESTAMP"
    optional = {name: kind for name, kind in COLUMNS.items() if not name.endswith(("_version", "_at", "resets"))}
    assert optional.pop("complete") == optional.pop("numbered") == "BOOLEAN"
    assert optional.pop("keys_never_whole") == "BIGINT"
    assert optional.pop("modes") == "ARRAY<STRING>"
    assert optional.pop("targets") == (
        "ARRAY<STRUCT<path: STRING, merged: STRING, version: BIGINT, reason: STRING, keys_never_whole: BIGINT>>"
    )
    assert set(optional.values()) == {"STRING"}


def test_the_modes_of_targets_are_those_of_the_row() -> None:
    mirror, history = (
        Target("lake/downstream/a/t", str(AT), 1),
        Target("lake/downstream/b/t", str(AT), 2, mode="history"),
    )
    assert FULL.with_targets([mirror]).modes == ()
    assert FULL.with_targets([history]).into[0].mode == "history"
    assert FULL.with_targets([mirror, history]).modes == ("mirror", "history")


def test_an_entrys_checkpoint_is_its_position() -> None:
    assert (FULL.checkpoint, BARE.checkpoint) == (AT, None)
    assert FULL.name == ("shop", "orders")


@pytest.mark.parametrize(
    "entry, is_whole",
    [
        (FULL, True),
        (replace(FULL, silver_version=None, merged=None), True),
        (replace(FULL, merged="b.000001:4"), False),
        (replace(FULL, position="b.000001:4", merged="b.000001:4"), False),
        (replace(FULL, state="stopped"), False),
        (replace(FULL, state="reset", position=None, resets=1), False),
        (BARE, False),
    ],
)
def test_a_table_holds_a_position_when_both_layers_do(entry: Entry, is_whole: bool) -> None:
    assert entry.holds("b.000002:100") is is_whole


HERE, THERE = Target(FULL.downstream or "", str(AT), 7), Target("/lake/downstream/audit/orders", "b.000001:4", 2)


def test_of_several_downstream_tables_the_least_counts_and_the_first_is_named() -> None:
    assert (FULL.into, BARE.into) == ((HERE,), ())
    assert [target.name for target in (HERE, THERE)] == [("shop", "orders"), ("audit", "orders")]
    entry = FULL.with_targets([HERE, replace(THERE, keys_never_whole=2)])
    assert (entry.merged, entry.downstream, entry.downstream_version) == ("b.000001:4", HERE.path, 7)
    assert (entry.keys_never_whole, entry.holds(str(AT))) == (2, False)
    assert [entry.reached(target.name) for target in (HERE, THERE)] == [HERE.merged, THERE.merged]
    assert (FULL.reached(HERE.name), entry.reached(("no", "such"))) == (str(AT), None)
    assert FULL.with_targets([HERE, replace(THERE, merged=None)]).merged is None
    assert entry.with_targets([HERE]) == FULL


@pytest.mark.parametrize(
    "state, reasons, stopped",
    [
        ("current", (None, None), [False, False]),
        ("stopped", (None, "why"), [False, True]),
        ("stopped", (None, None), [True, True]),  # its silver is
    ],
)
def test_a_stop_is_of_the_downstream_tables_that_it_names(
    state: str, reasons: tuple[str | None, ...], stopped: list[bool]
) -> None:
    targets = [replace(target, reason=reason) for target, reason in zip((HERE, THERE), reasons, strict=True)]
    entry = replace(FULL, state=state).with_targets(targets)
    assert [entry.is_stopped_in(target.name) for target in targets] == stopped


@pytest.mark.spark
def test_targets_are_read_as_they_were_written_beside_rows_from_before_there_were_any(
    spark: SparkSession, lake: Path
) -> None:
    filled = Lake(str(lake))
    old = {name: kind for name, kind in COLUMNS.items() if name != "targets"}
    table = filled.published()
    row = pa.Table.from_pylist([{name: getattr(FULL, name) or None for name in old}], schema=schema_of(old))
    table.append_rows(row, table.unwritten_head(old, {}), PublishedCommit(AT, new_batch(), source="shop"))
    assert read(filled, "shop") == [FULL]
    entry = replace(FULL.with_targets([replace(HERE, keys_never_whole=1), replace(THERE, reason="why")]), source="crm")
    write(filled, "crm", [entry, replace(BARE, source="crm")], AT)
    assert read(filled, "crm") == [entry, replace(BARE, source="crm")]
    assert read(filled, "shop") == [FULL]
    assert versions(filled) == {HERE.path: 7, THERE.path: 2}


@pytest.mark.spark
def test_a_source_without_tables_is_published_too(spark: SparkSession, lake: Path) -> None:
    filled = Lake(str(lake))
    assert surveyed_to(filled, "shop") is None
    with pytest.raises(LakeError, match="shop: nothing was published yet"):
        consistent(spark, filled, "shop")
    write(filled, "shop", [], AT)
    write(filled, "crm", [replace(FULL, source="crm")], Position("b.1000000", 4))
    assert (read(filled, "shop"), surveyed_to(filled, "shop")) == ([], AT)
    assert surveyed_to(filled, "crm") == Position("b.1000000", 4)
    consistent_set = consistent(spark, filled, "shop")
    assert (consistent_set.position, consistent_set.tables, consistent_set.behind) == (AT, {}, {})


@pytest.mark.spark
def test_a_consistent_set_stays_as_it_was_published_while_later_runs_go_on(spark: SparkSession, tmp_path: Path) -> None:
    logs = Logs(spark, tmp_path)
    logs.write(1, Insert("shop.orders", (1, "a")), Insert("shop.lines", (1, "a")), Commit())
    logs.run()
    before = consistent(spark, logs.lake, SOURCE)
    (row,) = spark.read.format("delta").load(logs.lake.published().path).where("table IS NULL").collect()
    assert (row["position"], row["bronze_version"]) == (str(before.position), logs.bronze().version)
    logs.write(
        2,
        Statement("shop", "ALTER TABLE lines MODIFY id SMALLINT NOT NULL"),
        Update("shop.orders", (1, "a"), (1, "b")),
        Insert("shop.later", (1, "c")),
    )
    logs.run()
    after = consistent(spark, logs.lake, SOURCE)

    def notes(consistent_set: Consistent) -> dict[str, str]:
        return {
            name[1]: table.rows.collect()[0]["note"]
            for name, table in consistent_set.tables.items()
            if table.rows is not None
        }

    assert (notes(before), before.behind) == ({"orders": "a", "lines": "a"}, {})
    assert notes(after) == {"orders": "b", "lines": "a", "later": "c"}
    assert after.position > before.position
    (stopped,) = after.behind.values()
    assert (stopped.table, before.position < Position.parse(str(stopped.merged))) == ("lines", True)
    assert f"ALTER TABLE at {stopped.merged} " in (stopped.reason or "")


@pytest.mark.parametrize(
    "stored, merged",
    [
        (FULL, "b.000002:100"),  # another run's, of more log than this one could merge
        (replace(FULL, merged="b.000002:50"), "b.000002:60"),
        (replace(FULL, merged="b.000002:4"), "b.000002:60"),  # what the run found
        (replace(FULL, merged=None), "b.000002:60"),
    ],
)
def test_a_run_does_not_set_back_what_another_one_has_published_since(lake: Path, stored: Entry, merged: str) -> None:
    filled, found = Lake(str(lake)), replace(FULL, merged="b.000002:4")
    write(filled, "shop", [stored], AT)
    entry_of_run = replace(FULL, position="b.000002:100", merged="b.000002:60", downstream_version=6)
    write(filled, "shop", [entry_of_run], AT, found=[found])
    (entry,) = read(filled, "shop")
    assert (entry.merged, entry.downstream_version) == (merged, 7 if entry == stored else 6)


def test_a_table_that_was_restored_is_published_as_a_run_leaves_it(lake: Path) -> None:
    filled, restored = Lake(str(lake)), replace(FULL, state="stopped", merged="b.000002:60")
    write(filled, "shop", [FULL], AT)
    write(filled, "shop", [restored], AT, found=[replace(FULL, surveyed="b.000001:4")])
    assert read(filled, "shop") == [restored]


@pytest.mark.spark
def test_a_table_that_was_reset_stays_so_whatever_a_run_of_before_publishes(spark: SparkSession, lake: Path) -> None:
    filled = Lake(str(lake))
    write(filled, "shop", [FULL, BARE], AT)
    write(filled, "crm", [replace(FULL, source="crm")], AT)
    amend(filled, FULL, lambda now: replace(now, state="reset", position=None, resets=1))
    moved = replace(BARE, surveyed="b.000003:4")
    write(filled, "shop", [FULL, moved], Position("b.000003", 4))
    by_name = {entry.name: entry for entry in read(filled, "shop")}
    assert (by_name[FULL.name].is_reset, by_name[FULL.name].merged, by_name[BARE.name]) == (True, FULL.merged, moved)
    assert read(filled, "crm") == [replace(FULL, source="crm")]
    write(filled, "shop", [replace(FULL, resets=1), moved], Position("b.000003", 4))
    assert {entry.name: entry.is_reset for entry in read(filled, "shop")}[FULL.name] is False


@pytest.mark.spark
def test_a_run_that_another_one_overtook_does_not_set_back_what_is_published(
    spark: SparkSession, tmp_path: Path
) -> None:
    logs, published = Logs(spark, tmp_path), []
    for number in (1, 2):
        logs.write(number, Insert("shop.orders", (number, "x")), Commit())
        logs.run()
        published.append((surveyed_to(logs.lake, SOURCE), read(logs.lake, SOURCE)))
    position, entries = published[0]
    assert position
    with pytest.raises(LostRace, match=f"and another writer up to {published[1][0]}"):
        write(logs.lake, SOURCE, entries, position)
    assert (surveyed_to(logs.lake, SOURCE), read(logs.lake, SOURCE)) == published[1]


@pytest.mark.spark
def test_a_source_replaces_its_own_rows_alone(spark: SparkSession, lake: Path) -> None:
    filled = Lake(str(lake))
    write(filled, "shop", [FULL, BARE], AT)
    entry = replace(FULL, source="crm")
    write(filled, "crm", [entry], Position("b.000009", 4))
    assert sorted(read(filled, "shop"), key=lambda published_entry: published_entry.table) == [BARE, FULL]
    write(filled, "shop", [FULL], AT)
    assert (read(filled, "shop"), read(filled, "crm")) == ([FULL], [entry])
    head = filled.published().head()
    assert head is not None
    assert head.checkpoint is not None
    assert (head.counter, head.position, PublishedCommit.of(head.checkpoint).source) == (3, AT, "shop")
