import shutil
from collections.abc import Sequence
from decimal import Context, Decimal
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from pyroaring import BitMap64

from spark_jobs.delta import data_files, deletion_vectors, schema_changes
from spark_jobs.delta.commits import commit
from spark_jobs.delta.snapshot import Snapshot, snapshot_of
from spark_jobs.errors import LakeError, LostRace
from spark_jobs.iceberg import bounds, metadata_files
from spark_jobs.iceberg.table_view import FIRST_ID, NotShown, show
from spark_jobs.storage import files
from tests.lakes.iceberg_readers import by_delta, by_duckdb, by_pyiceberg
from tests.spark_jobs.delta import tables
from tests.spark_jobs.delta.tables import MAPPED, append, newest, rows

TYPES = {name: kind for name, kind in tables.TYPES.items() if name != "tables"}
"""Without a list of structs: pyiceberg 0.12.0 reads one that is null as an empty one. No source has such a column."""
WIDENING = MAPPED | {"delta.enableTypeWidening": "true"}


def begin(path: str, properties: dict[str, str] | None = None, types: dict[str, str] | None = None) -> Snapshot:
    return tables.begin(path, properties, TYPES if types is None else types)


def deleted(snapshot: Snapshot, at: int, numbers: Sequence[int]) -> Snapshot:
    """The snapshot after one commit that deletes rows of a file."""
    file = snapshot.files[at]
    now = set(deletion_vectors.row_numbers(snapshot.path, file.deletion_vector).tolist())
    [vector] = deletion_vectors.write(snapshot.path, [BitMap64(sorted(now | {*numbers}))])
    return newest(snapshot.path, commit(snapshot, dv_updates=[(file, vector)]))


def altered(snapshot: Snapshot, *statements: str) -> Snapshot:
    changed = schema_changes.apply(snapshot, statements)
    return newest(snapshot.path, commit(snapshot, metadata=changed.metadata, protocol=changed.protocol))


def document(path: str) -> dict[str, Any]:
    present = metadata_files.newest(path)
    assert present is not None
    return present.document


def require_same(path: str, version: int | None = None) -> None:
    expected = by_delta(path, version)
    assert by_pyiceberg(path, version) == expected
    assert by_duckdb(path, version) == expected


# Values


def test_all_types_are_read_as_delta_reads_them(tmp_path: Path) -> None:
    path = str(tmp_path / "t")
    snapshot = append(append(begin(path), range(60)), range(60, 100))
    assert show(path).version == 1
    require_same(path)
    deleted(snapshot, 0, [1, 5, 59])
    show(path)
    require_same(path)
    assert len(by_delta(path)) == 97


@pytest.mark.thorough
def test_bounds_leave_out_no_row(tmp_path: Path) -> None:
    path = str(tmp_path / "t")
    snapshot = begin(path)
    for start in range(0, 40, 4):  # small files, whose bounds are of few values
        snapshot = append(snapshot, range(start, start + 4))
    show(path)
    all_rows = by_delta(path)
    for name, kind in TYPES.items():
        if kind in ("BINARY", "BOOLEAN") or kind.partition("<")[0] in ("MAP", "ARRAY", "STRUCT"):
            continue
        for value in {repr(row[name]): row[name] for row in all_rows if row[name] is not None}.values():
            plain = value[1] if isinstance(value, tuple) else value
            if kind in ("FLOAT", "DOUBLE") and abs(plain) == float("inf"):
                continue
            text = f"TIMESTAMPTZ '{plain}'" if kind == "TIMESTAMP" else f"'{str(plain).replace(chr(39), chr(39) * 2)}'"
            number = kind.startswith(("DECIMAL", "BIGINT", "TINYINT", "SMALLINT", "INT", "FLOAT", "DOUBLE"))
            condition = f'"{name}" = {f"CAST({text} AS {kind})" if number else text}'
            expected = [row["key"] for row in all_rows if row[name] is not None and _equal(row[name], value)]
            assert [row["key"] for row in by_duckdb(path, condition=condition)] == expected, condition


