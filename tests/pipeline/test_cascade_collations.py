"""Children whose log tells no collation: text is equal by what statements said of columns, tables and schemas."""

from collections.abc import Iterator
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from spark_jobs.config.model import Pipeline
from spark_jobs.log.position import Position
from tests.fix_mysql import database_of
from tests.fix_pipeline import Shop, require_same
from tests.fix_servers import Servers, telling

pytestmark = [pytest.mark.spark, pytest.mark.mysql]

TEXTS = ("a", "b", "ss", "s ", "ae", "o", "z")
"""Of children; parents have other letters that some collations take for the same."""
LETTERS = ("A", "B", "ß", "S", "æ", "ö", "Z")


@pytest.fixture
def old_shop(spark: SparkSession, servers: Servers, tmp_path: Path, tasks_here: None) -> Iterator[Shop]:
    """A schema of MySQL 5.7, whose log names neither columns nor collations, read from files."""
    with database_of(servers.get("mysql-5.7")) as database:
        file, offset = database.execute("SHOW MASTER STATUS")[0][:2]
        database.execute("SET NAMES utf8mb4")
        yield Shop(spark, database, tmp_path, Position(file, offset))


@pytest.fixture(params=[pytest.param("NO_LOG", marks=pytest.mark.thorough), "FULL"])
def maria_shop(
    request: pytest.FixtureRequest, spark: SparkSession, servers: Servers, tmp_path: Path, tasks_here: None
) -> Iterator[Shop]:
    """A schema of MariaDB, whose log names columns and collations or does not."""
    server = servers.get("mariadb-11.4")
    with telling(server, request.param), database_of(server) as database:
        file, offset = database.execute("SHOW MASTER STATUS")[0][:2]
        database.execute("SET NAMES utf8mb4")
        yield Shop(spark, database, tmp_path, Position(file, offset))


def make(shop: Shop, number: int, options: str = "", column: str = "") -> None:
    """A parent and its child, which refers by text. options: of both tables. column: what the text's column says."""
    text = f"VARCHAR(8) {column}"
    shop.execute(
        f"CREATE TABLE p{number} (id INT PRIMARY KEY, name {text}, UNIQUE (name)) {options}",
        f"CREATE TABLE c{number} (id INT PRIMARY KEY, parent {text}, KEY (parent)) {options}",
    )


def fill(shop: Shop, number: int) -> None:
    """A parent for each child, by its other letters where the collation takes them for the same."""
    shop.execute(
        f"ALTER TABLE c{number} ADD CONSTRAINT f{number} FOREIGN KEY (parent) REFERENCES p{number} (name) "
        "ON DELETE CASCADE ON UPDATE CASCADE"
    )
    for at, (text, letter) in enumerate(zip(TEXTS, LETTERS, strict=True)):
        shop.execute(
            f"INSERT IGNORE INTO p{number} VALUES ({at}, '{letter}'), ({at + 10}, '{text}')",
            f"INSERT INTO c{number} VALUES ({at}, '{text}'), ({at + 10}, '{letter}')",
        )


def test_children_are_found_by_the_collations_of_statements(old_shop: Shop) -> None:
    shop = old_shop
    shop.execute(f"ALTER DATABASE {shop.database.name} COLLATE utf8mb4_general_ci")
    # The collation of the column, of the table, and of the schema.
    make(shop, 1, "CHARSET latin1", "COLLATE utf8mb4_unicode_ci")
    make(shop, 2, "CHARSET=utf8mb4 COLLATE=utf8mb4_unicode_ci")
    fill(shop, 1)
    fill(shop, 2)
    pipeline = shop.pipeline(on_cascade="apply", live=False)
    compare(shop, pipeline, range(1, 3))
    make(shop, 3)
    make(shop, 4, "COLLATE latin1_general_ci")
    shop.execute(f"ALTER DATABASE {shop.database.name} COLLATE utf8mb4_bin")
    make(shop, 5)
    for table in ("p4", "c4"):
        shop.execute(f"ALTER TABLE {table} CONVERT TO CHARACTER SET utf8mb4 COLLATE utf8mb4_unicode_ci")
    for number in (3, 4, 5):
        fill(shop, number)
    compare(shop, pipeline, range(1, 6))
    for number in range(1, 6):
        shop.execute(
            f"UPDATE p{number} SET name = CONCAT(name, 'x') WHERE id % 10 IN (0, 2)",
            f"DELETE FROM p{number} WHERE id % 10 IN (1, 3, 5)",
        )
    compare(shop, pipeline, range(1, 6))
    # By each collation other letters are the same.
    left = [shop.truth(f"c{number}") for number in (1, 3, 5)]
    assert left[0] == shop.truth("c2") == shop.truth("c4")
    assert len({*map(str, left)}) == 3, left


