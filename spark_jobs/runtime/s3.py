"""What Spark needs for a lake on S3: jars, settings, and a log store whose commits are conditional puts.

Put here: Hadoop's side of a store. Not here: requests of this process (spark_jobs/storage), or the session
(spark_session.py).

Nothing of it is fetched or set for a lake that is not on S3. The log store is compiled once, by the Scala compiler that
comes with pyspark, from ConditionalLogStore.scala. ``python -m spark_jobs.runtime.s3`` does so beforehand, and prints
the jars' paths.
"""

import hashlib
import re
import subprocess
import sys
import tempfile
from pathlib import Path

import pyspark

from spark_jobs.config.store import LakeStore, ObjectStore
from spark_jobs.errors import ConfigError, StratalogError
from spark_jobs.runtime import provision
from spark_jobs.runtime.provision import Artifact, delta_jars, jars, made_once

HADOOP_AWS = (
    Artifact(
        "org.apache.hadoop",
        "hadoop-aws",
        "3.5.0",
        "66bd9eefb938b1a1657487324b63c13df2d8b17164a1dd24e0ef37b905bc5baa",
    ),
    Artifact(
        "software.amazon.awssdk",
        "bundle",
        "2.35.4",
        "db4b55f24ad1b4e70f17eb1717a4de76a8dadc5a27d764be7c44ff67b2c1c677",
    ),
    Artifact(
        "software.amazon.s3.analyticsaccelerator",
        "analyticsaccelerator-s3",
        "1.3.1",
        "4959a9747cbb479c73c3ffbcd479bee5b014f8b2880994585a8693fb9d24675e",
    ),
)
"""S3A of the Hadoop that pyspark has, the SDK that this S3A was built with, and what it does not load without."""
LOG_STORE = {"spark.delta.logStore.s3a.impl": "stratalog.ConditionalLogStore"}
"""The setting by which Spark's commits are conditional puts, too."""
_SOURCE = Path(__file__).with_name("ConditionalLogStore.scala")
_JAR = "stratalog-s3.jar"
_CERTIFICATE = re.compile(r"-----BEGIN CERTIFICATE-----.+?-----END CERTIFICATE-----", re.DOTALL)
_TRUST_PASSWORD = "changeit"  # noqa: S105 -- of a file of public certificates, which needs one


def s3_jars() -> list[Path]:
    """The jars for Spark's class path, fetched and compiled at first use. Raises ConfigError."""
    fetched = jars(f"s3-{HADOOP_AWS[0].version}", "Hadoop's S3A and the AWS SDK (560 MB)", HADOOP_AWS)
    return [*fetched, log_store_jar(fetched)]


def log_store_jar(fetched: list[Path]) -> Path:
    """The log store, compiled at first use. Raises ConfigError."""
    # The name of the folder has the source and Spark's version, so that either one's change compiles it again.
    spark = Path(pyspark.__file__).parent / "jars"
    key = hashlib.sha256(_SOURCE.read_bytes() + pyspark.__version__.encode()).hexdigest()[:16]

    def compile_into(folder: Path) -> None:
        compiler = [*spark.glob("scala-*.jar"), *spark.glob("jline-3*.jar")]
        class_path = [*spark.glob("scala-library*.jar"), *spark.glob("hadoop-client-api*.jar"), *delta_jars(), *fetched]
        command = [
            *(provision.java_program(), "-cp", ":".join(map(str, compiler)), "scala.tools.nsc.Main", "-nowarn"),
            *("-d", str(folder / _JAR), "-cp", ":".join(map(str, class_path)), str(_SOURCE)),
        ]
        result = subprocess.run(command, capture_output=True, text=True, check=False)
        if result.returncode or not (folder / _JAR).is_file():
            lines = (result.stdout + result.stderr).split("\n")
            raise ConfigError(f"the log store for S3 was not compiled: {' '.join(' '.join(lines[:3]).split())}")

    return made_once(f"s3-log-store-{key}", compile_into) / _JAR


def s3_confs(store: LakeStore) -> dict[str, str]:
    """Spark's settings for a bucket. No key is among them: drivers and executors read their environment."""
    settings, bucket = store.settings, f"spark.hadoop.fs.s3a.bucket.{store.bucket}"
    confs = {
        "spark.hadoop.fs.s3a.impl": "org.apache.hadoop.fs.s3a.S3AFileSystem",
        **LOG_STORE,
        f"{bucket}.create.conditional.enabled": "true",
        f"{bucket}.aws.credentials.provider": "stratalog.EnvironmentKeys",
        f"{bucket}.endpoint.region": settings.region,
        f"{bucket}.path.style.access": str(settings.is_path_style).lower(),
        # The other streams that S3A has are for AWS alone, or not settled yet.
        f"{bucket}.input.stream.type": "classic",
        # What a store refuses, it refuses again; what it does not answer is tried for a minute, not for ten.
        f"{bucket}.attempts.maximum": "3",
        f"{bucket}.retry.limit": "4",
    }
    if settings.endpoint:
        confs[f"{bucket}.endpoint"] = settings.endpoint
        confs[f"{bucket}.connection.ssl.enabled"] = str(settings.endpoint.startswith("https://")).lower()
    names = ("access_key_env", "secret_key_env", "session_token_env")
    return confs | {f"{bucket}.stratalog.{name}": getattr(settings, name) for name in names}


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
    folder = made_once(f"s3-trust-{key}", lambda into: _import(certificates, into / "trust.p12"))
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


def main() -> int:
    """Fetches the jars, and prints their paths. Returns the exit status."""
    try:
        sys.stdout.writelines(f"{jar}\n" for jar in s3_jars())
    except StratalogError as error:
        sys.stderr.write(f"{error}\n")
        return error.exit_status
    return 0


if __name__ == "__main__":
    sys.exit(main())
