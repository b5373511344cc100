"""Diffs applied to binary documents, beside the same changes made to Python values."""

import contextlib
import copy
import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from spark_jobs.binlog.events.partial_json import INSERT, REMOVE, REPLACE, apply_diffs
from spark_jobs.errors import DecodeError
from tests.binlogs.json_documents import Opaque, from_binary, to_binary
from tests.binlogs.segment_spec import lenenc

BIG = "b" * 70_000
OPAQUE = Opaque(246, b"\x05\x02x")
DOCUMENT = {
    "a": 1,
    "bb": "text",
    "list": [1, {"x": None}, 3],
    "deep": {"er": {"est": True}},
    "date": Opaque(10, b"12345678"),
}


def diff(operation: int, path: str, value: Any = None, *, large: bool = False) -> bytes:
    raw = path.encode()
    binary = to_binary(value, large=large)
    end = b"" if operation == REMOVE else lenenc(len(binary)) + binary
    return bytes([operation]) + lenenc(len(raw)) + raw + end


@pytest.mark.parametrize("large", [False, True])
@pytest.mark.parametrize(
    "diffs, after",
    [
        ([(REPLACE, "$.a", 2)], DOCUMENT | {"a": 2}),
        ([(REPLACE, "$.a", BIG)], DOCUMENT | {"a": BIG}),
        ([(REPLACE, "$.a", -1.5), (REPLACE, "$.bb", None)], DOCUMENT | {"a": -1.5, "bb": None}),
        ([(REPLACE, "$.list[1].x", ["z" * 300])], DOCUMENT | {"list": [1, {"x": ["z" * 300]}, 3]}),
        ([(REPLACE, "$.list[last]", 2**63)], DOCUMENT | {"list": [1, {"x": None}, 2**63]}),
        ([(REPLACE, "$.list[last-2]", "")], DOCUMENT | {"list": ["", {"x": None}, 3]}),
        ([(REPLACE, '$."deep"."er"', {})], DOCUMENT | {"deep": {"er": {}}}),
        ([(INSERT, "$.b", 1)], DOCUMENT | {"b": 1}),
        ([(INSERT, "$.longest", [])], DOCUMENT | {"longest": []}),
        ([(INSERT, "$.deep.er.n", {"k": OPAQUE})], DOCUMENT | {"deep": {"er": {"est": True, "n": {"k": OPAQUE}}}}),
        ([(INSERT, "$.list[0]", "first")], DOCUMENT | {"list": ["first", 1, {"x": None}, 3]}),
        ([(INSERT, "$.list[3]", "end")], DOCUMENT | {"list": [1, {"x": None}, 3, "end"]}),
        ([(INSERT, "$.list[900]", "end")], DOCUMENT | {"list": [1, {"x": None}, 3, "end"]}),
        ([(INSERT, "$.list[last]", 2)], DOCUMENT | {"list": [1, {"x": None}, 2, 3]}),
        ([(REMOVE, "$.list[0]"), (REMOVE, "$.list[0]")], DOCUMENT | {"list": [3]}),
        ([(REMOVE, "$.list"), (REMOVE, "$.deep"), (REMOVE, "$.date"), (REMOVE, "$.bb")], {"a": 1}),
        ([(INSERT, '$."q\\"uo.te [1]"', 1), (INSERT, '$."ü\\n"', 3)], DOCUMENT | {'q"uo.te [1]': 1, "ü\n": 3}),
        ([(INSERT, '$.""', 2), (REMOVE, "$.deep.er.est")], DOCUMENT | {"": 2, "deep": {"er": {}}}),
        ([], DOCUMENT),
    ],
)  # fmt: skip
def test_each_operation(diffs: list[Any], after: Any, large: bool) -> None:
    wire = b"".join(diff(*change, large=large) for change in diffs)
    assert from_binary(apply_diffs(to_binary(DOCUMENT, large=large), wire)) == after


def test_an_array_at_the_root() -> None:
    wire = diff(INSERT, "$[0]", 0) + diff(REMOVE, "$[2]") + diff(INSERT, "$[9]", [9])
    assert from_binary(apply_diffs(to_binary([1, 2, 3]), wire)) == [0, 1, 3, [9]]


def test_a_large_document_that_has_become_small_is_small() -> None:
    document = apply_diffs(to_binary({"a": BIG, "b": 2**31 - 1}, large=True), diff(REPLACE, "$.a", 1))
    assert (document[0], from_binary(document)) == (0, {"a": 1, "b": 2**31 - 1})


def test_a_small_document_that_grows_is_large() -> None:
    document = apply_diffs(to_binary({"a": 2**31 - 1, "n": {"b": 2**32 - 1}}), diff(INSERT, "$.n.c", "x" * 65_536))
    assert (document[0], from_binary(document)) == (1, {"a": 2**31 - 1, "n": {"b": 2**32 - 1, "c": "x" * 65_536}})


