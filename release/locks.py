"""What the locks install: merged into one, and with the licence of each package.

Put here: reading locks and installed packages. Not here: what is made of them (build.py, audit.py).
"""

import re
from collections.abc import Iterable, Iterator
from importlib.metadata import Distribution, PackageNotFoundError, distribution
from pathlib import Path

from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

IMAGE_LOCKS = tuple(f"requirements{part}.txt" for part in ("-build", "", "-connect", "-otel", "-postgres"))
"""What Containerfile installs, in its order."""
_CLASSIFIER = "License :: "
_LONGEST = 100
_HEAD = """\
# Licences of the Python packages in the image

As each package states it, of the versions of the locks; packages for other systems are left out. Not in this list:
Delta's and Hadoop's jars (their pom files), and the base image with Java, whose
licences are in /usr/share/doc of the image.

| package | version | licence |
| --- | --- | --- |
"""


def entries(lock: Path) -> Iterator[str]:
    """The requirements of a lock, each with its hashes."""
    lines: list[str] = []
    for line in lock.read_text(encoding="utf-8").splitlines():
        if line.lstrip().startswith("#"):
            continue
        if lines and line[:1].strip():
            yield "\n".join(lines)
            lines = []
        if line.strip():
            lines.append(line)
    if lines:
        yield "\n".join(lines)


def requirement_of(entry: str) -> Requirement:
    return Requirement(re.split(r"\s*\\?\n|\s+--hash", entry, maxsplit=1)[0].removesuffix("\\").strip())


def merged(locks: Iterable[Path]) -> str:
    """A lock with each requirement of several once. Raises ValueError where two have it in different versions."""
    found: dict[str, tuple[str, str]] = {}
    for lock in locks:
        for entry in entries(lock):
            requirement = requirement_of(entry)
            key = f"{canonicalize_name(requirement.name)} {requirement.marker or ''}"
            version, _ = found.setdefault(key, (str(requirement.specifier), entry))
            if version != str(requirement.specifier):
                raise ValueError(f"{lock.name} has {requirement.name}{requirement.specifier}, and another {version}")
    return "".join(f"{entry}\n" for _, (_, entry) in sorted(found.items()))


def licence_page(root: Path) -> str:
    """The page of licences, of the packages that are installed here. Raises ValueError where one is not as locked."""
    # A package of another system or version of Python is not in the image.
    rows = {}
    for name in IMAGE_LOCKS:
        for entry in entries(root / name):
            requirement = requirement_of(entry)
            if requirement.marker and not requirement.marker.evaluate():
                continue
            try:
                installed = distribution(requirement.name)
            except PackageNotFoundError:
                raise ValueError(f"{requirement.name} of {name} is not installed here; run make install") from None
            if installed.version not in requirement.specifier:
                raise ValueError(
                    f"{requirement.name} is {installed.version} here, and {requirement.specifier} in {name}"
                )
            rows[canonicalize_name(requirement.name)] = f"{installed.version} | {licence_of(installed)}"
    return _HEAD + "".join(f"| {name} | {row} |\n" for name, row in sorted(rows.items()))


def licence_of(package: Distribution) -> str:
    """The SPDX expression of a package; or else its classifiers, or the first line of its free text."""
    metadata = package.metadata
    classifiers = [
        text.removeprefix(_CLASSIFIER).removeprefix("OSI Approved :: ")
        for text in metadata.get_all("Classifier", [])
        if text.startswith(_CLASSIFIER) and text != "License :: OSI Approved"
    ]
    free = "".join(metadata.get_all("License", [])[:1]).strip().partition("\n")[0]
    expression = "".join(metadata.get_all("License-Expression", [])[:1])
    return expression or ", ".join(classifiers) or free[:_LONGEST] or "not stated"
