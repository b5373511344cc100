"""What the first words of a statement mean."""

import pytest

from spark_jobs.binlog.kernels import statements
from tests.binlogs.kernel_bytes import address


@pytest.mark.parametrize(
    "text, query",
    [
        ("BEGIN", statements.Q_BEGIN),
        ("begin", statements.Q_BEGIN),
        ("BEGIN ", statements.Q_OTHER),
        ("BEGIN;", statements.Q_OTHER),
        ("COMMIT", statements.Q_COMMIT),
        ("COMMITS", statements.Q_OTHER),
        ("ROLLBACK", statements.Q_ROLLBACK),
        ("ROLLBACK TO `s`", statements.Q_ROLLBACK_TO),
        ("ROLLBACK TO", statements.Q_OTHER),
        ("ROLLBACKS TO `s`", statements.Q_OTHER),
        ("SAVEPOINT `s`", statements.Q_SAVEPOINT),
        ("RELEASE SAVEPOINT `s`", statements.Q_SAVEPOINT),
        ("XA START X'61',X'',1", statements.Q_XA_START),
        ("XA BEGIN X'61',X'',1", statements.Q_XA_START),
        ("XA END X'61',X'',1", statements.Q_XA_END),
        ("XA COMMIT X'61',X'',1", statements.Q_XA),
        ("XA ROLLBACK X'61',X'',1", statements.Q_XA),
        ("XA ", statements.Q_OTHER),
        ("XANTHIPPE", statements.Q_OTHER),
        ("CREATE TABLE BEGIN (id INT)", statements.Q_OTHER),
        ("", statements.Q_OTHER),
        ("é", statements.Q_OTHER),
    ],
)
def test_query_class(text: str, query: int) -> None:
    offset, _owner = address(text.encode())
    assert statements.query_class(offset, len(text.encode())) == query
