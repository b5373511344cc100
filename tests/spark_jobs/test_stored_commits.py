"""What commits say, as lakes have it: read as it was written, and written as readers of earlier versions have it.

``recorded/commits.jsonl`` has commits that runs wrote before layers had dataclasses for them, one for each member and
kind of value that they have.
"""

import ast
import json
from dataclasses import fields, is_dataclass
from pathlib import Path
from typing import Any, get_args, get_origin, get_type_hints

import pytest
from hypothesis import given
from hypothesis import strategies as st

import spark_jobs
from spark_jobs.binlog import Column, TableDefinition, TableName
from spark_jobs.bronze.commit import BronzeCommit
from spark_jobs.bronze.log_index import Stretch
from spark_jobs.ddl.server_facts import ServerFacts
from spark_jobs.downstream.commit import ClockCommit, DownstreamCommit, PublishedCommit
from spark_jobs.lake.commit import Checkpoint, CommitKind
from spark_jobs.log.gtid import MysqlGtids
from spark_jobs.log.position import Position, Range
from spark_jobs.pipeline.initial_load.commit import LoadCommit
from spark_jobs.schema.commit import HistoryCommit
from spark_jobs.silver.commit import NOT_FOLDED, SilverCommit
from spark_jobs.silver.retired_columns import RetiredColumn
from spark_jobs.source.protocol import FilePart
from tests.source_trees import nodes_of

RECORDED = Path(__file__).parents[1] / "recorded" / "commits.jsonl"
LAYERS: dict[str, type[Checkpoint]] = {
    "bronze": BronzeCommit,
    "silver": SilverCommit,
    "downstream": DownstreamCommit,
    "clock": ClockCommit,
    "published": PublishedCommit,
    "schema": HistoryCommit,
    "loads": LoadCommit,
    "skips": Checkpoint,
}
OF_A_STATEMENT = {"turn", "left", "altered"}
"""Members of commits in the middle of a statement, which nothing writes any more (lake/own_commits.py)."""
STORED = [json.loads(line) for line in RECORDED.read_text(encoding="utf-8").splitlines()]


@pytest.mark.parametrize("entry", STORED, ids=lambda entry: f"{entry['layer']}-{entry['stored']['kind']}")
def test_stored_commits_are_read_and_written_as_they_are(entry: dict[str, Any]) -> None:
    layer, stored = LAYERS[entry["layer"]], entry["stored"]
    text = json.dumps({"stratalog": stored})
    commit = layer.from_json(text)
    assert commit is not None
    assert {*commit.unnamed_members} <= (OF_A_STATEMENT if commit.kind == CommitKind.ALTERING else set())
    assert commit.kind in {*CommitKind}
    assert json.loads(commit.to_json()) == json.loads(text)
    assert layer.of(Checkpoint.from_members(stored)) == commit


def test_every_kind_is_among_the_stored_commits() -> None:
    assert {entry["stored"]["kind"] for entry in STORED} == {*CommitKind}


POSITIONS = st.builds(
    Position, st.sampled_from(["b.000001", "ü-bin.1000000"]), st.integers(4, 1 << 33), st.integers(1, 3)
)
BEGINNINGS = st.builds(Position, st.just("b.000001"), st.integers(4, 99))
NAMES = st.text(min_size=1, max_size=9)
COLUMNS = st.builds(Column, NAMES, st.just(3), labels=st.none() | st.tuples(NAMES))
DEFINITIONS = st.builds(
    TableDefinition,
    st.builds(TableName, NAMES, NAMES),
    st.tuples(COLUMNS),
    st.none() | st.just((0,)),
    st.none() | NAMES,
)
KNOWN_TYPES: dict[Any, st.SearchStrategy[Any]] = {
    Position: POSITIONS,
    Range: st.builds(Range, BEGINNINGS, st.just(Position("b.000002", 4))),
    TableDefinition: DEFINITIONS,
    RetiredColumn: st.builds(RetiredColumn, NAMES, NAMES, st.none() | NAMES, POSITIONS),
    Stretch: st.builds(
        Stretch, st.integers(1, 3), POSITIONS, st.none() | NAMES, st.none() | NAMES, st.none() | st.integers(0, 99),
        st.none() | st.just(MysqlGtids()), st.just(()) | st.tuples(st.builds(FilePart, NAMES, st.just(4), st.just(99))),
    ),
    ServerFacts: st.builds(ServerFacts, POSITIONS, st.just(()), st.just(()), st.booleans(), st.booleans()),
    CommitKind: st.sampled_from(CommitKind),
    str: st.text(max_size=9) | st.sampled_from(["${env:PW}", "`", "\\u0024{"]),
    int: st.integers(0, 1 << 63),
    bool: st.booleans(),
    type(None): st.none(),
}  # fmt: skip


def values(kind: Any) -> st.SearchStrategy[Any]:
    """Values of a field's type."""
    if kind in KNOWN_TYPES:
        return KNOWN_TYPES[kind]
    if is_dataclass(kind):
        return commits(kind)  # type: ignore[arg-type]
    arguments = get_args(kind)
    if get_origin(kind) is tuple:
        return st.lists(values(arguments[0]), max_size=3).map(tuple)
    if arguments == ("",):
        return st.just(NOT_FOLDED)
    if "Mapping" in str(get_origin(kind)):
        return st.dictionaries(NAMES, values(arguments[1]), max_size=3)
    return st.one_of(*map(values, arguments))


def commits(kind: type[Any]) -> st.SearchStrategy[Any]:
    hints = get_type_hints(kind)
    members = {field.name: values(hints[field.name]) for field in fields(kind) if field.name != "unnamed_members"}
    return st.builds(kind, **members)


@pytest.mark.parametrize("kind", [*LAYERS.values()], ids=lambda kind: kind.__name__)
def test_commits_are_read_back_as_they_were_written(kind: type[Checkpoint]) -> None:
    @given(commits(kind))
    def read_back(commit: Checkpoint) -> None:
        assert kind.from_json(commit.to_json()) == commit
        generic = Checkpoint.from_json(commit.to_json())
        assert generic is not None
        assert kind.of(generic) == commit

    read_back()


@pytest.mark.parametrize("layer", LAYERS.values(), ids=lambda layer: layer.__name__)
def test_members_that_nobody_names_and_kinds_of_later_versions_are_carried_on(layer: type[Checkpoint]) -> None:
    stored = next(entry["stored"] for entry in STORED if LAYERS[entry["layer"]] is layer)
    later = stored | {"later": {"x": [1]}, "kind": "a later version's"}
    assert layer.from_members(later).members() == later


def test_nobody_reads_members_that_no_class_names() -> None:
    root = Path(spark_jobs.__file__).parent
    paths = [
        path
        for folder in ("spark_jobs", "assets", "dagster_project", "stratalog")
        for path in (root.parent / folder).rglob("*.py")
    ]
    reading = [
        f"{path.relative_to(root.parent)}:{node.lineno}"
        for path in paths
        for node in nodes_of(path)
        if isinstance(node, ast.Attribute) and node.attr in {"members", "from_members", "unnamed_members"}
    ]
    assert {line.partition(":")[0] for line in reading} == {"spark_jobs/lake/commit.py"}, reading
