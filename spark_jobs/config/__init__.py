"""pipeline.yaml: its model, its value types, and the rules that it states.

Put here: reading and validating configuration. Not here: checks that ask a server or the lake (checks/).
"""

from typing import TYPE_CHECKING

from spark_jobs import documented_names

if not TYPE_CHECKING:  # a type checker would accept any name
    __getattr__ = documented_names(__name__)
