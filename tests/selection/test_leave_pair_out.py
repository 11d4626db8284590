"""Counts over held-out pairs equal those of models fitted without both items."""

import numpy as np
import pytest

from rankwise import Gaussian, InvalidInputError, Linear, RankRLS
from rankwise.core.queries import TrainingData
from rankwise.features.function_space import smallest_space
from rankwise.selection.leave_pair_out import leave_each_pair_out

ALPHAS = np.array([1e-2, 10.0])


def data(seed=0, n_items=10, n_features=3, grades=None):
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n_items, n_features))
    signal = X[:, 0] + rng.normal(size=n_items)
    y = signal if grades is None else np.argsort(np.argsort(signal)) * grades // n_items
    return X, y.astype(float)


def refitted(X, y, alphas, kernel, sample_weight=None, **options):
    """Count by leaving out each pair in turn and fitting the rest."""
    right, total = np.zeros((2, len(alphas), len(y)))
    s = np.ones(len(y)) if sample_weight is None else sample_weight
    for a, alpha in enumerate(alphas):
        for i in range(len(y)):
            for j in range(i):
                rest = np.delete(np.arange(len(y)), [i, j])
                if y[i] == y[j] or len(np.unique(y[rest])) < 2:
                    continue
                ranker = RankRLS(alpha, kernel=kernel, **options)
                ranker.fit(X[rest], y[rest], sample_weight=s[rest])
                gap = np.subtract(*ranker.predict(X[[i, j]]))
                credit = 0.5 if abs(gap) < 1e-12 else float((gap > 0) == (y[i] > y[j]))
                for item in (i, j):
                    right[a, item] += credit
                    total[a, item] += 1
    return right, total


def found(X, y, kernel, alphas=ALPHAS, basis=None, sample_weight=None, **options):
    space = smallest_space(X, kernel, basis, len(y) - 1)
    data = TrainingData.of(len(y), y, sample_weight=sample_weight)
    settings = {"cost": "magnitude", "ties": "drop", "query_weight": "items"} | options
    return leave_each_pair_out(space, data, alphas, **settings)


@pytest.mark.parametrize("query_weight", ["items", "pairs", "equal"])
@pytest.mark.parametrize("kernel", [Linear(), Gaussian(0.3)], ids=repr)
@pytest.mark.parametrize(
    ("grades", "cost", "ties"),
    [
        (None, "magnitude", "drop"),
        (None, "magnitude", "keep"),
        (4, "magnitude", "keep"),
        (2, "magnitude", "drop"),
        (2, "unit", "drop"),
        (3, "unit", "drop"),
        (4, "magnitude", "drop"),
    ],
)
def test_leave_pair_out_equals_refit(kernel, grades, cost, ties, query_weight):
    X, y = data(1, grades=grades)
    options = {"cost": cost, "ties": ties, "query_weight": query_weight}
    result = found(X, y, kernel, **options)
    right, total = refitted(X, y, ALPHAS, kernel, **options)
    np.testing.assert_array_equal(result.total[..., 0], total)
    np.testing.assert_array_equal(result.right[..., 0], right)
    assert result.error.max() < 1e-6


@pytest.mark.parametrize("n_features", [3, 30])
@pytest.mark.parametrize("kernel", [Linear(), Gaussian(0.3)], ids=repr)
def test_weighted_items_equal_refit(kernel, n_features):
    X, y = data(2, n_features=n_features)
    s = np.random.default_rng(0).uniform(0.5, 2, len(y))
    result = found(X, y, kernel, ties="keep", sample_weight=s)
    right, _ = refitted(X, y, ALPHAS, kernel, sample_weight=s, ties="keep")
    np.testing.assert_array_equal(result.right[..., 0], right)


