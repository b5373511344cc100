"""ALTER TABLE and CREATE TABLE: what they do to a table's columns, and the definition that they lead to.

Source: MySQL manual, "ALTER TABLE Statement", "CREATE TABLE Statement"; the order in which changes of columns are
carried out is that of sql/sql_table.cc (``prepare_fields_and_keys``).

Put here: reading the statement and moving a definition on. Not here: column definitions (columns.py), which values
survive (widening.py), what happens in the lake (silver/schema_evolution.py).
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise
from typing import Any

from spark_jobs.binlog import Column, Moment, TableDefinition, TableName
from spark_jobs.ddl.columns import Declared, Word, converted, declared, words_of
from spark_jobs.ddl.default_values import Fill, fill_of, with_default
from spark_jobs.ddl.definitions import PRIMARY
from spark_jobs.ddl.unreadable_types import readable
from spark_jobs.errors import Unsupported

FIRST = ""
"""Place of a column that comes before all others."""


@dataclass(frozen=True, slots=True)
class Add:
    """``after``: the column that it stands behind, FIRST, or None for the end."""

    declared: Declared
    after: str | None
    if_missing: bool = False

    @property
    def name(self) -> str:
        return str(self.declared.column.name)


@dataclass(frozen=True, slots=True)
class Drop:
    """DROP COLUMN."""

    name: str
    if_there: bool = False


@dataclass(frozen=True, slots=True)
class Change:
    """CHANGE and MODIFY; RENAME COLUMN, which declares nothing. ``after``: None where the column stays in its place."""

    old: str
    new: str
    declared: Declared | None = None
    after: str | None = None
    if_there: bool = False


@dataclass(frozen=True, slots=True)
class Default:
    """ALTER COLUMN … SET DEFAULT, DROP DEFAULT: rows to come have another value, where an INSERT gives none.

    words: None where the default is dropped.
    """

    name: str
    words: tuple[Word, ...] | None


@dataclass(frozen=True, slots=True)
class Convert:
    """All text into another character set."""

    charset: str


@dataclass(frozen=True, slots=True)
class AddPrimary:
    """ADD PRIMARY KEY. columns: their names, in the key's order."""

    columns: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class DropPrimary:
    """DROP PRIMARY KEY."""


@dataclass(frozen=True, slots=True)
class AddUnique:
    """A unique index more. columns: None where a part of a value or an expression is in it."""

    name: str
    columns: tuple[str, ...] | None


@dataclass(frozen=True, slots=True)
class DropIndex:
    """DROP INDEX, and RENAME INDEX: behind it no index has the name."""

    name: str


@dataclass(frozen=True, slots=True)
class RenameTable:
    """RENAME TO: the table's new name. ``schema``: None for the session's default (sql/sql_yacc.yy, ``copy_db_to``)."""

    schema: str | None
    table: str


@dataclass(frozen=True, slots=True)
class Visible:
    """ALTER COLUMN … SET VISIBLE, SET INVISIBLE: whether SELECT * has the column."""

    name: str
    is_visible: bool


Operation = (
    Add | Drop | Change | Default | Convert | AddPrimary | DropPrimary | AddUnique | DropIndex | RenameTable | Visible
)
LEAVING_ROWS = (AddUnique, DropIndex, Visible)
"""Operations that leave every row as it is."""

