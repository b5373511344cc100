"""The wheel: in a project with packages of the names that a checkout has at its top."""

import os
import shutil
import subprocess
import sys
import tomllib
import zipfile
from pathlib import Path

import pytest

from hatch_build import gather, pages, rewritten

ROOT = Path(__file__).parents[1]
USE = """\
import sys
from pathlib import Path

import assets.own, dagster_project, dagster as dg
from stratalog import StratalogComponent, build_defs, downstream_key

defs = build_defs(Path("pipeline.yaml"))
dg.Definitions.validate_loadable(defs)
from stratalog.definitions import defs as configured
assert set(configured.resolve_all_asset_keys()) == set(defs.resolve_all_asset_keys())
own = [name for name in sys.modules if name.partition(".")[0] in ("assets", "dagster_project")]
print(sorted(own), Path(sys.modules["spark_jobs"].__file__).parents[1], StratalogComponent.__module__)
"""
MACHINE_CODE = """\
import spark_jobs
from pathlib import Path
from spark_jobs.binlog.kernels import targets
from spark_jobs.binlog.kernels.machine_code import FOLDER, decoded, file_name, installed
folder = Path(spark_jobs.__file__).parent / "binlog" / "kernels" / FOLDER
made = {target.name: decoded(target, (folder / file_name(target)).read_bytes()) for target in targets.machine_targets()}
print(folder.parents[3])
print(len(made) == len(list(folder.iterdir())), bool(installed().entries) == (targets.fitting_target() is not None))
"""


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The wheel, unpacked."""
    folder = tmp_path_factory.mktemp("wheel")
    command = [sys.executable, "-m", "hatchling", "build", "-t", "wheel", "-d", str(folder)]
    subprocess.run(command, cwd=ROOT, check=True, capture_output=True)
    (archive,) = folder.glob("*.whl")
    zipfile.ZipFile(archive).extractall(folder / "unpacked")
    return folder / "unpacked"


def project(folder: Path, *packages: str) -> Path:
    """A project with packages of its own, and a pipeline."""
    for package in packages:
        (folder / package).mkdir(parents=True)
        (folder / package / "__init__.py").touch()
        (folder / package / "own.py").touch()
    (folder / "pipeline.yaml").write_text("lake: ./lake\nsources: {shop: {files: .}}\n")
    return folder


def run(folder: Path, code: str, path: Path) -> subprocess.CompletedProcess[str]:
    environment = {name: value for name, value in os.environ.items() if not name.startswith(("STRATALOG_", "DAGSTER"))}
    folders = os.pathsep.join([str(folder), str(path)])
    command = [sys.executable, "-c", code]
    return subprocess.run(
        command, cwd=folder, env=environment | {"PYTHONPATH": folders}, capture_output=True, text=True, check=False
    )


def test_a_wheel_is_built_with_what_the_decoder_is_installed_with() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())
    backend, *libraries = project["build-system"]["requires"]
    assert backend == "hatchling"
    assert libraries
    assert set(libraries) <= set(project["project"]["dependencies"])


@pytest.mark.thorough
@pytest.mark.processes
@pytest.mark.slow
def test_a_wheel_has_machine_code_for_its_python(wheel: Path, tmp_path: Path) -> None:
    ran = run(tmp_path, MACHINE_CODE, wheel)
    assert (ran.returncode, ran.stdout.splitlines()) == (0, [str(wheel), "True True"]), ran.stderr


@pytest.mark.thorough
@pytest.mark.processes
@pytest.mark.slow
@pytest.mark.dagster
def test_a_wheel_leaves_the_project_its_own_packages(wheel: Path, tmp_path: Path) -> None:
    assert sorted(path.name for path in wheel.iterdir() if path.suffix != ".dist-info") == ["spark_jobs", "stratalog"]
    ran = run(project(tmp_path, "assets", "dagster_project"), USE, wheel)
    assert ran.returncode == 0, ran.stderr
    modules = ["assets", "assets.own", "dagster_project"]
    assert ran.stdout.strip() == f"{modules} {wheel} stratalog.dagster_project.component"


RUN = """\
from pathlib import Path

