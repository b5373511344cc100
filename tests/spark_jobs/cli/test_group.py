import subprocess
import sys
from contextlib import AbstractContextManager, nullcontext

import click
import pytest

from spark_jobs.cli.group import VERBS, cli, every_verb
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
