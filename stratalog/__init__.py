"""The public Python API: what programs, notebooks and Dagster projects import.

    from stratalog import lake_of, load, spark_session

Put here: names that documentation uses; docs/reference/python.md lists them. Not here: any code of theirs, which may
move between the packages below. A name's module is imported when the name is first used.
"""

from importlib import import_module
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from assets.catalog import AssetOf
    from assets.keys import bronze_key, downstream_key, published_key, silver_key
    from assets.steps import SourceStep
    from dagster_project.alerts import Alert
    from dagster_project.build import build_defs
    from dagster_project.component import StratalogComponent
    from dagster_project.resources import SparkSessions
    from spark_jobs.binlog import FileDecoder
    from spark_jobs.checks.verify import verify_source
    from spark_jobs.config.loader import from_keys, load
    from spark_jobs.config.model import Pipeline, Retention
    from spark_jobs.downstream.publication import consistent
    from spark_jobs.errors import StratalogError
    from spark_jobs.lake.layout import lake_of
    from spark_jobs.operations.log_store import Store
    from spark_jobs.pipeline.as_of.api import as_of
    from spark_jobs.runtime.spark_session import spark_session
    from spark_jobs.subscriptions.subscription import Subscription

__all__ = [
    "Alert",
    "AssetOf",
    "FileDecoder",
    "Pipeline",
    "Retention",
    "SourceStep",
    "SparkSessions",
    "Store",
    "StratalogComponent",
    "StratalogError",
    "Subscription",
    "as_of",
    "bronze_key",
    "build_defs",
    "consistent",
    "downstream_key",
    "from_keys",
    "lake_of",
    "load",
    "published_key",
    "silver_key",
    "spark_session",
    "verify_source",
]

_MODULES = {
    "Alert": "dagster_project.alerts",
    "AssetOf": "assets.catalog",
    "FileDecoder": "spark_jobs.binlog",
    "Pipeline": "spark_jobs.config.model",
    "Retention": "spark_jobs.config.model",
    "SparkSessions": "dagster_project.resources",
    "SourceStep": "assets.steps",
    "Store": "spark_jobs.operations.log_store",
    "StratalogComponent": "dagster_project.component",
    "StratalogError": "spark_jobs.errors",
    "Subscription": "spark_jobs.subscriptions.subscription",
    "as_of": "spark_jobs.pipeline.as_of.api",
    "bronze_key": "assets.keys",
    "build_defs": "dagster_project.build",
    "consistent": "spark_jobs.downstream.publication",
    "downstream_key": "assets.keys",
    "from_keys": "spark_jobs.config.loader",
    "lake_of": "spark_jobs.lake.layout",
    "load": "spark_jobs.config.loader",
    "published_key": "assets.keys",
    "silver_key": "assets.keys",
    "spark_session": "spark_jobs.runtime.spark_session",
    "verify_source": "spark_jobs.checks.verify",
}
"""The module of each name; the imports above say the same to a type checker."""


if not TYPE_CHECKING:  # a type checker would accept any name

    def __getattr__(name: str) -> Any:
        if name not in _MODULES:
            raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
        _require_own(_MODULES[name].partition(".")[0])
        value = globals()[name] = getattr(import_module(_MODULES[name]), name)
        return value


def _require_own(package: str) -> None:
    """Check that a package of the calling project does not hide Stratalog's of the same name. Raises ImportError."""
    # The first folder that Python looks in decides, for imports that came before too.
    path = Path(__file__).resolve().parents[1] / package
    spec = find_spec(package)
    existing_paths = list(spec.submodule_search_locations or ()) if spec else []
    if (
        package == __name__
        or not existing_paths
        or path in [Path(existing_path).resolve() for existing_path in existing_paths]
    ):
        return
    remedy = f"rename yours: Spark's executors import {package} by this name"
    if package != "spark_jobs":
        remedy = (
            f"install a wheel of Stratalog (pip install {path.parent}, without -e), in which its package is "
            f"stratalog.{package}"
        )
    raise ImportError(f"the package {package} in {existing_paths[0]} hides Stratalog's, which is in {path}: {remedy}")


def __dir__() -> list[str]:
    return [*globals(), *__all__]
