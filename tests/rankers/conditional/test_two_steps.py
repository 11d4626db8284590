"""Two steps: RankRLS on the items of every condition, then ridge regression on the conditions."""

import numpy as np
import pytest
from sklearn.kernel_ridge import KernelRidge

import rankwise
from rankwise import (
    ConditionalRankRLS,
    ConditionalRankRLSCV,
    Gaussian,
    InvalidInputError,
    Polynomial,
    RankRLS,
)

KERNELS = {"condition_kernel": Gaussian(0.3), "item_kernel": Polynomial(2, 0.5)}
RNG = np.random.default_rng(0)
U, V = RNG.normal(size=(9, 2)), RNG.normal(size=(7, 3))
Y = RNG.normal(size=(9, 7))
NEW_U, NEW_V = RNG.normal(size=(4, 2)), RNG.normal(size=(5, 3))


def close(found, expected, share=1e-9):
    np.testing.assert_allclose(found, expected, rtol=0, atol=share * np.abs(expected).max())


def in_two_steps(alpha, item_alpha, rows, columns, new_u, new_v, **options):
    """Return the scores of new objects by other rankers, one step after the other."""
    k, g = KERNELS.values()
    inner = RankRLS(item_alpha, kernel="precomputed", **{"ties": "keep", **options})
    items = V[columns]
    # the scores of new items for every known condition
    by_condition = np.array(
        [inner.fit(g(items, items), y).predict(g(new_v, items)) for y in Y[np.ix_(rows, columns)]]
    )
    outer = KernelRidge(alpha=alpha, kernel="precomputed").fit(k(U[rows], U[rows]), by_condition)
    return outer.predict(k(new_u, U[rows]))


EVERY = np.arange(9), np.arange(7)


@pytest.mark.parametrize(
    "options",
    [{}, {"cost": "unit", "ties": "drop"}, {"query_weight": "pairs"}, {"query_weight": "equal"}],
    ids=str,
)
@pytest.mark.parametrize(("alpha", "item_alpha"), [(0.1, 2.0), (3.0, 0.05)])
def test_two_steps_equal_one_after_the_other(alpha, item_alpha, options):
    ranker = ConditionalRankRLS(alpha, item_alpha=item_alpha, **KERNELS, **options).fit(U, V, Y)
    for new_u, new_v in [(U, V), (NEW_U, V), (U, NEW_V), (NEW_U, NEW_V)]:
        expected = in_two_steps(alpha, item_alpha, *EVERY, new_u, new_v, **options)
        close(ranker.predict(new_u, new_v), expected)


@pytest.mark.parametrize("new", ["conditions", "items", "both"])
@pytest.mark.parametrize("query_weight", ["items", "pairs"])
def test_hold_outs_equal_refits(new, query_weight):
    options = {"query_weight": query_weight}
    search = ConditionalRankRLSCV(
        [0.3], item_alphas=[2.0], new=new, cv=3, random_state=0, **KERNELS, **options
    ).fit(U, V, Y)
    rng = rankwise.rankers.base.generator(0)
    fold = rankwise.selection.holdouts.Folds.random(3, np.arange(7), rng).fold
    expected = np.empty_like(Y)
    for i, number in np.ndindex(9, 3):
        out = np.flatnonzero(fold == number)
        rows = np.arange(9) if new == "items" else np.delete(np.arange(9), i)
        columns = np.arange(7) if new == "conditions" else np.flatnonzero(fold != number)
        expected[i, out] = in_two_steps(0.3, 2.0, rows, columns, U[[i]], V[out], **options)[0]
    close(search.held_out_scores_, expected)


def test_both_alphas_are_chosen():
    rng = np.random.default_rng(1)
    users, films = rng.normal(size=(30, 4)), rng.normal(size=(20, 4))
    y = users @ films.T + rng.normal(size=(30, 20))
    grid, item_grid = [0.1, 10.0, 1000.0], [0.01, 1.0, 100.0]
    search = ConditionalRankRLSCV(grid, item_alphas=item_grid, new="both", random_state=0)
    search.fit(users, films, y)
    values = [
        ConditionalRankRLSCV(grid, item_alphas=[beta], new="both", random_state=0)
        .fit(users, films, y)
        .path_.values
        for beta in item_grid
    ]
    best = np.unravel_index(np.argmax(values), (3, 3))
    assert search.held_out_value_ == np.max(values)
    assert search.item_alpha_ == item_grid[best[0]]
    chosen = ConditionalRankRLS(search.alpha_, item_alpha=search.item_alpha_)
    close(search.predict(), chosen.fit(users, films, y).predict())
    assert ConditionalRankRLSCV(grid).fit(users, films, y).item_alpha_ is None


@pytest.mark.parametrize(
    ("y", "options"),
    [
        (np.where(np.arange(63).reshape(9, 7) == 5, np.nan, Y), {}),
        (Y, {"cost": "relative", "ties": "drop"}),
        (np.round(Y), {"ties": "drop"}),
    ],
    ids=["a missing score", "relative", "dropped ties"],
)
def test_what_has_no_closed_form_is_refused(y, options):
    match = "Two steps must have a full matrix of scores between objects of two kinds"
    with pytest.raises(InvalidInputError, match=match):
        ConditionalRankRLS(item_alpha=1.0, **options).fit(U, V, y)
    with pytest.raises(InvalidInputError, match=match):
        ConditionalRankRLSCV(item_alphas=[1.0], **options).fit(U, V, y)


def test_relations_and_cells_are_refused():
    with pytest.raises(InvalidInputError, match="Two steps must have a full matrix"):
        ConditionalRankRLS(item_alpha=1.0, relation="symmetric").fit(
            U, None, np.ones((9, 9)) + np.eye(9)
        )
    with pytest.raises(InvalidInputError, match="`new` must be 'conditions', 'items' or 'both'"):
        ConditionalRankRLSCV(item_alphas=[1.0], new="cells").fit(U, V, Y)


def test_rounding_counts_both_steps():
    """Tiny alphas are refused with a reason, as with one step."""
    with pytest.raises(rankwise.NumericalError, match="larger than their rounding errors"):
        ConditionalRankRLS(1e-11, item_alpha=1e-11).fit(U, V, Y)
