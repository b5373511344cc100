"""Grafana's own types of dashboards, from its Go SDK: what they do not accept in a dashboard.

Put here: asking the program in tests/grafana. Not here: the rules of the project's dashboard (docs/test_dashboard.py).
"""

import subprocess
from pathlib import Path

from tests.services import go_programs

SDK = "github.com/grafana/grafana-foundation-sdk/go"
SOURCE = Path(__file__).parents[1] / "grafana"


def program() -> Path:
    """The folder of the program, built by Go at first use: a minute and a half. Raises ConfigError."""
    return go_programs.built(SOURCE, sources_of=SDK)


def problems(dashboard: Path) -> list[str]:
    """A line for each value that the types do not accept."""
    folder = program()
    command = [folder / SOURCE.name, folder / "sources", dashboard]
    result = subprocess.run(command, capture_output=True, text=True, check=False)
    lines = result.stdout.splitlines()
    assert result.returncode == (1 if lines else 0), result.stderr
    return lines
