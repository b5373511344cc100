from pathlib import Path

from spark_jobs.binlog import Column, TableDefinition, TableName
from spark_jobs.checks.filters import problems_of_rules
from spark_jobs.config.loader import load
from spark_jobs.config.model import Pipeline

TABLE = TableDefinition(TableName("shop", "orders"), (Column("id", 3), Column("name", 15, 80, charset=255)), key=(0,))


def pipeline(folder: Path, rules: str) -> Pipeline:
    path = folder / "pipeline.yaml"
    path.write_text(f"lake: ./lake\nsources: {{shop: {{files: ./b}}}}\n{rules}", encoding="utf-8")
    return load(path, {})


def test_each_rule_beside_the_tables_that_there_are(tmp_path: Path) -> None:
    rules = """
filters:
  gone: {tables: [shop.order], events: [delete]}
  right: {tables: ["shop.*"], events: [delete]}
row_filters:
  typo:
    tables: ["shop.*"]
    insert-value-expr: "idd = 1"
    delete-value-expr: "id = 1"
    update-new-value-expr: "name = ''"
columns:
  key: {tables: [shop.orders], exclude: [id]}
"""
    problems = problems_of_rules(pipeline(tmp_path, rules), [TABLE], is_all=True)
    assert list(problems) == [
        "filters.gone.tables",
        "row_filters.typo.insert-value-expr",
        "row_filters.typo.update-new-value-expr",
        "columns.key",
    ]
    assert problems["filters.gone.tables"] == "no server has such a table, or the user may not see it"
    assert problems["row_filters.typo.insert-value-expr"].startswith(
        "shop.orders: names column idd, which the table does not have: shop.orders (id int"
    )
    assert "write it COLLATE utf8mb4_0900_bin" in problems["row_filters.typo.update-new-value-expr"]
    assert problems["columns.key"].startswith("shop.orders: columns.key leaves out id, which rows are identified by")


def test_a_table_may_be_another_sources(tmp_path: Path) -> None:
    rules = "filters:\n  gone: {tables: [shop.order], events: [delete]}\n"
    assert problems_of_rules(pipeline(tmp_path, rules), [TABLE], is_all=False) == {}


def test_a_row_filter_may_name_computed_columns(tmp_path: Path) -> None:
    rules = """
row_filters:
  right: {tables: ["shop.*"], insert-value-expr: "Twice > 8 AND id > 1", delete-value-expr: "odd"}
  wrong:
    tables: ["shop.*"]
    insert-value-expr: "twice = 'a'"
    delete-value-expr: "lost = 1"
    update-new-value-expr: "x"
columns:
  more:
    tables: [shop.orders]
    computed:
      twice: {sql: "id * 2", type: BIGINT}
      odd: {sql: "id % 2", type: BIGINT}
      lost: {sql: "idd % 2", type: BIGINT}
"""
    problems = problems_of_rules(pipeline(tmp_path, rules), [TABLE], is_all=True)
    assert list(problems) == [
        "row_filters.wrong.insert-value-expr",
        "row_filters.wrong.update-new-value-expr",
        "row_filters.wrong.delete-value-expr",
        "columns.more",
    ]
    assert "names column idd, which the table does not have" in problems["row_filters.wrong.delete-value-expr"]
    assert "names column x, which the table does not have" in problems["row_filters.wrong.update-new-value-expr"]
