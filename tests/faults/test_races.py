"""A run that another one overtakes at any of its commits plans again, also one of another configuration.

Put here: races at a commit. Not here: faults.
"""

import itertools
from collections.abc import Iterator
from contextlib import nullcontext
from pathlib import Path

import pytest
import yaml
from _pytest.mark.structures import ParameterSet

from spark_jobs.config.loader import load
from spark_jobs.config.model import Pipeline
from spark_jobs.delta import commits
from spark_jobs.delta.kept import _KeptHere, keeping
from spark_jobs.delta.log_files import create_commit
from spark_jobs.delta.snapshot import commit_info_of
from spark_jobs.downstream import publication
from spark_jobs.downstream.commit import DownstreamCommit
from spark_jobs.downstream.publication import Entry
from spark_jobs.lake.layout import Lake, lake_of
from spark_jobs.log.position import Position
from spark_jobs.pipeline import run
from spark_jobs.pipeline.outcome import Outcome
from tests.faults import runs
from tests.faults.campaign import Log, Scenario
from tests.faults.changes import SCHEMA, SOURCE
from tests.faults.checking import Checks
from tests.faults.runs import CASCADES, CATALOG, HISTORY_PARTIAL, LANDINGS, LAYOUTS, SOFT_DELETE

_STEPS = {"first commits": (2,), "later commits": (0, 3)}
"""Steps of the log with a run behind each, of which the last is overtaken."""
_STRIDES = {"each third": 3, "each twelfth": 12, "each": 1}
"""From one of a run's commits to the next one that is overtaken."""


_CHEAP = ("mirrors", LANDINGS, SOFT_DELETE, HISTORY_PARTIAL)
"""Layouts whose later commits are overtaken by every session of tests."""


def _marks(layout: str, steps: str, stride: str) -> list[pytest.MarkDecorator]:
    if stride == "each":
        return [pytest.mark.long]
    return [] if steps == "later commits" and layout in _CHEAP else [pytest.mark.thorough]


def _cases() -> Iterator[ParameterSet]:
    """Each commit at night. In CI each third one, and of the many later commits with derived changes each twelfth."""
    for layout, steps, stride in itertools.product(LAYOUTS, _STEPS, _STRIDES):
        is_of_many = (layout, steps) == (CASCADES, "later commits")
        # A catalog is reached by the disk of a scenario alone (test_exactly_once.py).
        if layout == CATALOG or stride == ("each third" if is_of_many else "each twelfth"):
            continue
        marks, name = _marks(layout, steps, stride), f"{layout}-{steps}-{stride}"
        yield pytest.param(layout, _STEPS[steps], _STRIDES[stride], id=name, marks=marks)


