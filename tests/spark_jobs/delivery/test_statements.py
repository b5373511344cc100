import random

import pyarrow as pa
import pytest

from spark_jobs.delivery.encode import OutputColumn
from spark_jobs.delivery.statements import RowStatement, WriteMethod, Writer
from spark_jobs.delivery.target import Connection
from spark_jobs.delivery.transactions import execute
from spark_jobs.errors import DeliveryError

ROWS = pa.table({"id": [1, 2, 3], "k`": ["a", None, "c"]})
GUARD = "`id` = IF(9223372036854775807 + (NOT (`id` <=> VALUES(`id`))), VALUES(`id`), NULL)"


def writer(*key: str, rows: int = 2, packet: int = 1 << 20) -> Writer:
    columns = (OutputColumn("id", "int"), OutputColumn("k`", "varchar"))
    return Writer("s", "t", columns, key, rows, packet)


@pytest.mark.parametrize(
    "deployment, tail, counts",
    [
        (WriteMethod.INSERT, "", [("inserted", 2, False), ("inserted", 1, False)]),
        (
            WriteMethod.UPSERT,
            f" ON DUPLICATE KEY UPDATE {GUARD}, `k``` = VALUES(`k```)",
            [("wrote", 4, True), ("wrote", 2, True)],
        ),
        (
            WriteMethod.UPDATE,
            f" ON DUPLICATE KEY UPDATE {GUARD}, `k``` = VALUES(`k```)",
            [("found", 2, False), ("found", 1, False)],
        ),
    ],
)
def test_rows_are_written(deployment: WriteMethod, tail: str, counts: list[tuple[str, int, bool]]) -> None:
    statements = list(writer("id").write(ROWS, deployment))
    assert statements[0].text.decode() == f"INSERT INTO `s`.`t` (`id`, `k```) VALUES (1,'a'),(2,NULL){tail}"
    assert [(statement.does, statement.rows, statement.is_at_most) for statement in statements] == counts
    if deployment is WriteMethod.UPDATE:
        assert statements[1].text == b"UPDATE `s`.`t` SET `id` = 3, `k``` = 'c' WHERE `id` = 3"


def test_a_table_of_nothing_but_its_key() -> None:
    [statement] = writer("id", "k`", rows=9).write(ROWS, WriteMethod.UPSERT)
    condition = "`id` <=> VALUES(`id`) AND CAST(`k``` AS BINARY) <=> CAST(VALUES(`k```) AS BINARY)"
    assert statement.text.decode().endswith(
        f"ON DUPLICATE KEY UPDATE `id` = IF(9223372036854775807 + (NOT ({condition})), VALUES(`id`), NULL)"
    )


@pytest.mark.parametrize(
    "key, expected",
    [
        (("id",), "DELETE FROM `s`.`t` WHERE `id` IN (1,2,3)"),
        (("id", "k`"), "DELETE FROM `s`.`t` WHERE (`id` = 1 AND `k``` = 'a') OR (`id` = 2 AND `k``` = NULL)"),
    ],
)
def test_rows_are_deleted(key: tuple[str, ...], expected: str) -> None:
    statement = next(iter(writer(*key, rows=3).delete(ROWS)))
    assert statement.text.decode().startswith(expected)
    assert (statement.does, statement.rows) == ("deleted", 3)


def test_rows_that_may_be_gone_are_deleted_by_their_bytes() -> None:
    [statement] = writer("id", "k`", rows=3).delete(ROWS.slice(0, 1), is_again=True)
    assert statement.text.decode() == (
        "DELETE FROM `s`.`t` WHERE (`id` = 1 AND `k``` = 'a' "
        "AND CAST(CONVERT(`k``` USING utf8mb4) AS BINARY) <=> CAST('a' AS BINARY))"
    )
    assert (statement.rows, statement.is_at_most) == (1, True)


