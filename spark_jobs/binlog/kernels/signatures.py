"""Signatures by which callers outside this package call its kernels: what is compiled ahead of its first use.

A kernel that only other kernels call has no line: its machine code is part of theirs.

Put here: signatures. Not here: compiling them (build.py), or finding what was compiled (machine_code.py).
"""

import re
from collections.abc import Iterator
from typing import Any

from numba import types

_SIGNATURES = """
charset_text.map_bytes(constant int32[::1], int64, uint32[::1], uint8[::1], int32[::1], int64, uint8[::1])
charset_text.map_characters(constant int32[::1], int64, uint8[::1], uint32[::1], uint32[::1], uint32[::1], int32[::1],
  int64, uint8[::1])
charset_text.map_units(constant int32[::1], int64, int64, bool, bool, int32[::1], int64, uint8[::1])
dump_packets.unpack_dump(int64, int64, int64, int64, int64[::1])
event_scan.scan(int64, int64, int64, int64, int64, uint8[::1], int64[::1], (int64[::1], int64[::1], uint8[::1],
  int32[::1], int32[::1], uint8[::1]), int64[:, ::1], int64[:, ::1], int32[::1], int64[:, ::1])
json.json_text(constant int32[::1], int64, uint8[::1], int64[::1], int32[::1], int64, int64, int64[:, ::1])
packed_events.choose_rows(int64, uint8[::1], uint8[::1], int32[::1], int64[:, ::1], int64[::1], int64[::1],
  int64[::1])
packed_events.complete_events(uint8[::1])
packed_events.gather_rows(int64[::1], int64[::1], int64[::1], uint8[::1], int32[::1], int64[:, ::1], int64, int64,
  int64, int64, int64[:, ::1], uint8[::1], int32[::1])
packed_events.interleave(int64, int64[::1], int64[::1], int64, int64[::1], int64)
packed_events.packed_rows(int64[::1], int64[::1], int64, int64[::1], int64[::1], int64)
packed_events.payload_heads(int64[::1], int64[::1], int64[:, ::1])
result_rows.put_row(int64, int64, int64, int64[:, ::1], int64)
result_rows.put_rows(int64, int64, int64, int64, int64[::1], int64[:, ::1], int64, int64)
result_rows.row_room(int64, int64)
row_blocks.end_texts(int64)
row_blocks.validities(uint64[:, ::1], int64, int64[::1], int64, int64, int64[::1])
row_decode.decode_rows(int64, int64, int64[::1], int64[::1], int64, int64)
row_images.count_rows(int64[::1], int64[::1], int64, int64[::1], uint8[::1], int64[::1], int64[::1])
row_images.image_masks(int64[::1], int64, uint64[:, :, ::1])
row_images.plain_updates(int64[::1], int64[::1], int64, int64[::1], uint8[::1], int64[:, ::1], int64[:, ::1],
  int64[::1], int64[::1], int64[::1], int64, int64[::1])
slice_cut.cut(int64[::1], int64[::1], int32[::1], uint8[::1], int64[:, ::1], int64, int64, bool, bool, int64[:, ::1])
table_maps.body_hash(int64, int64)
utf8.invalid_utf8(constant int32[::1], int64, uint8[::1])
utf8.is_ascii(int64, int64)
value_text.copy_labels(constant uint64[::1], int64[::1], int64, int32[::1], int64)
value_text.decimal_text(constant uint8[:, ::1], uint8[::1], int64[::1], int64, int32[::1], uint8[::1])
value_text.hex_text(constant int32[::1], int64, int64[::1], int32[::1], uint8[::1])
value_text.inet4_text(constant int32[::1], int64, uint8[::1], int32[::1], uint8[::1])
value_text.inet6_text(constant int32[::1], int64, uint8[::1], int32[::1], uint8[::1])
value_text.join_labels(constant uint64[::1], uint8[::1], int64[::1], constant uint8[::1], int32[::1], uint8[::1])
value_text.label_offsets(constant uint64[::1], int64[::1], int32[::1])
value_text.split_geometry(constant int32[::1], int64, uint8[::1], int32[::1], int32[::1], uint8[::1], uint8[::1])
value_text.time_text(constant int64[::1], uint8[::1], int64, int32[::1], uint8[::1])
value_text.time_text(int64[::1], uint8[::1], int64, int32[::1], uint8[::1])
value_text.uuid_text(constant int32[::1], int64, uint8[::1], int32[::1], uint8[::1])
"""
"""``module.function(arguments)``, a line each and what is indented below it. ``int64[:, ::1]`` is an array of two
dimensions in C's order, ``constant`` one that nobody may write, parentheses a tuple."""

_PART = re.compile(r"\s*([(),]|constant\b|\w+|\[[:,\s1]*\])")


def signatures() -> Iterator[tuple[str, tuple[Any, ...]]]:
    """Each kernel, as ``module.function``, and the types of its arguments."""
    for line in re.split(r"\n(?! )", _SIGNATURES.strip("\n")):
        name, _, arguments = line.partition("(")
        yield name, tuple(_types(iter(_PART.findall(arguments))))


def _types(parts: Iterator[str]) -> list[Any]:
    """The types up to the parenthesis that ends them."""
    found: list[Any] = []
    is_constant = False
    for part in parts:
        if part == ")":
            break
        if part == "(":
            found.append(types.BaseTuple.from_types(_types(parts)))
        elif part == "constant":
            is_constant = True
        elif part.startswith("["):
            found[-1] = types.Array(found[-1], part.count(":") - 1, "C", readonly=is_constant)
            is_constant = False
        elif part != ",":
            found.append(getattr(types, part))
    return found
