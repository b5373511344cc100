"""Build of the machine code that is installed: ``python -m spark_jobs.binlog.kernels.build`` prints its files' paths.

It is made for every target of this kind of machine, whatever this processor has, as a wheel needs it: code is compiled
here, none is run. With ``--here`` it is made for this processor alone, as a clone needs it.

Put here: compiling. Not here: for which processors (targets.py), by which signatures (signatures.py), or the format of
the files (machine_code.py).
"""

import importlib
import os
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path

from numba.core.serialize import dumps

from spark_jobs.binlog.kernels.machine_code import FOLDER, decoded, encoded, entry_name, file_name
from spark_jobs.binlog.kernels.signatures import signatures
from spark_jobs.binlog.kernels.targets import TARGETS, CodeTarget, fitting_target, machine_targets

_MODULE = f"{__package__}.build"


def make(folder: Path, targets: Sequence[CodeTarget]) -> list[Path]:
    """The files of targets in a folder; those that are missing, damaged, or of other sources or versions are made.

    Each takes a process of its own 40 s of processor time, all at once. Raises CalledProcessError.
    """
    # numba reads for which processor it compiles where it is imported: each target has a process.
    files = {folder / file_name(target): target for target in targets}
    folder.mkdir(exist_ok=True)
    with tempfile.TemporaryDirectory() as scratch:
        environment = os.environ | {"PYTHONPATH": str(Path(__file__).parents[3]), "NUMBA_CACHE_DIR": scratch}
        environment.pop("NUMBA_DISABLE_JIT", None)  # no kernel is compiled under it
        processes = [
            subprocess.Popen(
                [sys.executable, "-m", _MODULE, target.name, str(path)], env=environment | target.options()
            )
            for path, target in files.items()
            if not _is_made(target, path)
        ]
        statuses = [process.wait() for process in processes]
    if any(statuses):
        raise subprocess.CalledProcessError(max(statuses, key=abs), _MODULE)
    return list(files)


def compile_for(target: CodeTarget, path: Path) -> None:
    """Writes the file of a target, in a process where numba compiles for it."""
    entries = {}
    for name, arguments in signatures():
        module, _, function = name.partition(".")
        kernel = getattr(importlib.import_module(f"{__package__}.{module}"), function)
        kernel.compile(arguments)
        # The text about types has addresses of this process, and nobody reads it: two builds would differ by it.
        result = kernel.overloads[arguments]._replace(type_annotation="")
        # numba's cache pickles the same parts of the same result.
        entries[entry_name(kernel.py_func, arguments)] = dumps(result._reduce())  # noqa: SLF001
    part = path.with_name(f".{path.name}.{os.getpid()}")
    part.write_bytes(encoded(target, entries))
    part.replace(path)


def _is_made(target: CodeTarget, path: Path) -> bool:
    try:
        decoded(target, path.read_bytes())
    except (FileNotFoundError, ValueError):
        return False
    return True


if __name__ == "__main__":
    if len(sys.argv) > 2:
        compile_for(next(target for target in TARGETS if target.name == sys.argv[1]), Path(sys.argv[2]))
    else:
        fitting = fitting_target()
        chosen = ([fitting] if fitting else []) if sys.argv[1:] == ["--here"] else machine_targets()
        print(*make(Path(__file__).parent / FOLDER, chosen), sep="\n")  # noqa: T201 - for hatch_build.py
