"""What the pages tell a reader to type is what the project takes: commands, configurations, imports, links."""

import ast
import importlib
import re
import shlex
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import dagster as dg
import pytest
import yaml
from dagster._core.instance.config import dagster_instance_config

import stratalog
from dagster_project.build import build_defs
from dagster_project.component import StratalogComponent
from docs.site.hooks import pages
from spark_jobs.cli.group import every_verb
from spark_jobs.config.loader import from_keys, load
from spark_jobs.log.location import parse_start

COMMANDS = every_verb()

ROOT = Path(__file__).parents[2]
PAGES = [ROOT / page for page in pages()]
LEAST: dict[str, Any] = {"lake": "./lake", "sources": {"shop": {"files": "."}}}
VARIABLE = re.compile(r"\$\{(\w+)\}")


def blocks(page: Path) -> Iterator[tuple[str, str]]:
    """Fenced and indented blocks of code, with the fence's word where there is one."""
    text = page.read_text(encoding="utf-8")
    fenced = re.compile(r"^( *)```(\w*)\n(.*?)^\1```$", re.MULTILINE | re.DOTALL)
    for indent, word, code in fenced.findall(text):
        yield word, re.sub(rf"^{indent}", "", code, flags=re.MULTILINE)
    for code in re.findall(r"(?:^|\n\n)((?:(?: {4}).*(?:\n|$))+)", fenced.sub("", text)):
        yield "", re.sub(r"^ +", "", code, flags=re.MULTILINE)


def commands(text: str, program: str) -> Iterator[list[str]]:
    """The arguments of every command that begins with a program's name; pipes and redirections end it."""
    for line in text.replace("\\\n", " ").splitlines():
        if not re.search(rf"(?<![\w-]){program}\s", line):
            continue
        words = shlex.shlex(line, posix=True, punctuation_chars=True)
        words.whitespace_split = True
        command: list[str] = []
        for word in [*words, ";"]:
            if not set(word) <= set("|&;<>()"):
                command.append(word)
                continue
            if command and Path(command[0]).name == program:
                yield command[1:]
            command = []


FOUND = [(page, word, code) for page in PAGES for word, code in blocks(page)]
SHELL = [(page, code) for page, word, code in FOUND if word in ("", "sh")]
STRATALOG = [(page, words) for page, code in SHELL for words in commands(code, "stratalog")]
YAML = [(page, code) for page, word, code in FOUND if word == "yaml"]
PYTHON = [(page, code) for page, word, code in FOUND if word == "python"]
EXAMPLES = [(path, path.read_text(encoding="utf-8")) for path in sorted((ROOT / "docs" / "examples").rglob("*.py"))]
IMPORTS = re.compile(r"^ *(?:from|import) (stratalog|spark_jobs|assets|dagster_project)\b(.*)$", re.MULTILINE)
"""Of Stratalog's packages; in scripts that a shell block writes too."""


LIBRARIES = ("dagster_slack", "dagster_pagerduty")
"""Dagster's for alerts, which are no dependencies."""


def label(value: Any) -> str:
    return value.name if isinstance(value, Path) else " ".join(value) if isinstance(value, list) else value[:30]


@pytest.mark.parametrize("page, words", STRATALOG, ids=label)
def test_the_command_takes_it(page: Path, words: list[str]) -> None:
    verb, *rest = words
    context = COMMANDS[verb].make_context(verb, rest)
    for name in ("start", "stop"):
        if position := context.params.get(name):
            parse_start(position.replace("…", "0"))


def test_there_are_commands_to_take() -> None:
    assert {words[0] for _, words in STRATALOG} == set(COMMANDS)


@pytest.mark.parametrize("page", PAGES, ids=label)
def test_verbs_and_options_in_the_text_are_known(page: Path) -> None:
    text = page.read_text(encoding="utf-8")
    for verb, rest in re.findall(r"`stratalog ([a-z]+)([^`]*)`", text):
        assert verb in COMMANDS, verb
        options = {name for param in COMMANDS[verb].params for name in param.opts} | {"--help"}
        assert set(re.findall(r"(?<![\w-])--?[a-z][a-z-]*", rest)) <= options


@pytest.mark.parametrize("page", [page for page in PAGES if page.name != "CHANGELOG.md"], ids=label)
def test_init_is_shown_with_the_host_that_it_connects_to(page: Path) -> None:
    """Without it, the command ends with exit status 2."""
    assert "init --connect" not in page.read_text(encoding="utf-8")


