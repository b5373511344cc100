"""Takes each guard away, and runs the tests that have to notice: python -m tests.mutants [PART OF A NAME ...].

Works in a copy of the tree. Prints a line a mutant, and exits with 1 where one survived. A mutant is killed by a test
that fails, or that does not end in time; the tests pass without mutants first.
"""

import os
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path

from tests.mutants.guards import GUARDS, Guard

ROOT = Path(__file__).parents[2]
SECONDS = 900
"""That a session of tests may take."""


def main(parts: Sequence[str]) -> int:
    """parts: of the promises of the guards that are meant; all without any. Returns the exit status."""
    killers = killed_by(parts)
    survivors = [promise for promise, killer in killers.items() if killer is None]
    killed = len(killers) - len(survivors)
    say(f"\n{killed} of {len(killers)} mutants killed ({100 * killed / max(1, len(killers)):.0f} %)")
    for promise in survivors:
        say(f"survived: {promise}")
    return 1 if survivors else 0


def killed_by(parts: Sequence[str]) -> dict[str, str | None]:
    """By promise of a guard the test that noticed that it was gone; None where none did. parts: as in ``main``."""
    guards = [guard for guard in GUARDS if not parts or any(part in guard.promise for part in parts)]
    with tempfile.TemporaryDirectory() as folder:
        tree = _copy(Path(folder) / "tree")
        tests = dict.fromkeys(test for guard in guards for test in guard.tests)
        failing = [test for test in tests if _fails(tree, test)]
        for test in failing:
            say(f"fails without a mutant, and is left out: {test}")
        return {guard.promise: _killer(tree, guard, failing) for guard in guards}


def say(line: str) -> None:
    sys.stdout.write(f"{line}\n")
    sys.stdout.flush()


def _copy(tree: Path) -> Path:
    """The files of the tree that git knows, elsewhere."""
    listed = subprocess.run(
        ["git", "ls-files", "--cached", "--others", "--exclude-standard", "-z"],
        cwd=ROOT,
        check=True,
        capture_output=True,
        text=True,
    ).stdout
    for name in filter(None, listed.split("\0")):
        if (ROOT / name).is_file():
            (tree / name).parent.mkdir(parents=True, exist_ok=True)
            shutil.copy2(ROOT / name, tree / name)
    return tree


def _killer(tree: Path, guard: Guard, failing: Sequence[str]) -> str | None:
    file, began = tree / guard.file, time.monotonic()
    text = file.read_text(encoding="utf-8")
    file.write_text(text.replace(guard.before, guard.after), encoding="utf-8")
    try:
        killer = next((test for test in guard.tests if test not in failing and _fails(tree, test)), None)
    finally:
        file.write_text(text, encoding="utf-8")
    ending = f"killed by {killer}" if killer else "SURVIVED"
    say(f"| {guard.promise} | {guard.file} | {ending} | {time.monotonic() - began:.0f} s |")
    return killer


def _fails(tree: Path, test: str) -> bool:
    """True if a test, or one of a file's or folder's, fails in the tree."""
    command = [sys.executable, "-m", "pytest", "-x", "-q", "-n", "0", "-p", "no:cacheprovider"]
    command += ["-m", "not long and not dagster and not cluster", test]
    environment = os.environ | {"PYTHONPATH": str(tree), "PYTHONDONTWRITEBYTECODE": "1"}
    try:
        ran = subprocess.run(command, cwd=tree, env=environment, capture_output=True, timeout=SECONDS, check=False)
    except subprocess.TimeoutExpired:
        return True
    return ran.returncode not in (0, 5)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
