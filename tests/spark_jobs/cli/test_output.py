import os
import pty
import re
import subprocess
import sys
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

import pytest

from spark_jobs.binlog import TableName
from spark_jobs.cli.output import cascades_line, print_grid, print_outcome, print_pieces
from spark_jobs.errors import StratalogError
from spark_jobs.pipeline.outcome import Outcome


def test_no_name_is_cut_to_what_a_terminal_has(capsys: pytest.CaptureFixture[str]) -> None:
    name = f"shop.{'t' * 300}"
    print_grid(["table", "state"], [[name, "current"]])
    assert [line.split() for line in capsys.readouterr().out.splitlines()] == [["table", "state"], [name, "current"]]
    print_grid(["table", "state"], [])
    assert capsys.readouterr().out == ""


GRID = """\
from spark_jobs.cli.output import print_grid
print_grid(["table", "state", "a long position"], [["shop.größe", "current", "mysql-bin.000002:4320"]])
"""


@pytest.mark.parametrize(
    "columns, lines",
    [
        (80, ["table       state    a long position", "shop.größe  current  mysql-bin.000002:4320"]),
        (42, ["table       state    a long position", "shop.größe  current  mysql-bin.000002:4320"]),
        (41, ["shop.größe", "  state            current", "  a long position  mysql-bin.000002:4320"]),
    ],
)
def test_a_grid_is_stacked_where_the_terminal_is_too_narrow(columns: int, lines: list[str]) -> None:
    reader, terminal = pty.openpty()
    environment = os.environ | {"COLUMNS": str(columns), "TERM": "xterm"}
    subprocess.run([sys.executable, "-c", GRID], stdout=terminal, env=environment, check=True)
    os.close(terminal)
    output = b""
    with suppress(OSError):  # how a terminal ends
        while chunk := os.read(reader, 4096):
            output += chunk
    os.close(reader)
    text = re.sub(r"\x1b\[\d*m", "", output.decode())
    assert [line.rstrip() for line in text.splitlines()] == lines


@pytest.mark.parametrize(
    "count, head, last",
    [
        (1, "shop: 1 foreign key changes child rows", "shop.c0 (f0 -> shop.p ON DELETE CASCADE)"),
        (3, "shop: 3 foreign keys change child rows", "shop.c2 (f2 -> shop.p ON DELETE CASCADE)"),
        (49, "shop: 49 foreign keys change child rows", "shop.c48 (f48 -> shop.p ON DELETE CASCADE)"),
    ],
)
def test_cascades_of_a_source_are_one_message(count: int, head: str, last: str) -> None:
    rules = {"parent": "shop.p", "on_delete": "CASCADE", "on_update": "NO ACTION"}
    keys = [{"table": f"shop.c{number}", "constraint": f"f{number}"} | rules for number in range(count)]
    line = cascades_line("shop", keys)
    assert all(f"shop.c{number} (f{number} -> shop.p ON DELETE CASCADE)" in line for number in range(count))
    assert line.startswith(f"{head}, which the server does not log: shop.c0")
    assert f"{last}; compare these tables" in line
    assert line.count("stratalog docs cascades") == 1


def test_what_came_before_a_failure_is_out_before_its_message(capsysbinary: pytest.CaptureFixture[bytes]) -> None:
    def pieces() -> Iterator[str]:
        yield "first\n"
        yield "größer\n"
        raise StratalogError("damaged")

    with pytest.raises(StratalogError):
        print_pieces(pieces())
    assert capsysbinary.readouterr().out == "first\ngrößer\n".encode()


@pytest.mark.parametrize(
    "outcome, out, err",
    [
        (Outcome([], None), "shop: silver and downstream have nothing new\n", ""),
        (
            Outcome([], None, derived={TableName("a", "b"): 4}),
            "silver  derived from foreign keys\na.b     4\nshop: silver and downstream have nothing new\n",
            "",
        ),
        (Outcome([], None, stopped={TableName("a", "b"): "shop: a.b: [red]why"}), "", "stopped: shop: a.b: [red]why\n"),
        (
            Outcome([], None, new={("shop", "a", "b")}),
            "shop: silver and downstream have nothing new\n",
            "1 new tables; Dagster shows them after its code location is reloaded\n",
        ),
    ],
    ids=["nothing", "derived", "stopped", "new"],
)
def test_what_became_of_tables(capsys: pytest.CaptureFixture[str], outcome: Outcome, out: str, err: str) -> None:
    print_outcome("shop", outcome)
    assert tuple(capsys.readouterr()) == (out, err)


def test_names_from_a_log_are_printed_as_they_are_but_for_what_moves_a_terminal(
    capsys: pytest.CaptureFixture[str],
) -> None:
    print_grid(["table", "state"], [["a.[red]b :smile: \x1b[2J\u202e\t\nc", "x"]])
    cells = capsys.readouterr().out.splitlines()[1].rsplit(maxsplit=1)
    assert cells == ["a.[red]b :smile: \\u001b[2J\\u202e\\u0009\\u000ac", "x"]


def test_no_verb_prints_but_through_what_escapes() -> None:
    folder = Path(__file__).parents[3] / "spark_jobs" / "cli"
    allowed = (
        "json.dumps",
        "ERRORS.print(",
        "printable(",
        "click.style(output",
        "class Terminal(Console)",
        "console.print(",
        "def print",
    )
    for file in folder.glob("*.py"):
        code = file.read_text(encoding="utf-8")
        plain = [line for line in code.splitlines() if re.search(r"\bprint\(|click\.echo\(|Console\(", line)]
        offending = [
            line for line in plain if not any(word in line for word in (*allowed, "Terminal(", "super().print("))
        ]
        assert offending == [], file.name
