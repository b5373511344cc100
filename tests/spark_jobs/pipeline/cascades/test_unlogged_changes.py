"""Unlogged changes of tables, read off a schema history that stands in a lake."""

from pathlib import Path
from typing import Any

import deltalake
import pyarrow as pa
import pytest

from spark_jobs.binlog import TableName
from spark_jobs.bronze.derived_slices import CascadesCommit
from spark_jobs.cascades.parent_changes import ParentChange
from spark_jobs.config.cascades import OnCascade
from spark_jobs.config.loader import from_keys
from spark_jobs.config.model import Pipeline
from spark_jobs.ddl.foreign_keys import ForeignKey
from spark_jobs.ddl.server_facts import ServerFacts
from spark_jobs.lake.layout import Lake
from spark_jobs.log.position import Position, Range
from spark_jobs.pipeline.cascades.unlogged_changes import Cascade, cascades, unlogged_changes_of
from spark_jobs.schema.commit import HistoryCommit
from spark_jobs.schema.facts import TableVersion
from spark_jobs.schema.history_rows import ARROW, row_of

CHILD, OLD, PARENT = (TableName("shop", name) for name in ("c", "old", "p"))
CREATE = "CREATE TABLE c (id INT, CONSTRAINT f FOREIGN KEY (id) REFERENCES p (id) ON DELETE CASCADE)"

UNLOGGED = "and the server does not log what that does to its rows"


def at(offset: int) -> Position:
    return Position("mysql-bin.000003", offset)


def pipeline(folder: Path, **keys: Any) -> Pipeline:
    settings = {"lake": "lake", "sources": {"shop": {"files": "logs"}}} | keys
    return from_keys(settings, folder / "pipeline.yaml")


def store(lake: Lake, *statements: tuple[int, str], facts: ServerFacts | None = None) -> None:
    """A history as extraction writes it: a statement about two tables stands in two rows."""
    versions = [
        TableVersion(name, at(offset), "ddl", statement=text, database="shop")
        for offset, text in statements
        for name in (CHILD, OLD)
    ]
    commit = HistoryCommit(at(900), "batch", begin=at(4), facts=facts)
    metadata = deltalake.CommitProperties(custom_metadata={"userMetadata": commit.to_json()})
    rows = pa.Table.from_pylist([row_of(version) for version in versions], schema=ARROW)
    deltalake.write_deltalake(lake.schema("shop").path, rows, commit_properties=metadata)


def test_child_tables_in_scope_are_told_with_constraint_parent_and_rule(tmp_path: Path) -> None:
    lake = Lake(str(tmp_path / "lake"))
    key = ForeignKey("g", TableName("crm", "p"), "SET NULL", "CASCADE")
    store(lake, (100, CREATE), facts=ServerFacts(at(50), ((OLD, key),)))
    hits = cascades(pipeline(tmp_path, on_cascade="warn"), lake, "shop")
    assert [str(cascade).partition("; ")[0] for cascade in hits] == [
        f"shop.c: is changed by the foreign key f -> shop.p ON DELETE CASCADE, {UNLOGGED}",
        f"shop.old: is changed by the foreign key g -> crm.p ON DELETE SET NULL ON UPDATE CASCADE, {UNLOGGED}",
    ]
    assert hits[1].to_json() == {
        "table": "shop.old",
        "constraint": "g",
        "parent": "crm.p",
        "on_delete": "SET NULL",
        "on_update": "CASCADE",
    }


@pytest.mark.parametrize(
    "action, refusal, remedy",
    [
        ("warn", None, "or have it derived (on_cascade: apply)"),
        ("stop", None, "or have it derived (on_cascade: apply)"),
        ("apply", "it has no primary key", "(stratalog mend) (stratalog docs cascades)"),
    ],
)
def test_what_to_do_about_a_child_table(action: OnCascade, refusal: str | None, remedy: str) -> None:
    """Derived changes are proposed where they were not tried already."""
    cascade = Cascade(CHILD, ForeignKey("f", PARENT, "CASCADE"), action, refusal)
    assert remedy in cascade.remedy
    assert str(cascade).endswith(cascade.remedy)


@pytest.mark.parametrize("keys", [{"on_cascade": "ignore"}, {"tables": ["shop.p"]}])
def test_nothing_is_told_of_tables_out_of_scope_or_where_it_is_ignored(tmp_path: Path, keys: dict[str, Any]) -> None:
    lake = Lake(str(tmp_path / "lake"))
    store(lake, (100, CREATE))
    assert cascades(pipeline(tmp_path, **keys), lake, "shop") == []


def test_a_lake_without_a_history_has_no_gaps(tmp_path: Path) -> None:
    assert cascades(pipeline(tmp_path), Lake(str(tmp_path / "lake")), "shop") == []


def test_what_stands_in_comments_for_servers_of_a_version_counts(tmp_path: Path) -> None:
    lake = Lake(str(tmp_path / "lake"))
    store(lake, (100, f"/*!50003 {CREATE} */"))
    assert len(cascades(pipeline(tmp_path, on_cascade="warn"), lake, "shop")) == 1


