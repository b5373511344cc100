"""Random expressions and rows over columns of every type of the table in docs/filters.md.

Put here: the table, its rows, and texts of expressions, as a seed has them. Not here: what their values are
(slow_expressions.py, and servers in differential/test_expressions.py).

A part of the expressions is refused, since parentheses are left out at random, and any column meets any other.
"""

from collections.abc import Callable, Iterator, Sequence
from random import Random

BIN = "utf8mb4_0900_bin"
LABELS = ("new", "open", "paid", "Ä")
_TEXTS = ("a", "ab", "", "Ä", "a ", "A", "b%", "ä𝄞", "x'y", "a\tb", "paid", "\u00df", "ss")
_DAYS = ("2024-02-29", "2024-03-01", "2023-12-31", "1000-01-01", "9999-12-31", "1970-01-01", "0999-12-31")
_CLOCKS = ("00:00:00", "12:00:00", "23:59:59")
_FRACTIONS = ("", ".5", ".000001", ".999999")


def _integers(bits: int, *, unsigned: bool = False) -> Callable[[Random], str]:
    low, high = (0, (1 << bits) - 1) if unsigned else (-(1 << bits - 1), (1 << bits - 1) - 1)
    edges = [number for number in (low, low + 1, high - 1, high, 0, 1, -1, 2, 7, 8, 100) if low <= number <= high]

    def literal(random: Random) -> str:
        return str(random.choice(edges) if random.random() < 0.7 else random.randint(low, high))

    return literal


