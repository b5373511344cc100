"""A virtual environment with dbt, its adapters and DuckDB's extension for Delta tables.

Put here: installing it. Not here: what is done with it (docs/test_dbt.py).
"""

import hashlib
import subprocess
import sys
from pathlib import Path

from spark_jobs.errors import ConfigError
from spark_jobs.runtime.provision import made_once

LOCK = Path(__file__).parents[2] / "requirements-dbt.txt"


def installed() -> Path:
    """The environment's Python, from the locked requirements. Raises ConfigError."""
    uv = str(Path(sys.executable).with_name("uv"))

    def install(folder: Path) -> None:
        # The folder is moved when it is complete, so that its programs name their interpreter by a relative path.
        command = [uv, "venv", "--quiet", "--relocatable", "--python", sys.executable, str(folder / "env")]
        subprocess.run(command, check=True)
        command = [uv, "pip", "install", "--quiet", "--no-deps", "--require-hashes", "-r", str(LOCK)]
        result = subprocess.run(
            [*command, "--python", str(folder / "env" / "bin" / "python")], capture_output=True, text=True, check=False
        )
        if result.returncode:
            raise ConfigError(f"dbt was not installed: {result.stderr.strip()[-300:]}")

    version = hashlib.sha256(LOCK.read_bytes()).hexdigest()[:16]
    return made_once(f"dbt-{version}", install) / "env" / "bin" / "python"
