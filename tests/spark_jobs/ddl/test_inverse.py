"""Statements carried out and inverted again: what was there, or the reason why no log tells it."""

import random
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from spark_jobs.binlog import Column, TableDefinition, TableName
from spark_jobs.ddl.alter import definition_after_clauses
from spark_jobs.ddl.inverse import inverted, known_definition, matching_definition
from spark_jobs.ddl.operations import Add, AddUnique, Change, Default, Operation, Visible
from spark_jobs.ddl.parse_alter import created_definition, operations
from spark_jobs.errors import Unsupported
from tests.fix_hypothesis import examples
from tests.twins.ddl_stream import KINDS

NAME = TableName("d", "t")
TYPES = [
    (f"{kind} CHARACTER SET latin1", wider and f"{wider} CHARACTER SET latin1")
    if kind.startswith(("CHAR", "VARCHAR(20)", "ENUM", "SET", "TINYTEXT"))
    else (kind, wider)
    for kind, _, wider in KINDS[:23]
]


def table_of(text: str) -> TableDefinition:
    definition = created_definition(NAME, f"CREATE TABLE t ({text})")
    assert definition is not None
    return definition


def rows_of(definition: TableDefinition, *, logs_full_metadata: bool = False) -> TableDefinition:
    """As a log without names has it; says_all: with signs and character sets, as MySQL's MINIMAL metadata."""

    def logged(column: Column) -> Column:
        is_text = column.type.is_character and logs_full_metadata
        return replace(
            column,
            name=None,
            labels=None,
            unsigned=None
            if column.type.is_numeric and column.type_code != 13 and not logs_full_metadata
            else column.unsigned,
            charset=column.charset if is_text else None,
        )

    return replace(definition, columns=tuple(map(logged, definition.columns)), key=None, index=None)


def random_table(generator: random.Random) -> tuple[str, dict[str, int]]:
    columns = {f"c{at}": generator.randrange(len(TYPES)) for at in range(generator.randrange(1, 6))}
    listed = [f"{name} {TYPES[kind][0]}{generator.choice(['', ' NOT NULL'])}" for name, kind in columns.items()]
    key = generator.choice(["PRIMARY KEY (id)", "PRIMARY KEY (id)", "UNIQUE KEY one (id)", "KEY (id)"])
    listed.insert(generator.randrange(len(listed)), "id INT NOT NULL")
    return ", ".join([*listed, key]), columns


def random_alter(generator: random.Random, columns: dict[str, int], names: list[int]) -> str:
    """One ALTER TABLE with up to three operations; ``columns`` are those behind it."""
    clauses = []
    for name in generator.sample(list(columns), min(len(columns), generator.randrange(3))):
        kind, wider = TYPES[columns[name]]
        location = generator.choice(["", "", "", " FIRST", " AFTER id"])
        names[0] += 1
        new = f"n{names[0]}"
        operation = generator.choice(
            [
                f"RENAME COLUMN {name} TO {new}",
                f"RENAME COLUMN {name} TO {new}",
                f"CHANGE {name} {new} {kind}{location}",
                f"MODIFY {name} {wider or kind}{generator.choice(['', ' NOT NULL'])}{location}",
                f"DROP COLUMN {name}",
                f"ALTER {name} SET DEFAULT 1",
            ]
        )
        clauses.append(operation)
        if new in operation:
            columns[new] = columns.pop(name)
        elif operation.startswith("DROP"):
            del columns[name]
    for _ in range(generator.randrange(3)):
        names[0] += 1
        added = generator.randrange(len(TYPES))
        is_there = bool(columns) and generator.random() < 0.15
        column = generator.choice(list(columns)) if is_there else f"n{names[0]}"
        if not any(f" {column} " in f"{clause} " for clause in clauses):
            if_missing = "IF NOT EXISTS " if is_there or generator.random() < 0.1 else ""
            location = generator.choice(["", " FIRST", " AFTER id"])
            clauses.append(f"ADD COLUMN {if_missing}{column} {TYPES[added][0]}{location}")
            columns.setdefault(column, added)
    generator.shuffle(clauses)
    clauses += generator.sample(
        ["COMMENT = 'x'", "ADD INDEX (id)", "ADD UNIQUE two (id)", "DROP INDEX one"], generator.randrange(2)
    )
    return f"ALTER TABLE t {', '.join(clauses) or 'ENGINE = InnoDB'}"


def must_be_inverted(clauses: list[Operation], before: TableDefinition) -> bool:
    """True if nothing of what was there is left out by the statement."""

    def keeps(clause: Operation) -> bool:
        if isinstance(clause, Add):
            return not clause.if_missing and not clause.declared.in_key and not clause.declared.is_unique
        if isinstance(clause, Change):
            return clause.declared is None
        return isinstance(clause, Default | Visible) or (isinstance(clause, AddUnique) and before.index == "PRIMARY")

    return all(map(keeps, clauses))


@given(st.integers(min_value=0), st.booleans())
@examples(400)
def test_what_is_inverted_is_what_was_there(seed: int, logs_full_metadata: bool) -> None:
    generator = random.Random(seed)
    text, columns = random_table(generator)
    before = table_of(text)
    clauses = operations(random_alter(generator, columns, [0]))
    try:
        after = definition_after_clauses(before, clauses)
    except Unsupported:
        return
    if after.key is None:  # which key takes the place of the one that went, a server tells
        return
    try:
        candidates = inverted([known_definition(after)], clauses)
        was = matching_definition(candidates, rows_of(before, logs_full_metadata=logs_full_metadata))
    except Unsupported:
        assert not must_be_inverted(clauses, before)
        return
    assert was.is_named
    assert was.definition == before
    assert definition_after_clauses(was.definition, clauses) == after