@pytest.mark.parametrize("query_weight", ["items", "pairs", "equal"])
@pytest.mark.parametrize(("grades", "ties"), [(None, "keep"), (3, "drop")])
def test_equal_weights_that_are_not_one_equal_refit(query_weight, grades, ties):
    X, y = data(2, grades=grades)
    s = np.full(len(y), 2.5)
    options = {"query_weight": query_weight, "ties": ties}
    result = found(X, y, Gaussian(0.3), sample_weight=s, **options)
    right, _ = refitted(X, y, ALPHAS, Gaussian(0.3), sample_weight=s, **options)
    np.testing.assert_array_equal(result.right[..., 0], right)


def test_several_outputs_equal_one_at_a_time():
    X, y = data(3)
    Y = np.column_stack([y, np.sin(4 * y), np.round(y)])
    together = found(X, Y, Gaussian(0.5), ties="keep")
    for k in range(3):
        alone = found(X, Y[:, k], Gaussian(0.5), ties="keep")
        np.testing.assert_array_equal(together.right[..., k], alone.right[..., 0])


def test_outputs_of_different_grades_equal_one_at_a_time():
    X, y = data(4, grades=3)
    Y = np.column_stack([y, y > 0])
    together = found(X, Y, Gaussian(0.5))
    for k in range(2):
        alone = found(X, Y[:, k], Gaussian(0.5))
        np.testing.assert_array_equal(together.right[..., k], alone.right[..., 0])


def test_basis_rows_give_the_low_rank_form():
    X, y = data(5)
    result = found(X, y, Gaussian(0.5), basis=X[:6], ties="keep")
    right, _ = refitted(X, y, ALPHAS, Gaussian(0.5), ties="keep", basis=X[:6])
    np.testing.assert_array_equal(result.right[..., 0], right)


def test_duplicate_rows_tie():
    X, y = data(6)
    X[1] = X[0]
    result = found(X, y, Gaussian(0.5), ties="keep")
    right, _ = refitted(X, y, ALPHAS, Gaussian(0.5), ties="keep")
    np.testing.assert_array_equal(result.right[..., 0], right)


def test_a_grade_of_one_item_is_left_out_of_the_count_when_nothing_remains():
    X, y = data(7, grades=2)
    y[:] = 0
    y[0] = 1
    with pytest.raises(InvalidInputError, match="two items of each of two grades"):
        found(X, y, Gaussian(0.5))


def test_lost_precision_is_admitted():
    X, y = data(8)
    result = found(X, y, Linear(), np.array([1e-18, 1.0]), ties="keep")
    wide = found(np.hstack([X] * 8), y, Linear(), np.array([1e-18, 1.0]), ties="keep")
    assert result.error[1] < 1e-10
    assert wide.error[0] > 1e-3 > wide.error[1]


def test_pairs_that_leave_too_few_items_for_the_features_are_admitted():
    X, y = data(8, n_features=8)
    result = found(X, y, Linear(), np.array([1e-16, 1.0]), ties="keep")
    assert result.error[0] > 1e-3 > result.error[1]


def test_lost_precision_of_refits_is_admitted():
    X, y = data(8)
    wide = np.hstack([X] * 8)
    result = found(wide, y, Linear(), np.array([1e-18, 1.0]), cost="relative")
    assert result.error[0] > 1e-3 > result.error[1]


@pytest.mark.parametrize(
    ("cost", "ties", "query_weight", "weighted"),
    [
        ("relative", "drop", "items", False),
        ("unit", "drop", "items", False),
        ("unit", "drop", "equal", True),
        ("magnitude", "drop", "items", True),
        ("magnitude", "keep", "pairs", True),
    ],
)
@pytest.mark.parametrize("kernel", [Linear(), Gaussian(0.3)], ids=repr)
def test_forms_without_a_shortcut_are_refitted(kernel, cost, ties, query_weight, weighted):
    X, y = data(9, n_items=8, grades=None if cost == "unit" else 4)
    s = np.linspace(1, 2, len(y)) if weighted else None
    options = {"cost": cost, "ties": ties, "query_weight": query_weight}
    result = found(X, y, kernel, sample_weight=s, **options)
    right, total = refitted(X, y, ALPHAS, kernel, sample_weight=s, **options)
    np.testing.assert_array_equal(result.right[..., 0], right)
    np.testing.assert_array_equal(result.total[..., 0], total)


