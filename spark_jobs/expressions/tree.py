"""Parser of expressions: text -> tree, by sqlglot; and the error about a part of one.

Put here: reading the text. Not here: what a tree may say, or its values (compiler.py).
"""

import logging
from functools import lru_cache
from itertools import pairwise

import sqlglot
from sqlglot import Token, exp
from sqlglot.errors import SqlglotError

from spark_jobs.errors import ConfigError

logging.getLogger("sqlglot").setLevel(logging.ERROR)  # it warns of what it leaves unparsed; here that is an error

MOST_LEVELS = 100
"""Greatest depth of an expression; a chain of ANDs or ORs nests once a link."""
_TOO_DEEP = f"nests more than {MOST_LEVELS} levels deep; write several rules, or IN (...) in the place of ORs"


@lru_cache(maxsize=4096)
def tree_of(text: str) -> exp.Expr:
    """An expression of MySQL: the same tree each time, which nobody changes. Raises ConfigError."""
    try:
        trees = sqlglot.parse(text, read="mysql")
        tokens = sqlglot.tokenize(text, read="mysql")
    except RecursionError:
        raise ConfigError(_TOO_DEEP) from None
    except SqlglotError as error:
        message = str(error).splitlines()[0].split(" Line ")[0].rstrip(".")
        raise ConfigError(f"{text!r} is no expression of MySQL: {message}") from error
    _require_plain(text, tokens)
    if len(trees) != 1 or not isinstance(trees[0], exp.Expr):
        raise ConfigError(f"{text!r} must be one expression")
    if _levels(trees[0]) > MOST_LEVELS:
        raise ConfigError(_TOO_DEEP)
    return trees[0]


def _require_plain(text: str, tokens: list[Token]) -> None:
    """Check that servers read the text alike: no comments, which some execute, no ``!`` after ``=``.

    Raises ConfigError.
    """
    if any(token.comments for token in tokens):
        raise ConfigError(f"{text!r} has a comment; write it without")
    for token, following in pairwise(tokens):
        word = text[token.start : following.end + 1]
        if text[following.start] == "!" and not {*word} - {*"!<>="}:
            raise ConfigError(f"{text!r}: `{word}` is one word to MySQL; put a space between")


def names_in(tree: exp.Expr) -> frozenset[str]:
    """The names of columns in a tree, in small letters."""
    return frozenset(str(column.name).casefold() for column in tree.find_all(exp.Column))


def refused(node: exp.Expr, reason: str) -> ConfigError:
    """The error about a part of an expression."""
    return ConfigError(f"`{node.sql(dialect='mysql')}` {reason}")


def _levels(tree: exp.Expr) -> int:
    """Depth of a tree."""
    count, level = 0, [tree]
    while level:
        count += 1
        level = [child for node in level for child in node.iter_expressions()]
    return count
