"""Stubs of shared libraries that mysqld is linked with, that a bare machine lacks, and that it can do without.

Of libaio, libnuma and libcrypt the server uses asynchronous I/O, placement of memory and nothing; it works without
the first two where they say that they are unavailable. But the loader wants a file of each name. Where there is none,
one is written here: an ELF shared object whose functions each return one number.

Put here: those three libraries and the little of ELF they need. Not here: when they are put to use (server.py).

Source: the System V ABI, "Object Files" and "Dynamic Linking", with its AMD64 supplement; versions of symbols as in
the Linux Standard Base, "Symbol Versioning".
"""

import struct
from dataclasses import dataclass
from itertools import accumulate
from pathlib import Path

_PAGE = 0x1000
_ENOSYS = -38


@dataclass(frozen=True, slots=True)
class Symbol:
    """A function that returns ``result``; where that is None, a pointer that is null."""

    name: str
    version: str
    result: int | None


LIBRARIES = {
    "libaio.so.1": (
        Symbol("io_setup", "LIBAIO_0.4", _ENOSYS),
        Symbol("io_submit", "LIBAIO_0.1", _ENOSYS),
        Symbol("io_getevents", "LIBAIO_0.4", _ENOSYS),
    ),
    "libnuma.so.1": (
        Symbol("numa_available", "libnuma_1.1", -1),  # "no": what follows is then not to be called
        Symbol("numa_alloc_local", "libnuma_1.1", 0),
        Symbol("numa_alloc_onnode", "libnuma_1.1", 0),
        Symbol("numa_free", "libnuma_1.1", 0),
        Symbol("numa_node_of_cpu", "libnuma_1.2", 0),
        Symbol("numa_num_configured_cpus", "libnuma_1.2", 1),
        Symbol("mbind", "libnuma_1.1", _ENOSYS),
        Symbol("set_mempolicy", "libnuma_1.1", _ENOSYS),
        Symbol("numa_all_nodes_ptr", "libnuma_1.2", None),
    ),
    "libcrypt.so.1": (),
}
"""Symbols by file name: all that MySQL 8.0.12 asks of each."""


def write_library(directory: Path, name: str) -> Path:
    """Write the stand-in of that name for x86-64. Raises KeyError where there is none."""
    directory.mkdir(parents=True, exist_ok=True)
    path = directory / name
    path.write_bytes(_elf(name, LIBRARIES[name]))
    return path


def _elf(soname: str, symbols: tuple[Symbol, ...]) -> bytes:
    """Two pages: tables and code, to read and execute; then the dynamic section and the pointers, to write."""
    versions = [soname, *sorted({symbol.version for symbol in symbols})]  # the first stands for the file itself
    strings, offsets = _strings([*versions, *(symbol.name for symbol in symbols)])
    tables = [
        (4, _hash(len(symbols))),  # DT_HASH
        (5, strings),  # DT_STRTAB
        (6, _symbols(symbols, offsets)),  # DT_SYMTAB
        (0x6FFFFFF0, _versions_of(symbols, versions)),  # DT_VERSYM
        (0x6FFFFFFC, _versions(versions, offsets)),  # DT_VERDEF
    ]
    starts = list(accumulate((_aligned(len(table)) for _, table in tables), initial=_TABLES))
    entries = [(tag, start) for (tag, _), start in zip(tables, starts, strict=False)]
    entries += [(14, offsets[soname]), (10, len(strings)), (11, 24), (0x6FFFFFFD, len(versions)), (0, 0)]
    dynamic = b"".join(struct.pack("<qQ", *entry) for entry in entries)  # SONAME, STRSZ, SYMENT, VERDEFNUM, NULL
    if starts[-1] > _CODE or len(dynamic) > _POINTERS - _PAGE:
        raise ValueError(f"the stand-in for {soname} has more symbols than its layout has room for")
    parts = [(0, _headers(len(dynamic))), (_PAGE, dynamic), (_CODE, _code(symbols)), (2 * _PAGE, b"")]
    return _laid_out(parts + [(start, table) for (_, table), start in zip(tables, starts, strict=False)])


