"""ALTER TABLE, CREATE TABLE and CREATE INDEX read into operations and definitions.

Source: MySQL manual, "ALTER TABLE Statement", "CREATE TABLE Statement".

Put here: words of a statement to operations. Not here: column definitions (columns.py), applying operations (alter.py).
"""

from collections.abc import Iterator, Sequence
from dataclasses import replace
from itertools import pairwise

from spark_jobs.binlog import TableDefinition, TableName
from spark_jobs.ddl.columns import DeclaredColumn, Word, declared_column, is_of_any_set, words_of
from spark_jobs.ddl.default_values import with_default
from spark_jobs.ddl.definitions import PRIMARY
from spark_jobs.ddl.operations import (
    FIRST,
    Add,
    AddPrimary,
    AddUnique,
    Change,
    Convert,
    Default,
    Drop,
    DropIndex,
    DropPrimary,
    Operation,
    RenameTable,
    Visible,
)
from spark_jobs.ddl.unreadable_types import readable
from spark_jobs.errors import Unsupported

_KEYS = {"INDEX", "KEY", "UNIQUE", "FULLTEXT", "SPATIAL", "FOREIGN", "CONSTRAINT", "CHECK"}
_NO_COLUMN = {
    *("ENGINE", "AUTO_INCREMENT", "COMMENT", "AVG_ROW_LENGTH", "CHECKSUM", "COMPRESSION", "CONNECTION", "ENCRYPTION"),
    *("DELAY_KEY_WRITE", "INSERT_METHOD", "KEY_BLOCK_SIZE", "MAX_ROWS", "MIN_ROWS", "PACK_KEYS", "PASSWORD"),
    *("ENGINE_ATTRIBUTE", "SECONDARY_ENGINE_ATTRIBUTE", "IETF_QUOTES"),
    *("ROW_FORMAT", "STATS_AUTO_RECALC", "STATS_PERSISTENT", "STATS_SAMPLE_PAGES", "DEFAULT", "CHARACTER", "CHARSET"),
    *("COLLATE", "ALGORITHM", "LOCK", "FORCE", "ENABLE", "DISABLE", "WITH", "WITHOUT", "PAGE_CHECKSUM"),
    *("PAGE_COMPRESSED", "PAGE_COMPRESSION_LEVEL", "ENCRYPTED", "ENCRYPTION_KEY_ID", "TRANSACTIONAL"),
    *(
        "SECONDARY_ENGINE",
        "TABLESPACE",
        "STORAGE",
        "AUTOEXTEND_SIZE",
        "NOWAIT",
        "WAIT",
        "SECONDARY_LOAD",
        "SECONDARY_UNLOAD",
    ),
}
"""Options of tables and of how the statement is carried out."""
_NO_COLUMN_BY_TWO = {("CHECK", "PARTITION"), ("DATA", "DIRECTORY"), ("INDEX", "DIRECTORY")}
"""The same, of two words."""
_WHOLE = {"ORDER", "PARTITION", "REORGANIZE", "COALESCE", "REMOVE", "ANALYZE", "OPTIMIZE", "REBUILD", "REPAIR"}
"""Clauses that continue to the statement's end, and leave rows and columns as they are."""


@readable
def operations(text: str) -> list[Operation]:
    """Operations of an ALTER TABLE on columns and keys; empty where only options and the like change.

    Raises Unsupported for what changes rows in another way, and for what is not known.
    """
    words = _behind_name(words_of(text))
    clauses: list[Operation] = []
    for part in comma_parts(_without_partitioning(words)):
        if part[0].among(*_WHOLE):
            break
        clauses += _operations(part)
    return clauses


def _without_partitioning(words: list[Word]) -> list[Word]:
    """The words up to PARTITION BY or REMOVE PARTITIONING, which ends a statement, with a comma before it or without.

    Rows and columns are left as they are by it.
    """
    ends = (("PARTITION", "BY"), ("REMOVE", "PARTITIONING"))
    at = next(
        (k for k, pair in enumerate(pairwise(words)) if any(pair[0].among(a) and pair[1].among(b) for a, b in ends)),
        None,
    )
    return words if at is None else words[:at]


