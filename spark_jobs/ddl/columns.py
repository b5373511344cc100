"""Column definitions in statements: the type, and the value that existing rows get.

Source: MySQL manual, "CREATE TABLE Statement" (column_definition), "Data Types"; MariaDB Knowledge Base, "Data Types".

Put here: reading one column's definition. Not here: what a statement does with the column (alter.py), types as
information_schema and TABLE_MAP describe them (definitions.py, binlog/events/table_map.py).
"""

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from typing import Any

from spark_jobs.binlog import Column, Session
from spark_jobs.binlog.types.charset_tables import CODECS, COLLATIONS, SINGLE_BYTE
from spark_jobs.binlog.types.charsets import BINARY, CHARSET_ALONE, NAMED, UTF8, charset_of, has_escapes, width_of
from spark_jobs.ddl.definitions import COMPRESSED, column_of_row
from spark_jobs.errors import Unsupported


@dataclass(frozen=True, slots=True)
class Word:
    """A token. kind: word, name (in back-ticks), string, number, bits, hex, sign."""

    text: str
    kind: str

    def among(self, *texts: str) -> bool:
        """True if it is one of some keywords or signs."""
        return self.kind in ("word", "sign") and self.text.upper() in texts


_KINDS = {
    "IDENTIFIER": "name",
    "STRING": "string",
    "NATIONAL_STRING": "string",
    "NUMBER": "number",
    "BIT_STRING": "bits",
    "HEX_STRING": "hex",
}
"""Kinds of words by sqlglot's names of kinds."""


def words_of(text: str) -> list[Word]:
    """The words of an SQL text. Raises Unsupported if it cannot be divided into tokens."""
    return list(_words_of(text))


@lru_cache(maxsize=16)  # what a statement does is found out by several functions, each of which reads its text
def _words_of(text: str) -> tuple[Word, ...]:
    import sqlglot
    from sqlglot.errors import SqlglotError

    try:
        tokens = sqlglot.tokenize(text, read="mysql")
    except SqlglotError as error:
        raise Unsupported("it cannot be read") from error
    words = list[Word]()
    for at, token in enumerate(tokens):
        kind = _KINDS.get(token.token_type.name)
        if kind == "number" and _is_fraction(tokens, at):
            words[-1] = Word(f".{token.text}", "number")
            continue
        parts = [token.text] if kind else token.text.split()  # PRIMARY KEY is one token there
        words += [Word(part, kind or _kind(part)) for part in parts]
    return tuple(words)


def _is_fraction(tokens: Sequence[Any], at: int) -> bool:
    """True if a number follows the point that it begins with, and that point follows no name of a schema."""
    point, before = (tokens[at - back] if at >= back else None for back in (1, 2))
    if point is None or point.text != "." or point.end + 1 != tokens[at].start:
        return False
    return before is None or before.end + 1 != point.start or before.token_type.name in _BEFORE_FRACTION


_BEFORE_FRACTION = ("DASH", "PLUS", "L_PAREN", "COMMA", "EQ")
"""Kinds of tokens between which and a point there need be no space."""


def require_plain(text: str, session: Session) -> None:
    """Check that the session of a statement does not change the meaning of its literals. Raises Unsupported."""
    if not _is_readable(text, session.collation):
        raise Unsupported("the character set of its text is not known")
    if has_escapes(text):
        raise Unsupported("its text has bytes that are not text of its client's character set")
    if "\\" in text and not session.has_backslashes:
        raise Unsupported("its session had NO_BACKSLASH_ESCAPES")


_READABLE = UTF8 | CODECS.keys() | SINGLE_BYTE.keys() - {"swe7"}
"""Character sets that are read: not binary, where bytes are kept as they come; nor swe7, where signs of SQL are letters
too."""
_SWE7_LETTERS = re.compile(r"[@\[\\\]^{|}~]")


def _is_readable(text: str, collation: int | None) -> bool:
    """True if a client's statement was read as the server reads it."""
    try:
        charset = None if collation is None else charset_of(collation)
    except Unsupported:
        charset = None
    if text.isascii():
        return charset != "swe7" or not _SWE7_LETTERS.search(text)
    return charset in _READABLE


def _kind(text: str) -> str:
    return "word" if re.match(r"[\w$@]", text) else "sign"


