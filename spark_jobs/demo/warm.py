"""Compilation of the decoder before Spark's workers start, each of which would compile it by itself.

Compiled code is cached on disk: with a warm cache this takes a moment.

Put here: exercising the decoder once. Not here: the decoder.
"""

from pathlib import Path

from spark_jobs.changes.feed import changes_of_files
from spark_jobs.config.table_patterns import Scope
from spark_jobs.demo.shop import TABLES

_LOG = Path(__file__).parent / "recorded_logs" / "mysql-bin.000002"
"""The recorded file with every kind of change in it."""


def compile_decoder() -> int:
    """Decode a recorded log; how many changes it holds. Raises DecodeError where the recording is damaged."""
    scope = Scope.parse(TABLES)
    log = [(_LOG.name, iter([_LOG.read_bytes()]))]
    pieces = changes_of_files(log, lambda name: scope.holds(name.schema, name.table))
    return sum(piece.endswith("\n") for piece in pieces)