@pytest.mark.parametrize("source_key, further", [(("id", "n"), ("n",)), (("id", "n", "d"), ("n", "d")), (("id",), ())])
def test_a_row_that_the_source_tells_from_another_is_not_written_over(
    source_key: tuple[str, ...], further: tuple[str, ...]
) -> None:
    """Position where an INSERT is repeated, and where a row is deleted for that.

    An update is one of the row of the key.
    """
    columns = tuple(OutputColumn(name, kind) for name, kind in (("id", "int"), ("n", "int"), ("d", "double")))
    own_writer = Writer("s", "t", columns, ("id",), 9, 1 << 20, source_key)
    assert own_writer.has_source_key == (not further)
    rows = pa.table({"id": [1], "n": [2], "d": [0.5]})
    [insert], [update] = (
        list(own_writer.write(rows, method)) for method in (WriteMethod.REPEATED_INSERT, WriteMethod.UPSERT)
    )
    compared = ["`id` <=> VALUES(`id`)", *(f"`{name}` <=> VALUES(`{name}`)" for name in further)]
    assert f"(NOT ({' AND '.join(compared)}))" in insert.text.decode()
    assert "(NOT (`id` <=> VALUES(`id`)))" in update.text.decode()
    assert (insert.rows, insert.is_at_most) == (2, True)
    [delete] = own_writer.delete(rows, is_again=True)
    values = {"n": "2", "d": "'0.5'"}
    conditions = ["`id` = 1", *(f"`{name}` <=> {values[name]}" for name in further)]
    assert delete.text.decode() == f"DELETE FROM `s`.`t` WHERE ({' AND '.join(conditions)})"


def test_copies_are_deleted() -> None:
    statements = list(writer().delete_copies(ROWS, [1, 5, 2]))
    assert [statement.rows for statement in statements] == [1, 5, 2]
    assert statements[1].text == (
        b"DELETE FROM `s`.`t` WHERE `id` <=> 2 AND CAST(CONVERT(`k``` USING utf8mb4) AS BINARY) <=> "
        b"CAST(NULL AS BINARY) LIMIT 5"
    )


def test_equal_rows_of_a_table_without_a_key_are_one_statement() -> None:
    own_writer = writer()
    texts = own_writer.key_texts(pa.table({"id": [1, 2, 1], "k`": ["a", "b", "a"]}))
    statements = list(own_writer.delete_texts(texts))
    assert [statement.text.decode().rpartition(" ")[2] for statement in statements] == ["2", "1"]
    assert [statement.rows for statement in statements] == [2, 1]


def test_documents_and_bytes_are_found_as_they_are_stored() -> None:
    columns = (OutputColumn("j", "json"), OutputColumn("s", "varchar"))
    raw = pa.array([None, [("s", "FF00")]], pa.map_(pa.string(), pa.string()))
    rows = pa.table({"j": ['{"p": 1.10}', None], "s": ["a", None], "_raw": raw})
    texts = Writer("s", "t", columns, (), 9, 1 << 20).key_texts(rows).to_pylist()
    document = "CAST(CAST(`j` AS CHAR) AS BINARY) <=> CAST(CAST(CAST({} AS JSON) AS CHAR) AS BINARY)"
    assert texts == [
        document.format("""'{"p": 1.10}'""")
        + " AND CAST(CONVERT(`s` USING utf8mb4) AS BINARY) <=> CAST('a' AS BINARY)",
        document.format("NULL") + " AND CAST(`s` AS BINARY) <=> x'FF00'",
    ]


@pytest.mark.parametrize("key, condition", [(("id",), "`id` = 8"), (("id", "k`"), "`id` = 8 AND `k``` = 'z'")])
def test_a_row_gets_another_key(key: tuple[str, ...], condition: str) -> None:
    own_writer = writer(*key)
    old = own_writer.key_texts(pa.table({"id": [8], "k`": ["z"]}))
    [statement] = own_writer.update(ROWS.slice(0, 1), old)
    assert statement.text.decode() == f"UPDATE `s`.`t` SET `id` = 1, `k``` = 'a' WHERE {condition}"


def test_a_statement_fits_into_a_packet() -> None:
    rows = pa.table({"id": list(range(100)), "k`": ["x" * 1000] * 100})
    statements = list(writer("id", rows=1000, packet=10_000).write(rows, WriteMethod.INSERT))
    assert max(len(statement.text) for statement in statements) <= 10_000
    assert len(statements) > 10


