"""Programs of the tests that Go builds from a folder here, once, into the user's cache.

Put here: building them. Not here: what they are asked (otel_collector.py, grafana_types.py).
"""

import hashlib
import os
import shutil
import subprocess
from pathlib import Path

from spark_jobs.errors import ConfigError
from spark_jobs.runtime.provision import made_once


def built(source: Path, sources_of: str | None = None) -> Path:
    """The folder of a program, which is named as its source's folder. Raises ConfigError.

    Args:
        source: the folder of its module: go.mod with exact versions, go.sum with their sums.
        sources_of: a module whose packages' sources are kept in ``sources`` beside the program, one file a package.
    """
    go = shutil.which("go")
    key = hashlib.sha256(b"".join(file.read_bytes() for file in sorted(source.iterdir()))).hexdigest()[:16]

    def output_of(*arguments: str) -> str:
        if go is None:
            raise ConfigError(f"the program {source.name} is built by Go, and no go is on the PATH")
        command = [go, *arguments]
        result = subprocess.run(command, cwd=source, capture_output=True, text=True, check=False, env=dict(os.environ))
        if result.returncode:
            raise ConfigError(f"the program {source.name} was not built: {result.stderr.strip()[-300:]}")
        return result.stdout

    def build(folder: Path) -> None:
        output_of("build", "-trimpath", "-o", str(folder / source.name), ".")
        if sources_of is None:
            return
        (folder / "sources").mkdir()
        for line in output_of("list", "-deps", "-f", "{{.ImportPath}} {{.Dir}}", ".").splitlines():
            package, _, directory = line.partition(" ")
            file = Path(directory, "types_gen.go")
            if package.startswith(f"{sources_of}/") and file.exists():
                shutil.copy(file, folder / "sources" / f"{Path(package).name}.go")

    return made_once(f"{source.name}-{key}", build)
