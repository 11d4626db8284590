"""Numbers in text are read exactly as Python's float reads them."""

import math
import struct
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from rankwise.native import svmlight

OK, LONG, MALFORMED = range(3)


def parse(text):
    """Return the number and what was found, for a text that is the value of a feature."""
    line = np.frombuffer(f"0 1:{text}\n".encode(), np.uint8)
    values, spans, numbers = np.empty(line.size), np.empty((9, 2), np.int64), np.empty(9, np.int64)
    room = np.empty(1), numbers[:2], np.empty(line.size, np.int32), values, spans, spans.copy()
    long = np.empty((9, 3), np.int64)
    found = svmlight.parse_lines(line, math.inf, *room, numbers[2:], long)
    _, _, n_long, _, code, _ = found
    if code != svmlight.OK:
        assert code == svmlight.BAD_VALUE
        return math.nan, MALFORMED
    if n_long:
        assert long[0].tolist() == [0, 4, line.size - 1]
    return values[0], LONG if n_long else OK


def bits(value):
    return struct.pack("<d", value)


def assert_read_as_float_does(text):
    value, status = parse(text)
    if status != LONG:
        assert status == OK
        assert bits(value) == bits(float(text))


finite = st.floats(allow_nan=False, allow_infinity=False)
any_bits = st.integers(0, 2**64 - 1).map(lambda n: struct.unpack("<d", struct.pack("<Q", n))[0])


@settings(deadline=None, max_examples=500)
@given(finite | any_bits.filter(math.isfinite))
@example(-0.0)
@example(5e-324)
@example(2.2250738585072014e-308)
@example(1.7976931348623157e308)
def test_written_doubles_are_read_back_bit_for_bit(value):
    for text in [repr(value), f"{value:.17g}", f"{value:.18e}", f"{value:.6f}", f"{value:.3e}"]:
        assert_read_as_float_does(text)


@settings(deadline=None, max_examples=500)
@given(st.integers(0, 10**19 - 1), st.integers(-400, 400))
@example(2470328229206232720, -342)  # half of the smallest subnormal, and a little more
@example(2470328229206232721, -342)
@example(1797693134862315807, 290)  # the last that rounds down to the largest double
@example(1797693134862315808, 290)  # rounds to infinity
@example(22250738585072011, -324)  # a subnormal that once hung other readers
@example(9007199254740993, 0)  # ties
@example(9007199254740993, 22)
@example(1, 23)
def test_any_digits_and_exponent_are_rounded_to_nearest(w, q):
    assert_read_as_float_does(f"{w}e{q}")


@settings(deadline=None, max_examples=500)
@given(st.integers(2**52, 2**53 - 1), st.integers(-4, 10))
def test_exact_ties_go_to_even(mantissa, shift):
    tie = Fraction(2 * mantissa + 1) * Fraction(2) ** (shift - 1)
    digits, q = tie.numerator, 0
    while Fraction(digits) * Fraction(10) ** q != tie:
        q -= 1
        digits = int(tie * 10**-q)
    assert_read_as_float_does(f"{digits}e{q}")


@settings(deadline=None, max_examples=300)
@given(
    st.from_regex(
        r"[-+]?([0-9]{1,30}\.?[0-9]{0,30}|\.[0-9]{1,30})([eE][-+]?[0-9]{1,5})?", fullmatch=True
    )
)
@example("18446744073709551616")  # 2**64, where the digits wrap around
@example("0.00018446744073709551616")
@example("-0e999999999999999999999")
@example("1e-999999999999999999999")
@example("000000000000000000000000000001.5")
def test_any_spelling_is_read_or_left_to_float(text):
    assert_read_as_float_does(text)


def test_more_than_19_digits_are_left_to_float():
    assert parse("1" * 19)[1] == OK
    assert parse("1" * 20)[1] == LONG
    assert parse("0." + "0" * 30 + "1" * 19)[1] == OK
    assert parse("0.1" + "0" * 19)[1] == LONG


@pytest.mark.parametrize(
    "text",
    [
        "",
        "-",
        "+",
        ".",
        "e5",
        "1e",
        "1e+",
        "nan",
        "inf",
        "-inf",
        "--1",
        "1_000",
        "0x10",
        "1.5.2",
        "1e5e5",
    ],
)
def test_what_is_no_decimal_number_is_malformed(text):
    assert parse(text)[1] == MALFORMED


def test_numbers_beyond_the_doubles_become_infinite_or_zero():
    assert parse("1e309")[0] == math.inf
    assert parse("-1e400")[0] == -math.inf
    assert bits(parse("-1e-400")[0]) == bits(-0.0)