_KEYS = {"INDEX", "KEY", "UNIQUE", "FULLTEXT", "SPATIAL", "FOREIGN", "CONSTRAINT", "CHECK"}
_NO_COLUMN = {
    *("ENGINE", "AUTO_INCREMENT", "COMMENT", "AVG_ROW_LENGTH", "CHECKSUM", "COMPRESSION", "CONNECTION", "ENCRYPTION"),
    *("DELAY_KEY_WRITE", "INSERT_METHOD", "KEY_BLOCK_SIZE", "MAX_ROWS", "MIN_ROWS", "PACK_KEYS", "PASSWORD"),
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
_WHOLE = {"ORDER", "PARTITION", "REORGANIZE", "COALESCE", "REMOVE", "ANALYZE", "OPTIMIZE", "REBUILD", "REPAIR"}
"""What begins with these goes on to the statement's end, and leaves rows and columns as they are."""


@readable
def operations(text: str) -> list[Operation]:
    """What an ALTER TABLE does to columns and keys; empty where only options and the like change.

    Raises Unsupported for what changes rows in another way, and for what is not known.
    """
    words = _behind_name(words_of(text))
    found: list[Operation] = []
    for part in parts(words):
        if part[0].among(*_WHOLE):
            break
        found += _operations(part)
    return found


@readable
def new_name(text: str) -> RenameTable | None:
    """The name that an ALTER TABLE gives its table, whatever else it does; None where it gives none."""
    for part in parts(_after_name(words_of(text))):
        found = _rename(part[1:], "RENAME") if part[0].among("RENAME") and len(part) > 1 else []
        if found and isinstance(found[0], RenameTable):
            return found[0]
    return None


@readable
def target(text: str, database: str) -> TableName:
    """The table that a CREATE TABLE, ALTER TABLE or TRUNCATE is about: the first that it names. Raises Unsupported."""
    return _named(words_of(text), database)[0]


@readable
def dropped(text: str, database: str) -> list[TableName]:
    """The tables of a DROP TABLE. Raises Unsupported."""
    return _named(words_of(text), database)


def _named(words: list[Word], database: str) -> list[TableName]:
    """The names that stand behind TABLE, with commas between them."""
    found = []
    for part in parts(words[_name_at(words) :]):
        schema, table = qualified(part)
        found.append(TableName(database if schema is None else schema, table))
    if not found:
        raise Unsupported("it names no table")
    return found


@readable
def created(name: TableName, text: str) -> TableDefinition | None:
    """What a CREATE TABLE defines; None for what takes its columns from another table. Raises Unsupported."""
    words = _behind_name(words_of(text))
    if not words or not words[0].among("(") or words[1].among("LIKE", "SELECT", "WITH", "TABLE", "("):
        return None
    options = words[len(_enclosed(words)) + 2 :]
    if any(word.among("SELECT", "AS") for word in options):
        return None
    charset = default_charset(options)
    columns, key, uniques, periods = [], list[str](), list[AddUnique](), list[str]()
    for part in parts(_enclosed(words)):
        if _is_primary(part):
            key = _key_columns(part)
        elif _is_unique(part):
            uniques.append(_unique(part))
        elif _is_period(part):
            periods += [word.text for word in _enclosed(part[3:])]
        elif not part[0].among(*_KEYS):
            one = declared(part[0].text, part[1:], charset)
            columns.append(one)
            key += [part[0].text] if one.in_key else []
            uniques += [AddUnique("", (part[0].text,))] if one.is_unique else []
    found = [with_default(one) for one in columns]
    names = [str(column.name).casefold() for column in found]
    ordinals = tuple(_place(names, part) for part in key)
    filled = {*ordinals, *(_place(names, part) for part in periods if part != ",")}
    found = [replace(c, nullable=False) if o in filled else c for o, c in enumerate(found)]
    if key:
        return TableDefinition(name, tuple(found), ordinals, PRIMARY)
    return TableDefinition(name, tuple(found), *_instead_of_primary(columns, uniques))


def _key_columns(part: Sequence[Word]) -> list[str]:
    """The columns of a primary key, in its order."""
    return [word.text for word in _enclosed(part[part.index(Word("(", "sign")) :]) if _is_name(word)]


def _is_unique(part: Sequence[Word]) -> bool:
    return any(word.among("UNIQUE") for word in part[:3]) and part[0].among("UNIQUE", "CONSTRAINT")


def _unique(part: Sequence[Word]) -> AddUnique:
    """Reads ``[CONSTRAINT [name]] UNIQUE [INDEX | KEY] [name] [USING …] (…)``."""
    at = next(k for k, word in enumerate(part) if word.among("UNIQUE"))
    open_ = next((k for k, word in enumerate(part) if k > at and word.among("(")), len(part))
    named = [word.text for word in part[at + 1 : open_] if not word.among("INDEX", "KEY", "USING", "BTREE", "HASH")]
    inside = _enclosed(part[open_:])
    is_plain = not any(word.among("(") for word in inside)
    columns = tuple(word.text for word in inside if _is_name(word))
    return AddUnique((named or [""])[0], columns if is_plain else None)


def _instead_of_primary(
    columns: Sequence[Declared], uniques: Sequence[AddUnique]
) -> tuple[tuple[int, ...], str | None]:
    """Key and index of a table without a primary key: the first unique index whose columns are all NOT NULL, if any.

    One of which that is not certain (a part of a value may be all of it, a TIMESTAMP may be NOT NULL unsaid) is passed
    over: rows are told apart by all columns, whatever index there is.
    """
    names = [str(one.column.name).casefold() for one in columns]
    for unique in uniques:
        ordinals = tuple(_place(names, name) for name in unique.columns or ())
        if ordinals and not any(columns[o].column.nullable or columns[o].is_computed for o in ordinals):
            return ordinals, unique.name
    return (), None


def default_charset(options: Sequence[Word]) -> str | None:
    """The character set that a table's options name, by itself or by a collation."""
    plain = [word for word in options if not word.among("=", "SET")]
    for option, value in pairwise(plain):
        if option.among("CHARSET", "CHARACTER"):
            return value.text.lower()
    found = [value.text.lower().partition("_")[0] for option, value in pairwise(plain) if option.among("COLLATE")]
    return found[0] if found else None


def _is_primary(part: Sequence[Word]) -> bool:
    """Whether it begins with PRIMARY KEY, or with CONSTRAINT name PRIMARY KEY."""
    return part[0].among("PRIMARY") or (part[0].among("CONSTRAINT") and any(w.among("PRIMARY") for w in part[1:3]))


def _place(names: Sequence[str], column: str) -> int:
    """Where a column stands, by its name in small letters. Raises Unsupported for what is none, such as a period."""
    if column.casefold() not in names:
        raise Unsupported(f"{column}, which a key is made of, is no column")
    return names.index(column.casefold())


def _is_period(part: Sequence[Word]) -> bool:
    """Whether it is MariaDB's PERIOD FOR name (start, end), and no column of that name."""
    return len(part) > 3 and part[0].among("PERIOD") and part[1].among("FOR")


def _is_name(word: Word) -> bool:
    return word.kind in ("word", "name") and not word.among("ASC", "DESC")


def _enclosed(words: Sequence[Word]) -> list[Word]:
    """What stands in the parentheses that the words begin with."""
    depth = 0
    for at, word in enumerate(words):
        depth += word.among("(") - word.among(")")
        if not depth:
            return list(words[1:at])
    return list(words[1:])


def _name_at(words: Sequence[Word]) -> int:
    at = next((k for k, word in enumerate(words) if word.among("TABLE", "TABLES")), 0) + 1  # TRUNCATE may lack it
    ahead = [word.text.upper() for word in words[at : at + 3]]
    return at + (3 if ahead == ["IF", "NOT", "EXISTS"] else 2 if ahead[:2] == ["IF", "EXISTS"] else 0)


def _behind_name(words: list[Word]) -> list[Word]:
    if any(word.among("IGNORE") for word in words[: _name_at(words)]):
        raise Unsupported("IGNORE drops rows that the log does not name")
    return _after_name(words)


def _after_name(words: list[Word]) -> list[Word]:
    at = _name_at(words)
    at += 3 if len(words) > at + 1 and words[at + 1].among(".") else 1
    return [word for word in words[at:] if not word.among(";")]


def qualified(words: Sequence[Word]) -> tuple[str | None, str]:
    """The schema, where one is named, and the table that words begin with. Raises IndexError where there are none."""
    pair = len(words) > 2 and words[1].among(".")
    return (words[0].text, words[2].text) if pair else (None, words[0].text)


def parts(words: Sequence[Word]) -> Iterator[list[Word]]:
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
    readers = {"ADD": _add, "DROP": _drop, "MODIFY": _change, "CHANGE": _change, "RENAME": _rename, "CONVERT": _convert}
    readers |= {"ALTER": _default}
    for verb, read in readers.items():
        if head.among(verb) and rest:
            return read(rest, verb)
    if head.among(*_NO_COLUMN) or (head.among("CHECK") and rest and rest[0].among("PARTITION")):
        return []
    raise Unsupported(f"{' '.join(word.text for word in part[:4])} is not handled")


def _add(rest: list[Word], _: str) -> list[Operation]:
    if rest[0].among("COLUMN"):
        rest = rest[1:]
    elif _is_primary(rest):
        return [AddPrimary(tuple(_key_columns(rest)))]
    elif _is_unique(rest):
        return [_unique(rest)]
    elif rest[0].among(*_KEYS, "PARTITION"):
        return []
    elif rest[0].among("SYSTEM", "PERIOD") and len(rest) > 1 and rest[1].among("VERSIONING", "FOR"):
        raise Unsupported("rows of system-versioned tables are not merged")
    if_missing = rest[0].among("IF")
    rest = rest[3:] if if_missing else rest
    if rest[0].among("("):
        return [one for part in parts(rest[1:-1]) for one in _columns(part, if_missing=if_missing)]
    return _columns(rest, if_missing=if_missing)


def _columns(part: list[Word], *, if_missing: bool) -> list[Operation]:
    if _is_primary(part):
        return [AddPrimary(tuple(_key_columns(part)))]
    if part[0].among(*_KEYS):
        return [_unique(part)] if _is_unique(part) else []
    name, (words, after) = part[0].text, _placed(part[1:])
    return [Add(declared(name, words), after, if_missing)]


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


def _change(rest: list[Word], verb: str) -> list[Operation]:
    rest = rest[1:] if rest[0].among("COLUMN") else rest
    if_there = rest[0].among("IF")
    rest = rest[2:] if if_there else rest
    old, new = rest[0].text, rest[verb == "CHANGE"].text
    words, after = _placed(rest[2 if verb == "CHANGE" else 1 :])
    one = declared(new, words)
    if one.is_computed:
        raise Unsupported(f"the values of column {new} are computed, which is not in the log")
    return [Change(old, new, one, after, if_there)]


def _rename(rest: list[Word], _: str) -> list[Operation]:
    if rest[0].among("INDEX", "KEY"):
        return [DropIndex(rest[-3].text)]
    if rest[0].among("COLUMN"):
        if_there = rest[1].among("IF") and len(rest) > 4
        return [Change(rest[3 if if_there else 1].text, rest[-1].text, if_there=if_there)]
    name = rest[1:] if rest[0].among("TO", "AS", "=") and len(rest) > 1 else rest
    return [RenameTable(*qualified(name))]


def _default(rest: list[Word], _: str) -> list[Operation]:
    """Of a column; ALTER INDEX, CHECK and CONSTRAINT change none."""
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
    return [Convert(rest[-1].text.lower())]


def _placed(words: list[Word]) -> tuple[list[Word], str | None]:
    """A definition without the place that may stand at its end, and that place."""
    if words and words[-1].among("FIRST"):
        return words[:-1], FIRST
    if len(words) > 1 and words[-2].among("AFTER"):
        return words[:-2], words[-1].text
    return words, None


@readable
def keeps_columns(text: str) -> bool:
    """Whether an ALTER TABLE is about rows alone: of a partition, or a tablespace. Raises Unsupported."""
    heads = [" ".join(word.text.upper() for word in part[:2]) for part in parts(_after_name(words_of(text)))]
    return bool(heads) and set(heads) <= _OF_ROWS


_OF_ROWS = {
    *("DROP PARTITION", "TRUNCATE PARTITION", "EXCHANGE PARTITION", "DISCARD PARTITION", "IMPORT PARTITION"),
    *("DISCARD TABLESPACE", "IMPORT TABLESPACE", "CONVERT PARTITION"),
}


@readable
def index_made(text: str, database: str) -> tuple[TableName, AddUnique | DropIndex | None]:
    """The table of a CREATE INDEX or DROP INDEX, and what that does; None for an index that is not unique.

    Raises Unsupported where it cannot be read.
    """
    words = words_of(text)
    at = next((k for k, word in enumerate(words) if word.among("ON")), len(words) - 1)
    if not words[at + 1 :]:
        raise Unsupported("it names no table")
    schema, table = qualified(words[at + 1 :])
    name = TableName(database if schema is None else schema, table)
    if words[0].among("DROP"):
        return name, index_dropped(text)
    if not any(word.among("UNIQUE") for word in words[:4]):
        return name, None
    index = next((k for k, word in enumerate(words) if word.among("INDEX")), 0)
    index += 3 if words[index + 1].among("IF") else 0
    one = _unique([Word("UNIQUE", "word"), *words[at + 1 :]])
    return name, AddUnique(words[index + 1].text, one.columns)


@readable
def index_dropped(text: str) -> DropIndex | None:
    """Which index a DROP INDEX drops; None for another statement. Raises Unsupported where it cannot be read."""
    words = words_of(text)
    at = next((k for k, word in enumerate(words[:4]) if word.among("INDEX")), None)
    if at is None or not words[0].among("DROP"):
        return None
    at += 3 if words[at + 1].among("IF") else 1
    return DropIndex(words[at].text)


@dataclass(frozen=True, slots=True)
class Moved:
    """A definition after a statement. origins: for each of its columns the ordinal before, None for a new one.

    fills: what rows that were there have in new columns, by name; absent for NULL.
    """

    definition: TableDefinition
    origins: tuple[int | None, ...]
    fills: dict[str, Fill]
    is_open: frozenset[str] = frozenset()
    """Names of new columns of which the statement does not say whether they may be NULL."""


@dataclass(slots=True)
class _Slot:
    """A column on its way: from which it comes, what declares it, where it is to go."""

    name: str
    origin: int | None
    declared: Declared | None = None
    after: str | None = None


@readable
def moved(before: TableDefinition, found: Sequence[Operation], moment: Moment | None = None) -> Moved:
    """The definition after the operations of one statement, with where its columns come from.

    moment: when the statement was begun, for what rows have in new columns by its clock.
    Its key is None where the statement does not tell which index takes the place of the one that went; a table without
    a key gets one by a primary key alone. Raises Unsupported.
    """
    slots, origins = _slots(before, found)
    _require_one_primary(before, found, origins)
    definition = altered(before, found)
    if before.key == () and not _primary(before, found):
        definition = replace(definition, key=(), index=None)
    new = {slot.name: fill_of(slot.declared, moment) for slot in slots if slot.origin is None and slot.declared}
    fills = {name: fill for name, fill in new.items() if fill is not None}
    is_open = frozenset(slot.name for slot in slots if slot.origin is None and slot.declared and slot.declared.is_open)
    return Moved(definition, origins, fills, is_open)


@readable
def altered(before: TableDefinition, found: Sequence[Operation]) -> TableDefinition:
    """The definition after the operations of one statement, whatever they do to rows and keys.

    Its key is None where the statement does not tell which index takes the place of the one that went. Raises
    Unsupported.
    """
    slots, origins = _slots(before, found)
    columns = [_settled(before, slot, found) for slot in slots]
    names = [slot.name.casefold() for slot in slots]
    primary = _primary(before, found)
    if primary:
        key = tuple(_place(names, name) for name in primary)
        return _settled_key(replace(before, columns=tuple(columns), key=key, index=PRIMARY))
    kept = None if before.key is None else tuple(origins.index(at) for at in before.key if at in origins)
    if kept is None or _loses_key(before, found, slots) or (before.key and not kept):
        return replace(before, columns=tuple(columns), key=None, index=None)
    if kept:
        return _settled_key(replace(before, columns=tuple(columns), key=kept))
    return replace(before, columns=tuple(columns), **_first_key(found, slots, columns))


def _settled_key(definition: TableDefinition) -> TableDefinition:
    """The columns of a primary key are NOT NULL, whatever statements say of them."""
    if definition.index not in (None, PRIMARY):
        return definition
    key = definition.key or ()
    columns = [replace(one, nullable=one.nullable and at not in key) for at, one in enumerate(definition.columns)]
    return replace(definition, columns=tuple(columns))


def _slots(before: TableDefinition, found: Sequence[Operation]) -> tuple[list["_Slot"], tuple[int | None, ...]]:
    """The columns behind a statement, in order, and from which ones before they come."""
    slots, waiting = _kept(before, found)
    for slot in waiting:
        at = len(slots) if slot.after is None else _behind(slots, slot.after)
        slots.insert(at, slot)
    return slots, tuple(slot.origin for slot in slots)


def _primary(before: TableDefinition, found: Sequence[Operation]) -> list[str]:
    """The columns of the primary key that a statement makes, by itself or as part of a column's definition."""
    there = {name.casefold() for name in before.column_names()}
    added = [name for one in found if isinstance(one, AddPrimary) for name in one.columns]
    own = [one for one in found if not (isinstance(one, Add) and one.if_missing and one.name.casefold() in there)]
    columns = [one.declared for one in own if isinstance(one, Add | Change) and one.declared]
    return added or [str(one.column.name) for one in columns if one.in_key]


def _require_one_primary(before: TableDefinition, found: Sequence[Operation], origins: Sequence[int | None]) -> None:
    """Raises Unsupported where a table gets a primary key that has one: there are statements that do nothing then."""
    is_there = before.index == PRIMARY and any(at in origins for at in before.key or ())
    if is_there and _primary(before, found) and not any(isinstance(one, DropPrimary) for one in found):
        raise Unsupported("it adds a primary key to a table that has one, as far as is known")


def _loses_key(before: TableDefinition, found: Sequence[Operation], slots: Sequence["_Slot"]) -> bool:
    """Whether the index by which rows are told apart goes, or may."""
    if any(isinstance(one, DropPrimary) for one in found):
        return True
    return any(drops_key(before, one) for one in found if isinstance(one, DropIndex)) or _may_be_null(before, slots)


def _first_key(found: Sequence[Operation], slots: Sequence["_Slot"], columns: Sequence[Column]) -> dict[str, Any]:
    """Key and index of a table that had none: a unique index of columns without NULL that the statement makes.

    Not known where a column that was there is NOT NULL from now on, which may make a key of an index.
    """
    if any(slot.declared and slot.origin is not None and not slot.declared.column.nullable for slot in slots):
        return {"key": None, "index": None}
    names = [slot.name.casefold() for slot in slots]
    own = [AddUnique("", (slot.name,)) for slot in slots if slot.declared and slot.declared.is_unique]
    for unique in [*(one for one in found if isinstance(one, AddUnique)), *own]:
        key = tuple(_place(names, name) for name in unique.columns or ())
        if key and not any(columns[at].nullable or columns[at].computed for at in key):
            return {"key": key, "index": unique.name}
    return {"key": (), "index": None}


@readable
def drops_key(before: TableDefinition, dropped: DropIndex) -> bool:
    """Whether the index that goes is, or may be, the one by which rows are told apart.

    Where the log tells the key itself and nothing names the index, the next TABLE_MAP does.
    """
    name = dropped.name.casefold()
    if name == PRIMARY.casefold():
        return before.index in (None, PRIMARY)
    return bool(before.key) and before.index is not None and before.index.casefold() in ("", name)


def _may_be_null(before: TableDefinition, slots: Sequence[_Slot]) -> bool:
    """Whether a unique index stops being a key because a column of it may be NULL."""
    if before.index in (None, PRIMARY):
        return False
    key = before.key or ()
    return any(slot.declared and slot.declared.column.nullable and slot.origin in key for slot in slots)


def _kept(before: TableDefinition, found: Sequence[Operation]) -> tuple[list[_Slot], list[_Slot]]:
    """The columns that stay in their places, and those that are put somewhere afterwards, as they are named there."""
    names = [name.casefold() for name in before.column_names()]
    drops = {one.name.casefold() for one in found if isinstance(one, Drop)}
    changes = {one.old.casefold(): one for one in found if isinstance(one, Change)}
    _require_there(before, found)
    slots = []
    for ordinal, name in enumerate(names):
        change = changes.get(name)
        if change is not None and change.after is None:
            slots.append(_Slot(change.new, ordinal, change.declared))
        elif change is None and name not in drops:
            slots.append(_Slot(before.column_names()[ordinal], ordinal))
    staying = {name for name in names if name not in drops and name not in changes}
    waiting = []
    for one in found:
        if isinstance(one, Add) and not (one.if_missing and one.name.casefold() in staying):
            waiting.append(_Slot(one.name, None, one.declared, one.after))
        elif isinstance(one, Change) and one.after is not None and one.old.casefold() in names:
            waiting.append(_Slot(one.new, names.index(one.old.casefold()), one.declared, one.after))
    return slots, waiting


def _require_there(before: TableDefinition, found: Sequence[Operation]) -> None:
    names = {name.casefold() for name in before.column_names()}
    demanded = [one.name for one in found if isinstance(one, Drop) and not one.if_there]
    demanded += [one.old for one in found if isinstance(one, Change) and not one.if_there]
    twice = {name for name in demanded if demanded.count(name) > 1}
    if twice:
        raise Unsupported(f"it changes column {min(twice)} twice")
    missing = [name for name in demanded if name.casefold() not in names]
    if missing:
        raise Unsupported(f"the table had no column {missing[0]}, as far as is known: {before}")


def _behind(slots: Sequence[_Slot], name: str) -> int:
    if name == FIRST:
        return 0
    at = next((k for k, slot in enumerate(slots) if slot.name.casefold() == name.casefold()), None)
    if at is None:
        raise Unsupported(f"there is no column {name} to stand behind")
    return at + 1


def _settled(before: TableDefinition, slot: _Slot, found: Sequence[Operation]) -> Column:
    if slot.declared is not None:
        return with_default(slot.declared)
    column = before.columns[slot.origin or 0]
    column = replace(column, name=slot.name) if column.name is not None else column
    for one in found:
        if isinstance(one, Default) and one.name.casefold() == slot.name.casefold():
            column = with_default(Declared(column, one.words)) if one.words else replace(column, default=None)
        if isinstance(one, Visible) and one.name.casefold() == slot.name.casefold():
            column = replace(column, invisible=not one.is_visible)
    charset = next((one.charset for one in found if isinstance(one, Convert)), None)
    return converted(column, charset) if charset else column
