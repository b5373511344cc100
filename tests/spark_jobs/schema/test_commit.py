from spark_jobs.ddl.server_facts import ServerFacts
from spark_jobs.lake.commit import Checkpoint
from spark_jobs.log.position import Position
from spark_jobs.schema.commit import HistoryCommit

AT = Position("b.000009", 4)


def test_what_nobody_was_asked_is_not_there() -> None:
    assert HistoryCommit(AT, "b", begin=AT).members().keys() == {"position", "batch", "kind", "begin"}


def test_what_a_server_declared_reads_back() -> None:
    commit = HistoryCommit(AT, "b", begin=AT, asked_at=AT, completes_log=False, facts=ServerFacts(AT))
    assert HistoryCommit.of(Checkpoint.from_members(commit.members())) == commit
