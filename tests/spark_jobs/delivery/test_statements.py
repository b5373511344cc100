import pyarrow as pa
import pytest

from spark_jobs.delivery.encode import OutputColumn
from spark_jobs.delivery.statements import Way, Writer

ROWS = pa.table({"id": [1, 2, 3], "k`": ["a", None, "c"]})


def writer(*key: str, rows: int = 2, packet: int = 1 << 20) -> Writer:
    columns = (OutputColumn("id", "int"), OutputColumn("k`", "varchar"))
    return Writer("s", "t", columns, key, rows, packet)


@pytest.mark.parametrize(
    "way, first",
    [
        (Way.INSERT, "INSERT INTO `s`.`t` (`id`, `k```) VALUES (1,'a'),(2,NULL)"),
        (Way.REPLACE, "REPLACE INTO `s`.`t` (`id`, `k```) VALUES (1,'a'),(2,NULL)"),
        (
            Way.UPSERT,
            "INSERT INTO `s`.`t` (`id`, `k```) VALUES (1,'a'),(2,NULL) ON DUPLICATE KEY UPDATE `k``` = VALUES(`k```)",
        ),
    ],
)
def test_rows_are_written(way: Way, first: str) -> None:
    statements = [statement.decode() for statement in writer("id").write(ROWS, way)]
    assert statements[0] == first
    assert len(statements) == 2


def test_a_table_of_nothing_but_its_key() -> None:
    [statement] = writer("id", "k`", rows=9).write(ROWS, Way.UPSERT)
    assert statement.endswith(b"ON DUPLICATE KEY UPDATE `id` = VALUES(`id`)")


@pytest.mark.parametrize(
    "key, expected",
    [
        (("id",), "DELETE FROM `s`.`t` WHERE `id` IN (1,2,3)"),
        (("id", "k`"), "DELETE FROM `s`.`t` WHERE (`id` = 1 AND `k``` = 'a') OR (`id` = 2 AND `k``` = NULL)"),
    ],
)
def test_rows_are_deleted(key: tuple[str, ...], expected: str) -> None:
    statement = next(iter(writer(*key, rows=3).delete(ROWS)))
    assert statement.decode().startswith(expected)


def test_copies_are_deleted() -> None:
    statements = list(writer().delete_copies(ROWS, [1, 5, 2]))
    assert statements[1] == (
        b"DELETE FROM `s`.`t` WHERE `id` <=> 2 AND CAST(CONVERT(`k``` USING utf8mb4) AS BINARY) <=> "
        b"CAST(NULL AS BINARY) LIMIT 5"
    )


def test_equal_rows_of_a_table_without_a_key_are_one_statement() -> None:
    own_writer = writer()
    texts = own_writer.key_texts(pa.table({"id": [1, 2, 1], "k`": ["a", "b", "a"]}))
    statements = [statement.decode().rpartition(" ")[2] for statement in own_writer.delete_texts(texts)]
    assert statements == ["2", "1"]


@pytest.mark.parametrize("key, condition", [(("id",), "`id` = 8"), (("id", "k`"), "`id` = 8 AND `k``` = 'z'")])
def test_a_row_gets_another_key(key: tuple[str, ...], condition: str) -> None:
    own_writer = writer(*key)
    old = own_writer.key_texts(pa.table({"id": [8], "k`": ["z"]}))
    [statement] = own_writer.update(ROWS.slice(0, 1), old)
    assert statement.decode() == f"UPDATE `s`.`t` SET `id` = 1, `k``` = 'a' WHERE {condition}"


def test_a_statement_fits_into_a_packet() -> None:
    rows = pa.table({"id": list(range(100)), "k`": ["x" * 1000] * 100})
    statements = list(writer("id", rows=1000, packet=10_000).write(rows, Way.INSERT))
    assert max(map(len, statements)) <= 10_000
    assert len(statements) > 10
