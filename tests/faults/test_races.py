"""A run that another one overtakes at any of its commits plans again. Put here: races at a commit. Not here: faults."""

from pathlib import Path

import pytest

from spark_jobs.delta import commits
from spark_jobs.delta.log_files import create_commit
from tests.faults import runs
from tests.faults.campaign import Log, Scenario
from tests.faults.runs import LAYOUTS, MERGED


@pytest.mark.parametrize("steps", [(2,), (0, 3)], ids=["first commits", "later commits"])
@pytest.mark.parametrize("layout", [name for name in LAYOUTS if name != MERGED])
def test_a_run_that_is_overtaken_at_a_commit_plans_again(
    layout: str, steps: tuple[int, ...], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    overtaken = 0
    with runs.without_spark():
        log = Log(4, tmp_path / "log", layout)
        for number in range(1, 100):
            home = tmp_path / f"lake{number}"
            home.mkdir()
            scenario = Scenario(number, log, home, layout=layout)
            for step in steps[:-1]:
                scenario._grow(step)
                runs.settle(scenario.pipeline, number)
            scenario._grow(steps[-1])
            count = _commits_of_overtaken(scenario, number, monkeypatch)
            log.checks.check(scenario.pipeline, scenario._until())
            if count < number:
                break
            overtaken += 1
    assert overtaken > 3


def _commits_of_overtaken(scenario: Scenario, number: int, monkeypatch: pytest.MonkeyPatch) -> int:
    """Commits of a run that another one overtakes just before the numbered one. Neither fails or stops a table."""
    count = 0

    def overtake(path: str, version: int, content: bytes) -> bool:
        nonlocal count
        count += 1
        if count == number:
            with monkeypatch.context() as rival:
                rival.setattr(commits, "create_commit", create_commit)
                assert runs.run(scenario.pipeline, 1000 + number) == {}
        return create_commit(path, version, content)

    with monkeypatch.context() as patched:
        patched.setattr(commits, "create_commit", overtake)
        assert runs.run(scenario.pipeline, number) == {}
    return count
