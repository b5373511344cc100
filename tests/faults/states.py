"""What the lake has to have of tables by a model that lists their rows after each change, and the comparison.

Put here: comparing silver and downstream with such a model. Not here: models (renames.py, foreign_keys.py), or the twin
of whole windows (checking.py).
"""

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

from spark_jobs.config.model import Pipeline
from spark_jobs.delta.snapshot import Snapshot, commit_info_of, snapshot_of
from spark_jobs.downstream.commit import DownstreamCommit
from spark_jobs.lake.layout import lake_of
from spark_jobs.silver.commit import SilverCommit
from tests.faults.changes import SCHEMA, SOURCE, Row
from tests.faults.checking import Known, Wrong, require_counted, require_same, row_cells, rows_of_snapshot
from tests.services.iceberg_rest import RestCatalog


@dataclass(frozen=True, slots=True)
class State:
    """What the lake has of a name from an offset on, as the model has it."""

    end: int
    rows: tuple[Row, ...]


class StateChecks:
    """Compares silver and downstream of each name with the model, at the positions that their commits say."""

    def __init__(self, states: Mapping[str, Sequence[State]]) -> None:
        """states: by name what its table has from where on, in the log's order."""
        self.states = states
        self._known = Known()

    def begin(self, _: RestCatalog) -> None:
        """Another lake is compared from here on."""
        self._known = Known()

    def check(self, pipeline: Pipeline, until: int | None = None) -> None:
        """Raises Wrong. until: the offset up to which nothing may be missing; without it tables may be behind."""
        lake = lake_of(pipeline)
        for name in self.states:
            silver, target = lake.silver(SOURCE, SCHEMA, name).path, lake.downstream(SCHEMA, name).path
            silver_at = self._known.of((name, "silver"), silver, None, partial(self._silver, name, silver))
            merged_at = self._known.of((name, "downstream"), target, None, partial(self._downstream, name, target))
            ends = [state.end for state in self.states[name] if until is not None and state.end <= until]
            has_rows = any(state.rows for state in self.states[name] if state.end in ends)
            if ends and has_rows and min(silver_at, merged_at) < ends[-1]:
                raise Wrong(f"{name}: lost: silver is at {silver_at}, downstream at {merged_at}, changes to {ends[-1]}")

    def require_rows(self, pipeline: Pipeline, until: int = 0) -> None:
        """As ``Checks.require_rows``."""
        lake = lake_of(pipeline)
        for name in self.states:
            offset = self._downstream(name, lake.downstream(SCHEMA, name).path)
            last = max((state.end for state in self.states[name] if state.end <= until), default=0)
            if offset < last:
                raise Wrong(f"downstream of {name}: is at {offset}, and has changes to {last}")

    def require_silver(self, pipeline: Pipeline) -> None:
        """Raises Wrong where silver has other rows than the model at its position."""
        for name in self.states:
            self._silver(name, lake_of(pipeline).silver(SOURCE, SCHEMA, name).path)

    def _silver(self, name: str, path: str) -> int:
        snapshot = snapshot_of(path)
        if snapshot is None:
            return 0
        commits = _commits(path, snapshot)
        require_counted(f"silver of {name}", snapshot, [commit.batch for commit in commits])
        offset = commits[-1].position.offset
        rows = present_rows(rows_of_snapshot(snapshot), commits[-1])
        require_same(f"silver of {name}", Counter(map(row_cells, rows)), self._expected(name, offset))
        return offset

    def _downstream(self, name: str, path: str) -> int:
        snapshot = snapshot_of(path)
        if snapshot is None:
            return 0
        commit = DownstreamCommit.from_json(snapshot.user_metadata)
        offset = commit.position.offset if commit else 0
        actual = Counter(map(row_cells, rows_of_snapshot(snapshot)))
        require_same(f"downstream of {name}", actual, self._expected(name, offset))
        return offset

    def _expected(self, name: str, offset: int) -> Counter[Any]:
        return Counter(map(row_cells, self.rows_at(name, offset)))

    def rows_at(self, name: str, offset: int) -> tuple[Row, ...]:
        """What the lake has of a name where the log is taken up to an offset."""
        return next((state.rows for state in reversed(self.states[name]) if state.end <= offset), ())


def _commits(path: str, snapshot: Snapshot) -> list[SilverCommit]:
    infos = (commit_info_of(path, version) for version in range(snapshot.version + 1))
    commits = (SilverCommit.from_json(info.get("userMetadata") if info else None) for info in infos)
    return [commit for commit in commits if commit]


def present_rows(rows: Sequence[Row], commit: SilverCommit) -> list[Row]:
    """The rows that a silver table says are there in the end, one after the other."""
    emptied = commit.emptied_at.order if commit.emptied_at else ()
    living = [row for row in rows if row["_op"] != "truncate" and tuple(row["_position"].values())[:3] >= emptied]
    ordered = sorted(living, key=lambda row: tuple(row["_position"].values()))
    if not commit.key:
        copies = Counter[Any]()
        for row in ordered:
            copies[row_cells(row)] += row["_copies"]
        if min(copies.values(), default=0) < 0:
            raise Wrong("more copies went than came")
        return [dict(cells) for cells in copies.elements()]
    present: dict[tuple[Any, ...], Row] = {}
    for row in ordered:
        key = tuple(row[name] for name in commit.key)
        if row["_op"] == "delete":
            present.pop(key, None)
            continue
        before = present.get(key, {})
        present[key] = row | {name: before[name] for name in row.get("_absent") or ()}
    return [*present.values()]
