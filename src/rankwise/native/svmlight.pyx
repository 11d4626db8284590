"""Parse text (svmlight, tables, JSON) into arrays: decimal numbers exactly as ``float`` reads them.

A decimal number of at most 19 significant digits is ``w * 10**q`` with ``w`` below 2**64. Small
``w`` and ``q`` need one exact multiplication or division (Clinger); the others a 128-bit product
with a table of powers of five (Eisel and Lemire). Longer numbers are left to ``float``.
"""

from libc.math cimport fabs, isfinite
from libc.stdint cimport int32_t as i32, int64_t as i64, uint8_t as u8, uint64_t as u64
from libc.string cimport memchr

cdef extern from *:
    """
    #include <stdint.h>
    #include <string.h>
    #if defined(__SIZEOF_INT128__)
    static inline int leading_zeros(uint64_t w) { return __builtin_clzll(w); }
    static inline void wide_product(uint64_t a, uint64_t b, uint64_t *high, uint64_t *low) {
        unsigned __int128 product = (unsigned __int128)a * b;
        *high = (uint64_t)(product >> 64);
        *low = (uint64_t)product;
    }
    #else
    static inline int leading_zeros(uint64_t w) {
        int n_zeros = 0;
        for (int step = 32; step; step >>= 1)
            if (w >> (64 - step) == 0) { w <<= step; n_zeros += step; }
        return n_zeros;
    }
    static inline void wide_product(uint64_t a, uint64_t b, uint64_t *high, uint64_t *low) {
        uint64_t a_high = a >> 32, a_low = (uint32_t)a, b_high = b >> 32, b_low = (uint32_t)b;
        uint64_t lowest = a_low * b_low, middle = a_high * b_low + (lowest >> 32);
        uint64_t cross = a_low * b_high + (uint32_t)middle;
        *high = a_high * b_high + (middle >> 32) + (cross >> 32);
        *low = (cross << 32) | (uint32_t)lowest;
    }
    #endif
    static inline double double_of(uint64_t bits) {
        double value;
        memcpy(&value, &bits, 8);
        return value;
    }
    """
    int leading_zeros(u64 w) noexcept nogil  # of a number above 0
    void wide_product(u64 a, u64 b, u64 *high, u64 *low) noexcept nogil
    double double_of(u64 bits) noexcept nogil

# what `parse_lines` met
OK, BAD_TARGET, BAD_QID, BAD_FEATURE, BAD_VALUE = range(5)

cdef enum:  # the same in C
    FINE = 0
    WRONG_TARGET = 1
    WRONG_QID = 2
    WRONG_FEATURE = 3
    WRONG_VALUE = 4

cdef enum:  # what `parse_number` found
    READ = 0
    LONG = 1
    MALFORMED = 2

cdef enum:
    SMALLEST = -342  # powers of ten below give 0, those above the largest infinity, for every w
    LARGEST = 308
    N_POWERS = 651
    EXACT = 22  # 10**22 is the largest power of ten that is a double
    MAX_DIGITS = 19  # 10**19 < 2**64
    MAX_INTEGER_DIGITS = 18  # every such number fits in 64 bits
    EXPONENT_CAP = 1 << 30  # more than the digits of any text that fits in memory can offset
    MAX_FEATURE = 2147483647

cdef u64 FIVE_HIGH[N_POWERS]
cdef u64 FIVE_LOW[N_POWERS]
cdef double TEN[EXACT + 1]


def _fill_tables():
    """Fill in the powers: 5**q scaled to 128 bits, cut off (rounded up for -27 <= q < 0)."""
    for q in range(SMALLEST, LARGEST + 1):
        power = 5 ** abs(q)
        n_bits = power.bit_length()
        bits = (power << 128) >> n_bits if q >= 0 else (1 << (n_bits + 127)) // power + (q >= -27)
        FIVE_HIGH[q - SMALLEST] = bits >> 64
        FIVE_LOW[q - SMALLEST] = bits & (2**64 - 1)
    for q in range(EXACT + 1):
        TEN[q] = float(10**q)


_fill_tables()


# Numbers


