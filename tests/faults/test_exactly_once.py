"""Faults at every file-system and commit call of engine runs: nothing is lost, nothing is doubled.

A failure names the seed of its scenario: ``STRATALOG_FAULT_SEED=N pytest tests/faults`` plays it alone.
"""

import multiprocessing
import os
from collections import Counter
from collections.abc import Callable
from concurrent.futures import ProcessPoolExecutor
from dataclasses import replace
from pathlib import Path
from types import ModuleType
from typing import Any

import pyarrow as pa
import pytest

from spark_jobs.cascades import walk
from spark_jobs.cascades.logged_rows import LoggedSlice, logged_slices
from spark_jobs.delta import commits
from spark_jobs.delta.kept import KeptLog
from spark_jobs.delta.log_files import create_commit
from spark_jobs.pipeline import iceberg_catalog
from spark_jobs.pipeline.iceberg_catalog import Registered
from spark_jobs.silver import column_masks, row_filters
from spark_jobs.silver.column_masks import ColumnMasks
from spark_jobs.storage import local
from tests.faults.campaign import RACE, play
from tests.faults.disk import KINDS
from tests.faults.runs import (
    APPEND_PARTIAL,
    CASCADES,
    CATALOG,
    FEED,
    HISTORY_PARTIAL,
    ICEBERG,
    KEYLESS,
    LANDINGS,
    LAYOUTS,
    LOADS,
    MERGED,
    PARTIAL,
    PUBLISHED,
    RENAMES,
    REPLAYS,
    RULED,
    RULES,
    RULES_CHANGES,
    RULES_CHANGES_PARTIAL,
    RULES_PARTIAL,
    SHARED,
    SOFT_DELETE,
    SOFT_KEYLESS,
    SOFT_PARTIAL,
)
from tests.faults.tracing import Trace, first_rejection

pytestmark = [
    pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning"),  # what a killed run had open
    pytest.mark.filterwarnings("ignore::ResourceWarning"),
]

_SHOWED = (range(1011, 1012), range(1231, 1232))
"""Seeds that showed errors: parts of new rows of which no key has a value; a directory that was not synced."""
_SEED = os.environ.get("STRATALOG_FAULT_SEED")
_AT_ONCE = 2_000
"""Traces that TLC follows in one run: its module is some 5 MB then."""


