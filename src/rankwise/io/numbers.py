"""Compiled reading of numbers in text: decimal numbers exactly as ``float`` does, and integers.

A decimal number of at most 19 significant digits is ``w * 10**q`` with ``w`` below 2**64. Small
``w`` and ``q`` need one exact multiplication or division (Clinger); the others a 128-bit product
with a table of powers of five (Eisel and Lemire). Longer numbers are left to ``float``.

Numba's cache does not see through imports: after a change here, empty ``__pycache__``.
"""

import os
from typing import Any

import numpy as np
from numpy.typing import NDArray

from rankwise.core.compile import CALLED_BY_KERNELS, MAKES_NO_ARRAYS, njit
from rankwise.core.errors import DataFileError

OK, LONG, MALFORMED = 0, 1, 2  # what `parse_number` found

_SMALLEST, _LARGEST = -342, 308  # powers of ten outside give 0 or infinity for every w < 2**64
_MAX_DIGITS = 19  # 10**19 < 2**64
MAX_INTEGER_DIGITS = 18  # every such number fits in 64 bits
_NO_EXPONENT = 1 << 40
_EXPONENT_CAP = 1 << 30  # more than the digits of any text that fits in memory can offset
_EXACT = 22  # 10**22 is the largest power of ten that is a double

_U0, _U1, _U9, _U10 = np.uint64(0), np.uint64(1), np.uint64(9), np.uint64(10)
_U3, _U52, _U63, _U64 = np.uint64(3), np.uint64(52), np.uint64(63), np.uint64(64)
_U32, _LOW32 = np.uint64(32), np.uint64(0xFFFFFFFF)
_TWO53 = np.uint64(2**53)
_ROUNDING_BITS = np.uint64(2**9 - 1)  # the bits of the product's high word below the 55 needed
_HIDDEN_BIT = np.uint64(2**52)
_INFINITE = np.uint64(0x7FF)

_ZERO = np.uint64(ord("0"))
_PLUS, _MINUS, _POINT = ord("+"), ord("-"), ord(".")
_LOWER_E, _UPPER_E = ord("e"), ord("E")


def _leading_bits_of_five_to(q: int) -> int:
    """Return 5**q scaled by a power of two to 128 bits, cut off (rounded up for -27 <= q < 0)."""
    power = 5 ** abs(q)
    n_bits = power.bit_length()
    if q >= 0:
        return (power << 128) >> n_bits
    return (1 << (n_bits + 127)) // power + (q >= -27)


_FIVES = [_leading_bits_of_five_to(q) for q in range(_SMALLEST, _LARGEST + 1)]
_FIVE_HIGH = np.array([bits >> 64 for bits in _FIVES], dtype=np.uint64)
_FIVE_LOW = np.array([bits & (2**64 - 1) for bits in _FIVES], dtype=np.uint64)
_TEN = np.array([float(10**q) for q in range(_EXACT + 1)])


@njit(**MAKES_NO_ARRAYS)
def parse_number(text: Any, pos: Any) -> Any:
    """Read the number at ``pos``; return it, the position after it and what was found.

    ``text`` must end in a byte that cannot belong to a number. Only a sign, digits, one point and
    one exponent are accepted: ``nan``, ``inf``, hexadecimals and ``1_000`` are malformed.
    """
    negative = text[pos] == _MINUS
    if negative or text[pos] == _PLUS:
        pos += _U1
    first = pos
    w, n_digits, pos = _parse_digits(text, pos, _U0, 0)
    found = pos - first
    q: Any = 0
    if text[pos] == _POINT:
        first = pos + _U1
        w, n_digits, pos = _parse_digits(text, first, w, n_digits)
        found += pos - first
        q = -np.int64(pos - first)
    if found == _U0:
        return 0.0, pos, MALFORMED
    if text[pos] == _LOWER_E or text[pos] == _UPPER_E:
        exponent, pos = _parse_exponent(text, pos + _U1)
        if exponent == _NO_EXPONENT:
            return 0.0, pos, MALFORMED
        q += exponent
    if n_digits > _MAX_DIGITS:
        return 0.0, pos, LONG
    return _nearest_double(negative, w, q), pos, OK


@njit(**CALLED_BY_KERNELS)
def _parse_digits(text: Any, pos: Any, w: Any, n_digits: Any) -> Any:
    """Append the digits at ``pos`` to ``w``, counting from the first that is not 0."""
    digit = np.uint64(text[pos]) - _ZERO
    while digit <= _U9:
        n_digits += (w | digit) != _U0
        w = w * _U10 + digit
        pos += _U1
        digit = np.uint64(text[pos]) - _ZERO
    return w, n_digits, pos


@njit(**CALLED_BY_KERNELS)
def _parse_exponent(text: Any, pos: Any) -> Any:
    negative = text[pos] == _MINUS
    if negative or text[pos] == _PLUS:
        pos += _U1
    first = pos
    exponent: Any = 0
    digit = np.uint64(text[pos]) - _ZERO
    while digit <= _U9:
        exponent = min(exponent * 10 + np.int64(digit), _EXPONENT_CAP)
        pos += _U1
        digit = np.uint64(text[pos]) - _ZERO
    if pos == first:
        return _NO_EXPONENT, pos
    return (-exponent if negative else exponent), pos


