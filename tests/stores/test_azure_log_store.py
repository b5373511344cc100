"""The log store by which Spark commits on Azure, without Spark: Hadoop's ABFS and conditional puts on Azurite."""

import os
import subprocess
from pathlib import Path

import pyspark
import pytest

from spark_jobs.runtime.azure import azure_confs, azure_jars
from spark_jobs.runtime.provision import delta_jars, java_program
from tests.azurite import ACCOUNT_KEY, KEY, Azurite
from tests.gateway import FaultyProxy

pytestmark = [pytest.mark.stores, pytest.mark.azure]

JARS = Path(pyspark.__file__).parent / "jars"


@pytest.fixture(scope="module")
def class_path(tmp_path_factory: pytest.TempPathFactory) -> str:
    """The classes of AzureCommits.scala, and what they need."""
    folder = tmp_path_factory.mktemp("classes")
    (folder / "core-site.xml").write_text("<configuration/>")
    libraries = ":".join(map(str, [*JARS.glob("*.jar"), *delta_jars(), *azure_jars()]))
    compiler = ":".join(map(str, [*JARS.glob("scala-*.jar"), *JARS.glob("jline-3*.jar")]))
    source = Path(__file__).with_name("AzureCommits.scala")
    command = [java_program(), "-cp", compiler, "scala.tools.nsc.Main", "-nowarn", "-d", str(folder)]
    subprocess.run([*command, "-cp", libraries, str(source)], check=True, capture_output=True)
    return f"{folder}:{libraries}"


@pytest.mark.parametrize("lost_answers", [0, 1])
def test_a_version_is_committed_once(azurite: Azurite, class_path: str, lost_answers: int) -> None:
    """An answer that is lost is no conflict: the same content is the own commit."""
    name, remaining = f"commits-{lost_answers}", [lost_answers]
    azurite.make_bucket(name)

    def fault(method: str, place: str) -> str | None:
        if method != "PUT" or not place.partition("?")[0].endswith(".json") or not remaining[0]:
            return None
        remaining[0] -= 1
        return "lost"

    with FaultyProxy(azurite.port, fault) as proxy:
        store = azurite.store(name, endpoint=proxy.url)
        confs = [f"{key.removeprefix('spark.hadoop.')}={value}" for key, value in azure_confs(store).items()]
        ran = subprocess.run(
            [java_program(), "-cp", class_path, "AzureCommits", f"{store.root}/with space ä%20+", *confs],
            env=os.environ | {KEY: ACCOUNT_KEY},
            capture_output=True,
            text=True,
            check=False,
            timeout=120,
        )
        assert proxy.broken == lost_answers
    assert ran.stdout.splitlines()[-5:] == [
        "first: written, first",
        "first: written, first",
        "second: FileAlreadyExistsException",
        "third: written, third",
        "00000000000000000000.json",
    ], ran.stderr[-2000:]
