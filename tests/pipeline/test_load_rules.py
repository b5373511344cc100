"""Loaded rows of tables under rules, beside the same tables read wholly from the log.

Put here: whole loads under filters, masks and computed columns. Not here: rules over rows of the log (test_filters.py),
one rule without a server (tests/spark_jobs/pipeline/initial_load/test_row_rules.py).
"""

from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest
import yaml

from spark_jobs.binlog import TableName
from spark_jobs.config.model import Pipeline
from spark_jobs.downstream import merge_job
from spark_jobs.lake.layout import lake_of
from spark_jobs.pipeline.initial_load.commit import READING, LoadCommit, progress
from spark_jobs.pipeline.initial_load.load import Loaded, load_source
from spark_jobs.silver import table as silver
from spark_jobs.silver.commit import SilverCommit
from tests.fix_pipeline import SOURCE, Shop

pytestmark = [pytest.mark.spark, pytest.mark.mysql, pytest.mark.long]

SECRET = "topsecret"
TABLES = {
    "masked": "id INT PRIMARY KEY, email VARCHAR(60), name VARCHAR(60), note TEXT, phone VARCHAR(60), born DATE, "
    "kind ENUM('a', 'b'), pin VARBINARY(60), d DATE",
    "keyed": "code VARCHAR(60), part INT, v INT, PRIMARY KEY (code, part)",
    "listed": "id INT PRIMARY KEY, v INT, hidden VARCHAR(60)",
    "computed": "id INT PRIMARY KEY, price DECIMAL(10,2), n INT, hidden VARCHAR(60), email VARCHAR(60)",
    "judged": "id INT PRIMARY KEY, is_test INT, total DECIMAL(10,2), email VARCHAR(60), d DATE, _kind INT",
    "kept": "id INT PRIMARY KEY, v INT",
    "updated": "id INT PRIMARY KEY, v INT",
}
RULES: dict[str, Any] = {
    "filters": {
        "history": {"tables": ["shop.kept"], "events": ["delete", "truncate table"]},
        "no-inserts": {"tables": ["shop.updated"], "events": ["insert"]},
    },
    "row_filters": {
        "tests": {
            "tables": ["shop.judged"],
            "insert-value-expr": "is_test = 1 OR total < 0.01",
            "update-new-value-expr": "is_test = 1",
        },
        "hidden": {
            "tables": ["shop.judged"],
            "insert-value-expr": f"email COLLATE utf8mb4_0900_bin = '{SECRET}-email-3@x'",
        },
        "sums": {"tables": ["shop.computed"], "insert-value-expr": "total > 900"},
    },
    "columns": {
        "privacy": {
            "tables": ["shop.masked"],
            "exclude": ["phone"],
            "mask": {
                "email": {"hash": "${SALT}"},
                "name": {"truncate": 3},
                "note": {"constant": "removed"},
                "born": {"hash": "${SALT}"},
                "kind": {"constant": "none"},
                "pin": {"truncate": 2},
            },
        },
        "keys": {"tables": ["shop.keyed"], "mask": {"code": {"hash": "${SALT}"}}},
        "few": {"tables": ["shop.listed"], "include": ["id", "v"]},
        "sums": {
            "tables": ["shop.computed"],
            "exclude": ["hidden"],
            "mask": {"email": {"hash": "${SALT}"}},
            "computed": {
                "total": {"sql": "price * n", "type": "DECIMAL(21,2)"},
                "size": {"sql": "CASE WHEN n > 10 THEN 'big' ELSE 'small' END", "type": "STRING"},
            },
        },
        "emails": {"tables": ["shop.judged"], "mask": {"email": {"hash": "${SALT}"}}},
    },
}
LATER = (
    "UPDATE masked SET email = CONCAT('topsecret-new-', id), born = '0000-00-00' WHERE id % 3 = 0",
    "DELETE FROM masked WHERE id = 5",
    "INSERT INTO masked VALUES (100, 'topsecret-email-100@x', 'topsecret-name', NULL, NULL, NULL, 'b', NULL, NULL)",
    "UPDATE keyed SET v = v + 1 WHERE part < 4",
    "UPDATE keyed SET code = CONCAT(code, 'x') WHERE part = 4",
    "DELETE FROM keyed WHERE part = 6",
    "UPDATE listed SET v = -1 WHERE id < 3",
    "UPDATE computed SET n = n + 20 WHERE id < 3",
    "UPDATE judged SET is_test = 1 WHERE id = 2",
    "UPDATE judged SET is_test = 0, total = 7 WHERE id IN (0, 5)",
    "DELETE FROM kept WHERE id < 3",
    "UPDATE kept SET v = 1000 WHERE id = 4",
    "UPDATE updated SET v = -5 WHERE id = 3",
)


