import re
import shlex
import subprocess
import sys
from pathlib import Path

import click
import pytest

from spark_jobs.binlog import TableName
from spark_jobs.cli.app import went_well
from spark_jobs.cli.group import every_verb
from spark_jobs.config.model import Spark
from spark_jobs.errors import ConfigError, StratalogError
from spark_jobs.pipeline.outcome import Outcome
from tests.command_result import without_codes
from tests.fix_cli import Stratalog

ROOT = Path(__file__).parents[3]
RECORDED = ROOT / "tests" / "recorded"

COMMANDS = every_verb()
VERBS = sorted(COMMANDS)
WITHOUT_PIPELINE = ("changes", "completion", "demo", "docs", "events", "init", "package", "session")

CONTRACT = [
    *("backfill", "changes", "check", "compact", "demo", "events", "export", "extract", "gc", "merge", "run", "status"),
    "verify",
]


def test_the_verbs_are_those_of_the_contract() -> None:
    assert set(CONTRACT) <= set(VERBS)


@pytest.mark.parametrize("verb", VERBS)
def test_each_verb_has_help_with_an_example(stratalog: Stratalog, verb: str) -> None:
    ran = stratalog(verb, "--help")
    assert (ran.status, ran.err) == (0, "")
    examples = re.findall(rf"Example: (stratalog {verb}\b(?:[^\n\\]|\\\n)*)", ran.out)
    assert examples
    for example in examples:
        words = shlex.split(example.replace("\\\n", " "))[2:]
        COMMANDS[verb].make_context(verb, words, resilient_parsing=False)


@pytest.mark.parametrize("verb", VERBS)
def test_each_option_says_what_it_is_for(verb: str) -> None:
    options = [param for param in COMMANDS[verb].params if isinstance(param, click.Option)]
    assert [option.name for option in options if not option.help] == []


@pytest.mark.parametrize("verb", VERBS)
def test_each_verb_stands_in_the_readme(verb: str) -> None:
    readme = (ROOT / "README.md").read_text(encoding="utf-8")
    commands = re.search(r"^#+ Commands\n(.*?)(?=^#+ |\Z)", readme, re.MULTILINE | re.DOTALL)
    if commands:  # a page without that chapter promises nothing
        assert re.search(rf"`(stratalog )?{verb}\b", commands[1])


@pytest.mark.parametrize(
    "arguments, message",
    [
        ([], "Usage: stratalog"),
        (["nonsense"], "No such command 'nonsense'"),
        (["events"], "Missing argument 'FILES...'"),
        (
            ["gc"],
            "pipeline.yaml: cannot be read: No such file or directory; name the file by -c FILE or ",
        ),
        (["run", "-c", "x.yaml", "--nonsense"], "No such option '--nonsense'"),
        (
            ["changes"],
            "pipeline.yaml: cannot be read: No such file or directory; name the file by -c FILE or ",
        ),
        (["changes", "a.000001", "-c", "x.yaml"], "give binlog files, or -c FILE, and not both"),
        (["changes", "a.000001", "--from", "a.000001:4"], "--source, --from and --to are for bronze"),
        (["changes", "a.000001", "--table", "orders"], "'orders' is not a table pattern"),
        (["check", "-c", "none.yaml"], "none.yaml: cannot be read: No such file or directory"),
        (
            ["backfill", "-c", "x", "--source", "s", "--from", "now", "--to", "a.000001:4"],
            "'now' is not a position, GTID set or time",
        ),
        (
            ["backfill", "-c", "x", "--source", "s", "--from", "a.000002:4", "--to", "a.000001:4"],
            "the range ends at a.000001:4, before its start at a.000002:4",
        ),
    ],
    ids=lambda value: " ".join(value) if isinstance(value, list) else "",
)
def test_wrong_use_is_2_and_said_on_standard_error(stratalog: Stratalog, arguments: list[str], message: str) -> None:
    ran = stratalog(*arguments)
    assert (ran.status, ran.out) == (2, "")
    assert message in ran.err