cdef u64 eisel_lemire(u64 w, i64 q) noexcept nogil:
    """Return the bits of the double nearest to ``w * 10**q``, for w > 0.

    Lemire, "Number parsing at a gigabyte per second" (2021), algorithm 1; Mushtak and Lemire, "Fast
    number parsing without fallback" (2023), show that it never needs more than 128 bits.
    """
    cdef u64 high, low, carry, rest, top, mantissa, shift
    cdef i64 exponent
    cdef int n_zeros = leading_zeros(w)
    w <<= n_zeros
    wide_product(w, FIVE_HIGH[q - SMALLEST], &high, &low)
    if (high & 0x1FF) == 0x1FF:  # the rest of the power may carry
        wide_product(w, FIVE_LOW[q - SMALLEST], &carry, &rest)
        low += carry
        if low < carry:
            high += 1
    top = high >> 63
    mantissa = high >> (top + 9)  # 54 bits: 53 and one to round
    exponent = ((217706 * q) >> 16) + 63 + <i64>top - n_zeros + 1023
    if exponent <= 0:
        # below the smallest normal double; rounding up to that one gives its bits as well
        shift = 1 - exponent
        if shift >= 64:
            return 0
        mantissa >>= shift
        return (mantissa + (mantissa & 1)) >> 1
    # a true tie goes to the even neighbour
    if low <= 1 and -4 <= q <= 23 and (mantissa & 3) == 1 and mantissa << (top + 9) == high:
        mantissa -= 1
    mantissa = (mantissa + (mantissa & 1)) >> 1
    if mantissa == (<u64>1 << 53):
        mantissa = <u64>1 << 52
        exponent += 1
    if exponent >= 0x7FF:
        return <u64>0x7FF << 52
    return (mantissa - (<u64>1 << 52)) | (<u64>exponent << 52)


cdef inline double nearest_double(bint negative, u64 w, i64 q) noexcept nogil:
    """Round ``w * 10**q`` to the nearest double, ties to even."""
    cdef double value
    cdef u64 bits
    if w <= (<u64>1 << 53) and -EXACT <= q <= EXACT:  # both factors exact: one correct rounding
        value = <double>w
        value = value / TEN[-q] if q < 0 else value * TEN[q]
        return -value if negative else value
    if w == 0 or q < SMALLEST:
        bits = 0
    elif q > LARGEST:
        bits = <u64>0x7FF << 52
    else:
        bits = eisel_lemire(w, q)
    return double_of(bits | (<u64>negative << 63))


cdef inline const u8 *parse_digits(const u8 *pos, u64 *w, i64 *n_digits) noexcept nogil:
    """Append digits to ``w``, counting from the first that is not 0; return the end."""
    cdef u64 digit = <u64>pos[0] - c'0'
    while digit <= 9:
        n_digits[0] += (w[0] | digit) != 0
        w[0] = w[0] * 10 + digit
        pos += 1
        digit = <u64>pos[0] - c'0'
    return pos


cdef inline int parse_number(const u8 **at, double *value) noexcept nogil:
    """Read the number at a position, which moves behind it; return what was found.

    The text must end in a byte that cannot belong to a number. Only a sign, digits, one point and
    one exponent are accepted: ``nan``, ``inf``, hexadecimals and ``1_000`` are malformed.
    """
    cdef const u8 *pos = at[0]
    cdef const u8 *first
    cdef bint negative = pos[0] == c'-', minus
    cdef u64 w = 0, digit
    cdef i64 q = 0, exponent = 0, n_digits = 0, n_found
    value[0] = 0.0
    if negative or pos[0] == c'+':
        pos += 1
    # digits before and after the point
    first = pos
    pos = parse_digits(pos, &w, &n_digits)
    n_found = pos - first
    if pos[0] == c'.':
        first = pos + 1
        pos = parse_digits(first, &w, &n_digits)
        n_found += pos - first
        q = -(pos - first)
    at[0] = pos
    if n_found == 0:
        return MALFORMED
    # the exponent
    if pos[0] == c'e' or pos[0] == c'E':
        pos += 1
        minus = pos[0] == c'-'
        if minus or pos[0] == c'+':
            pos += 1
        first = pos
        digit = <u64>pos[0] - c'0'
        while digit <= 9:
            exponent = min(exponent * 10 + <i64>digit, <i64>EXPONENT_CAP)
            pos += 1
            digit = <u64>pos[0] - c'0'
        at[0] = pos
        if pos == first:
            return MALFORMED
        q += -exponent if minus else exponent
    if n_digits > MAX_DIGITS:
        return LONG
    value[0] = nearest_double(negative, w, q)
    return READ


cdef inline const u8 *skip_json_blanks(const u8 *pos) noexcept nogil:
    """Skip what JSON allows between values."""
    while pos[0] == c' ' or pos[0] == c'\n' or pos[0] == c'\r' or pos[0] == c'\t':
        pos += 1
    return pos