@pytest.mark.parametrize("layout, steps, stride", [*_cases()])
def test_a_run_that_is_overtaken_at_a_commit_plans_again(
    layout: str, steps: tuple[int, ...], stride: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """stride: layouts begin with different commits.

    Runs of odd numbers are of a process that follows, and keeps the logs of its runs before.
    """
    overtaken = 0
    with runs.without_spark():
        log = Log(4, tmp_path / "log", layout)
        for number in range(1 + [*LAYOUTS].index(layout) % stride, 100, stride):
            home = tmp_path / f"lake{number}"
            home.mkdir()
            scenario = Scenario(number, log, home, layout=layout)
            pipeline, publishes = scenario.pipeline, scenario.publishes
            with keeping() if number % 2 else nullcontext():
                for step in steps[:-1]:
                    scenario._grow(step)
                    runs.run_until_current(pipeline, number, publishes=publishes)
                scenario._grow(steps[-1])
                count = _commits_of_overtaken(pipeline, pipeline, number, monkeypatch, publishes=publishes)
            log.checks.check(scenario.pipeline, scenario._until())
            if count < number:
                break
            overtaken += 1
    assert overtaken >= max(1, 4 // stride)


@pytest.mark.thorough
@pytest.mark.parametrize("steps", [(2,), (0, 3)], ids=["first commits", "later commits"])
def test_a_run_that_one_of_another_configuration_overtakes_plans_again(
    steps: tuple[int, ...], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Two configurations of one lake, one of which lacks a table."""
    overtaken = 0
    with runs.without_spark():
        log = Log(4, tmp_path / "log")
        assert isinstance(log.checks, Checks)
        names = sorted(log.checks.changes.keys)
        for number in range(1, 100):
            home = tmp_path / f"lake{number}"
            home.mkdir()
            scenario = Scenario(number, log, home)
            first, second = (_of_tables(home, tables) for tables in (names, names[1:]))
            for step in steps[:-1]:
                scenario._grow(step)
                for pipeline in (second, first):
                    runs.run_until_current(pipeline, number)
            scenario._grow(steps[-1])
            count = _commits_of_overtaken(first, second, number, monkeypatch)
            assert runs.run(second, number) == {}
            log.checks.check(scenario.pipeline, scenario._until())
            if count < number:
                break
            overtaken += 1
    assert overtaken > 3


def _of_tables(folder: Path, tables: list[str]) -> Pipeline:
    """A configuration of a file of its own."""
    path = folder / f"{tables[0]}.yaml"
    document = yaml.safe_load((folder / "pipeline.yaml").read_text(encoding="utf-8"))
    path.write_text(yaml.safe_dump(document | {"tables": [f"{SCHEMA}.{table}" for table in tables]}), encoding="utf-8")
    return load(path, {})


def _commits_of_overtaken(
    pipeline: Pipeline, rival: Pipeline, number: int, monkeypatch: pytest.MonkeyPatch, *, publishes: bool = False
) -> int:
    """Commits of a run that another one overtakes just before the numbered one. Neither fails or stops a table."""
    count = 0

    def overtake(path: str, version: int, content: bytes) -> bool:
        nonlocal count
        count += 1
        if count == number:
            with monkeypatch.context() as patched:
                patched.setattr(commits, "create_commit", create_commit)
                patched.setattr(_KeptHere, "logs", None)
                assert runs.run(rival, 1000 + number, publishes=publishes) == {}
        return create_commit(path, version, content)

    with monkeypatch.context() as patched:
        patched.setattr(commits, "create_commit", overtake)
        assert runs.run(pipeline, number, publishes=publishes) == {}
    return count


def test_a_run_that_is_overtaken_before_it_merges_publishes_one_moment(tmp_path: Path) -> None:
    """What is published holds its position, and nothing of the log behind it."""
    (tmp_path / "lake").mkdir()
    with runs.without_spark():
        scenario = Scenario(1, Log(4, tmp_path / "log"), tmp_path / "lake")
        pipeline = scenario.pipeline
        scenario._grow(0)
        with runs.scheduled(1):
            _publish(pipeline, run.compact_source(runs.SPARK, pipeline, SOURCE))
        scenario._grow(1)
        with runs.scheduled(2):
            compacted = run.compact_source(runs.SPARK, pipeline, SOURCE)
        scenario._grow(3)
        with runs.scheduled(3):
            overtaking = run.compact_source(runs.SPARK, pipeline, SOURCE)
            _publish(pipeline, compacted)
            of_overtaken = _published_positions(pipeline)
            _publish(pipeline, overtaking)
    assert of_overtaken
    assert all(holds == end for holds, end in of_overtaken)
    assert {*_published_positions(pipeline)} == {(overtaking.position, overtaking.position)}


def test_what_another_run_publishes_while_one_reads_what_is_published_stays(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A run that had seen the new position and not the new tables would publish that there are none."""
    (tmp_path / "lake").mkdir()
    read, is_read = publication.read, False
    with runs.without_spark():
        scenario = Scenario(1, Log(4, tmp_path / "log"), tmp_path / "lake")
        pipeline = scenario.pipeline
        scenario._grow(2)

        def overtaken(lake: Lake, source: str) -> list[Entry]:
            nonlocal is_read
            entries = read(lake, source)
            if not is_read:
                is_read = True
                runs.run(pipeline, 1, publishes=True)
            return entries

        monkeypatch.setattr(publication, "read", overtaken)
        runs.run(pipeline, 2, publishes=True)
    names = {entry.name for entry in read(lake_of(pipeline), SOURCE)}
    assert names == {(SCHEMA, name.table) for name in runs.published(pipeline)}
    assert names


def _publish(pipeline: Pipeline, compacted: Outcome) -> None:
    run.publish(pipeline, SOURCE, run.merge_source(runs.SPARK, pipeline, SOURCE, compacted))


def _published_positions(pipeline: Pipeline) -> list[tuple[Position, Position]]:
    """Of each published version the position that it holds, and the one that is published."""
    targets = [target for entry in publication.read(lake_of(pipeline), SOURCE) for target in entry.into]
    positions = []
    for target in targets:
        if target.version is None:  # nothing of it is published yet
            continue
        assert target.merged
        commit = DownstreamCommit.from_json((commit_info_of(target.path, target.version) or {}).get("userMetadata"))
        assert commit
        positions.append((commit.position, Position.parse(target.merged)))
    return positions
