"""Texts of statements and of other programs' messages in ours: names, types and keywords, never a literal.

A message is read by more people than the table that it is about: it is in output, in the log of a scheduler, in
the table ``published`` and in reports. A literal of a statement may be a value of a column that is masked, filtered or
redacted, so none is shown, of any table.

Secrets are kept out where they come from: those of the configuration are values of SecretStr (config/servers.py), an
object store's answer is shown as what its code means (storage/messages.py), of an identity service's answer
nothing is shown (identity/errors.py), and any other text of another program passes through ``foreign``.

Put here: texts without literals, and names without control characters. Not here: values of rows, which no message has
(``verify`` and ``changes`` show them as results).
"""

import re
from collections.abc import Iterator
from textwrap import dedent

MOST = 120
"""Characters of a statement at most."""
CUT = "..."
LITERAL = "?"
"""Takes the place of a literal, as in the digests that servers make of statements."""

_TOKEN = re.compile(
    r"""
      (?P<blank>\s+ | \*/)
    | (?P<line>\#[^\n]* | --(?=\s|$)[^\n]*)
    | (?P<text>'[^']*(?:''[^']*)*(?:'|$) | "[^"]*(?:""[^"]*)*(?:"|$))
    | (?P<name>`[^`]*(?:``[^`]*)*(?:`|$))
    | (?P<number>\.?\d[\w.$]*)
    | (?P<word>[\w$]+)
    | (?P<sign>.)
    """,
    re.VERBOSE | re.DOTALL,
)
_COMMENT = re.compile(r"/\*(?!M?!).*?(?:\*/|\Z)", re.DOTALL)
_OPENED = re.compile(r"/\*M?!\d*")
_DEFINES = {"ALTER", "CREATE", "DROP", "RENAME", "TRUNCATE"}
_SIZED = {
    *("BIT", "BOOL", "TINYINT", "SMALLINT", "MEDIUMINT", "INT", "INTEGER", "BIGINT", "DECIMAL", "DEC", "NUMERIC"),
    *("FIXED", "FLOAT", "DOUBLE", "PRECISION", "REAL", "YEAR", "TIME", "TIMESTAMP", "DATETIME", "CHAR", "CHARACTER"),
    *("VARCHAR", "VARYING", "NCHAR", "NVARCHAR", "TEXT", "BLOB", "BINARY", "VARBINARY", "ENUM", "SET", "VECTOR"),
}
"""Types that have sizes or labels in parentheses."""
_BEFORE_VALUES = {"DEFAULT", "AS", "CHECK", "COMMENT", "SELECT", "VALUES", "UPDATE", "GENERATED", "USING"}
"""Words of definitions behind which what looks like a type may be a function of values."""


def statement(text: str) -> str:
    """A statement on one line without its literals, comments and what is beyond 120 characters.

    Sizes and labels of types stay. Where a text has a backslash, what comes after it is not shown: whether the
    backslash hides the next quote depends on the session's sql_mode. text: as a session without ANSI_QUOTES says it.
    """
    line = ""
    for piece in _without_literals(text):
        line += piece
        if len(line) > MOST:
            return f"{line[: MOST - len(CUT)]}{CUT}"
    return line.strip()


def _without_literals(text: str) -> Iterator[str]:
    """Pieces of the text, one a token, blanks as one space; only as much is read as is asked for."""
    # Comments go, literals are replaced, all other tokens stay as they are.
    types = _TypeTracker()
    at, is_blank = 0, True
    while at < len(text):
        comment = _COMMENT.match(text, at) or _OPENED.match(text, at)
        match = comment or _TOKEN.match(text, at)
        assert match is not None, "every character is a sign"
        at = match.end()
        if comment or match["blank"] or match["line"]:
            if not is_blank:
                yield " "
            is_blank = True
            continue
        is_blank = False
        # A backslash may escape a quote, or not, by SQL mode: what follows cannot be told from text.
        token = match[0]
        if match["text"] or match["number"]:
            if "\\" in token:
                yield CUT
                return
            yield token if types.are_open else LITERAL
        else:
            types.advance(token)
            yield token


