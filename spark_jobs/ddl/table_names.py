"""The tables that a statement changes, by their names in it.

Each kind of statement is read as far as these names stand in it: of an INSERT that is its head, whatever values follow.
Tables that a statement only reads, in a SELECT or as the model of a new table, are not among them.

Source: MySQL manual, "Data Manipulation Statements", "Data Definition Statements"; sql/sql_yacc.yy; MariaDB Knowledge
Base, the same.

Put here: the grammar around names. Not here: tokens (scanner.py), what a statement does (classify.py).
"""

from collections.abc import Callable, Iterator

from spark_jobs.ddl.scanner import Token, TokenScanner
from spark_jobs.errors import Unsupported

QualifiedName = tuple[str | None, str]
"""Schema, None for the session's default one, and table, as they are written."""

_INSERT_MODIFIERS = ("LOW_PRIORITY", "HIGH_PRIORITY", "DELAYED", "IGNORE")
_UPDATE_MODIFIERS = ("LOW_PRIORITY", "IGNORE")
_DELETE_MODIFIERS = ("LOW_PRIORITY", "QUICK", "IGNORE")
_JOINS = ("JOIN", "STRAIGHT_JOIN")
_BEHIND_TABLE = {
    *("ON", "USING", "JOIN", "INNER", "CROSS", "LEFT", "RIGHT", "NATURAL", "STRAIGHT_JOIN", "OUTER", "PARTITION"),
    *("USE", "FORCE", "IGNORE", "SET", "WHERE", "ORDER", "LIMIT", "FOR", "RETURNING", "GROUP", "UNION", "TABLESAMPLE"),
}
"""Words behind a table's name that are no alias of it."""
_QUERIES = ("SELECT", "WITH", "VALUES", "TABLE")


def names_in(verb: str, tokens: TokenScanner) -> list[QualifiedName]:
    """The tables that a statement changes. verb: the word that it begins with, which comes next in ``tokens``.

    Raises Unsupported where that cannot be read.
    """
    reader = _READERS.get(verb)
    if reader is None:
        raise Unsupported(f"it cannot be parsed: {verb} is not known")
    tokens.take()
    names = reader(tokens)
    if not names:
        raise Unsupported("it cannot be parsed: it names no table")
    return list(dict.fromkeys(names))


def query_of_create(tokens: TokenScanner) -> bool:
    """True if a CREATE TABLE, whose name was read, has a query after it that fills the table. Raises Unsupported."""
    tokens.takes("AS")
    if tokens.peek().among("("):
        if _begins_query(tokens):
            return True
        tokens.skip_enclosed()
    while tokens.peek().kind != "end":
        if tokens.peek().among("("):
            if _begins_query(tokens):
                return True
            tokens.skip_enclosed()
        elif tokens.take().among("SELECT", "VALUES", "TABLE"):
            return True
    return False


def _begins_query(tokens: TokenScanner) -> bool:
    """True if a query begins after the parentheses that come next."""
    at = 0
    while tokens.peek(at).among("("):
        at += 1
    return tokens.peek(at).among(*_QUERIES)


def _next_table_name(tokens: TokenScanner) -> QualifiedName:
    """The table's name that comes next. Raises Unsupported."""
    if tokens.takes("."):  # ODBC's way to say the default schema
        return None, _name_part(tokens)
    first = _name_part(tokens)
    if tokens.peek().among(".") and not tokens.peek(1).among("*"):
        tokens.take()
        return first, _name_part(tokens)
    return None, first


def _name_part(tokens: TokenScanner) -> str:
    token = tokens.take()
    if not token.may_be_name:
        raise Unsupported(f"it cannot be parsed: a name is missing before {token.text or 'its end'}")
    return token.text


def _skip(tokens: TokenScanner, *words: str) -> None:
    while tokens.takes(*words):
        pass


def _tables_of_insert(tokens: TokenScanner) -> list[QualifiedName]:
    _skip(tokens, *_INSERT_MODIFIERS)
    tokens.takes("INTO")
    return [_next_table_name(tokens)]


def _tables_of_load(tokens: TokenScanner) -> list[QualifiedName]:
    """LOAD DATA and LOAD XML: the name stands behind INTO TABLE."""
    while not (tokens.peek().among("INTO") and tokens.peek(1).among("TABLE")):
        if tokens.take().kind == "end":
            raise Unsupported("it cannot be parsed: INTO TABLE is missing")
    tokens.take()
    tokens.take()
    return [_next_table_name(tokens)]


def _tables_of_update(tokens: TokenScanner, apart: frozenset[str] = frozenset()) -> list[QualifiedName]:
    """All tables that are joined: which of them has a column is not in the statement. apart: names of its queries."""
    _skip(tokens, *_UPDATE_MODIFIERS)
    return _table_references(_references(tokens, "SET"), apart)


