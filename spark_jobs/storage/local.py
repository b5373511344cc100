"""Files of a file system: durable by fsync, created exclusively by a hard link.

Put here: what a power cut or a second writer must not break. Not here: object stores (objects.py).
"""

import errno
import io
import os
import shutil
import time
import uuid
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import BinaryIO

_NO_DIRECTORY_SYNC = {errno.EBADF, errno.EINVAL, errno.ENOTSUP, errno.EOPNOTSUPP, errno.ENOSYS}
"""Answers of file systems that sync no directories, and need it for none."""
_COPIED = 1 << 20
"""Bytes of a file that are copied at once."""
_NO_LINK = {errno.EXDEV, errno.EPERM}
"""Answers where the name would be on another file system, or the file is another user's."""


_durable_inodes: dict[Path, int] = {}
"""Inodes of directories whose own names this process has made durable."""


def create(target: Path, content: bytes, *, is_first: bool = False) -> bool:
    """Create a file with its content, durably; False where it exists. Raises OSError.

    The file appears under its name complete or not at all. is_first: whether it is the first of its folder.
    """
    part = target.with_name(f".{target.name}.{uuid.uuid4().hex}.tmp")
    make_directory(target.parent)
    if is_first:
        _sync_above(target.parent)
    with part.open("xb") as file:
        file.write(content)
        file.flush()
        os.fsync(file.fileno())
    try:
        os.link(part, target)
    except FileExistsError:
        # NFS sends a request again whose answer was lost: then the file is this writer's own.
        if not target.samefile(part):
            return False
    except OSError:
        # The answer may be lost, and the file there: whoever sees it continues from it, so its name has to be durable.
        if not target.exists() or not target.samefile(part):
            raise
    finally:
        part.unlink()
    sync_directory(target.parent)
    return True


def replace(target: Path, content: bytes) -> None:
    """Replace a file's content, durably, as ``files.replace``. Raises OSError."""
    _replace(target, io.BytesIO(content))


def _replace(target: Path, content: BinaryIO) -> None:
    part = target.with_name(f".{target.name}.{uuid.uuid4().hex}.tmp")
    make_directory(target.parent)
    try:
        with part.open("xb") as file:
            shutil.copyfileobj(content, file, _COPIED)
            file.flush()
            os.fsync(file.fileno())
        part.replace(target)
    except BaseException:
        part.unlink(missing_ok=True)
        raise
    sync_directory(target.parent)


def link(source: Path, target: Path) -> None:
    """Give a file that is never changed a second name, as ``files.link``; copy it where it cannot have one."""
    make_directory(target.parent)
    try:
        with suppress(FileExistsError):  # a writer that was killed, or is at it too, has given it the same name
            os.link(source, target)
        os.utime(target)  # files that no commit names are removed by their age
    except OSError as error:
        if error.errno not in _NO_LINK:
            raise
        with source.open("rb") as content:
            _replace(target, content)
    sync_directory(target.parent)


def write_all(folder: Path, contents: Mapping[str, bytes]) -> None:
    """Write new files into a folder, as ``files.write_all``; it is synced once. Raises FileExistsError, OSError."""
    make_directory(folder)
    for name, content in contents.items():
        with (folder / name).open("xb") as sink:
            sink.write(content)
            sink.flush()
            os.fsync(sink.fileno())
    sync_directory(folder)


def make_directory(folder: Path) -> None:
    """Make a directory with those above it, durably."""
    absent = [parent for parent in (folder, *folder.parents) if not parent.exists()]
    folder.mkdir(parents=True, exist_ok=True)
    for folder_path in reversed(absent):
        sync_directory(folder_path.parent)


def _sync_above(folder: Path) -> None:
    """Make the names of a directory and of those above it durable, whoever made them.

    Another writer may have made them and not have come to that: what is committed in them would go with them.
    """
    for directory in (folder, *folder.parents):
        inode = directory.stat().st_ino
        if _durable_inodes.get(directory) == inode:
            continue
        if directory.is_mount():
            return
        with suppress(PermissionError):  # a directory that others own was there before
            sync_directory(directory.parent)
        _durable_inodes[directory] = inode


@contextmanager
def durable(file: Path) -> Iterator[BinaryIO]:
    """A new file, whose content and names are durable after the ``with`` block. Raises FileExistsError, OSError."""
    make_directory(file.parent)
    with file.open("xb") as sink:
        yield sink
        sink.flush()
        os.fsync(sink.fileno())
    sync_directory(file.parent)


def names(folder: Path) -> list[str] | None:
    """The names in a folder; None where there is no folder. Raises OSError."""
    try:
        return [entry.name for entry in os.scandir(folder)]
    except (FileNotFoundError, NotADirectoryError):
        return None


def walk(folder: Path) -> Iterator[tuple[str, float]]:
    """Files in and below a folder, as ``files.walk``. A file that goes meanwhile is left out. Raises OSError."""
    for parent, _, file_names in os.walk(folder, onerror=_raise):
        for name in file_names:
            file = Path(parent, name)
            with suppress(FileNotFoundError):
                yield file.relative_to(folder).as_posix(), file.stat().st_mtime


def _raise(error: OSError) -> None:
    raise error


def age(file: Path) -> float:
    """Seconds since a file was written. Raises OSError."""
    return time.time() - file.stat().st_mtime


def mark(file: Path) -> tuple[int, ...] | None:
    """Mark of a file's present content, as ``files.mark``; None where there is no file. Raises OSError."""
    try:
        found = file.stat()
    except (FileNotFoundError, NotADirectoryError):
        return None
    return found.st_ino, found.st_size, found.st_mtime_ns


def sync_file(file: Path) -> None:
    """Make what a file holds durable."""
    with file.open("rb") as opened:
        os.fsync(opened.fileno())


def sync_directory(folder: Path) -> None:
    """Make the names of a directory durable."""
    handle = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(handle)
    except OSError as error:
        if error.errno not in _NO_DIRECTORY_SYNC:
            raise
    finally:
        os.close(handle)
