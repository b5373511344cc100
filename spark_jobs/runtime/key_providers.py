"""Credentials that a JVM shows object stores by its environment, and the certificates that it trusts.

Put here: what all kinds of object stores need of the JVM. Not here: a kind's jars and settings (s3.py, azure.py).

A key provider is compiled once, by the Scala compiler that comes with pyspark, from the file of ``SOURCES``.
"""

import hashlib
import re
import subprocess
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path

import pyspark

from spark_jobs.config.store import ObjectStore
from spark_jobs.errors import ConfigError, StratalogError
from spark_jobs.runtime import provision
from spark_jobs.runtime.provision import made_once

_FOLDER = Path(__file__).parent
SOURCES = {"S3": _FOLDER / "AwsCredentials.scala", "Azure": _FOLDER / "AzureCredentials.scala"}
"""The file of a kind of store."""
_CERTIFICATE = re.compile(r"-----BEGIN CERTIFICATE-----.+?-----END CERTIFICATE-----", re.DOTALL)
_TRUST_PASSWORD = "changeit"  # noqa: S105 -- of a file of public certificates, which needs one


def key_provider_jar(kind: str, fetched: list[Path]) -> Path:
    """The key provider of a kind of store, compiled at first use. Raises ConfigError."""
    # The name of the folder has the source and Spark's version, so that either one's change compiles it again.
    name = f"stratalog-{kind.lower()}.jar"
    spark = Path(pyspark.__file__).parent / "jars"
    key = hashlib.sha256(SOURCES[kind].read_bytes() + pyspark.__version__.encode()).hexdigest()[:16]

    def compile_into(folder: Path) -> None:
        compiler = [*spark.glob("scala-*.jar"), *spark.glob("jline-3*.jar")]
        class_path = [*spark.glob("scala-library*.jar"), *spark.glob("hadoop-client-api*.jar"), *fetched]
        command = [
            *(provision.java_program(), "-cp", ":".join(map(str, compiler)), "scala.tools.nsc.Main", "-nowarn"),
            *("-d", str(folder / name), "-cp", ":".join(map(str, class_path)), str(SOURCES[kind])),
        ]
        result = subprocess.run(command, capture_output=True, text=True, check=False)
        if result.returncode or not (folder / name).is_file():
            lines = (result.stdout + result.stderr).split("\n")
            raise ConfigError(f"the key provider for {kind} was not compiled: {' '.join(' '.join(lines[:3]).split())}")

    return made_once(f"{kind.lower()}-key-provider-{key}", compile_into) / name


def print_jars(jars: Callable[[], list[Path]]) -> int:
    """Fetch jars beforehand, and print their paths. Returns the exit status."""
    try:
        sys.stdout.writelines(f"{jar}\n" for jar in jars())
    except StratalogError as error:
        sys.stderr.write(f"{error}\n")
        return error.exit_status
    return 0


def trust_options(settings: ObjectStore) -> str:
    """Java's options by which a JVM trusts the certificates of ``store.ca``; empty without. Raises ConfigError."""
    if settings.ca is None:
        return ""
    try:
        text = settings.ca.read_text()
    except OSError as error:
        raise ConfigError(f"store.ca: {settings.ca}: {error.strerror}") from error
    certificates = _CERTIFICATE.findall(text)
    if not certificates:
        raise ConfigError(f"store.ca: {settings.ca} has no certificate in PEM form")
    key = hashlib.sha256(text.encode()).hexdigest()[:16]
    folder = made_once(f"trust-{key}", lambda into: _import(certificates, into / "trust.p12"))
    return f"-Djavax.net.ssl.trustStore={folder / 'trust.p12'} -Djavax.net.ssl.trustStorePassword={_TRUST_PASSWORD}"


def _import(certificates: list[str], into: Path) -> None:
    keytool = str(Path(provision.java_program()).with_name("keytool"))
    for number, certificate in enumerate(certificates):
        with tempfile.NamedTemporaryFile("w", suffix=".pem") as file:
            file.write(certificate)
            file.flush()
            command = [keytool, "-importcert", "-noprompt", "-alias", f"ca-{number}", "-file", file.name]
            command += ["-keystore", str(into), "-storetype", "PKCS12", "-storepass", _TRUST_PASSWORD]
            result = subprocess.run(command, capture_output=True, text=True, check=False)
        if result.returncode:
            raise ConfigError(f"store.ca: keytool does not take certificate {number + 1}: {result.stdout.strip()}")
