"""That each guard is still in the text, and that its mutant is a program."""

import pytest

from tests.mutants.guards import GUARDS, Guard
from tests.mutants.judging import ROOT


@pytest.mark.parametrize("guard", GUARDS, ids=lambda guard: guard.promise)
def test_a_guard_is_there_once_and_its_mutant_compiles(guard: Guard) -> None:
    text = (ROOT / guard.file).read_text(encoding="utf-8")
    assert text.count(guard.before) == 1
    compile(text.replace(guard.before, guard.after), guard.file, "exec")


@pytest.mark.parametrize("guard", GUARDS, ids=lambda guard: guard.promise)
def test_the_tests_that_have_to_notice_are_there(guard: Guard) -> None:
    for file, _, name in (test.partition("::") for test in guard.tests):
        assert (ROOT / file).exists()
        assert not name or f"def {name.partition('[')[0]}(" in (ROOT / file).read_text(encoding="utf-8"), name


def test_promises_are_told_apart() -> None:
    assert len({guard.promise for guard in GUARDS}) == len(GUARDS)
