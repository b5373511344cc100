from spark_jobs.binlog.types import TYPES, real_code
from spark_jobs.binlog.types.base import Refused


def test_every_type_is_read_or_refused_by_name() -> None:
    refused = {code: kind.name for code, kind in TYPES.items() if isinstance(kind, Refused)}
    assert sorted(refused) == [0]
    assert all(refused.values())


def test_enum_and_set_hide_behind_char() -> None:
    assert real_code(254, b"\xf7\x01") == 247
    assert real_code(254, b"\xf8\x08") == 248
    assert real_code(254, b"\xfe\x28") == 254
    assert real_code(254, b"\xee\x00") == 254
    assert real_code(3, b"") == 3
