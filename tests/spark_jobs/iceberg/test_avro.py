import io
import json

import pytest
from pyiceberg.avro.file import AvroFile
from pyiceberg.io.pyarrow import PyArrowFileIO
from pyiceberg.typedef import Record

from spark_jobs.iceberg import avro
from spark_jobs.iceberg.avro import AvroReader

SCHEMA = json.dumps(
    {"type": "record", "name": "r", "fields": [{"name": "a", "type": "long", "field-id": 1}]}, separators=(",", ":")
)
NUMBERS = [0, -1, 1, 63, 64, -64, -65, 127, 128, 1 << 31, -(1 << 31), (1 << 63) - 1, -(1 << 63)]


@pytest.mark.parametrize("number", NUMBERS)
def test_a_long_is_read_back(number: int) -> None:
    assert AvroReader(avro.long(number)).long() == number


@pytest.mark.parametrize("number, data", [(0, "00"), (-1, "01"), (1, "02"), (-64, "7f"), (64, "8001"), (-65, "8101")])
def test_a_long_is_as_the_specification_has_it(number: int, data: str) -> None:
    assert avro.long(number).hex() == data


def test_other_values_are_read_back() -> None:
    reader = AvroReader(avro.text("ü") + avro.optional_long(None) + avro.optional_long(7) + avro.binary(b"\x00"))
    assert (reader.text(), reader.optional_long(), reader.optional_long(), reader.bytes()) == ("ü", None, 7, b"\x00")


def test_an_array_is_passed_over_without_looking_into_it() -> None:
    reader = AvroReader(avro.array([avro.long(1), avro.text("x" * 99)]) + avro.array([]) + avro.long(5))
    reader.skip_array()
    reader.skip_array()
    assert reader.long() == 5


@pytest.mark.parametrize("count", [0, 1, 500])
def test_a_file_is_read_by_pyiceberg(tmp_path: str, count: int) -> None:
    path = f"{tmp_path}/f.avro"
    with open(path, "wb") as file:  # noqa: PTH123 - a name for pyiceberg too
        file.write(avro.container(SCHEMA, [avro.long(number) for number in range(count)], {"key": "value"}))
    reader: AvroFile[Record] = AvroFile(PyArrowFileIO().new_input(path))
    with reader as opened:
        assert [record[0] for record in opened] == list(range(count))
        assert opened.header.meta["key"] == "value"


def test_a_file_is_read_back() -> None:
    data = avro.container(SCHEMA, [avro.long(5), avro.long(-5)], {})
    count, reader = avro.block_of(data, SCHEMA)
    assert [reader.long() for _ in range(count)] == [5, -5]


def test_what_is_no_such_file_is_refused() -> None:
    data = avro.container(SCHEMA, [avro.long(5)] * 50, {})
    for damaged in (b"", b"PAR1", data[:10], data[:-1], data[:-30], data.replace(b"long", b"int!")):
        with pytest.raises(ValueError, match=r"file|block|values"):
            avro.block_of(damaged, SCHEMA)


def test_a_block_that_ends_before_its_values_is_refused() -> None:
    with pytest.raises(ValueError, match="ends before"):
        AvroReader(b"\x80").long()
    with pytest.raises(ValueError, match="ends before"):
        AvroReader(avro.long(9) + b"abc").bytes()
    assert io.BytesIO(avro.array([])).read() == b"\x00"
