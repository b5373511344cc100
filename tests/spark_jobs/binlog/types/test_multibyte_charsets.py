import pytest

from spark_jobs.binlog.kernels import charset_text
from spark_jobs.binlog.types.charset_tables import CODECS
from spark_jobs.binlog.types.multibyte_charsets import table_of


@pytest.mark.parametrize("charset", sorted(CODECS))
def test_the_first_half_is_ascii(charset: str) -> None:
    table = table_of(charset)
    assert table.sizes[:128].tolist() == [1] * 128
    assert table.pairs[:128].tolist() == list(range(128))


@pytest.mark.parametrize("charset", sorted(CODECS))
def test_lead_bytes_stand_for_nothing_by_themselves(charset: str) -> None:
    table = table_of(charset)
    for lead in range(128, 256):
        alone = table.pairs[lead] != charset_text.NO_CHARACTER
        assert alone == (table.sizes[lead] == 1)


def test_only_euc_has_three_bytes_and_only_gb18030_four() -> None:
    assert [name for name in CODECS if len(table_of(name).triples)] == ["eucjpms", "ujis"]
    assert [name for name in CODECS if len(table_of(name).quads)] == ["gb18030"]


def test_each_character_of_gb18030_has_one_code() -> None:
    table = table_of("gb18030")
    points = [p for part in (table.pairs, table.quads) for p in part.tolist() if p != charset_text.NO_CHARACTER]
    assert len(points) == len(set(points))
    assert set(range(0x10000)) - set(points) == set(range(0xD800, 0xE000))
