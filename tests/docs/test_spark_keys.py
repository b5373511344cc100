"""Settings of Spark that pages and manifests name are those of the Spark that is installed."""

import re
import zipfile
from functools import cache
from pathlib import Path

import pyspark
import pytest

from spark_jobs.runtime.provision import DELTA, cache_dir

ROOT = Path(__file__).parents[2]
KEY = re.compile(r"\bspark(?:\.[A-Za-z0-9_]+(?:-[a-z]+)?)+(?![\w./*(-]|:\d)")
PAGES = [
    *sorted((ROOT / "docs" / "clusters").glob("*.md")),
    *sorted((ROOT / "docs" / "examples" / "kubernetes").glob("*.yaml")),
]
OURS = re.compile(r"spark\.(master|remote|archive|conf|task_bytes|internal)$|spark\.hadoop\.|spark_")
"""Keys of pipeline.yaml, Hadoop's, a name of a host."""
JARS = (
    "core",
    "kubernetes",
    "yarn",
    "connect",
    "catalyst",
    "sql",
    "sql-api",
    "common-utils",
    "launcher",
    "network-common",
)
OF_DELTA = "spark.databricks.delta."
VARIABLE_TAILS = re.compile(r"\.secretKeyRef\.\w+$|\.(appMasterEnv|executorEnv)\.\w+$|\.\w+Env\.\w+$")
"""Keys that end with a name of a variable."""


@cache
def known_texts() -> bytes:
    """Constants of the classes of Spark and Delta that have settings."""
    jars = [jar for name in JARS for jar in Path(pyspark.__file__).parent.glob(f"jars/spark-{name}_*.jar")]
    jars += [cache_dir() / f"delta-{DELTA[0].version}" / artifact.file for artifact in DELTA]
    contents: list[bytes] = []
    for jar in jars:
        with zipfile.ZipFile(jar) as archive:
            contents += [archive.read(name) for name in archive.namelist() if name.endswith(".class")]
    return b"\0".join(contents)


@pytest.mark.slow
@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_spark_has_the_keys(page: Path) -> None:
    keys = {key for key in KEY.findall(page.read_text(encoding="utf-8")) if not OURS.match(key)}
    unknown = {key for key in keys if not is_known(key)}
    assert unknown == set()


def is_known(key: str) -> bool:
    texts = known_texts()
    if key.encode() in texts:
        return True
    if key.startswith(OF_DELTA):  # Delta's classes have what follows, as a constant of its own
        name = key.removeprefix(OF_DELTA).encode()
        return b"\x01" + len(name).to_bytes(2, "big") + name in texts
    prefix = VARIABLE_TAILS.sub("", key)
    return prefix != key and prefix.encode() in texts


@pytest.mark.slow
def test_a_key_that_is_none_is_found() -> None:
    assert is_known("spark.databricks.delta.snapshotPartitions")
    for key in "spark.databricks.delta.snapshotPartition", "spark.databricks.delta.napshotPartitions", "spark.yarn.x":
        assert not is_known(key)
