"""The container file: what it copies is there, nobody is root, no port is open to all, no secret is in it."""

import re
import tomllib
from importlib.metadata import version
from pathlib import Path

ROOT = Path(__file__).parents[2]
LINES = (ROOT / "Containerfile").read_text(encoding="utf-8").replace("\\\n", " ").splitlines()
PAGE = (ROOT / "docs" / "deployment.md").read_text(encoding="utf-8")


def instructions(instruction: str) -> list[str]:
    return [line.split(maxsplit=1)[1] for line in LINES if line.startswith(f"{instruction} ")]


def test_what_it_copies_is_there() -> None:
    copied = [source for line in instructions("COPY") for source in line.split()[:-1]]
    assert copied
    assert [path for path in copied if not (ROOT / path).exists()] == []
    packages = tomllib.loads((ROOT / "pyproject.toml").read_text())["tool"]["hatch"]["build"]["targets"]["wheel"]
    assert set(packages["packages"]) <= set(copied)


def test_it_does_not_run_as_root() -> None:
    last = max(at for at, line in enumerate(LINES) if line.startswith("USER "))
    assert LINES[last] == "USER stratalog"
    assert not any(line.startswith("RUN ") for line in LINES[last:])


def test_it_is_bound_to_loopback_and_holds_no_secret() -> None:
    assert '"-h", "127.0.0.1"' in instructions("CMD")[0]
    assert not re.search(
        r"password|secret|token|_KEY", "\n".join([*instructions("ENV"), *instructions("ARG")]), re.IGNORECASE
    )
    assert re.findall(r"-p (\S+):3000:3000\b", PAGE) == ["127.0.0.1"]


def test_what_it_compiles_is_kept_where_its_user_may_write() -> None:
    """Else each container compiles the decoder again: numba looks nowhere that it cannot write."""
    variables = dict(re.findall(r"(\w+)=(\S+)", " ".join(instructions("ENV"))))
    cache = variables["STRATALOG_CACHE"]
    assert Path(variables["NUMBA_CACHE_DIR"]).is_relative_to(cache)
    (instruction,) = (line for line in instructions("RUN") if "spark_jobs.runtime.provision" in line)
    steps = [step.strip() for step in instruction.split("&&")]
    demo = next(at for at, step in enumerate(steps) if step.startswith("stratalog demo"))
    assert demo < steps.index(f"chown -R stratalog {cache}")


def test_the_versions_of_dagster_and_its_libraries_belong_together() -> None:
    """Libraries of 0.N are released with dagster 1.(N - 16)."""
    _, minor, patch = version("dagster").split(".")
    requirement = f"dagster-postgres==0.{int(minor) + 16}.{patch}"
    assert f'EXTRA="{requirement} psycopg2-binary"' in instructions("ARG")[0]
    assert f"pip install {requirement}" in PAGE