@pytest.fixture(scope="module")
def traces(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder for what the scenarios of this module's tests did; the last of them has the model follow all of it."""
    return tmp_path_factory.mktemp("traces")


def require_nothing_wrong(title: str, results: list[tuple[Counter[str], Counter[str], list[str]]]) -> list[str]:
    """Lines of a table of the faults by kind and by call. Raises AssertionError with the seeds that failed."""
    kinds, calls, wrong = Counter[str](), Counter[str](), list[str]()
    for by_kind, by_call, texts in results:
        kinds += by_kind
        calls += by_call
        wrong += texts
    assert not wrong, f"{len(wrong)} scenarios failed of {kinds.total()} faults:\n" + "\n".join(wrong[:5])
    listed = ", ".join(f"{name} {count}" for name, count in kinds.most_common())
    return [
        f"{title}: {kinds.total()} faults, 0 lost, 0 doubled: {listed}",
        f"{title}: at {', '.join(f'{name} {count}' for name, count in calls.most_common())}",
    ]


@pytest.mark.slow
@pytest.mark.parametrize(
    "last", [pytest.param(106, marks=pytest.mark.thorough), pytest.param(118, marks=pytest.mark.long)]
)
def test_some_hundred_faults_lose_and_double_nothing(
    last: int, tmp_path: Path, traces: Path, summary: list[str]
) -> None:
    seed_ranges = [range(int(_SEED), int(_SEED) + 1)] if _SEED else [range(100, last), *_SHOWED]
    results = [play(seeds, tmp_path / f"{seeds[0]}", traces=traces) for seeds in seed_ranges]
    summary += require_nothing_wrong("engine, faults", results)


@pytest.mark.slow
@pytest.mark.parametrize(
    "layout",
    [
        *("modes", KEYLESS, MERGED, SHARED, PARTIAL, RENAMES, REPLAYS, LOADS, LANDINGS),
        *(SOFT_DELETE, SOFT_PARTIAL, SOFT_KEYLESS, APPEND_PARTIAL, HISTORY_PARTIAL),
        *(FEED, ICEBERG, CATALOG, PUBLISHED, CASCADES, *RULED),
    ],
)
@pytest.mark.parametrize(
    "count", [pytest.param(1, marks=pytest.mark.thorough), pytest.param(24, marks=pytest.mark.long)]
)
def test_some_hundred_faults_lose_and_double_nothing_of_other_tables(
    layout: str, tmp_path: Path, traces: Path, summary: list[str], count: int
) -> None:
    seeds = range(int(_SEED), int(_SEED) + 1) if _SEED else range(200, 200 + count)
    result = play(seeds, tmp_path, layout=layout, traces=traces)
    summary += require_nothing_wrong(f"engine, {layout}, faults", [result])


@pytest.mark.thorough
@pytest.mark.parametrize(
    "layout, seed",
    [
        pytest.param("mirrors", 5257, id="a version that another follows while its log is read"),
        pytest.param(HISTORY_PARTIAL, 5292, id="a load in the middle of a window"),
        pytest.param(REPLAYS, 5010, id="bronze that is not read"),
        pytest.param(REPLAYS, 5014, id="bronze from before another run"),
        pytest.param(RULES_CHANGES_PARTIAL, 5050, id="a row moves to a key whose row a filter kept"),
        pytest.param(RULES_CHANGES_PARTIAL, 7808, id="windows before a row that no image has whole are merged again"),
    ],
)
def test_scenarios_that_once_went_wrong(layout: str, seed: int, tmp_path: Path) -> None:
    require_nothing_wrong(f"engine, {layout}", [play(range(seed, seed + 1), tmp_path, layout=layout)])


@pytest.mark.long
def test_thousands_of_faults_lose_and_double_nothing(tmp_path: Path, traces: Path, summary: list[str]) -> None:
    count, share = 720, 20
    starts = range(1000, 1000 + count, share)
    context = multiprocessing.get_context("spawn")
    with ProcessPoolExecutor(os.cpu_count(), mp_context=context) as pool:
        running = []
        for start in starts:
            folder = tmp_path / str(start)
            folder.mkdir()
            running.append(pool.submit(play, range(start, min(start + share, 1000 + count)), folder, traces=traces))
        results = [campaign.result() for campaign in running]
    lines = require_nothing_wrong("engine, faults", results)
    summary += lines
    assert sum(by_kind.total() for by_kind, _, _ in results) >= 14 * count


def _not_exclusive(path: str, version: int, content: bytes) -> bool:
    """A commit in the place of whatever has its version."""
    folder = Path(path, "_delta_log")
    local.make_directory(folder)
    target = folder / f"{version:020}.json"
    target.unlink(missing_ok=True)
    return create_commit(path, version, content)


def _at_the_next_version(path: str, version: int, content: bytes) -> bool:
    """A commit behind that of another writer, as if it had been planned upon it."""
    while not create_commit(path, version, content):
        version += 1
    return True


def _as_kept(log: KeptLog) -> None:
    """A log that is never read again, whatever others commit."""
    if log.version < 0:
        log.read()


_NOT_EXCLUSIVE, _NEXT_VERSION, _NOT_DURABLE = "not exclusive", "at the next version", "names not durable"
_BROKEN: dict[str, tuple[ModuleType, str, object, tuple[str, ...]]] = {
    _NOT_EXCLUSIVE: (commits, "create_commit", _not_exclusive, (*KINDS, RACE)),
    _NEXT_VERSION: (commits, "create_commit", _at_the_next_version, (*KINDS, RACE)),
    _NOT_DURABLE: (local, "sync_directory", lambda _: None, ("power cut",)),
}
"""What is broken: a module's function, what replaces it, and the kinds of faults that show it."""
_IN_CI = {
    _NOT_EXCLUSIVE: ("mirrors", PARTIAL, "modes", LOADS, LANDINGS, SOFT_PARTIAL, FEED, MERGED, RULES),
    _NEXT_VERSION: ("mirrors", RENAMES, APPEND_PARTIAL, HISTORY_PARTIAL, ICEBERG, KEYLESS, SHARED, RULES_PARTIAL),
    _NOT_DURABLE: ("mirrors", REPLAYS, SOFT_DELETE, SOFT_KEYLESS, CASCADES, RULES_CHANGES, RULES_CHANGES_PARTIAL),
}
"""Mirrors with all of them, each other layout with one; all others at night."""
_SHOWN_FIRST = {(_NOT_DURABLE, CASCADES): 113}
"""Seeds with which scenarios begin where earlier ones show nothing; later ones come all the same."""


@pytest.mark.parametrize(
    "defect, layout",
    [
        pytest.param(defect, layout, marks=pytest.mark.thorough if layout in layouts else pytest.mark.long)
        for defect, layouts in _IN_CI.items()
        for layout in LAYOUTS
    ],
)
def test_what_breaks_a_commit_is_seen(
    defect: str, layout: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    module, name, broken, kinds = _BROKEN[defect]
    monkeypatch.setattr(module, name, broken)
    seeds = range(_SHOWN_FIRST.get((defect, layout), 104), 130)
    *_, wrong = play(seeds, tmp_path, kinds, layout, to_first_wrong=True)
    assert wrong


@pytest.mark.thorough
def test_a_kept_log_that_is_stale_is_seen(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Of a process that follows, between whose runs others commit."""
    monkeypatch.setattr(KeptLog, "look", _as_kept)
    *_, wrong = play(range(104, 130), tmp_path, ("another run in between",), to_first_wrong=True)
    assert wrong


@pytest.mark.thorough
@pytest.mark.parametrize(
    "owner, name, broken",
    [
        # A condition that is NULL counts as TRUE; masks, and computed columns, are of nothing.
        (row_filters, "true_rows", lambda cells, count: cells.over(count).fill_null(True).to_numpy(False)),
        (column_masks, "_masked", lambda cells, *_: cells),
        (ColumnMasks, "_computed", lambda _, column, __, count, *___: pa.nulls(count, column.arrow)),
    ],
    ids=["filters", "masks", "computed columns"],
)
def test_what_breaks_rules_is_seen(
    owner: Any, name: str, broken: object, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(owner, name, broken)
    *_, wrong = play(range(200, 202), tmp_path, layout=RULES, to_first_wrong=True)
    assert "silver of " in wrong[0]


def _by_table(part: LoggedSlice) -> LoggedSlice:
    """Changes table by table, and not in the order of their transactions."""
    return replace(part, rows=tuple(sorted(part.rows, key=lambda row: row.change.table)))


def _as_checked(part: LoggedSlice) -> LoggedSlice:
    """Changes as if all of their sessions checked foreign keys."""
    return replace(part, rows=tuple(row._replace(cascades=True) for row in part.rows))


@pytest.mark.thorough
@pytest.mark.parametrize("broken, first", [(_by_table, 200), (_as_checked, 220)], ids=["order", "flags"])
def test_what_breaks_derived_changes_is_seen(
    broken: Callable[[LoggedSlice], LoggedSlice], first: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(walk, "logged_slices", lambda *of: map(broken, logged_slices(*of)))
    *_, wrong = play(range(first, 300, 10), tmp_path, layout=CASCADES, to_first_wrong=True)
    assert wrong
    assert "silver of " in wrong[0]


@pytest.mark.long
def test_a_catalog_that_is_left_behind_is_seen(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A refusal that is taken for an answer: nothing is tried again."""
    attempt = iceberg_catalog._attempt

    def taken_for_done(action: Any, client: Any, path: str, entry: Registered, _problems: list[str]) -> Registered:
        return attempt(action, client, path, entry, []) or entry

    monkeypatch.setattr(iceberg_catalog, "_attempt", taken_for_done)
    *_, wrong = play(range(104, 130), tmp_path, layout=CATALOG, to_first_wrong=True)
    assert "the catalog names" in wrong[0]


@pytest.mark.thorough
@pytest.mark.slow
def test_the_model_allows_what_the_scenarios_did(tmp_path: Path, traces: Path, summary: list[str]) -> None:
    """After the tests above, whose scenarios it follows; alone it has some of its own."""
    if not list(traces.iterdir()):
        require_nothing_wrong("engine, faults", [play(range(100, 103), tmp_path, traces=traces)])
    recorded = [trace for file in sorted(traces.iterdir()) for trace in Trace.all_of(file.read_text().splitlines())]
    for begin in range(0, len(recorded), _AT_ONCE):
        refused = first_rejection(recorded[begin : begin + _AT_ONCE])
        assert refused is None, str(refused)
    events = Counter(event.kind for trace in recorded for event in trace.events)
    listed = ", ".join(f"{name} {count}" for name, count in events.most_common())
    summary.append(f"model: {len(recorded)} traces, 0 rejected: {listed}")
    assert len(recorded) >= 6