cdef inline bint is_digit(u8 byte) noexcept nogil:
    return <u8>(byte - c'0') <= 9


cdef inline bint parse_json_number(const u8 **at, double *value) noexcept nogil:
    """Read a number of JSON's grammar that is finite, and no integer beyond 64 bits."""
    cdef const u8 *first = at[0] + (at[0][0] == c'-')
    cdef const u8 *end = first
    while is_digit(end[0]):
        end += 1
    if end == first or (first[0] == c'0' and end > first + 1):  # .5, +1, 007
        return False
    if end[0] == c'.' and not is_digit(end[1]):
        return False
    if parse_number(at, value) != READ or not isfinite(value[0]):
        return False
    if at[0] == end:  # an integer: there is one 0
        value[0] = value[0] + 0.0
        return end - first <= MAX_INTEGER_DIGITS
    return True


def parse_json_rows(const u8[::1] text, Py_ssize_t begin, double[:, ::1] out):
    """Read a list of lists, each of as many numbers as ``out`` has columns, from JSON.

    Return the number of lists and where the text goes on; no list at all where it says anything
    else, or more than ``out`` has room for. The text must end in a bracket.
    """
    cdef const u8 *start = &text[0]
    cdef const u8 *pos = start + begin
    cdef Py_ssize_t n_columns = out.shape[1], row = 0, column
    cdef bint is_good = pos[0] == c'['
    with nogil:
        while is_good and row < out.shape[0]:
            pos = skip_json_blanks(pos + 1)  # behind the bracket of all, or a comma
            is_good = pos[0] == c'['
            column = 0
            while is_good and column < n_columns:
                pos = skip_json_blanks(pos + 1)
                is_good = parse_json_number(&pos, &out[row, column])
                pos = skip_json_blanks(pos)
                column += 1
                is_good = is_good and pos[0] == (c',' if column < n_columns else c']')
            if not is_good:
                break
            row += 1
            pos = skip_json_blanks(pos + 1)
            if pos[0] == c']':
                break
            is_good = pos[0] == c','
    if not is_good or pos[0] != c']':
        return 0, begin
    return row, <Py_ssize_t>(pos + 1 - start)


cdef inline const u8 *skip_spaces(const u8 *pos) noexcept nogil:
    while pos[0] == c' ':
        pos += 1
    return pos


cdef inline const u8 *end_of_quotes(
    const u8 *pos, const u8 *end, bint *is_plain
) noexcept nogil:
    """Return the quote that closes what begins at ``pos``; NULL if none does.

    What is inside is plain unless quotes are doubled there.
    """
    while pos < end:
        pos = <const u8 *>memchr(pos, c'"', end - pos)
        if pos == NULL or pos + 1 >= end or pos[1] != c'"':
            return pos
        is_plain[0] = False
        pos += 2
    return NULL


def parse_table(
    const u8[::1] text, i64 begin, i64 end, u8 delimiter, i64 row, const i64[::1] place,
    const i64[::1] step, double[::1] out, const i64[::1] word, i64[:, :, ::1] spans,
    bint may_be_blank,
):
    """Read the lines from ``begin`` to ``end`` of a table, the first as ``row``.

    The number of column j goes to ``out[place[j] + row * step[j]]``; where its text stands, without
    the blanks around it, goes to ``spans[word[j], row]``. A negative position is that of a column
    that is not read. Return the row behind the last; -1 for text that needs a closer look: a line
    of another number of cells, a blank cell unless these may be there, a number that is malformed,
    long, quoted or not finite, a text to be read with doubled quotes, quotes that do not close.
    ``end`` must be behind the end of a line.
    """
    cdef const u8 *start = &text[0]
    cdef const u8 *pos = start + begin
    cdef const u8 *first
    cdef const u8 *last
    cdef Py_ssize_t n_columns = place.shape[0], j
    cdef double value
    cdef bint is_good = True, is_plain
    with nogil:
        while is_good and pos < start + end:
            for j in range(n_columns):
                pos = skip_spaces(pos)
                first = pos
                if place[j] >= 0:
                    if parse_number(&pos, &value) != READ or not isfinite(value):
                        is_good = False
                        break
                    out[place[j] + row * step[j]] = value
                    pos = skip_spaces(pos)
                    if pos[0] == c'\r':
                        pos += 1
                else:
                    if pos[0] == c'"':
                        # up to the quote that closes, and not a doubled one
                        first = pos + 1
                        is_plain = True
                        last = end_of_quotes(first, start + end, &is_plain)
                        is_good = last != NULL and (word[j] < 0 or is_plain)
                        if not is_good:
                            break
                        pos = skip_spaces(last + 1)
                        if pos[0] == c'\r':
                            pos += 1
                    else:
                        while pos[0] != delimiter and pos[0] != c'\n':
                            pos += 1
                        last = pos
                        while last > first and (last[-1] == c' ' or last[-1] == c'\r'):
                            last -= 1
                    if word[j] >= 0:
                        is_good = last > first or may_be_blank
                        spans[word[j], row, 0] = first - start
                        spans[word[j], row, 1] = last - start
                is_good = is_good and pos[0] == (delimiter if j < n_columns - 1 else c'\n')
                if not is_good:
                    break
                pos += 1
            row += 1
    return row if is_good else -1


