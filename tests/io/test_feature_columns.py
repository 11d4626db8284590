"""The same cells are the same features in every table: forms of numbers, dates, what is left."""

import numpy as np
import pytest

from rankwise import DataFileError
from rankwise.io import read_table
from rankwise.io.data import ColumnNames, ItemColumns
from rankwise.io.feature_columns import (
    FeatureRules,
    columns_kept,
    described,
    form_of,
    kept_columns,
    numbers_in_form,
    plain_numbers,
    word_in_form,
)

FORMS = {
    "decimal points, $": (["$1,234.50", "-$5", "", "$0.25", "7"], [1234.5, -5, np.nan, 0.25, 7]),
    "decimal commas, €": (["1.234,50 €", "-5 €", "€ 0,125"], [1234.5, -5, 0.125]),
    "decimal commas": (["0,5", "12,25", "1.000,0", "n/a"], [0.5, 12.25, 1000.0, np.nan]),
    "decimal points": (["1,234", "12,345,678", "9"], [1234, 12345678, 9]),
    "decimal points, %": (["5%", "12.5 %", "-3%"], [5, 12.5, -3]),
    "true or false": (["True", "false", "TRUE"], [1, 0, 1]),
    "days since 1970": (["1970-01-02", "1970-01-01 12:00", ""], [1, 0.5, np.nan]),
    "days since 1970, day first": (["02/01/1970", "31/01/1970"], [1, 30]),
    "days since 1970, month first": (["01/02/1970", "01/31/1970"], [1, 30]),
}


@pytest.mark.parametrize("form", FORMS)
def test_words_become_the_numbers_they_spell(form):
    words, numbers = FORMS[form]
    assert form_of(words) == form
    np.testing.assert_array_equal(numbers_in_form(words, form), numbers)
    assert numbers_in_form([*words, "many"], form) is None


def test_a_comma_in_every_row_is_decimal_unless_a_row_shows_otherwise():
    assert form_of(["7,123", "12,345"]) == "decimal commas"
    assert form_of(["7,123", "999"]) == form_of(["7,123", "1,234,567"]) == "decimal points"
    assert form_of(["7,123", "12,345.50"]) == "decimal points"
    assert form_of(["$7,123", "$12,345"]) == "decimal points, $"


@pytest.mark.parametrize(
    "words",
    [
        ["red", "blue"],
        ["$5", "€5"],
        ["A12", "7"],
        ["", "?"],
        ["01/02/2024", "03/04/2024"],
        ["1.2.3"],
    ],
)
def test_words_that_are_no_numbers_have_no_form(words):
    assert form_of(words) == ""


def test_one_unit_is_not_read_as_another():
    assert numbers_in_form(["€5"], "decimal points, $") is None


def write(path, **columns):
    names = list(columns)
    rows = zip(*columns.values(), strict=True)
    lines = [";".join(names), *(";".join(row) for row in rows)]
    path.write_text("\n".join(lines) + "\n")
    return path


def test_a_table_says_how_it_was_read(tmp_path):
    path = write(
        tmp_path / "shop.csv",
        price=["$1,200.00", "$80", ""],
        added=["2024-05-01", "2024-05-03", "2024-05-02"],
        kind=["a", "b", "a"],
        y=["1", "0", "2"],
    )
    data = read_table(path, categories="auto")
    assert data.columns.categories == ("kind",)
    assert dict(data.columns.forms) == {
        "price": "decimal points, $",
        "added": "days since 1970",
    }
    assert data.X[0, 0] == 1200.0
    assert data.X[1, 1] - data.X[0, 1] == 2.0
    said = described(data.columns)
    assert "price as numbers (decimal points, $)" in said
    kept = columns_kept(kept_columns(data.columns), data.columns.features)
    assert kept == data.columns
    # later rows are read as these were, whatever else their cells could mean
    later = write(tmp_path / "l.csv", price=["1,200"], added=["2024-05-05"], kind=["7"], y=["1"])
    options = {"categories": ["kind"], "features": data.columns.features}
    again = read_table(later, forms=dict(data.columns.forms), **options)
    assert again.X[0].tolist() == [1200.0, data.X[0, 1] + 4.0, "7"]
    wrong = write(tmp_path / "w.csv", price=["dear"], added=["2024-05-05"], kind=["7"], y=["1"])
    with pytest.raises(DataFileError, match=r"\(decimal points, \$\), as was learned from, got"):
        read_table(wrong, forms=dict(data.columns.forms), **options)


def test_a_column_of_mixed_decimal_signs_is_refused(tmp_path):
    path = write(tmp_path / "m.csv", a=["1.5", "2,5", "3"], y=["1", "0", "2"])
    with pytest.raises(DataFileError, match="column 'a': expected numbers of one form"):
        read_table(path, categories="auto")


def test_dates_that_can_be_read_in_several_ways_are_left_out():
    rules = FeatureRules(ColumnNames.of_frame(["d", "x"]), has_qid=True)
    words, numbers = ["01/02/2024", "03/04/2024"], np.array([1.0, 2.0])
    kept, columns = rules.read(ItemColumns(["d", "x"], None, None), [words, numbers])
    assert list(kept) == ["x"]
    assert "write them as 2026-11-16" in dict(columns.left_out)["d"]


@pytest.mark.parametrize(
    ("words", "shown"),
    [
        (["2024-03-01", "1969-12-31"], ["2024-03-01", "1969-12-31"]),
        (["03/25/2024", "12/01/2023"], ["2024-03-25", "2023-12-01"]),
        (["2024-03-01 12:30", "2024-03-02 00:00"], ["2024-03-01 12:30", "2024-03-02"]),
        (["True", "false"], ["true", "false"]),
        (["$1,234.50", "$12,345.00"], ["$1234", "$12345"]),
        (["12 EUR", "3 EUR"], ["12 EUR", "3 EUR"]),
        (["45%", "3.5%"], ["45%", "3.5%"]),
        (["1.234,5", "2,25"], ["1234", "2.25"]),
        (["0.5", "12"], ["0.5", "12"]),
    ],
)
def test_numbers_are_shown_in_the_form_of_their_column(words, shown):
    form = form_of(words) if plain_numbers(words) is None else ""
    numbers = numbers_in_form(words, form)
    assert [word_in_form(number, form) for number in numbers] == shown


def test_what_is_no_value_of_a_form_is_shown_as_a_number():
    assert word_in_form(0.25, "true or false") == "0.25"
    assert word_in_form(1e300, "days since 1970") == "1e+300"
