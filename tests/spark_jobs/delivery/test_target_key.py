"""Keys under collations of every server: what a delivery makes of them at another server is equal, or refused."""

import os
import random
from collections import Counter
from collections.abc import Sequence

import pyarrow as pa
import pymysql
import pytest

from spark_jobs.binlog import Column
from spark_jobs.binlog.types.charsets import charset_of, width_of
from spark_jobs.delivery.encode import OutputColumn
from spark_jobs.delivery.lake_table import LakeColumn, LakeTableShape
from spark_jobs.delivery.statements import WriteMethod, Writer
from spark_jobs.delivery.target import Connection
from spark_jobs.delivery.target_key import KeyPart, counts_spaces, cut_note, is_as_fine, key_collation, key_parts
from spark_jobs.delivery.target_table import Dialect, creation
from spark_jobs.delivery.transactions import execute
from spark_jobs.errors import DeliveryError

TEXTS = [
    *(
        "abc",
        "ABC",
        "Abc",
        "abc ",
        "abc  ",
        "äbc",
        "s",
        "ß",
        "ss",
        "SS",
        "ø",
        "o",
        "Ø",
        "i",
        "I",
        "ı",
        "İ",
        "ch",
        "c h",
    ),
    *(
        "か",
        "カ",
        "が",
        "は",
        "ハ",
        "漢",
        "字",
        "ﬁ",
        "fi",
        "a\u0301",
        "á",
        "a\u00ad",
        "a",
        "a\u200b",
        "Ω",
        "ω",
        "ς",
        "σ",
    ),
    *(
        "l·l",
        "ll",
        "ĳ",
        "ij",
        "æ",
        "ae",
        "þ",
        "th",
        "e",
        "é",
        "ë",
        "n",
        "ñ",
        "1",
        "१",
        "😀",
        "😁",
        "𐐀",
        "𐐨",
        "",
        "\t",
        "-",
    ),
]
"""Texts that one collation or another takes for equal."""
VARCHAR = 15
SAMPLE = 8
"""Collations of a server."""


def _source_keys(session: Connection, collation: str, texts: Sequence[str]) -> list[str]:
    """What a source has of the texts as keys under a collation."""
    charset = collation.partition("_")[0]
    session.execute("DROP TABLE IF EXISTS pairs.s")
    session.execute(f"CREATE TABLE pairs.s (k VARCHAR(20) CHARACTER SET {charset} COLLATE {collation} PRIMARY KEY)")
    session.execute(
        "INSERT IGNORE INTO pairs.s VALUES " + ",".join(f"(CONVERT('{text}' USING {charset}))" for text in texts)
    )
    return [row["k"] for row in session.rows("SELECT CONVERT(k USING utf8mb4) k FROM pairs.s")]


def _refusal(session: Connection, keys: Sequence[str], deployment: WriteMethod) -> str | None:
    """Reason why a target refused rows, of which it has none then; None where it took them."""
    rows = pa.table({"k": keys, "v": list(range(len(keys)))})
    writer = Writer("pairs", "t", (OutputColumn("k", "varchar"), OutputColumn("v", "int")), ("k",), 7, 1 << 20)
    session.execute("START TRANSACTION")
    try:
        for statement in writer.write(rows, deployment):
            execute(session, statement)
    except (pymysql.MySQLError, DeliveryError) as error:
        session.execute("ROLLBACK")
        return str(error)
    session.execute("COMMIT")
    return None


@pytest.mark.mysql
@pytest.mark.parametrize("sample", [SAMPLE, pytest.param(None, marks=pytest.mark.long)], ids=["some", "all"])
def test_keys_under_any_collation_are_equal_or_refused(
    sessions: dict[str, Connection], sample: int | None, summary: list[str]
) -> None:
    """Each way of writing, from each server to each: as many rows with the same bytes, or a message and none."""
    seed = int(os.environ.get("STRATALOG_SEED", "1"))
    chance, counts = random.Random(seed), Counter[str]()
    dialects = {name: Dialect.of(session) for name, session in sessions.items()}
    for source, dialect in dialects.items():
        collations = sorted(set(dialect.collations) - {63})
        for id_ in chance.sample(collations, sample) if sample else collations:
            keys = _source_keys(sessions[source], dialect.collations[id_], chance.sample(TEXTS, len(TEXTS)))
            column = Column("k", VARCHAR, 20 * width_of(charset_of(id_)), charset=id_)
            shape = LakeTableShape(
                (LakeColumn("k", "k", "STRING", column), LakeColumn("v", "v", "INT", None)), ("k",), ""
            )
            for target, session in sessions.items():
                if charset_of(id_) == "gb18030" and target.startswith("mariadb"):
                    continue
                has_same = dialects[target].collations.get(id_) == dialect.collations[id_] and source == target
                for method in (WriteMethod.INSERT, WriteMethod.UPSERT):
                    session.execute("DROP TABLE IF EXISTS pairs.t")
                    session.execute(creation("pairs", "t", shape, dialects[target])[1])
                    reason = _refusal(session, keys, method)
                    rows = session.rows("SELECT CONVERT(k USING utf8mb4) k, v FROM pairs.t")
                    stored_rows = {(row["k"], row["v"]) for row in rows}
                    case = f"{dialect.collations[id_]} of {source} at {target}, {method.value}, seed {seed}: {reason}"
                    assert stored_rows == (set() if reason else set(zip(keys, range(len(keys)), strict=True))), case
                    assert not reason or "Duplicate entry" in reason or "a row of another key" in reason, case
                    assert not (reason and has_same), case
                    counts["refused" if reason else "equal"] += 1
                    counts["rows"] += len(keys)
    assert counts["equal"] > 4 * counts["refused"]
    summary.append(
        f"keys under collations: {counts['rows']:,} rows, {counts['equal']} equal, {counts['refused']} refused"
    )