_TABLES, _CODE, _POINTERS = 0x200, 0xC00, _PAGE + 0x800
"""Addresses of tables, functions and pointers: file offsets, and addresses alike."""


def _aligned(size: int) -> int:
    return -(-size // 8) * 8


def _laid_out(parts: list[tuple[int, bytes]]) -> bytes:
    image = bytearray(max(at + len(content) for at, content in parts))
    for at, content in parts:
        image[at : at + len(content)] = content
    return bytes(image)


def _strings(names: list[str]) -> tuple[bytes, dict[str, int]]:
    """DT_STRTAB, and where each name begins in it."""
    starts = accumulate((len(name) + 1 for name in names), initial=1)
    return b"\0" + b"".join(name.encode() + b"\0" for name in names), dict(zip(names, starts, strict=False))


def _code(symbols: tuple[Symbol, ...]) -> bytes:
    """Eight bytes a symbol: ``mov eax, result; ret``."""
    return b"".join(struct.pack("<BiBxx", 0xB8, symbol.result or 0, 0xC3) for symbol in symbols)


def _symbols(symbols: tuple[Symbol, ...], offsets: dict[str, int]) -> bytes:
    """DT_SYMTAB: the null symbol, then 24 bytes each, bound STB_GLOBAL."""
    table = bytes(24)
    for offset, symbol in enumerate(symbols):
        begin, kind = (_POINTERS, 1) if symbol.result is None else (_CODE, 2)  # STT_OBJECT, STT_FUNC
        table += struct.pack("<IBBHQQ", offsets[symbol.name], 1 << 4 | kind, 0, 1, begin + 8 * offset, 8)
    return table


def _hash(count: int) -> bytes:
    """DT_HASH with a single bucket: all symbols in one chain that ends in 0."""
    chain = [*range(1, count + 1), 0]
    return struct.pack(f"<{4 + count}I", 1, count + 1, chain[0], 0, *chain[1:])


def _versions_of(symbols: tuple[Symbol, ...], versions: list[str]) -> bytes:
    """DT_VERSYM: for each symbol the number of its version, counted from 1."""
    return struct.pack(f"<{1 + len(symbols)}H", 0, *(1 + versions.index(symbol.version) for symbol in symbols))


def _versions(versions: list[str], offsets: dict[str, int]) -> bytes:
    """DT_VERDEF: 28 bytes a version, the first flagged VER_FLG_BASE."""
    table = b""
    for number, version in enumerate(versions, 1):
        follows = 28 if number < len(versions) else 0
        table += struct.pack("<HHHHIII", 1, int(number == 1), number, 1, _elf_hash(version), 20, follows)
        table += struct.pack("<II", offsets[version], 0)
    return table


def _elf_hash(name: str) -> int:
    result = 0
    for byte in name.encode():
        result = (result << 4) + byte
        result = (result ^ (result >> 24 & 0xF0)) & 0x0FFFFFFF
    return result


def _headers(dynamic: int) -> bytes:
    """The ELF header and four program headers. No sections: the loader does not look at them."""
    ident = b"\x7fELF\x02\x01\x01".ljust(16, b"\0")
    elf = ident + struct.pack("<HHIQQQIHHHHHH", 3, 62, 1, 0, 64, 0, 0, 64, 56, 4, 64, 0, 0)  # ET_DYN, EM_X86_64
    segments = [  # type, flags (4 read, 2 write, 1 execute), offset and address, size, alignment
        (1, 5, 0, _PAGE, _PAGE),  # PT_LOAD
        (1, 6, _PAGE, _PAGE, _PAGE),
        (2, 6, _PAGE, dynamic, 8),  # PT_DYNAMIC
        (0x6474E551, 6, 0, 0, 16),  # PT_GNU_STACK: without it the loader makes stacks executable
    ]
    return elf + b"".join(
        struct.pack("<IIQQQQQQ", kind, flags, at, at, at, size, size, align)
        for kind, flags, at, size, align in segments
    )
