"""Needs of Spark for a lake on S3: jars and settings.

Put here: Hadoop's side of S3. Not here: requests of this process (spark_jobs/storage), or the session
(spark_session.py).

Nothing of it is fetched or set for a lake that is not on S3. ``python -m spark_jobs.runtime.s3`` fetches beforehand,
and prints the jars' paths.
"""

import sys
from pathlib import Path

from spark_jobs.config.store import LakeStore
from spark_jobs.runtime.key_providers import key_provider_jar, print_jars
from spark_jobs.runtime.provision import Artifact, jars

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
_NAMED_KEYS = "stratalog.EnvironmentKeys"
_IDENTITY = "software.amazon.awssdk.auth.credentials.DefaultCredentialsProvider"
"""The SDK's own search, whose order is that of identity/aws.py; it renews what expires."""


def s3_jars() -> list[Path]:
    """The jars for Spark's class path, fetched and compiled at first use. Raises ConfigError."""
    fetched = jars(f"s3-{HADOOP_AWS[0].version}", "Hadoop's S3A and the AWS SDK (690 MB)", HADOOP_AWS)
    return [*fetched, key_provider_jar("S3", fetched)]


def s3_confs(store: LakeStore) -> dict[str, str]:
    """Spark's settings for a bucket. No key is among them: drivers and executors find theirs in their environment."""
    settings, bucket = store.settings, f"spark.hadoop.fs.s3a.bucket.{store.bucket}"
    confs = {
        "spark.hadoop.fs.s3a.impl": "org.apache.hadoop.fs.s3a.S3AFileSystem",
        f"{bucket}.aws.credentials.provider": _NAMED_KEYS if settings.access_key_env else _IDENTITY,
        f"{bucket}.endpoint.region": settings.region,
        f"{bucket}.path.style.access": str(settings.is_path_style).lower(),
        # The other streams that S3A has are for AWS alone, or not final yet.
        f"{bucket}.input.stream.type": "classic",
        # What a store refuses, it refuses again; what it does not answer is tried for a minute, not for ten.
        f"{bucket}.attempts.maximum": "3",
        f"{bucket}.retry.limit": "4",
    }
    if settings.endpoint:
        confs[f"{bucket}.endpoint"] = settings.endpoint
        confs[f"{bucket}.connection.ssl.enabled"] = str(settings.endpoint.startswith("https://")).lower()
    names = ("access_key_env", "secret_key_env", "session_token_env")
    return confs | {f"{bucket}.stratalog.{name}": value for name in names if (value := getattr(settings, name))}


if __name__ == "__main__":
    sys.exit(print_jars(s3_jars))
