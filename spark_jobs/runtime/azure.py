"""Needs of Spark for a lake on Azure: a jar and settings.

Put here: Hadoop's side of Azure. Not here: requests of this process (spark_jobs/storage), or the session
(spark_session.py).

Nothing of it is fetched or set for a lake that is not on Azure. ``python -m spark_jobs.runtime.azure`` fetches
beforehand, and prints the jars' paths.
"""

import os
import sys
from pathlib import Path
from urllib.parse import urlsplit

from spark_jobs.config.store import LakeStore
from spark_jobs.runtime.key_providers import key_provider_jar, print_jars
from spark_jobs.runtime.provision import Artifact, jars
from spark_jobs.storage.credentials import kind_on_azure

HADOOP_AZURE = (
    Artifact(
        "org.apache.hadoop",
        "hadoop-azure",
        "3.5.0",
        "220b5db238b82437960e4b81c7e3eefa4eff2a03ad502887497f11d0ad86e663",
    ),
)
"""ABFS of the Hadoop that pyspark has; it needs no more jars than pyspark's."""


def azure_jars() -> list[Path]:
    """The jars for Spark's class path, fetched and compiled at first use. Raises ConfigError."""
    fetched = jars(f"azure-{HADOOP_AZURE[0].version}", "Hadoop's ABFS (1 MB)", HADOOP_AZURE)
    return [*fetched, key_provider_jar("Azure", fetched)]


def azure_confs(store: LakeStore) -> dict[str, str]:
    """Spark's settings for a container. No key is among them: drivers and executors read their environment.

    Which kind of credential there is, the environment of this process decides.
    """
    hadoop, settings = "spark.hadoop.fs.azure", store.settings
    kind, variable = kind_on_azure(settings, os.environ)
    confs = {
        # Of Java itself: the other one is a library that is not among the jars.
        f"{hadoop}.ssl.channel.mode": "Default_JSSE",
        f"{hadoop}.io.retry.max.retries": "4",
        f"{hadoop}.io.retry.max.backoff.interval": "5000",
    }
    if kind == "account key":
        confs |= {
            f"{hadoop}.account.auth.type": "SharedKey",
            f"{hadoop}.account.keyprovider.{store.bucket.partition('@')[2]}": "stratalog.EnvironmentKey",
            f"{hadoop}.stratalog.account_key_env": variable,
        }
    elif kind == "token":
        confs |= {
            f"{hadoop}.account.auth.type": "Custom",
            f"{hadoop}.account.oauth.provider.type": "stratalog.EnvironmentToken",
        }
    else:
        confs |= {
            f"{hadoop}.account.auth.type": "SAS",
            f"{hadoop}.sas.token.provider.type": "stratalog.EnvironmentSignature",
            f"{hadoop}.stratalog.sas_token_env": variable,
        }
    return confs | (_confs_of_endpoint(hadoop, settings.endpoint) if settings.endpoint else {})


def _confs_of_endpoint(hadoop: str, endpoint: str) -> dict[str, str]:
    """Settings for a server that has the endpoint of blobs alone; of Azure, ABFS finds out what an account has."""
    address = urlsplit(endpoint)
    is_tls = address.scheme == "https"
    confs = {
        f"{hadoop}.account.hns.enabled": "false",
        f"{hadoop}.fns.account.service.type": "BLOB",
        f"{hadoop}.abfs.endpoint": f"{address.hostname}:{address.port or (443 if is_tls else 80)}",
    }
    if not is_tls:
        confs["spark.hadoop.fs.abfss.impl"] = "org.apache.hadoop.fs.azurebfs.AzureBlobFileSystem"
        confs[f"{hadoop}.always.use.https"] = "false"
        confs[f"{hadoop}.networking.library"] = "JDK_HTTP_URL_CONNECTION"
    return confs


if __name__ == "__main__":
    sys.exit(print_jars(azure_jars))
