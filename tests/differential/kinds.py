"""Columns of every type: what to declare, what to store, and how to ask a server for what it then holds.

A server's answer is brought into the form of ``stratalog changes``: ``shown`` is an SQL expression
over the column ``{c}`` and ``read`` turns its text into the JSON value.

Put here: a line a type. Not here: tables and statements (workload.py).
"""

import base64
import json
import struct
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import partial
from ipaddress import ip_address
from random import Random
from typing import Any, TypeAlias

import numpy as np

from spark_jobs.binlog.types.charset_tables import CODECS, COLLATIONS, SINGLE_BYTE
from spark_jobs.binlog.types.charsets import ALIKE, UTF8

Json: TypeAlias = Any
Make: TypeAlias = Callable[[Random, "Dialect"], "Column"]
Literal: TypeAlias = Callable[[Random], str]
Query: TypeAlias = tuple[str, Callable[[str], Json]]
"""An SQL expression over ``{c}``, and what reads its text."""
EVERYTHING = frozenset({"names", "signs", "charsets", "labels", "labels of one character set"})
"""What a log may tell of columns besides their types. "declared types" are told by servers only: UUID is a BINARY."""


@dataclass(frozen=True, slots=True)
class Dialect:
    """What a server is. characters: of each character set, those that it converts there and back."""

    vendor: str
    version: tuple[int, ...]
    characters: dict[str, str]

    def since(self, mysql: tuple[int, ...] | None, mariadb: tuple[int, ...] | None) -> bool:
        """Whether it has what came with these versions; None where a vendor never had it."""
        first = {"mysql": mysql, "mariadb": mariadb}[self.vendor]
        return first is not None and self.version >= first


@dataclass(frozen=True, slots=True)
class Column:
    """A column's declaration and values.

    odd: values that are stored, changed or not, only where sql_mode does not forbid it. without: what a log must tell
    of the column for that value, each with ``expression`` and ``reader`` again for a log that does not tell it; the
    first such counts. comparable: applied to the decoder's value before comparing. edit: an expression over ``{c}``
    that changes a part of a value.
    """

    declared: str
    value: Literal
    expression: str
    reader: Callable[[str], Json]
    odd: Literal | None = None
    without: tuple[tuple[str, Query], ...] = ()
    comparable: Callable[[Json], Json] | None = None
    edit: Literal | None = None

    @property
    def is_undeclared(self) -> bool:
        """Whether no log tells its type."""
        return any(need == "declared types" for need, _ in self.without)

    def query_for(self, knows: frozenset[str]) -> Query:
        """Expression and reader, for a log that tells some of EVERYTHING."""
        return next((query for need, query in self.without if need not in knows), (self.expression, self.reader))


@dataclass(frozen=True, slots=True)
class Kind:
    """A family of columns. here: on which servers."""

    make: Make
    here: Callable[[Dialect], bool] = lambda _: True


def hexed(data: bytes) -> str:
    return f"x'{data.hex()}'"


def quoted(text: str) -> str:
    """A literal of any text, whatever sql_mode and connection are."""
    return f"_utf8mb4 {hexed(text.encode())}"


def bytes_of(text: str) -> Json:
    return {"base64": base64.b64encode(bytes.fromhex(text)).decode()}


def unknown_text(text: str) -> Json:
    """Text of an unknown character set, of which a server told the hex."""
    try:
        return bytes.fromhex(text).decode()
    except UnicodeDecodeError:
        return bytes_of(text)


def shortest(text: str) -> float:
    """The shortest number that reads back as the FLOAT that a server told as a DOUBLE."""
    return float(str(np.float32(float(text))))


def instant(text: str) -> str:
    return text if text.startswith("0000-00-00") else f"{text.replace(' ', 'T')}Z"


def one_of(*literals: str) -> Literal:
    return lambda random: random.choice(literals)


def mostly(usual: Literal, *edges: str) -> Literal:
    return lambda random: random.choice(edges) if edges and random.random() < 0.4 else usual(random)


# Numbers