def _equal(first: Any, second: Any) -> bool:
    return bool(first[1] == second[1]) if isinstance(first, tuple) else bool(first == second)


@pytest.mark.parametrize("condition", ["key >= 35", "i32 < 0", "text >= 'a'", "d = 0.0", "f = 0.0", "m > 0"])
def test_pyiceberg_prunes_files_by_bounds_and_finds_the_same_rows(tmp_path: Path, condition: str) -> None:
    path = str(tmp_path / "t")
    snapshot = begin(path)
    for start in range(0, 40, 8):
        snapshot = append(snapshot, range(start, start + 8))
    show(path)
    expected = {row["key"] for row in by_duckdb(path, condition=condition)}
    assert {row["key"] for row in by_pyiceberg(path, condition=condition)} == expected


def test_names_of_columns_and_folders_are_any_text(tmp_path: Path) -> None:
    path = str(tmp_path / "a b" / "ü=1")
    types = {"key": "BIGINT", "größe in €": "INT", "a.b": "STRING", "ключ": "INT"}
    snapshot = begin(path, types=types)
    values = {"key": [1, 2, 3], "größe in €": [7, None, 9], "a.b": ["x", None, ""], "ключ": [None, 0, -1]}
    cells = pa.Table.from_pydict(values, schema=snapshot.schema.arrow(physical=False))
    commit(snapshot, adds=[data_files.write(path, cells, snapshot.schema, snapshot.configuration)])
    show(path)
    assert by_pyiceberg(path) == by_delta(path)
    assert by_duckdb(path) == by_delta(path)


# Versions


def test_each_version_is_a_snapshot(tmp_path: Path) -> None:
    path = str(tmp_path / "t")
    snapshot = append(begin(path), range(10))
    show(path)
    snapshot = deleted(append(snapshot, range(10, 20)), 0, [0])
    snapshot = deleted(snapshot, 0, [4])
    # one file goes, another is written in its place
    file = data_files.write(path, rows(snapshot.schema, range(30, 33)), snapshot.schema, snapshot.configuration)
    snapshot = newest(path, commit(snapshot, adds=[file], removes=[snapshot.files[0]]))
    snapshot = newest(path, commit(snapshot, removes=list(snapshot.files)))
    snapshot = append(snapshot, range(50, 52))
    assert show(path).snapshots == 6
    snapshots = document(path)["snapshots"]
    assert [item["snapshot-id"] - FIRST_ID for item in snapshots] == list(range(7))
    assert [item["summary"]["delta-version"] for item in snapshots] == list("0123456")
    assert [item["summary"]["operation"] for item in snapshots] == [
        "append",
        "append",
        "delete",
        "delete",
        "overwrite",
        "delete",
        "append",
    ]
    assert [item["sequence-number"] for item in snapshots] == list(range(1, 8))
    for version in range(7):
        require_same(path, version)


def test_columns_that_change_are_read_under_their_names_of_each_version(tmp_path: Path) -> None:
    path = str(tmp_path / "t")
    snapshot = append(begin(path, WIDENING), range(10))
    snapshot = altered(snapshot, "RENAME COLUMN text TO words", "DROP COLUMN b", "ADD COLUMN (extra INT)")
    snapshot = altered(
        snapshot, "ALTER COLUMN i8 TYPE SMALLINT", "ALTER COLUMN i32 TYPE BIGINT", "ALTER COLUMN f TYPE DOUBLE"
    )
    snapshot = altered(
        snapshot, "ALTER COLUMN m TYPE DECIMAL(20,2)", "DROP COLUMN extra", "ADD COLUMN (b STRING AFTER key)"
    )
    show(path)
    assert document(path)["current-schema-id"] == 0
    require_same(path)
    deleted(snapshot, 0, [2])
    altered(newest(path, 4), "RENAME COLUMN words TO text")
    assert show(path).snapshots == 2
    require_same(path)
    assert len(document(path)["schemas"]) == 2