@dataclass(frozen=True)
class Lakes:
    """Two lakes of one source: one whose log has all of the tables, and one whose tables are loaded."""

    logged: tuple[Shop, Pipeline]
    loaded: tuple[Shop, Pipeline]

    def pairs(self) -> Iterator[tuple[Shop, Pipeline]]:
        yield self.logged
        yield self.loaded


@pytest.fixture
def lakes(shop: Shop, monkeypatch: pytest.MonkeyPatch) -> Lakes:
    """The tables with rows; ``logged`` has read them, ``loaded`` begins after them."""
    monkeypatch.setenv("SALT", "pepper")
    shop.execute("SET SESSION sql_mode = ''")
    for name, columns in TABLES.items():
        shop.execute(f"CREATE TABLE {name} ({columns})")
    for at in range(12):
        text = f"{SECRET}-%s-{at}@x"
        born = "0000-00-00" if at == 7 else f"1990-01-{at + 1:02}"
        shop.database.execute(
            "INSERT INTO masked VALUES (%s, %s, %s, %s, %s, %s, %s, %s, %s)",
            (at, text % "email", text % "name", text % "note", text % "phone", born, 1 + at % 2, text % "pin", born),
        )
        shop.database.execute("INSERT INTO keyed VALUES (%s, %s, %s)", (text % "key", at, at))
        shop.database.execute("INSERT INTO listed VALUES (%s, %s, %s)", (at, at, text % "listed"))
        shop.database.execute(
            "INSERT INTO computed VALUES (%s, %s, %s, %s, %s)", (at, at * 10.5, at, text % "computed", text % "email")
        )
        shop.database.execute(
            "INSERT INTO judged VALUES (%s, %s, %s, %s, %s, 5)", (at, at % 5 == 0, at % 4, text % "email", born)
        )
        for name in ("kept", "updated"):
            shop.database.execute(f"INSERT INTO {name} VALUES (%s, %s)", (at, at))
    shop.execute("FLUSH BINARY LOGS")
    late = replace(shop, start=shop.end())
    rules = yaml.safe_load(yaml.safe_dump(RULES, sort_keys=False).replace("shop.", f"{shop.database.name}."))
    pipelines = []
    for folder, first_shop in (("logged", shop), ("loaded", late)):
        (shop.folder / folder).mkdir()
        lake_shop = replace(first_shop, folder=shop.folder / folder)
        pipelines.append((lake_shop, lake_shop.pipeline(live=True, **rules)))
        assert lake_shop.run(pipelines[-1][1])[1].stopped == {}
    return Lakes(*pipelines)


def test_loaded_rows_are_those_of_the_log_under_every_rule(lakes: Lakes, monkeypatch: pytest.MonkeyPatch) -> None:
    load = loaded(lakes)
    monkeypatch.setenv("SALT", "pepper")
    assert {name.table: commit.rows for name, commit in load.tables.items()} == {
        **dict.fromkeys(("masked", "keyed", "listed", "kept"), 12),
        "computed": 10,
        "judged": 6,
        "updated": 0,
    }
    filtered = {name.table: commit.filtered for name, commit in load.tables.items() if commit.filtered}
    assert filtered == {
        "computed": {"row_filters.sums": 2},
        "judged": {"row_filters.tests": 5, "row_filters.hidden": 1},
    }
    for name in ("computed", "judged"):
        assert noted(lakes, name) == filtered[name]
    for name in TABLES:
        assert silver_rows(*lakes.loaded, name) == silver_rows(*lakes.logged, name), name
        assert downstream(*lakes.loaded, name) == downstream(*lakes.logged, name), name
    lakes.loaded[0].execute(*LATER)
    for shop, pipeline in lakes.pairs():
        assert shop.run(pipeline)[1].stopped == {}
    for name in TABLES:
        assert downstream(*lakes.loaded, name) == downstream(*lakes.logged, name), name
    assert len(downstream(*lakes.loaded, "kept")) == 12
    assert [row.partition(",")[0] for row in downstream(*lakes.loaded, "updated")] == ["(3"]
    assert clear_texts(lakes.loaded[1], excluded=()) == {"bronze"}, "the search finds what is there"
    assert clear_texts(lakes.loaded[1], excluded=("bronze",)) == set()


def load_until_killed(shop: Shop, pipeline: Pipeline, table: TableName) -> None:
    """A load that ends once its first rows are committed."""

    class Killed(BaseException):
        pass

    def killing(_name: TableName, commit: LoadCommit) -> None:
        if commit.chunks:
            raise Killed

    with pytest.raises(Killed):
        load_source(shop.spark, pipeline, SOURCE, tables=[str(table)], chunk_rows=2, on_progress=killing)


