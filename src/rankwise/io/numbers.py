"""Numbers and ids in text, and the errors that quote it."""

import os
from typing import Any

import numpy as np
from numpy.typing import NDArray

from rankwise.core.errors import DataFileError
from rankwise.native.svmlight import parse_integers

MAX_INTEGER_DIGITS = 18
"""Digits of an id that is read as an integer: every such number fits in 64 bits."""

BYTE_ORDER_MARK = b"\xef\xbb\xbf"  # some programs write it before UTF-8

_SHOWN = 40  # characters of a bad piece that an error quotes


def bad_line(path: str | os.PathLike[str], line: int, expected: str, got: str) -> DataFileError:
    """Build the error for a bad line: its place, what was expected and what was found."""
    return DataFileError(f"{os.fspath(path)}, line {line}: expected {expected}, got {quoted(got)}.")


def quoted(piece: str) -> str:
    """Show the beginning of a bad piece."""
    if not piece:
        return "nothing"
    return repr(piece if len(piece) <= _SHOWN else piece[:_SHOWN] + "...")


def decode(piece: bytes) -> str:
    """Decode UTF-8; invalid bytes become escapes, which keeps different ids apart."""
    return piece.decode("utf-8", errors="backslashreplace")


def texts_at(text: bytes, spans: NDArray[np.int64]) -> list[str]:
    """Cut the spans (n, 2) out of the text."""
    return [decode(text[start:stop]) for start, stop in spans.tolist()]


def ids_at(text: bytes, spans: NDArray[np.int64]) -> NDArray[Any]:
    """Return the ids at the spans: 64-bit integers when all are written as such, else strings."""
    numbers = np.empty(len(spans), dtype=np.int64)
    if parse_integers(np.frombuffer(text, dtype=np.uint8), spans, numbers):
        return numbers
    return np.array(texts_at(text, spans))


PLAIN_NUMBER = rb"[+-]?(?:\d+(?:\.\d*)?|\.\d+)(?:[eE][+-]?\d+)?"
"""A decimal number: neither ``nan`` nor ``inf`` nor ``1_000``, which ``float`` reads as well."""


def integers_or_texts(words: list[str]) -> NDArray[Any]:
    """Return ids as `ids_at` does: integers when all words are what Python prints for them."""
    try:
        numbers = [int(word) for word in words]
    except ValueError:
        return np.array(words)
    written = all(
        str(number) == word and len(word.lstrip("-")) <= MAX_INTEGER_DIGITS
        for number, word in zip(numbers, words, strict=True)
    )
    return np.array(numbers, dtype=np.int64) if written else np.array(words)


def join_ids(parts: list[NDArray[Any]]) -> NDArray[Any]:
    """Join what `ids_at` made of several texts, as strings when one of them holds strings."""
    if any(part.dtype != np.int64 for part in parts):
        parts = [part.astype(str) for part in parts]
    return np.concatenate(parts)