@readable
def new_name(text: str) -> RenameTable | None:
    """The name that an ALTER TABLE gives its table, whatever else it does; None where it gives none."""
    for part in comma_parts(after_name(words_of(text))):
        clauses = _rename(part[1:], "RENAME") if part[0].among("RENAME") and len(part) > 1 else []
        if clauses and isinstance(clauses[0], RenameTable):
            return clauses[0]
    return None


@readable
def target(text: str, database: str) -> TableName:
    """The table that a CREATE TABLE, ALTER TABLE or TRUNCATE is about: the first that it names. Raises Unsupported."""
    return _table_names(words_of(text), database)[0]


@readable
def dropped_tables(text: str, database: str) -> list[TableName]:
    """The tables of a DROP TABLE. Raises Unsupported."""
    return _table_names(words_of(text), database)


def _table_names(words: list[Word], database: str) -> list[TableName]:
    """The names that stand behind TABLE, with commas between them."""
    tables = []
    for part in comma_parts(words[_name_at(words) :]):
        schema, table = qualified_name(part)
        tables.append(TableName(database if schema is None else schema, table))
    if not tables:
        raise Unsupported("it names no table")
    return tables


@readable
def created_definition(name: TableName, text: str) -> TableDefinition | None:
    """Table that a CREATE TABLE defines; None for one that takes its columns from another table. Raises Unsupported."""
    words = _behind_name(words_of(text))
    # CREATE … LIKE and CREATE … SELECT take their columns from another table.
    if not words or not words[0].among("(") or words[1].among("LIKE", "SELECT", "WITH", "TABLE", "("):
        return None
    options = words[len(enclosed_words(words)) + 2 :]
    if any(word.among("SELECT", "AS") for word in options):
        return None
    charset = default_charset(options)
    # Columns and keys in the order of the text; PRIMARY and UNIQUE may stand in a column too.
    columns, key, uniques, periods = [], list[str](), list[AddUnique](), list[str]()
    for part in comma_parts(enclosed_words(words)):
        if is_primary(part):
            key = _key_columns(part)
        elif _is_unique(part):
            uniques.append(_unique(part))
        elif is_period(part):
            periods += [word.text for word in enclosed_words(part[3:])]
        elif not _is_key(part):
            parsed = declared_column(part[0].text, part[1:], charset)
            columns.append(parsed)
            key += [part[0].text] if parsed.in_key else []
            uniques += [AddUnique("", (part[0].text,))] if parsed.is_unique else []
    # Columns of a primary key, and those of a period, are NOT NULL without saying it.
    completed_columns = [with_default(column) for column in columns]
    names = [str(column.name).casefold() for column in completed_columns]
    ordinals = tuple(name_index(names, part) for part in key)
    filled = {*ordinals, *(name_index(names, part) for part in periods if part != ",")}
    completed_columns = [replace(c, nullable=False) if o in filled else c for o, c in enumerate(completed_columns)]
    if key:
        return TableDefinition(name, tuple(completed_columns), ordinals, PRIMARY)
    return TableDefinition(name, tuple(completed_columns), *instead_of_primary(columns, uniques))


def _key_columns(part: Sequence[Word]) -> list[str]:
    """The columns of a primary key, in its order."""
    return [word.text for word in enclosed_words(part[part.index(Word("(", "sign")) :]) if _is_name(word)]


def _is_unique(part: Sequence[Word]) -> bool:
    return any(word.among("UNIQUE") for word in part[:3]) and part[0].among("UNIQUE", "CONSTRAINT")


def _is_key(part: Sequence[Word]) -> bool:
    """True if a key or a constraint is defined, and no column. VECTOR is a word that may name a column."""
    is_vector = part[0].among("VECTOR") and len(part) > 1 and part[1].among("INDEX", "KEY")
    return is_vector or part[0].among(*_KEYS)


def _unique(part: Sequence[Word]) -> AddUnique:
    """Read ``[CONSTRAINT [name]] UNIQUE [INDEX | KEY] [IF NOT EXISTS] [name] [USING …] (…)``."""
    at = next(k for k, word in enumerate(part) if word.among("UNIQUE"))
    open_ = next((k for k, word in enumerate(part) if k > at and word.among("(")), len(part))
    name = [word.text for word in part[at + 1 : open_] if not word.among(*_BEFORE_COLUMNS)]
    inside = enclosed_words(part[open_:])
    is_plain = not any(word.among("(") for word in inside)
    columns = tuple(word.text for word in inside if _is_name(word))
    return AddUnique((name or [""])[0], columns if is_plain else None)


