"""The facts of a server, as they are stored."""

from spark_jobs.binlog import TableName
from spark_jobs.ddl.foreign_keys import ForeignKey
from spark_jobs.ddl.server_facts import ServerFacts
from spark_jobs.log.position import Position


def test_facts_are_kept_as_they_are() -> None:
    key = ForeignKey("f", TableName("shop", "p"), "CASCADE", "NO ACTION")
    child = TableName("shop", "c")
    facts = ServerFacts(Position("log-bin.000001", 4, 2), ((child, key),), (child,), has_inline_keys=False)
    assert ServerFacts.from_note(facts.to_note()) == facts
