"""In-doubt XA transactions in bronze: prepared, and neither committed nor rolled back in its log.

Put here: finding them. Not here: what their slices say (xa.py), or what follows from it (operations/retention/gc.py).

Their rows take effect where a later XA COMMIT stands, perhaps files away, so the log from the oldest of them on is
still needed, whoever has read it; and as long as who reads the log has not reached that XA COMMIT.
"""

from collections.abc import Iterator
from dataclasses import dataclass

from spark_jobs.bronze.index import read_index
from spark_jobs.bronze.xa import XaSlice, steps
from spark_jobs.lake.table import Table
from spark_jobs.log.position import Position


@dataclass(frozen=True, slots=True)
class PreparedTransaction:
    """A prepared transaction: its xid as the server writes it (``X'6131',X'',1``), and where its rows begin.

    committed: where the log commits it, after the position that was asked about.
    """

    xid: str
    position: Position
    committed: Position | None = None


def prepared_transactions(table: Table, version: int, at: Position | None = None) -> list[PreparedTransaction]:
    """The prepared transactions that no XA COMMIT or XA ROLLBACK follows, in the log's order. Raises DecodeError.

    at: as seen from a position: with those that are prepared before it, and that the log commits there or after it.
    """
    slices = read_index(table, version, kind="statement")
    ends = slices.where(slices.slices["transactions"].to_numpy() > 0)
    by_xid: dict[str, list[XaSlice]] = {}
    for step in steps(ends):
        if step.xid is not None:
            by_xid.setdefault(step.xid, []).append(step)
    open_transactions = [
        transaction for xid, xa_steps in by_xid.items() for transaction in _open_transactions(xid, xa_steps, at)
    ]
    return sorted(open_transactions, key=lambda transaction: transaction.position)


def _open_transactions(xid: str, xa_steps: list[XaSlice], at: Position | None) -> Iterator[PreparedTransaction]:
    for prepared, after in zip(xa_steps, [*xa_steps[1:], None], strict=True):
        if prepared.kind != "prepared":
            continue
        if after is None:
            yield PreparedTransaction(xid, prepared.begin)
        elif at and after.kind == "committed" and after.position >= at > prepared.begin:
            yield PreparedTransaction(xid, prepared.begin, after.position)
