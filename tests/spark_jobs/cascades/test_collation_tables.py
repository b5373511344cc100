"""The tables of collations: whole, and without contradictions."""

import pytest

from spark_jobs.cascades import collation_tables
from spark_jobs.cascades.collation_tables import CollationTable
from spark_jobs.cascades.weights import KNOWN, characters_of

TABLES = {name: table for name, table in vars(collation_tables).items() if isinstance(table, CollationTable)}


@pytest.mark.parametrize("name", TABLES)
def test_what_characters_weigh_is_known_and_weighs_itself(name: str) -> None:
    table = TABLES[name]
    known_characters, listed = set(characters_of(table)), set[str]()
    for group in table.equals.split(" "):
        target, _, members = group.partition(":")
        characters = characters_of(CollationTable(members, ""))
        assert listed.isdisjoint(characters), "a character weighs what one group says"
        listed |= set(characters)
        targets = {chr(int(code, 16)) for code in target.split("+") if code}
        assert (targets | set(characters)) <= known_characters
    for group in table.equals.split(" "):
        target = group.partition(":")[0]
        assert listed.isdisjoint(chr(int(code, 16)) for code in target.split("+") if code)


def test_each_table_is_of_some_collation() -> None:
    assert {collation.table for collation in KNOWN.values()} == {None, *TABLES.values()}
