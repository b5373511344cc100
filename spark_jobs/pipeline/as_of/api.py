"""``stratalog.as_of``: a table as it was, as an Arrow table.

Put here: the question as programs ask it. Not here: the answer (tables_at.py).
"""

from collections.abc import Sequence
from typing import Any

import pyarrow as pa

from spark_jobs.config.model import Pipeline
from spark_jobs.config.table_patterns import Pattern
from spark_jobs.errors import ConfigError
from spark_jobs.log.position import Position
from spark_jobs.pipeline.as_of.table_rows import RowQuery
from spark_jobs.pipeline.as_of.tables_at import tables_at


def as_of(  # noqa: PLR0913 - the ways in which rows are chosen
    pipeline: Pipeline,
    table: str,
    at: str | Position,
    *,
    source: str | None = None,
    keys: Sequence[Any] = (),
    where: str | None = None,
    raw: bool = False,
) -> pa.Table:
    """A table as it was at a place of its source's log, in memory, by key. Starts no JVM; nothing is written.

    Args:
        pipeline: the configuration.
        table: the source's table as it was called then, such as ``shop.orders``.
        at: a position, a GTID set or a time, as text; inside a transaction it is where that begins.
        source: whose table it is; required where there are several.
        keys: only rows of these keys: a value each, or of keys of several columns a tuple each.
        where: only rows for which this condition is TRUE, in the language of row filters.
        raw: as the source had the rows, without masks and filters.

    Raises:
        ConfigError: what is given names no table, place, key or condition.
        SourceError: the stored log does not have the place.
        LakeError: the table was not there then, or the lake cannot tell its rows of then; the message says why.
    """
    names = list(pipeline.sources)
    if source is None and len(names) != 1:
        raise ConfigError({"source": f"name one of {', '.join(names)}"})
    if not Pattern.parse(table).is_name:
        raise ConfigError({"table": f"{table!r} is a pattern; name one table"})
    choice = RowQuery.of([key if isinstance(key, str | tuple | list) else (key,) for key in keys], where)
    with tables_at(pipeline, source or names[0], [table], at, choice=choice, is_raw=raw) as source_at:
        rows: pa.Table = source_at.tables[0].selection().table()
        return rows