def compare(shop: Shop, pipeline: Pipeline, numbers: range) -> None:
    """A run, after which parents and children are the server's."""
    _, outcome = shop.run(pipeline)
    assert not outcome.stopped, outcome.stopped
    for number in numbers:
        for table in (f"p{number}", f"c{number}"):
            require_same(shop, pipeline, table)


@pytest.mark.parametrize("options, column", [("CHARSET utf8mb4", ""), ("COLLATE utf8mb4_bin", "CHARSET utf8mb4")])
def test_a_character_set_alone_stops_the_child_by_name(old_shop: Shop, options: str, column: str) -> None:
    make(old_shop, 1, options, column)
    fill(old_shop, 1)
    old_shop.execute("DELETE FROM p1 WHERE id = 0")
    _, outcome = old_shop.run(old_shop.pipeline(on_cascade="apply", live=False))
    ((name, reason),) = outcome.stopped.items()
    assert name.table == "c1"
    assert "its collation is not known" in reason


def test_collations_of_any_set_are_those_of_the_set_around(maria_shop: Shop) -> None:
    shop = maria_shop
    make(shop, 1, "CHARSET utf8mb4", "COLLATE uca1400_ai_ci")
    make(shop, 2, "CHARSET latin1", "CHARACTER SET utf8mb4 COLLATE uca1400_nopad_ai_ci")
    make(shop, 3, "CHARSET = utf8mb4 COLLATE = uca1400_ai_ci")
    make(shop, 4, "COLLATE utf8mb4_bin", "COLLATE utf8mb4_uca1400_ai_ci")
    for number in range(1, 5):
        fill(shop, number)
    pipeline = shop.pipeline(on_cascade="apply", live=False)
    compare(shop, pipeline, range(1, 5))
    for number in range(1, 5):
        shop.execute(
            f"UPDATE p{number} SET name = CONCAT(name, 'x') WHERE id % 10 IN (0, 2)",
            f"DELETE FROM p{number} WHERE id IN (1, 3, 5)",
        )
    compare(shop, pipeline, range(1, 5))
    left = [shop.truth(f"c{number}") for number in range(1, 5)]
    assert left[0] == left[2] == left[3] != left[1]


@pytest.mark.parametrize("options, column", [("", "COLLATE uca1400_ai_ci"), ("COLLATE uca1400_ai_ci", "")])
def test_a_collation_of_a_set_that_no_statement_names(maria_shop: Shop, options: str, column: str) -> None:
    """It is derived where the log has its number, and else refused."""
    shop = maria_shop
    shop.execute(f"ALTER DATABASE {shop.database.name} COLLATE utf8mb4_general_ci")
    make(shop, 1, options, column)
    fill(shop, 1)
    shop.execute("DELETE FROM p1 WHERE id % 10 IN (0, 2, 4)")
    pipeline = shop.pipeline(on_cascade="apply", live=False)
    ((metadata,),) = shop.database.execute("SELECT @@GLOBAL.binlog_row_metadata")
    if metadata == "FULL":
        compare(shop, pipeline, range(1, 2))
        return
    _, outcome = shop.run(pipeline)
    ((name, reason),) = outcome.stopped.items()
    assert (name.table, "its collation is not known" in reason) == ("c1", True), reason
