"""The log index: the stretches of servers' logs that bronze is made of.

A stretch is one uninterrupted run of one server's file numbers. Another server, or numbers that began again, open the
next one. The index is stored in bronze's own commits, so that it moves with the position that needs it.

Put here: what is kept of a stretch. Not here: the commits that hold the index (commit.py), or when a stretch is opened
(resume.py).
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

from spark_jobs.log.gtid import Gtids, MysqlGtids, parse_gtids
from spark_jobs.log.position import Position, file_number
from spark_jobs.source.protocol import FilePart


@dataclass(frozen=True, slots=True)
class Stretch:
    """A run of one server's files.

    begin: nothing of the server's log before it was read. began: the second, since 1970, in which the server began the
    file that bronze ends in. gtids: all transactions before ``begin``, kept for the last stretch. passed_over: what
    lies behind ``begin`` and was not read, because an earlier stretch has these transactions. server_id: the server's,
    which tells MariaDB's servers apart, since they have no UUID. What is None is unknown.
    """

    number: int
    begin: Position
    endpoint: str | None = None
    uuid: str | None = None
    began: int | None = None
    gtids: Gtids | None = None
    passed_over: tuple[FilePart, ...] = ()
    server_id: str | None = None

    def to_note(self) -> dict[str, Any]:
        note: dict[str, Any] = {"stretch": self.number, "begin": str(self.begin)}
        known_values = {"endpoint": self.endpoint, "uuid": self.uuid, "server_id": self.server_id, "began": self.began}
        note |= {key: value for key, value in known_values.items() if value is not None}
        note |= {} if self.gtids is None else {"gtids": str(self.gtids)}
        gaps = [[part.file, part.start, part.stop] for part in self.passed_over]
        return note | ({"passed_over": gaps} if gaps else {})

    @classmethod
    def from_note(cls, note: dict[str, Any]) -> "Stretch":
        """Stretch read from the index in a commit, of this version or an earlier one."""
        text = note.get("gtids")
        return cls(
            number=note["stretch"],
            begin=Position.parse(note["begin"]),
            endpoint=note.get("endpoint"),
            uuid=note.get("uuid"),
            began=note.get("began"),
            gtids=None if text is None else parse_gtids(text) if text else MysqlGtids(),
            passed_over=tuple(FilePart(*gap) for gap in note.get("passed_over", ())),
            server_id=note.get("server_id"),
        )

    def file(self, number: int) -> str:
        """The name of a file of the stretch: all of them have the first one's base."""
        base, _, digits = self.begin.file.rpartition(".")
        return f"{base}.{number:0{len(digits)}d}"

    def holds_whole(self, file: str) -> bool:
        """True if all of a file's bytes were to be read, from its first on."""
        before = file_number(file) < self.begin.number or (file == self.begin.file and self.begin.offset > 4)
        return not before and file not in {part.file for part in self.passed_over}


def without_old_gtids(index: Sequence[Stretch]) -> tuple[Stretch, ...]:
    """The index as it is stored: of stretches that are over, nobody asks for the transactions before them."""
    *over, last = index
    return (*(replace(stretch, gtids=None) for stretch in over), last)
