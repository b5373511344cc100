"""What the corpus takes for the same value, and what it finds in a reader's output."""

import json
from typing import Any

import pytest

from corpus.judge import RAW, REFUSED, RIGHT, WRONG, Output, is_same, judge
from corpus.record import CASES


def case_of(name: str) -> dict[str, Any]:
    case: dict[str, Any] = json.loads((CASES / f"{name}.json").read_text(encoding="utf-8"))
    return case


def printed(case: dict[str, Any], changes: str = "changes") -> Output:
    """What a perfect reader prints."""
    names = [f"{layout['schema']}.{layout['table']}" for layout in case["layouts"]]
    copied = json.loads(json.dumps(case[changes]))
    return Output([change | {"table": names[change["layout"]]} for change in copied], list(case["statements"]))


@pytest.mark.parametrize(
    "form, declared, expected, got, is_equal",
    [
        ("integer", "int", "5", 5, True),
        ("integer", "int", "5", "6", False),
        ("integer", "int unsigned", "4294967295", -1, False),
        ("integer", "int", None, 0, False),
        ("integer", "int", {"absent": True}, None, False),
        ("decimal", "decimal(5,2)", "1.50", "1.5", True),
        ("decimal", "decimal(5,2)", "-0.10", "0.10", False),
        ("float", "float", "0.10000000149011612", 0.1, True),
        ("float", "float", "0.10000000149011612", 0.11, False),
        ("double", "double", "0.1", "0.1", True),
        ("double", "double", "0.1", 0.10000000149011612, False),
        ("text", "varchar(9)", "abc", {"hex": "616263"}, True),
        ("text", "varchar(9)", {"text": "é", "hex": "E9"}, {"hex": "e9"}, True),
        ("text", "varchar(9)", {"text": "é", "hex": "E9"}, {"hex": "c3a9"}, False),
        ("text", "varchar(9)", {"text": "é", "hex": "E9"}, "é", True),
        ("text", "varchar(9)", "a ", "a", False),
        ("bytes", "binary(3)", {"hex": "610000"}, {"hex": "61"}, True),
        ("bytes", "varbinary(3)", {"hex": "610000"}, {"hex": "61"}, False),
        ("bytes", "vector(1)", {"hex": "0000803F"}, [1.0], True),
        ("bytes", "vector(1)", {"hex": "0000803F"}, [1.5], False),
        ("enum", "enum('a')", {"label": "a", "number": "1"}, 1, True),
        ("enum", "enum('a')", {"label": "a", "number": "1"}, "a", True),
        ("enum", "enum('a')", {"label": "a", "number": "1"}, 0, False),
        ("set", "set('a','b')", {"label": "a,b", "number": "3"}, ["a", "b"], True),
        ("set", "set('a','b')", {"label": "a,b", "number": "3"}, 1, False),
        ("set", "set('a','b')", {"label": "", "number": "0"}, [], True),
        ("bit", "bit(9)", "257", 257, True),
        ("bit", "bit(9)", "257", {"hex": "0101"}, True),
        ("year", "year", "0000", 0, True),
        ("year", "year", "0000", 1900, False),
        ("time", "time(3)", "-00:00:00.500", "-00:00:00.500000", True),
        ("time", "time(3)", "-00:00:00.500", "00:00:00.500000", False),
        ("timestamp", "timestamp", "2024-01-01 00:00:00", "2024-01-01T00:00:00.000000Z", True),
        ("datetime", "datetime", "0000-00-00 00:00:00", None, False),
        ("date", "date", "2024-01-10", "2024-01-1", False),
        ("json", "json", '{"a": 1, "b": [1.0]}', '{"b":[1.00],"a":1}', True),
        ("json", "json", "18446744073709551615", "1.8446744073709552e19", False),
        ("json", "json", '["a"]', "null", False),
        ("json", "json", "1", "true", False),
        ("address", "inet4", "1.2.3.4", {"hex": "01020304"}, True),
        ("address", "uuid", "123e4567-e89b-12d3-a456-426655440000", {"hex": "00"}, False),
    ],
)
def test_values(form: str, declared: str, expected: Any, got: Any, is_equal: bool) -> None:
    assert is_same({"name": "c", "type": declared, "form": form}, expected, got) == is_equal


def test_a_sign_that_is_not_logged_may_be_either() -> None:
    column = {"name": "c", "type": "int(10) unsigned", "form": "integer"}
    assert is_same(column, "4294967295", -1, signs_logged=False)
    assert not is_same(column, "4294967295", -2, signs_logged=False)


def test_what_the_server_told_is_right() -> None:
    case = case_of("mysql-8.0-json")
    assert judge(case, printed(case)).verdict == RIGHT


@pytest.mark.parametrize("number", range(3))
def test_a_wrong_value_is_named(number: int) -> None:
    case = case_of("mysql-8.0-integers")
    output = printed(case)
    image = output.changes[number]["after"]
    image[1] = "99"
    verdict = judge(case, output)
    assert verdict.verdict == WRONG
    assert verdict.reasons[0].startswith(f"change {number + 1}, after a tinyint")
    assert verdict.reasons[0].endswith('got "99"')


def test_missing_and_unexpected_rows() -> None:
    case = case_of("mysql-8.0-integers")
    output = printed(case)
    last = output.changes.pop()
    assert judge(case, output).verdict == WRONG
    assert judge(case, Output(output.changes, output.statements, "stops")).verdict == REFUSED
    assert judge(case, Output([*printed(case).changes, last], output.statements)).verdict == WRONG
    assert judge(case, Output(output.changes[1:], output.statements, "stops")).verdict == WRONG


def test_a_missing_statement() -> None:
    case = case_of("mysql-8.0-ddl-columns")
    output = printed(case)
    del output.statements[1]
    assert judge(case, output).reasons[0].startswith("the statement is missing: ALTER TABLE")


def test_rows_as_they_were_logged() -> None:
    case = case_of("mysql-8.0-xa")
    assert judge(case, printed(case, "logged")).verdict == RAW
    assert judge(case, printed(case)).verdict == RIGHT
    assert [change["after"][0] for change in case["logged"]] == ["1", "2", "3", "4"]
    assert [change["after"][0] for change in case["changes"]] == ["1", "2", "4"]


def test_a_value_that_the_reader_marks() -> None:
    case = case_of("mysql-8.0-dates-zero")
    output = printed(case)
    output.changes[0]["after"][1] = {"marked": True}
    assert judge(case, output).verdict == REFUSED
    output.changes[1]["after"][3] = {"marked": True}
    assert judge(case, output).reasons == ['change 2, after ts timestamp: expected null, got {"marked": true}']


def test_a_damaged_log() -> None:
    case = case_of("mysql-8.0-damaged-bit-in-a-row")
    undamaged = case_of("mysql-8.0-transactions")
    stopped = printed(case)
    stopped.error = "stops"
    assert judge(case, stopped).verdict == RIGHT
    assert judge(case, printed(case)).verdict == WRONG
    assert judge(case, printed(undamaged)).verdict == WRONG


def test_a_transaction_without_an_end() -> None:
    case = case_of("mysql-8.0-damaged-cut-in-a-transaction")
    stopped = printed(case)
    stopped.error = "stops"
    assert [judge(case, output).verdict for output in (stopped, printed(case), printed(case, "logged"))] == [
        RIGHT, RIGHT, RAW,
    ]  # fmt: skip
