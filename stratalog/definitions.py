"""The code location of the pipeline that STRATALOG_CONFIG names: ``dagster dev -m stratalog.definitions``.

Put here: nothing more. Not here: how it is put together (dagster_project/definitions.py), which a wheel has elsewhere.
"""

from dagster_project.definitions import defs

__all__ = ["defs"]
