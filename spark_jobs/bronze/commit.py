"""Metadata of bronze commits besides their position.

Put here: their fields, and the log index out of them. Not here: bounds of the log that follow from them (table.py), or
what a stretch is (log_index.py).
"""

from dataclasses import dataclass, field

from spark_jobs.bronze.log_index import Stretch
from spark_jobs.lake.commit import POSITION, Checkpoint, JsonForm, list_of, member
from spark_jobs.log.position import Position

_STRETCHES = list_of(JsonForm(Stretch.to_note, Stretch.from_note))


@dataclass(frozen=True, slots=True, kw_only=True)
class BronzeCommit(Checkpoint):
    """A commit that extracted, restored or removed a part of the log."""

    start: Position | None = field(default=None, metadata=member("start", POSITION))
    """Position where the extraction of the newest part began."""
    begin: Position | None = field(default=None, metadata=member("begin", POSITION))
    """Position where the first extraction began."""
    server_uuid: str | None = field(default=None, metadata=member("uuid", is_always=True))
    log_bytes: int | None = field(default=None, metadata=member("bytes"))
    """Size of the newest part."""
    margin_bytes: int | None = field(default=None, metadata=member("margin_bytes"))
    """Log that the source still had before that."""
    stretches: tuple[Stretch, ...] = field(default=(), metadata=member("stretches", _STRETCHES))
    """The log index, in order; tables from before there was one have none."""
    oldest: Position | None = field(default=None, metadata=member("oldest", POSITION))
    """Position where the log begins since gc removed some of it, or since files were put before it."""
    removed_to: Position | None = field(default=None, metadata=member("removed_to", POSITION))
    """Position where the log ended that gc removed last."""
    derives_cascades: bool = field(default=False, metadata=member("derives"))
    """True since the first commit if changes by foreign keys are derived where the configuration says nothing of them.
    Lakes of earlier versions only warn of them, and have rows that nothing was derived for."""

    @property
    def log_index(self) -> tuple[Stretch, ...]:
        """The stretches of the table; one without an index has one."""
        return self.stretches or (Stretch(1, self.begin or self.position, uuid=self.server_uuid),)


def stretches(checkpoint: Checkpoint) -> tuple[Stretch, ...]:
    """The stretches of a bronze table, in order."""
    return BronzeCommit.of(checkpoint).log_index
