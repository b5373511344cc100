"""Programs of the tests that Go builds, once, into the user's cache.

Put here: building them. Not here: what they are asked (gateway.py, otel_collector.py, grafana_types.py).
"""

import hashlib
import os
import shutil
import subprocess
from collections.abc import Mapping
from pathlib import Path

from spark_jobs.errors import ConfigError
from spark_jobs.runtime.provision import made_once


def output_of(program: str, *arguments: str, folder: Path | None = None, **variables: str) -> str:
    """What the go command prints. Raises ConfigError where there is none, and where it fails."""
    go = shutil.which("go")
    if go is None:
        raise ConfigError(f"the program {program} is built by Go, and no go is on the PATH")
    environment = os.environ | variables
    result = subprocess.run([go, *arguments], cwd=folder, capture_output=True, text=True, check=False, env=environment)
    if result.returncode:
        raise ConfigError(f"the program {program} was not built: {result.stderr.strip()[-300:]}")
    return result.stdout


def built(source: Path, sources_of: str | None = None, values: Mapping[str, str] | None = None) -> Path:
    """The folder of a program, which is named as its source's folder. Raises ConfigError.

    Args:
        source: the folder of its module: go.mod with exact versions, go.sum with their sums.
        sources_of: a module whose packages' sources are kept in ``sources`` beside the program, one file a package.
        values: of variables of its packages, which the linker sets.
    """
    key = hashlib.sha256(b"".join(file.read_bytes() for file in sorted(source.iterdir()))).hexdigest()[:16]

    def build(folder: Path) -> None:
        linked = " ".join(f"-X {name}={value}" for name, value in (values or {}).items())
        command = ("build", "-trimpath", "-ldflags", linked, "-o", str(folder / source.name), ".")
        output_of(source.name, *command, folder=source)
        if sources_of is None:
            return
        (folder / "sources").mkdir()
        listed = output_of(source.name, "list", "-deps", "-f", "{{.ImportPath}} {{.Dir}}", ".", folder=source)
        for line in listed.splitlines():
            package, _, directory = line.partition(" ")
            file = Path(directory, "types_gen.go")
            if package.startswith(f"{sources_of}/") and file.exists():
                shutil.copy(file, folder / "sources" / f"{Path(package).name}.go")

    return made_once(f"{source.name}-{key}", build)
