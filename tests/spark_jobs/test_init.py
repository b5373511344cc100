"""Imports that the documentation gave in release 0.1.0 work, with a warning."""

import importlib
import subprocess
import sys
from pathlib import Path

import pytest

import spark_jobs.config
import spark_jobs.pipeline
import stratalog

ROOT = Path(__file__).parents[2]
DOCUMENTED = [
    ("spark_jobs.config", "Pipeline"),
    ("spark_jobs.config", "Retention"),
    ("spark_jobs.config", "from_keys"),
    ("spark_jobs.config", "load"),
    ("spark_jobs.pipeline", "lake_of"),
    ("spark_jobs.published", "consistent"),
    ("spark_jobs.session", "spark_session"),
    ("spark_jobs.store", "Store"),
    ("spark_jobs.verify", "verify_source"),
]


@pytest.mark.parametrize("module, name", DOCUMENTED)
def test_a_documented_import_of_0_1_0_warns_and_works(module: str, name: str) -> None:
    with pytest.warns(DeprecationWarning, match=f"{module}.{name} has moved: import {name} from stratalog") as warned:
        value = getattr(importlib.import_module(module), name)
    assert value is getattr(stratalog, name)
    assert {warning.filename for warning in warned} == {__file__}


@pytest.mark.thorough
@pytest.mark.parametrize("module, name", DOCUMENTED)
def test_a_new_process_imports_it_first(module: str, name: str) -> None:
    code = f"from {module} import {name}"
    command = [sys.executable, "-W", "always::DeprecationWarning:__main__", "-c", code]
    ran = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    assert (ran.returncode, "DeprecationWarning" in ran.stderr) == (0, True), ran.stderr


def test_a_type_checker_knows_no_documented_name() -> None:
    with pytest.warns(DeprecationWarning, match="has moved"):
        assert spark_jobs.config.load is stratalog.load  # type: ignore[attr-defined]
    with pytest.warns(DeprecationWarning, match="has moved"):
        assert spark_jobs.pipeline.lake_of is stratalog.lake_of  # type: ignore[attr-defined]


@pytest.mark.parametrize("module", sorted({module for module, _ in DOCUMENTED}))
def test_other_names_are_attribute_errors(module: str) -> None:
    with pytest.raises(AttributeError, match=f"module '{module}' has no attribute 'lode'"):
        _ = importlib.import_module(module).lode
