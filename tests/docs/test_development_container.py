"""The container of development has what CI and the tests take from a machine, and CONTRIBUTING.md's commands fit."""

import re
import shlex
from itertools import pairwise
from pathlib import Path

ROOT = Path(__file__).parents[2]
FILE = Path("container", "development.Containerfile")
TEXT = re.sub(r"^#.*\n", "", (ROOT / FILE).read_text(encoding="utf-8"), flags=re.MULTILINE).replace("\\\n", " ")
LINES = TEXT.splitlines()
COMMANDS = [
    shlex.split(line)
    for line in (ROOT / "CONTRIBUTING.md").read_text(encoding="utf-8").replace("\\\n", " ").splitlines()
    if line.startswith("podman ")
]


def instructions(instruction: str) -> list[str]:
    return [line.split(maxsplit=1)[1] for line in LINES if line.startswith(f"{instruction} ")]


def packages() -> set[str]:
    (step,) = re.findall(r"apt-get install (.*?) &&", TEXT)
    return {word for word in step.split() if not word.startswith("-")}


def values(command: list[str], option: str) -> list[str]:
    return [value for word, value in pairwise(command) if word == option]


def test_it_has_the_python_of_the_image_of_runs() -> None:
    (of_runs,) = re.findall(r"^FROM (\S+)$", (ROOT / "Containerfile").read_text(), re.MULTILINE)
    assert instructions("FROM")[-1] == of_runs


def test_it_has_what_ci_installs() -> None:
    script = (ROOT / ".ci" / "run").read_text()
    installed = {name for names in re.findall(r"missing\+=\((.*?)\)", script) for name in names.split()}
    assert len(installed) == 4
    assert installed <= packages()


def test_its_go_builds_the_programs_of_the_tests() -> None:
    (image,) = re.findall(r"golang:(\d+)\.(\d+)-", instructions("FROM")[0])
    needed = [
        tuple(map(int, match.groups()))
        for file in (ROOT / "tests").glob("*/go.mod")
        if (match := re.search(r"^go (\d+)\.(\d+)", file.read_text(), re.MULTILINE))
    ]
    assert needed
    assert max(needed) <= tuple(map(int, image))


def test_the_commands_build_it_and_run_it_as_its_user() -> None:
    build, run = COMMANDS[:2]
    assert values(build, "-f") == [str(FILE)]
    assert [value.partition("=")[0] for value in values(build, "--build-arg")] == [
        name.partition("=")[0] for name in instructions("ARG")
    ]
    mounted = {value.split(":")[1] for value in values(run, "-v")}
    assert mounted == {*instructions("VOLUME")[0].split(), *instructions("WORKDIR")}
    assert run[run.index(values(build, "-t")[0]) + 1 :] == ["make", "test-fast"]
    assert instructions("USER") == ["developer"]
    assert not any(line.startswith(("RUN", "COPY")) for line in LINES[LINES.index("USER developer") :])
