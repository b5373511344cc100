"""Parallel work on several tables.

Put here: what keeps a table that stops from stopping the others. Not here: the work.
"""

import logging
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any, Protocol, TypeVar

from spark_jobs.binlog import TableName
from spark_jobs.errors import (
    JvmEnded,
    LostRace,
    StratalogError,
)
from spark_jobs.pipeline.destinations import TableInto
from spark_jobs.runtime.interrupt import dropping
from spark_jobs.text.progress import doing
from spark_jobs.text.remedies import advised

log = logging.getLogger(__name__)


_TABLES_AT_ONCE = 4
"""Tables worked on side by side: commits wait for disks more than for cores."""


Result = TypeVar("Result")


class Named(Protocol):
    """Work on one table, and what it is known by: the table, or where it goes too."""

    @property
    def name(self) -> TableName | TableInto: ...


Item = TypeVar("Item", bound=Named)


def each_table(
    work: Sequence[Item],
    run: Callable[[Item], Result],
    stopped: dict[Any, str],
    layer: str = "",
    on_result: Callable[[Result], object] = lambda _: None,
) -> list[Result]:
    """Run the work of several tables side by side; what one table raises stops that table.

    layer: what progress begins with. on_result: gets each result, also where a race
    is raised. Raises LostRace, once the others are done, where another run moved a table first: nothing is wrong with
    that one.
    """
    results: list[Result] = []
    # Threads wait for Spark and for the driver's writes; the GIL is not what limits them.
    race: LostRace | None = None
    text = f"{layer}: committing tables" if layer else "reading tables"
    with doing(text, len(work)) as activity, ThreadPoolExecutor(_TABLES_AT_ONCE) as pool, dropping(pool):
        running = [(item.name, pool.submit(run, item)) for item in work]
        for _, future in running:
            future.add_done_callback(activity.add)
        # Results in the order of the tables. A JVM that ended ends all of them.
        for name, future in running:
            try:
                result = future.result()
                results.append(result)
                on_result(result)
            except LostRace as error:
                race = error
            except JvmEnded:
                raise
            except StratalogError as error:
                stopped[name] = advised(error, table=name if isinstance(name, TableName) else name[0])
                log.error("%s", stopped[name])  # noqa: TRY400 - the message is the whole of it
    if race:
        raise race
    return results
