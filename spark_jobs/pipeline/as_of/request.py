"""A request for tables at a location of their log, to be written to a folder, and what is wrong with it.

Put here: the request, as a form names it. Not here: the work (tables_at.py), files (row_files.py).
"""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass

from spark_jobs.config.model import Pipeline
from spark_jobs.errors import ConfigError
from spark_jobs.log.location import parse_location
from spark_jobs.pipeline.as_of.row_files import FORMATS, target_of
from spark_jobs.pipeline.as_of.table_rows import RowQuery
from spark_jobs.pipeline.as_of.tables_at import SourceAt, tables_at
from spark_jobs.pipeline.table_choice import tables_in_scope, wrong_tables


@dataclass(frozen=True, slots=True)
class TablesRequest:
    """Tables, the location in the log at which they are read, and the folder of their rows.

    Attributes:
        source: whose log the location is in.
        at: a position, a GTID set or a time.
        tables: names and patterns, at least one.
        to: a new folder, on this machine or on an object store.
        form: of FORMATS.
        keys: only rows of these keys, each as CSV has its values.
        condition: only rows for which it is TRUE; empty for all.
        is_raw: whether rows are as the source had them.
    """

    source: str
    at: str
    tables: tuple[str, ...]
    to: str
    form: str = "parquet"
    keys: tuple[str, ...] = ()
    condition: str = ""
    is_raw: bool = False

    def require_valid(self, pipeline: Pipeline) -> None:
        """Check all that can be checked before the work begins. Raises ConfigError by the keys of the form.

        Raises LakeError for no bronze, StratalogError for a folder that cannot be looked at.
        """
        # Everything that is wrong is named at once, by its key.
        problems: dict[str, str] = {}
        texts = {"at": self.at, "tables": "".join(self.tables), "to": self.to}
        problems |= {key: "missing" for key, text in texts.items() if not text.strip()}
        problems |= {} if "at" in problems else _problems(lambda: parse_location(self.at), "at")
        problems |= {} if "to" in problems else _problems(lambda: target_of(self.to, pipeline))
        problems |= _problems(self._query)
        if self.form not in FORMATS:
            problems["format"] = f"{self.form!r}: choose among {', '.join(FORMATS)}"
        if self.source not in pipeline.sources:
            problems["source"] = f"no source {self.source!r}; there are {', '.join(pipeline.sources)}"
        elif "tables" not in problems:
            problems |= wrong_tables(self.source, self.tables, tables_in_scope(pipeline, self.source))
        if problems:
            raise ConfigError(problems)

    @contextmanager
    def answered(self, pipeline: Pipeline) -> Iterator[SourceAt]:
        """The tables, to be read inside the ``with`` block. Raises as ``tables_at``."""
        with tables_at(
            pipeline, self.source, self.tables, self.at, choice=self._query(), is_raw=self.is_raw
        ) as source_at:
            yield source_at

    def _query(self) -> RowQuery:
        return RowQuery.of(self.keys, self.condition.strip() or None)


def _problems(look: Callable[[], object], key: str = "") -> dict[str, str]:
    """Problems that a check raises, by key; by the given key where the error has none."""
    try:
        look()
    except ConfigError as error:
        return {name or key: text for name, text in error.problems.items()}
    return {}
