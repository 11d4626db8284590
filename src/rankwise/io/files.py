"""Open files, compressed or not by their suffix; write them all or nothing."""

import bz2
import gzip
import lzma
import os
import secrets
import zlib
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path, PurePath
from typing import BinaryIO, cast

from rankwise.core.errors import DataFileError

_COMPRESSED = {".gz", ".xz", ".bz2"}
_GZIP_LEVEL = 6  # gzip's default; Python's 9 takes three times as long to save a few per cent


def format_suffix(path: str | os.PathLike[str]) -> str:
    """Return the suffix of the format, such as ``.csv``, without that of the compression."""
    name = PurePath(path)
    if name.suffix.lower() in _COMPRESSED:
        name = name.with_suffix("")
    return name.suffix.lower()


@contextmanager
def open_read(path: str | os.PathLike[str]) -> Iterator[BinaryIO]:
    """Open a plain, .gz, .xz or .bz2 file for reading bytes.

    Compressed data that turn out to be damaged or cut short inside the block raise a
    `DataFileError` that names the file.
    """
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
    """Open a plain, .gz, .xz or .bz2 file for writing bytes, all or nothing.

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
    is either the old file or the new one. When the block fails, the old file stays as it was and
    the new one is removed. Links are followed; devices and pipes are written in place.

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
    target = Path(os.path.realpath(path))
    if target.exists() and not target.is_file():
        yield target
        return
    new = target.with_name(f".{target.name}.{secrets.token_hex(4)}.part")
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