def test_a_load_of_a_masked_key_that_is_killed_names_no_key_and_starts_anew(lakes: Lakes) -> None:
    shop, pipeline = lakes.loaded
    keyed = TableName(shop.database.name, "keyed")
    chunks: list[int] = []

    load_until_killed(shop, pipeline, keyed)
    interrupted = progress(lake_of(pipeline), SOURCE, keyed)
    assert interrupted is not None
    assert (interrupted.state, interrupted.chunks, interrupted.after) == (READING, 4, None)
    assert clear_texts(pipeline, excluded=("bronze",)) == set()
    load = load_source(
        *(shop.spark, pipeline, SOURCE),
        tables=[str(keyed)],
        chunk_rows=2,
        on_progress=lambda _name, commit: chunks.append(commit.chunks),
    )
    assert (load.stopped, load.tables[keyed].rows) == ({}, 12)
    assert chunks[0] == 0, "it starts from the table's beginning"
    assert downstream(shop, pipeline, "keyed") == downstream(*lakes.logged, "keyed")
    assert clear_texts(pipeline, excluded=("bronze",)) == set()


def test_rows_that_were_read_under_other_rules_are_read_again(lakes: Lakes) -> None:
    shop, pipeline = lakes.loaded
    name = TableName(shop.database.name, "listed")

    load_until_killed(shop, pipeline, name)
    rules = {"columns": {"fewer": {"tables": [str(name)], "include": ["id"]}}}
    changed = shop.pipeline(live=True, **rules)
    load = load_source(shop.spark, changed, SOURCE, tables=[str(name)], chunk_rows=2)
    assert (load.stopped, load.tables[name].rows) == ({}, 12)
    assert lake_of(changed).downstream(*name_of(name)).columns().keys() - merge_job.ADDED.keys() == {"id"}
    stopped = load_source(shop.spark, shop.pipeline(live=True), SOURCE, tables=[str(name)])
    assert stopped.already == [name]


def test_what_rules_cannot_do_to_loaded_rows_is_said(lakes: Lakes) -> None:
    shop, _ = lakes.loaded
    names = {table: TableName(shop.database.name, table) for table in TABLES}
    rules = {
        "row_filters": {"days": {"tables": [str(names["judged"])], "insert-value-expr": "d > '1990-01-03'"}},
        "columns": {
            "keys": {"tables": [str(names["keyed"])], "exclude": ["code"]},
            "gone": {"tables": [str(names["listed"])], "exclude": ["nothing"]},
        },
    }
    load = load_source(shop.spark, shop.pipeline(live=True, **rules), SOURCE, tables=[*map(str, names.values())])
    assert {name.table for name in load.tables} == {"masked", "computed", "kept", "updated"}
    judged = load.stopped[names["judged"]]
    assert "a row of the server: row_filters.days.insert-value-expr: column d: its type in the lake cannot" in judged
    assert "columns.keys leaves out code" in load.stopped[names["keyed"]]
    assert "columns.gone names column nothing, which the table does not have" in load.stopped[names["listed"]]


def name_of(name: TableName) -> tuple[str, str]:
    return name.schema, name.table


def loaded(lakes: Lakes) -> Loaded:
    shop, pipeline = lakes.loaded
    load = load_source(shop.spark, pipeline, SOURCE, chunk_rows=5)
    assert load.stopped == {}
    return load


def noted(lakes: Lakes, table: str) -> dict[str, int]:
    """What silver's commits say was filtered."""
    shop, pipeline = lakes.loaded
    (head,) = [lake_of(pipeline).silver(SOURCE, shop.database.name, table).head()]
    commit = SilverCommit.of_head(head)
    assert commit is not None
    assert commit.rules
    return dict(commit.filtered or {})


def silver_rows(shop: Shop, pipeline: Pipeline, table: str) -> list[str]:
    """Silver's rows with their exact texts, without what says where they come from."""
    lake_table = lake_of(pipeline).silver(SOURCE, shop.database.name, table)
    return [] if lake_table.head() is None else texts_of(lake_table.read(shop.spark), silver.ADDED.keys())


def downstream(shop: Shop, pipeline: Pipeline, table: str) -> list[str]:
    lake_table = lake_of(pipeline).downstream(shop.database.name, table)
    return [] if lake_table.head() is None else texts_of(lake_table.read(shop.spark), merge_job.ADDED.keys())


def texts_of(frame: Any, added: Any) -> list[str]:
    names = [name for name in frame.columns if name not in added] + ["_raw"]
    return sorted(repr(tuple(row)) for row in frame.select(*(f"`{name}`" for name in names)).collect())


def clear_texts(pipeline: Pipeline, excluded: tuple[str, ...]) -> set[str]:
    """The layers in whose files, those of former versions too, a text stands that is to be hidden."""
    root = Path(pipeline.lake)
    needles = [SECRET.encode(), SECRET.encode().hex().encode(), SECRET.encode().hex().upper().encode()]
    layers = set()
    for path in root.rglob("*"):
        layer = path.relative_to(root).parts[0]
        if not path.is_file() or layer in excluded:
            continue
        contents = path.read_bytes()
        if path.suffix == ".parquet":
            contents += repr(pq.read_table(path, partitioning=None).to_pylist()).encode()
        if any(needle in contents for needle in needles):
            layers.add(layer)
    return layers
