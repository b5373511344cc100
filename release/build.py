"""What a release is made of, in dist/: wheel, sdist, Containerfile, SBOM, licences, checksums. Uploading is left out.

    python -m release.build [FOLDER]

The last commit is built twice, from two exports in two folders, at its own time; where a file of the two wheels or
sdists differs, it is named and the exit status is 1.

Put here: building and comparing. Not here: what a lock installs (locks.py), or vulnerabilities (audit.py).
"""

import hashlib
import os
import shutil
import subprocess
import sys
import tarfile
import tempfile
import tomllib
import zipfile
from collections.abc import Mapping
from pathlib import Path

from release.locks import IMAGE_LOCKS, licence_page, merged

ROOT = Path(__file__).parents[1]


def main(into: Path) -> int:
    """Builds into a folder, what was there goes. The exit status."""
    shutil.rmtree(into, ignore_errors=True)
    into.mkdir(parents=True)
    with tempfile.TemporaryDirectory() as scratch:
        # Names, lengths of paths and rights of new files are others, as they are on two machines.
        builds = [
            built(Path(scratch, "first"), umask=0o022),
            built(Path(scratch, "second", "in", "a", "longer", "path"), umask=0o077),
        ]
        different = differences(*builds)
        if different:
            print("two builds of the same commit differ in:", *different, sep="\n  ", file=sys.stderr)
            return 1
        for file in sorted(builds[0].iterdir()):
            shutil.copyfile(file, into / file.name)
    name = f"{_project()['name']}-{_project()['version']}"
    shutil.copyfile(ROOT / "Containerfile", into / "Containerfile")
    _write_sbom(into / f"{name}.cdx.json")
    (into / f"{name}-licences.md").write_text(licence_page(ROOT), encoding="utf-8")
    _write_checksums(into)
    print((into / "SHA256SUMS").read_text(), end="")
    return 0


def built(folder: Path, *, umask: int, tree: str = "HEAD") -> Path:
    """The folder with wheel and sdist of a commit, exported and built below another one."""
    source, dist = folder / "source", folder / "dist"
    source.mkdir(parents=True)
    archive = subprocess.run(["git", "archive", "--format=tar", tree], cwd=ROOT, check=True, stdout=subprocess.PIPE)
    subprocess.run(["tar", "-xf", "-"], cwd=source, input=archive.stdout, check=True, umask=umask)
    command = [sys.executable, "-m", "hatchling", "build", "-t", "sdist", "-t", "wheel", "-d", str(dist)]
    subprocess.run(command, cwd=source, env=_environment(tree), check=True, stdout=subprocess.DEVNULL, umask=umask)
    return dist


def differences(first: Path, second: Path) -> list[str]:
    """Archives that are not the same in both folders, each with the members that differ."""
    names = sorted({file.name for folder in (first, second) for file in folder.iterdir()})
    found = []
    for name in names:
        one, other = first / name, second / name
        if not (one.is_file() and other.is_file()):
            found.append(f"{name}: is in one of them alone")
        elif one.read_bytes() != other.read_bytes():
            contents = _members(one), _members(other)
            members = sorted({*contents[0], *contents[1]})
            parts = [member for member in members if contents[0].get(member) != contents[1].get(member)]
            found.append(f"{name}: {', '.join(parts) or 'order, times or rights of its members'}")
    return found


def _members(archive: Path) -> Mapping[str, bytes]:
    if archive.suffix == ".whl":
        with zipfile.ZipFile(archive) as packed:
            return {name: packed.read(name) for name in packed.namelist()}
    with tarfile.open(archive) as unpacked:
        files = [member for member in unpacked if member.isfile()]
        return {member.name: content.read() for member in files if (content := unpacked.extractfile(member))}


def _environment(tree: str) -> dict[str, str]:
    """The environment with the commit's time, which members of archives and the SBOM have."""
    command = ["git", "log", "-1", "--format=%ct", tree]
    epoch = subprocess.run(command, cwd=ROOT, check=True, capture_output=True, text=True).stdout.strip()
    return os.environ | {"SOURCE_DATE_EPOCH": epoch}


def _project() -> Mapping[str, str]:
    """Table ``project`` of pyproject.toml, the only file with the version."""
    project: Mapping[str, str] = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    return project


def _write_sbom(into: Path) -> None:
    """The locks of the image as components, with their hashes, in CycloneDX 1.6."""
    command = [sys.executable, "-m", "cyclonedx_py", "requirements", "--pyproject", str(ROOT / "pyproject.toml")]
    command += ["--sv", "1.6", "--of", "JSON", "--output-reproducible", "-o", str(into), "-"]
    lock = merged([ROOT / name for name in IMAGE_LOCKS])
    subprocess.run(command, cwd=ROOT, env=_environment("HEAD"), input=lock, text=True, check=True)


def _write_checksums(folder: Path) -> None:
    lines = [f"{hashlib.sha256(file.read_bytes()).hexdigest()}  {file.name}\n" for file in sorted(folder.iterdir())]
    (folder / "SHA256SUMS").write_text("".join(lines), encoding="utf-8")


if __name__ == "__main__":
    sys.exit(main(Path(sys.argv[1]) if sys.argv[1:] else ROOT / "dist"))