def test_rows_have_ids_that_no_other_row_had(tmp_path: Path) -> None:
    path = str(tmp_path / "t")
    snapshot = append(begin(path), range(10))
    show(path)
    snapshot = append(snapshot, range(10, 15))
    file = data_files.write(path, rows(snapshot.schema, range(3)), snapshot.schema, snapshot.configuration)
    snapshot = newest(path, commit(snapshot, adds=[file], removes=[snapshot.files[0]]))
    show(path)
    metadata = document(path)
    assert [(item["first-row-id"], item["added-rows"]) for item in metadata["snapshots"]] == [(0, 10), (10, 5), (15, 3)]
    assert metadata["next-row-id"] == 18


# What is behind, or damaged


def test_nothing_is_written_of_a_table_that_is_up_to_date(tmp_path: Path) -> None:
    path = str(tmp_path / "t")
    append(begin(path), range(3))
    show(path)
    before = sorted(file.name for file in (tmp_path / "t/metadata").iterdir())
    assert show(path).snapshots == 0
    assert sorted(file.name for file in (tmp_path / "t/metadata").iterdir()) == before


@pytest.mark.parametrize("hint", [None, "", "1", "9"])
def test_a_hint_that_is_wrong_or_missing_is_made_good(tmp_path: Path, hint: str | None) -> None:
    path, file = str(tmp_path / "t"), tmp_path / "t/metadata/version-hint.text"
    snapshot = append(begin(path), range(3))
    show(path)
    append(snapshot, range(3, 5))
    show(path)
    file.unlink()
    if hint is not None:
        file.write_text(hint)
    show(path)
    assert file.read_text() == ("9" if hint == "9" else "2")
    if hint != "9":
        require_same(path)


def test_a_writer_that_another_was_before_begins_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = str(tmp_path / "t")
    snapshot = append(begin(path), range(3))
    show(path)
    append(snapshot, range(3, 5))
    create, names = files.create, []

    def late(target: Path, content: bytes, **options: Any) -> bool:
        names.append(target.name)
        if len(names) == 1:
            show(path)  # another process, in between
        return create(target, content, **options)

    monkeypatch.setattr(files, "create", late)
    assert show(path).snapshots == 0
    assert names == ["v2.metadata.json", "v2.metadata.json"]
    require_same(path)


