"""Records are JSON, and the page says them."""

import json
from collections import Counter

import pytest

from docs.evidence.__main__ import _of_hours, _of_soak
from tests.evidence import records
from tests.soaks.soak import Account


@pytest.mark.slow
@pytest.mark.mysql
@pytest.mark.thorough
@pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")  # what a killed process had open
@pytest.mark.filterwarnings("ignore::ResourceWarning")
def test_hours_of_two_seeds_are_on_the_page() -> None:
    *_, record = records.hours({}, {}, "0.03", "2", "4")
    assert json.loads(json.dumps(record)) == record
    assert record["wrong"] == []
    assert "0.06 hours, 20 runs" in _of_hours(record)
    assert "seeds 2, 4: none wrong" in _of_hours(record)


def test_a_soak_is_on_the_page(monkeypatch: pytest.MonkeyPatch) -> None:
    account = Account(faults=Counter({"server killed": 2}), rows=7, missing=1)
    for name in ("soak_of_runs", "soak_of_deliveries"):
        monkeypatch.setattr(records, name, lambda *_: account)
    *_, record = records.soak({}, {}, "60", "3")
    assert json.loads(json.dumps(record)) == record
    assert _of_soak(record) == "4 faults in 2 × 1 min, seed 3: 14 rows compared, 2 lost, 0 doubled; none wrong"
