"""A column holds every different cell once: compared with a walk from row to row."""

import decimal
from datetime import date

import numpy as np
import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st

from rankwise.core.comparisons.column import Column

MISSING = [None, float("nan"), pd.NA, pd.NaT, decimal.Decimal("NaN"), decimal.Decimal("sNaN")]
CELLS = ["x", "1", "", 1, True, 1.0, 0, False, 2**70, b"x", (1, 2), date(2026, 1, 1), *MISSING]


def naive_column(cells):
    """Return the different cells in the order of the rows, and the number of every row's."""
    keys, code = [], []
    for cell in cells:
        missing = any(cell is one for one in MISSING)
        key = (type(None), None) if missing else (type(cell), cell)
        if key not in keys:
            keys.append(key)
        code.append(keys.index(key))
    return [cell for _, cell in keys], code


def typed(values):
    return [(type(value), value) for value in values]


def objects(cells):
    return np.fromiter(cells, dtype=object, count=len(cells))


@given(st.lists(st.sampled_from(CELLS), max_size=12), st.data())
def test_a_column_is_that_of_a_walk_from_row_to_row(cells, data):
    column = Column.of(objects(cells))
    values, code = naive_column(cells)
    assert typed(column.values.tolist()) == typed(values)
    assert column.code.tolist() == code
    rows = data.draw(
        st.lists(st.sampled_from(range(len(cells))), max_size=8) if cells else st.just([])
    )
    part = column.take(np.array(rows, dtype=np.intp))
    values, code = naive_column([cells[row] for row in rows])
    assert typed(part.values.tolist()) == typed(values)
    assert part.code.tolist() == code


@pytest.mark.parametrize("dtype", [np.int8, np.uint64, np.float32, bool])
def test_numbers_keep_their_type(dtype):
    column = Column.of(np.array([1, 0, 1], dtype=dtype))
    assert column.values.dtype == dtype
    assert column.values.tolist() == [1, 0]
    assert column.code.tolist() == [0, 1, 0]


def test_all_blanks_of_floats_are_one_value():
    column = Column.of(np.array([np.nan, 2.0, np.nan]))
    assert np.isnan(column.values[0])
    assert column.code.tolist() == [0, 1, 0]


@pytest.mark.parametrize("cell", [[1], {"a": 1}, np.zeros(2), ([1],)])
def test_cells_that_cannot_be_looked_up_are_named(cell):
    with pytest.raises(TypeError, match=f"row 1 holds a {type(cell).__name__}"):
        Column.of(objects(["x", cell, None]))