class _TypeTracker:
    """Check whether a literal in a definition is a part of a type."""

    def __init__(self) -> None:
        self._is_definition: bool | None = None
        self._depth = 0
        self._last = ""
        self._opened: int | None = None
        """The depth of the parentheses of a type."""
        self._values: int | None = None
        """The depth at which values began."""

    @property
    def are_open(self) -> bool:
        return self._opened == self._depth

    def advance(self, token: str) -> None:
        """Read a token that is no literal, and note whether the next literal belongs to a type and may be shown."""
        # Numbers inside of a type's brackets are part of the definition, not values: VARCHAR(20).
        word = token.upper()
        if self._is_definition is None:
            self._is_definition = word in _DEFINES
        if word == "(":
            self._depth += 1
            is_type = self._is_definition and self._values is None and self._last in _SIZED
            self._opened = self._depth if is_type else self._opened
        elif word == ")":
            self._opened = None if self.are_open else self._opened
            self._depth -= 1
            self._values = None if self._values is not None and self._depth < self._values else self._values
        elif word == "," and self._values == self._depth:
            self._values = None
        elif word in _BEFORE_VALUES and self._values is None:
            self._values = self._depth
        self._last = word


_CONTROLS = re.compile(r"[\x00-\x08\x0b-\x1f\x7f-\x9f\u061c\u200e\u200f\u2028-\u202e\u2066-\u2069\ud800-\udfff]")
"""C0 without tab and line feed, DEL, C1, what turns the direction of text, and halves of characters: bytes of a file's
name that are no UTF-8 come as such."""


def printable(text: str) -> str:
    """A text without what moves a terminal's cursor, colours or turns it: they stand as JSON has them."""
    return _CONTROLS.sub(lambda match: f"\\u{ord(match[0]):04x}", text)


def cell(text: str) -> str:
    """The same on one line, for tables whose lines are rows."""
    return printable(text).replace("\t", "\\u0009").replace("\n", "\\u000a")


def text_lines(text: str) -> list[str]:
    """The lines of a text as people read it: without control characters, tabs as blanks.

    The second line and those after it begin with no blanks that all of them begin with.
    """
    lines = [printable(line.expandtabs(4)).rstrip() for line in _LINE_BREAK.split(text.strip())]
    return [lines[0], *dedent("\n".join(lines[1:])).split("\n")] if lines[1:] else lines


_LINE_BREAK = re.compile(r"\r\n|\n|\r")
_ABOUT_VALUES = re.compile(r"\s*(?:==\s*SQL|==\s*DataFrame|\s*JVM stacktrace|\tat |Caused by:|Traceback )")
_LITERALS = re.compile(
    r"(?P<file>\b(?:path|file|folder|directory|archive|jar):? )?(?<!\w)'(?:[^'\\]|\\.|'(?=['\w]))*(?:'|$)",
    re.IGNORECASE,
)
"""A literal, and whether it is said to be a file. An apostrophe inside of a word neither begins nor ends one."""
_PATH = re.compile(r"'(?:[a-z0-9]+:)?/[^'\s]*'")
_ROWS_VALUES = re.compile(r"(?:violated by row with values|row with values).*", re.IGNORECASE | re.DOTALL)


def foreign(text: str, limit: int = 3) -> str:
    """The first lines of another program's message, on one line, without its literals and traces.

    A path stays where the message says that it is one; a value may look like it.
    """
    lines: list[str] = []
    for line in text.strip().splitlines():
        if _ABOUT_VALUES.match(line):
            break
        lines += [line.strip()] if line.strip() else []
        if len(lines) == limit:
            break
    output = _ROWS_VALUES.sub("violated by a row", " ".join(lines))
    return _LITERALS.sub(_without_value, output)


def _without_value(literal: re.Match[str]) -> str:
    kind = literal["file"] or ""
    text = literal[0].removeprefix(kind)
    return literal[0] if kind and _PATH.fullmatch(text) else f"{kind}{LITERAL}"