def parse_integers(const u8[::1] text, const i64[:, ::1] spans, i64[::1] out):
    """Read each span as an integer; return False when one is not written as Python prints it.

    ``007`` and ``+7`` are refused, so that different texts never become equal numbers.
    """
    cdef Py_ssize_t row
    cdef i64 pos, stop, n_digits, value
    cdef bint negative, is_good = True
    cdef u64 digit
    with nogil:
        for row in range(spans.shape[0]):
            pos = spans[row, 0]
            stop = spans[row, 1]
            negative = pos < stop and text[pos] == c'-'
            pos += negative
            n_digits = stop - pos
            is_good = 1 <= n_digits <= MAX_INTEGER_DIGITS
            is_good = is_good and (text[pos] != c'0' or (n_digits == 1 and not negative))
            value = 0
            while is_good and pos < stop:
                digit = <u64>text[pos] - c'0'
                is_good = digit <= 9
                value = value * 10 + <i64>digit
                pos += 1
            if not is_good:
                break
            out[row] = -value if negative else value
    return is_good


# Lines


cdef struct Found:
    const u8 *text
    double largest
    double *y
    i64 *indptr
    i32 *indices
    double *values
    i64 *qid
    i64 *comment
    i64 *line
    i64 *long_numbers
    i64 n_rows
    i64 n_values
    i64 n_long
    i64 n_lines


cdef inline bint is_blank(u8 byte) noexcept nogil:
    return byte == c' ' or byte == c'\t' or byte == c'\r'


cdef inline bint is_token_end(u8 byte) noexcept nogil:
    return byte == c' ' or byte == c'\n' or byte == c'\t' or byte == c'\r' or byte == c'#'


cdef inline const u8 *skip_blanks(const u8 *pos) noexcept nogil:
    while is_blank(pos[0]):
        pos += 1
    return pos


cdef inline const u8 *find_newline(const u8 *pos) noexcept nogil:
    while pos[0] != c'\n':
        pos += 1
    return pos


cdef inline void note_long(Found *found, i64 slot, const u8 *start, const u8 *stop) noexcept nogil:
    cdef i64 *entry = found.long_numbers + 3 * found.n_long
    entry[0] = slot
    entry[1] = start - found.text
    entry[2] = stop - found.text
    found.n_long += 1


cdef inline int parse_head(const u8 **at, Found *found) noexcept nogil:
    """Read the target and the qid, if there is one; a bad piece is where the position stays."""
    cdef const u8 *start = at[0]
    cdef const u8 *pos = start
    cdef double value
    cdef int status = parse_number(&pos, &value)
    cdef i64 *span = found.qid + 2 * found.n_rows
    if status == MALFORMED or not isfinite(value) or not is_token_end(pos[0]):
        return WRONG_TARGET
    if status == LONG:
        note_long(found, -1 - found.n_rows, start, pos)
    found.y[found.n_rows] = value
    span[0] = span[1] = 0
    pos = skip_blanks(pos)
    at[0] = pos
    if pos[0] != c'q':
        return FINE
    if pos[1] != c'i' or pos[2] != c'd' or pos[3] != c':' or is_token_end(pos[4]):
        return WRONG_QID
    pos += 4
    span[0] = pos - found.text
    while not is_token_end(pos[0]):
        pos += 1
    span[1] = pos - found.text
    at[0] = pos
    return FINE


