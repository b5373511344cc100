"""Values that a server takes for equal have equal weights, and others have not."""

from dataclasses import replace
from datetime import date
from decimal import Decimal
from random import Random

import pytest

from spark_jobs.binlog import Column
from spark_jobs.binlog.types.charsets import CHARSET_ALONE
from spark_jobs.cascades.collation_tables import CollationTable
from spark_jobs.cascades.weights import KNOWN, characters_of, weigher_of
from spark_jobs.errors import Unsupported
from tests.fix_mysql import database_of
from tests.fix_servers import Servers

TEXT = Column("x", 15, 0, True, charset=255)
NAMES = {
    46: "utf8mb4_bin",
    255: "utf8mb4_0900_ai_ci",
    45: "utf8mb4_general_ci",
    224: "utf8mb4_unicode_ci",
    8: "latin1_swedish_ci",
    48: "latin1_general_ci",
    47: "latin1_bin",
    1069: "utf8mb4_general_nopad_ci",
    1070: "utf8mb4_nopad_bin",
    2304: "utf8mb4_uca1400_ai_ci",
    2308: "utf8mb4_uca1400_nopad_ai_ci",
}
ON = {"mysql-8.0": (46, 255, 45, 224, 8, 48, 47), "mariadb-11.4": (46, 45, 224, 8, 48, 1069, 1070, 2304, 2308)}


@pytest.mark.parametrize("value", [1, -0.0, b"a ", date(2026, 1, 1), Decimal("1.10"), True])
def test_what_is_no_text_is_compared_as_it_is(value: object) -> None:
    assert weigher_of(Column("n", 3, 0, True))(value) == value
    assert weigher_of(replace(TEXT, charset=63))(value) == value


@pytest.mark.parametrize(
    "collation, equal, unequal",
    [
        (255, ["ab", "AB", "áB", "a\u00adb"], ["ab ", "ac", "a"]),
        (255, ["ß", "ss", "SS"], ["s"]),
        (255, ["か", "カ"], ["き"]),
        (45, ["ab", "AB ", "áB  "], ["a", "\u00adab"]),
        (45, ["ß", "s", "S"], ["ss"]),
        (45, ["😀", "🎉"], ["字"]),
        (8, ["ä", "Æ ", "Ä"], ["a", "á"]),
        (8, ["ü", "Y"], ["u"]),
        (46, ["a", "a "], ["A", "a\t"]),
        (309, ["a"], ["A", "a "]),
        (1069, ["a", "Á"], ["a "]),
        (2304, ["a", "Á "], ["b"]),
    ],
)
def test_text_is_compared_by_its_collation(collation: int, equal: list[str], unequal: list[str]) -> None:
    weight = weigher_of(replace(TEXT, charset=collation))
    assert len({weight(text) for text in equal}) == 1
    assert weight(equal[0]) not in {weight(text) for text in unequal}


@pytest.mark.parametrize(
    "column, reason",
    [
        (replace(TEXT, charset=None), "its collation is not known"),
        (replace(TEXT, charset=45 | CHARSET_ALONE), "its collation is not known"),
        (replace(TEXT, charset=265), "collation 265 is not one whose comparison is known"),
        (replace(TEXT, type_code=254, labels=("a", "b")), "compared by number"),
    ],
)
def test_columns_whose_comparison_is_not_known_are_refused(column: Column, reason: str) -> None:
    with pytest.raises(Unsupported, match=reason):
        weigher_of(column)


@pytest.mark.parametrize("text", ["e\u0301", "ก", "\u1100\u1161"])
def test_characters_that_a_table_does_not_know_are_refused(text: str) -> None:
    with pytest.raises(Unsupported, match=r"how U\+[0-9A-F]{4} is compared is not known"):
        weigher_of(TEXT)(text)


def cases() -> list[tuple[str, int]]:
    return [(server, collation) for server, collations in ON.items() for collation in collations]


@pytest.mark.mysql
@pytest.mark.thorough
@pytest.mark.parametrize("server, collation", cases())
def test_the_server_takes_the_same_characters_and_texts_for_equal(
    server: str, collation: int, servers: Servers
) -> None:
    table, name = KNOWN[collation].table if collation in KNOWN else None, NAMES[collation]
    weight = weigher_of(replace(TEXT, charset=collation))
    with database_of(servers.get(server)) as database:
        database.execute("SET NAMES utf8mb4")
        charset = name.partition("_")[0]
        database.execute(f"CREATE TABLE t (n INT PRIMARY KEY, a VARCHAR(9) CHARACTER SET {charset} COLLATE {name})")
        texts = sample(table, Random(name), is_latin=charset == "latin1")
        with database.connection.cursor() as cursor:
            for first in range(0, len(texts), 10_000):
                part = texts[first : first + 10_000]
                cursor.executemany("INSERT INTO t VALUES (%s, %s)", list(enumerate(part, first)))
        database.execute("SET SESSION group_concat_max_len = 10000000")
        groups = database.execute("SELECT GROUP_CONCAT(n) FROM t GROUP BY a")
    # Each group of equal texts is one of equal weights, and there are as many of both.
    by_weight: dict[object, set[int]] = {}
    for number, text in enumerate(texts):
        by_weight.setdefault(weight(text), set()).add(number)
    of_server = {frozenset(map(int, numbers.split(","))) for (numbers,) in groups}
    assert {frozenset(numbers) for numbers in by_weight.values()} == of_server


def sample(table: CollationTable | None, chance: Random, *, is_latin: bool) -> list[str]:
    """Characters that a table knows, each by itself, and random texts of those that are likely to be equal."""
    letters = characters_of(table) if table else [chr(code) for code in range(32, 127)]
    letters = [letter for letter in letters if not is_latin or letter.encode("cp1252", "ignore")]
    short = letters if len(letters) < 6_000 else chance.sample(letters, 6_000)
    small = [letter for letter in letters if ord(letter) < 0x530] or letters
    mixed = ["".join(chance.choices([*small, " ", "a", "A"], k=chance.randrange(1, 4))) for _ in range(6_000)]
    return [*short, *mixed]