def test_without_a_choice_a_new_lake_tells_of_what_it_could_not_derive(tmp_path: Path) -> None:
    lake, settings = Lake(str(tmp_path / "lake")), pipeline(tmp_path)
    store(lake, (100, CREATE))
    assert cascades(settings, lake, "shop") == [], "everything was derived so far"
    note = {"from": str(at(200)), "to": str(at(300)), "reason": "why"}
    commit = CascadesCommit(at(900), "batch", underived={"shop.c": note})
    metadata = deltalake.CommitProperties(custom_metadata={"userMetadata": commit.to_json()})
    deltalake.write_deltalake(lake.cascades("shop").path, pa.table({"changes": [1]}), commit_properties=metadata)
    (cascade,) = cascades(settings, lake, "shop")
    assert (cascade.refusal or "").startswith(f"not derived from {at(200)} to {at(300)}: why; once its rows are mended")
    assert cascade.to_json()["reason"] == cascade.refusal
    assert cascades(pipeline(tmp_path, on_cascade="apply"), lake, "shop") == [], "who chooses it has mended the rows"


def no_change(_key: ForeignKey, _part: Range) -> None:
    """No change of a parent."""


def test_system_versioning_stops_a_table_whatever_the_choice_and_a_key_by_itself_none(tmp_path: Path) -> None:
    lake, log_range = Lake(str(tmp_path / "lake")), Range(at(4), at(900))
    store(lake, (100, CREATE), (200, "CREATE TABLE v (id INT) WITH SYSTEM VERSIONING"))
    versioned = TableName("shop", "v")
    gaps = unlogged_changes_of(pipeline(tmp_path, on_cascade="stop"), lake, "shop")
    assert gaps.first(CHILD, log_range, no_change) is None
    stop = gaps.first(versioned, log_range, no_change)
    assert stop is not None
    assert stop.at == at(200)
    assert "leave the table out" in stop.refusal
    assert gaps.first(versioned, log_range, no_change, skipped={at(200)}) is None


def test_a_change_of_the_parent_stops_a_child_where_the_choice_says_so(tmp_path: Path) -> None:
    lake = Lake(str(tmp_path / "lake"))
    store(lake, (100, CREATE), (500, "ALTER TABLE c DROP FOREIGN KEY f"))
    parts = []

    def find(key: ForeignKey, part: Range) -> ParentChange:
        parts.append((key.name, part))
        return ParentChange(at(340), at(300), "DELETE")

    rules = [{"tables": "*.*", "action": "stop"}, {"tables": ["crm.*", "shop.old"], "action": "warn"}]
    gaps = unlogged_changes_of(pipeline(tmp_path, on_cascade=rules), lake, "shop")
    stop = gaps.first(CHILD, Range(at(4), at(900)), find)
    assert parts == [("f", Range(at(100), at(500)))], "the key is there between its statements alone"
    assert stop is not None
    assert stop.at == at(300)
    assert stop.refusal.startswith("DELETE of its parent at mysql-bin.000003:340: it is changed by the foreign key f")
    assert "stratalog skip --source shop --at mysql-bin.000003:340 --table shop.c" in stop.refusal
    assert gaps.first(OLD, Range(at(4), at(900)), find) is None
    assert gaps.first(CHILD, Range(at(4), at(100)), find) is None
    assert len(parts) == 1


def test_a_key_that_is_older_than_the_log_counts_from_its_beginning(tmp_path: Path) -> None:
    lake, within, parts = Lake(str(tmp_path / "lake")), Range(at(300), at(900)), []
    store(lake, facts=ServerFacts(at(50), ((OLD, ForeignKey("g", CHILD, "CASCADE")),)))
    stops = unlogged_changes_of(pipeline(tmp_path, on_cascade="stop"), lake, "shop")
    assert stops.first(OLD, within, lambda _, part: parts.append(part)) is None
    assert parts == [within]


def test_a_key_that_ended_before_a_range_stops_nothing_in_it(tmp_path: Path) -> None:
    lake, parts = Lake(str(tmp_path / "lake")), []
    store(lake, (100, CREATE), (300, "ALTER TABLE c DROP FOREIGN KEY f"))
    stops = unlogged_changes_of(pipeline(tmp_path, on_cascade="stop"), lake, "shop")
    assert stops.first(CHILD, Range(at(400), at(900)), lambda _, part: parts.append(part)) is None
    assert stops.first(CHILD, Range(at(200), at(900)), lambda _, part: parts.append(part)) is None
    assert parts == [Range(at(200), at(300))]


def test_children_of_a_parent_are_those_of_the_position(tmp_path: Path) -> None:
    lake = Lake(str(tmp_path / "lake"))
    store(lake, (100, CREATE), (500, "ALTER TABLE c DROP FOREIGN KEY f"))
    gaps = unlogged_changes_of(pipeline(tmp_path), lake, "shop")
    assert [gaps.children(PARENT, at(offset)) for offset in (50, 200, 500)] == [set(), {CHILD}, set()]
    assert gaps.children(CHILD, at(200)) == set()


def test_a_server_that_logs_cascades_has_no_child_to_tell_of(tmp_path: Path) -> None:
    lake = Lake(str(tmp_path / "lake"))
    store(lake, (100, CREATE), facts=ServerFacts(at(50), logs_cascades=True))
    assert cascades(pipeline(tmp_path, on_cascade="warn"), lake, "shop") == []


def test_names_in_small_letters_are_met_by_statements_as_they_were_typed(tmp_path: Path) -> None:
    lake = Lake(str(tmp_path / "lake"))
    store(lake, (100, CREATE.replace("TABLE c", "TABLE Shop.C").replace("REFERENCES p", "REFERENCES Shop.P")))
    gaps = unlogged_changes_of(pipeline(tmp_path), lake, "shop")
    assert [(gap.table, gap.key and gap.key.parent) for gap in gaps.of(CHILD)] == [(TableName("Shop", "C"), PARENT)]
    assert gaps.of(TableName("SHOP", "C")) == []
