import io
import re
import subprocess
import tarfile
import zipfile
from pathlib import Path

import pytest

from release.build import ROOT, built, differences
from release.locks import licence_page


def wheel(folder: Path, **members: str) -> Path:
    folder.mkdir()
    with zipfile.ZipFile(folder / "a.whl", "w") as packed:
        for name, content in members.items():
            packed.writestr(zipfile.ZipInfo(name), content)
    return folder


def test_what_differs_between_two_builds_is_named(tmp_path: Path) -> None:
    first, repeated = wheel(tmp_path / "first", a="1", b="2"), wheel(tmp_path / "repeated", a="1", b="2")
    assert differences(first, repeated) == []
    assert differences(first, wheel(tmp_path / "other", a="1", b="3")) == ["a.whl: b"]
    assert differences(first, wheel(tmp_path / "more", a="1", b="2", c="")) == ["a.whl: c"]
    assert differences(first, wheel(tmp_path / "order", b="2", a="1")) == [
        "a.whl: order, times or rights of its members"
    ]
    with tarfile.open(first / "b.tar.gz", "w:gz") as packed:
        member = tarfile.TarInfo("x")
        member.size = 1
        packed.addfile(member, io.BytesIO(b"1"))
    assert differences(first, repeated) == ["b.tar.gz: is in one of them alone"]


def test_the_version_is_one_fact() -> None:
    """Files that have it beside pyproject.toml would have to be changed with it."""
    version = re.search(r'^version = "(.*)"$', (ROOT / "pyproject.toml").read_text(), re.MULTILINE)
    assert version
    command = [
        "git",
        "grep",
        "-lE",
        rf"stratalog[-=:v ]+{re.escape(version[1])}",
        "--",
        ":!tests",
        ":!docs",
        ":!README.md",
    ]
    named = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    assert (named.returncode, named.stdout) == (1, "")


@pytest.mark.long
@pytest.mark.slow
def test_two_builds_are_the_same_and_the_sdist_has_what_an_image_is_made_of(tmp_path: Path) -> None:
    first = built(tmp_path / "a", umask=0o022)
    assert differences(first, built(tmp_path / "b" / "longer", umask=0o077)) == []
    (sdist,) = first.glob("*.tar.gz")
    with tarfile.open(sdist) as unpacked:
        names = {name.partition("/")[2] for name in unpacked.getnames()}
    recipe = (ROOT / "Containerfile").read_text()
    copied = [path for line in re.findall(r"^COPY (.*) \S+$", recipe, re.MULTILINE) for path in line.split()]
    assert len(copied) > 8
    assert not [path for path in copied if not any(name == path or name.startswith(f"{path}/") for name in names)]


def test_each_package_of_the_image_has_its_licence() -> None:
    page = licence_page(ROOT)
    assert re.search(r"^\| pymysql \| [\d.]+ \| MIT", page, re.MULTILINE)
    assert re.search(r"^\| hatchling \| [\d.]+ \| MIT", page, re.MULTILINE)
    assert "pytest" not in page
    assert "not stated" not in page
