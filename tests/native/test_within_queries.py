"""Features inside queries, one query and feature at a time."""

import numpy as np
import pytest

import reference
from rankwise.native import within_queries as kernels

N_QUERIES = 7


def problem(seed, kind):
    """Return frozen rows and the query of each; the last query has no row."""
    rng = np.random.default_rng(seed)
    query = rng.integers(0, N_QUERIES - 1, 60)
    X = {
        "normal": rng.normal(size=(60, 5)),
        "ties and blanks": rng.choice([0.0, -0.0, 1.0, np.nan], (60, 5)),
        "mostly blank": np.where(rng.random((60, 5)) < 0.9, np.nan, 3.5),
        "far out": rng.choice([-1e308, 5e-324, 1e308], (60, 5)),
    }[kind]
    X.flags.writeable = query.flags.writeable = False
    return X, query


KINDS = ["normal", "ties and blanks", "mostly blank", "far out"]


def of_queries(value):
    return np.full((N_QUERIES, 5), float(value))


def known(X, query, q, j):
    column = X[query == q, j]
    return column[~np.isnan(column)]


@pytest.mark.parametrize("kind", KINDS)
def test_extremes_and_sums_of_known_values(kind):
    X, query = problem(0, kind)
    low, high, count, total, squares = map(of_queries, [np.inf, -np.inf, 0, 0, 0])
    kernels.find_extremes(X, query, low, high)
    kernels.add_known(X, query, count, total)
    centre = of_queries(0.25)
    kernels.add_squares(X, query, centre, squares)
    for q, j in np.ndindex(N_QUERIES, 5):
        x = known(X, query, q, j)
        assert low[q, j] == x.min(initial=np.inf)
        assert high[q, j] == x.max(initial=-np.inf)
        assert count[q, j] == len(x)
        right, right_squares = 0.0, 0.0
        for value in x.tolist():  # in the order of the rows
            right += value
            right_squares += (value - 0.25) * (value - 0.25)
        assert total[q, j] == right
        assert squares[q, j] == right_squares


@pytest.mark.parametrize("kind", KINDS[:3])
def test_values_are_shifted_and_scaled_and_blanks_stay(kind):
    X, query = problem(1, kind)
    low, high = of_queries(np.inf), of_queries(-np.inf)
    kernels.find_extremes(X, query, low, high)
    out = np.empty(X.shape)
    kernels.shift_and_scale(X, query, low, np.maximum(high - low, 0.0), out)
    np.testing.assert_array_equal(out, reference.scaled_within_queries(X, query, "min_max"))


def test_blanks_get_what_their_query_has():
    X, query = problem(2, "ties and blanks")
    filling = np.random.default_rng(0).normal(size=(N_QUERIES, 5))
    filled = X.copy()
    kernels.fill_blanks(filled, query, filling)
    np.testing.assert_array_equal(filled, np.where(np.isnan(X), filling[query], X))


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("feature", [0, 2])
def test_ranks_and_quantiles_of_blocks(kind, feature):
    X, query = problem(3, kind)
    order = np.argsort(query, kind="stable")
    starts = np.searchsorted(query[order], np.arange(N_QUERIES + 1))
    queries = np.arange(N_QUERIES)[::-1].copy()
    keys = np.full((5 - feature, N_QUERIES, np.diff(starts).max()), np.inf)
    kernels.gather_block(X, order, starts, queries, feature, keys)
    ranks = np.zeros(X.shape)
    place = np.argsort(keys, axis=2)
    kernels.write_ranks(keys, place, order, starts, queries, feature, ranks)
    right = reference.ranks_within_queries(X, query)
    np.testing.assert_allclose(ranks[:, feature:], right[:, feature:], rtol=1e-15)
    assert not ranks[:, :feature].any()
    counted = np.zeros(X.shape)
    kernels.count_ranks(X, query, counted)
    np.testing.assert_array_equal(counted[:, feature:], ranks[:, feature:])

    shares = np.array([0.0, 0.3, 0.5, 1.0])
    found = np.zeros((4, N_QUERIES, 5))
    kernels.find_quantiles(np.sort(keys, axis=2), shares, queries, feature, found)
    for q, j in np.ndindex(N_QUERIES, 5 - feature):
        x = known(X, query, q, feature + j)
        if len(x) == 0:
            assert np.isnan(found[:, q, feature + j]).all()
        elif kind != "far out":  # differences of extremes overflow
            np.testing.assert_allclose(found[:, q, feature + j], np.quantile(x, shares), rtol=1e-14)