def _tables_of_delete(tokens: TokenScanner, apart: frozenset[str] = frozenset()) -> list[QualifiedName]:
    _skip(tokens, *_DELETE_MODIFIERS)
    if not tokens.takes("FROM"):
        targets = _deleted(tokens)
        if not tokens.takes("FROM"):
            raise Unsupported("it cannot be parsed: FROM is missing")
        return _aliased(targets, list(_references(tokens, "WHERE", "ORDER", "LIMIT", "RETURNING")), apart)
    targets = _deleted(tokens)
    if tokens.takes("USING"):
        return _aliased(targets, list(_references(tokens, "WHERE", "ORDER", "LIMIT", "RETURNING")), apart)
    return targets


def _deleted(tokens: TokenScanner) -> list[QualifiedName]:
    """The list of tables in front of FROM or USING; each may have ``.*`` after it."""
    names = [_listed_table(tokens)]
    while tokens.takes(","):
        names.append(_listed_table(tokens))
    return names


def _listed_table(tokens: TokenScanner) -> QualifiedName:
    name = _next_table_name(tokens)
    if tokens.peek().among(".") and tokens.peek(1).among("*"):
        tokens.take()
        tokens.take()
    return name


def _aliased(
    targets: list[QualifiedName], references: list[tuple[QualifiedName, str | None]], apart: frozenset[str]
) -> list[QualifiedName]:
    """The tables that names in a DELETE's list stand for; all that are joined where one of them stands for none."""
    names = list[QualifiedName]()
    for schema, table in targets:
        by_alias = [name for name, alias in references if schema is None and _is_same(alias, table)]
        by_name = [name for name, alias in references if alias is None and _is(name, schema, table)]
        if not by_alias + by_name:
            return _table_references(iter(references), apart) + targets
        names += by_alias or by_name
    return names


def _is_same(left: str | None, right: str) -> bool:
    return left is not None and left.casefold() == right.casefold()


def _is(name: QualifiedName, schema: str | None, table: str) -> bool:
    return _is_same(name[1], table) and (schema is None or name[0] is None or _is_same(name[0], schema))


def _table_references(
    references: Iterator[tuple[QualifiedName, str | None]], apart: frozenset[str]
) -> list[QualifiedName]:
    return [name for name, _ in references if name[0] is not None or name[1].casefold() not in apart]


def _references(tokens: TokenScanner, *ends: str) -> Iterator[tuple[QualifiedName, str | None]]:
    """The tables of a list of joined ones, each with its alias; those of queries in it are ignored.

    ends: the keywords after it. Raises Unsupported.
    """
    depth, is_next, before = 0, True, Token("", "end", 0, 0)
    while True:
        token = tokens.peek()
        if token.kind == "end" or (depth <= 0 and token.among(*ends, ";")):
            return
        if is_next and token.among("(", "{") and not tokens.peek(1).among(*_QUERIES):
            tokens.take()
            depth += 1
            tokens.takes("OJ")
        elif token.among("("):
            tokens.skip_enclosed()
            is_next = False
        elif is_next and _is_table(tokens):
            yield _next_table_name(tokens), _alias(tokens)
            is_next = False
        else:
            tokens.take()
            depth -= token.among(")", "}")
            is_joined = token.among(",", *_JOINS) and not before.among("FOR")  # USE INDEX FOR JOIN (…)
            is_next = is_joined or (is_next and token.among("LATERAL"))
        before = token


def _is_table(tokens: TokenScanner) -> bool:
    """True if a name comes next where one belongs, and not LATERAL, or JSON_TABLE and its arguments."""
    token = tokens.peek()
    is_function = token.kind == "word" and tokens.peek(1).among("(")
    return not is_function and not token.among("LATERAL", ")", "}")


def _alias(tokens: TokenScanner) -> str | None:
    if tokens.peek().among("PARTITION"):
        tokens.take()
        if tokens.peek().among("("):
            tokens.skip_enclosed()
    if tokens.takes("AS"):
        return _name_part(tokens)
    token = tokens.peek()
    is_alias = token.may_be_name and not (token.kind == "word" and token.text.upper() in _BEHIND_TABLE)
    return tokens.take().text if is_alias else None