@njit(**CALLED_BY_KERNELS)
def _nearest_double(negative: Any, w: Any, q: Any) -> Any:
    """Round ``w * 10**q`` to the nearest double, ties to even."""
    if w <= _TWO53 and -_EXACT <= q <= _EXACT:  # both factors exact: one correct rounding
        value = np.float64(w)
        value = value / _TEN[-q] if q < 0 else value * _TEN[q]
        return -value if negative else value
    if w == _U0 or q < _SMALLEST:
        bits = _U0
    elif q > _LARGEST:
        bits = _INFINITE << _U52
    else:
        bits = _eisel_lemire(w, q)
    sign = _U1 << _U63 if negative else _U0
    return np.uint64(bits | sign).view(np.float64)


@njit(**CALLED_BY_KERNELS)
def _eisel_lemire(w: Any, q: Any) -> Any:
    """Return the bits of the double nearest to ``w * 10**q``, for w > 0.

    Lemire, "Number parsing at a gigabyte per second" (2021), algorithm 1; Mushtak and Lemire, "Fast
    number parsing without fallback" (2023), show that it never needs more than 128 bits.
    """
    n_leading_zeros = _leading_zeros(w)
    w = w << n_leading_zeros
    high, low = _wide_product(w, _FIVE_HIGH[q - _SMALLEST])
    if high & _ROUNDING_BITS == _ROUNDING_BITS:  # the rest of the power may carry
        carry, _ = _wide_product(w, _FIVE_LOW[q - _SMALLEST])
        low += carry
        if low < carry:
            high += _U1
    top = high >> _U63
    mantissa = high >> (top + _U9)  # 54 bits: 53 and one to round
    exponent = ((217706 * q) >> 16) + 63 + np.int64(top) - np.int64(n_leading_zeros) + 1023
    if exponent <= 0:
        return _subnormal(mantissa, exponent)
    halfway = low <= _U1 and -4 <= q <= 23 and mantissa & _U3 == _U1
    if halfway and mantissa << (top + _U9) == high:
        mantissa -= _U1  # a true tie goes to the even neighbour
    mantissa = (mantissa + (mantissa & _U1)) >> _U1
    if mantissa == _TWO53:
        mantissa, exponent = _HIDDEN_BIT, exponent + 1
    if exponent >= 0x7FF:
        return _INFINITE << _U52
    return (mantissa - _HIDDEN_BIT) | (np.uint64(exponent) << _U52)


@njit(**CALLED_BY_KERNELS)
def _subnormal(mantissa: Any, exponent: Any) -> Any:
    """Round below the smallest normal double; rounding up to that one gives its bits as well."""
    shift = np.uint64(1 - exponent)
    if shift >= _U64:
        return _U0
    mantissa = mantissa >> shift
    return (mantissa + (mantissa & _U1)) >> _U1


@njit(**CALLED_BY_KERNELS)
def _leading_zeros(w: Any) -> Any:
    n_zeros = _U0
    step = _U32
    while step != _U0:
        if w >> (_U64 - step) == _U0:
            w = w << step
            n_zeros += step
        step = step >> _U1
    return n_zeros


@njit(**CALLED_BY_KERNELS)
def _wide_product(a: Any, b: Any) -> Any:
    """Multiply two 64-bit numbers; return the high and the low half of the product."""
    a_high, a_low = a >> _U32, a & _LOW32
    b_high, b_low = b >> _U32, b & _LOW32
    low = a_low * b_low
    mid = a_high * b_low + (low >> _U32)
    cross = a_low * b_high + (mid & _LOW32)
    high = a_high * b_high + (mid >> _U32) + (cross >> _U32)
    return high, (cross << _U32) | (low & _LOW32)


@njit(**MAKES_NO_ARRAYS)
def parse_integers(text: Any, spans: Any, out: Any) -> Any:
    """Read each span as an integer; return False when one is not written as Python prints it.

    ``007`` and ``+7`` are refused, so that different texts never become equal numbers.
    """
    for row in range(len(spans)):
        pos, stop = np.uint64(spans[row, 0]), np.uint64(spans[row, 1])
        negative = pos < stop and text[pos] == _MINUS
        if negative:
            pos += _U1
        n_digits = np.int64(stop) - np.int64(pos)
        if n_digits < 1 or n_digits > MAX_INTEGER_DIGITS:
            return False
        if np.uint64(text[pos]) == _ZERO and (n_digits > 1 or negative):
            return False
        value: Any = 0
        while pos < stop:
            digit = np.uint64(text[pos]) - _ZERO
            if digit > _U9:
                return False
            value = value * 10 + np.int64(digit)
            pos += _U1
        out[row] = -value if negative else value
    return True


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
"""What `parse_number` reads, as a pattern."""


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
