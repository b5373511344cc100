import codecs

import pytest

from spark_jobs.binlog.types.charset_tables import CODECS, COLLATIONS, EXCEPTIONS, SINGLE_BYTE, UTF, WIDTHS


def test_no_collation_belongs_to_two_character_sets() -> None:
    ids = [id_ for parts in COLLATIONS.values() for part in parts for id_ in part]
    assert len(ids) == len(set(ids))


def test_every_way_to_read_text_is_for_a_known_character_set() -> None:
    assert (set(CODECS) | set(SINGLE_BYTE) | set(UTF) | set(WIDTHS)) <= set(COLLATIONS)
    assert set(EXCEPTIONS) <= set(CODECS)
    assert len({*CODECS, *SINGLE_BYTE, *UTF}) == len(CODECS) + len(SINGLE_BYTE) + len(UTF), "one way a set"


@pytest.mark.parametrize("charset", sorted(SINGLE_BYTE))
def test_a_single_byte_set_has_a_place_for_every_byte(charset: str) -> None:
    assert len(SINGLE_BYTE[charset]) == 256
    assert WIDTHS.get(charset, 1) == 1


@pytest.mark.parametrize("charset", sorted(CODECS))
def test_a_codec_exists(charset: str) -> None:
    assert codecs.lookup(CODECS[charset])
