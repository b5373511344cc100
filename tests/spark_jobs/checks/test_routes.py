from pathlib import Path

import pytest

from spark_jobs.binlog import Column, TableDefinition, TableName
from spark_jobs.checks.routes import problems_of_tables
from spark_jobs.config.loader import load
from spark_jobs.config.model import Pipeline

INT, BIGINT, DATE = 3, 8, 10


def pipeline(folder: Path, routes: str) -> Pipeline:
    path = folder / "pipeline.yaml"
    sources = "sources: {eu: {files: ./a}, us: {files: ./b}}"
    path.write_text(f'lake: ./lake\n{sources}\ntables: ["*.*", "!*.out"]\n{routes}', encoding="utf-8")
    return load(path, {})


def table(name: str, key: tuple[int, ...] = (0,), **columns: int) -> TableDefinition:
    listed = tuple(Column(column, code, unsigned=False) for column, code in columns.items())
    return TableDefinition(TableName(*name.split(".")), listed, key=key)


MERGED = 'routes: [{from: "shop_*.orders", to: shop.orders}]\n'
PLAIN = table("shop_1.orders", id=INT, made=DATE)


@pytest.mark.parametrize(
    "routes, eu, us, problems",
    [
        (MERGED, [PLAIN, table("shop_2.orders", id=BIGINT)], [table("shop_1.orders", ID=INT, more=INT)], {}),
        (MERGED, [PLAIN, table("shop_2.orders", id=INT, made=INT)], [], {
            "routes to shop.orders": "shop_2.orders of eu: no type holds both what its column made is, and what it is "
            "in shop_1.orders of source eu, which is merged into the same table. Its columns are (id INT, made INT), "
            "the other's (id INT, made DATE); alter one of them to fit, or route it to a table of its own"
        }),
        (MERGED, [PLAIN], [table("shop_2.orders", key=(1,), id=INT, made=DATE), table("shop.orders", key=(), id=INT)], {
            "routes to shop.orders": "its tables are not identified by the same key: id in shop_1.orders of eu, no key "
            "in shop.orders of us, made in shop_2.orders of us"
        }),
        (MERGED.replace("}", ", keys: shared}"), [table("shop_1.orders", key=(), id=INT)], [], {
            "routes to shop.orders": "shop_1.orders of eu have no key that they could share (keys: shared)"
        }),
        (MERGED, [PLAIN, table("shop_2.orders", id=INT, _Table=INT)], [], {
            "routes to shop.orders": "shop_2.orders of eu has a column _Table, which is added to tables of several; "
            "rename it"
        }),
        ("", [PLAIN, table("shop.out", id=INT)], [PLAIN, table("shop.out", id=INT)], {
            "routes to shop_1.orders": "shop_1.orders of eu, shop_1.orders of us have this target, and by routes: it "
            'is of one table; use {source} in to, or set sources: ["*"] of one route for all of them'
        }),
        ('routes: [{from: "a.x", to: [c.x, b.x]}]\n', [table("a.x", id=INT), table("b.x", id=INT)], [], {
            "routes to b.x": "a.x of eu, b.x of eu have this target, and by routes: it is of one table; use {source} "
            'in to, or set sources: ["*"] of one route for all of them'
        }),
        ('routes: [{from: "a.x", to: b.x}]\n', [table("a.x", id=INT), table("b.x", id=INT)], [], {
            "routes to b.x": "a.x of eu, b.x of eu have this target, and by routes: it is of one table; use {source} "
            'in to, or set sources: ["*"] of one route for all of them'
        }),
    ],
)  # fmt: skip
def test_tables_that_meet_downstream(
    tmp_path: Path, routes: str, eu: list[TableDefinition], us: list[TableDefinition], problems: dict[str, str]
) -> None:
    assert problems_of_tables(pipeline(tmp_path, routes), {"eu": eu, "us": us}) == problems
