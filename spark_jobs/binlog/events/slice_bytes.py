"""Input of a decoder: the bytes of a slice, and what its events need besides.

Put here: opening slices, once for several decoders. Not here: how slices are cut (binlog/slices/), or their rows
(binlog/rows/).
"""

from dataclasses import dataclass
from weakref import WeakKeyDictionary

from spark_jobs.binlog.events.scanner import Bytes, EventScanner, Scan, TableMaps, open_slice


@dataclass(frozen=True, slots=True, eq=False, weakref_slot=True)
class SliceBytes:
    """Decoded parts of a slice.

    start: the payload's offset in its file (0: it begins with the file's magic bytes). context, transaction_start: as
    the slice has them. committed_us (µs since 1970 UTC), gtid: of the slice, for rows of a transaction that began
    before it.
    """

    start: int
    context: bytes | None
    payload: Bytes
    """Bytes of the slice, not copied."""
    transaction_start: int | None = None
    committed_us: int = 0
    gtid: str | None = None

    def opened(self, file: str, maps: TableMaps) -> tuple[EventScanner, Scan]:
        """The scanner and the scanned events of the slice. Raises DecodeError and its kinds."""
        return open_slice(
            file,
            self.start,
            self.context,
            self.payload,
            maps,
            transaction_start=self.transaction_start,
            committed_us=self.committed_us,
        )


class Scans:
    """Scans of slices, for decoders of several tables that read the same slices one after the other.

    A slice is identified by its object: who shares scans hands the same one to each decoder. Its scan is kept as long
    as it is.
    """

    def __init__(self) -> None:
        self.maps = TableMaps()
        self._by_slice: WeakKeyDictionary[SliceBytes, tuple[EventScanner, Scan]] = WeakKeyDictionary()

    def __len__(self) -> int:
        return len(self._by_slice)

    def of(self, file: str, log_slice: SliceBytes) -> tuple[EventScanner, Scan]:
        """A slice's events. Raises DecodeError and its kinds."""
        opened = self._by_slice.get(log_slice)
        if opened is None:
            self._by_slice[log_slice] = opened = log_slice.opened(file, self.maps)
        return opened
