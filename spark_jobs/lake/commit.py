"""The metadata of a commit: one JSON object under the application's name.

Put here: how such an object is written and read, what commits of all tables say, kinds of commits. Not here:
committing (table.py), or what a layer's commits say besides (the commit.py of each layer).

A layer's commit is a dataclass whose fields name their members of the object. A table's head is read without knowing
its layer, so its ``Checkpoint`` has most members unnamed; who knows the layer reads them by name, as in
``SilverCommit.of_head(head).emptied_at``. Members that nobody names are carried on.
"""

import json
import uuid
from collections.abc import Callable, Mapping
from dataclasses import Field, dataclass, field, fields
from enum import StrEnum
from typing import Any, Self

from spark_jobs.errors import LakeError, StratalogError
from spark_jobs.log.position import Position, Range

APPLICATION = "stratalog"
_KEPT_MEMBERS = ("oldest", "removed_to", "uuid", "stretches", "folded", "derives")
"""Members that stay true of a table until a commit says otherwise."""
_OF_UNFINISHED = ("left", "altered")
"""Members of earlier versions' commits: steps that a statement had still to take, and the columns it had come to."""


class CommitKind(StrEnum):
    """Kind of a commit of a table."""

    LIVE = "live"
    """A commit that added what the next part of the log has."""
    MAINTENANCE = "maintenance"
    """A commit that changed how rows are stored, and no row."""
    ALTERING = "altering"
    """A commit of earlier versions that left the table between two sets of columns; so did maintenance upon such a
    commit."""
    WIDENED = "widened"
    """A commit of earlier versions that changed the columns of a downstream table of several source tables, and no
    row."""
    GC = "gc"
    """A commit that removed files of the log from bronze."""
    RESTORED = "restored"
    """A commit that put files of the log before those that bronze has."""
    CHANGE = "change"
    """A commit that moved a silver table over a statement; it says which steps changed the columns."""
    LOAD = "load"
    """A commit that added rows that an initial load read from the server."""
    MEND = "mend"
    """A commit that added rows of some keys that were read from the server, since they were not what the log led to."""
    RESET = "reset"
    """A commit that left a silver table without a row, because its log, compacted again, has none."""
    REDO = "redo"
    """A commit that replaced windows of a silver table; it says which."""


@dataclass(frozen=True, slots=True)
class JsonForm:
    """Form in JSON of values of a type that JSON does not have; null is None in every form."""

    write: Callable[[Any], Any]
    parse: Callable[[Any], Any]


AS_IS = JsonForm(lambda value: value, lambda value: value)
POSITION = JsonForm(str, Position.parse)
LIST = JsonForm(list, tuple)
"""A tuple of values that JSON has."""


def list_of(form: JsonForm) -> JsonForm:
    """A tuple of values of one form."""
    return JsonForm(lambda values: [*map(form.write, values)], lambda values: tuple(map(form.parse, values)))


RANGES = list_of(
    JsonForm(lambda span: [str(span.start), str(span.stop)], lambda pair: Range(*map(Position.parse, pair)))
)


def object_of(kind: type[Any]) -> JsonForm:
    """A dataclass whose fields name their members, as an object of its own."""
    return JsonForm(_to_members, lambda members: kind(**_member_values(kind, members)))


def member(name: str, form: JsonForm = AS_IS, *, is_always: bool = False) -> dict[str, Any]:
    """The ``metadata`` of a field: the JSON member that it is.

    Args:
        name: the member's key.
        form: how its value stands there.
        is_always: whether it is written too where it has its default; readers of earlier versions ask for it.
    """
    return {_MEMBER: _Member(name, form, is_always)}


_MEMBER = "member"


@dataclass(frozen=True, slots=True)
class _Member:
    """The member of a JSON object that a field is."""

    key: str
    form: JsonForm
    is_always: bool


_members: dict[type[Any], dict[str, tuple[Field[Any], _Member]]] = {}


def _members_of(kind: type[Any]) -> dict[str, tuple[Field[Any], _Member]]:
    """The fields of a dataclass that are members, by key; looked up once, since a run reads thousands of commits."""
    if kind not in _members:
        attributes = (attribute for attribute in fields(kind) if _MEMBER in attribute.metadata)
        _members[kind] = {
            attribute.metadata[_MEMBER].key: (attribute, attribute.metadata[_MEMBER]) for attribute in attributes
        }
    return _members[kind]


def _to_members(value: Any) -> dict[str, Any]:
    """The members that a dataclass has, as JSON has them."""
    members: dict[str, Any] = {}
    for key, (attribute, json_member) in _members_of(type(value)).items():
        cell = getattr(value, attribute.name)
        default = attribute.default_factory() if callable(attribute.default_factory) else attribute.default
        if json_member.is_always or cell != default:
            members[key] = None if cell is None else json_member.form.write(cell)
    return members


