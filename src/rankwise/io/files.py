"""Open files, compressed or not by their suffix; write them all or nothing."""

import bz2
import ctypes
import errno
import gzip
import hashlib
import lzma
import os
import secrets
import shutil
import socket
import stat
import sys
import tempfile
import zlib
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path, PurePath
from typing import BinaryIO, cast

from rankwise.core.errors import DataFileError

_COMPRESSED = {".gz", ".xz", ".bz2"}
_GZIP_LEVEL = 6  # gzip's default; Python's 9 takes three times as long to save a few per cent


_PLACES_OF_STREAMS = ("/dev/", "/proc/")  # links there stand for open files: not to be replaced


def as_path(path: object) -> str | os.PathLike[str]:
    """Return a path; refuse everything else, numbers of open files too."""
    if isinstance(path, str | os.PathLike):
        return path
    raise DataFileError(f"Expected the path of a file, got {type(path).__name__}.")


def is_stream(path: str | os.PathLike[str]) -> bool:
    """Return whether a path is a pipe or a device, which is read and written once."""
    try:
        mode = os.stat(as_path(path)).st_mode
    except OSError:
        return False
    except ValueError as error:
        raise DataFileError(f"Expected the path of a file, got {path!r}: {error}.") from error
    return not (stat.S_ISREG(mode) or stat.S_ISDIR(mode))


def refuse_stream(path: str | os.PathLike[str], task: str) -> None:
    """Refuse a pipe where a file is read more than once."""
    if is_stream(path):
        raise DataFileError(
            f"{os.fspath(path)}: expected a file to {task}, which reads it more than once, got a "
            "pipe. Save the data to a file first."
        )


def refuse_unwritable(path: str | os.PathLike[str]) -> None:
    """Raise the system's error that writing this file would cause, before any work is done.

    Nothing is written. A disk that fills up later is not detected.
    """
    if os.path.isdir(path):
        raise IsADirectoryError(errno.EISDIR, os.strerror(errno.EISDIR), os.fspath(path))
    target = os.path.realpath(path)
    folder = os.path.dirname(target)
    if not os.path.isdir(folder):
        raise FileNotFoundError(errno.ENOENT, os.strerror(errno.ENOENT), folder)
    place = path if _is_written_through(path) else folder
    if not os.access(place, os.W_OK):
        raise PermissionError(errno.EACCES, os.strerror(errno.EACCES), os.fspath(place))


def format_suffix(path: str | os.PathLike[str]) -> str:
    """Return the suffix of the format, such as ``.csv``, without that of the compression."""
    name = PurePath(as_path(path))
    if name.suffix.lower() in _COMPRESSED:
        name = name.with_suffix("")
    return name.suffix.lower()


@contextmanager
def open_read(path: str | os.PathLike[str]) -> Iterator[BinaryIO]:
    """Open a plain, .gz, .xz or .bz2 file for reading bytes.

    Compressed data that are damaged or truncated raise a `DataFileError` that names the file.
    """
    is_stream(path)  # refuses what is no path
    suffix = PurePath(path).suffix.lower()
    with open(path, "rb") as raw:
        if suffix not in _COMPRESSED:
            yield raw
            return
        try:
            with _decompressed(raw, suffix) as stream:
                yield stream
        except (EOFError, lzma.LZMAError, zlib.error) as error:
            raise _damaged(path, suffix, error) from error
        except OSError as error:
            if error.errno is not None:  # an error of the system, not in the data
                raise
            raise _damaged(path, suffix, error) from error


@contextmanager
def open_write(path: str | os.PathLike[str]) -> Iterator[BinaryIO]:
    """Open a plain, .gz, .xz or .bz2 file for writing bytes atomically.

    The same content always gives the same bytes: no name or time is stored.
    """
    suffix = PurePath(path).suffix.lower()
    with replacing(path) as new, open(new, "wb") as raw:
        if suffix not in _COMPRESSED:
            yield raw
            return
        with _compressed(raw, suffix) as stream:
            yield stream


