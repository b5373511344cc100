import ctypes
import platform
import re
from pathlib import Path

import pytest

from spark_jobs.demo.stub_libraries import LIBRARIES, write_library

x86 = pytest.mark.skipif(platform.machine() != "x86_64", reason="the stand-ins hold x86-64 code")


@x86
@pytest.mark.parametrize("name", LIBRARIES)
def test_the_loader_takes_it_and_its_functions_return_their_numbers(name: str, tmp_path: Path) -> None:
    library = ctypes.CDLL(str(write_library(tmp_path, name)))
    for symbol in LIBRARIES[name]:
        if symbol.result is None:
            assert ctypes.c_void_p.in_dll(library, symbol.name).value is None
        else:
            assert library[symbol.name]() == symbol.result


@x86
@pytest.mark.parametrize(
    "name, version, is_present",
    [
        ("io_setup", "LIBAIO_0.4", True),
        ("io_submit", "LIBAIO_0.1", True),
        ("io_submit", "LIBAIO_0.4", False),
    ],
)
def test_symbols_are_found_by_their_version(name: str, version: str, is_present: bool, tmp_path: Path) -> None:
    library = ctypes.CDLL(str(write_library(tmp_path, "libaio.so.1")))
    dlvsym = ctypes.CDLL(None).dlvsym
    dlvsym.restype = ctypes.c_void_p
    dlvsym.argtypes = (ctypes.c_void_p, ctypes.c_char_p, ctypes.c_char_p)
    assert bool(dlvsym(library._handle, name.encode(), version.encode())) is is_present


def test_a_library_of_another_name_is_not_made_up(tmp_path: Path) -> None:
    with pytest.raises(KeyError, match=re.escape("libstdc++.so.6")):
        write_library(tmp_path, "libstdc++.so.6")
