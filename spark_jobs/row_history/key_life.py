"""Keys of a row over time: the changes that belong to a row whose key changes, and the range of each key.

A chosen key has all of its changes, at any time. Where an UPDATE gives its row another key, the changes of that key
count from there until the row is deleted, moves on, or the table is emptied; where a row came to a chosen key from
another one, the changes of that one count back to where the row began.

Put here: following rows over their keys. Not here: keys as texts (key_texts.py), or reading changes (trace.py).
"""

from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass, field

Order = tuple[int, ...]
"""Order of a change: the order of the position where its slice takes effect, its offset, its row."""
_BEFORE_ALL: Order = ()
_AFTER_ALL: Order = (1 << 62,)


@dataclass(frozen=True, slots=True)
class KeyEvent:
    """A change by which a row gets a key (``new``) or leaves one (``old``); None where there is no row."""

    order: Order
    old: str | None
    new: str | None

    @property
    def is_move(self) -> bool:
        """True if a row has another key afterwards."""
        return self.old is not None and self.new is not None


def keys_met(seeds: Collection[str], events: Iterable[KeyEvent]) -> set[str]:
    """The chosen keys, and those that rows had before or after them, whenever that was."""
    keys = set(seeds)
    moves = [event for event in events if event.is_move]
    size = 0
    while size < len(keys):
        size = len(keys)
        for move in moves:
            if move.old in keys or move.new in keys:
                keys |= {str(move.old), str(move.new)}
    return keys


@dataclass(slots=True)
class KeyLives:
    """The parts of the log in which keys are those of the chosen rows."""

    seeds: frozenset[str]
    _spans: dict[str, list[tuple[Order, Order]]] = field(default_factory=dict)

    @classmethod
    def of(cls, seeds: Collection[str], events: Sequence[KeyEvent], emptied: Sequence[Order] = ()) -> "KeyLives":
        """events: of all keys met, in order. emptied: where the table lost all of its rows."""
        lives = cls(frozenset(seeds))
        # Moves to and from the chosen keys, then further, each to where the row began or ended.
        waiting: list[tuple[str, Order, bool]] = []
        for move in (event for event in events if event.is_move):
            if move.old in lives.seeds:
                waiting.append((str(move.new), move.order, True))
            if move.new in lives.seeds:
                waiting.append((str(move.old), move.order, False))
        ends = _by_key(events, "old")
        begins = _by_key(events, "new")
        while waiting:
            key, order, is_forward = waiting.pop()
            if key in lives.seeds:
                continue
            if is_forward:
                event = next((event for event in ends.get(key, ()) if event.order > order), None)
                barrier = min((position for position in emptied if position > order), default=_AFTER_ALL)
            else:
                event = next((event for event in reversed(begins.get(key, ())) if event.order < order), None)
                barrier = max((position for position in emptied if position < order), default=_BEFORE_ALL)
            limit = barrier if event is None else (min if is_forward else max)(event.order, barrier)
            span = (order, limit) if is_forward else (limit, order)
            if span in lives._spans.setdefault(key, []):
                continue
            lives._spans[key].append(span)
            if event is not None and event.is_move and event.order == limit:
                waiting.append((str(event.new if is_forward else event.old), limit, is_forward))
        return lives

    def holds(self, order: Order, old: str | None, new: str | None) -> bool:
        """True if a change is of a chosen row."""
        return any(self._is_chosen_then(key, order) for key in (old, new) if key is not None)

    def _is_chosen_then(self, key: str, order: Order) -> bool:
        return key in self.seeds or any(first <= order <= last for first, last in self._spans.get(key, ()))


def _by_key(events: Iterable[KeyEvent], side: str) -> dict[str, list[KeyEvent]]:
    """The events by the key that rows leave or get, in order."""
    by_key: dict[str, list[KeyEvent]] = {}
    for event in events:
        key = getattr(event, side)
        if key is not None:
            by_key.setdefault(key, []).append(event)
    return by_key