T = "id INT PRIMARY KEY, a INT UNSIGNED, b VARCHAR(9) CHARACTER SET latin1, e ENUM('x') CHARACTER SET latin1"


@pytest.mark.parametrize(
    "before, alter, logs_full_metadata, reason",
    [
        (T, "DROP COLUMN a", True, "it drops column a, and what that was is in no log"),
        (T, "DROP COLUMN IF EXISTS z", True, "it drops column z"),
        (T, "DROP PRIMARY KEY, ADD PRIMARY KEY (id, a)", True, "it changes keys"),
        (T, "ADD c INT NOT NULL UNIQUE", True, None),
        (T, "RENAME COLUMN IF EXISTS a TO z", True, "it renames column a if that was there"),
        (T, "MODIFY a BIGINT UNSIGNED", False, "the log does not tell the sign that had before"),
        (T, "MODIFY a INT UNSIGNED FIRST", False, "the log does not tell the sign that had before"),
        (T, "MODIFY a BIGINT", False, "it declares column a, and the log does not tell the sign that had before"),
        (T, "MODIFY a BIGINT", True, None),
        (T, "CHANGE b c VARCHAR(9) CHARACTER SET latin1", False, "the log does not tell the character set"),
        (T, "CHANGE b c VARCHAR(9) CHARACTER SET latin1", True, None),
        (T, "MODIFY e ENUM('x','y') CHARACTER SET latin1", True, "the log does not tell the labels that had before"),
        (T, "CONVERT TO CHARACTER SET utf8mb4", True, None),
        (T, "CONVERT TO CHARACTER SET utf8mb4", False, "the log does not tell the character set"),
        (T, "MODIFY a INT UNSIGNED FIRST", True, None),
        (
            "id INT PRIMARY KEY, a DATE, b DATE",
            "MODIFY b DATE AFTER id",
            True,
            r"\(id, b, a\) or \(id, a, b\) before it",
        ),
        (T, "MODIFY b VARCHAR(20) CHARACTER SET latin1 FIRST", True, None),
        (T, "ADD COLUMN IF NOT EXISTS a INT UNSIGNED", True, None),
        (T, "ADD COLUMN IF NOT EXISTS z INT UNSIGNED", True, None),
        ("a INT NOT NULL, b INT, UNIQUE one (a)", "ADD UNIQUE two (b)", True, None),
        ("a INT NOT NULL, b INT, UNIQUE one (a), KEY two (b)", "DROP INDEX two", True, "it changes keys"),
        ("a INT NOT NULL, b INT, UNIQUE one (a)", "MODIFY b BIGINT", True, "it changes keys"),
        ("a INT NOT NULL, b INT", "ADD UNIQUE two (a)", True, "it changes keys"),
        ("u BINARY(16), id INT PRIMARY KEY", "MODIFY u VARBINARY(40)", True, "whether it was UUID, INET or VECTOR"),
    ],
)
def test_what_one_statement_leaves_of_what_was_there(
    before: str, alter: str, logs_full_metadata: bool, reason: str | None
) -> None:
    was, clauses = table_of(before), operations(f"ALTER TABLE t {alter}")
    after = definition_after_clauses(was, clauses)
    if reason is None:
        candidates = inverted([known_definition(after)], clauses)
        definition = matching_definition(candidates, rows_of(was, logs_full_metadata=logs_full_metadata)).definition
        labels = [column.labels for column in was.columns]
        assert (definition.column_names(), [column.labels for column in definition.columns]) == (
            was.column_names(),
            labels,
        )
        assert [(c.type_code, c.meta, c.unsigned, c.nullable) for c in definition.columns] == [
            (c.type_code, c.meta, c.unsigned, c.nullable) for c in was.columns
        ]
        return
    with pytest.raises(Unsupported, match=reason):
        matching_definition(
            inverted([known_definition(after)], clauses), rows_of(was, logs_full_metadata=logs_full_metadata)
        )


@pytest.mark.parametrize(
    "alter, reason",
    [
        ("ADD z INT", "there is no column z|it leads to"),
        ("ADD e BIGINT", "column e: is followed as bigint"),
        ("CHANGE z b VARCHAR(20) CHARACTER SET latin1", "column b: is followed as"),
    ],
)
def test_a_statement_that_does_not_lead_to_what_is_known_is_not_inverted(alter: str, reason: str) -> None:
    with pytest.raises(Unsupported, match=f"its result is not the known definition after it: {reason}"):
        inverted([known_definition(table_of(T))], operations(f"ALTER TABLE t {alter}"))


def test_rows_that_are_not_of_what_was_found_are_refused() -> None:
    definition = rows_of(table_of("id INT PRIMARY KEY, a BIGINT"))
    with pytest.raises(Unsupported, match=r"which .* is not"):
        matching_definition([known_definition(table_of("id INT PRIMARY KEY, a INT"))], definition)


def test_what_is_open_waits_for_rows_over_several_statements() -> None:
    before = table_of("id INT PRIMARY KEY, a SMALLINT UNSIGNED")
    texts = ["MODIFY a INT UNSIGNED", "CHANGE a b BIGINT UNSIGNED", "ADD c DATE FIRST"]
    statements = [operations(f"ALTER TABLE t {text}") for text in texts]
    after = before
    for clauses in statements:
        after = definition_after_clauses(after, clauses)
    candidates = [known_definition(after)]
    for clauses in reversed(statements):
        candidates = inverted(candidates, clauses)
    assert not candidates[0].is_named
    assert matching_definition(candidates, rows_of(before, logs_full_metadata=True)).definition == before
