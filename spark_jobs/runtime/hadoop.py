"""Needs of Spark for the object store of a lake, whichever it is.

Put here: choosing between the kinds of stores. Not here: any of them (s3.py, azure.py, google.py).
"""

from pathlib import Path

from spark_jobs.config.store import AZURE, GOOGLE, LakeStore
from spark_jobs.runtime import azure, google, s3


def store_jars(store: LakeStore | None) -> list[Path]:
    """The jars for Spark's class path; none for a lake that is on no store. Raises ConfigError."""
    if store is None:
        return []
    if store.scheme == AZURE:
        return azure.azure_jars()
    return google.google_jars() if store.scheme == GOOGLE else s3.s3_jars()


def store_confs(store: LakeStore | None) -> dict[str, str]:
    """Spark's settings for a store, without any key."""
    if store is None:
        return {}
    if store.scheme == AZURE:
        return azure.azure_confs(store)
    return google.google_confs(store) if store.scheme == GOOGLE else s3.s3_confs(store)