_BEFORE_COLUMNS = ("INDEX", "KEY", "USING", "BTREE", "HASH", "IF", "NOT", "EXISTS")


def instead_of_primary(
    columns: Sequence[DeclaredColumn], uniques: Sequence[AddUnique]
) -> tuple[tuple[int, ...], str | None]:
    """Key and index of a table without a primary key: the first unique index whose columns are all NOT NULL, if any.

    An index of which that is not certain (a prefix may hold the whole value, a TIMESTAMP may be NOT NULL by default) is
    skipped. Where none is left, rows are identified by all columns.
    """
    names = [str(column.column.name).casefold() for column in columns]
    for unique in uniques:
        ordinals = tuple(name_index(names, name) for name in unique.columns or ())
        if ordinals and not any(columns[o].column.nullable or columns[o].is_computed for o in ordinals):
            return ordinals, unique.name
    return (), None


def default_charset(options: Sequence[Word]) -> str | None:
    """The character set that options name, or the collation; None without one, or for the default of what is around.

    A character set behind a collation has its own default again. MariaDB's collations of any set stand behind theirs;
    without one they are of the default's.
    """
    plain = [word for word in options if not word.among("=", "SET")]
    found: str | None = None
    for option, value in pairwise(plain):
        if option.among("CHARSET", "CHARACTER", "COLLATE"):
            name = value.text.lower()
            if not is_of_any_set(name):
                found = name
            elif found:
                found = f"{found.partition('_')[0]}_{name}"
    return None if found == "default" else found


def is_primary(part: Sequence[Word]) -> bool:
    """True if it begins with PRIMARY KEY, or with CONSTRAINT name PRIMARY KEY."""
    return part[0].among("PRIMARY") or (part[0].among("CONSTRAINT") and any(w.among("PRIMARY") for w in part[1:3]))


def name_index(names: Sequence[str], column: str) -> int:
    """Index of a column, by its name in small letters. Raises Unsupported for what is none, such as a period."""
    if column.casefold() not in names:
        raise Unsupported(f"{column}, which a key is made of, is no column")
    return names.index(column.casefold())


def is_period(part: Sequence[Word]) -> bool:
    """True if it is MariaDB's PERIOD FOR name (start, end), and no column of that name."""
    return len(part) > 3 and part[0].among("PERIOD") and part[1].among("FOR")


def _is_name(word: Word) -> bool:
    return word.kind in ("word", "name") and not word.among("ASC", "DESC")


def enclosed_words(words: Sequence[Word]) -> list[Word]:
    """Words in the parentheses that the words begin with."""
    depth = 0
    for at, word in enumerate(words):
        depth += word.among("(") - word.among(")")
        if not depth:
            return list(words[1:at])
    return list(words[1:])


@readable
def is_if_missing(text: str) -> bool:
    """True if IF NOT EXISTS stands before the name in a CREATE TABLE."""
    words = words_of(text)
    at = _name_at(words)
    return [word.text.upper() for word in words[at - 3 : at]] == ["IF", "NOT", "EXISTS"]


def _name_at(words: Sequence[Word]) -> int:
    at = next((k for k, word in enumerate(words) if word.among("TABLE", "TABLES")), 0) + 1  # TRUNCATE may lack it
    ahead = [word.text.upper() for word in words[at : at + 3]]
    return at + (3 if ahead == ["IF", "NOT", "EXISTS"] else 2 if ahead[:2] == ["IF", "EXISTS"] else 0)


def _behind_name(words: list[Word]) -> list[Word]:
    if any(word.among("IGNORE") for word in words[: _name_at(words)]):
        raise Unsupported("IGNORE drops rows that the log does not name")
    return after_name(words)


def after_name(words: list[Word]) -> list[Word]:
    """Words after the name of the statement's table, and after MariaDB's WAIT n or NOWAIT."""
    at = _name_at(words)
    at += 3 if len(words) > at + 1 and words[at + 1].among(".") else 1
    if len(words) > at:
        at += 2 if words[at].among("WAIT") else words[at].among("NOWAIT")
    return [word for word in words[at:] if not word.among(";")]


