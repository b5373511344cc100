"""The target for a processor: the best whose every instruction it has."""

import os
import platform
import subprocess
import sys
from itertools import pairwise

import pytest

from spark_jobs.binlog.kernels import targets
from spark_jobs.binlog.kernels.addresses import CHECKED
from spark_jobs.binlog.kernels.targets import TARGETS, CodeTarget, compiler_features, fitting_target

ENTRY = """
from spark_jobs.binlog.kernels import compile, targets
print(sorted(compile.FEATURES) == sorted(targets.compiler_features()), *sorted(compile.FEATURES))
print(targets.fitting_target())
"""


@pytest.fixture
def processor(monkeypatch: pytest.MonkeyPatch) -> pytest.MonkeyPatch:
    monkeypatch.setattr(platform, "machine", lambda: "x86_64")
    monkeypatch.setattr(targets, "is_named", lambda: False)
    return monkeypatch


def fitting(processor: pytest.MonkeyPatch, features: frozenset[str]) -> CodeTarget | None:
    processor.setattr(targets, "compiler_features", lambda: features)
    return fitting_target()


def test_targets_go_from_the_best_to_what_it_is_a_part_of() -> None:
    features = [target.features for target in TARGETS]
    assert features == sorted(features, key=len, reverse=True)
    assert all(following < target for target, following in pairwise(features))
    assert len({target.name for target in TARGETS}) == len(TARGETS)


@pytest.mark.parametrize("target", TARGETS, ids=lambda target: target.name)
def test_a_processor_with_all_instructions_of_a_target_gets_it(
    target: CodeTarget, processor: pytest.MonkeyPatch
) -> None:
    assert fitting(processor, target.features | {"sse4a"}) == target


@pytest.mark.parametrize("target", TARGETS, ids=lambda target: target.name)
def test_a_processor_that_lacks_one_instruction_of_a_target_never_gets_it(
    target: CodeTarget, processor: pytest.MonkeyPatch
) -> None:
    features = frozenset[str]().union(*(target.features for target in TARGETS))
    for feature in target.features:
        found = fitting(processor, features - {feature})
        assert found is None or (found != target and feature not in found.features)


def test_another_machine_gets_none(processor: pytest.MonkeyPatch) -> None:
    processor.setattr(platform, "machine", lambda: "aarch64")
    assert fitting(processor, TARGETS[0].features) is None


@pytest.mark.skipif(CHECKED, reason="nothing is compiled where kernels run as plain Python")
@pytest.mark.parametrize(
    "target",
    [TARGETS[0], *(pytest.param(target, marks=pytest.mark.thorough) for target in TARGETS[1:])],
    ids=lambda target: target.name,
)
def test_numba_compiles_for_a_target_that_it_is_told_and_loads_no_other(target: CodeTarget) -> None:
    ran = subprocess.run(
        [sys.executable, "-c", ENTRY], env=os.environ | target.options(), capture_output=True, text=True, check=True
    )
    assert ran.stdout.splitlines() == [f"True {' '.join(sorted(target.features))}", "None"]


def test_without_avx_no_target_fits() -> None:
    environment = os.environ | {"NUMBA_ENABLE_AVX": "0", "NUMBA_DISABLE_JIT": "0"}
    program = "from spark_jobs.binlog.kernels import targets; print(targets.fitting_target())"
    ran = subprocess.run([sys.executable, "-c", program], env=environment, capture_output=True, text=True, check=True)
    assert ran.stdout == "None\n"


def test_this_processor_has_features() -> None:
    assert {"sse2", "cx8"} <= compiler_features() or platform.machine() != "x86_64"