def test_a_writer_that_always_loses_says_so(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = str(tmp_path / "t")
    append(begin(path), range(3))
    monkeypatch.setattr(files, "create", lambda *_, **__: False)
    with pytest.raises(LostRace, match="keep coming first"):
        show(path)


def test_a_log_that_does_not_lead_on_is_shown_anew(tmp_path: Path) -> None:
    path = str(tmp_path / "t")
    snapshot = append(begin(path), range(3))
    show(path)
    uuid = document(path)["table-uuid"]
    for at in range(11):
        snapshot = append(snapshot, range(10 * at + 10, 10 * at + 12))
    for version in range(10):
        (tmp_path / f"t/_delta_log/{version:020}.json").unlink()
    show(path)
    metadata = document(path)
    assert ([item["snapshot-id"] - FIRST_ID for item in metadata["snapshots"]], metadata["table-uuid"]) == ([11], uuid)
    assert metadata["snapshots"][0]["sequence-number"] == 2
    require_same(path)


def test_a_table_that_was_restored_is_shown_anew(tmp_path: Path) -> None:
    path, copy = str(tmp_path / "t"), tmp_path / "copy"
    append(begin(path), range(3))
    shutil.copytree(path, copy)
    snapshot = snapshot_of(path)
    assert snapshot is not None
    append(snapshot, range(3, 5))
    show(path)
    shutil.rmtree(tmp_path / "t/_delta_log")
    shutil.copytree(copy / "_delta_log", tmp_path / "t/_delta_log")
    append(newest(path, 0), range(20, 24))
    show(path)
    assert [row["key"] for row in by_delta(path)] == [0, 1, 2, 20, 21, 22, 23]
    require_same(path)
    assert len(document(path)["snapshots"]) == 1


def test_a_table_that_was_moved_is_shown_anew(tmp_path: Path) -> None:
    path, moved = str(tmp_path / "t"), str(tmp_path / "moved")
    append(begin(path), range(3))
    show(path)
    shutil.move(path, moved)
    assert show(moved).snapshots == 1
    require_same(moved)


def test_a_table_whose_bounds_were_rounded_is_shown_anew(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path, value = str(tmp_path / "t"), Decimal("1234567890123456789012345678901234.5678")
    snapshot = begin(path, types={"key": "BIGINT", "long": "DECIMAL(38,4)"})
    cells = pa.Table.from_pydict({"key": [1], "long": [value]}, schema=snapshot.schema.arrow(physical=False))
    commit(snapshot, adds=[data_files.write(path, cells, snapshot.schema, snapshot.configuration)])
    # As earlier versions of the program wrote it: decimals had the digits of Python's default context.
    monkeypatch.setattr(bounds, "_EXACT", Context(prec=28))
    show(path)
    monkeypatch.undo()
    present = metadata_files.newest(path)
    assert present is not None
    earlier = present.document["properties"].pop("stratalog.exact-bounds")
    assert earlier == "true"
    assert metadata_files.create(path, present.number + 1, present.document)
    condition = f"long = {value}"
    assert by_pyiceberg(path, condition=condition) == []
    assert show(path).snapshots == 1
    assert [row["key"] for row in by_pyiceberg(path, condition=condition)] == [1]
    assert show(path).snapshots == 0, "once"


def test_manifests_that_are_gone_or_damaged_are_written_anew(tmp_path: Path) -> None:
    path = str(tmp_path / "t")
    snapshot = deleted(append(begin(path), range(5)), 0, [1])
    for damage in (
        Path.unlink,
        lambda file: file.write_bytes(b"Obj\x01"),
        lambda file: file.write_bytes(file.read_bytes()[:-20]),
    ):
        show(path)
        for file in (tmp_path / "t/metadata").glob("data-*.avro"):
            damage(file)
        snapshot = append(snapshot, [100 + snapshot.version])
        show(path)
        require_same(path)


def test_metadata_that_is_damaged_says_what_to_do(tmp_path: Path) -> None:
    path = str(tmp_path / "t")
    append(begin(path), range(5))
    show(path)
    (tmp_path / "t/metadata/v1.metadata.json").write_text("{")
    with pytest.raises(LakeError, match="remove the folder metadata"):
        show(path)


# What cannot be shown


def test_a_table_without_ids_in_its_files_is_refused(tmp_path: Path) -> None:
    path = str(tmp_path / "t")
    append(begin(path, {}), range(5))
    with pytest.raises(NotShown, match="no column mapping"):
        show(path)
    assert not (tmp_path / "t/metadata").exists()


def test_a_widening_that_iceberg_has_not_keeps_the_versions_before_it(tmp_path: Path) -> None:
    path = str(tmp_path / "t")
    snapshot = append(begin(path, WIDENING), range(5))
    show(path)
    snapshot = altered(snapshot, "ALTER COLUMN day TYPE TIMESTAMP_NTZ")
    with pytest.raises(NotShown, match="column day was widened from date to timestamp_ntz"):
        show(path)
    require_same(path, 0)
    assert by_pyiceberg(path) == by_delta(path, 0)
    # rebuilt: other columns, all files new
    rebuilt = schema_changes.redesigned(snapshot, TYPES)
    file = data_files.write(path, rows(rebuilt.schema, range(7)), rebuilt.schema, rebuilt.configuration)
    commit(snapshot, adds=[file], removes=list(snapshot.files), metadata=rebuilt.metadata)
    show(path)
    require_same(path)
    assert len(document(path)["snapshots"]) == 1
