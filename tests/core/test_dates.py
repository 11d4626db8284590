"""Dates in the forms in which people write them."""

import numpy as np
import pandas as pd
import pytest

from rankwise import InvalidInputError
from rankwise.core.comparisons.dates import as_days

NEW_YEAR = 19358.0
"""Days from the first of January 1970 to that of 2023."""


@pytest.mark.parametrize(
    "written",
    [
        ["2023-01-01", "2023-01-13"],
        ["2023/01/01", "2023/01/13"],
        ["01.01.2023", "13.01.2023"],
        ["1.1.2023", "13.1.2023"],
        ["01/01/2023", "13/01/2023"],
        ["01/01/2023", "01/13/2023"],
        ["20230101", "20230113"],
        [20230101, 20230113],
        [1672531200, 1673568000],
        [1672531200.0, 1673568000.0],
        ["1672531200.0", "1673568000.0"],
        [1672531200000, 1673568000000],
        [19358, 19370],
        ["19358", "19370"],
        ["2023-01-01T00:00:00Z", "2023-01-13T02:00:00+02:00"],
        ["01.01.2023 00:00", "13.01.2023 00:00"],
        np.array(["2023-01-01", "2023-01-13"], dtype="datetime64[ns]"),
        pd.to_datetime(["2023-01-01", "2023-01-13"]).tolist(),
    ],
    ids=str,
)
def test_every_way_to_write_dates_gives_the_same_days(written):
    np.testing.assert_allclose(as_days(written, 2), [NEW_YEAR, NEW_YEAR + 12.0], atol=1e-9)


def test_small_numbers_are_days_and_four_digits_a_year():
    np.testing.assert_array_equal(as_days([0.5, 2023.0], 2), [0.5, 2023.0])
    np.testing.assert_array_equal(as_days(["2023", "2024"], 2), [NEW_YEAR, NEW_YEAR + 365.0])


@pytest.mark.parametrize(
    ("written", "message"),
    [
        (["2023-01-01", ""], "a date in every row: row 1 has none"),
        (["2023-01-01", None], "row 1 has none"),
        (np.array(["NaT", "2023-01-01"], dtype="datetime64[s]"), "row 0 has none"),
        (["03/04/2023", "05/06/2023"], "which number is the month: '03/04/2023'"),
        (["13/13/2023", "01/01/2023"], "must hold dates such as"),
        ([20231301, 20230101], "must hold dates such as"),
        ([np.nan, 1.0], "`date` must be finite: row 0"),
        (["soon", "now"], "must hold dates such as"),
        (["2023-01-01"], "`date` must have one entry per"),
    ],
)
def test_dates_that_cannot_be_read_are_refused(written, message):
    with pytest.raises(InvalidInputError, match=message):
        as_days(written, 2)
