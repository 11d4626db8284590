"""Opening files that may be compressed, by the suffix of their name."""

import bz2
import gzip
import lzma
import os
import zlib
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import PurePath
from typing import BinaryIO, cast

from rankwise.core.errors import DataFileError
from rankwise.io.atomic import replacing

_COMPRESSED = {".gz", ".xz", ".bz2"}
_GZIP_LEVEL = 6  # as the gzip program; Python's 9 takes three times as long for a few per cent


def format_suffix(path: str | os.PathLike[str]) -> str:
    """Return the suffix that tells the format, without that of the compression: ``.csv``."""
    name = PurePath(path)
    if name.suffix.lower() in _COMPRESSED:
        name = name.with_suffix("")
    return name.suffix.lower()


@contextmanager
def open_read(path: str | os.PathLike[str]) -> Iterator[BinaryIO]:
    """Open a plain, .gz, .xz or .bz2 file for reading bytes.

    Whatever shows inside the block that the compressed data are damaged or cut short becomes a
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
            if error.errno is not None:  # the system's own trouble, not the data's
                raise
            raise _damaged(path, suffix, error) from error


@contextmanager
def open_write(path: str | os.PathLike[str]) -> Iterator[BinaryIO]:
    """Open a plain, .gz, .xz or .bz2 file for writing bytes, all or nothing.

    The same content always gives the same bytes: no name and no time is stored.
    """
    suffix = PurePath(path).suffix.lower()
    with replacing(path) as new, open(new, "wb") as raw:
        if suffix not in _COMPRESSED:
            yield raw
            return
        with _compressed(raw, suffix) as stream:
            yield stream


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
        f"({error}). Fetch or compress it again."
    )
