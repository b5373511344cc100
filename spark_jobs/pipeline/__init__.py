"""One source through all layers: runs, backfills, restores and initial loads.

Put here: planning, and the order of the layers' work. Not here: the work on one table (silver/, downstream/).
"""

from typing import TYPE_CHECKING

from spark_jobs import documented_names

if not TYPE_CHECKING:  # a type checker would accept any name
    __getattr__ = documented_names(__name__)
