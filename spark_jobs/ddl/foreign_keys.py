"""Foreign keys as CREATE TABLE and ALTER TABLE declare them, and what a server does to child rows by them.

Source: MySQL manual, "FOREIGN KEY Constraints" (names that the server makes up, engines, REFERENCES in a column);
MariaDB Knowledge Base, "Foreign Keys". SET DEFAULT changes no row anywhere: MySQL refuses the clause for InnoDB, and
MariaDB takes it for NO ACTION.

Put here: reading the clauses. Not here: which keys a table has at a position (unlogged_changes.py).
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from spark_jobs.binlog import TableName
from spark_jobs.ddl.columns import Word, words_of
from spark_jobs.ddl.parse_alter import qualified_name
from spark_jobs.ddl.unreadable_types import readable

CASCADING = ("CASCADE", "SET NULL")
"""Rules that change child rows."""
_WITH_KEYS = ("INNODB", "NDB", "NDBCLUSTER", "XTRADB")
"""Engines that have foreign keys; others read the clause and drop it."""


@dataclass(frozen=True, slots=True)
class ForeignKey:
    """One constraint of a child table.

    Attributes:
        name: of the constraint; empty where the statement leaves it to the server.
        index: the name given after FOREIGN KEY, by which some servers call an unnamed constraint.
        is_inline: it is in a column's definition, which MySQL before 9.0 and MariaDB before 10.5 ignore.
        columns: of the child, in the key's order; none where they are not known.
        parent_columns: those of the parent that they refer to, in the same order.
    """

    name: str
    parent: TableName
    on_delete: str = "NO ACTION"
    on_update: str = "NO ACTION"
    index: str = ""
    is_inline: bool = False
    columns: tuple[str, ...] = ()
    parent_columns: tuple[str, ...] = ()

    @property
    def is_cascading(self) -> bool:
        """True if the server changes child rows by it."""
        return self.on_delete in CASCADING or self.on_update in CASCADING

    @property
    def rules(self) -> str:
        """The rules that change child rows, as SQL has them."""
        return cascading_rules(self.on_delete, self.on_update)


def cascading_rules(on_delete: str, on_update: str) -> str:
    """The rules of a foreign key's two that change child rows, in SQL."""
    actions = (("ON DELETE", on_delete), ("ON UPDATE", on_update))
    return " ".join(f"{event} {rule}" for event, rule in actions if rule in CASCADING)


@readable
def declared_keys(text: str, database: str) -> list[ForeignKey]:
    """The foreign keys that a CREATE TABLE or ALTER TABLE adds. Raises Unsupported, IndexError."""
    words = words_of(text)
    if words[0].among("CREATE") and not _may_have_keys(words):
        return []
    return [_foreign_key_at(words, at, database) for at, word in enumerate(words) if word.among("REFERENCES")]


@readable
def dropped_keys(text: str) -> list[str]:
    """The names of the constraints that an ALTER TABLE drops. Raises Unsupported."""
    return list(_dropped(words_of(text)))


def _dropped(words: Sequence[Word]) -> Iterator[str]:
    for at, word in enumerate(words):
        rest = words[at + 1 : at + 6]
        if not word.among("DROP") or not rest:
            continue
        head = 2 if [word.text.upper() for word in rest[:2]] == ["FOREIGN", "KEY"] else 1
        if head == 2 or rest[0].among("CONSTRAINT"):
            head += 2 if len(rest) > head + 2 and rest[head].among("IF") else 0
            yield from (word.text for word in rest[head : head + 1])


def _may_have_keys(words: Sequence[Word]) -> bool:
    """True if the engine of a new table has foreign keys; where none is named, it may be InnoDB."""
    engines = [
        words[at + (2 if words[at + 1].among("=") else 1)].text.upper()
        for at, depth in _depths(words)
        if not depth and words[at].among("ENGINE") and at + 2 < len(words)
    ]
    return all(engine in _WITH_KEYS for engine in engines)


def _depths(words: Sequence[Word]) -> Iterator[tuple[int, int]]:
    depth = 0
    for at, word in enumerate(words):
        depth += word.among("(") - word.among(")")
        yield at, depth


def _foreign_key_at(words: Sequence[Word], at: int, database: str) -> ForeignKey:
    """The key whose REFERENCES stands at a position."""
    # What stands before REFERENCES names the key and its columns, what comes behind it those of the parent.
    before = words[_definition_start(words, at) : at]
    schema, table = qualified_name(words[at + 1 :])
    foreign = next((k for k, word in enumerate(before) if word.among("FOREIGN")), None)
    word_list = [] if foreign is None else list(before[foreign + 2 :])
    word_list = word_list[3:] if [word.text.upper() for word in word_list[:3]] == ["IF", "NOT", "EXISTS"] else word_list
    rules = _rules(words[at + 1 :])
    child_columns = tuple(_listed(word_list)) if foreign is not None else _defined_column(before)
    return ForeignKey(
        name=_symbol(before if foreign is None else before[:foreign]),
        parent=TableName(database if schema is None else schema, table),
        on_delete=rules.get("DELETE", "NO ACTION"),
        on_update=rules.get("UPDATE", "NO ACTION"),
        index=word_list[0].text if word_list and not word_list[0].among("(") else "",
        is_inline=foreign is None,
        columns=child_columns,
        parent_columns=tuple(_listed(words[at + 1 :])),
    )


def _listed(words: Sequence[Word]) -> Iterator[str]:
    """The columns in the first parentheses."""
    begin = next((at for at, word in enumerate(words) if word.among("(")), len(words))
    for word in words[begin + 1 :]:
        if word.among(")"):
            return
        if not word.among(",", "ASC", "DESC"):
            yield word.text


def _defined_column(words: Sequence[Word]) -> tuple[str, ...]:
    """The column whose definition the words are of, in an ALTER TABLE behind ADD, CHANGE or MODIFY."""
    verb = next((at for at, word in enumerate(words) if word.among("ADD", "CHANGE", "MODIFY")), None)
    rest = words if verb is None else words[verb + 1 :]
    names = [word for word in rest if not word.among("COLUMN", "IF", "NOT", "EXISTS", "(")]
    is_renamed = verb is not None and words[verb].among("CHANGE")
    return (names[is_renamed].text,) if len(names) > is_renamed else ()


def _definition_start(words: Sequence[Word], at: int) -> int:
    """Offset where the definition begins that a word belongs to: after a comma or an open parenthesis."""
    depth = 0
    for index in range(at - 1, -1, -1):
        depth += words[index].among(")") - words[index].among("(")
        if depth < 0 or (not depth and words[index].among(",")):
            return index + 1
    return 0


def _symbol(words: Sequence[Word]) -> str:
    """The name after the last CONSTRAINT; empty where there is none."""
    at = next((k for k in range(len(words) - 1, -1, -1) if words[k].among("CONSTRAINT")), None)
    symbol = [] if at is None else list(words[at + 1 : at + 2])
    return symbol[0].text if symbol and not symbol[0].among("CHECK") else ""


def _rules(words: Sequence[Word]) -> dict[str, str]:
    """The rules by DELETE and UPDATE, up to the end of the definition."""
    actions: dict[str, str] = {}
    depth = 0
    for at, word in enumerate(words):
        depth += word.among("(") - word.among(")")
        if depth < 0 or (not depth and word.among(",")):
            break
        after = [word.text.upper() for word in words[at + 1 : at + 4]]
        if word.among("ON") and after[:1] in (["DELETE"], ["UPDATE"]) and after[1:]:
            actions.setdefault(after[0], " ".join(after[1:3]) if after[1] in ("SET", "NO") else after[1])
    return actions
