"""The container file: what it copies is there, nobody is root, no port is open to all, no secret is in it."""

import os
import re
import subprocess
import tomllib
from importlib.metadata import version
from pathlib import Path

from hatch_build import HOME, MOVED, pages

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


def test_what_a_wheel_has_beside_its_package_is_copied_before_the_wheel_is_built() -> None:
    """Messages name pages (`stratalog docs limits`); without docs/ the image's wheel has none, and nothing fails."""
    built = next(at for at, line in enumerate(LINES) if line.startswith("RUN ") and "--no-index ." in line)
    before = [line.split()[1:-1] for line in LINES[:built] if line.startswith("COPY ")]
    folders = {Path(path).relative_to(ROOT).parts[0] for path in pages(ROOT)}
    assert folders == {"docs"}
    assert folders | {HOME, *MOVED} <= {source for sources in before for source in sources}


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
    lock = (ROOT / "requirements-postgres.txt").read_text(encoding="utf-8")
    assert f"\n{requirement} \\\n" in lock
    assert " -r requirements-postgres.txt" in instructions("RUN")[1]
    assert f"pip install {requirement}" in PAGE


def entrypoint(folder: Path, *arguments: str, **variables: str) -> list[str]:
    """What the image's entry point executes: by a java that prints its arguments."""
    java = folder / "java"
    java.write_text('#!/bin/sh\nprintf "%s\\n" java "$@"\n')
    java.chmod(0o755)
    environment = {"PATH": f"{folder}:{os.environ['PATH']}", "SPARK_HOME": "/spark", **variables}
    command = [str(ROOT / "container" / "entrypoint"), *arguments]
    return subprocess.run(command, env=environment, capture_output=True, text=True, check=True).stdout.splitlines()


def test_its_entry_point_runs_an_executor_as_spark_asks_for_it(tmp_path: Path) -> None:
    variables = {
        "SPARK_DRIVER_URL": "spark://CoarseGrainedScheduler@10.0.0.1:7078",
        "SPARK_EXECUTOR_ID": "1",
        "SPARK_EXECUTOR_CORES": "2",
        "SPARK_EXECUTOR_MEMORY": "768m",
        "SPARK_APPLICATION_ID": "spark-1",
        "SPARK_EXECUTOR_POD_IP": "10.0.0.2",
        "SPARK_EXECUTOR_POD_NAME": "stratalog-exec-1",
        "SPARK_RESOURCE_PROFILE_ID": "0",
        "SPARK_CLASSPATH": "/jars/*",
        "SPARK_CONF_DIR": "/opt/spark/conf",
        "SPARK_JAVA_OPT_0": "-Dof two words",
        "SPARK_JAVA_OPT_1": "-Xlog:disable",
    }
    assert entrypoint(tmp_path, "executor", **variables) == [
        *("java", "-Dof two words", "-Xlog:disable", "-Xms768m", "-Xmx768m"),
        *("-cp", "/opt/spark/conf:/jars/*:/spark/jars/*"),
        "org.apache.spark.scheduler.cluster.k8s.KubernetesExecutorBackend",
        *("--driver-url", "spark://CoarseGrainedScheduler@10.0.0.1:7078", "--executor-id", "1", "--cores", "2"),
        *("--app-id", "spark-1", "--hostname", "10.0.0.2", "--resourceProfileId", "0"),
        *("--podName", "stratalog-exec-1"),
    ]


def test_its_entry_point_runs_any_other_command(tmp_path: Path) -> None:
    assert entrypoint(tmp_path, "sh", "-c", "echo $0 $1", "a b", "c") == ["a b c"]
