"""A page walked as a reader walks it: its commands in one shell's environment, each step timed.

Put here: running the blocks of commands, and the times. Not here: which page, or what has to be seen.
"""

import os
import subprocess
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

_VARIABLES = "variables"
"""The file that a shell leaves its variables in for the next one."""


@dataclass(slots=True)
class Walk:
    """Commands run in ``folder``; each block has the variables, and the working folder, that the last one left."""

    folder: Path
    variables: dict[str, str]
    seconds: dict[str, float] = field(default_factory=dict)
    """Of each step, by its name."""

    def __post_init__(self) -> None:
        self.folder.mkdir(parents=True, exist_ok=True)
        self.variables["PWD"] = str(self.folder)

    @property
    def location(self) -> Path:
        """The working folder."""
        return Path(self.variables["PWD"])

    @contextmanager
    def step(self, name: str) -> Iterator[None]:
        """Times what it encloses; a step of several parts is their sum."""
        began = time.monotonic()
        yield
        self.seconds[name] = self.seconds.get(name, 0) + time.monotonic() - began

    def run(self, commands: str, timeout: float = 900) -> str:
        """Runs a block in bash, which ends at the first command that fails; returns its standard output."""
        state = self.folder / _VARIABLES
        process = subprocess.run(
            ["bash", "-euo", "pipefail", "-c", f"{commands}\nenv -0 >'{state}'"],
            cwd=self.location,
            env=self.variables,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            check=False,
            timeout=timeout,
        )
        assert process.returncode == 0, f"{commands}\n{process.stdout}\n{process.stderr}"
        self.variables = dict(line.split("=", 1) for line in state.read_text().split("\0") if line)
        return process.stdout

    def table(self) -> str:
        """The steps in their order, their sum, and how busy the machine was."""
        rows = [f"| {name} | {seconds:.0f} |" for name, seconds in self.seconds.items()]
        total = f"| all steps | {sum(self.seconds.values()):.0f} |"
        load = " ".join(f"{load:.1f}" for load in os.getloadavg())
        return "\n".join(["", *rows, total, f"processes that ran or waited, of the last 1, 5 and 15 minutes: {load}"])
