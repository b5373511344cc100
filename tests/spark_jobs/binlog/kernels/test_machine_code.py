"""Files of machine code: read back as they were written, and never where a byte or a version differs."""

import re
from pathlib import Path

import llvmlite
import llvmlite.binding
import numba
import pytest
from hypothesis import given
from hypothesis import strategies as st

from spark_jobs.binlog.kernels import machine_code
from spark_jobs.binlog.kernels.machine_code import decoded, encoded, entry_name, file_name, installed
from spark_jobs.binlog.kernels.targets import TARGETS

TARGET = TARGETS[-1]
ENTRIES = {"utf8.is_ascii(int64, int64)": b"first", "json.f()": b"", "json.g()": bytes(range(256))}
FILE = encoded(TARGET, ENTRIES)


@given(entries=st.dictionaries(st.text(), st.binary()))
def test_a_file_is_read_as_it_was_written(entries: dict[str, bytes]) -> None:
    assert {name: bytes(entry) for name, entry in decoded(TARGET, encoded(TARGET, entries)).items()} == entries


@given(offset=st.integers(0, len(FILE) - 1), bits=st.integers(1, 255))
def test_a_damaged_byte_is_noticed(offset: int, bits: int) -> None:
    damaged = bytearray(FILE)
    damaged[offset] ^= bits
    with pytest.raises(ValueError, match=r"^x86-64-avx2-cpython-\d+\.code is damaged$"):
        decoded(TARGET, bytes(damaged))


@pytest.mark.parametrize("size", [0, 1, 64, 65, len(FILE) - 1])
def test_a_cut_file_is_damaged(size: int) -> None:
    with pytest.raises(ValueError, match="is damaged"):
        decoded(TARGET, FILE[:size])


@pytest.mark.parametrize("difference", ["sources", "numba", "llvmlite", "system", "target"])
def test_a_file_of_other_sources_or_versions_is_refused(difference: str, monkeypatch: pytest.MonkeyPatch) -> None:
    target = TARGET
    match difference:
        case "sources":
            monkeypatch.setattr(machine_code, "sources_hash", lambda: "0" * 32)
        case "numba":
            monkeypatch.setattr(numba, "__version__", "0.0.1")
        case "llvmlite":
            monkeypatch.setattr(llvmlite, "__version__", "0.0.1")
        case "system":
            monkeypatch.setattr(llvmlite.binding, "get_process_triple", lambda: "x86_64-pc-linux-musl")
        case "target":
            target = TARGETS[0]
    with pytest.raises(ValueError, match="is of other sources or versions"):
        decoded(target, FILE)
    monkeypatch.undo()
    assert decoded(TARGET, FILE)


def test_each_version_of_python_has_its_files() -> None:
    assert len({file_name(target) for target in TARGETS}) == len(TARGETS)
    assert all("-cpython-3" in file_name(target) for target in TARGETS)


def test_an_entry_is_named_by_module_function_and_types() -> None:
    assert entry_name(encoded, (numba.types.int64, numba.types.uint8[::1])) == (
        "machine_code.encoded(int64, Array(uint8, 1, 'C', False, aligned=True))"
    )


def test_without_a_fitting_target_nothing_is_read(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(machine_code, "fitting_target", lambda: None)
    monkeypatch.setattr(machine_code, "is_named", lambda: False)
    installed.cache_clear()
    found = installed()
    installed.cache_clear()
    assert (found.entries, found.lack) == ({}, "no machine code is made for this processor")


def test_code_is_the_same_whichever_process_made_it_and_wherever_numba_is() -> None:
    """Two builds of a wheel would differ by addresses, and by the folders of an environment."""
    if not (code := installed()).entries:
        pytest.skip(code.lack)
    numba_folder = re.escape(str(Path(numba.__file__).parent).encode())
    differing = re.compile(rb" at 0x[0-9a-f]{6}|" + numba_folder)
    assert not [name for name, entry in code.entries.items() if differing.search(entry)]