def _decimals(digits: int, scale: int) -> Callable[[Random], str]:
    def literal(random: Random) -> str:
        number = random.choice(
            (0, 1, 10, 5, 10**scale, 15 * 10**scale // 10, 10**digits - 1, random.randrange(10**digits))
        )
        text = str(number % 10**digits).rjust(scale + 1, "0")
        sign = random.choice(("", "-"))
        return f"{sign}{text[: len(text) - scale]}.{text[len(text) - scale :]}" if scale else sign + text

    return literal


def _reals(*edges: str) -> Callable[[Random], str]:
    usual = ("0", "-0.0", "0.5", "-1", "7", "100", "0.1", "1e-3", "2.5e3")
    return lambda random: random.choice((*usual, *edges, repr(round(random.uniform(-10, 10), 3))))


def _quoted(*texts: str) -> Callable[[Random], str]:
    return lambda random: quoted(random.choice(texts))


def quoted(text: str) -> str:
    return "'" + text.replace("'", "''") + "'"


def _bytes(longest: int) -> Callable[[Random], str]:
    values = (b"a", b"ab", b"", b"\0", b"\xff\0", b"b ", b"A", b"abc")
    return lambda random: f"x'{random.choice(values)[:longest].hex()}'"


def _moments(digits: int, first: str = "0001") -> Callable[[Random], str]:
    def literal(random: Random) -> str:
        day = random.choice([day for day in _DAYS if first <= day and (first < "1" or "1970-01-02" < day < "2038")])
        fraction = random.choice(_FRACTIONS)[: digits + 1] if digits else ""
        return f"'{day} {random.choice(_CLOCKS)}{fraction if fraction != '.' else ''}'"

    return literal


COLUMNS: dict[str, tuple[str, Callable[[Random], str], str]] = {
    "i8": ("TINYINT", _integers(8), "number"),
    "u8": ("TINYINT UNSIGNED", _integers(8, unsigned=True), "number"),
    "i16": ("SMALLINT", _integers(16), "number"),
    "i24": ("MEDIUMINT", _integers(24), "number"),
    "n": ("INT", _integers(32), "number"),
    "u": ("INT UNSIGNED", _integers(32, unsigned=True), "number"),
    "big": ("BIGINT", _integers(64), "number"),
    "ubig": ("BIGINT UNSIGNED", _integers(64, unsigned=True), "number"),
    "bits": ("BIT(12)", _integers(12, unsigned=True), "number"),
    "y": ("YEAR", lambda random: random.choice(("1901", "1970", "2000", "2024", "2069", "2155", "0")), "number"),
    "flag": ("BOOLEAN", lambda random: random.choice("0012"), "number"),
    "d0": ("DECIMAL(5,0)", _decimals(5, 0), "number"),
    "price": ("DECIMAL(10,2)", _decimals(10, 2), "number"),
    "d9": ("DECIMAL(20,9)", _decimals(20, 9), "number"),
    "fine": ("DECIMAL(32,30)", _decimals(32, 30), "number"),
    "wide": ("DECIMAL(38,5)", _decimals(38, 5), "number"),
    "f": ("FLOAT", _reals("3.4e38", "1e-37", "16777217", "0.3"), "real"),
    "r": ("DOUBLE", _reals("1e308", "1e-300", "9007199254740993", "0.3"), "real"),
    "state": (f"ENUM({', '.join(map(quoted, LABELS))})", _quoted(*LABELS), "label"),
    "name": ("VARCHAR(12)", _quoted(*_TEXTS), "text"),
    "code": ("CHAR(6)", _quoted(*_TEXTS), "text"),
    "note": ("TEXT", _quoted(*_TEXTS), "text"),
    "fixed": ("BINARY(4)", _bytes(4), "bytes"),
    "photo": ("VARBINARY(6)", _bytes(6), "bytes"),
    "blob_": ("BLOB", _bytes(6), "bytes"),
    "day": ("DATE", _quoted(*_DAYS), "day"),
    "at": ("DATETIME", _moments(0), "moment"),
    "at6": ("DATETIME(6)", _moments(6), "moment"),
    "seen": ("TIMESTAMP(3) NULL", _moments(3, "1970"), "seen"),
    "seen0": ("TIMESTAMP NULL", _moments(0, "1970"), "seen"),
    "clock": ("TIME", _quoted(*_CLOCKS), "other"),
    "tags": ("SET('a','b')", _quoted("", "a", "a,b"), "other"),
    "doc": ("JSON", _quoted("{}", "null", "1"), "other"),
}
"""By name: the declaration, a literal of the server's, and what the column is asked for."""


def create(table: str) -> str:
    """The statement that creates the table, with an ``id`` before its columns."""
    columns = ", ".join(f"{name} {kind}" for name, (kind, _, _) in COLUMNS.items())
    return f"CREATE TABLE {table} (id INT PRIMARY KEY, {columns}) CHARACTER SET utf8mb4"


def rows(random: Random, count: int) -> Iterator[str]:
    """Rows for VALUES, as a server reads them."""
    for number in range(1, count + 1):
        cells = (literal(random) if random.random() < 0.85 else "NULL" for _, literal, _ in COLUMNS.values())
        yield f"({number}, {', '.join(cells)})"


class Writer:
    """Writes random expressions."""

    def __init__(self, random: Random) -> None:
        self.random = random

    def column(self, *kinds: str) -> str:
        return self.random.choice([name for name, (_, _, kind) in COLUMNS.items() if kind in kinds])

    def any_of(self, *writers: Callable[[], str]) -> str:
        return self.random.choice(writers)()

    def nested(self, text: str) -> str:
        """A text in parentheses, mostly."""
        return f"({text})" if self.random.random() < 0.7 else text

    def number_literal(self) -> str:
        usual = (
            "0",
            "1",
            "2",
            "7",
            "100",
            "0.5",
            "1.50",
            ".5",
            "3.",
            "0.10",
            "10",
            "2024",
            "70",
            "24",
            "1970",
            "1900",
            "3000",
            "100",
        )
        large = (
            "4294967295",
            "18446744073709551615",
            "9223372036854775808",
            "9007199254740993",
            "12345678901234567890.5",
        )
        return self.random.choice((*usual * 3, *large, "TRUE", "FALSE", "1e0", "1e2", "0.1e0", "9007199254740992e0"))

    def number(self, depth: int) -> str:
        if depth <= 0:
            return self.any_of(*[lambda: self.column("number")] * 3, self.number_literal)
        left, right = (self.nested(self.number(depth - self.random.randint(1, 2))) for _ in range(2))
        functions = (
            *(f"{left} {word} {right}" for word in ("+", "-", "*", "%", "MOD")),
            *(f"MOD({left}, {right})", f"ABS({left})", f"-{left}", f"- {left}", left),
            *(f"COALESCE({left}, {right})", f"IFNULL({left}, {right})", f"COALESCE({left}, {right}, 0)"),
            *(f"CHAR_LENGTH({self.column('text', 'label')})", f"LENGTH({self.column('bytes')})"),
            f"{self.random.choice(('YEAR', 'MONTH', 'DAY'))}({self.column('day', 'moment', 'seen')})",
        )
        return self.random.choice(functions)

    def measured(self, depth: int) -> str:
        """A number, or a FLOAT."""
        return self.column("real") if self.random.random() < 0.2 else self.number(depth)

    def comparison(self, depth: int) -> str:
        word = self.random.choice(("=", "<>", "!=", "<", "<=", ">", ">=", "<=>"))
        kind = self.random.choice(
            ("number", "number", "year", "text", "bytes", "label", "day", "moment", "seen", "any")
        )
        operands = [self.operand(kind, depth) for _ in range(4)]
        if self.random.random() < 0.03:
            operands[self.random.randrange(4)] = "NULL"
        left, low, high, last = operands
        negation = self.random.choice(("", "", "NOT "))
        return self.any_of(
            *[lambda: f"{left} {word} {low}"] * 3,
            lambda: f"{left} {negation}IN ({low}, {high}, {last})",
            lambda: f"{left} {negation}BETWEEN {low} AND {high}",
        )

    def operand(self, kind: str, depth: int) -> str:
        random, day = self.random, self.random.choice(_DAYS)
        moment = f"{day} {random.choice(_CLOCKS)}{random.choice(_FRACTIONS)}"
        if kind == "number":
            return self.nested(self.measured(depth - 1))
        operands = {
            "year": ("y", "y", self.number_literal(), self.column("number")),
            "text": (f"{self.column('text', 'text', 'label')} COLLATE {BIN}", quoted(random.choice(_TEXTS))),
            "bytes": (self.column("bytes"), quoted(random.choice(("a", "ab", "", "b ")))),
            "label": (self.column("label"), quoted(random.choice(LABELS))),
            "day": (self.column("day"), self.column("day"), quoted(day)),
            "moment": (self.column("moment"), self.column("moment"), quoted(random.choice((day, moment)))),
            "seen": (self.column("seen"), self.column("seen"), quoted(random.choice((day, moment)))),
            "any": (*COLUMNS, self.number_literal(), quoted(random.choice(_TEXTS))),
        }
        return random.choice(operands[kind])

    def truth(self, depth: int) -> str:
        if depth <= 0:
            return self.any_of(lambda: self.comparison(1), lambda: self.column("number", "real"))
        left, right = (self.nested(self.truth(depth - self.random.randint(1, 2))) for _ in range(2))
        pattern = "".join(self.random.choice(("%", "_", "a", "b", "Ä", "A", " ", ".")) for _ in range(3))
        test = self.random.choice(("TRUE", "FALSE", "NOT TRUE", "NOT FALSE", "NULL", "NOT NULL"))
        connected = (f"{left} {word} {right}" for word in ("AND", "OR", "&&", "||"))
        single = (f"NOT {left}", f"! {left}", f"{left} IS {test}", self.comparison(depth), self.comparison(depth))
        tests = (
            f"{self.column('text')} COLLATE {BIN} {self.random.choice(('', 'NOT '))}LIKE {quoted(pattern)}",
            f"{self.random.choice([*COLUMNS])} IS {self.random.choice(('NULL', 'NOT NULL'))}",
        )
        return self.random.choice((*connected, *single, *tests))

    def text(self, depth: int) -> str:
        leaf = self.random.choice((self.column("text"), self.column("text"), self.column("label"), quoted("x'ä")))
        if depth <= 0:
            return leaf
        left, right = self.text(depth - 1), self.text(depth - 1)
        count, start = self.random.randint(0, 4), self.random.randint(1, 4)
        return self.random.choice(
            (
                *(f"CONCAT({left}, {right})", f"LEFT({left}, {count})", f"RIGHT({left}, {count})"),
                *(f"SUBSTRING({left}, {start})", f"SUBSTRING({left}, {start}, {count})", leaf),
            )
        )

    def value(self, depth: int) -> str:
        """What a computed column may be."""
        kinds: Sequence[Callable[[int], str]] = (
            *(self.measured, self.measured, self.text, self.text),
            *(lambda _: self.column("bytes"), lambda _: self.column("day", "moment", "seen"), self.truth),
            *(lambda _: f"DATE({self.column('day', 'moment')})", lambda _: self.column("label")),
        )
        write = self.random.choice(kinds)
        if depth <= 0 or self.random.random() < 0.4:
            return write(depth)
        branches = [write(depth - 1) if self.random.random() < 0.9 else "NULL" for _ in range(3)]
        condition, later = self.truth(1), self.truth(1)
        return self.random.choice(
            (
                f"IF({condition}, {branches[0]}, {branches[1]})",
                f"CASE WHEN {condition} THEN {branches[0]} ELSE {branches[1]} END",
                f"CASE WHEN {condition} THEN {branches[0]} WHEN {later} THEN {branches[1]} ELSE {branches[2]} END",
                f"CASE WHEN {condition} THEN {branches[0]} END",
            )
        )
