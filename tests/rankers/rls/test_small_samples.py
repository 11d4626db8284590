"""Estimates from few samples are what they say."""

import numpy as np
import pytest
from scipy import stats

from problems import problem
from rankwise import (
    InvalidInputError,
    NothingToLearnError,
    NumericalError,
    RankRLS,
    RankRLSCV,
    evaluate,
    leave_pair_out,
    permutation_test,
)
from rankwise.features.kernels import as_kernel


def sample(seed, n_items=16, n_features=3, signal=1.0):
    rng = np.random.default_rng(seed)
    y = np.arange(n_items) % 2
    return rng.normal(size=(n_items, n_features)) + signal * y[:, None], y


@pytest.mark.parametrize("ties", ["keep", "drop"])
def test_auc_equals_leaving_out_each_pair(ties):
    X, y = sample(0)
    right = [
        np.subtract(*_without(X, y, i, j, ties).predict(X[[i, j]])) > 0
        for i in np.flatnonzero(y == 1)
        for j in np.flatnonzero(y == 0)
    ]
    estimate = leave_pair_out(RankRLS(alpha=0.5, kernel="gaussian", ties=ties), X, y)
    assert estimate.value == pytest.approx(np.mean(right))
    assert estimate.n_pairs == len(right)


def _without(X, y, i, j, ties):
    rest = np.delete(np.arange(len(y)), [i, j])
    from rankwise import Gaussian

    kernel = Gaussian().fitted_to(X)
    return RankRLS(0.5, kernel=kernel, ties=ties).fit(X[rest], y[rest])


def test_standard_error_is_delongs():
    X, y = sample(1, n_items=12)
    estimate = leave_pair_out(RankRLS(ties="keep"), X, y)
    wins = np.array(
        [
            [
                np.subtract(
                    *RankRLS(ties="keep")
                    .fit(np.delete(X, [i, j], 0), np.delete(y, [i, j]))
                    .predict(X[[i, j]])
                )
                > 0
                for j in np.flatnonzero(y == 0)
            ]
            for i in np.flatnonzero(y == 1)
        ]
    )
    variance = wins.mean(axis=1).var() / len(wins) + wins.mean(axis=0).var() / wins.shape[1]
    assert estimate.standard_error == pytest.approx(np.sqrt(variance))


def test_estimate_is_unbiased_where_pooled_folds_are_too_low():
    """Pure noise has an AUC of one half; pooling the scores of ten folds says less."""
    pairs, pooled = [], []
    for seed in range(100):
        X, y = sample(seed, n_items=16, signal=0.0)
        pairs.append(leave_pair_out(RankRLS(ties="keep"), X, y).value)
        scores = np.empty(len(y))
        for fold in np.array_split(np.random.default_rng(seed).permutation(len(y)), 10):
            rest = np.setdiff1d(np.arange(len(y)), fold)
            centre = y[rest].mean()
            fitted = RankRLS(ties="keep").fit(X[rest], y[rest])
            scores[fold] = centre + fitted.predict(X[fold] - X[rest].mean(axis=0))
        pooled.append(evaluate(y, scores, measures=["AUC"])["AUC"])
    assert stats.ttest_1samp(pairs, 0.5).pvalue > 0.01
    assert stats.ttest_1samp(pooled, 0.5, alternative="less").pvalue < 1e-3


def test_interval_covers_and_shrinks():
    wide = leave_pair_out(RankRLS(ties="keep"), *sample(2, 20), confidence=0.99)
    narrow = leave_pair_out(RankRLS(ties="keep"), *sample(2, 20), confidence=0.5)
    assert wide.low < narrow.low < narrow.value < narrow.high < wide.high < 1


def test_a_perfect_value_has_a_lower_end_below_one():
    X, y = sample(3, 12, signal=50.0)
    estimate = leave_pair_out(RankRLS(ties="keep"), X, y)
    assert estimate.value == 1.0
    assert 0.4 < estimate.low < 1.0 == estimate.high


def test_p_value_is_uniform_under_noise_and_small_under_signal():
    values = [
        permutation_test(*sample(s, signal=0.0), n_permutations=99, random_state=s).pvalue
        for s in range(40)
    ]
    assert stats.kstest(values, "uniform").pvalue > 0.01
    assert permutation_test(*sample(4, 20, signal=2.0), n_permutations=99).pvalue == 0.01


def test_the_true_labels_are_cross_validated_like_the_shuffled():
    X, y = sample(5, 20)
    test = permutation_test(X, y, alphas=[0.1, 10.0], n_permutations=5, random_state=0)
    ranker = RankRLSCV([0.1, 10.0], ties="keep").fit(X, y)
    assert test.value == pytest.approx(ranker.held_out_value_)
    assert len(test.null) == 5


@pytest.mark.parametrize("measure", [None, "NDCG @ 3", "Disagreement"])
def test_labels_are_shuffled_inside_queries(measure):
    p = problem(seed=6, sizes=(6, 5, 7, 4, 6, 1))
    test = permutation_test(p.X, p.y, p.qid, measure=measure, n_permutations=150, random_state=0)
    ranker = RankRLSCV([1.0], ties="keep", measure=measure).fit(p.X, p.y, p.qid)
    assert test.value == pytest.approx(ranker.held_out_value_)
    better = test.null >= test.value if test.measure.greater_is_better else test.null <= test.value
    assert test.pvalue == (1 + better.sum()) / 151


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (
            lambda X, y: leave_pair_out(RankRLS(ties="keep"), X, y, confidence=1.5),
            "`confidence` must be a finite number between 0 and 1",
        ),
        (lambda X, y: leave_pair_out(RankRLS(alpha=0, ties="keep"), X, y), "`alpha` must be"),
        (lambda X, y: leave_pair_out(RankRLS(ties="keep"), X, y[:-1]), "X has 16 rows, y has 15"),
        (lambda X, y: leave_pair_out(RankRLS(ties="keep"), X, np.c_[y, y]), "one output at a time"),
        (lambda X, y: permutation_test(X, y, n_permutations=0), "`n_permutations` must be"),
        (lambda X, y: permutation_test(X, y, measure="NDCG"), "judges pairs"),
    ],
)
def test_bad_input_is_refused(call, message):
    with pytest.raises(InvalidInputError, match=message):
        call(*sample(0))


