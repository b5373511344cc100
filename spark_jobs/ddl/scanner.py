"""Tokens of a statement, read as far as the caller asks for them.

A statement of the log may be of any length and depth. So nothing here is recursive, nothing is kept of what was read,
and what nobody asks for is not read.

Source: MySQL manual, "Language Structure" (literals, identifiers, comments); MySQL sql/sql_lex.cc (``lex_one_token``).

Put here: where a token begins and ends. Not here: what a statement means (classify.py, table_names.py).
"""

import re
from collections import deque
from collections.abc import Iterator
from dataclasses import dataclass

from spark_jobs.binlog import Session
from spark_jobs.errors import Unsupported

_SKIPPED = r"[ \t\n\r\f\v\0]++ | --(?=[\0-\x20]|\Z)[^\n]*+ | \#[^\n]*+ | /\*(?!M?!)(?:[^*]++|\*(?!/))*+\*/"
_BACKSLASHES = r"""(?P<double>"(?:[^"\\]++|""|\\.)*+") | (?P<single>'(?:[^'\\]++|''|\\.)*+')"""
_NO_BACKSLASHES = r"""(?P<double>"(?:[^"]++|"")*+") | (?P<single>'(?:[^']++|'')*+')"""


def _pattern(strings: str) -> re.Pattern[str]:
    return re.compile(
        rf"""(?P<skipped>{_SKIPPED}) | (?P<word>[0-9A-Za-z_$\x80-\U0010ffff]++) | (?P<name>`(?:[^`]++|``)*+`)
        | {strings} | (?P<opener>/\*M?!\d*+) | (?P<closer>\*/) | (?P<sign>(?!/\*)[^`"'])""",
        re.DOTALL | re.VERBOSE,
    )


_USUAL, _PLAIN = _pattern(_BACKSLASHES), _pattern(_NO_BACKSLASHES)


@dataclass(frozen=True, slots=True)
class Token:
    """kind: word (a keyword or a name without quotes), name, string, sign, or end; text: without its quotes.

    start, stop: where it is in the statement. is_double: it is in double quotes.
    """

    text: str
    kind: str
    start: int
    stop: int
    is_double: bool = False

    def among(self, *words: str) -> bool:
        """True if it is one of some keywords or signs."""
        return self.kind in ("word", "sign") and self.text.upper() in words

    @property
    def may_be_name(self) -> bool:
        """True if it can stand for a name: a session's sql_mode, which double quotes depend on, may not be known."""
        return self.kind in ("word", "name") or self.is_double


@dataclass(frozen=True, slots=True)
class VersionedCommentMark:
    """The beginning or the end of a comment whose content servers from a version on carry out."""

    start: int
    stop: int


def scan(text: str, session: Session) -> Iterator[Token | VersionedCommentMark]:
    """All tokens of a text. Raises Unsupported where a quote or a comment is not closed."""
    is_plain = session.sql_mode is not None and not session.has_backslashes
    match, at, depth = (_PLAIN if is_plain else _USUAL).match, 0, 0
    while at < len(text):
        token = match(text, at)
        if token is None:
            raise Unsupported("it cannot be parsed: a quote or a comment is not closed")
        kind, start, at = str(token.lastgroup), at, token.end()
        if kind == "opener":
            depth += 1
            yield VersionedCommentMark(start, at)
        elif kind == "closer" and depth:
            depth -= 1
            yield VersionedCommentMark(start, at)
        elif kind == "closer":  # a star, and a comment after it
            at = start + 1
            yield Token("*", "sign", start, at)
        elif kind != "skipped":
            yield _token(text, kind, start, at, session)


def _token(text: str, kind: str, start: int, stop: int, session: Session) -> Token:
    if kind in ("word", "sign"):
        return Token(text[start:stop], kind, start, stop)
    quote, inside = text[start], text[start + 1 : stop - 1]
    if kind == "name" or (kind == "double" and session.has_ansi_quotes):
        return Token(inside.replace(quote * 2, quote), "name", start, stop, is_double=kind == "double")
    return Token(inside.replace(quote * 2, quote), "string", start, stop, is_double=kind == "double")


class TokenScanner:
    """A statement's tokens, with a look at those that come next. ``count``: how many were read so far."""

    def __init__(self, text: str, session: Session) -> None:
        self._failure: Unsupported | None = None
        self._tokens = (token for token in scan(text, session) if isinstance(token, Token))
        self._ahead: deque[Token] = deque()
        self._end = Token("", "end", len(text), len(text))
        self.count = 0

    def peek(self, nth: int = 0) -> Token:
        """The token that comes next, or after that; one of the kind ``end`` where none does. Raises Unsupported."""
        while len(self._ahead) <= nth:
            if self._failure:  # what follows cannot be read either
                raise self._failure
            try:
                token = next(self._tokens, None)
            except Unsupported as error:
                self._failure = error
                raise
            if token is None:
                return self._end
            self.count += 1
            self._ahead.append(token)
        return self._ahead[nth]

    def take(self) -> Token:
        """The next token, which is read with that. Raises Unsupported."""
        token = self.peek()
        if self._ahead:
            self._ahead.popleft()
        return token

    def takes(self, *words: str) -> bool:
        """Take the next token where it is one of some keywords or signs. Raises Unsupported."""
        is_next = self.peek().among(*words)
        if is_next:
            self._ahead.popleft()
        return is_next

    def skip_enclosed(self) -> None:
        """Pass over what is in the parenthesis that comes next. Raises Unsupported where it is not closed."""
        depth = 0
        while True:
            token = self.take()
            if token.kind == "end":
                raise Unsupported("it cannot be parsed: a parenthesis is not closed")
            depth += token.among("(") - token.among(")")
            if depth <= 0:
                return
