"""What foreign keys do to child rows, case by case."""

from collections.abc import Iterable, Sequence
from typing import Any

import pytest

from spark_jobs.binlog import TableName
from spark_jobs.cascades.derivation import Derivation, ImagePair, Key, Reference, Row, RowLookups, Weights
from spark_jobs.ddl.foreign_keys import declared_keys
from spark_jobs.errors import TableStopped

CHAIN = ("c FOREIGN KEY (up) REFERENCES p (id)", "g FOREIGN KEY (up) REFERENCES c (id)")


class Tables:
    """Rows before all changes, and what is derived behind each of them; a row is its column ``id``."""

    def __init__(self, *keys: str, **rows: list[Row]) -> None:
        self.rows = {name(table): {identity(name(table), row): row for row in listed} for table, listed in rows.items()}
        self.stored = {table: list(listed.values()) for table, listed in self.rows.items()}
        self.lookups: list[tuple[str, Weights]] = []
        references = [
            Reference(name(child), key)
            for child, _, clause in (text.partition(" ") for text in keys)
            for key in declared_keys(f"ALTER TABLE {child} ADD {clause}", "shop")
        ]
        self.derivation = Derivation(references, RowLookups(identity, weights, self._located))

    def _located(self, reference: Reference, key_weights: Weights) -> Iterable[Row]:
        self.lookups.append((reference.child.table, key_weights))
        stored = self.stored.get(reference.child, [])
        return [row for row in stored if weights(reference.child, reference.key.columns, row) == key_weights]

    def change(self, table: str, before: Row | None, after: Row | None, *, cascades: bool = True) -> list[str]:
        """Table and row of each derived change, with what it became."""
        self._apply_change(ImagePair(name(table), before, after))
        texts = []
        for derived in self.derivation.follow(ImagePair(name(table), before, after), cascades=cascades):
            assert self.rows[derived.table][identity(derived.table, derived.before)] == derived.before
            self._apply_change(ImagePair(derived.table, derived.before, derived.after))
            texts.append(
                f"{derived.table.table}{derived.before['id']}{f' {_text(derived.after)}' if derived.after else ''}"
            )
        return texts

    def _apply_change(self, change: ImagePair) -> None:
        rows = self.rows.setdefault(change.table, {})
        if change.before is not None:
            rows.pop(identity(change.table, change.before), None)
        if change.after is not None:
            rows[identity(change.table, change.after)] = change.after


def _text(row: Row) -> str:
    return ",".join(str(value) for value in row.values())


def name(table: str) -> TableName:
    return TableName("shop", table)


def identity(_table: TableName, row: Row) -> Key:
    return (row["id"],)


def weights(_table: TableName, columns: Sequence[str], row: Row) -> Weights | None:
    """Text is equal whatever its case is, and with spaces at its end."""
    values = [row[column] for column in columns]
    if None in values:
        return None
    return tuple(value.casefold().rstrip() if isinstance(value, str) else value for value in values)


def row(number: Any, up: Any = None, **values: Any) -> Row:
    return {"id": number, "up": up, **values}


def with_rules(rules: str, *keys: str) -> list[str]:
    return [f"{key} {rules}" for key in keys]


def test_children_go_with_their_parent_and_theirs_with_them() -> None:
    tables = Tables(
        *with_rules("ON DELETE CASCADE", *CHAIN), c=[row(1, 1), row(2, 1), row(3, 2)], g=[row(7, 2), row(8, 3)]
    )
    assert tables.change("p", row(1), None) == ["c1", "c2", "g7"]
    assert tables.change("p", row(1), None) == [], "they are gone"
    assert tables.change("p", row(9), None) == []


def test_a_parent_s_new_key_moves_its_children_and_no_other_column_does() -> None:
    tables = Tables(*with_rules("ON UPDATE CASCADE", *CHAIN), c=[row(1, 1, v=5)], g=[row(7, 1)])
    assert tables.change("p", row(1, v=1), row(1, v=2)) == []
    assert tables.change("p", row(1), row(4)) == ["c1 1,4,5"]
    assert tables.change("c", row(1, 4, v=5), row(2, 4, v=5)) == ["g7 7,2"]
    assert tables.change("p", row(4), None) == [], "no rule ON DELETE"


def test_set_null_empties_the_key_s_columns_and_what_refers_to_them_follows() -> None:
    keys = [
        "c FOREIGN KEY (up, x) REFERENCES p (id, x) ON DELETE SET NULL ON UPDATE SET NULL",
        "g FOREIGN KEY (up) REFERENCES c (x) ON UPDATE CASCADE",
    ]
    tables = Tables(*keys, c=[row(1, 1, x=5, v=1), row(2, 1, x=6, v=1)], g=[row(7, 5)])
    assert tables.change("p", row(1, x=5), row(1, x=9)) == ["c1 1,None,None,1", "g7 7,None"]
    assert tables.change("p", row(1, x=6), None) == ["c2 2,None,None,1"]