@contextmanager
def replacing(path: str | os.PathLike[str]) -> Iterator[Path]:
    """Yield an empty file next to ``path`` that replaces it when the block succeeds.

    The new content is flushed to disk before the rename, so that after a crash at any moment there
    is either the old file or the new one. If the block fails, the old file stays as it was and
    the new one is removed. Leftovers of a killed process are removed by the next one that writes
    the same file. Links are followed. Devices and pipes are never replaced: the new content is
    copied to them when it is complete.

    Parameters
    ----------
    path : str or path
        The file to create or to replace.

    Examples
    --------
    >>> import pathlib, tempfile
    >>> from rankwise.io.files import replacing
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     path = pathlib.Path(folder, "note.txt")
    ...     with replacing(path) as new:
    ...         _ = new.write_text("all or nothing")
    ...     path.read_text()
    'all or nothing'
    """
    if _is_written_through(path):
        with _copied_to(path) as new:
            yield new
        return
    refuse_unwritable(path)
    target = Path(os.path.realpath(path))
    _remove_leftovers(target)
    new = target.with_name(f".{target.name}.{_owner()}.{os.getpid()}.{secrets.token_hex(4)}.part")
    new.touch(exist_ok=False)
    mode = (target if target.exists() else new).stat().st_mode
    try:
        yield new
        new.chmod(mode)  # a writer may have replaced the empty file by its own
        with new.open("r+b") as stream:
            os.fsync(stream.fileno())
        os.replace(new, target)
    except BaseException:
        with suppress(FileNotFoundError):
            new.unlink()
        raise


def _is_written_through(path: str | os.PathLike[str]) -> bool:
    named = os.fspath(path)
    is_open = isinstance(named, str) and named.startswith(_PLACES_OF_STREAMS)
    return is_stream(path) or (is_open and os.path.exists(path))


@contextmanager
def _copied_to(path: str | os.PathLike[str]) -> Iterator[Path]:
    """Yield a temporary file whose content is finally copied to a device or a pipe."""
    with tempfile.TemporaryDirectory(prefix="rankwise-") as folder:
        new = Path(folder, "content")
        new.touch()
        yield new
        with new.open("rb") as content, open(path, "wb") as stream:
            shutil.copyfileobj(content, stream)


def _owner() -> str:
    """Return a key that is equal for processes whose ids are comparable with ours."""
    try:
        space = os.readlink("/proc/self/ns/pid")
    except OSError:
        space = ""
    return hashlib.sha256(f"{socket.gethostname()} {space}".encode()).hexdigest()[:8]


def _remove_leftovers(target: Path) -> None:
    """Remove unfinished files for the same target whose processes are gone."""
    prefix = f".{target.name}.{_owner()}."
    for entry in os.scandir(target.parent):
        name = entry.name
        if name.startswith(prefix) and name.endswith(".part"):
            number = name.removeprefix(prefix).split(".")[0]
            if number.isdecimal() and not _is_running(int(number)):
                with suppress(OSError):
                    os.unlink(entry.path)


def _is_running(process: int) -> bool:
    """Return whether a process exists, or may exist."""
    if sys.platform == "win32":  # where os.kill would end it, or everything in its console
        synchronize, invalid_parameter, timeout = 0x00100000, 87, 0x102
        if process >= 1 << 32:
            return False
        kernel = ctypes.WinDLL("kernel32", use_last_error=True)
        kernel.OpenProcess.restype = ctypes.c_void_p
        handle = kernel.OpenProcess(synchronize, False, process)
        if not handle:  # there is none of this number, or it is somebody else's
            return ctypes.get_last_error() != invalid_parameter
        handle = ctypes.c_void_p(handle)
        is_running = kernel.WaitForSingleObject(handle, 0) == timeout
        kernel.CloseHandle(handle)
        return bool(is_running)
    try:
        os.kill(process, 0)
    except ProcessLookupError:
        return False
    except (OSError, OverflowError):
        return True
    return True


def _decompressed(raw: BinaryIO, suffix: str) -> BinaryIO:
    if suffix == ".gz":
        return cast(BinaryIO, gzip.GzipFile(fileobj=raw, mode="rb"))
    if suffix == ".xz":
        return cast(BinaryIO, lzma.LZMAFile(raw, "rb"))
    return cast(BinaryIO, bz2.BZ2File(raw, "rb"))


def _compressed(raw: BinaryIO, suffix: str) -> BinaryIO:
    if suffix == ".gz":
        stream = gzip.GzipFile("", "wb", compresslevel=_GZIP_LEVEL, fileobj=raw, mtime=0)
        return cast(BinaryIO, stream)
    if suffix == ".xz":
        return cast(BinaryIO, lzma.LZMAFile(raw, "wb"))
    return cast(BinaryIO, bz2.BZ2File(raw, "wb"))


def _damaged(path: str | os.PathLike[str], suffix: str, error: Exception) -> DataFileError:
    return DataFileError(
        f"{os.fspath(path)}: expected a whole {suffix} file, got one that is damaged or cut short "
        f"({error}). Download or compress it again."
    )
