from pathlib import Path

import pytest

from release.locks import IMAGE_LOCKS, entries, merged, requirement_of

ROOT = Path(__file__).parents[2]
LOCK = """\
a==1 \\
    --hash=sha256:00
    # via b
b[c]==2 ; python_version < "3" \\
    --hash=sha256:11 \\
    --hash=sha256:22
"""


def test_a_lock_is_read_by_requirement(tmp_path: Path) -> None:
    (tmp_path / "lock").write_text(f"# head\n{LOCK}")
    found = list(entries(tmp_path / "lock"))
    assert [str(requirement_of(entry)) for entry in found] == ["a==1", 'b[c]==2; python_version < "3"']
    assert found[1].count("--hash") == 2


def test_a_requirement_of_two_locks_is_there_once(tmp_path: Path) -> None:
    (tmp_path / "one").write_text(LOCK)
    (tmp_path / "other").write_text("a==1 \\\n    --hash=sha256:00\nd==3 \\\n    --hash=sha256:33\n")
    (tmp_path / "third").write_text("a==2 \\\n    --hash=sha256:00\n")
    text = merged([tmp_path / "one", tmp_path / "other"])
    assert [line.split("==")[0] for line in text.splitlines() if line[0] != " "] == ["a", "b[c]", "d"]
    with pytest.raises(ValueError, match="third has a==2, and another ==1"):
        merged([tmp_path / "one", tmp_path / "third"])


def test_the_locks_of_the_image_are_those_of_its_recipe() -> None:
    recipe = (ROOT / "Containerfile").read_text()
    assert sorted(IMAGE_LOCKS, key=recipe.index) == list(IMAGE_LOCKS)
    assert recipe.count("-r requirements") == len(IMAGE_LOCKS)