def test_what_a_target_has_to_answer() -> None:
    statement = RowStatement(b"", "s.t", "deleted", 3)
    statement.require("delivery x", 3, b"")
    with pytest.raises(
        DeliveryError, match=r"^delivery x: s\.t: the target deleted 1,234 rows where the window has 3, "
    ):
        statement.require("delivery x", 1_234, b"")
    at_most = RowStatement(b"", "s.t", "deleted", 3, is_at_most=True)
    for count in (0, 3):
        at_most.require("", count, b"")
    with pytest.raises(DeliveryError, match="deleted 4 rows"):
        at_most.require("", 4, b"")


def test_found_rows_are_counted_beside_the_number() -> None:
    upsert = RowStatement(b"", "s.t", "found", 3, counts_found=True)
    upsert.require("", 5, b"&Records: 3  Duplicates: 3  Warnings: 0")
    with pytest.raises(DeliveryError, match="found 2 rows"):
        upsert.require("", 3, b"&Records: 3  Duplicates: 2  Warnings: 0")
    with pytest.raises(DeliveryError, match="a proxy before the target"):
        upsert.require("", 6, b"")


def test_only_the_guard_is_a_collision() -> None:
    statement = RowStatement(b"", "s.t", "wrote", 3)
    text = "BIGINT value is out of range in '(9223372036854775807 + (not((`s`.`t`.`id` <=> values(`s`.`t`.`id`)))))'"
    assert str(statement.collision("x", 1690, text)).startswith("x: s.t: a row of another key is in the way: ")
    assert statement.collision("x", 1690, "BIGINT value is out of range in '(`s`.`t`.`a` + 1)'") is None
    assert statement.collision("x", 1062, text) is None


DOCUMENTS = [
    *(
        '{"p": 1.10}',
        '{"p": 1.1}',
        '{"p": 1}',
        '{"p": 1.0}',
        '{"p": -0.0}',
        '{"p": 0}',
        '{"n": 0.0000001}',
        '{"n": 1e300}',
    ),
    *('{"n": 123456789012345678901234567890.5}', '{"n": 0.1234567890123456789012345678901}', "18446744073709551615"),
    *('"a"', '"A"', '{"a": "x"}', '{"A": "x"}', '{"b": 1, "aa": 2}', "[1, [2, 3.50], null]", "null", '"it\'s"', "[]"),
    *('"2024-02-29 12:00:00.000000"', '"base64:type15:YQ=="', '{"ä": "漢😀"}', '"\\\\n"', None),
]
"""Documents as the lake has them."""


@pytest.mark.mysql
@pytest.mark.parametrize("charset", ["tis620", "sjis", "utf8mb4"])
def test_copies_are_found_at_each_server(sessions: dict[str, Connection], charset: str) -> None:
    """Each row is found by its own statement, as often as it is there, and no other row is."""
    texts = [
        "a",
        "A",
        "a  b",
        "",
        None,
        *([("s", "FF" if charset == "tis620" else "8540")] if charset != "utf8mb4" else []),
    ]
    rows = [(document, text) for document in DOCUMENTS for text in texts]
    copies = random.Random(1).choices(range(1, 4), k=len(rows))
    raw = [[text] if isinstance(text, tuple) else None for _, text in rows]
    table = pa.table(
        {
            "j": [document for document, _ in rows],
            "s": [None if isinstance(text, tuple) else text for _, text in rows],
            "_raw": pa.array(raw, pa.map_(pa.string(), pa.string())),
        }
    )
    for server, session in sessions.items():
        kind = "longtext" if server.startswith("mariadb") else "json"
        session.execute("DROP TABLE IF EXISTS pairs.t")
        session.execute(f"CREATE TABLE pairs.t (j JSON, s VARCHAR(9) CHARACTER SET {charset})")
        copies_writer = Writer("pairs", "t", (OutputColumn("j", kind), OutputColumn("s", "varchar")), (), 100, 1 << 20)
        repeated = table.take([offset for offset, count in enumerate(copies) for _ in range(count)])
        for statement in copies_writer.write(repeated, WriteMethod.INSERT):
            execute(session, statement)
        for statement in copies_writer.delete_copies(table, copies):
            execute(session, statement)
        assert session.rows("SELECT COUNT(*) count FROM pairs.t") == [{"count": 0}]
        with pytest.raises(DeliveryError, match="deleted 0 rows where the window has 1"):
            execute(session, next(copies_writer.delete_copies(table, [1] * len(rows))))