def integer(name: str, bits: int, random: Random, _: Dialect) -> Column:
    low, high, sign = (
        (0, 2**bits - 1, " UNSIGNED") if random.random() < 0.5 else (-(2 ** (bits - 1)), 2 ** (bits - 1) - 1, "")
    )
    edges = {low, high, 0, 1, low + 1, high // 2, high // 2 + 1, max(low, -1)}
    usual = partial(_between, low, high)
    odd = one_of(str(low - 1), str(high + 1), "'nonsense'")
    return Column(f"{name}{sign}", mostly(usual, *map(str, edges)), "{c}", int, odd)


def _between(low: int, high: int, random: Random) -> str:
    return str(random.randint(low, high) if random.random() < 0.5 else random.randint(max(low, -200), min(high, 200)))


def decimal(random: Random, _: Dialect) -> Column:
    precision = random.choice([1, 2, 5, 9, 10, 18, 19, 27, 30, 38, 39, 64, 65, random.randint(1, 65)])
    scale = random.choice([0, min(precision, 30), random.randint(0, min(precision, 30))])
    integer_digits = precision - scale

    def digits(random: Random) -> str:
        sign = random.choice(["", "-"])
        left = "".join(random.choices("0123456789", k=random.randint(0, integer_digits))) or "0"
        right = "".join(random.choices("0123456789", k=random.randint(0, scale))) or "0"
        return f"{sign}{left}.{right}"

    largest = f"{'9' * integer_digits or 0}.{'9' * scale or 0}"
    smallest = f"0.{'0' * (scale - 1)}1" if scale else "1"
    edges = (largest, f"-{largest}", smallest, f"-{smallest}", "0")
    return Column(
        f"DECIMAL({precision},{scale})", mostly(digits, *edges), "{c}", str, one_of(f"1{largest}", f"-1{largest}")
    )


def float_(random: Random, _: Dialect) -> Column:
    def any_bits(random: Random) -> str:
        value = struct.unpack("<f", random.randbytes(4))[0]
        return repr(value) if abs(value) < 3.4e38 else "0.1"

    edges = ("0", "-0e0", "0.1", "3.4028234e38", "-3.4028234e38", "1.17549435e-38", "1e-45", "16777217")
    return Column("FLOAT", mostly(any_bits, *edges), "{c} * 1e0", shortest, one_of("1e300", "-1e300"))


def double(random: Random, _: Dialect) -> Column:
    def any_bits(random: Random) -> str:
        value = struct.unpack("<d", random.randbytes(8))[0]
        return repr(value) if abs(value) < 1.7e308 else "0.1"

    edges = ("0", "-0e0", "0.1", "1.7976931348623157e308", "2.2250738585072014e-308", "5e-324", "9007199254740993")
    return Column("DOUBLE", mostly(any_bits, *edges), "{c}", float)


def bit(random: Random, _: Dialect) -> Column:
    size = random.choice([1, 7, 8, 9, 16, 17, 32, 63, 64])
    edges = ("0", str(2**size - 1), str(2 ** (size - 1)))
    return Column(f"BIT({size})", mostly(partial(_between, 0, 2**size - 1), *edges), "{c} + 0", int)


def year(random: Random, _: Dialect) -> Column:
    usual = mostly(lambda random: str(random.randint(1901, 2155)), "1901", "2155", "0")
    return Column("YEAR", usual, "{c}", int, one_of("1900", "2156", "'00'", "'zero'"))


# Times


def fraction(random: Random, digits: int) -> str:
    return f".{random.choice([0, 1, 10**digits - 1, random.randrange(10**digits)]):0{digits}}" if digits else ""


def day(random: Random) -> str:
    year = random.choice([1, 99, 999, 1000, 1582, 1969, 1970, 2000, 2024, 9999, random.randint(1, 9999)])
    return f"{year:04}-{random.randint(1, 12):02}-{random.randint(1, 28):02}"


def odd_day(random: Random) -> str:
    """A zero, partial or impossible date."""
    partial_ = f"{random.randint(0, 9999):04}-{random.randint(0, 12):02}-{random.randint(0, 31):02}"
    return random.choice(["0000-00-00", "2023-02-31", "2024-00-00", "2024-05-00", "0000-00-01", partial_])


def clock(random: Random) -> str:
    edges = ["00:00:00", "23:59:59"]
    return random.choice([*edges, f"{random.randrange(24):02}:{random.randrange(60):02}:{random.randrange(60):02}"])


def date(_: Random, __: Dialect) -> Column:
    return Column("DATE", lambda r: f"'{day(r)}'", "{c}", str, lambda r: f"'{odd_day(r)}'")


def datetime(random: Random, _: Dialect) -> Column:
    n = random.randint(0, 6)

    def text(days: Callable[[Random], str], random: Random) -> str:
        return f"'{days(random)} {clock(random)}{fraction(random, n)}'"

    return Column(f"DATETIME({n})", partial(text, day), "{c}", str, partial(text, odd_day))


def timestamp(random: Random, dialect: Dialect) -> Column:
    n = random.randint(0, 6)
    last = 2**32 - 1 if dialect.since(None, (11, 5)) else 2**31 - 1

    def seconds(random: Random) -> str:
        at = random.choice([1, 2, 86399, 86400, 951782400, 1711843200, 2**31 - 1, last, random.randint(1, last)])
        return f"FROM_UNIXTIME({at}{fraction(random, n) if at < last else ''})"

    return Column(
        f"TIMESTAMP({n})",
        seconds,
        "{c}",
        instant,
        one_of("'0000-00-00 00:00:00'", "'2024-00-01 00:00:00'", "'1969-01-01 00:00:00'"),
    )


def time(random: Random, _: Dialect) -> Column:
    n = random.randint(0, 6)

    def text(random: Random) -> str:
        hours = random.choice([0, 1, 23, 24, 255, 256, 512, 837, random.randrange(838)])
        sign = random.choice(["", "-"])
        return f"'{sign}{hours:02}:{random.randrange(60):02}:{random.randrange(60):02}{fraction(random, n)}'"

    edges = ("'838:59:59'", "'-838:59:59'", "'00:00:00'", f"'-00:00:00{'.' + '0' * (n - 1) + '1' if n else ''}'")
    return Column(f"TIME({n})", mostly(text, *edges), "{c}", str, one_of("'900:00:00'", "'-900:00:00'", "'xyz'"))


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


def json_(random: Random, dialect: Dialect) -> Column:
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
    "json": Kind(json_, lambda dialect: dialect.since((5, 7, 8), None)),
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