@dataclass(frozen=True, slots=True)
class DeclaredColumn:
    """A column's definition."""

    column: Column
    """The column as TABLE_MAP would describe it; text whose character set the statement leaves to the table's default
    has none, and its length in characters."""
    default: tuple[Word, ...] | None = None
    """The words of its default, None where it has none."""
    why_unknown: str | None = None
    """Reason why the values of older rows are unknown."""
    in_key: bool = False
    is_unique: bool = False
    """``in_key`` and ``is_unique``: it is declared the primary key, or UNIQUE."""
    is_computed: bool = False
    is_open: bool = False
    """True if it is a TIMESTAMP without NULL, NOT NULL or a default; whether NULL is one of its values depends on
    explicit_defaults_for_timestamp."""
    measure: tuple[int, int] | None = None
    """Digits and scale of a FLOAT or DOUBLE that is rounded to these."""
    is_counter: bool = False
    """True if it is AUTO_INCREMENT."""


_SYNONYMS = {
    **dict.fromkeys(("INT1", "BOOL", "BOOLEAN"), "tinyint"),
    "INT2": "smallint",
    **dict.fromkeys(("INT3", "MIDDLEINT"), "mediumint"),
    **dict.fromkeys(("INTEGER", "INT4"), "int"),
    **dict.fromkeys(("INT8", "SERIAL"), "bigint"),
    **dict.fromkeys(("DEC", "NUMERIC", "FIXED"), "decimal"),
    "FLOAT4": "float",
    **dict.fromkeys(("REAL", "FLOAT8"), "double"),
    "CHARACTER": "char",
    "NCHAR": "char",
    **dict.fromkeys(("NVARCHAR", "VARCHARACTER"), "varchar"),
    "GEOMCOLLECTION": "geometrycollection",
}
_ALIASES = {"utf8": "utf8mb3"}
_DIGITS = {"decimal": 10, "bit": 1}
_TEXTUAL = re.compile(r"char|varchar|(tiny|medium|long)?text|enum|set")


def declared_column(name: str, words: Sequence[Word], charset: str | None = None) -> DeclaredColumn:
    """Read what stands behind a column's name. Raises Unsupported.

    charset: that of text which names none, or a collation of it, where that is known.
    """
    if not words:
        raise Unsupported(f"column {name} has no type")
    # In the order of the grammar: type, its arguments, then attributes in any order.
    kind, at = _kind_of(words)
    arguments, at = _arguments(words, at)
    rest = _Attributes(words[at:])
    if words[0].among("SERIAL"):
        rest.serial()
    while rest:
        rest.read()
    # NATIONAL types fix the character set; a CHARACTER SET in the attributes overrides that.
    national = "utf8mb3" if words[0].among("NATIONAL", "NCHAR", "NVARCHAR") else None
    inherited, collation = _set_and_collation(charset or "")
    declared_charset = rest.charset or national
    if rest.collation and is_of_any_set(rest.collation):
        rest.collation = f"{declared_charset or inherited}_{rest.collation}"
    elif rest.collation is None and rest.is_binary:
        rest.collation = f"{declared_charset or inherited}_bin"
    elif declared_charset is None:
        rest.collation = collation
    column = _column(name, kind, arguments, rest, declared_charset or inherited)
    # Whether such a TIMESTAMP may be NULL, and its default, depend on explicit_defaults_for_timestamp.
    is_open = kind == "timestamp" and not rest.is_explicitly_nullable and rest.default is None
    return DeclaredColumn(
        column,
        rest.default,
        rest.why_unknown(),
        rest.in_key,
        rest.is_unique,
        is_computed=rest.is_computed,
        is_open=is_open,
        measure=_measure(kind, arguments),
        is_counter=rest.is_counter,
    )


def _measure(kind: str, arguments: Sequence[Word]) -> tuple[int, int] | None:
    numbers = [int(word.text) for word in arguments if word.kind == "number"]
    return (numbers[0], numbers[1]) if kind in ("float", "double") and len(numbers) > 1 else None


