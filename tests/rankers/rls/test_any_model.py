"""Unseen pairs of any model: refits, closed forms, groups, labels, comparisons."""

import numpy as np
import pytest
from sklearn.linear_model import LogisticRegression, Ridge
from sklearn.metrics import roc_auc_score, roc_curve
from sklearn.model_selection import GridSearchCV
from sklearn.naive_bayes import GaussianNB
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

import reference
from problems import problem
from rankwise import Gaussian, InvalidInputError, RankRLS, leave_pair_out


def drawn(n=16, seed=0):
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n, 3))
    return X, (X[:, 0] + rng.normal(size=n) > 0).astype(int)


def naive(model, X, y):
    """Fit without each pair, one at a time."""
    right = total = 0.0
    for i in np.flatnonzero(y == 1):
        for j in np.flatnonzero(y == 0):
            kept = np.setdiff1d(np.arange(len(y)), [i, j])
            a, b = model.fit(X[kept], y[kept]).predict(X[[i, j]])
            right += 0.5 * (1 + np.sign(a - b))
            total += 1
    return right / total


def test_value_is_that_of_refits():
    X, y = drawn()
    estimate = leave_pair_out(Ridge(), X, y)
    assert estimate.value == pytest.approx(naive(Ridge(), X, y))
    assert estimate.n_pairs == estimate.n_fits == y.sum() * (1 - y).sum()
    assert estimate.low < estimate.value < estimate.high
    assert "pairs left out" in str(estimate)


@pytest.mark.parametrize(
    "ranker", [RankRLS(0.5), RankRLS(2.0, ties="keep"), RankRLS(kernel=Gaussian(0.3))], ids=repr
)
def test_closed_form_equals_refits(ranker):
    X, y = drawn()
    quick = leave_pair_out(ranker, X, y)
    slow = leave_pair_out(make_pipeline(ranker), X, y)
    assert quick.n_fits == 0
    assert slow.n_fits > 0
    assert quick.value == pytest.approx(slow.value)
    assert quick.standard_error == pytest.approx(slow.standard_error)
    assert quick.n_pairs == slow.n_pairs


def test_a_basis_is_not_ignored():
    X, y = drawn()
    ranker = RankRLS(kernel=Gaussian(0.3), basis=[0, 1, 2])
    found = leave_pair_out(ranker, X, y)
    assert found.n_fits > 0
    assert found.value == leave_pair_out(make_pipeline(ranker), X, y).value


