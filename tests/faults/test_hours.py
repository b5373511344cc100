"""Hours of a follower by a clock: what a short one does, and that the comparisons see what is wrong."""

from pathlib import Path

import pytest

from spark_jobs.delivery.deliver import DeliveryOutcome
from tests.faults import hours
from tests.faults.hours import play

pytestmark = [
    pytest.mark.slow,
    pytest.mark.mysql,
    pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning"),  # what a killed process had open
    pytest.mark.filterwarnings("ignore::ResourceWarning"),
]


@pytest.mark.thorough
@pytest.mark.parametrize("seed", [1, 2])  # of which one has a table without a key
def test_minutes_lose_and_double_nothing(seed: int, tmp_path: Path, summary: list[str]) -> None:
    account, wrong = play(seed, 0.1, tmp_path)
    assert not wrong, wrong[0]
    assert account.processes["run"] == 36
    assert account.processes["delivery"] == account.processes["consumer"] == 6
    assert account.done["changes consumed"] > 40
    assert account.done["rows delivered"] > 20
    assert account.faults.total() > 5
    assert account.done["comparisons of everything"] == 1
    summary.append(f"hours, seed {seed}: {account}")


@pytest.mark.long
@pytest.mark.parametrize("seed, is_folded", [(4, False), (6, True)])
def test_hours_remove_log_and_write_files_together(
    seed: int, is_folded: bool, tmp_path: Path, summary: list[str]
) -> None:
    account, wrong = play(seed, 1.6, tmp_path)
    assert not wrong, wrong[0]
    assert account.done["files of log removed"] > 0
    assert account.done["tables rewritten"] > 10
    assert (account.done["tables folded"] > 0) == is_folded
    assert account.done["backfills"] > 0
    assert account.faults.total() > 100
    summary.append(f"hours: {account}")


@pytest.mark.thorough
def test_a_delivery_that_does_nothing_is_seen(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(hours, "deliver", lambda *_: DeliveryOutcome("copy"))
    _, (wrong,) = play(2, 0.05, tmp_path)
    assert "target of" in wrong


@pytest.mark.thorough
def test_a_consumer_that_loses_a_change_is_seen(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(hours, "_BATCH", 1)
    take, calls = hours.HoursScenario._take_change, list[object]()

    def losing(scenario: hours.HoursScenario, key: tuple[str, int], value: dict[str, object]) -> None:
        calls.append(key)
        if len(calls) != 5:
            take(scenario, key, value)

    monkeypatch.setattr(hours.HoursScenario, "_take_change", losing)
    _, (wrong,) = play(2, 0.05, tmp_path)
    assert "a consumer was given" in wrong