cdef inline int parse_features(const u8 **at, Found *found) noexcept nogil:
    """Read ``feature:value`` pairs up to the comment or the end of the line."""
    cdef const u8 *pos = skip_blanks(at[0])
    cdef const u8 *start
    cdef double value
    cdef u64 digit
    cdef i64 feature
    cdef int status
    while pos[0] != c'\n' and pos[0] != c'#':
        at[0] = pos
        # a whole number, and a colon
        feature = 0
        digit = <u64>pos[0] - c'0'
        while digit <= 9 and feature <= MAX_FEATURE:
            feature = feature * 10 + <i64>digit
            pos += 1
            digit = <u64>pos[0] - c'0'
        if pos == at[0] or feature > MAX_FEATURE or pos[0] != c':':
            return WRONG_FEATURE
        # the value
        pos += 1
        start = pos
        status = parse_number(&pos, &value)
        if status == MALFORMED or not fabs(value) <= found.largest or not is_token_end(pos[0]):
            return WRONG_VALUE
        if status == LONG:
            note_long(found, found.n_values, start, pos)
        found.indices[found.n_values] = <i32>feature
        found.values[found.n_values] = value
        found.n_values += 1
        pos = skip_blanks(pos)
    at[0] = pos
    return FINE


cdef inline const u8 *parse_comment(const u8 *pos, Found *found) noexcept nogil:
    """Note the text after a hash, without the blanks around it; return the end of the line."""
    cdef const u8 *end = find_newline(pos)
    cdef const u8 *stop = end
    cdef i64 *span = found.comment + 2 * found.n_rows
    if pos < stop:
        pos = skip_blanks(pos + 1)
        while stop > pos and is_blank((stop - 1)[0]):
            stop -= 1
    span[0] = pos - found.text
    span[1] = stop - found.text
    return end


def parse_lines(const u8[::1] text, double largest, double[::1] y, i64[::1] indptr,
                i32[::1] indices, double[::1] values, i64[:, ::1] qid, i64[:, ::1] comment,
                i64[::1] line, i64[:, ::1] long_numbers):
    """Parse whole lines ``target qid:Q feature:value ... # comment`` until the first bad piece.

    Costs one pass over ``text``, which must end in a newline.

    Parameters
    ----------
    text
        The bytes.
    largest
        Values of a larger magnitude are refused.
    y, indptr, indices, values
        Receive the targets and the features, row by row.
    qid, comment
        Receive their spans, the first byte and the one after the last; (0, 0) for no qid.
    line
        Receives the line number of each row, from 1.
    long_numbers
        Receives the slot and the span of each number with too many digits; the slot is a position
        in ``values``, or -1 - row for a target.

    Returns
    -------
    n_rows, n_values, n_long, n_lines, code, pos
        How much was found, why parsing ended (``code``), and where: line ``n_lines``, byte ``pos``.
    """
    cdef const u8 *pos = &text[0] if text.shape[0] else NULL
    cdef const u8 *end = pos + text.shape[0]
    cdef int code = FINE
    cdef Found found
    found.text = pos
    found.largest = largest
    found.y = &y[0] if y.shape[0] else NULL
    found.indptr = &indptr[0]
    found.indices = &indices[0] if indices.shape[0] else NULL
    found.values = &values[0] if values.shape[0] else NULL
    found.qid = &qid[0, 0] if qid.shape[0] else NULL
    found.comment = &comment[0, 0] if comment.shape[0] else NULL
    found.line = &line[0] if line.shape[0] else NULL
    found.long_numbers = &long_numbers[0, 0] if long_numbers.shape[0] else NULL
    found.n_rows = found.n_values = found.n_long = found.n_lines = 0
    with nogil:
        found.indptr[0] = 0
        while pos < end:
            found.n_lines += 1
            pos = skip_blanks(pos)
            if pos[0] != c'\n' and pos[0] != c'#':
                code = parse_head(&pos, &found)
                if code == FINE:
                    code = parse_features(&pos, &found)
                if code != FINE:
                    break
                pos = parse_comment(pos, &found)
                found.line[found.n_rows] = found.n_lines
                found.n_rows += 1
                found.indptr[found.n_rows] = found.n_values
            pos = find_newline(pos) + 1
    return found.n_rows, found.n_values, found.n_long, found.n_lines, code, pos - found.text


ctypedef fused Real:
    float
    double


def scatter_rows(const i64[::1] indptr, const i32[::1] indices, const Real[::1] values, i64 offset,
                 Real[:, ::1] X):
    """Write the stored entries into the zeros of ``X``; feature numbers begin at ``offset``."""
    cdef Py_ssize_t row, k
    with nogil:
        for row in range(indptr.shape[0] - 1):
            for k in range(indptr[row], indptr[row + 1]):
                X[row, indices[k] - offset] = values[k]