@pytest.mark.parametrize(
    "collation, expected",
    [(255, True), (45, False), (33, False), (46 + 1024, True), (2048, False), (2052, True), (248, False)],
)
def test_spaces_at_the_end(collation: int, expected: bool) -> None:
    assert counts_spaces(collation) == expected


def test_a_collation_as_fine_as_the_source_s() -> None:
    names = {46: "utf8mb4_bin", 45: "utf8mb4_general_ci", 309: "utf8mb4_0900_bin"}
    fine = {(target, source) for target in names.values() for source in names if is_as_fine(target, source, names)}
    assert fine == {
        *(("utf8mb4_0900_bin", source) for source in names),
        *(("utf8mb4_bin", source) for source in (46, 45)),
        ("utf8mb4_general_ci", 45),
    }
    assert not is_as_fine("utf8mb4_bin", None, names)


def test_a_collation_that_the_server_lacks() -> None:
    names = {46: "utf8mb4_bin", 83: "utf8_bin", 309: "utf8mb4_0900_bin", 1070: "utf8mb4_nopad_bin", 47: "latin1_bin"}
    assert key_collation(46, names) == key_collation(46, {46: "utf8mb4_bin"})
    assert key_collation(46, names).note is None
    assert key_collation(278, names).collation == "utf8mb4_0900_bin"
    assert key_collation(278, {1070: names[1070], 46: names[46]}).collation == "utf8mb4_nopad_bin"
    assert key_collation(608, names).collation == "utf8mb4_bin"
    assert key_collation(33, names).collation == "utf8_bin"
    assert key_collation(8, names).collation == "latin1_bin"
    padded = key_collation(278, {46: "utf8mb4_bin"})
    assert padded.collation == "utf8mb4_bin"
    assert padded.note == (
        "the server has no collation 278; it gets utf8mb4_bin, under which all texts differ; "
        "keys that differ by spaces at their end alone stop the table"
    )
    assert key_collation(8, {46: "utf8mb4_bin"}).collation is None
    assert key_collation(None, names).collation == key_collation(99_999, names).collation == "utf8mb4_0900_bin"


@pytest.mark.parametrize(
    "types, prefixes, has_note",
    [
        ({"k": ("varchar(255)", "utf8mb4")}, [None], False),
        ({"k": ("text", "utf8mb4")}, [768], False),
        ({"k": ("text", "utf8mb3")}, [1024], False),
        ({"k": ("blob", None)}, [3072], False),
        ({"k": ("longtext", None), "id": ("bigint unsigned", None)}, [766, None], False),
        ({"a": ("text", "latin1"), "b": ("mediumblob", None)}, [1536, 1536], True),
        ({"a": ("varchar(100)", "utf8mb4"), "b": ("text", "utf8mb4")}, [None, 668], True),
        ({"a": ("varbinary(4000)", None)}, [3072], False),
        ({"a": ("decimal(10,2)", None), "b": ("tinytext", "ascii")}, [None, 3042], True),
    ],
)
def test_a_key_has_as_much_of_long_columns_as_fits(
    types: dict[str, tuple[str, str | None]], prefixes: list[int | None], has_note: bool
) -> None:
    parts = key_parts(types)
    assert parts == tuple(KeyPart(name, prefix) for name, prefix in zip(types, prefixes, strict=True))
    note = cut_note(parts, types)
    assert (note is not None) == has_note
    assert note is None or "rows that differ only after these prefixes stop the table" in note
