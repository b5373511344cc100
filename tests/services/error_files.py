"""Texts of servers' error files, by number. Put here: reading the files. Not here: what is shown of them."""

import re
import struct
from collections.abc import Iterator
from itertools import chain
from pathlib import Path

from tests.services.servers import build_of

_MARIADB = b"\xfe\xfe\x02\x05"
_FIRST_SECTION = 887
"""Texts of numbers from 1000 on, as all versions of MySQL have them; later sections differ in their gaps."""
_UNUSED = ("You should never see it", '"', "")


def texts_of(server: str) -> dict[int, str]:
    """Each error's text with its forms, of a server that is here. Raises ConfigError."""
    build = build_of(server)
    folder = build.dist() / build.share
    source = folder / "errmsg-utf8.txt"
    entries = _of_source(source) if source.is_file() else _of_compiled(folder / "english" / "errmsg.sys")
    return {number: text for number, text in entries if text not in _UNUSED}


def _of_source(path: Path) -> Iterator[tuple[int, str]]:
    """MySQL's own list: symbols, each counting one up, with their texts by language."""
    number = 0
    for line in path.read_text(encoding="utf-8", errors="replace").splitlines():
        if start := re.match(r"start-error-number (\d+)", line):
            number = int(start[1]) - 1
        elif re.match(r"[A-Z][A-Z0-9_]+\b", line):
            number += 1
        elif text := re.fullmatch(r'\s+eng "(.*)"\s*', line):
            yield number, text[1].replace('\\"', '"')


def _of_compiled(path: Path) -> Iterator[tuple[int, str]]:
    """A compiled file: a header, lengths or positions, and the texts, each with a zero byte behind it."""
    content = path.read_bytes()
    if content.startswith(_MARIADB):
        counts = struct.unpack_from("<4H", content, 32)
        numbers = chain.from_iterable(range(1000 * at, 1000 * at + count) for at, count in enumerate(counts, 1))
        texts = content[40 + 2 * sum(counts) :].split(b"\0")
    else:
        (size,) = struct.unpack_from("<I", content, 6)
        numbers = chain(range(1000, 1000 + _FIRST_SECTION))
        texts = content[len(content) - size :].split(b"\0")
    yield from zip(numbers, map(bytes.decode, texts), strict=False)
