"""Columns of every type: what to declare, what to store, and how to ask a server for what it then holds.

A server's answer is brought into the form of ``stratalog changes``: ``shown`` is an SQL expression
over the column ``{c}`` and ``read`` turns its text into the JSON value.

Put here: a line a type. Not here: tables and statements (workload.py).
"""

import base64
import json
from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import partial
from ipaddress import ip_address
from random import Random

import numpy as np

from spark_jobs.binlog.types.charset_tables import CODECS, COLLATIONS, SINGLE_BYTE
from spark_jobs.binlog.types.charsets import ALIKE, UTF8
from tests.differential.columns import (
    Column,
    Dialect,
    Json,
    Kind,
    Query,
    bytes_of,
    hexed,
    mostly,
    one_of,
    quoted,
    unknown_text,
)
from tests.differential.scalars import (
    _between,
    bit,
    date,
    datetime,
    decimal,
    double,
    float_,
    integer,
    time,
    timestamp,
    year,
)

# Text and bytes

_READ = sorted(UTF8 | SINGLE_BYTE.keys() | CODECS.keys())


def supported(dialect: Dialect) -> list[str]:
    """Names of the character sets that the server has and the decoder reads."""
    return [name for name in _READ if name in dialect.characters]


def words(characters: str, longest: int, random: Random) -> str:
    length = random.choice([0, 1, longest, min(longest, 8), random.randint(0, longest)])
    if random.random() < 0.3:
        return "".join(random.choices(" '\"\\,aZ09%_", k=length))
    return "".join(random.choices(characters, k=length))


def text(name: str, longest: Sequence[int], random: Random, dialect: Dialect) -> Column:
    charset = random.choice([*supported(dialect), "utf8mb4", "latin1"])
    longest_here = random.choice(longest)
    declared = f"{name.format(longest_here)} CHARACTER SET {charset}"

    def value(random: Random) -> str:
        return quoted(words(dialect.characters[charset], longest_here, random))

    return Column(declared, value, "{c}", str, None, (("charsets", ("HEX({c})", unknown_text)),))


def binary(name: str, longest: Sequence[int], random: Random, _: Dialect) -> Column:
    longest_here = random.choice(longest)

    def value(random: Random) -> str:
        length = random.choice([0, 1, longest_here, random.randint(0, longest_here)])
        tail = random.choice([b"", b"\0", b" "])
        return hexed((random.randbytes(length) + tail)[:longest_here])

    reader = unpadded if name.startswith("BINARY") else unknown_text
    return Column(name.format(longest_here), value, "HEX({c})", bytes_of, None, (("charsets", ("HEX({c})", reader)),))


def unpadded(text: str) -> Json:
    """A BINARY of which it is not known that it is one: the log has it without the zeros at its end."""
    return unknown_text(bytes.fromhex(text).rstrip(b"\0").hex())


def labels(random: Random, dialect: Dialect, limits: Sequence[int], without: str) -> tuple[str, list[str]]:
    charset = random.choice(["utf8mb4", *supported(dialect)])
    # information_schema tells labels in utf8mb3, so with question marks for characters beyond the BMP.
    characters = "".join(character for character in dialect.characters[charset] if character <= "\uffff")
    never = dict.fromkeys(map(ord, without))
    names = [words(characters, 9, random).translate(never) for _ in range(random.choice(limits))]
    return charset, [f"{at}{name}x" for at, name in enumerate(names)]


def declared_labels(name: str, charset: str, names: list[str]) -> str:
    members = ",".join("'" + name.replace("\\", "\\\\").replace("'", "''") + "'" for name in names)
    return f"{name}({members}) CHARACTER SET {charset}"


def needs_of(names: list[str]) -> str:
    return "labels" if ALIKE.issuperset(map(ord, "".join(names))) else "labels of one character set"


CONTROL = "".join(map(chr, range(32)))


def enum(limits: Sequence[int], random: Random, dialect: Dialect) -> Column:
    charset, names = labels(random, dialect, limits, CONTROL)
    value = partial(_between, 1, len(names))
    return Column(
        declared_labels("ENUM", charset, names),
        lambda random: str(random.choice([1, len(names), int(random.randint(1, len(names)))])),
        "{c}",
        str,
        one_of("'no such label'", value(random)),
        ((needs_of(names), ("{c} + 0", int)),),
    )


