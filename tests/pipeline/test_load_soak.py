"""Minutes of kills of loads under write load; ``python -m tests.soaks.load_soak`` goes on for longer."""

import os
from pathlib import Path

import pytest

from tests.soaks.load_soak import soak_of_loads

pytestmark = [pytest.mark.spark, pytest.mark.mysql, pytest.mark.long]

SECONDS = 240
SEED = int(os.environ.get("STRATALOG_SEED", "1"))


def test_a_load_that_is_killed_loses_and_doubles_nothing(tmp_path: Path, summary: list[str]) -> None:
    account = soak_of_loads(SECONDS, tmp_path, SEED, print_line=lambda line: None)
    assert account.rows
    assert (account.missing, account.doubled, account.different) == (0, 0, 0)
    summary.append(f"soak of loads, seed {SEED}\n{account}")
