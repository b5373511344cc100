"""Tables that change names and keys through the engine, held against a plain model of their rows.

Not here: the same with faults (tests/faults), or on servers (tests/pipeline/test_renames.py, test_key_changes.py).
"""

from pathlib import Path

import pytest

from spark_jobs.engine.silver.silver_plan import PreparedCompaction
from tests.faults import runs
from tests.faults.changes import SOURCE, bronze_tables
from tests.faults.renames import RenamedChanges
from tests.faults.states import StateChecks


@pytest.fixture
def jobs(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """Number of jobs came before that each one that units took part in."""
    depths: list[int] = []
    at_depth = PreparedCompaction.at_depth

    def noted(unit: PreparedCompaction, depth: int, results: list[object]) -> PreparedCompaction:
        depths.append(depth)
        return at_depth(unit, depth, results)  # type: ignore[arg-type]

    monkeypatch.setattr(PreparedCompaction, "at_depth", noted)
    return depths


def compare(folder: Path, seed: int, *, steps: int, is_partial: bool) -> None:
    """Bronze that grows in so many steps, with a run behind each."""
    changes = RenamedChanges(seed, 15, is_partial=is_partial)
    (folder / "bronze").mkdir(parents=True)
    (folder / "home").mkdir()
    pipeline, checks = runs.pipeline_in(folder / "home"), StateChecks(changes.states)
    link = folder / "home" / "lake" / "bronze" / SOURCE
    link.parent.mkdir(parents=True)
    for path, until in bronze_tables(changes.content, folder / "bronze", steps):
        link.unlink(missing_ok=True)
        link.symlink_to(path)
        assert runs.run(pipeline, seed) == {}
        checks.check(pipeline, until)


@pytest.mark.parametrize(
    "is_partial", [False, pytest.param(True, marks=pytest.mark.thorough)], ids=["whole images", "partial images"]
)
def test_rows_go_on_under_other_names_and_keys(is_partial: bool, tmp_path: Path, jobs: list[int]) -> None:
    with runs.without_spark():
        for seed, steps in ((24, 1), (7, 3)):
            compare(tmp_path / f"{seed}", seed, steps=steps, is_partial=is_partial)
    assert max(jobs) > 0, "a key that changes twice in a run"


@pytest.mark.long
def test_rows_go_on_under_other_names_and_keys_in_many_logs(tmp_path: Path, summary: list[str]) -> None:
    seeds = range(1000, 1060)
    with runs.without_spark():
        for seed in seeds:
            compare(tmp_path / f"{seed}", seed, steps=1 + seed % 5, is_partial=seed % 3 == 0)
    summary.append(f"engine, {len(seeds)} logs of tables that change names and keys: no difference")
