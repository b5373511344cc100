"""Needs of Spark for a lake on Google Cloud Storage: a jar and settings.

Put here: Hadoop's side of Google. Not here: requests of this process (spark_jobs/storage), or the session
(spark_session.py).

Nothing of it is fetched or set for a lake that is not on Google. ``python -m spark_jobs.runtime.google`` fetches
beforehand, and prints the jar's path.
"""

import sys
from pathlib import Path

from spark_jobs.config.store import LakeStore
from spark_jobs.runtime.key_providers import print_jars
from spark_jobs.runtime.provision import Artifact, jars

CONNECTOR = (
    Artifact(
        "com.google.cloud.bigdataoss",
        "gcs-connector",
        "4.0.0",
        "784efd5e56df22245dac765402320f586c364cddbe3cfc80338ec554f00cf05f",
        "shaded",
    ),
)
"""Google's own file system for Hadoop, with what it needs."""
_SIZES = {
    "rewrite.max.chunk.size": 512 << 20,
    "block.size": 64 << 20,
    "outputstream.buffer.size": 8 << 20,
    "inputstream.inplace.seek.limit": 8 << 20,
    "inputstream.min.range.request.size": 2 << 20,
}
"""Hadoop's defaults of these, in bytes: it has them as ``64m``, for a connector that is not this one."""


def google_jars() -> list[Path]:
    """The jar for Spark's class path, fetched at first use. Raises ConfigError."""
    return jars(f"google-{CONNECTOR[0].version}", "Google's connector for Hadoop (40 MB)", CONNECTOR)


def google_confs(store: LakeStore) -> dict[str, str]:
    """Spark's settings for a bucket. No key is among them: drivers and executors find theirs in their environment."""
    google = "spark.hadoop.fs.gs"
    confs = {
        f"{google}.impl": "com.google.cloud.hadoop.fs.gcs.GoogleHadoopFileSystem",
        # The library's own search, whose order is that of identity/google.py; it renews what expires.
        f"{google}.auth.type": "APPLICATION_DEFAULT",
        # Nothing is written by Spark, not even a marker of a folder.
        f"{google}.implicit.dir.repair.enable": "false",
    }
    confs |= {f"{google}.{name}": str(size) for name, size in _SIZES.items()}
    if store.settings.endpoint:
        confs[f"{google}.storage.root.url"] = store.settings.endpoint
    return confs


if __name__ == "__main__":
    sys.exit(print_jars(google_jars))
