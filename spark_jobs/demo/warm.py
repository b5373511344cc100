"""Compiles the decoder before Spark's workers would, each by itself.

Compiled code is cached on disk: with a warm cache this takes a moment.

Put here: exercising the decoder once. Not here: the decoder.
"""

from collections import deque
from pathlib import Path

from spark_jobs.changes import changes_of_files
from spark_jobs.demo.shop import TABLES
from spark_jobs.rules import Scope

_LOG = Path(__file__).parent / "recorded_logs" / "mysql-bin.000002"
"""The recorded file with every kind of change in it."""


def compile_decoder() -> None:
    """Decodes a recorded log and forgets it. Raises DecodeError where the recording is damaged."""
    scope = Scope.parse(TABLES)
    log = [(_LOG.name, iter([_LOG.read_bytes()]))]
    deque(changes_of_files(log, lambda name: scope.holds(name.schema, name.table)), maxlen=0)