def test_a_key_with_a_null_refers_to_nothing() -> None:
    tables = Tables("c FOREIGN KEY (up, x) REFERENCES p (id, x) ON DELETE CASCADE", c=[row(1, 1, x=None)])
    assert tables.change("p", row(1, x=None), None) == []
    assert tables.change("p", row(1, x=5), None) == []


def test_children_are_found_by_what_their_collation_takes_for_equal() -> None:
    tables = Tables("c FOREIGN KEY (up) REFERENCES p (x) ON DELETE CASCADE ON UPDATE CASCADE", c=[row(1, "Ab ")])
    assert tables.change("p", row(1, x="aB"), row(1, x="AB")) == ["c1 1,AB"], "bytes differ, so it is a change"
    assert tables.change("p", row(1, x="ab"), None) == ["c1"]


@pytest.mark.parametrize("rule", ["RESTRICT", "NO ACTION", "SET DEFAULT"])
def test_other_rules_change_nothing(rule: str) -> None:
    tables = Tables(f"c FOREIGN KEY (up) REFERENCES p (id) ON DELETE {rule} ON UPDATE CASCADE", c=[row(1, 1)])
    assert tables.change("p", row(1), None) == []


def test_changes_of_children_count_up_to_the_parent_s_and_not_after_it() -> None:
    tables = Tables("c FOREIGN KEY (up) REFERENCES p (id) ON DELETE CASCADE", c=[row(1, 1), row(2, 1), row(3, 1)])
    tables.change("c", row(1, 1), row(1, 2))
    tables.change("c", row(2, 1), None)
    tables.change("c", None, row(4, 1))
    assert sorted(tables.change("p", row(1), None)) == ["c3", "c4"]
    tables.change("c", None, row(5, 1))
    assert tables.rows[name("c")].keys() == {(1,), (5,)}


def test_without_the_server_s_checks_nothing_follows_and_later_changes_find_what_is_there() -> None:
    tables = Tables("c FOREIGN KEY (up) REFERENCES p (id) ON DELETE CASCADE", c=[row(1, 1)])
    assert tables.change("p", row(1), None, cascades=False) == []
    assert tables.change("p", row(1), None) == ["c1"]


def test_a_table_that_refers_to_itself_and_two_that_refer_to_each_other() -> None:
    circle = Tables(
        "t FOREIGN KEY (up) REFERENCES t (id) ON DELETE CASCADE", t=[row(1, 1), row(2, 1), row(3, 2), row(4, 9)]
    )
    assert circle.change("t", row(1, 1), None) == ["t2", "t3"]
    keys = with_rules(
        "ON DELETE CASCADE", "a FOREIGN KEY (up) REFERENCES b (id)", "b FOREIGN KEY (up) REFERENCES a (id)"
    )
    cycle = Tables(*keys, a=[row(1, 2), row(3, 4)], b=[row(2, 1), row(4, 1)])
    assert cycle.change("a", row(1, 2), None) == ["b2", "b4", "a3"]


def test_a_child_that_is_reached_by_two_ways_is_changed_by_each_that_finds_it() -> None:
    keys = [
        "a FOREIGN KEY (up) REFERENCES p (id) ON DELETE CASCADE",
        "b FOREIGN KEY (up) REFERENCES p (id) ON DELETE CASCADE",
        "c FOREIGN KEY (up) REFERENCES a (id) ON DELETE SET NULL",
        "c FOREIGN KEY (x) REFERENCES b (id) ON DELETE CASCADE",
    ]
    tables = Tables(*keys, a=[row(1, 1)], b=[row(1, 1)], c=[row(5, 1, x=1), row(6, 1, x=2)])
    assert tables.change("p", row(1), None) == ["a1", "c5 5,None,1", "c6 6,None,2", "b1", "c5"]


def test_stored_rows_are_asked_for_once_a_value_and_only_by_values_that_changes_reach() -> None:
    tables = Tables(*with_rules("ON DELETE CASCADE", *CHAIN), c=[row(1, 1), row(2, 2)], g=[row(7, 1)])
    for _ in range(2):
        tables.change("p", row(1), None)
    tables.change("p", row(2), row(3))
    assert tables.lookups == [("c", (1,)), ("g", (1,))]


@pytest.mark.parametrize("rule", ["SET NULL", "CASCADE"])
def test_keys_that_share_a_column_stop_their_child_where_their_order_decides(rule: str) -> None:
    keys = [
        f"c CONSTRAINT f1 FOREIGN KEY (up) REFERENCES c (id) ON DELETE {rule}",
        "c CONSTRAINT f2 FOREIGN KEY (up) REFERENCES p (id) ON DELETE CASCADE",
    ]
    tables = Tables(*keys, c=[row(1, 12), row(12, 12)])
    # The server deletes row 1 or sets it to NULL, by which of the two it comes to first.
    if rule == "CASCADE":
        assert tables.change("p", row(12), None) == ["c1", "c12"]
        return
    with pytest.raises(TableStopped, match="its foreign keys f1 and f2 have columns in common"):
        tables.change("p", row(12), None)
