"""The interval of an AUC and the comparison of two, against all pairs written out and in draws."""

import numpy as np
import pytest
from scipy.stats import norm

import reference
from rankwise import AUC, InvalidInputError, Queries, auc_interval, compare_auc


def draw(seed, n_relevant=12, n_other=17):
    rng = np.random.default_rng(seed)
    y = rng.permutation(np.repeat([1.0, 0.0], [n_relevant, n_other]))
    a = np.round(y + rng.normal(size=len(y)), 1)  # some ties
    return y, a, np.round(0.5 * a + 0.3 * y + rng.normal(size=len(y)), 1)


@pytest.mark.parametrize("seed", range(5))
def test_value_and_error_are_those_of_all_pairs(seed):
    y, a, b = draw(seed)
    aucs, covariance = reference.auc_and_variance(y, a, b)
    interval, comparison = auc_interval(y, a), compare_auc(y, a, b)
    assert interval.value == pytest.approx(aucs[0])
    assert interval.value == pytest.approx(AUC.overall(y, a, Queries.single(len(y))))
    assert interval.standard_error == pytest.approx(np.sqrt(covariance[0, 0]))
    assert (comparison.first, comparison.second) == pytest.approx(tuple(aucs))
    variance = covariance[0, 0] + covariance[1, 1] - 2 * covariance[0, 1]
    assert comparison.standard_error == pytest.approx(np.sqrt(variance))
    assert (interval.n_relevant, interval.n_other) == (12, 17)


def test_the_scale_of_scores_and_the_names_of_classes_do_not_matter():
    y, a, _ = draw(3)
    assert auc_interval(np.where(y == 1, 7, -2), np.exp(a)) == auc_interval(y, a)


def test_turning_scores_round_turns_the_interval_round():
    y, a, b = draw(4)
    up, down = auc_interval(y, a), auc_interval(y, -a)
    assert (down.low, down.high) == pytest.approx((1 - up.high, 1 - up.low))
    one, other = compare_auc(y, a, b), compare_auc(y, b, a)
    assert (other.low, other.high) == pytest.approx((-one.high, -one.low))
    assert other.pvalue == pytest.approx(one.pvalue)
    greater, less = (compare_auc(y, a, b, alternative=side) for side in ("greater", "less"))
    assert greater.pvalue + less.pvalue == pytest.approx(1.0)
    assert min(greater.pvalue, less.pvalue) == pytest.approx(one.pvalue / 2)


@pytest.mark.parametrize(("lead", "n_items"), [(0.0, 15), (1.0, 20), (2.0, 20), (1.0, 60)])
def test_intervals_hold_the_truth_as_often_as_they_say(lead, n_items):
    """600 draws of two normal classes: 95 % of the intervals hold the true AUC, or a few more."""
    rng = np.random.default_rng(0)
    y, truth = np.repeat([1.0, 0.0], n_items), norm.cdf(lead / np.sqrt(2))
    held = 0
    for _ in range(600):
        interval = auc_interval(y, lead * y + rng.normal(size=len(y)))
        held += interval.low <= truth <= interval.high
    assert 0.93 <= held / 600 <= 0.99


@pytest.mark.parametrize("n_items", [15, 60])
def test_equally_good_rankers_differ_as_rarely_as_the_p_value_says(n_items):
    """Two rankers see the same truth through noise of their own, and share half of it."""
    rng = np.random.default_rng(1)
    y = np.repeat([1.0, 0.0], n_items)
    pvalues = []
    for _ in range(600):
        shared = y + rng.normal(size=len(y))
        a, b = shared + rng.normal(size=(2, len(y)))
        pvalues.append(compare_auc(y, a, b).pvalue)
    assert 0.02 <= np.mean(np.array(pvalues) < 0.05) <= 0.08
    assert 0.43 <= np.mean(np.array(pvalues) < 0.5) <= 0.57


def test_a_difference_is_found():
    rng = np.random.default_rng(2)
    y = np.repeat([1.0, 0.0], 100)
    found = [
        compare_auc(y, y + rng.normal(size=200), y + 3 * rng.normal(size=200)).pvalue < 0.05
        for _ in range(50)
    ]
    assert np.mean(found) > 0.8


def test_what_has_no_spread_is_bounded_by_the_number_of_items():
    y = np.repeat([0.0, 1.0], [5, 10])
    perfect = auc_interval(y, y)
    assert (perfect.value, perfect.high) == (1.0, 1.0)
    assert perfect.low == pytest.approx(0.025 ** (1 / 5))
    assert compare_auc(y, y, y).pvalue == 1.0
    assert compare_auc(y, y, -y).pvalue == 2 * 0.5**5
    assert compare_auc(y, y, -y, alternative="less").pvalue == 1.0


@pytest.mark.parametrize(
    ("call", "match"),
    [
        (lambda: auc_interval([0, 1, 2, 0], [1, 2, 3, 4]), "two classes .* got 3 different"),
        (lambda: auc_interval([0, 1, 0, 0], [1, 2, 3, 4]), "one of them 1 times"),
        (lambda: auc_interval([0, 0, 1, 1], [1, 2, 3]), "`scores` must have one entry"),
        (lambda: auc_interval([0, 0, 1, 1], [1, 2, 3, np.nan]), "`scores`"),
        (lambda: auc_interval([0, 0, 1, 1], np.ones((4, 2))), "`scores` must be one-dim"),
        (lambda: auc_interval([0, 0, 1, 1], [1, 2, 3, 4], confidence=95), "`confidence` must"),
        (lambda: compare_auc([0, 0, 1, 1], [1, 2, 3, 4], [1, 2]), "`b` must have one entry"),
        (
            lambda: compare_auc([0, 0, 1, 1], [1, 2, 3, 4], [4, 3, 2, 1], alternative="more"),
            "`alternative`",
        ),
    ],
)
def test_what_makes_no_sense_is_refused(call, match):
    with pytest.raises(InvalidInputError, match=match):
        call()
