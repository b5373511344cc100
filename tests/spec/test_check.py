"""The models by themselves: each guard has its mutant, and what they name is there."""

import re
from pathlib import Path

import pytest

from spec import check
from spec.check import MODELS, MUTANTS, Mutant

ROOT = Path(__file__).parents[2]
PAGE = (ROOT / "docs" / "spec.md").read_text(encoding="utf-8")


def guards(module: str) -> set[str]:
    return set(re.findall(r'On\("(\w+)"\)', (ROOT / "spec" / f"{module}.tla").read_text(encoding="utf-8")))


@pytest.mark.parametrize("module", ["Lake", "Delivery", "Subscription"])
def test_each_guard_has_a_mutant_and_a_place_in_the_code(module: str) -> None:
    of_module = {mutant.guard for mutant in MUTANTS if MODELS["small"][mutant.model].module == module}
    assert of_module == guards(module)
    _, _, section = PAGE.partition("## Guards")
    listed = re.findall(rf"^\| {module.lower()} \| `(\w+)` \|", section, re.MULTILINE)
    assert sorted(listed) == sorted(of_module)


def test_what_the_page_names_of_the_code_is_there() -> None:
    indexes = re.findall(r"`([a-z_/]+\.py)::(\w+)`", PAGE)
    assert len(indexes) > 20
    for path, name in indexes:
        text = (ROOT / "spark_jobs" / path).read_text(encoding="utf-8")
        assert re.search(rf"(def|class) {name}\b", text), f"{path} has no {name}"


@pytest.mark.parametrize("size", MODELS)
def test_the_page_has_every_model_with_its_states(size: str) -> None:
    for name in MODELS[size]:
        assert re.search(rf"^\| {size} \| {re.escape(name)} \| [\d,]+ \|", PAGE, re.MULTILINE), name


@pytest.mark.slow
def test_a_model_holds_and_its_mutant_does_not() -> None:
    model = MODELS["small"]["subscription"].within(Takeovers=1)
    assert check.check(model, workers=1).violated is None
    assert check.check(model.within(Takeovers=2), without=["ownRecord"], workers=1).violated == "Forward"


@pytest.mark.thorough
def test_a_mutant_that_holds_fails(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    monkeypatch.setattr(check, "MUTANTS", [Mutant("subscription", "no guard", ("Confirmed",))])
    assert check.main(["small", "no guard"]) == 1
    assert "| no guard | subscription | NOTHING |" in capsys.readouterr().out
