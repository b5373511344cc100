import subprocess
import sys
from contextlib import AbstractContextManager, nullcontext
from pathlib import Path

import click
import pytest

from spark_jobs.cli.group import VERBS, cli, every_verb
from spark_jobs.demo.recorded import LOGS
from tests.fix_cli import Stratalog

COMMANDS = every_verb()
SUMMARIES = {verb: summary for verbs in VERBS.values() for verb, (_, summary) in verbs.items()}
LIGHT = """
import sys
from spark_jobs.cli.group import cli
try:
    cli({words!r}, prog_name="stratalog")
finally:
    print(*sorted({{name.partition(".")[0] for name in sys.modules}}), file=sys.stderr)
"""
HEAVY = {"numba", "pyarrow", "deltalake", "pymysql", "pydantic", "pyspark", "sqlglot", "yaml", "dagster"}


def test_every_verb_of_a_module_is_listed_once() -> None:
    listed = [verb for verbs in VERBS.values() for verb in verbs]
    assert sorted(listed) == sorted(COMMANDS) == sorted(cli.commands)
    modules = {verb: module for verbs in VERBS.values() for verb, (module, _) in verbs.items()}
    callbacks = {verb: getattr(command.callback, "__module__", "") for verb, command in COMMANDS.items()}
    assert callbacks == {verb: f"spark_jobs.cli.{module}" for verb, module in modules.items()}


@pytest.mark.parametrize("verb", sorted(SUMMARIES))
def test_the_list_has_the_first_sentence_of_each_verb(verb: str) -> None:
    assert SUMMARIES[verb] == COMMANDS[verb].get_short_help_str(70)
    assert SUMMARIES[verb].endswith(".")
    assert not SUMMARIES[verb].endswith("...")


@pytest.mark.parametrize("words", [["--help"], ["--version"]])
def test_no_library_of_a_verb_is_imported_for_what_stands_before_verbs(words: list[str]) -> None:
    ran = subprocess.run([sys.executable, "-c", LIGHT.format(words=words)], capture_output=True, text=True, check=True)
    assert {*ran.stderr.split()} & HEAVY == set()
    heavy = subprocess.run(
        [sys.executable, "-c", LIGHT.format(words=["run", "--help"])], capture_output=True, text=True, check=True
    )
    assert {*heavy.stderr.split()} & HEAVY


def test_changes_of_a_file_load_the_decoder_and_nothing_of_a_lake() -> None:
    words = ["changes", str(LOGS / "mysql-bin.000002"), "--table", "shop.none"]
    ran = subprocess.run([sys.executable, "-c", LIGHT.format(words=words)], capture_output=True, text=True, check=True)
    assert {*ran.stderr.split()} & (HEAVY | {"pandas", "obstore"}) == {"numba", "pyarrow", "yaml"}


def test_a_shell_gets_verbs_with_their_sentences_and_options() -> None:
    context = click.Context(cli)
    assert [(item.value, item.help) for item in cli.shell_complete(context, "ex")] == [
        ("extract", SUMMARIES["extract"]),
        ("export", SUMMARIES["export"]),
    ]
    assert {"--verbose", "--quiet"} <= {item.value for item in cli.shell_complete(context, "--")}


def test_a_verb_that_is_none_is_refused() -> None:
    assert cli.get_command(click.Context(cli), "extrakt") is None


@pytest.mark.parametrize(
    "word, answer",
    [("extrakt", "No such command 'extrakt'; did you mean extract?"), ("zzz", "No such command 'zzz'.")],
)
def test_a_word_that_is_like_a_verb_is_answered_by_it(stratalog: Stratalog, word: str, answer: str) -> None:
    ran = stratalog(word)
    assert (ran.status, ran.out) == (2, "")
    assert ran.err.endswith(f"Error: {answer}\n")


@pytest.mark.parametrize(
    "words, expected", [(["docs"], 1), (["-q", "docs"], 0), (["docs", "-q"], 0), (["docs", "--quiet"], 0)]
)
def test_no_progress_is_said_with_quiet_before_or_after_a_verb(
    stratalog: Stratalog, monkeypatch: pytest.MonkeyPatch, words: list[str], expected: int
) -> None:
    heartbeats: list[AbstractContextManager[None]] = []

    def heartbeat() -> AbstractContextManager[None]:
        heartbeats.append(nullcontext())
        return heartbeats[-1]

    monkeypatch.setattr("spark_jobs.cli.group._heartbeat", heartbeat)
    assert stratalog(*words).status == 0
    assert len(heartbeats) == expected


def options_of(verb: str) -> set[str]:
    return {name for param in COMMANDS[verb].params for name in param.opts}


@pytest.mark.parametrize("verb", [verb for verb in COMMANDS if {"--json", "--config"} <= options_of(verb)])
def test_an_error_is_on_standard_error_with_json_too(verb: str, stratalog: Stratalog, tmp_path: Path) -> None:
    """A reader of JSON gets a verb's results or nothing, and the exit status says which."""
    words = {"source": "shop", "group": "g", "keys": "id=1", "start": "b.000001:4", "stop": "b.000001:5"}
    required = [param for param in COMMANDS[verb].params if param.required]
    filled = [
        *(f"{param.opts[0]}={words[str(param.name)]}" for param in required if param.param_type_name == "option"),
        *("shop.t" for param in required if param.param_type_name == "argument"),
    ]
    ran = stratalog(verb, *filled, "--json", "-c", tmp_path / "none.yaml")
    assert (ran.status, ran.out) == (2, "")
    assert f"{tmp_path}/none.yaml: cannot be read" in ran.err
    assert ran.codes
