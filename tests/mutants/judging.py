"""Takes guards away one after the other, in a copy of the tree, and runs the tests that have to notice.

A mutant is killed by a test that fails, or that does not end in time, and that passes without it. Those of a guard's
tests come first that need neither Spark nor a server, and before them the test that killed the mutant before.

Put here: one mutant. Not here: where the guards are (guards.yaml), a session of tests (session.py), the record
(tests/evidence).
"""

import hashlib
import json
import os
import shutil
import subprocess
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Any, Self

from tests.mutants.guards import Guard

ROOT = Path(__file__).parents[2]
SECONDS = 1_200
"""That a session of tests may take."""
_NOT_HERE = "not dagster and not cluster"
_PHASES = (
    f"{_NOT_HERE} and not long and not spark and not mysql and not stores and not slow and not thorough",
    f"{_NOT_HERE} and not long and not spark and not mysql and not stores and (slow or thorough)",
    f"{_NOT_HERE} and not long and (spark or mysql or stores)",
)
"""The tests of a guard, the fast ones first."""
_AT_NIGHT = f"{_NOT_HERE} and long"
"""Of them those that a guard names alone: all tests of a folder at night take hours."""


@dataclass(frozen=True, slots=True)
class Judged:
    """killer: the test that noticed; None where none did. seconds: of all sessions."""

    killer: str | None
    seconds: float


def digest_of(guard: Guard) -> str:
    """Changes with the guard's entry and with the file that it is in."""
    content = (ROOT / guard.file).read_bytes()
    return hashlib.sha256(content + repr(guard).encode()).hexdigest()[:16]


class Judge:
    """A copy of the tree, and a process that runs sessions of tests in it."""

    def __init__(self, folder: Path) -> None:
        self._tree = _copy(folder / "tree")
        self._sound: dict[str, bool] = {}
        """By test whether it passes without a mutant."""

    def __enter__(self) -> Self:
        self._process = subprocess.Popen(
            [sys.executable, "-m", "tests.mutants.session"],
            cwd=self._tree,
            env=os.environ | {"PYTHONPATH": str(self._tree), "STRATALOG_EXAMPLES": "50"},
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )
        return self

    def __exit__(self, *_: object) -> None:
        self._process.communicate()  # it ends with its input

    def judge(self, guard: Guard, killer: str | None = None) -> Judged:
        """What noticed that a guard was gone. killer: the test that did before.

        Raises TimeoutError where a test does not end in time without the mutant either.
        """
        sessions: list[tuple[str, tuple[str, ...]]] = [(phase, guard.tests) for phase in _PHASES]
        if named := tuple(test for test in guard.tests if "::" in test):
            sessions.append((_AT_NIGHT, named))
        if killer and self._has(killer):
            sessions.insert(0, (_NOT_HERE, (killer,)))
        seconds, unsound = 0.0, set[str]()
        for marker, tests in sessions:
            while True:
                answer = self._session_of_mutant(guard, marker, tests, unsound)
                seconds += answer["seconds"]
                found = answer["failed"] or (answer["running"] if answer["status"] is None else None)
                if answer["status"] == 0:
                    break
                if found is None:
                    raise RuntimeError(f"{guard.promise}: no test failed, and yet the session did:\n{answer['output']}")
                if self._is_sound(found):
                    return Judged(found, seconds)
                unsound.add(found)
        return Judged(None, seconds)

    def _has(self, test: str) -> bool:
        return (self._tree / test.partition("::")[0]).exists()

    def _session_of_mutant(self, guard: Guard, marker: str, tests: Sequence[str], unsound: set[str]) -> dict[str, Any]:
        file = self._tree / guard.file
        text = file.read_text(encoding="utf-8")
        _write(file, text.replace(guard.before, guard.after))
        try:
            return self._run_session(marker, tests, unsound)
        finally:
            _write(file, text)

    def _is_sound(self, test: str) -> bool:
        """True if a test passes without a mutant."""
        if test not in self._sound:
            answer = self._run_session(_NOT_HERE, [test], set())
            if answer["status"] is None:
                raise TimeoutError(f"{test} takes more than {SECONDS} seconds")
            self._sound[test] = answer["status"] == 0
        return self._sound[test]

    def _run_session(self, marker: str, tests: Sequence[str], unsound: set[str]) -> dict[str, Any]:
        arguments = ["-x", "-q", "-n", "0", "-p", "no:cacheprovider", "-m", marker, *tests]
        arguments += [f"--deselect={test}" for test in sorted(unsound)]
        asking, answering = self._process.stdin, self._process.stdout
        assert asking is not None
        assert answering is not None
        return _asked(asking, answering, {"arguments": arguments, "seconds": SECONDS})


def _asked(asking: IO[str], answering: IO[str], question: dict[str, Any]) -> dict[str, Any]:
    asking.write(f"{json.dumps(question)}\n")
    asking.flush()
    line = answering.readline()
    if not line:
        raise RuntimeError("the process that runs sessions of tests has ended")
    return json.loads(line)  # type: ignore[no-any-return]


def _write(file: Path, text: str) -> None:
    """Writes a module, and removes what was compiled of it: two texts of one second and size would be one to Python."""
    file.write_text(text, encoding="utf-8")
    for compiled in (file.parent / "__pycache__").glob(f"{file.stem}.*"):
        compiled.unlink()


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