def test_holes_that_an_update_in_place_has_left() -> None:
    """A server shortens a string where it lies; the rest of its offset stays."""
    document = to_binary({"a": "long", "b": "x"}).replace(b"\4long", b"\2loXX")
    assert from_binary(apply_diffs(document, diff(REPLACE, "$.b", "y"))) == {"a": "lo", "b": "y"}


@pytest.mark.parametrize(
    "document, wire, message",
    [
        (DOCUMENT, diff(REPLACE, "$.c", 1), r"diff 1: .*has no"),
        (DOCUMENT, diff(REPLACE, "$.list[3]", 1), r"has no \[3\]"),
        (DOCUMENT, diff(REPLACE, "$.list[last-3]", 1), r"has no \[last-3\]"),
        (DOCUMENT, diff(REPLACE, "$.list.x", 1), "has no"),
        (DOCUMENT, diff(REPLACE, "$.deep[0]", 1), "has no"),
        (DOCUMENT, diff(REPLACE, "$.a.b", 1), "neither object nor array"),
        (DOCUMENT, diff(INSERT, "$.a", 1), "takes no further"),
        (DOCUMENT, diff(INSERT, "$.list.x", 1), "takes no further"),
        (DOCUMENT, diff(INSERT, "$.deep[0]", 1), "takes no further"),
        (DOCUMENT, diff(REMOVE, "$.list[3]"), "has no"),
        (DOCUMENT, diff(REPLACE, "$", 1), "not understood"),
        (DOCUMENT, diff(REPLACE, "$**.a", 1), "not understood"),
        (DOCUMENT, diff(REPLACE, "$.list[*]", 1), "not understood"),
        (DOCUMENT, diff(REPLACE, '$."\\x"', 1), "not understood"),
        (DOCUMENT, diff(REPLACE, "x.a", 1), "not understood"),
        (DOCUMENT, b"\3" + diff(REPLACE, "$.a", 1)[1:], "operation 3"),
        (DOCUMENT, diff(REPLACE, "$.a", 1)[:-1], "ends before"),
        (DOCUMENT, b"\0\3$.a\0", "without a value"),
        (DOCUMENT, b"\0\xfb", "begins with 251"),
        (DOCUMENT, b"\0\xff", "begins with 255"),
        (None, diff(REPLACE, "$.a", 1), "neither object nor array"),
    ],
)
def test_what_is_refused(document: Any, wire: bytes, message: str) -> None:
    with pytest.raises(DecodeError, match=message):
        apply_diffs(to_binary(document), wire)


@given(st.data())
def test_damaged_documents_are_decode_errors(data: st.DataObject) -> None:
    document = bytearray(to_binary(DOCUMENT))
    for offset in data.draw(st.lists(st.integers(0, len(document) - 1), min_size=1, max_size=4)):
        document[offset] = data.draw(st.integers(0, 255))
    wire = diff(REPLACE, "$.list[1].x", 1) + diff(REMOVE, "$.deep.er.est")
    with contextlib.suppress(DecodeError):
        assert apply_diffs(bytes(document[: data.draw(st.integers(0, len(document)))]), wire)


scalars = (
    st.none() | st.booleans() | st.integers(-(2**63), 2**64 - 1) | st.floats(allow_nan=False) | st.text(max_size=9)
)
names = st.text(max_size=4)
documents = st.recursive(
    scalars, lambda inner: st.lists(inner, max_size=4) | st.dictionaries(names, inner, max_size=4), max_leaves=12
)


@given(st.data(), st.booleans())
def test_random_changes(data: st.DataObject, large: bool) -> None:
    """As the same changes to lists and dicts leave them."""
    expected: Any = data.draw(documents.filter(lambda value: isinstance(value, list | dict)))
    document, wire = to_binary(expected, large=large), b""
    expected = copy.deepcopy(expected)
    for _ in range(data.draw(st.integers(1, 4))):
        parent: Any = expected
        path = "$"
        while children := [key for key, child in _items(parent) if isinstance(child, list | dict)]:
            if data.draw(st.booleans()):
                break
            key: Any = data.draw(st.sampled_from(children))
            parent, path = parent[key], path + _leg(key)
        value = data.draw(documents)
        operation = data.draw(st.sampled_from([INSERT, REPLACE, REMOVE]))
        keys = [key for key, _ in _items(parent)]
        if operation == INSERT:
            key = data.draw(st.integers(0, len(parent)) if isinstance(parent, list) else names)
            if isinstance(parent, list):
                parent.insert(key, value)
            elif key in parent:
                continue
            else:
                parent[key] = value
        elif not keys:
            continue
        else:
            key = data.draw(st.sampled_from(keys))
            if operation == REPLACE:
                parent[key] = value
            else:
                del parent[key]
        wire += diff(operation, path + _leg(key), value, large=data.draw(st.booleans()))
        expected = copy.deepcopy(expected)
    assert from_binary(apply_diffs(document, wire)) == expected


def _items(parent: Any) -> list[tuple[Any, Any]]:
    return list(enumerate(parent)) if isinstance(parent, list) else list(parent.items())


def _leg(key: Any) -> str:
    return f"[{key}]" if isinstance(key, int) else "." + json.dumps(key, ensure_ascii=False)