@pytest.mark.parametrize("n_items", [2, 3])
@pytest.mark.parametrize("ties", ["drop", "keep"])
@pytest.mark.parametrize("query_weight", ["items", "pairs", "equal"])
def test_pairs_that_leave_fewer_than_two_items_are_refused(n_items, ties, query_weight):
    y = np.arange(n_items, dtype=float)
    with pytest.raises(InvalidInputError, match="at least four items"):
        found(y[:, None], y, Linear(), ties=ties, query_weight=query_weight)


@pytest.mark.parametrize(
    ("n_items", "message"), [(3, "at least four items"), (2000, "would take too long")]
)
def test_hopeless_refits_are_refused(n_items, message):
    X = np.arange(n_items, dtype=float)[:, None] * np.ones((1, n_items))
    with pytest.raises(InvalidInputError, match=message):
        found(X, np.arange(n_items) * 1.0, Linear(), cost="relative")


def test_scores_with_a_few_ties_among_very_many_are_refused():
    y = np.r_[0.0, np.arange(1499)]
    with pytest.raises(InvalidInputError, match="would take too long"):
        found(y[:, None], y, Linear())


@pytest.mark.parametrize("kernel", [Linear(), Gaussian(0.3)], ids=repr)
@pytest.mark.parametrize(
    ("grades", "cost", "ties", "weighted"),
    [
        (None, "magnitude", "keep", False),
        (3, "magnitude", "keep", True),
        (2, "magnitude", "drop", False),
        (4, "unit", "drop", False),
        (4, "relative", "drop", False),
    ],
)
def test_a_huge_alpha_gives_the_order_of_a_large_one(kernel, grades, cost, ties, weighted):
    X, y = data(10, grades=grades)
    s = np.linspace(1, 2, len(y)) if weighted else None
    options = {"cost": cost, "ties": ties, "sample_weight": s}
    result = found(X, y, kernel, np.array([1e8, 1e12, 1e16, 1e40, 1e200]), **options)
    assert result.error.max() < 1e-6
    assert 0.5 < result.concordance[0, 0] < 1
    np.testing.assert_array_equal(result.right, np.broadcast_to(result.right[:1], (5, 10, 1)))


@pytest.mark.parametrize("others", [[1.0], [1.0, 2.0]])
@pytest.mark.parametrize("alpha", [1.0, 1e20])
def test_pairs_that_leave_equal_scores_do_not_count(others, alpha):
    X, _ = data(11)
    y = np.zeros(10)
    y[: len(others)] = others
    if len(others) == 1:
        with pytest.raises(InvalidInputError, match="two items of each of two grades"):
            found(X, y, Gaussian(0.5), np.array([alpha]), ties="keep")
        return
    result = found(X, y, Gaussian(0.5), np.array([alpha]), ties="keep")
    right, total = refitted(X, y, np.array([alpha]), Gaussian(0.5), ties="keep")
    assert total[0, 0] == 8  # not with the only other item of another score
    np.testing.assert_array_equal(result.total[..., 0], total)
    if alpha == 1.0:
        np.testing.assert_array_equal(result.right[..., 0], right)


def test_items_of_weight_zero_are_not_judged_unless_asked_for():
    X, y = data(12)
    s = np.r_[0.0, np.ones(9)]
    result = found(X, y, Gaussian(0.5), ties="keep", sample_weight=s)
    without = found(X[1:], y[1:], Gaussian(0.5), ties="keep")
    np.testing.assert_array_equal(result.right[:, 1:], without.right)
    assert not result.total[:, 0].any()
