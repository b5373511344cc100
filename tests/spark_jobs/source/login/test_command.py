import logging
import os
import sys
import time
from pathlib import Path

import pytest

from spark_jobs.identity.errors import CredentialsError
from spark_jobs.source.login.command import LONGEST, first_line


def program(code: str, *arguments: str) -> list[str]:
    return [sys.executable, "-c", code, *arguments]


@pytest.mark.parametrize(
    "output, line",
    [
        (b"geheim\n", b"geheim"),
        (b"geheim", b"geheim"),
        (b"geheim\r\nsecond\n", b"geheim"),
        (b" spaces stay \n", b" spaces stay "),
        ("пароль\n".encode(), "пароль".encode()),
        (b"caf\xe9\n", b"caf\xe9"),
        (b"geheim\n" + b"x" * (4 << 20), b"geheim"),
        (b"x" * LONGEST + b"\n", b"x" * LONGEST),
    ],
    ids=["line", "no end", "of Windows", "spaces", "UTF-8", "bytes", "much more", "longest"],
)
def test_the_first_line_is_the_password(output: bytes, line: bytes, tmp_path: Path) -> None:
    (tmp_path / "output").write_bytes(output)
    assert first_line(["cat", str(tmp_path / "output")], 10) == line


def test_no_shell_reads_the_arguments() -> None:
    assert first_line(["echo", "$HOME; `id` > x"], 10) == b"$HOME; `id` > x"


EMPTY = "printed no password: the first line of its output is empty"
HAND = "run it by hand as the same user"


@pytest.mark.parametrize(
    "words, problem, is_passing",
    [
        (["/no/such/vault", "geheim"], "vault cannot be run: No such file or directory", False),
        (["echo", "geh\0eim"], "echo cannot be run: an argument has a NUL", False),
        (["true", "geheim"], f"true {EMPTY}", False),
        (["echo", ""], f"echo {EMPTY}", False),
        (
            ["printf", r"geh\0eim\n"],
            "printf printed what is no password: a NUL, or more than 65536 bytes in a line",
            False,
        ),
        (["sh", "-c", "echo geheim; echo geheim >&2; exit 3"], f"sh ended with exit status 3; {HAND}", True),
        (["sh", "-c", "kill -9 $$", "geheim"], f"sh ended with exit status -9; {HAND}", True),
    ],
)
def test_a_program_that_fails_is_named_and_nothing_of_its_output(
    words: list[str],
    problem: str,
    is_passing: bool,
    capfd: pytest.CaptureFixture[str],
    caplog: pytest.LogCaptureFixture,
) -> None:
    caplog.set_level(logging.DEBUG)
    with pytest.raises(CredentialsError) as refused:
        first_line(words, 10)
    assert (str(refused.value), refused.value.is_passing) == (f"password_command: {problem}", is_passing)
    assert refused.value.__context__ is None or "geheim" not in str(refused.value.__context__.args[:1])
    assert "geheim" not in caplog.text + "".join(capfd.readouterr())


@pytest.mark.parametrize(
    "code", ["import time; time.sleep(60)", "while True: print('x' * 99999)"], ids=["waits", "prints"]
)
def test_a_program_that_does_not_end_is_ended_with_what_it_started(code: str, tmp_path: Path) -> None:
    identifier = tmp_path / "identifier"
    started = f"import os, subprocess, sys; p = subprocess.Popen([sys.executable, '-c', {code!r}]); "
    started += f"open({str(identifier)!r}, 'w').write(str(p.pid)); p.wait()"
    began = time.monotonic()
    with pytest.raises(CredentialsError, match=r"did not end within 1 s; see what it waits for") as refused:
        first_line(program(started), 1)
    assert refused.value.is_passing
    assert time.monotonic() - began < 5
    child = int(identifier.read_text())
    end = time.monotonic() + 5
    while Path(f"/proc/{child}/stat").exists() and " Z " not in Path(f"/proc/{child}/stat").read_text():
        assert time.monotonic() < end
        os.sched_yield()
