from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from spark_jobs.binlog import Session
from spark_jobs.ddl.scanner import Token, TokenScanner, VersionedCommentMark, scan
from spark_jobs.errors import Unsupported

ANSI, NO_BACKSLASHES = Session(sql_mode=4), Session(sql_mode=1 << 20)


def kinds(text: str, session: Session = Session()) -> list[str]:  # noqa: B008 - it is frozen
    return [token.kind[0] + ":" + token.text if isinstance(token, Token) else "gap" for token in scan(text, session)]


@pytest.mark.parametrize(
    "text, tokens",
    [
        ("SELECT a.b,1e5", ["w:SELECT", "w:a", "s:.", "w:b", "s:,", "w:1e5"]),
        ("a /* b */ -- c\n# d\n e", ["w:a", "w:e"]),
        ("a--b", ["w:a", "s:-", "s:-", "w:b"]),
        ("a --", ["w:a"]),
        ("/*!50100 a */ b", ["gap", "w:a", "gap", "w:b"]),
        ("/*M!100100 a */", ["gap", "w:a", "gap"]),
        ("/*+ MAX_EXECUTION_TIME(1) */ a", ["w:a"]),
        ("2*/* c */3", ["w:2", "s:*", "w:3"]),
        ("'it''s' 'a\\'b'", ["s:it's", "s:a\\'b"]),
        ("`a``b` ``", ["n:a`b", "n:"]),
        ('"a""b"', ['s:a"b']),
        ("'/*!1 x*/' `/*`", ["s:/*!1 x*/", "n:/*"]),
        ("größe 表", ["w:größe", "w:表"]),
        ("", []),
    ],
)
def test_tokens_of_a_text(text: str, tokens: list[str]) -> None:
    assert kinds(text) == tokens


def test_quotes_are_read_as_the_session_means_them() -> None:
    assert kinds("\"a\" 'b\\'", NO_BACKSLASHES) == ["s:a", "s:b\\"]
    assert kinds('"a"', ANSI) == ["n:a"]


@pytest.mark.parametrize("text", ["'a", '"a', "`a", "/* a", "a 'b\\'"])
def test_what_is_not_closed_is_refused_wherever_it_is_asked_for(text: str) -> None:
    tokens = TokenScanner(f"x {text}", Session())
    assert tokens.take().text == "x"
    for nth in (5, 2):
        with pytest.raises(Unsupported, match="cannot be parsed"):
            tokens.peek(nth)


def test_no_more_is_read_than_is_asked_for() -> None:
    tokens = TokenScanner("INSERT INTO t VALUES " + "(1)," * 1000, Session())
    assert (tokens.peek(2).text, tokens.count) == ("t", 3)


@given(st.text(alphabet="ab1 '\"`\\/*!#-\n.,()ü", max_size=40))
def test_tokens_and_what_is_between_them_are_the_text(text: str) -> None:
    try:
        pieces = list(scan(text, Session()))
    except Unsupported:
        return
    offsets = [(piece.start, piece.stop) for piece in pieces]
    assert offsets == sorted(offsets)
    assert all(a[1] <= b[0] for a, b in pairwise(offsets))
    assert all(text[piece.start : piece.stop] for piece in pieces)
    assert all(
        isinstance(piece, VersionedCommentMark) or piece.is_double or piece.kind != "word" or piece.text.strip()
        for piece in pieces
    )