@pytest.mark.parametrize("groups", [None, np.arange(16) // 2], ids=["pairs", "groups"])
def test_weights_reach_the_fits(groups):
    X, y = drawn()
    weight = np.arange(16) % 4 / 2.0
    if groups is None:
        closed = leave_pair_out(RankRLS(2.0, ties="keep"), X, y, sample_weight=weight)
        curve = leave_pair_out(RankRLS(2.0, ties="keep"), X, y, sample_weight=weight, roc=True)
        assert (closed.n_fits, curve.n_fits) == (0, 16 * 15 / 2)
        assert (closed.value, closed.n_pairs) == pytest.approx((curve.value, curve.n_pairs))
    seen = []

    class Spy(Ridge):
        def fit(self, X, y, sample_weight):
            seen.append(dict(zip(map(tuple, X), sample_weight, strict=True)))
            return super().fit(X, y, sample_weight)

    leave_pair_out(Spy(), X, y, groups, sample_weight=weight)
    of_row = dict(zip(map(tuple, X), weight, strict=True))
    assert all(known.items() <= of_row.items() for known in seen)


def test_weights_need_a_fit_that_takes_them():
    X, y = drawn()
    with pytest.raises(InvalidInputError, match="`sample_weight` needs an estimator whose `fit`"):
        leave_pair_out(make_pipeline(Ridge()), X, y, sample_weight=np.ones(16))


def test_one_class_may_be_judged_against_several():
    X, y = drawn()
    three = np.where(y == 1, "ill", np.where(np.arange(16) % 3 == 0, "well", "unknown"))
    for model in (Ridge(), LogisticRegression(), RankRLS(ties="keep")):
        expected = leave_pair_out(model, X, y)
        found = leave_pair_out(model, X, three, positive="ill")
        assert (found.value, found.n_pairs) == pytest.approx((expected.value, expected.n_pairs))


def test_permutations_of_a_closed_form_are_not_refitted():
    X, y = drawn()
    options = {"n_permutations": 19, "random_state": 0}
    quick = leave_pair_out(RankRLS(ties="keep"), X, y, **options)
    slow = leave_pair_out(make_pipeline(RankRLS(ties="keep")), X, y, **options)
    assert quick.n_fits == 0
    assert quick.pvalue == slow.pvalue


@pytest.mark.parametrize("model", [LogisticRegression(), GaussianNB()], ids=repr)
def test_labels_may_be_text(model):
    X, y = drawn()
    numbers = leave_pair_out(model, X, y)
    text = np.where(y == 1, "a case", "control")
    named = leave_pair_out(model, X, text, positive="a case")
    assert named.value == pytest.approx(numbers.value)
    other = leave_pair_out(model, X, text, positive="control")
    assert other.value == pytest.approx(numbers.value)


def test_groups_are_left_out_together():
    X, y = drawn(12)
    groups = np.repeat(np.arange(6), 2)
    twin = X.copy()
    twin[1::2] = twin[::2]  # two copies of each patient, with the same label
    y[1::2] = y[::2]
    seen = []

    class Spy(Ridge):
        def fit(self, X, y):
            seen.append({tuple(row) for row in X})
            return super().fit(X, y)

    estimate = leave_pair_out(Spy(), twin, y, groups)
    assert all(len(rows) == 4 for rows in seen)
    assert estimate.n_fits == len(seen)
    assert len(estimate.right) == 6


def test_searches_are_nested_and_frames_are_taken():
    pd = pytest.importorskip("pandas")
    X, y = drawn()
    search = GridSearchCV(make_pipeline(StandardScaler(), Ridge()), {"ridge__alpha": [0.1, 10]},
                          cv=2)  # fmt: skip
    frame = pd.DataFrame(X, columns=["a", "b", "c"])
    assert 0.0 <= leave_pair_out(search, frame, y, n_fits=5, random_state=0).value <= 1.0


def test_drawn_pairs_and_several_jobs():
    X, y = drawn()
    first = leave_pair_out(Ridge(), X, y, n_fits=20, random_state=1)
    again = leave_pair_out(Ridge(), X, y, n_fits=20, random_state=1, n_jobs=2)
    assert first.n_fits == first.n_pairs == 20
    np.testing.assert_array_equal(first.right, again.right)


def test_permutations_tell_signal_from_noise():
    rng = np.random.default_rng(0)
    X = rng.normal(size=(14, 2))
    y = (X[:, 0] > np.median(X[:, 0])).astype(int)
    assert leave_pair_out(Ridge(), X, y, n_permutations=19, random_state=0).pvalue == 0.05
    noise = leave_pair_out(Ridge(), rng.normal(size=(14, 2)), y, n_permutations=19, random_state=0)
    assert noise.pvalue > 0.05


def test_two_models_are_compared_on_the_same_pairs():
    X, y = drawn(24)
    good = leave_pair_out(Ridge(), X, y)
    poor = leave_pair_out(Ridge(), X[:, 2:], y)
    difference = good.minus(poor)
    assert difference.value == pytest.approx(good.value - poor.value)
    assert difference.low < difference.value < difference.high
    assert difference.pvalue < 0.05
    assert good.minus(good).pvalue == 1.0
    with pytest.raises(InvalidInputError, match="must be of the same pairs"):
        good.minus(leave_pair_out(Ridge(), X, y, n_fits=10, random_state=0))


def test_pairs_that_leave_nothing_to_learn_are_skipped():
    X, y = drawn(6)
    y = np.array([1, 0, 0, 0, 0, 1])
    assert leave_pair_out(Ridge(), X, y).n_skipped == 0
    with pytest.raises(InvalidInputError, match="At least one pair"):
        leave_pair_out(Ridge(), X, np.array([1, 0, 0, 0, 0, 0]))


@pytest.mark.parametrize(
    ("y", "options", "message"),
    [
        (["a", "b", "c", "a"], {}, "numbers or two classes"),
        (
            np.array(["a", "b", None, "a"], dtype=object),
            {},
            "a label for every row: row 2 has none",
        ),
        (np.array(["a", "b", 1, "a"], dtype=object), {}, "numbers, or labels of one type"),
        (["a", "b", "a", "b"], {"positive": "z"}, "`positive` must be one of"),
        ([1, 1, 1, 1], {}, "at least two classes"),
        ([1, 0, 1, 0], {"groups": [1, 1, 1, 1]}, "different rank in different groups"),
        ([1, 0, 1], {}, "`y` must have one entry"),
        ([0, 1, 0, 1], {"confidence": 2}, "`confidence` must be a finite number between 0 and 1"),
        ([0, 1, 0, 1], {"n_fits": 0}, "`n_fits` must be"),
    ],
)
def test_input_is_checked(y, options, message):
    with pytest.raises(InvalidInputError, match=message):
        leave_pair_out(Ridge(), np.eye(4), y, **options)


def test_classifiers_of_more_classes_are_refused():
    X, _ = drawn(12)
    with pytest.raises(InvalidInputError, match="two classes here"):
        leave_pair_out(LogisticRegression(), X, np.arange(12) % 3)


@pytest.mark.parametrize("alpha", [0.01, 1e6])
@pytest.mark.parametrize(
    ("grades", "options"),
    [
        (None, {}),
        (None, {"kernel": Gaussian(0.3)}),
        (3, {"ties": "keep", "query_weight": "pairs"}),
        (3, {"ties": "drop"}),
        (3, {"ties": "drop", "cost": "unit", "kernel": Gaussian(0.3)}),
        (4, {"cost": "relative"}),
    ],
    ids=str,
)
def test_leads_are_those_of_models_without_the_pair(grades, options, alpha):
    p = problem(seed=7, sizes=(14,), grades=grades)
    ranker = RankRLS(alpha, **options)
    found = leave_pair_out(ranker, p.X, p.y, keep_leads=True)
    assert found.n_fits == 0
    assert len(found.pairs) == found.n_pairs
    assert (p.y[found.pairs[:, 0]] > p.y[found.pairs[:, 1]]).all()
    expected = []
    for pair in found.pairs:
        rest = np.setdiff1d(np.arange(len(p.y)), pair)
        fit = RankRLS(alpha, **options).fit(p.X[rest], p.y[rest])
        expected.append(np.subtract(*fit.predict(p.X[pair])))
    scale = np.abs(expected).max()
    np.testing.assert_allclose(found.leads, expected, atol=1e-7 * scale)
    assert found.value == pytest.approx(np.mean((np.sign(found.leads) + 1) / 2))


def test_leads_of_any_model_and_groups():
    p = problem(seed=7, sizes=(12,), grades=3)
    groups = np.arange(12) // 2
    found = leave_pair_out(Ridge(), p.X, p.y, groups, keep_leads=True)
    for pair, lead in zip(found.pairs, found.leads, strict=True):
        rest = ~np.isin(groups, groups[pair])
        fit = Ridge().fit(p.X[rest], p.y[rest])
        assert lead == pytest.approx(np.subtract(*fit.predict(p.X[pair])))
    assert leave_pair_out(Ridge(), p.X, p.y, groups).leads is None


def fitted(X, y):
    return Ridge().fit(X, y).predict


def test_tournament_is_that_of_refits():
    X, y = drawn()
    roc = leave_pair_out(Ridge(), X, y, roc=True).roc
    wins = reference.tournament_wins(fitted, X, y)
    np.testing.assert_allclose(roc.wins, wins)
    false_positive, true_positive, least = roc_curve(y, wins, drop_intermediate=False)
    np.testing.assert_allclose(roc.false_positive_rate, false_positive)
    np.testing.assert_allclose(roc.true_positive_rate, true_positive)
    np.testing.assert_allclose(roc.thresholds, least)
    assert roc.area == pytest.approx(roc_auc_score(y, wins))


@pytest.mark.parametrize(
    "ranker",
    [RankRLS(0.5), RankRLS(2.0, ties="keep"), RankRLS(kernel=Gaussian(0.3), ties="keep")],
    ids=repr,
)
def test_tournament_in_closed_form_equals_refits(ranker):
    X, y = drawn()
    quick = leave_pair_out(ranker, X, y, roc=True)
    slow = leave_pair_out(make_pipeline(ranker), X, y, roc=True)
    assert (quick.n_fits == 0) == (ranker.ties == "keep")
    np.testing.assert_allclose(quick.roc.wins, slow.roc.wins)
    assert quick.value == pytest.approx(slow.value)
    assert slow.value == pytest.approx(leave_pair_out(ranker, X, y).value)


def test_tournament_of_groups_and_text():
    X, y = drawn()
    groups, labels = np.arange(16) // 2, np.where(y == 1, "ill", "well")
    found = leave_pair_out(GaussianNB(), X, labels, groups, positive="ill", roc=True)
    same = leave_pair_out(GaussianNB(), X, labels, groups, positive="ill")
    assert (found.value, found.n_pairs, found.n_skipped) == (
        same.value,
        same.n_pairs,
        same.n_skipped,
    )
    assert found.n_fits == 8 * 7 / 2
    np.testing.assert_array_equal(found.roc.is_positive, y == 1)
    assert found.roc.to_frame().shape == (len(found.roc.thresholds), 3)
    assert found.roc.to_dict()["thresholds"][0] is None
    assert "against" in repr(found.roc)
    ax = found.plot()
    np.testing.assert_allclose(ax.lines[0].get_ydata(), found.roc.true_positive_rate)


def test_tournament_area_is_the_value_where_no_meeting_contradicts_another():
    X = np.arange(12.0)[:, None]
    found = leave_pair_out(Ridge(), X, X[:, 0] > 4.0, roc=True)
    assert found.roc.area == found.value == 1.0


def test_curve_is_refused_without_two_classes_or_all_pairs():
    X, y = drawn()
    with pytest.raises(InvalidInputError, match="needs two classes"):
        leave_pair_out(Ridge(), X, X[:, 0], roc=True)
    with pytest.raises(InvalidInputError, match="needs all pairs"):
        leave_pair_out(Ridge(), X, y, roc=True, n_fits=5)


def test_curve_of_leave_pair_out():
    X, y = drawn()
    estimate = leave_pair_out(RankRLS(ties="keep"), X, np.where(y == 1, "b", "a"), roc=True)
    np.testing.assert_allclose(
        estimate.roc.wins,
        leave_pair_out(make_pipeline(RankRLS(ties="keep")), X, y, roc=True).roc.wins,
    )
    assert estimate.value == leave_pair_out(RankRLS(ties="keep"), X, y).value
    assert estimate.to_dict()["roc"]["area"] == estimate.roc.area
    assert "roc" not in estimate.to_frame()
    assert estimate.plot().get_xlabel() == "false positive rate"