@pytest.mark.parametrize("page", PAGES, ids=label)
def test_a_virtual_environment_is_made_in_no_folder_of_a_clone(page: Path) -> None:
    folders = re.findall(r"\bpython[\d.]* -m venv (\S+)", page.read_text(encoding="utf-8"))
    assert [folder for folder in folders if (ROOT / folder).exists() and not folder.startswith(".")] == []


@pytest.mark.parametrize("page, text", YAML, ids=label)
def test_the_configuration_takes_it(page: Path, text: str, tmp_path: Path) -> None:
    """A block is a pipeline.yaml or a part of one, unless its first line names another file, or a job."""
    if job := re.match(r"# run configuration of (\w+)", text):
        defs = build_defs(from_keys(LEAST, tmp_path / "pipeline.yaml"))
        dg.validate_run_config(defs.resolve_job_def(job[1]), yaml.safe_load(text))
        return
    match = re.match(r"# (\S+\.yaml)", text)
    if match and match[1].endswith("defs.yaml"):
        document = yaml.safe_load(text)
        assert document["type"] == "stratalog.StratalogComponent"
        StratalogComponent.model().model_validate(document["attributes"])
        return
    if match and match[1] != "pipeline.yaml":
        assert match[1] == "dagster.yaml"
        (tmp_path / "dagster.yaml").write_text(text)
        dagster_instance_config(str(tmp_path))
        return
    path = tmp_path / "pipeline.yaml"
    document = LEAST | yaml.safe_load(text)
    path.write_text(yaml.safe_dump(document))
    keys = ["AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY", "AZURE_STORAGE_KEY", *re.findall(r"_env: (\w+)", text)]
    load(path, dict.fromkeys([*VARIABLE.findall(text), *keys], "x"))


@pytest.mark.parametrize("page, code", PYTHON, ids=label)
def test_the_names_that_are_imported_exist(page: Path, code: str) -> None:
    for node in ast.walk(ast.parse(code)):
        if isinstance(node, ast.ImportFrom) and node.module and node.module not in LIBRARIES:
            module = importlib.import_module(node.module)
            assert [name.name for name in node.names if not hasattr(module, name.name)] == []


@pytest.mark.parametrize("page, code", [(page, code) for page, _, code in FOUND] + EXAMPLES, ids=label)
def test_only_the_public_api_is_imported(page: Path, code: str) -> None:
    for package, rest in IMPORTS.findall(code):
        assert package == "stratalog", f"{package}{rest}"
        names = rest.removeprefix(" import ").split(", ")
        assert set(names) <= set(stratalog.__all__), names


@pytest.mark.parametrize("name", stratalog.__all__)
def test_every_public_name_is_used_in_a_page(name: str) -> None:
    texts = [page.read_text(encoding="utf-8") for page in PAGES if page.parent.name != "reference"]
    assert any(re.search(rf"\b{name}\b", text) for text in texts)


def test_make_has_the_targets() -> None:
    targets = set(re.findall(r"^([a-z-]+):", (ROOT / "Makefile").read_text(), re.MULTILINE))
    targets_used = {words[0] for _, code in SHELL for words in commands(code, "make")}
    assert {"demo", "test"} <= targets_used <= targets


def test_the_readme_begins_with_two_commands() -> None:
    command_list = [code for _, code in blocks(ROOT / "README.md") if "make " in code]
    assert re.findall(r"make \S+", command_list[0]) == ["make demo", "make test"]


@pytest.mark.parametrize("page", PAGES, ids=label)
def test_links_lead_somewhere(page: Path) -> None:
    text = re.sub(r"```.*?```", "", page.read_text(encoding="utf-8"), flags=re.DOTALL)
    for target in re.findall(r"\]\(([^)\s]+)\)", text):
        if "://" in target:
            continue
        path, _, anchor = target.partition("#")
        file = page.parent / path if path else page
        assert file.exists(), target
        if anchor:
            assert anchor in anchors(file), target


def anchors(page: Path) -> set[str]:
    heads = re.findall(r"^#+ (.+)$", page.read_text(encoding="utf-8"), re.MULTILINE)
    return {re.sub(r"[^\w\- ]", "", head.lower()).replace(" ", "-") for head in heads}