@pytest.mark.parametrize(
    ("y", "qid"),
    [
        (np.zeros(20), None),
        (np.repeat([0, 1, 2, 3], 5), np.repeat([0, 1, 2, 3], 5)),
        (np.arange(20), np.arange(20)),
    ],
)
def test_labels_that_cannot_be_shuffled_are_refused(y, qid):
    X = np.random.default_rng(0).normal(size=(20, 3))
    with pytest.raises(NothingToLearnError, match="`y` must hold different labels"):
        permutation_test(X, y, qid, n_permutations=9)


def test_one_item_is_refused():
    with pytest.raises(NothingToLearnError, match="`y` must hold different labels"):
        permutation_test([[1.0]], [1.0], n_permutations=9)


@pytest.mark.parametrize("qid", [None, np.arange(16) // 4])
def test_nothing_is_significant_where_rounding_has_taken_over(qid):
    X, y = sample(6)
    y = y * np.arange(16)
    X = np.hstack([X] * 16)
    with pytest.raises(NumericalError, match="must be known for some alpha"):
        permutation_test(X, y, qid, alphas=[1e-30, 1e-28], n_permutations=9)
    both = permutation_test(X, y, qid, alphas=[1e-30, 1.0], n_permutations=9, random_state=0)
    alone = permutation_test(X, y, qid, alphas=1.0, n_permutations=9, random_state=0)
    assert (both.value, both.pvalue) == (alone.value, alone.pvalue)


def test_one_class_is_refused_as_such():
    X, _ = sample(0)
    with pytest.raises(NothingToLearnError, match="at least two classes"):
        leave_pair_out(RankRLS(ties="keep"), X, np.ones(16))


@pytest.mark.parametrize("seed", range(6))
@pytest.mark.parametrize("kernel", ["linear", "gaussian"])
@pytest.mark.parametrize("ties", ["keep", "drop"])
def test_auc_with_items_of_weight_zero_equals_refit(seed, kernel, ties):
    rng = np.random.default_rng(seed)
    X, y = rng.normal(size=(9, 2)), rng.integers(0, 2 + seed % 2, 9)
    y[:4] = [0, 0, 1, 1]
    weight = rng.choice([0.0, 1.0, 1.0, 2.0], 9)
    weight[:4] = 1.0
    weight[8] = 0.0
    fixed = as_kernel(kernel).fitted_to(X, weight)
    credits = []
    for i in range(9):
        for j in range(i):
            rest = np.delete(np.arange(9), [i, j])
            if y[i] == y[j]:
                continue
            ranker = RankRLS(0.5, kernel=fixed, ties=ties)
            ranker.fit(X[rest], y[rest], sample_weight=weight[rest])
            credits.append(np.subtract(*ranker.predict(X[[i, j]])) * (y[i] - y[j]) > 0)
    found = leave_pair_out(RankRLS(alpha=0.5, kernel=kernel, ties=ties), X, y, sample_weight=weight)
    assert found.n_pairs == len(credits)
    assert found.value == pytest.approx(np.mean(credits))


def test_shuffles_are_followed_by_a_bar(capsys):
    rng = np.random.default_rng(0)
    X = rng.normal(size=(12, 2))
    found = permutation_test(X, X[:, 0], n_permutations=70, progress=True, random_state=0)
    said = capsys.readouterr()
    assert "shuffled labels" in said.err
    assert said.out == ""  # which may be read by a program
    silent = permutation_test(X, X[:, 0], n_permutations=70, random_state=0)
    np.testing.assert_array_equal(found.null, silent.null)


@pytest.mark.parametrize(
    "labels", [("control", "tumour"), (False, True), (0, 1)], ids=["text", "truth", "numbers"]
)
def test_labels_of_any_kind_give_the_values_of_numbers(labels):
    rng = np.random.default_rng(3)
    X = rng.normal(size=(24, 3))
    y = (X[:, 0] + 0.5 * rng.normal(size=24) > 0).astype(int)
    given = np.array([labels[k] for k in y], dtype=object)
    for positive in (0, 1):
        truth = (y == positive).astype(float)
        found = leave_pair_out(RankRLS(ties="keep"), X, given, positive=labels[positive])
        assert found.value == leave_pair_out(RankRLS(ties="keep"), X, truth).value
        options = {"n_permutations": 9, "random_state": 0}
        tested = permutation_test(X, given, positive=labels[positive], **options)
        assert tested.value == permutation_test(X, truth, **options).value
    if isinstance(labels[0], str):
        expected = leave_pair_out(RankRLS(ties="keep"), X, given, positive="tumour").value
        assert leave_pair_out(RankRLS(ties="keep"), X, given).value == expected
    with pytest.raises(InvalidInputError, match="`positive` must be one of"):
        leave_pair_out(RankRLS(ties="keep"), X, given, positive="healthy")