def _kind_of(words: Sequence[Word]) -> tuple[str, int]:
    """The type's name as information_schema has it, and how many words it takes."""
    first, second = words[0].text.upper(), words[1] if len(words) > 1 else Word("", "sign")
    if first == "NATIONAL":
        return _kind_of([replace(words[1], text=words[1].text), *words[2:]])[0], _kind_of(words[1:])[1] + 1
    if first == "LONG":
        return ("mediumblob", 2) if second.among("VARBINARY") else ("mediumtext", 1 + second.among("VARCHAR"))
    if first in ("CHAR", "CHARACTER", "NCHAR") and second.among("VARYING", "VARCHAR", "VARCHARACTER"):
        return "varchar", 2
    return _SYNONYMS.get(first, first.lower()), 1 + (first == "DOUBLE" and second.among("PRECISION"))


def _arguments(words: Sequence[Word], at: int) -> tuple[list[Word], int]:
    """The words in parentheses that stand at a position, and the position behind them."""
    if at >= len(words) or not words[at].among("("):
        return [], at
    close = next((k for k in range(at, len(words)) if words[k].among(")")), len(words))
    return [word for word in words[at + 1 : close] if not word.among(",")], close + 1


class _Attributes:
    """Attributes after a type, read word by word."""

    def __init__(self, words: Sequence[Word]) -> None:
        self._words = list(words)
        self.default: tuple[Word, ...] | None = None
        self.nullable = True
        self.is_explicitly_nullable = False
        self.unsigned = False
        self.charset: str | None = None
        self.collation: str | None = None
        self.in_key = False
        self.is_unique = False
        self.is_computed = False
        self.is_counter = False
        self.is_compressed = False
        self.is_invisible = False
        self.is_binary = False

    def __bool__(self) -> bool:
        return bool(self._words)

    def _take(self, *texts: str) -> bool:
        """Take the words where they come next."""
        ahead = self._words[: len(texts)]
        is_next = len(ahead) == len(texts) and all(word.among(text) for word, text in zip(ahead, texts, strict=True))
        if is_next:
            del self._words[: len(texts)]
        return is_next

    def read(self) -> None:
        word = self._words.pop(0)
        reader = _READERS.get(word.text.upper()) if word.kind == "word" else None
        if reader:
            reader(self)
        elif word.among("BYTE", "ASCII", "UNICODE"):
            self.charset = {"BYTE": BINARY, "ASCII": "latin1"}.get(word.text.upper(), "ucs2")
        elif not word.among(*_SAYING_NOTHING):
            raise Unsupported(f"{word.text} is not known in a column's definition")

    def not_null(self) -> None:
        self.nullable = not self._take("NULL")
        self.is_explicitly_nullable = True

    def null(self) -> None:
        self.is_explicitly_nullable = True

    def no_sign(self) -> None:
        self.unsigned = True

    def character_set(self) -> None:
        self._take("SET")
        self._take("=")
        self.charset = self._words.pop(0).text.lower() if self._words else None

    def collate(self) -> None:
        self._take("=")
        self.collation = self._words.pop(0).text.lower() if self._words else ""
        if not is_of_any_set(self.collation):
            self.charset = self.charset or self.collation.partition("_")[0]

    def default_value(self) -> None:
        self.default = self._expression()

    def passed_over(self) -> None:
        self._take("UPDATE")
        self._take("=")
        self._expression()

    def key(self) -> None:
        self._take("KEY")
        self.in_key, self.nullable = True, False

    def unique(self) -> None:
        self._take("KEY")
        self.is_unique = True

    def serial(self) -> None:
        """The type that stands for BIGINT UNSIGNED NOT NULL AUTO_INCREMENT UNIQUE."""
        self.is_unique, self.nullable, self.unsigned, self.is_counter = True, False, True, True

    def computed(self) -> None:
        """Parse what follows GENERATED, ALWAYS or AS: the expression, or MariaDB's ROW START and ROW END."""
        self._take("ALWAYS")
        self._take("AS")
        self.is_computed = True
        if self._take("ROW"):
            self._words = self._words[1:]
        else:
            self._expression()

    def auto_increment(self) -> None:
        """AUTO_INCREMENT or SERIAL: the column is NOT NULL unless declared NULL."""
        self.is_counter = True

    def compressed(self) -> None:
        """MariaDB's storage-engine independent column compression."""
        self.is_compressed = True
        if self._take("="):
            self._words = self._words[1:]

    def versioned(self) -> None:
        """MariaDB: WITH and WITHOUT SYSTEM VERSIONING, of one column."""
        if not self._take("SYSTEM", "VERSIONING"):
            raise Unsupported("WITH and WITHOUT are known before SYSTEM VERSIONING alone")

    def invisible(self) -> None:
        self.is_invisible = True

    def binary(self) -> None:
        """Note BINARY of a text: the collation ``_bin`` of its character set."""
        self.is_binary = True

    def reference(self) -> None:
        """REFERENCES stands last; CONSTRAINT has at most a name."""
        if any(word.among("DEFAULT") for word in self._words):
            raise Unsupported("a DEFAULT after REFERENCES is not supported")
        self._words.clear()

    def constraint(self) -> None:
        if self._words and not self._words[0].among("CHECK"):
            del self._words[0]

    def _expression(self) -> tuple[Word, ...]:
        """A literal with its sign, a word with its arguments, or what is in parentheses."""
        words: list[Word] = []
        while self._words and self._words[0].among("-", "+"):
            words.append(self._words.pop(0))
        if self._words and not self._words[0].among("("):
            words.append(self._words.pop(0))
        depth = 0
        while self._words and (depth or (self._words[0].among("(") and (not words or words[-1].kind == "word"))):
            word = self._words.pop(0)
            depth += word.among("(") - word.among(")")
            words.append(word)
        return tuple(words)

    def why_unknown(self) -> str | None:
        if self.is_computed:
            return "it is computed"
        return "it counts by itself" if self.is_counter else None


