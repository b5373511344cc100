"""A minute of random faults under write load; ``make soak`` goes on for half an hour."""

import os
from pathlib import Path

import pytest

from tests.soaks.soak import soak

pytestmark = [pytest.mark.spark, pytest.mark.mysql, pytest.mark.long]

SECONDS = 60
SEED = int(os.environ.get("STRATALOG_SEED", "1"))


def test_nothing_is_lost_and_nothing_doubled(tmp_path: Path, summary: list[str]) -> None:
    account = soak(SECONDS, tmp_path, SEED, print_line=lambda line: None)
    assert account.rows
    assert account.bytes
    assert (account.missing, account.doubled, account.different) == (0, 0, 0)
    summary.append(f"soak, seed {SEED}\n{account}")
