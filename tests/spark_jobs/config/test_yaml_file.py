from pathlib import Path
from typing import Any

import pytest

from spark_jobs.config.yaml_file import MOST_BYTES, read
from spark_jobs.errors import ConfigError

BOMB = "a: &a [x,x,x,x,x,x,x,x,x,x]\n" + "".join(
    f"{name}: &{name} [{','.join([f'*{before}'] * 10)}]\n" for before, name in zip("abcdefgh", "bcdefghi", strict=True)
)


def value(folder: Path, text: str) -> Any:
    return read(write(folder, text.encode()))


def write(folder: Path, content: bytes) -> Path:
    path = folder / "x.yaml"
    path.write_bytes(content)
    return path


@pytest.mark.parametrize(
    "text, expected",
    [
        ("33:06", "33:06"),
        ("yes", "yes"),
        ("off", "off"),
        ("true", True),
        ("False", False),
        ("2026-01-01", "2026-01-01"),
        ("12e03", "12e03"),
        ("1.5e3", 1500.0),
        ("0x1F", "0x1F"),
        ("0o17", "0o17"),
        ("1_000", "1_000"),
        ("-17", -17),
        ("0", 0),
        ("~", None),
        ("", None),
        ("null", None),
        ("'0123'", "0123"),
        ("9" * 39, int("9" * 39)),
        ("9" * 5000, "9" * 5000),
        ("[1, {b: 2}]", [1, {"b": 2}]),
        ("|\n  two\n  lines\n", "two\nlines\n"),
    ],
)
def test_a_scalar_is_what_it_looks_like(tmp_path: Path, text: str, expected: Any) -> None:
    assert value(tmp_path, f"a: {text}") == {"a": expected}
    assert type(value(tmp_path, f"a: {text}")["a"]) is type(expected)


def test_every_key_is_text(tmp_path: Path) -> None:
    text = "5: a\nnull: b\non: c\n2026-01-01: d\n~: e\n"
    assert value(tmp_path, text) == {"5": "a", "null": "b", "on": "c", "2026-01-01": "d", "~": "e"}


def test_merged_keys_give_way_to_own_ones_and_earlier_ones_to_later(tmp_path: Path) -> None:
    text = "x: &x {a: 1, b: 1}\ny: &y {b: 2, c: 2}\nz: {<<: [*x, *y], c: 3}\nw: {<<: *x}\n"
    values = value(tmp_path, text)
    assert (values["z"], values["w"]) == ({"a": 1, "b": 1, "c": 3}, {"a": 1, "b": 1})


@pytest.mark.parametrize(
    "text, reason",
    [
        ("port: 0123", "line 1: 0123 begins with a zero"),
        (BOMB, "line 5: has more than 100,000 values, with aliases"),
        ("a: &a [*a]", "line 1: *a stands inside of what it stands for"),
        ("a: " + "[" * 5000, "line 1: nests more than 50 levels deep"),
        ("a: " + "{a: " * 5000, "line 1: nests more than 50 levels deep"),
        ("".join(f"{' ' * at}a:\n" for at in range(60)), "line 51: nests more than 50 levels deep"),
        ("- a", "must hold keys such as lake: and sources:"),
        ("", "must hold keys such as lake: and sources:"),
        ("[1]: 2", "line 1: a key must be text or a number"),
        ("a: 1\nb: 2\na: 3", "line 3: the key 'a' is given twice"),
        ("a: !!python/object:os.system x", "line 1: the tag !!python/object:os.system is not known here"),
        ("a: !!bool yes", "line 1: the tag !!bool is not known here"),
        ("a: {<<: 5}", "line 1: << takes keys and values, or a list of such"),
        ("a: [1\nb: 2", "not valid YAML: line 2, column 2: while parsing a flow sequence; expected ',' or ']'"),
        ("a: *b", "not valid YAML: line 1, column 4: found undefined alias 'b'"),
        ("a: \x07", "not valid YAML: unacceptable character"),
    ],
)
def test_what_cannot_be_read_is_said_in_one_line(tmp_path: Path, text: str, reason: str) -> None:
    with pytest.raises(ConfigError) as refused:
        value(tmp_path, text)
    assert str(refused.value).startswith(f"{tmp_path}/x.yaml: {reason}")
    assert len(str(refused.value).splitlines()) == 1


def test_a_file_that_is_too_large_or_not_there_is_refused(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="has more than 1024 KiB"):
        read(write(tmp_path, b"#" * (MOST_BYTES + 1)))
    with pytest.raises(ConfigError, match="gone: cannot be read: No such file or directory"):
        read(tmp_path / "gone")
    with pytest.raises(ConfigError, match="byte 3 is not UTF-8"):
        read(write(tmp_path, b"a: \xff"))
