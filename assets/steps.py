"""What all steps know of their run: its tags, and the session of its resource.

Put here: names and protocols that more than one step needs. Not here: failing and trying again (failures.py), what is
selected (selection.py), or what is materialized (materialize.py).
"""

from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:  # these import pyspark
    from pyspark.sql import SparkSession


SOURCE_TAG = "stratalog/source"
FROM_TAG = "stratalog/from"
TO_TAG = "stratalog/to"
"""Tags of a run: its source, and the part of the log that it is about."""


class Sessions(Protocol):
    """What a step needs of the resource ``spark``."""

    def session(self) -> "SparkSession":
        """The run's session, started when it is first asked for."""
        ...