import assets.own, dagster as dg
from stratalog import build_defs

defs = build_defs(Path("pipeline.yaml"), key_prefix="own")
with dg.DagsterInstance.ephemeral() as instance:
    result = defs.resolve_job_def("sync").execute_in_process(instance=instance)
print(*sorted(event.asset_key.to_user_string() for event in result.get_asset_materialization_events()))
"""


@pytest.mark.long
@pytest.mark.spark
@pytest.mark.dagster
def test_a_wheel_runs_a_pipeline(wheel: Path, tmp_path: Path) -> None:
    shutil.copytree(ROOT / "docs" / "examples" / "tutorial", tmp_path / "binlogs")
    (tmp_path / "binlogs" / "shop.sql").unlink()
    folder = project(tmp_path, "assets", "dagster_project")
    (folder / "pipeline.yaml").write_text("lake: ./lake\nsources: {shop: {files: ./binlogs}}\n")
    ran = run(folder, RUN, wheel)
    assert ran.returncode == 0, ran.stderr
    assert "own/downstream/shop/orders" in ran.stdout.split()


@pytest.mark.slow
@pytest.mark.parametrize(
    "package, name, remedy",
    [
        ("assets", "bronze_key", f"install a wheel of Stratalog (pip install {ROOT}, without -e)"),
        ("dagster_project", "build_defs", f"install a wheel of Stratalog (pip install {ROOT}, without -e)"),
        ("spark_jobs", "load", "rename yours: Spark's executors import spark_jobs by this name"),
    ],
)
def test_a_checkout_says_which_package_hides_its_own(tmp_path: Path, package: str, name: str, remedy: str) -> None:
    ran = run(project(tmp_path, package), f"from stratalog import {name}", ROOT)
    last = ran.stderr.strip().splitlines()[-1]
    assert last.startswith(f"ImportError: the package {package} in {tmp_path}/{package} hides Stratalog's")
    assert remedy in last


@pytest.mark.parametrize(
    "source, expected",
    [
        ("from assets.keys import a\n", "from stratalog.assets.keys import a\n"),
        ("    from dagster_project import b\n", "    from stratalog.dagster_project import b\n"),
        ('M = {"a": "assets.keys"}\n', 'M = {"a": "stratalog.assets.keys"}\n'),
        ('TEXT = "assets"\n', 'TEXT = "assets"\n'),
        ("from spark_jobs.errors import c\n", "from spark_jobs.errors import c\n"),
        ("from my_assets import d\n", "from my_assets import d\n"),
    ],
)
def test_imports_are_rewritten_and_nothing_else(source: str, expected: str) -> None:
    if source.startswith(" "):
        source, expected = f"def f():\n{source}", f"def f():\n{expected}"
    assert rewritten(source, "m.py") == expected


def test_an_import_that_is_not_rewritten_ends_the_build() -> None:
    with pytest.raises(ValueError, match=r"m\.py: import assets\.keys has to be written as from assets\.keys import"):
        rewritten("import assets.keys\n", "m.py")


def test_all_files_of_the_packages_are_there(tmp_path: Path) -> None:
    gather(ROOT, tmp_path)
    names = {str(path.relative_to(tmp_path)) for path in tmp_path.rglob("*.py")}
    assert {
        "stratalog/__init__.py",
        "stratalog/assets/checks/integrity.py",
        "stratalog/dagster_project/ops/load.py",
    } <= names


def test_the_pages_are_where_docs_reads_them() -> None:
    paths = pages(ROOT)
    assert paths[str(ROOT / "docs" / "limits.md")] == "spark_jobs/docs/limits.md"
    assert paths[str(ROOT / "docs" / "clusters" / "README.md")] == "spark_jobs/docs/clusters/README.md"