_READERS: dict[str, Callable[[_Attributes], None]] = {
    "NOT": _Attributes.not_null,
    "NULL": _Attributes.null,
    **dict.fromkeys(("UNSIGNED", "ZEROFILL"), _Attributes.no_sign),
    **dict.fromkeys(("CHARACTER", "CHARSET"), _Attributes.character_set),
    "COLLATE": _Attributes.collate,
    "DEFAULT": _Attributes.default_value,
    **dict.fromkeys(("ON", "COMMENT", "CHECK", "COLUMN_FORMAT", "STORAGE"), _Attributes.passed_over),
    **dict.fromkeys(("SRID", "REF_SYSTEM_ID", "ENGINE_ATTRIBUTE"), _Attributes.passed_over),
    **dict.fromkeys(("PRIMARY", "KEY"), _Attributes.key),
    "UNIQUE": _Attributes.unique,
    **dict.fromkeys(("GENERATED", "AS"), _Attributes.computed),
    "AUTO_INCREMENT": _Attributes.auto_increment,
    "COMPRESSED": _Attributes.compressed,
    **dict.fromkeys(("WITH", "WITHOUT"), _Attributes.versioned),
    "INVISIBLE": _Attributes.invisible,
    "BINARY": _Attributes.binary,
    "REFERENCES": _Attributes.reference,
    "CONSTRAINT": _Attributes.constraint,
}
_SAYING_NOTHING = ("SIGNED", "VISIBLE", "ENFORCED", "VIRTUAL", "STORED", "PERSISTENT")


def _column(name: str, kind: str, arguments: list[Word], rest: _Attributes, charset: str) -> Column:
    # The character set ``binary`` makes binary types of text types.
    if kind in ("char", "varchar") and charset == BINARY:
        kind = {"char": "binary", "varchar": "varbinary"}[kind]
    elif kind.endswith("text") and charset == BINARY:
        kind = kind.replace("text", "blob")
    # A precision above 24 bits makes a DOUBLE of a FLOAT; lengths decide which TEXT or BLOB it is.
    numbers = [int(word.text) for word in arguments if word.kind == "number"]
    if kind == "float" and len(numbers) == 1 and numbers[0] > 24:
        kind = "double"
    charset = _ALIASES.get(charset, charset)
    is_text = bool(_TEXTUAL.fullmatch(kind))
    first = numbers[0] if numbers else None
    is_long = (
        kind in ("varchar", "varbinary") and (first or 0) * width_of(charset if is_text else BINARY) > _MOST_VARCHAR
    )
    if is_long:  # the server makes a text of it, with a warning, where the session is not strict
        kind = "text" if is_text else "blob"
    if first and kind in ("blob", "text"):
        kind = _type_of_length(kind, first, charset if is_text else BINARY)
    # The declaration as information_schema has it, and from it a column as a server's row gives it.
    labels = _plain_labels(name, arguments) if kind in ("enum", "set") else []
    inside = ",".join(map(_label, labels)) if labels else str(first or _FLOATS) if kind == "vector" else ""
    declared = f"{kind}({inside})" if inside else kind
    row: dict[str, Any] = {
        "name": name,
        "kind": kind,
        "declared": declared + " unsigned" * (rest.unsigned and kind != "year") + COMPRESSED * rest.is_compressed,
        "octets": (1 if first is None else first) * (width_of(charset) if is_text else 1),
        "digits": _DIGITS.get(kind) if first is None else first,
        "scale": numbers[1] if len(numbers) > 1 else 0,
        "fraction": first or 0,
        "nullable": "YES" if rest.nullable and (rest.is_explicitly_nullable or not rest.is_counter) else "NO",
        "collation": charset if is_text and charset else None,
    }
    column = column_of_row(row, {charset: _collation(charset, rest.collation)} if charset else {})
    if column.type_code < 0:
        raise Unsupported(f"column {name}: the type {kind} is not known")
    column = replace(column, invisible=rest.is_invisible)
    return replace(column, charset=None) if is_text and not charset else column


