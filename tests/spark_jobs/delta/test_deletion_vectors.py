import random
import re
import struct
import zlib
from pathlib import Path

import pytest
from pyroaring import BitMap, BitMap64

from spark_jobs.delta.deletion_vectors import (
    Descriptor,
    framed,
    living_rows_mask,
    read,
    row_numbers,
    stored_vectors,
    to_bytes,
    write,
    z85_decode,
    z85_encode,
)
from spark_jobs.delta.log_files import UnsupportedTable
from spark_jobs.errors import LakeError

INLINE = "^Bg9^0rr910000000000iXQKl0rr91000f55c8Xg0@@D72lkbi5=-{L"
ROWS: dict[str, list[int]] = {
    "none": [],
    "one": [0],
    "some": [3, 4, 7, 11, 18, 29],
    "a run": list(range(5, 70_000)),
    "a bitmap": list(range(0, 65_536, 2)),
    "several containers": [1, 65_535, 65_536, 1 << 20, (1 << 31) - 1, (1 << 32) - 1],
    "random": sorted(random.Random(5).sample(range(1 << 24), 20_000)),
}


@pytest.mark.parametrize("kind", ["32", "64"])
@pytest.mark.parametrize("name", list(ROWS))
def test_vectors_come_back(tmp_path: Path, name: str, kind: str) -> None:
    vector = (BitMap if kind == "32" else BitMap64)(ROWS[name])
    (descriptor,) = write(str(tmp_path), [vector])
    assert descriptor.cardinality == len(ROWS[name])
    assert list(read(str(tmp_path), descriptor)) == ROWS[name]
    assert to_bytes(BitMap(ROWS[name])) == to_bytes(BitMap64(ROWS[name]))


def test_compressed_runs_come_back(tmp_path: Path) -> None:
    vector = BitMap(range(100_000))
    vector.run_optimize()
    (descriptor,) = write(str(tmp_path), [vector])
    assert descriptor.size < 100
    assert read(str(tmp_path), descriptor) == BitMap64(range(100_000))


def test_rows_above_32_bits(tmp_path: Path) -> None:
    vector = BitMap64([1, 1 << 33, (1 << 40) + 5])
    assert read(str(tmp_path), write(str(tmp_path), [vector])[0]) == vector


@pytest.mark.parametrize("row", [100, 1 << 33, 1 << 63, (1 << 64) - 1])
def test_a_vector_that_deletes_rows_that_a_file_does_not_have_is_refused(tmp_path: Path, row: int) -> None:
    (descriptor,) = write(str(tmp_path), [BitMap64([5, 99])])
    assert list(living_rows_mask(str(tmp_path), descriptor, 100).nonzero()[0]) == [row for row in range(99) if row != 5]
    (descriptor,) = write(str(tmp_path), [BitMap64([5, row])])
    with pytest.raises(LakeError, match=rf"deletes row {row} of a file that has 100 rows; restore the table's"):
        living_rows_mask(str(tmp_path), descriptor, 100)
    if row >> 63:
        with pytest.raises(LakeError, match=rf"deletes row {row}, which no file has"):
            row_numbers(str(tmp_path), descriptor)


def test_a_vector_that_ends_behind_its_magic_number_is_refused(tmp_path: Path) -> None:
    descriptor = Descriptor("i", z85_encode(struct.pack("<i", 1681511377)), None, 4, 0)
    with pytest.raises(LakeError, match="cannot be read: its bytes end too early"):
        read(str(tmp_path), descriptor)


def test_one_file_has_many_vectors(tmp_path: Path) -> None:
    vectors = [BitMap(rows) for rows in ROWS.values()]
    descriptors = write(str(tmp_path), vectors)
    (file,) = tmp_path.iterdir()
    assert re.fullmatch(r"deletion_vector_[0-9a-f-]{36}\.bin", file.name)
    assert {descriptor.location(str(tmp_path)) for descriptor in descriptors} == {file}
    for descriptor, rows in zip(descriptors, ROWS.values(), strict=True):
        assert list(read(str(tmp_path), descriptor)) == rows
        assert Descriptor.from_json(descriptor.to_json()) == descriptor
    content, at = file.read_bytes(), 1
    assert content[0] == 1
    for descriptor in descriptors:
        assert (descriptor.offset, descriptor.storage_type) == (at, "u")
        (size,) = struct.unpack_from(">i", content, at)
        data = content[at + 4 : at + 4 + size]
        assert (size, data[:4]) == (descriptor.size, struct.pack("<i", 1681511377))
        assert struct.unpack_from(">I", content, at + 4 + size)[0] == zlib.crc32(data)
        at += 8 + size
    assert at == len(content)


def test_no_vectors_are_no_file(tmp_path: Path) -> None:
    assert write(str(tmp_path), []) == []
    assert not list(tmp_path.iterdir())