def _tables_of_with(tokens: TokenScanner) -> list[QualifiedName]:
    """WITH … UPDATE, DELETE: the queries have names of their own."""
    tokens.takes("RECURSIVE")
    # Names of the common table expressions, whose bodies are skipped: a table with such a name is not meant.
    apart = set[str]()
    while True:
        apart.add(_name_part(tokens).casefold())
        while not tokens.peek().among("AS"):
            if not tokens.peek().among("("):
                raise Unsupported("it cannot be parsed: AS is missing")
            tokens.skip_enclosed()
        tokens.take()
        if not tokens.peek().among("("):
            raise Unsupported("it cannot be parsed: a query is missing")
        tokens.skip_enclosed()
        if not tokens.takes(","):
            break
    # The statement that the expressions belong to.
    if tokens.takes("UPDATE"):
        return _tables_of_update(tokens, frozenset(apart))
    if tokens.takes("DELETE"):
        return _tables_of_delete(tokens, frozenset(apart))
    if tokens.takes("INSERT", "REPLACE"):
        return _tables_of_insert(tokens)
    raise Unsupported("it cannot be parsed: neither UPDATE nor DELETE follows WITH")


_OBJECTS = ("TABLE", "TABLES", "INDEX", "SEQUENCE")


def _skip_to_object(tokens: TokenScanner) -> str:
    """Take what is in front of TABLE or INDEX, and that."""
    for _ in range(8):
        token = tokens.take()
        if token.among(*_OBJECTS):
            return token.text.upper()
    raise Unsupported("it cannot be parsed: TABLE is missing")


def _skip_condition(tokens: TokenScanner) -> None:
    """IF EXISTS, IF NOT EXISTS."""
    if tokens.peek().among("IF") and tokens.peek(1).among("EXISTS", "NOT"):
        _skip(tokens, "IF", "NOT", "EXISTS")


def _tables_of_create(tokens: TokenScanner) -> list[QualifiedName]:
    return _table_of_index(tokens) if _skip_to_object(tokens) == "INDEX" else _single_table(tokens)


def _table_of_index(tokens: TokenScanner) -> list[QualifiedName]:
    _skip_condition(tokens)
    tokens.take()  # the index
    while not tokens.peek().among("ON"):
        if tokens.take().kind == "end":
            raise Unsupported("it cannot be parsed: ON is missing")
    tokens.take()
    return [_next_table_name(tokens)]


def _single_table(tokens: TokenScanner) -> list[QualifiedName]:
    _skip_condition(tokens)
    return [_next_table_name(tokens)]


def _tables_of_drop(tokens: TokenScanner) -> list[QualifiedName]:
    if _skip_to_object(tokens) == "INDEX":
        return _table_of_index(tokens)
    _skip_condition(tokens)
    return _deleted(tokens)


def _tables_of_truncate(tokens: TokenScanner) -> list[QualifiedName]:
    tokens.takes("TABLE")
    return [_next_table_name(tokens)]


def _tables_of_rename(tokens: TokenScanner) -> list[QualifiedName]:
    _skip_to_object(tokens)
    _skip_condition(tokens)
    names = list[QualifiedName]()
    while True:
        names.append(_next_table_name(tokens))
        while not tokens.peek().among("TO", "AS"):  # MariaDB: WAIT 5, NOWAIT
            if tokens.take().kind == "end":
                raise Unsupported("it cannot be parsed: TO is missing")
        tokens.take()
        names.append(_next_table_name(tokens))
        if not tokens.takes(","):
            return names


def _tables_of_alter(tokens: TokenScanner) -> list[QualifiedName]:
    """The table, the name that it is given, and those that it takes rows from or gives rows to."""
    _skip_to_object(tokens)
    names = _single_table(tokens)
    while tokens.peek().kind != "end":
        token = tokens.take()
        if token.among("("):
            _skip_rest(tokens)
        elif token.among("TABLE") and tokens.peek().may_be_name:  # EXCHANGE PARTITION … WITH TABLE, CONVERT TABLE
            names.append(_next_table_name(tokens))
        elif token.among("RENAME") and not tokens.peek().among("COLUMN", "INDEX", "KEY", "CONSTRAINT"):
            _skip(tokens, "TO", "AS", "=")
            names.append(_next_table_name(tokens))
    return names


def _skip_rest(tokens: TokenScanner) -> None:
    """Skip tokens after an opening parenthesis up to the closing one."""
    depth = 1
    while depth:
        token = tokens.take()
        if token.kind == "end":
            raise Unsupported("it cannot be parsed: a parenthesis is not closed")
        depth += token.among("(") - token.among(")")


_READERS: dict[str, Callable[[TokenScanner], list[QualifiedName]]] = {
    "INSERT": _tables_of_insert,
    "REPLACE": _tables_of_insert,
    "UPDATE": _tables_of_update,
    "DELETE": _tables_of_delete,
    "LOAD": _tables_of_load,
    "WITH": _tables_of_with,
    "CREATE": _tables_of_create,
    "DROP": _tables_of_drop,
    "TRUNCATE": _tables_of_truncate,
    "RENAME": _tables_of_rename,
    "ALTER": _tables_of_alter,
}