def _type_of_length(kind: str, length: int, charset: str) -> str:
    """The type of a BLOB(length) or TEXT(length), the smallest that holds so many letters.

    Of an unknown character set each letter counts one byte: the type is that or a longer one, and the same in the lake.
    """
    return ("tiny", "", "medium", "long")[_blob_for(length * width_of(charset or BINARY)) - 1] + kind


def _plain_labels(name: str, arguments: Sequence[Word]) -> list[str]:
    strange = [word.text for word in arguments if word.kind != "string"]
    if strange:
        raise Unsupported(f"column {name}: its labels are not all written as text: {strange[0]}")
    return [word.text.rstrip(" ") for word in arguments]


def _collation(charset: str, name: str | None = None) -> int:
    """The collation's id, or one of the ids of the character set, marked as such (CHARSET_ALONE)."""
    numbers = [number for part in COLLATIONS.get(charset, ()) for number in part]
    if not numbers:
        raise Unsupported(f"the character set {charset} is not known")
    if charset == BINARY:
        return min(numbers)
    return NAMED.get(name or "", min(numbers) | CHARSET_ALONE)


def is_of_any_set(collation: str) -> bool:
    """True of MariaDB's names of collations that stand behind a character set's, or mean the set of what is around."""
    return collation.startswith("uca1400_")


def _set_and_collation(charset: str) -> tuple[str, str | None]:
    """Names of a character set and, where that is told, of its collation. charset: of either."""
    name, has_collation, _ = charset.partition("_")
    return name, charset if has_collation else None


def column_in_charset(column: Column, charset: str) -> Column:
    """The column with its text in another character set. charset: its name, or that of a collation of it."""
    is_text = column.type.is_character or column.type.has_labels
    if not is_text or column.charset == 63:
        return column
    charset, collation = _set_and_collation(charset)
    charset = _ALIASES.get(charset, charset)
    number = _collation(charset, collation)
    width = 1 if column.charset is None else width_of(charset_of(column.charset))
    if column.type_code in (15, 254):
        return replace(column, charset=number, meta=column.meta // width * width_of(charset))
    if column.type_code == _BLOB and column.charset is not None:
        letters = _BLOB_BYTES[column.meta - 1] // width
        return replace(column, charset=number, meta=_blob_for(letters * width_of(charset)))
    return replace(column, charset=number)


_BLOB = 252
_FLOATS = 2048
"""Number of floats in a VECTOR that does not say how many it has (MySQL manual, "The VECTOR Type")."""
_MOST_VARCHAR = 65535
_BLOB_BYTES = [(1 << 8 * size) - 1 for size in (1, 2, 3, 4)]
"""Sizes of TINYTEXT, TEXT, MEDIUMTEXT and LONGTEXT."""


def _blob_for(length: int) -> int:
    """Bytes of the length of the smallest BLOB or TEXT that holds so many bytes; a longer one is the largest."""
    return next((size for size, limit in enumerate(_BLOB_BYTES, start=1) if length <= limit), 4)


def _label(label: str) -> str:
    return "'" + label.replace("\\", "\\\\").replace("'", "''") + "'"
