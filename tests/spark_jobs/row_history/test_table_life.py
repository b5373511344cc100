from dataclasses import dataclass
from pathlib import Path

import pytest

from spark_jobs.binlog import TableName
from spark_jobs.bronze.data_files import DataFiles
from spark_jobs.bronze.table import BronzeSnapshot
from spark_jobs.log.position import Range
from spark_jobs.row_history.table_life import TableLife, life_of
from tests.binlogs.segment_spec import Statement
from tests.lakes.consumers import SOURCE, Shop


@dataclass(frozen=True)
class Case:
    statements: tuple[str, ...]
    names: dict[str, int | None]
    """What the table was called, and by which statement it got another name."""
    about: tuple[int, ...]
    emptied: tuple[int, ...] = ()


CASES = {
    "nothing": Case(("CREATE TABLE x (a INT)", "CREATE INDEX i ON t (a)"), {"t": None}, ()),
    "emptied": Case(("TRUNCATE t", "DROP TABLE x, t", "DROP DATABASE shop"), {"t": None}, (0, 1, 2), (0, 1, 2)),
    "renamed": Case(("RENAME TABLE a TO b", "ALTER TABLE b RENAME t"), {"t": None, "b": 1, "a": 0}, (0, 1)),
    "a swap": Case(("RENAME TABLE t TO old, new TO t", "DROP TABLE old"), {"t": None, "new": 0}, (0,)),
    "away": Case(("RENAME TABLE t TO old", "CREATE TABLE t (a INT)", "TRUNCATE old"), {"t": None}, (0, 1), (0,)),
    "changed": Case(("ALTER TABLE t ADD b INT", "ALTER TABLE u ADD b INT"), {"t": None}, (0,)),
}


def life(folder: Path, case: Case) -> tuple[TableLife, list[int]]:
    shop = Shop(folder)
    shop.log([Statement("shop", text) for text in case.statements])
    snapshot = BronzeSnapshot.of(shop.lake, SOURCE)
    files = DataFiles(snapshot.table, snapshot.version)
    table_life = life_of(files, TableName("shop", "t"), Range(snapshot.oldest, snapshot.end))
    texts = [logged.statement.text for logged in table_life.statements]
    return table_life, [case.statements.index(text) for text in texts]


@pytest.mark.parametrize("case", CASES.values(), ids=CASES)
def test_names_and_statements(tmp_path: Path, case: Case) -> None:
    table_life, about = life(tmp_path, case)
    assert tuple(about) == case.about
    position = {case.statements.index(logged.statement.text): logged.position for logged in table_life.statements}
    assert table_life.emptied == tuple(position[at] for at in case.emptied)
    assert table_life.names == {
        TableName("shop", name): None if at is None else position[at] for name, at in case.names.items()
    }


def test_a_statement_that_changes_rows_is_named(tmp_path: Path) -> None:
    table_life, _ = life(tmp_path, Case(("UPDATE t SET a = 1", "UPDATE u SET a = 1"), {}, ()))
    assert [logged.statement.text for logged in table_life.unlogged] == ["UPDATE t SET a = 1"]