def _member_values(kind: type[Any], members: Mapping[str, Any]) -> dict[str, Any]:
    """The values of a dataclass's fields, by name, as far as JSON has members for them."""
    attributes = _members_of(kind)
    cells = ((*attributes[key], cell) for key, cell in members.items() if key in attributes)
    return {
        attribute.name: None if cell is None else json_member.form.parse(cell) for attribute, json_member, cell in cells
    }


def _kind(text: str) -> CommitKind | str:
    return CommitKind(text) if text in {*CommitKind} else text


_KIND = JsonForm(str, _kind)


@dataclass(frozen=True, slots=True)
class Checkpoint:
    """Part of every commit of ours: up to where its table is complete, and which commit it is."""

    position: Position = field(metadata=member("position", POSITION))
    batch: str = field(metadata=member("batch"))
    """The id by which its writer finds it again."""
    kind: CommitKind | str = field(default=CommitKind.LIVE, metadata=member("kind", _KIND, is_always=True))
    """A later version's kind stays text."""
    unnamed_members: dict[str, Any] = field(default_factory=dict, kw_only=True)
    """Members that the class does not name, as they are stored: a layer's own, of another version, nobody's."""

    @classmethod
    def of(cls, checkpoint: "Checkpoint") -> Self:
        """The same commit as a layer reads it."""
        return checkpoint if isinstance(checkpoint, cls) else cls.from_members(checkpoint.members())

    @classmethod
    def of_head(cls, head: "Head | None") -> Self | None:
        """The newest commit of a table; None where there is no table, or none of ours in it."""
        return cls.of(head.checkpoint) if head and head.checkpoint else None

    @property
    def is_unfinished(self) -> bool:
        """True if an earlier version made it in the middle of a statement, which had several commits then."""
        is_between = self.kind in {CommitKind.ALTERING, CommitKind.WIDENED}
        return is_between or any(self.unnamed_members.get(name) is not None for name in _OF_UNFINISHED)

    def upon(self, head: "Head") -> Self:
        """The commit with those members of the head that stand until a commit says otherwise."""
        members, before = self.members(), head.checkpoint.members() if head.checkpoint else {}
        kept_members = {key: before[key] for key in _KEPT_MEMBERS if key in before and members.get(key) is None}
        return self.from_members(members | kept_members) if kept_members else self

    def members(self) -> dict[str, Any]:
        """The members of its JSON object."""
        return _to_members(self) | self.unnamed_members

    @classmethod
    def from_members(cls, members: Mapping[str, Any]) -> Self:
        """The checkpoint of a commit's members.

        Raises LakeError if a required member is missing or one has a wrong value.
        """
        attributes = _members_of(cls)
        try:
            return cls(
                **_member_values(cls, members),
                unnamed_members={key: value for key, value in members.items() if key not in attributes},
            )
        except (TypeError, ValueError, KeyError, AttributeError, StratalogError) as error:
            raise LakeError(
                f"what a commit says of itself cannot be read: {error}; restore the table's _delta_log"
            ) from error

    def to_json(self) -> str:
        return json.dumps({APPLICATION: self.members()})

    @classmethod
    def from_json(cls, text: str | None) -> Self | None:
        """None for the commit of somebody else (an OPTIMIZE by hand, a CREATE)."""
        try:
            raw_members = json.loads(text or "null")
        except ValueError:  # metadata is free text; whoever wrote this one is not us
            return None
        members = raw_members.get(APPLICATION) if isinstance(raw_members, dict) else None
        return cls.from_members(members) if members else None


def new_batch() -> str:
    """A unique id of a commit: no other commit has the same content."""
    return uuid.uuid4().hex


@dataclass(frozen=True, slots=True)
class Design:
    """Columns of a table, by name and Spark type, and its properties."""

    columns: dict[str, str]
    properties: dict[str, str]


@dataclass(frozen=True, slots=True)
class Head:
    """A table as it was read: Delta version, commit counter, newest checkpoint (None in a table without rows yet)."""

    version: int
    counter: int
    checkpoint: Checkpoint | None
    design: "Design | None" = None
    """Design of a table that is not there yet, or is to be rebuilt: the next commit makes the table, or replaces all of
    its rows and columns, and holds a position as any other."""
    all_parts: Checkpoint | None = None
    """Newest commit of all, where ``checkpoint`` is that of a part (multi_source.py)."""

    @property
    def position(self) -> Position | None:
        return self.checkpoint.position if self.checkpoint else None