def set_(limits: Sequence[int], random: Random, dialect: Dialect) -> Column:
    charset, names = labels(random, dialect, limits, CONTROL + ",")
    full = 2 ** len(names) - 1
    edges = ("0", "1", str(full), str(full // 2 + 1))
    value = mostly(lambda random: str(random.randint(0, full)), *edges)
    declared = declared_labels("SET", charset, names)
    odd = one_of("'no such label'", "'0x,nonsense'")
    return Column(declared, value, "{c}", str, odd, ((needs_of(names), ("CAST({c} AS UNSIGNED)", int)),))


# JSON and what has no plain text


def json_column(random: Random, dialect: Dialect) -> Column:
    def document(random: Random, depth: int = 0) -> Json:
        kind = random.randrange(9 if depth < 3 else 6)
        plain = [
            None,
            True,
            False,
            random.randint(-(2**63), 2**64 - 1),
            random.uniform(-1e9, 1e9),
            words('aé☃😀\n"\\', 20, random),
        ]
        if kind < 6:
            return plain[kind]
        if kind < 8:
            return {words("kéy", 9, random): document(random, depth + 1) for _ in range(random.randint(0, 5))}
        return [document(random, depth + 1) for _ in range(random.randint(0, 5))]

    def value(random: Random) -> str:
        return f"CONVERT({quoted(json.dumps(document(random), ensure_ascii=False))} USING utf8mb4)"

    def edit(random: Random) -> str:
        path = random.choice(["$.k", "$.é", '$."new one"', "$[0]", "$[1]", "$.k[2]"])
        number = random.choice([0, 1, 300, 70000, 2**40, 1.5])
        changed = f"'{path}', {random.choice([str(number), quoted('été'), 'NULL', 'JSON_ARRAY(1, 2)'])}"
        return random.choice([
            f"JSON_SET({{c}}, {changed})",
            f"JSON_REPLACE({{c}}, {changed}, '$[0]', 'x')",
            f"JSON_REMOVE({{c}}, '{path}')",
            f"JSON_SET(JSON_REMOVE({{c}}, '$[0]'), {changed})",
        ])  # fmt: skip

    column = Column("JSON", value, "CAST({c} AS CHAR)", str, edit=edit)
    return column if dialect.since((9,), None) else replace(column, reader=same_json, comparable=same_json)


def same_json(text: str) -> str:
    """A document's text, alike for servers that write numbers otherwise than MySQL 9."""
    return json.dumps(json.loads(text), ensure_ascii=False)


def geometry(random: Random, _: Dialect) -> Column:
    def value(random: Random) -> str:
        x, y = random.randint(-90, 90), random.uniform(-90, 90)
        shapes = (f"POINT({x} {y})", f"LINESTRING(0 0,{x} {y})", f"MULTIPOINT({x} {y},1 2)")
        collections = ("POLYGON((0 0,0 5,5 5,0 0))", f"GEOMETRYCOLLECTION(POINT({y} {x}),LINESTRING(1 1,2 2))")
        return f"ST_GeomFromText('{random.choice(shapes + collections)}', {random.choice([0, 4326])})"

    def read_hex(text: str) -> Json:
        wire = bytes.fromhex(text)
        return {"srid": int.from_bytes(wire[:4], "little"), "wkb": base64.b64encode(wire[4:]).decode()}

    return Column("GEOMETRY", value, "HEX({c})", read_hex)


def vector(function: str, random: Random, _: Dialect) -> Column:
    size = random.choice([1, 3, 64])

    def value(random: Random) -> str:
        return f"{function}('{[round(random.uniform(-9, 9), 4) for _ in range(size)]}')"

    def read_floats(text: str) -> Json:
        return [float(str(number)) for number in np.frombuffer(bytes.fromhex(text), "<f4")]

    without = () if function == "STRING_TO_VECTOR" else undeclared("HEX({c})", bytes.fromhex)
    return Column(f"VECTOR({size})", value, "HEX({c})", read_floats, None, without)


def undeclared(
    expression: str, stored: Callable[[str], bytes], *, padded: bool = False
) -> tuple[tuple[str, Query], ...]:
    """A type of MariaDB's for a log that tells it as BINARY or VARBINARY (padded: BINARY), or only as text or bytes."""
    as_text = unpadded if padded else unknown_text
    return (
        ("charsets", (expression, lambda text: as_text(stored(text).hex()))),
        ("declared types", (expression, lambda text: bytes_of(stored(text).hex()))),
    )


def inet(size: int, _: Random, __: Dialect) -> Column:
    def value(random: Random) -> str:
        if size == 4:
            return "'" + ".".join(str(random.randrange(256)) for _ in range(4)) + "'"
        return f"INET6_NTOA({hexed(random.choice([bytes(15), random.randbytes(15)]) + random.randbytes(1))})"

    without = undeclared("{c}", lambda text: ip_address(text).packed, padded=True)
    return Column(f"INET{size}", value, "{c}", str, None, without)


def uuid(_: Random, __: Dialect) -> Column:
    def value(random: Random) -> str:
        return f"LOWER(HEX({hexed(random.randbytes(random.choice([15, 16])).ljust(16, bytes(1)))}))"

    return Column(
        "UUID",
        value,
        "{c}",
        str,
        None,
        undeclared("{c}", lambda text: bytes.fromhex(text.replace("-", "")), padded=True),
    )


def compressed(name: str, random: Random, dialect: Dialect) -> Column:
    """Short values are stored as they are, long ones deflated; which way is up to session variables."""
    is_text = "BLOB" not in name and "BINARY" not in name
    characters = dialect.characters["utf8mb4"]

    def value(random: Random) -> str:
        repeated = words(characters, 30, random) * random.choice([1, 3, 9])
        return quoted(repeated) if is_text else hexed(repeated.encode()[:250])

    declared = f"{name} COMPRESSED{' CHARACTER SET utf8mb4' if is_text else ''}"
    by_hex = ("HEX({c})", unknown_text)
    if is_text:
        return Column(declared, value, "{c}", str, None, (("charsets", by_hex),))
    return Column(declared, value, "HEX({c})", bytes_of, None, (("charsets", by_hex),))


def _mariadb(*first: int) -> Callable[[Dialect], bool]:
    return lambda dialect: dialect.since(None, first)


KINDS: dict[str, Kind] = {
    "tinyint": Kind(partial(integer, "TINYINT", 8)),
    "smallint": Kind(partial(integer, "SMALLINT", 16)),
    "mediumint": Kind(partial(integer, "MEDIUMINT", 24)),
    "int": Kind(partial(integer, "INT", 32)),
    "bigint": Kind(partial(integer, "BIGINT", 64)),
    "decimal": Kind(decimal),
    "float": Kind(float_),
    "double": Kind(double),
    "bit": Kind(bit),
    "year": Kind(year),
    "date": Kind(date),
    "datetime": Kind(datetime),
    "timestamp": Kind(timestamp),
    "time": Kind(time),
    "char": Kind(partial(text, "CHAR({})", [1, 10, 63, 64, 255])),
    "varchar": Kind(partial(text, "VARCHAR({})", [1, 20, 63, 64, 255, 256, 400])),
    "tinytext": Kind(partial(text, "TINYTEXT", [60])),
    "text": Kind(partial(text, "TEXT", [300, 3000])),
    "mediumtext": Kind(partial(text, "MEDIUMTEXT", [300, 17000])),
    "longtext": Kind(partial(text, "LONGTEXT", [300])),
    "binary": Kind(partial(binary, "BINARY({})", [1, 16, 255])),
    "varbinary": Kind(partial(binary, "VARBINARY({})", [1, 20, 255, 256, 600])),
    "tinyblob": Kind(partial(binary, "TINYBLOB", [255])),
    "blob": Kind(partial(binary, "BLOB", [3000])),
    "mediumblob": Kind(partial(binary, "MEDIUMBLOB", [300, 70000])),
    "longblob": Kind(partial(binary, "LONGBLOB", [300])),
    "enum": Kind(partial(enum, [1, 2, 5, 255, 256, 300])),
    "set": Kind(partial(set_, [1, 3, 8, 9, 17, 25, 33, 63, 64])),
    "json": Kind(json_column, lambda dialect: dialect.since((5, 7, 8), None)),
    "geometry": Kind(geometry),
    "vector": Kind(partial(vector, "STRING_TO_VECTOR"), lambda dialect: dialect.since((9,), None)),
    "mariadb vector": Kind(partial(vector, "VEC_FromText"), _mariadb(11, 7)),
    "uuid": Kind(uuid, _mariadb(10, 7)),
    "inet4": Kind(partial(inet, 4), _mariadb(10, 10)),
    "inet6": Kind(partial(inet, 6), _mariadb(10, 5)),
    "compressed varchar": Kind(partial(compressed, "VARCHAR(1000)"), _mariadb(10, 3)),
    "compressed text": Kind(partial(compressed, "TEXT"), _mariadb(10, 3)),
    "compressed binary": Kind(partial(compressed, "VARBINARY(250)"), _mariadb(10, 3)),
    "compressed blob": Kind(partial(compressed, "TINYBLOB"), _mariadb(10, 3)),
}
"""Every type of MySQL and MariaDB."""


def candidates(charset: str) -> str:
    """Characters that a character set may have; a server is asked which of them it has."""
    plain = "".join(map(chr, range(127)))
    if charset in SINGLE_BYTE:
        return plain + "".join(set(SINGLE_BYTE[charset]) - set(plain) - {"\ufffd"})
    codec = CODECS.get(charset, "utf-8")
    wide = (chr(code) for code in (*range(0x80, 0xD800), *range(0xE000, 0xFFFE), *range(0x10000, 0x110000, 401)))
    return plain + "".join(character for character in wide if _encodes(character, codec))


def _encodes(character: str, codec: str) -> bool:
    try:
        return bool(character.encode(codec))
    except UnicodeEncodeError:
        return False


CHARSETS = sorted(COLLATIONS.keys() - {"binary"})