def test_the_configuration_is_that_of_the_environment_then_that_of_the_folder(
    stratalog: Stratalog, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("pipeline", "named", "given"):
        (tmp_path / f"{name}.yaml").write_text(f"lake: ./lake\nsources:\n  {name}: {{files: ./binlogs}}\n")
    (tmp_path / "binlogs").mkdir()
    monkeypatch.chdir(tmp_path)
    assert "pipeline.yaml: no problems" in stratalog("check").out
    monkeypatch.setenv("STRATALOG_CONFIG", str(tmp_path / "named.yaml"))
    assert "named.yaml: no problems" in stratalog("check").out
    assert "given.yaml: no problems" in stratalog("check", "-c", "given.yaml").out


@pytest.mark.parametrize("verb", [verb for verb in VERBS if verb not in WITHOUT_PIPELINE])
def test_each_verb_of_a_pipeline_lists_every_problem_of_its_configuration(
    stratalog: Stratalog, tmp_path: Path, verb: str
) -> None:
    path = tmp_path / "pipeline.yaml"
    path.write_text("sources: {shop: {mysql: {password: geheim}}}\ntables: [orders]\n")
    options: dict[str, list[object]] = {
        "export": ["--source", "shop", "--to", tmp_path / "out"],
        "report": ["--to", tmp_path / "out"],
        "backfill": ["--source", "shop", "--from", "a.000001:4", "--to", "a.000002:4"],
        "skip": ["--source", "shop", "--at", "a.000001:4"],
        "reset": ["--source", "shop", "--table", "shop.t"],
        "consume": ["--source", "shop", "--group", "g"],
        "at": ["mysql-bin.000001:4", "--table", "shop.t"],
        "trace": ["shop.t"],
        "forget": ["shop.t", "--key", "1"],
        "undo": ["shop.t", "--key", "1"],
    }
    ran = stratalog(verb, "-c", path, *options.get(verb, []))
    assert (ran.status, ran.out) == (2, "")
    assert ran.err.splitlines() == [
        "pipeline.yaml: lake: missing",
        "pipeline.yaml: sources.shop.mysql.user: missing",
        "pipeline.yaml: tables[0]: 'orders' is not a table pattern; write it like shop.orders or shop.*",
    ]


@pytest.mark.parametrize("verb", ["run", "status", "extract", "compact", "merge"])
def test_a_source_that_is_not_configured_is_2(stratalog: Stratalog, pipeline_file: Path, verb: str) -> None:
    ran = stratalog(verb, "-c", pipeline_file, "--source", "crm")
    assert (ran.status, ran.out, ran.err) == (2, "", "pipeline.yaml: no source 'crm'; it has shop\n")


READING: dict[str, list[str]] = {
    "status": [],
    "schema": [],
    "report": ["--to", "pages"],
    "skip": ["--source", "shop", "--at", "a.000001:4"],
}


@pytest.mark.parametrize("lake", ["lake", "lake/below"])
@pytest.mark.parametrize("verb", READING)
def test_a_file_in_place_of_the_lake_is_2(stratalog: Stratalog, pipeline_file: Path, verb: str, lake: str) -> None:
    pipeline_file.write_text(pipeline_file.read_text().replace("./lake", lake))
    file = pipeline_file.with_name("lake")
    file.touch()
    ran = stratalog(verb, "-c", pipeline_file, *READING[verb])
    message = f"lake: {file} is no folder; name a folder that {pipeline_file.parent / lake} can be made in\n"
    assert (ran.status, ran.out, ran.err) == (2, "", message)


@pytest.mark.parametrize("verb", ["run", "extract"])
def test_a_lake_that_cannot_be_made_is_said_before_spark_is_started(
    stratalog: Stratalog, pipeline_file: Path, monkeypatch: pytest.MonkeyPatch, verb: str
) -> None:
    started: list[Spark] = []
    monkeypatch.setattr("spark_jobs.runtime.spark_session.spark_session", started.append)
    pipeline_file.write_text(pipeline_file.read_text().replace("./lake", "/proc/nope/lake"))
    ran = stratalog(verb, "-c", pipeline_file)
    assert (ran.status, ran.out, started) == (2, "", [])
    assert ran.err.splitlines()[-1] == (
        "lake: /proc/nope/lake cannot be made: /proc: No such file or directory; let the user who runs Stratalog write "
        "there, or name another folder as lake:"
    )


@pytest.mark.parametrize("options", [("load",), ("mend",), ("mend", "--table", "shop.t", "--key", "1"), ("verify",)])
def test_a_server_that_does_not_answer_is_said_before_spark_is_started(
    stratalog: Stratalog, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, options: tuple[str, ...]
) -> None:
    started: list[Spark] = []
    monkeypatch.setattr("spark_jobs.runtime.spark_session.spark_session", started.append)
    path = tmp_path / "pipeline.yaml"
    path.write_text("lake: ./lake\nsources:\n  shop: {mysql: {host: 127.0.0.1, port: 1, user: repl, password: x}}\n")
    ran = stratalog(*options, "-c", path)
    assert (ran.status, ran.out, started) == (1, "", [])
    assert "shop: 127.0.0.1:1 cannot be reached: Connection refused; start the server" in ran.err
    assert "starting Spark" not in ran.err


@pytest.mark.slow
def test_a_reader_that_closes_the_pipe_is_no_failure() -> None:
    file = RECORDED / "mysql-8.0-transactions.000001"
    command = [sys.executable, "-m", "spark_jobs.cli", "events", *([str(file)] * 200)]
    with subprocess.Popen(command, cwd=ROOT, stdout=subprocess.PIPE, stderr=subprocess.PIPE) as process:
        assert process.stdout
        assert process.stderr
        process.stdout.readline()
        process.stdout.close()
        errors = process.stderr.read()
        assert (process.wait(), errors) == (0, b"")


@pytest.mark.slow
def test_a_connection_that_breaks_is_no_reader_that_has_had_enough() -> None:
    broken = """
import click, sys
from spark_jobs.cli import main
from spark_jobs.cli.group import cli

@cli.command()
def broken():
    raise BrokenPipeError(32, "Broken pipe")

sys.argv[1:] = ["broken"]
main()
"""
    ran = subprocess.run([sys.executable, "-c", broken], cwd=ROOT, capture_output=True, text=True, check=False)
    message = "a connection was closed by its other side: [Errno 32] Broken pipe; run it again\n"
    assert (ran.returncode, ran.stdout, without_codes(ran.stderr)) == (1, "", message)


def test_what_stops_one_source_is_said_and_does_not_stop_the_next(capsys: pytest.CaptureFixture[str]) -> None:
    def damaged(_: str) -> None:
        raise StratalogError("shop: [b] is damaged")

    def stopped(_: str) -> Outcome:
        return Outcome([], None, stopped={TableName("a", "b"): "why"})

    def wrong(_: str) -> None:
        raise ConfigError({"tables": "wrong"})

    successes = [went_well("shop", do) for do in (damaged, stopped, lambda _: None)]
    assert successes == [False, False, True]
    remedy = "remove the cause, then repeat the command (stratalog docs troubleshooting)"
    assert capsys.readouterr().err == f"[SL-1001] shop: [b] is damaged; {remedy}\n"
    with pytest.raises(ConfigError):
        went_well("shop", wrong)
