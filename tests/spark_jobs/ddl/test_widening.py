from dataclasses import replace

import pytest

from spark_jobs.ddl.columns import declared_column, words_of
from spark_jobs.ddl.widening import keeps_values


def keeps(old: str, new: str) -> bool:
    before, after = (declared_column("c", words_of(text)).column for text in (old, new))
    return keeps_values(before, after)


@pytest.mark.parametrize(
    "old, new",
    [
        ("INT", "INT"),
        ("TINYINT", "SMALLINT"),
        ("INT", "BIGINT"),
        ("INT UNSIGNED", "BIGINT"),
        ("INT UNSIGNED", "BIGINT UNSIGNED"),
        ("INT", "DECIMAL(10,0)"),
        ("INT", "DECIMAL(14,4)"),
        ("INT UNSIGNED", "DECIMAL(20,0)"),
        ("INT UNSIGNED", "DECIMAL(20,0) UNSIGNED"),
        ("DECIMAL(10,2) UNSIGNED", "DECIMAL(12,2)"),
        ("DECIMAL(10,2)", "DECIMAL(12,2)"),
        ("DECIMAL(10,2)", "DECIMAL(14,4)"),
        ("FLOAT", "DOUBLE"),
        ("BIT(5)", "BIT(9)"),
        ("DATETIME", "DATETIME(6)"),
        ("TIMESTAMP(3)", "TIMESTAMP(6)"),
        ("VARCHAR(10)", "VARCHAR(20)"),
        ("VARCHAR(10) CHARACTER SET latin1", "VARCHAR(10) CHARACTER SET utf8mb4"),
        ("CHAR(5)", "VARCHAR(5)"),
        ("VARCHAR(100)", "TEXT"),
        ("TINYTEXT", "TEXT"),
        ("VARBINARY(5)", "BLOB"),
        ("BINARY(5)", "VARBINARY(5)"),
        ("ENUM('a','b')", "ENUM('c','b','a')"),
        ("SET('a','b')", "SET('a','x','b')"),
    ],
)
def test_wider_types_keep_every_value_and_narrower_ones_do_not(old: str, new: str) -> None:
    assert keeps(old, new)
    is_same = old.partition("(")[0] == new.partition("(")[0] and "ENUM" in old
    assert keeps(new, old) == (old == new), is_same


@pytest.mark.parametrize(
    "old, new",
    [
        ("INT", "INT UNSIGNED"),
        ("BIGINT UNSIGNED", "BIGINT"),
        ("BIGINT", "DECIMAL(19,0)"),
        ("INT", "DECIMAL(10,1)"),
        ("INT", "VARCHAR(20)"),
        ("INT", "DOUBLE"),
        ("DECIMAL(10,2)", "DECIMAL(10,4)"),
        ("DECIMAL(38,2)", "DECIMAL(39,2)"),
        ("DECIMAL(10,2)", "DECIMAL(10,2) UNSIGNED"),
        ("INT", "DECIMAL(10,0) UNSIGNED"),
        ("FLOAT", "FLOAT UNSIGNED"),
        ("DATE", "DATETIME"),
        ("TIME", "TIME(3)"),
        ("BINARY(5)", "BINARY(6)"),
        ("VARCHAR(5)", "CHAR(5)"),
        ("VARCHAR(5)", "VARBINARY(20)"),
        ("VARCHAR(5) CHARACTER SET utf8mb4", "VARCHAR(5) CHARACTER SET latin1"),
        ("ENUM('a','b')", "ENUM('a','B')"),
        ("SET('a','b')", "SET('b','a')"),
        ("TEXT CHARACTER SET latin1", "TEXT CHARACTER SET utf8mb4"),
    ],
)
def test_what_may_change_a_value_or_how_it_reads_does_not(old: str, new: str) -> None:
    assert not keeps(old, new)


@pytest.mark.parametrize("kind", ["JSON", "POINT", "TEXT CHARACTER SET latin1"])
def test_a_log_that_leaves_a_character_set_out_makes_no_other_type(kind: str) -> None:
    column = declared_column("c", words_of(kind)).column
    assert keeps_values(replace(column, charset=None), column)
    assert keeps_values(column, replace(column, charset=None))
