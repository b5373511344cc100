"""Loads of tables without a key, landed in the process. Whole loads of servers: tests/pipeline/test_load_keyless.py."""

from pathlib import Path

import pytest

from tests.faults.campaign import play
from tests.faults.runs import LANDINGS

pytestmark = [
    pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning"),  # what a killed run had open
    pytest.mark.filterwarnings("ignore::ResourceWarning"),
]

KEYLESS_SEED = 201
"""Odd seeds have tables without a key."""


def test_rows_land_once_with_the_log_since_whatever_fails(tmp_path: Path) -> None:
    faults, _, wrong = play(range(KEYLESS_SEED, KEYLESS_SEED + 1), tmp_path, layout=LANDINGS)
    assert not wrong
    assert faults
