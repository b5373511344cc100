from typing import Any

import pytest

from spark_jobs.binlog import TableName
from spark_jobs.ddl.foreign_keys import ForeignKey, declared_keys, dropped_keys

PARENT = TableName("shop", "p")


def of(column: str) -> dict[str, Any]:
    """The columns of a key that refers to the column id."""
    return {"columns": (column,), "parent_columns": ("id",)}


OF_PID = of("pid")
CREATE = "CREATE TABLE c (id INT PRIMARY KEY, pid INT, note TEXT COMMENT 'REFERENCES x ON DELETE CASCADE', "


@pytest.mark.parametrize(
    "text, expected",
    [
        (
            CREATE
            + "CONSTRAINT `fk 1` FOREIGN KEY (pid, id) REFERENCES p (a, b) ON DELETE CASCADE ON UPDATE SET NULL)",
            [ForeignKey("fk 1", PARENT, "CASCADE", "SET NULL", columns=("pid", "id"), parent_columns=("a", "b"))],
        ),
        (
            CREATE + "FOREIGN KEY ix (pid) REFERENCES `other`.`p q` (id) MATCH FULL ON UPDATE SET DEFAULT, KEY (pid))",
            [ForeignKey("", TableName("other", "p q"), "NO ACTION", "SET DEFAULT", "ix", **OF_PID)],
        ),
        (
            CREATE + "FOREIGN KEY (pid) REFERENCES p (id), CONSTRAINT FOREIGN KEY (id) REFERENCES p (id) "
            "ON DELETE RESTRICT) ENGINE = InnoDB",
            [ForeignKey("", PARENT, **OF_PID), ForeignKey("", PARENT, "RESTRICT", **of("id"))],
        ),
        (
            CREATE + "q INT CONSTRAINT f REFERENCES p (id) ON DELETE CASCADE, r INT DEFAULT (1))",
            [ForeignKey("f", PARENT, "CASCADE", is_inline=True, **of("q"))],
        ),
        (CREATE + "FOREIGN KEY (pid) REFERENCES p (id) ON DELETE CASCADE) ENGINE=MyISAM", []),
        (
            (
                "ALTER TABLE c ADD x INT, ADD CONSTRAINT f FOREIGN KEY IF NOT EXISTS i (pid) REFERENCES p (id) "
                "on update cascade, ADD KEY (x), ADD (y INT REFERENCES p (id) ON DELETE NO ACTION, z INT)"
            ),
            [
                ForeignKey("f", PARENT, "NO ACTION", "CASCADE", "i", **OF_PID),
                ForeignKey("", PARENT, "NO ACTION", is_inline=True, **of("y")),
            ],
        ),
        (
            "ALTER TABLE c ADD COLUMN IF NOT EXISTS `add` INT REFERENCES p (id), CHANGE a b INT REFERENCES p(id)",
            [ForeignKey("", PARENT, is_inline=True, **of(name)) for name in ("add", "b")],
        ),
        ("ALTER TABLE c DROP FOREIGN KEY f", []),
    ],
)
def test_statements_tell_the_foreign_keys_that_they_add(text: str, expected: list[ForeignKey]) -> None:
    assert declared_keys(text, "shop") == expected


@pytest.mark.parametrize(
    "text, expected",
    [
        ("ALTER TABLE c DROP FOREIGN KEY f, DROP COLUMN pid, DROP CONSTRAINT `g h`", ["f", "g h"]),
        ("ALTER TABLE c DROP FOREIGN KEY IF EXISTS f, DROP CONSTRAINT IF EXISTS g", ["f", "g"]),
        ("ALTER TABLE c DROP KEY f, DROP PRIMARY KEY, DROP x", []),
    ],
)
def test_statements_tell_the_foreign_keys_that_they_drop(text: str, expected: list[str]) -> None:
    assert dropped_keys(text) == expected


def test_only_rules_that_change_child_rows_cascade() -> None:
    assert not ForeignKey("f", PARENT, "RESTRICT", "NO ACTION").is_cascading
    key = ForeignKey("f", PARENT, "CASCADE", "SET NULL")
    assert key.is_cascading
    assert key.rules == "ON DELETE CASCADE ON UPDATE SET NULL"
    assert not ForeignKey("f", PARENT, on_update="SET DEFAULT").is_cascading, "MariaDB takes it for NO ACTION"
