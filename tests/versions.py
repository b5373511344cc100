"""The ends of the version ranges in pyproject.toml: `python -m tests.versions lowest` and `highest`, for make.

Put here: a throw-away virtual environment with one end of each range, and a few tests in it. Not here: the locked
versions, which all other tests run with.
"""

import os
import re
import subprocess
import sys
import tempfile
import tomllib
from pathlib import Path

ROOT = Path(__file__).parents[1]
RANGES = ("dagster", "delta-spark", "deltalake", "pyarrow", "pyspark")
"""The packages whose ranges matter to those who install Stratalog beside their own."""
TESTS = (
    "tests/dagster_project/test_build.py",
    "tests/dagster_project/test_component.py",
    "tests/spark_jobs/delta",
    "tests/spark_jobs/lake/test_table.py",
    "tests/pipeline/test_telemetry.py",
)
"""Definitions and the component in Dagster, Delta's log by deltalake and pyarrow, a run of all layers in Spark."""
WITHOUT = ("dagster-dg-cli", "import-linter", "mypy", "ruff", "types-PyMySQL", "types-PyYAML", "atheris")
"""Of the development requirements what these tests do not need; `dg` pins Dagster to one version."""


def lowest() -> list[str]:
    """The lower end of each range, as requirements."""
    keys = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
    matches = (re.match(r"([\w-]+)>=([\d.]+)", text) for text in keys["project"]["dependencies"])
    bounds = {match[1]: match[2] for match in matches if match}
    return [f"{name}=={bounds[name]}" for name in RANGES]


def development() -> list[str]:
    """What the tests need besides."""
    lines = (ROOT / "requirements-dev.in").read_text(encoding="utf-8").splitlines()
    names = [re.split(r"[=; ]", line)[0] for line in lines if line and not line.startswith("#")]
    return [name for name in names if name not in WITHOUT]


def main(end: str) -> int:
    """The exit status of the tests with one end of the ranges."""
    with tempfile.TemporaryDirectory(prefix="stratalog-versions-") as folder:
        python = str(Path(folder) / "bin" / "python")
        uv = str(Path(sys.executable).with_name("uv"))
        subprocess.run([uv, "venv", "-q", "--python", sys.executable, folder], check=True)
        packages = ["-e", f"{ROOT}[otel]", *development(), *(lowest() if end == "lowest" else ())]
        subprocess.run([uv, "pip", "install", "-q", "--python", python, *packages], cwd=ROOT, check=True)
        listed = subprocess.run([uv, "pip", "freeze", "--python", python], capture_output=True, text=True, check=True)
        versions = [line for line in listed.stdout.splitlines() if line.partition("==")[0] in RANGES]
        print(f"{end}: {' '.join(versions)}", flush=True)  # noqa: T201 - what is tried
        command = [
            python,
            "-m",
            "pytest",
            "-q",
            "-p",
            "no:cacheprovider",
            "-n",
            "0",
            "-m",
            "not long and not mysql and not slow",
        ]
        environment = {name: value for name, value in os.environ.items() if name not in ("PYTHONPATH", "VIRTUAL_ENV")}
        environment["PATH"] = f"{Path(python).parent}:{environment['PATH']}"
        return subprocess.run([*command, *TESTS], cwd=ROOT, env=environment, check=False).returncode


if __name__ == "__main__":
    sys.exit(main(sys.argv[1]))
