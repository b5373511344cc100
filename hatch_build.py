"""Build hook of hatchling: packages with common names lie below ``stratalog``; adds pages and machine code.

Put here: which packages move, how their imports are rewritten, and what else a wheel has. Not here: dependencies
(pyproject.toml), or making machine code (spark_jobs/binlog/kernels/build.py).

At the top of a checkout, ``assets`` and ``dagster_project`` are what a Dagster project has. Installed beside a project
that has packages of these names itself, one of the two would hide the other.
"""

import ast
import re
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

from hatchling.builders.hooks.plugin.interface import BuildHookInterface

MOVED = ("assets", "dagster_project")
"""Packages that are ``stratalog.NAME`` in a wheel."""
HOME = "stratalog"
PAGES = "spark_jobs/docs"
"""Folder of the pages of docs/ in a wheel."""
KERNELS = "spark_jobs.binlog.kernels"
"""Package of the decoder's kernels; its module ``build`` makes their machine code."""
_NAMES = "|".join(MOVED)
_IMPORT = re.compile(rf"^(\s*)from ({_NAMES})(\.[\w.]+)? import ", re.MULTILINE)
_LITERAL = re.compile(rf"""(["'])({_NAMES})((?:\.\w+)+)\1""")


class MovePackages(BuildHookInterface[Any]):
    """Adds the package ``stratalog`` with all that lies below it in a wheel."""

    PLUGIN_NAME = "custom"
    _scratch: str | None = None

    def initialize(self, version: str, build_data: dict[str, Any]) -> None:
        """An editable installation stays as the checkout is."""
        if version == "editable":
            return
        self._scratch = tempfile.mkdtemp()
        gather(Path(self.root), Path(self._scratch))
        build_data["force_include"] |= pages(Path(self.root)) | machine_code(Path(self.root))
        build_data["force_include"][str(Path(self._scratch, HOME))] = HOME

    def finalize(self, version: str, build_data: dict[str, Any], artifact_path: str) -> None:  # noqa: ARG002
        if self._scratch:
            shutil.rmtree(self._scratch)


def gather(root: Path, into: Path) -> None:
    """Copies the packages as a wheel has them. Raises ValueError where an import would still mean another package."""
    for package in (HOME, *MOVED):
        for path in sorted((root / package).rglob("*")):
            if not path.is_file() or "__pycache__" in path.parts:
                continue
            target = into / (HOME if package == HOME else f"{HOME}/{package}") / path.relative_to(root / package)
            target.parent.mkdir(parents=True, exist_ok=True)
            if path.suffix == ".py":
                target.write_text(rewritten(path.read_text(encoding="utf-8"), str(path)), encoding="utf-8")
            else:
                shutil.copyfile(path, target)


def pages(root: Path) -> dict[str, str]:
    """Each page of the documentation, with its path in a wheel, where ``stratalog docs`` reads it."""
    return {
        str(path): f"{PAGES}/{path.relative_to(root / 'docs').as_posix()}" for path in (root / "docs").rglob("*.md")
    }


def machine_code(root: Path) -> dict[str, str]:
    """Each file of machine code, with its path in a wheel; made where it is missing or of other sources.

    It is for the version of Python that builds the wheel, and for machines like this one; others compile.
    """
    command = [sys.executable, "-m", f"{KERNELS}.build"]
    paths = subprocess.run(command, cwd=root, stdout=subprocess.PIPE, text=True, check=True).stdout.splitlines()
    return {path: Path(path).relative_to(root).as_posix() for path in paths}


def rewritten(source: str, name: str) -> str:
    """A module with its imports, and the names of modules in literals, below ``stratalog``."""
    text = _IMPORT.sub(rf"\1from {HOME}.\2\3 import ", source)
    text = _LITERAL.sub(rf"\1{HOME}.\2\3\1", text)
    for node in ast.walk(ast.parse(text)):
        modules = [alias.name for alias in node.names] if isinstance(node, ast.Import) else []
        modules += [node.module or ""] if isinstance(node, ast.ImportFrom) else []
        for module in modules:
            if module.split(".")[0] in MOVED:
                raise ValueError(f"{name}: import {module} has to be written as from {module} import …")
    return text
