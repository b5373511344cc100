"""A damaged file of a lake: right rows, or a message with its path and what to do; and all is right once it is back."""

from collections import Counter
from pathlib import Path

import pytest

from tests.faults.damage import DamagedLake, play
from tests.faults.runs import without_spark


@pytest.mark.slow
@pytest.mark.parametrize("layout", ["mirrors"])
@pytest.mark.parametrize(
    "flips, files", [pytest.param(1, 1, marks=pytest.mark.thorough), pytest.param(2, 3, marks=pytest.mark.long)]
)
def test_a_damaged_file_gives_right_rows_or_a_message(
    layout: str, tmp_path: Path, summary: list[str], flips: int, files: int
) -> None:
    """flips: bits in each file. files: of each kind."""
    counts, wrong = play(3, tmp_path, layout, flips=flips, files=files)
    by_outcome = Counter[str]()
    for kind, count in counts.items():
        by_outcome[kind.partition(": ")[2].partition(": ")[2]] += count
    listed = ", ".join(f"{outcome} {count}" for outcome, count in by_outcome.most_common())
    summary.append(f"damaged files, {layout}: {counts.total()}: {listed}")
    assert not wrong, f"{len(wrong)} of {counts.total()}:\n" + "\n".join(wrong[:20])


@pytest.mark.thorough
@pytest.mark.slow
@pytest.mark.parametrize("layer", ["bronze", "downstream"])
def test_a_layer_of_a_backup_is_brought_up_to_the_others(layer: str, tmp_path: Path) -> None:
    """Silver's is in engine/merge/test_downstream_job.py: Spark SQL merges all of it again."""
    with without_spark():
        lake = DamagedLake(4, tmp_path, "mirrors")
        assert lake.restored(layer) == "is right"
