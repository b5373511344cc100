"""The registry of event types as a whole."""

import pytest

from spark_jobs.binlog.events.types import EVENT_TYPES, MEANINGS, type_name
from spark_jobs.binlog.kernels import event_cells


def test_every_known_number_is_there() -> None:
    """MySQL's numbers from 1 to 43 and MariaDB's from 160 to 172: none is left to chance."""
    assert sorted(EVENT_TYPES) == [*range(1, 44), *range(160, 173)]


def test_meanings_are_the_registry() -> None:
    assert len(MEANINGS) == 256
    for code in range(256):
        assert MEANINGS[code] == (EVENT_TYPES[code].meaning if code in EVENT_TYPES else event_cells.UNKNOWN)


def test_row_events_plain_partial_and_compressed() -> None:
    rows = {code for code, event in EVENT_TYPES.items() if event.meaning == event_cells.ROWS}
    assert rows == {23, 24, 25, 30, 31, 32, 39, *range(166, 173)}


@pytest.mark.parametrize("code, name", [(30, "Write_rows"), (14, "User var"), (162, "Gtid"), (200, "Unknown(200)")])
def test_type_name(code: int, name: str) -> None:
    assert type_name(code) == name