def test_a_table_may_ask_for_prefixes(tmp_path: Path) -> None:
    (descriptor,) = write(str(tmp_path), [BitMap([1])], {"delta.randomizeFilePrefixes": "true"})
    prefix = descriptor.path_or_inline[:-20]
    assert re.fullmatch("[A-Za-z0-9]{2}", prefix)
    assert descriptor.location(str(tmp_path)).parent == tmp_path / prefix
    assert list(read(str(tmp_path), descriptor)) == [1]


def test_a_vector_in_the_log_itself() -> None:
    """An example that other readers of Delta are tested with."""
    descriptor = Descriptor("i", INLINE, None, 44, 6)
    assert list(read("/t", descriptor)) == [3, 4, 7, 11, 18, 29]
    assert descriptor.unique_id == f"i{INLINE}"


def test_a_vector_by_its_path(tmp_path: Path) -> None:
    (descriptor,) = write(str(tmp_path / "t"), [BitMap([1, 2])])
    file = descriptor.location(str(tmp_path / "t"))
    for text in (str(file), f"file:{file}", f"file://{file}"):
        by_path = Descriptor("p", text, 1, descriptor.size, 2)
        assert list(read("/elsewhere", by_path)) == [1, 2]


def test_the_example_of_a_name() -> None:
    """The example in Delta's protocol."""
    descriptor = Descriptor("u", "ab^-aqEH.-t@S}K{vb[*k^", 4, 40, 6)
    assert descriptor.location("/t") == Path("/t/ab/deletion_vector_d2c639aa-8816-431a-aaf6-d3fe2512ff61.bin")


@pytest.mark.parametrize(
    "descriptor, error, match",
    [
        (Descriptor("u", "ab^-aqEH.-t@S}K{vb[*k^", 4, 40, 6), LakeError, "cannot be read"),
        (Descriptor("u", "short", 4, 40, 6), LakeError, "cannot be read"),
        (Descriptor("p", "s3://b/x.bin", 4, 40, 6), UnsupportedTable, "outside of its folder"),
        (Descriptor("x", "s3://b/x.bin", 4, 40, 6), LakeError, "not known, x"),
        (Descriptor("i", INLINE, None, 44, 5), LakeError, "has 6 rows"),
        (Descriptor("i", "0000000000", None, 8, 0), LakeError, "magic number is 0"),
        (Descriptor("i", "~", None, 8, 0), LakeError, "not z85"),
        (Descriptor("i", "#####", None, 4, 0), LakeError, "not z85"),
    ],
)
def test_vectors_that_cannot_be_read(descriptor: Descriptor, error: type[LakeError], match: str) -> None:
    with pytest.raises(error, match=match):
        read("/t", descriptor)


@pytest.mark.parametrize("at", [0, 3, 6, 20, -1])
def test_damaged_bytes(tmp_path: Path, at: int) -> None:
    (descriptor,) = write(str(tmp_path), [BitMap(range(0, 100, 3))])
    file = Path(str(descriptor.location(str(tmp_path))))
    content = bytearray(file.read_bytes())
    content[at] ^= 4
    file.write_bytes(content)
    with pytest.raises(LakeError, match=r"deletion vector u.*(damaged|version)"):
        read(str(tmp_path), descriptor)


@pytest.mark.parametrize("size", [0, 1, 10])
def test_a_file_that_is_cut(tmp_path: Path, size: int) -> None:
    (descriptor,) = write(str(tmp_path), [BitMap([1])])
    file = Path(str(descriptor.location(str(tmp_path))))
    file.write_bytes(file.read_bytes()[:size])
    with pytest.raises(LakeError, match="deletion vector u"):
        read(str(tmp_path), descriptor)


@pytest.mark.parametrize("data", [b"", b"\x00" * 4, b"\xff" * 8, bytes(range(16))])
def test_z85(data: bytes) -> None:
    assert z85_decode(z85_encode(data)) == data


def test_vectors_are_given_as_they_are_stored(tmp_path: Path) -> None:
    vectors = [BitMap64([1, 5]), BitMap64(range(70_000))]
    descriptors = write(str(tmp_path), vectors)
    assert stored_vectors(str(tmp_path), descriptors) == [framed(to_bytes(vector)) for vector in vectors]
    data = to_bytes(vectors[0])
    inline = Descriptor("i", z85_encode(data + bytes(-len(data) % 4)), None, len(data), 2)
    assert stored_vectors(str(tmp_path), [inline]) == [framed(data)]
    file = Path(str(descriptors[0].location(str(tmp_path))))
    file.write_bytes(file.read_bytes()[:-1] + b"\x00\x01")
    with pytest.raises(LakeError, match="are damaged"):
        stored_vectors(str(tmp_path), descriptors)
