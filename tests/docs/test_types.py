"""docs/reference/types.md gives the types that silver has for columns of a CREATE TABLE."""

import re
from pathlib import Path

import pytest

from spark_jobs.binlog import TableName
from spark_jobs.ddl.parse_alter import created_definition
from spark_jobs.silver.table import columns

PAGE = (Path(__file__).parents[2] / "docs" / "reference" / "types.md").read_text(encoding="utf-8")
ROWS = [tuple(row) for row in re.findall(r"^\| ([^|]+) \| ([^|]+) \|$", PAGE, re.MULTILINE)]
CASES = [
    ("MEDIUMINT", "TINYINT, SMALLINT, MEDIUMINT, INT, BIGINT", "INT"),
    ("TINYINT", "TINYINT, SMALLINT, MEDIUMINT, INT, BIGINT", "TINYINT"),
    ("TINYINT UNSIGNED", "TINYINT UNSIGNED, SMALLINT UNSIGNED", "SMALLINT"),
    ("SMALLINT UNSIGNED", "TINYINT UNSIGNED, SMALLINT UNSIGNED", "INT"),
    ("BIGINT UNSIGNED", "TINYINT UNSIGNED, SMALLINT UNSIGNED", "DECIMAL(20,0)"),
    ("BOOL", "BOOL, BOOLEAN", "TINYINT"),
    ("DECIMAL(12,2)", "DECIMAL(p,s)", "DECIMAL(12,2)"),
    ("DECIMAL(40,2)", "DECIMAL(p,s)", "STRING"),
    ("FLOAT", "FLOAT, DOUBLE", "FLOAT"),
    ("DOUBLE", "FLOAT, DOUBLE", "DOUBLE"),
    ("BIT(17)", "BIT(n)", "BIGINT"),
    ("BIT(64)", "BIT(n)", "DECIMAL(20,0)"),
    ("YEAR", "YEAR", "SMALLINT"),
    ("DATE", "DATE", "DATE"),
    ("DATETIME(6)", "DATETIME(f)", "TIMESTAMP_NTZ"),
    ("TIMESTAMP(3)", "TIMESTAMP(f)", "TIMESTAMP"),
    ("TIME(2)", "TIME(f)", "STRING"),
    ("VARCHAR(9) CHARSET utf8mb4", "CHAR, VARCHAR, TEXT", "STRING"),
    ("TEXT CHARSET latin1", "CHAR, VARCHAR, TEXT", "STRING"),
    ("ENUM('a') CHARSET ascii", "ENUM, SET", "STRING"),
    ("SET('a','b') CHARSET ascii", "ENUM, SET", "STRING"),
    ("VARBINARY(9)", "BINARY, VARBINARY, BLOB", "BINARY"),
    ("BLOB", "BINARY, VARBINARY, BLOB", "BINARY"),
    ("JSON", "JSON (MySQL)", "STRING"),
    ("POINT", "GEOMETRY and its kinds", "STRUCT<srid, wkb>"),
]


@pytest.mark.parametrize("declared, source, lake", CASES, ids=lambda value: value[:24])
def test_a_row_of_the_page_is_what_silver_has(declared: str, source: str, lake: str) -> None:
    definition = created_definition(TableName("shop", "t"), f"CREATE TABLE t (id INT PRIMARY KEY, c {declared})")
    assert definition
    kind = columns(definition).types["c"]
    assert kind.replace(": INT", "").replace(": BINARY", "") == lake
    cell = next(right for left, right in ROWS if left.startswith(source))
    assert lake.replace("(12,2)", "(p,s)") in cell
