"""The facts of a server, as they are stored."""

from spark_jobs.binlog import TableName
from spark_jobs.ddl.foreign_keys import ForeignKey
from spark_jobs.ddl.server_facts import ServerFacts
from spark_jobs.log.position import Position


def test_facts_are_kept_as_they_are() -> None:
    key = ForeignKey("f", TableName("shop", "p"), "CASCADE", columns=("a", "b"), parent_columns=("c", "d"))
    child = TableName("shop", "c")
    facts = ServerFacts(Position("log-bin.000001", 4, 2), ((child, key),), (child,), has_inline_keys=False)
    assert ServerFacts.from_note(facts.to_note()) == facts


def test_facts_of_earlier_versions_have_no_columns() -> None:
    note = ServerFacts(Position("log-bin.000001", 4)).to_note()
    note["foreign_keys"] = [["shop", "c", "f", "shop", "p", "CASCADE", "NO ACTION"]]
    ((child, key),) = ServerFacts.from_note(note).foreign_keys
    assert (child, key) == (TableName("shop", "c"), ForeignKey("f", TableName("shop", "p"), "CASCADE"))
