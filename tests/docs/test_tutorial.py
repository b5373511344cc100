"""The tutorial, walked through: every command in its order in an empty folder, and what it says they print."""

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
PAGE = (ROOT / "docs" / "tutorial.md").read_text(encoding="utf-8")
BLOCKS = re.findall(r"^```(sh|text)\n(.*?)^```$", PAGE, re.MULTILINE | re.DOTALL)
DEV = "dagster dev -m stratalog.definitions -h 127.0.0.1\n"
LOOK = """\
set -m
dagster dev -m stratalog.definitions -h 127.0.0.1 -p 0 >dev.log 2>&1 & dev=$!
set +m
for second in $(seq 300); do grep -q 'Serving dagster-webserver on http://127.0.0.1:' dev.log && break; sleep 1; done
kill -INT $dev
for second in $(seq 30); do kill -0 $dev 2>/dev/null || break; sleep 1; done
kill -KILL -- -$dev 2>/dev/null || true
wait $dev || true
grep 'Serving dagster-webserver on http://127.0.0.1:' dev.log
"""
"""What stands for a look at the UI: it comes up, and ends, by force where whoever started the tests made it deaf."""
MARK = "@@ block"


def script() -> str:
    """All commands; a line that begins with MARK after the output of each block."""
    blocks = [text for kind, text in BLOCKS if kind == "sh"]
    text = f"echo {MARK}\n".join(blocks).replace("/path/to/your/clone", str(ROOT))
    assert DEV in text
    return "set -euo pipefail\n" + text.replace(DEV, LOOK)


def words(line: str) -> list[str]:
    """A line without what differs from run to run: blanks, and seconds."""
    return re.sub(r"\b\d+\.\d( s)?$", "", line.strip()).split()


@pytest.mark.spark
@pytest.mark.dagster
@pytest.mark.long
def test_every_command_of_the_tutorial_does_what_it_says(tmp_path: Path) -> None:
    command = tmp_path / "bin" / "stratalog"
    command.parent.mkdir()
    command.write_text(f'#!/bin/sh\nexec {sys.executable} -m spark_jobs.cli "$@"\n')
    command.chmod(0o755)
    path = f"{command.parent}:{Path(sys.executable).parent}:{os.environ['PATH']}"
    environment = {
        name: value for name, value in os.environ.items() if not name.startswith(("STRATALOG_CON", "DAGSTER"))
    }
    process = subprocess.run(
        ["bash", "-c", script()],
        cwd=tmp_path,
        env=environment | {"PATH": path, "PYTHONPATH": str(ROOT)},
        capture_output=True,
        text=True,
        check=False,
        timeout=1800,
    )
    assert process.returncode == 0, process.stdout + process.stderr
    printed = iter(process.stdout.split(f"{MARK}\n"))
    output = ""
    for kind, text in BLOCKS:
        if kind == "sh":
            output = next(printed)
            continue
        lines = [words(line) for line in output.splitlines()]
        assert [line for line in text.splitlines() if words(line) not in lines] == [], output
