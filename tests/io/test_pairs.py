import numpy as np
import pytest

from rankwise.core.errors import DataFileError
from rankwise.io.comparisons import read_pairs
from rankwise.io.tables.reading import write_table


@pytest.mark.parametrize("suffix", [".csv", ".tsv.gz", ".parquet"])
def test_names_are_numbered_in_sorted_order_winner_first(tmp_path, suffix):
    path = tmp_path / f"a{suffix}"
    winners, losers = ["c", "a", "c"], ["a", "b", "a"]
    write_table(path, {"loser": losers, "winner": winners})
    data = read_pairs(path)
    assert data.items.tolist() == ["a", "b", "c"]
    assert data.pairs.shape == (3, 2)
    named = data.items[data.pairs]
    assert named[:, 0].tolist() == winners
    assert named[:, 1].tolist() == losers
    assert data.margin is None
    assert data.weight is None


@pytest.mark.parametrize("suffix", [".csv", ".parquet"])
def test_whole_numbers_are_positions(tmp_path, suffix):
    path = tmp_path / f"a{suffix}"
    write_table(path, {"better": [5, 0], "worse": [2, 5], "by": [0.5, 2.0], "times": [1, 3]})
    data = read_pairs(path, winner="better", loser="worse", margin="by", weight="times")
    assert data.items is None
    assert data.pairs.dtype == np.intp
    assert data.pairs.tolist() == [[5, 2], [0, 5]]
    assert data.margin.tolist() == [0.5, 2.0]
    assert data.weight.tolist() == [1.0, 3.0]


def test_one_name_makes_all_items_names(tmp_path):
    path = tmp_path / "a.csv"
    path.write_text("winner,loser\n1,2\n2,x\n")
    data = read_pairs(path)
    assert data.items.tolist() == ["1", "2", "x"]
    assert data.pairs.tolist() == [[0, 1], [1, 2]]


@pytest.mark.parametrize(
    ("text", "options", "message"),
    [
        (
            "winner,loser\n1,-2\n",
            {},
            "expected names or row numbers from 0 as winners and losers.*-2",
        ),
        ("winner,loser\n1,2\n1,\n", {}, "line 3, column 'loser': expected an id, got nothing"),
        (
            "winner,loser,m\n1,2,x\n",
            {"margin": "m"},
            "line 2, column 'm': expected a finite number",
        ),
        ("winner,looser\n1,2\n", {}, "must have the column 'loser' for `loser`.*mean 'looser'"),
        ("winner,loser\n1,2\n", {"weight": "w"}, "must have the column 'w' for `weight`"),
    ],
)
def test_bad_comparisons_are_named(tmp_path, text, options, message):
    path = tmp_path / "a.csv"
    path.write_text(text)
    with pytest.raises(DataFileError, match=message):
        read_pairs(path, **options)


@pytest.mark.parametrize("suffix", [".csv", ".parquet"])
def test_columns_may_be_asked_for_in_another_spelling(tmp_path, suffix):
    path = tmp_path / f"matches{suffix}"
    columns = {
        "Winner": np.array(["x", "y"]),
        "LOSER": np.array(["y", "z"]),
        "Goal-Lead": [2.0, 1.0],
    }
    write_table(path, columns)
    matches = read_pairs(path, margin="goal_lead", weight="goal lead")
    assert matches.pairs.tolist() == [[0, 1], [1, 2]]
    assert matches.margin.tolist() == matches.weight.tolist() == [2.0, 1.0]
