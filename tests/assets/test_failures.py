import dagster as dg
import pytest

from assets.failures import failing
from spark_jobs.errors import (
    ConfigError,
    DecodeError,
    JvmEnded,
    LakeError,
    LostRace,
    SourceError,
    StratalogError,
    TableStopped,
    Truncated,
)
from spark_jobs.text.remedies import advised


@pytest.mark.parametrize(
    "error, is_retried",
    [
        (SourceError("the server is away"), True),
        (LostRace("another writer"), True),
        (LakeError("no space"), True),
        (JvmEnded("Spark's JVM ended"), False),
        (DecodeError("bytes"), False),
        (Truncated("bytes"), False),
        (ConfigError("a key"), False),
        (TableStopped("a table"), False),
    ],
)
def test_a_failure_has_the_message_and_is_tried_again_where_that_may_help(
    error: StratalogError, is_retried: bool
) -> None:
    with pytest.raises(dg.Failure) as raised, failing():
        raise error
    assert (raised.value.description, raised.value.allow_retries) == (advised(error), is_retried)
    assert raised.value.__suppress_context__


def test_what_is_not_ours_stays_as_it_is() -> None:
    with pytest.raises(ZeroDivisionError), failing():
        raise ZeroDivisionError