def qualified_name(words: Sequence[Word]) -> tuple[str | None, str]:
    """The schema, where one is named, and the table that words begin with. Raises IndexError where there are none."""
    pair = len(words) > 2 and words[1].among(".")
    return (words[0].text, words[2].text) if pair else (None, words[0].text)


def comma_parts(words: Sequence[Word]) -> Iterator[list[Word]]:
    """Words cut at commas that stand in no parentheses."""
    depth, part = 0, list[Word]()
    for word in words:
        depth += word.among("(") - word.among(")")
        if word.among(",") and not depth:
            yield part
            part = []
        else:
            part.append(word)
    if part:
        yield part


def _operations(part: list[Word]) -> list[Operation]:
    head, rest = part[0], part[1:]
    readers = {
        "ADD": _add_operations,
        "DROP": _drop,
        "MODIFY": _change_column,
        "CHANGE": _change_column,
        "RENAME": _rename,
        "CONVERT": _convert,
    }
    readers |= {"ALTER": _default}
    for verb, reader in readers.items():
        if head.among(verb) and rest:
            return reader(rest, verb)
    # Clauses that concern no column change nothing here.
    pair = (head.text.upper(), rest[0].text.upper()) if rest and head.kind == "word" else None
    if head.among(*_NO_COLUMN) or pair in _NO_COLUMN_BY_TWO:
        return []
    raise Unsupported(f"{' '.join(word.text for word in part[:4])} is not handled")


def _add_operations(rest: list[Word], _: str) -> list[Operation]:
    if rest[0].among("COLUMN"):
        rest = rest[1:]
    elif is_primary(rest):
        return [AddPrimary(tuple(_key_columns(rest)))]
    elif _is_unique(rest):
        return [_unique(rest)]
    elif _is_key(rest) or rest[0].among("PARTITION"):
        return []
    elif rest[0].among("SYSTEM", "PERIOD") and len(rest) > 1 and rest[1].among("VERSIONING", "FOR"):
        raise Unsupported("rows of system-versioned tables are not merged")
    if_missing = rest[0].among("IF")
    rest = rest[3:] if if_missing else rest
    if rest[0].among("("):
        return [column for part in comma_parts(rest[1:-1]) for column in _columns(part, if_missing=if_missing)]
    return _columns(rest, if_missing=if_missing)


def _columns(part: list[Word], *, if_missing: bool) -> list[Operation]:
    if is_primary(part):
        return [AddPrimary(tuple(_key_columns(part)))]
    if _is_key(part):
        return [_unique(part)] if _is_unique(part) else []
    name, (words, after) = part[0].text, _with_position(part[1:])
    return [Add(declared_column(name, words), after, if_missing)]


def _drop(rest: list[Word], _: str) -> list[Operation]:
    if rest[0].among("COLUMN"):
        rest = rest[1:]
    elif rest[0].among("PRIMARY") or (rest[0].among(*_KEYS) and rest[-1].text.upper() == "PRIMARY"):
        return [DropPrimary()]
    elif rest[0].among("INDEX", "KEY", "CONSTRAINT"):
        return [DropIndex(rest[-1].text)]
    elif rest[0].among(*_KEYS):
        return []
    elif rest[0].among("PARTITION", "SYSTEM") and len(rest) > 1:
        raise Unsupported(f"DROP {rest[0].text} drops rows that the log does not name")
    if_there = rest[0].among("IF") and len(rest) > 2
    return [Drop(rest[2 if if_there else 0].text, if_there)]


def _change_column(rest: list[Word], verb: str) -> list[Operation]:
    rest = rest[1:] if rest[0].among("COLUMN") else rest
    if_there = rest[0].among("IF")
    rest = rest[2:] if if_there else rest
    old, new = rest[0].text, rest[verb == "CHANGE"].text
    words, after = _with_position(rest[2 if verb == "CHANGE" else 1 :])
    column = declared_column(new, words)
    if column.is_computed:
        raise Unsupported(f"the values of column {new} are computed, which is not in the log")
    return [Change(old, new, column, after, if_there)]


