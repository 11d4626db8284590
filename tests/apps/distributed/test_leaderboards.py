"""Comparisons in many files give the leaderboard of their rows in one table."""

import dask
import numpy as np
import pandas as pd
import pytest

import rankwise
from rankwise import ComparisonTable, InvalidInputError
from rankwise.apps.distributed import count_comparisons, leaderboard
from rankwise.core.errors import DataFileError
from rankwise.io import ComparisonColumns

NUMBERS = ("score", "std", "low", "high", "rank_low", "rank_high", "best", "answers")
NAMED = ComparisonColumns(covariates=("longer",), category="category")
TOLD_APART = ("judge", "question", "category", "date")


@pytest.fixture(autouse=True)
def _in_this_thread():
    with dask.config.set(scheduler="synchronous"):
        yield


def battles(seed=0, n_rows=600, n_items=7):
    """Return battles of named items, with who judged what, when, and lengths."""
    rng = np.random.default_rng(seed)
    one = rng.integers(0, n_items, n_rows)
    other = (one + rng.integers(1, n_items, n_rows)) % n_items
    return pd.DataFrame(
        {
            "model_a": [f"m{k}" for k in one],
            "model_b": [f"m{k}" for k in other],
            "winner": rng.choice(["model_a", "model_b", "tie"], n_rows),
            "judge": rng.integers(0, 9, n_rows),
            "question": rng.integers(0, 40, n_rows),
            "category": rng.choice(["en", "fi"], n_rows),
            "date": pd.Timestamp("2026-01-01") + pd.to_timedelta(rng.integers(0, 60, n_rows), "D"),
            "longer": np.round(rng.normal(size=n_rows), 1),
        }
    )


def write(frame, folder, n_parts=3, suffix="parquet"):
    for part, rows in enumerate(np.array_split(np.arange(len(frame)), n_parts)):
        path = folder / f"part-{part}.{suffix}"
        some = frame.iloc[rows]
        some.to_parquet(path) if suffix == "parquet" else some.to_csv(path, index=False)
    return str(folder / f"part-*.{suffix}")


def assert_equal(found, expected):
    assert found.names.tolist() == expected.names.tolist()
    for name in NUMBERS:
        np.testing.assert_allclose(
            getattr(found, name), getattr(expected, name), rtol=1e-9, atol=1e-9
        )


@pytest.mark.parametrize("suffix", ["parquet", "csv"])
@pytest.mark.parametrize(
    "options",
    [
        {},
        {"first": True},
        {"judges": True},
        {"clustered": True},
        {"clustered": "question"},
        {"half_life": 20.0},
    ],
    ids=str,
)
def test_files_equal_one_table(tmp_path, options, suffix):
    frame = battles()
    columns = ComparisonColumns(covariates=("longer",), question="question")
    found = leaderboard(write(frame, tmp_path, 3, suffix), columns, **options, random_state=0)
    assert_equal(found, rankwise.leaderboard(frame, columns, **options, random_state=0))


def test_only_what_is_needed_tells_rows_apart(tmp_path):
    frame = battles(n_rows=4000)
    table = count_comparisons(write(frame, tmp_path, 5))
    assert table.n_rows == len(frame[["model_a", "model_b", "winner"]].drop_duplicates())
    assert table.weight.sum() == len(frame)
    assert all(getattr(table, role) is None for role in TOLD_APART)
    assert "judge: judge, not needed and not kept" in table.reading
    every = count_comparisons(
        str(tmp_path / "*"), ComparisonColumns(category="category"), keep=TOLD_APART
    )
    told = ["model_a", "model_b", "winner", *TOLD_APART]
    assert every.n_rows == len(frame[told].drop_duplicates())
    assert every.judge.names.tolist() == sorted(set(frame["judge"].astype(str)))


def test_an_audit_is_about_what_was_kept(tmp_path):
    frame = battles()
    found = leaderboard(write(frame, tmp_path), random_state=0).audit()
    plain = frame[["model_a", "model_b", "winner"]]
    assert str(found) == str(rankwise.leaderboard(plain, random_state=0).audit())


def test_counting_rows_by_a_loop():
    frame = battles(n_rows=300)
    table = rankwise.io.read_comparisons(frame, NAMED)
    counted = {}
    columns = (table.first, table.second, table.outcome, table.judge.index, table.question.index,
               table.category.index, table.date, table.covariates[:, 0])  # fmt: skip
    for *row, weight in zip(*columns, table.weight, strict=True):
        counted[tuple(row)] = counted.get(tuple(row), 0.0) + weight
    found = table.counted()
    columns = (found.first, found.second, found.outcome, found.judge.index, found.question.index,
               found.category.index, found.date, found.covariates[:, 0])  # fmt: skip
    assert dict(zip(zip(*columns, strict=True), found.weight.tolist(), strict=True)) == counted


def test_joined_tables_number_names_anew():
    one = ComparisonTable.of(["b", "c"], ["c", "d"], judge=["x", "y"])
    other = ComparisonTable.of(["a"], ["d"], [-1], weight=[3.0], judge=["y"])
    both = ComparisonTable.joined([one, other])
    assert both.names.tolist() == ["a", "b", "c", "d"]
    assert both.names[both.first].tolist() == ["b", "c", "a"]
    assert both.names[both.second].tolist() == ["c", "d", "d"]
    assert both.judge.names[both.judge.index].tolist() == ["x", "y", "y"]
    assert both.weight.tolist() == [1.0, 1.0, 3.0]
    assert both.outcome.tolist() == [1, 1, -1]


def refused(folder, first, second, match, columns=None, **options):
    first.to_csv(folder / "part-0.csv", index=False)
    second.to_csv(folder / "part-1.csv", index=False)
    with pytest.raises(InvalidInputError, match=match):
        leaderboard(str(folder / "part-*.csv"), columns, **options)


def test_files_that_are_read_in_different_ways_are_refused(tmp_path):
    one = pd.DataFrame({"a": ["x", "y"], "b": ["y", "x"], "winner": ["a", "b"]})
    other = one.rename(columns={"winner": "result"})
    refused(tmp_path, one, other, "same way: the column of `result` is 'winner' in .*part-0")
    three = {"a": ["x", "y", "x"], "b": ["y", "x", "y"]}
    halves = pd.DataFrame({**three, "winner": ["0", "1", "0.5"]})
    signs = pd.DataFrame({**three, "winner": ["0", "1", "-1"]})
    refused(tmp_path, halves, signs, "same way: a result of '0' means -1 in .*0.csv, 0 in .*1.csv")


def test_fractional_weights_are_refused(tmp_path):
    one = pd.DataFrame({"winner": ["x", "y"], "loser": ["y", "x"], "weight": [0.5, 2.0]})
    refused(tmp_path, one, one, "Weights must be whole numbers in files .* column 'weight'")


def test_errors_name_the_file(tmp_path):
    one = pd.DataFrame({"winner": ["x", "y"], "loser": ["y", "x"]})
    one.to_csv(tmp_path / "part-0.csv", index=False)
    (tmp_path / "part-1.csv").write_text("winner,loser\nx,x\n")
    with pytest.raises(DataFileError, match=r"Partition 1 .*part-1.csv"):
        leaderboard(str(tmp_path / "part-*.csv"))
