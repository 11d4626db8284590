"""The paired test over queries."""

from itertools import product

import numpy as np
import pytest
from scipy.stats import rankdata

from rankwise.core.errors import InvalidInputError
from rankwise.measures.evaluation import evaluate, paired_test


def exact_pvalue(difference):
    """Give every difference either sign, and ask how often the ranks are as unbalanced."""
    ranks = rankdata(np.abs(difference))
    seen = abs((ranks * np.sign(difference)).sum())
    signs = np.array(list(product([-1, 1], repeat=len(difference))))
    return np.mean(np.abs(signs @ ranks) >= seen)


@pytest.mark.parametrize("seed", range(3))
def test_pvalue_is_that_of_all_signs(seed):
    rng = np.random.default_rng(seed)
    a, b = rng.random(9), rng.random(9) + 0.2
    assert paired_test(a, b).pvalue == pytest.approx(exact_pvalue(a - b))


def test_equal_rankers_have_pvalue_one():
    result = paired_test([0.5, 0.25, 1.0], [0.5, 0.25, 1.0])
    assert (result.pvalue, result.statistic, result.mean_difference) == (1.0, 0.0, 0.0)
    assert (result.n_queries, result.n_equal, result.n_ignored) == (3, 3, 0)


def test_equal_queries_are_left_out_and_counted():
    a, b = [0.5, 0.6, 0.9, 0.4, 0.7], [0.5, 0.5, 0.7, 0.1, 0.3]
    result = paired_test(a, b)
    assert result.pvalue == paired_test(a[1:], b[1:]).pvalue
    assert (result.n_queries, result.n_equal) == (5, 1)
    assert result.mean_difference == pytest.approx(0.2)


def test_undefined_queries_are_ignored_and_counted():
    y, qid = [1, 0, 0, 0, 1, 0, 0, 1], [0, 0, 1, 1, 2, 2, 3, 3]
    a = evaluate(y, [2, 1, 2, 1, 2, 1, 1, 2], qid, ["AP", "NDCG"])
    b = evaluate(y, [1, 2, 1, 2, 1, 2, 1, 2], qid, ["AP", "NDCG"])
    result = paired_test(a, b, "AP")
    assert (result.n_queries, result.n_equal, result.n_ignored) == (3, 1, 1)
    assert result.mean_difference == pytest.approx(1 / 3)
    assert str(result) == (
        "mean difference +0.3333 over 3 queries (1 equal, 1 ignored), "
        "Wilcoxon signed-rank statistic 0, p = 0.5"
    )


def test_measure_may_be_left_out_when_there_is_one():
    a, b = evaluate([1, 0], [2, 1], measures="AP"), evaluate([1, 0], [1, 2], measures="AP")
    assert paired_test(a, b).mean_difference == 0.5


def test_one_sided_claims_share_the_pvalue():
    a, b = [0.5, 0.6, 0.9, 0.4], [0.4, 0.4, 0.6, 0.0]
    assert paired_test(a, b, alternative="greater").pvalue == pytest.approx(1 / 16)
    assert paired_test(b, a, alternative="less").pvalue == pytest.approx(1 / 16)


@pytest.mark.parametrize(
    ("a", "b", "options", "match"),
    [
        ([np.nan], [1.0], {}, "At least one query must have a value"),
        ([1.0, 2.0], [1.0], {}, r"one value per query: got shapes \(2,\) and \(1,\)"),
        ([1.0], [1.0], {"alternative": "more"}, "`alternative` must be one of 'two-sided'"),
        (
            evaluate([1, 0], [2, 1]),
            [1.0],
            {},
            "both must be values per query: got Evaluation and list",
        ),
        (evaluate([1, 0], [2, 1]), evaluate([1, 0], [2, 1]), {}, "`measure` must say what"),
        (
            evaluate([1, 0], [2, 1], ["a", "a"]),
            evaluate([1, 0], [2, 1], ["b", "b"]),
            {"measure": "NDCG"},
            "same queries in the same order",
        ),
    ],
)
def test_what_cannot_be_compared_is_refused(a, b, options, match):
    with pytest.raises(InvalidInputError, match=match):
        paired_test(a, b, **options)