def _rename(rest: list[Word], _: str) -> list[Operation]:
    if rest[0].among("INDEX", "KEY"):
        return [DropIndex(rest[-3].text)]
    if rest[0].among("COLUMN"):
        if_there = rest[1].among("IF") and len(rest) > 4
        return [Change(rest[3 if if_there else 1].text, rest[-1].text, if_there=if_there)]
    name = rest[1:] if rest[0].among("TO", "AS", "=") and len(rest) > 1 else rest
    return [RenameTable(*qualified_name(name))]


def _default(rest: list[Word], _: str) -> list[Operation]:
    """Operations of an ALTER of a column; ALTER INDEX, CHECK and CONSTRAINT change none."""
    if rest[0].among("INDEX", "KEY", "CHECK", "CONSTRAINT") and not (len(rest) > 1 and rest[1].among("SET", "DROP")):
        return []
    rest = rest[1:] if rest[0].among("COLUMN") and len(rest) > 1 and not rest[1].among("SET", "DROP") else rest
    rest = rest[2:] if rest[0].among("IF") and len(rest) > 2 else rest
    at = next((k for k, word in enumerate(rest) if k and word.among("DEFAULT")), None)
    if at is None and rest[-1].among("VISIBLE", "INVISIBLE"):
        return [Visible(rest[0].text, rest[-1].among("VISIBLE"))]
    if at is None:
        return []
    return [Default(rest[0].text, None if rest[at - 1].among("DROP") else tuple(rest[at + 1 :]))]


def _convert(rest: list[Word], _: str) -> list[Operation]:
    if rest[0].among("PARTITION", "TABLE"):
        raise Unsupported(f"CONVERT {rest[0].text} moves rows that the log does not name")
    return [Convert(default_charset(rest) or "default")]


def _with_position(words: list[Word]) -> tuple[list[Word], str | None]:
    """A definition without the position that may stand at its end, and that position."""
    if words and words[-1].among("FIRST"):
        return words[:-1], FIRST
    if len(words) > 1 and words[-2].among("AFTER"):
        return words[:-2], words[-1].text
    return words, None


@readable
def storage_action(text: str, database: str) -> tuple[str, TableName | None] | None:
    """Action of an ALTER TABLE on a partition or a tablespace, and the table that rows come from or go to.

    None where it does nothing of the kind: such an action stands alone, with options of how it is carried out at most.
    Raises Unsupported.
    """
    clauses = (part for part in comma_parts(after_name(words_of(text))) if not part[0].among("ALGORITHM", "LOCK"))
    part = next(clauses, [])
    action = " ".join(word.text.upper() for word in part[:2] if word.kind == "word")  # and no column `partition`
    if action not in _OF_STORAGE:
        return None
    at = next((k for k, word in enumerate(part) if word.among("TABLE")), None)
    if at is None:
        return action, None
    schema, table = qualified_name(part[at + 1 :])
    return action, TableName(database if schema is None else schema, table)


_OF_STORAGE = {
    *("DROP PARTITION", "TRUNCATE PARTITION", "EXCHANGE PARTITION", "DISCARD PARTITION", "IMPORT PARTITION"),
    *("DISCARD TABLESPACE", "IMPORT TABLESPACE", "CONVERT PARTITION", "CONVERT TABLE"),
}


@readable
def index_changes(text: str, database: str) -> tuple[TableName, tuple[AddUnique | DropIndex, ...]]:
    """The table of a CREATE INDEX or DROP INDEX, and what that does; nothing for an index that is not unique.

    Raises Unsupported where it cannot be read.
    """
    words = words_of(text)
    on = next((k for k, word in enumerate(words) if word.among("ON")), len(words) - 1)
    if not words[on + 1 :]:
        raise Unsupported("it names no table")
    schema, table = qualified_name(words[on + 1 :])
    at = next(k for k, word in enumerate(words) if word.among("INDEX")) + 1
    if words[at].among("IF"):
        at += 3 if words[at + 1].among("NOT") else 2
    name, heads = words[at].text, words[:at]
    changes = list[AddUnique | DropIndex]()
    if any(word.among("DROP", "REPLACE") for word in heads):
        changes.append(DropIndex(name))
    if any(word.among("UNIQUE") for word in heads):
        changes.append(AddUnique(name, _unique([Word("UNIQUE", "word"), *words[on + 1 :]]).columns))
    return TableName(database if schema is None else schema, table), tuple(changes)
