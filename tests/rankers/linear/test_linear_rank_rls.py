"""LinearRankRLS finds by iteration what RankRLS finds in closed form, and stops where told to."""

import signal
from dataclasses import replace
from itertools import combinations

import numpy as np
import pytest
from scipy.sparse import csr_array
from sklearn.base import clone
from sklearn.utils.estimator_checks import check_estimator

import reference
from problems import problem
from rankwise import (
    ConvergenceWarning,
    InvalidInputError,
    ModelFileError,
    NothingToLearnError,
    Queries,
    RankRLS,
    parse_measure,
)
from rankwise.core.queries import TrainingData
from rankwise.measures.pairwise import Concordance, Disagreement
from rankwise.rankers.linear import run as run_module
from rankwise.rankers.linear.linear_rank_rls import LinearRankRLS
from rankwise.rankers.linear.validation import several_hold_outs
from rankwise.rankers.storage import load

CONVENTIONS = [
    {"cost": cost, "ties": ties, "query_weight": weight}
    for cost, ties in [
        ("magnitude", "drop"),
        ("magnitude", "keep"),
        ("unit", "drop"),
        ("relative", "drop"),
    ]
    for weight in ("items", "pairs", "equal")
]
ALPHAS = 2.0 ** np.arange(-6, 7)
SIZES = (12, 1, 9, 15, 2, 20, 8, 7, 6, 11)
P = problem(0, sizes=SIZES, n_features=8)
V = problem(1, sizes=(9, 14, 1, 6), n_features=8)
V = replace(V, qid=V.qid + 1000)  # other queries than those of P
EXACT = {"tol": 1e-13, "max_iter": 1000}


def test_scikit_learn_accepts_it():
    check_estimator(LinearRankRLS(), on_skip=None)
    check_estimator(LinearRankRLS(ties="keep", dtype="float64"), on_skip=None)


@pytest.mark.parametrize("sparse", [True, False])
@pytest.mark.parametrize("options", CONVENTIONS)
def test_solution_equals_the_closed_form(options, sparse):
    weight = np.random.default_rng(0).integers(0, 3, len(P.y))
    X = csr_array(P.X) if sparse else P.X
    for alpha in (1e-3, 10.0):
        ranker = LinearRankRLS(alpha, **options, **EXACT).fit(X, P.y, P.qid, weight)
        exact = RankRLS(alpha, **options).fit(P.X, P.y, P.qid, weight)
        np.testing.assert_allclose(ranker.coef_, exact.coef_, rtol=1e-6, atol=1e-9)
        assert ranker.n_ignored_queries_ == exact.n_ignored_queries_
        assert ranker.n_queries_ == exact.n_queries_
        assert ranker.alpha_ == alpha


def test_comparisons_equal_the_closed_form():
    rng = np.random.default_rng(0)
    pairs = rng.integers(0, len(P.y), size=(60, 2))
    pairs = pairs[pairs[:, 0] != pairs[:, 1]]
    given = {"pair_margin": rng.normal(size=len(pairs)), "pair_weight": rng.random(len(pairs))}
    exact = RankRLS(0.5).fit(P.X, pairs=pairs, **given)
    for X in (P.X, csr_array(P.X)):
        ranker = LinearRankRLS(0.5, **EXACT).fit(X, pairs=pairs, **given)
        np.testing.assert_allclose(ranker.coef_, exact.coef_, rtol=1e-8)


@pytest.mark.parametrize("cost", ["magnitude", "unit", "relative"])
def test_the_cost_of_comparisons_is_honoured(cost):
    rng = np.random.default_rng(2)
    pairs = rng.integers(0, len(P.y), size=(60, 2))
    pairs = pairs[pairs[:, 0] != pairs[:, 1]]
    margin, weight = rng.normal(size=len(pairs)), rng.random(len(pairs))
    target = np.sign(margin) if cost == "unit" else margin
    counted = weight / margin**2 if cost == "relative" else weight
    L, r = reference.laplacian(zip(*pairs.T, target, counted, strict=True), len(P.y))
    given = {"pairs": pairs, "pair_margin": margin, "pair_weight": weight}
    exact = RankRLS(0.5, cost=cost).fit(P.X, **given)
    for X in (P.X, csr_array(P.X)):
        ranker = LinearRankRLS(0.5, cost=cost, **EXACT).fit(X, **given)
        np.testing.assert_allclose(ranker.coef_, reference.fit_primal(P.X, L, r, 0.5), rtol=1e-6)
        np.testing.assert_allclose(ranker.coef_, exact.coef_, rtol=1e-6)


def test_held_out_comparisons_are_not_learned_from():
    rng = np.random.default_rng(3)
    pairs = rng.integers(0, len(P.y), size=(40, 2))
    pairs = pairs[pairs[:, 0] != pairs[:, 1]]
    ranker = LinearRankRLS(alphas=[1.0, 1.0], random_state=0, validation_fraction=0.5, **EXACT)
    ranker.fit(P.X, pairs=pairs)
    drawn = np.random.default_rng(np.random.RandomState(0).randint(2**31)).permutation(len(pairs))
    kept = pairs[drawn[round(0.5 * len(pairs)) :]]
    ones = np.ones(len(kept))
    L, r = reference.laplacian(zip(*kept.T, ones, ones, strict=True), len(P.y))
    np.testing.assert_allclose(ranker.coef_, reference.fit_primal(P.X, L, r, 1.0), rtol=1e-9)


def test_single_precision_storage_changes_little():
    for X in (P.X, csr_array(P.X)):
        double = LinearRankRLS(0.1, **EXACT).fit(X, P.y, P.qid)
        single = LinearRankRLS(0.1, dtype="float32", **EXACT).fit(X, P.y, P.qid)
        np.testing.assert_allclose(single.coef_, double.coef_, rtol=1e-4, atol=1e-6)
        assert np.any(single.coef_ != double.coef_)


def test_order_of_rows_changes_nothing():
    order = np.random.default_rng(0).permutation(len(P.y))
    for X in (P.X, csr_array(P.X)):
        first = LinearRankRLS(**EXACT).fit(X, P.y, P.qid)
        other = LinearRankRLS(**EXACT).fit(X[order], P.y[order], P.qid[order])
        np.testing.assert_allclose(other.coef_, first.coef_, rtol=1e-9)


@pytest.mark.parametrize("given", [True, False])
def test_the_grid_chooses_as_separate_fits_would(given):
    val = {"X_val": V.X, "y_val": V.y, "qid_val": V.qid} if given else {}
    ranker = LinearRankRLS(alphas=ALPHAS, random_state=3, validation_fraction=0.4, **EXACT)
    ranker.fit(P.X, P.y, P.qid, **val)
    values = [
        clone(ranker).set_params(alphas=[a, 2 * a]).fit(P.X, P.y, P.qid, **val).history_["value"]
        for a in ALPHAS
    ]
    last = [v[~np.isnan(v[:, 0]), 0][-1] for v in values]
    assert ranker.held_out_value_ == pytest.approx(max(last))
    assert ranker.alpha_ == max(a for a, v in zip(ALPHAS, last, strict=True) if v == max(last))
    if given:
        exact = RankRLS(ranker.alpha_).fit(P.X, P.y, P.qid)
        np.testing.assert_allclose(ranker.coef_, exact.coef_, rtol=1e-7)
        assert ranker.held_out_value_ == pytest.approx(exact.score(V.X, V.y, V.qid))


def test_what_is_held_out_is_not_learned_from():
    ranker = LinearRankRLS(alphas=[1.0, 1.0], random_state=5, validation_fraction=0.3, **EXACT)
    ranker.fit(P.X, P.y, P.qid)
    n_rated = len(SIZES) - RankRLS().fit(P.X, P.y, P.qid).n_ignored_queries_
    n_held_out = round(0.3 * n_rated)
    assert ranker.n_queries_ == len(SIZES) - n_held_out
    fits = []
    for chosen in combinations(np.unique(P.qid), n_held_out):
        kept = ~np.isin(P.qid, chosen)
        fits.append(RankRLS(1.0).fit(P.X[kept], P.y[kept], P.qid[kept]).coef_)
    assert np.abs(np.array(fits) - ranker.coef_).max(axis=1).min() < 1e-9


@pytest.mark.parametrize("alphas", [None, ALPHAS])
def test_early_stopping_keeps_the_best_iterate_and_not_the_last(alphas):
    noisy = problem(4, sizes=(40,), n_features=30, grades=None)
    other = problem(5, sizes=(40,), n_features=30, grades=None)
    ranker = LinearRankRLS(0.0, alphas=alphas, early_stopping=True, n_iter_no_change=4, tol=0.0)
    ranker.fit(noisy.X, noisy.y, X_val=other.X, y_val=other.y)
    values = ranker.history_["value"]
    assert ranker.held_out_value_ == np.nanmax(values)
    assert ranker.score(other.X, other.y) == pytest.approx(ranker.held_out_value_)
    assert ranker.best_iter_ < ranker.n_iter_
    if alphas is None:
        assert ranker.n_iter_ == ranker.best_iter_ + 4
        assert values[-1, 0] < ranker.held_out_value_


def test_any_measure_decides_and_lower_may_be_better():
    for measure in (Disagreement, "Disagreement", "NDCG @ 3"):
        ranker = LinearRankRLS(alphas=ALPHAS, early_stopping=True, measure=measure)
        ranker.fit(P.X, P.y, P.qid, X_val=V.X, y_val=V.y, qid_val=V.qid)
        values = ranker.history_["value"]
        best = np.nanmax(values) if "NDCG" in str(measure) else np.nanmin(values)
        assert ranker.held_out_value_ == best


def test_one_query_is_split_by_items_and_weights_reach_the_measure():
    weight = np.random.default_rng(0).random(len(P.y)) + 0.1
    ranker = LinearRankRLS(
        alphas=ALPHAS, random_state=0, validation_fraction=0.5, early_stopping=True
    )
    ranker.fit(P.X, P.y, sample_weight=weight)
    drawn = np.random.default_rng(np.random.RandomState(0).randint(2**31)).permutation(len(P.y))
    rows = np.sort(drawn[: round(0.5 * len(P.y))])
    scores = P.X[rows] @ ranker.coef_
    value = Concordance.overall(P.y[rows], scores, Queries.single(len(rows)), weight[rows])
    assert ranker.held_out_value_ == pytest.approx(value)


def test_held_out_comparisons_decide_when_there_are_no_scores():
    rng = np.random.default_rng(1)
    pairs = rng.integers(0, len(P.y), size=(300, 2))
    pairs = pairs[P.y[pairs[:, 0]] > P.y[pairs[:, 1]]]
    ranker = LinearRankRLS(alphas=ALPHAS, random_state=0, validation_fraction=0.5)
    ranker.fit(P.X, pairs=pairs)
    drawn = np.random.default_rng(np.random.RandomState(0).randint(2**31)).permutation(len(pairs))
    held_out = pairs[drawn[: round(0.5 * len(pairs))]]
    scores = ranker.predict(P.X)
    right = np.mean(scores[held_out[:, 0]] > scores[held_out[:, 1]])
    assert ranker.held_out_value_ == pytest.approx(right)


def test_validation_without_need_only_fills_the_history():
    plain = LinearRankRLS(0.3).fit(P.X, P.y, P.qid)
    watched = LinearRankRLS(0.3).fit(P.X, P.y, P.qid, X_val=V.X, y_val=V.y, qid_val=V.qid)
    np.testing.assert_array_equal(watched.coef_, plain.coef_)
    assert watched.held_out_value_ == pytest.approx(watched.score(V.X, V.y, V.qid))
    assert np.isnan(plain.held_out_value_)


def words():
    """Return a problem whose features differ in size as counts of words do."""
    return sized_problem(3e3 / np.arange(1, 401))


def sized_problem(scale):
    rng = np.random.default_rng(0)
    X = csr_array(rng.normal(size=(900, len(scale))) * scale)
    y = np.round(X @ (rng.normal(size=len(scale)) / scale))
    return X, y, np.repeat(np.arange(90), 10)


FEW_ALPHAS = np.array([0.5, 1.0, 2.0])


def grid_of_words(**options):
    X, y, qid = words()
    options = {"alphas": FEW_ALPHAS, "tol": 1e-12, "max_iter": 5000} | options
    ranker = LinearRankRLS(**options)
    return ranker.fit(X, y, qid=qid, X_val=X[:100], y_val=y[:100], qid_val=qid[:100])


def was_solved_one_by_one(ranker):
    """Return whether alphas came one after the other: the histories show one at a time."""
    known = ~np.isnan(ranker.history_["residual"])
    return not known.all(axis=1).any()


def test_a_grid_solved_one_by_one_equals_the_closed_form():
    found = grid_of_words()
    assert was_solved_one_by_one(found)
    X, y, qid = words()
    exact = RankRLS().fit_path(X, y, qid, alphas=FEW_ALPHAS)
    values = [ranker.score(X[:100], y[:100], qid[:100]) for ranker in exact]
    position = np.flatnonzero(found.alpha_ == FEW_ALPHAS)[0]
    expected = exact[position].coef_
    np.testing.assert_allclose(found.coef_, expected, rtol=1e-6, atol=1e-10)
    assert found.held_out_value_ == pytest.approx(max(values))
    assert found.history_["value"].shape == (found.n_iter_, len(FEW_ALPHAS))
    last = [column[~np.isnan(column)] for column in found.history_["value"].T]
    assert max(column[-1] for column in last) == found.held_out_value_
    residual = found.history_["residual"]
    assert (np.count_nonzero(~np.isnan(residual), axis=1) >= 1).all()
    assert residual[found.best_iter_ - 1, position] <= 1e-12


@pytest.mark.parametrize(("sizes", "expected"), [("words", True), ("equal", False), ("one", False)])
def test_a_grid_is_solved_one_by_one_where_many_sizes_differ(sizes, expected):
    scale = {"words": 3e3 / np.arange(1, 401), "equal": np.ones(400), "one": np.ones(400)}[sizes]
    if sizes == "one":
        scale[0] = 1e4
    X, y, qid = sized_problem(scale)
    ranker = LinearRankRLS(alphas=FEW_ALPHAS, max_iter=5000, random_state=0).fit(X, y, qid=qid)
    assert was_solved_one_by_one(ranker) is expected


def test_a_grid_solved_one_by_one_stops_when_told_to():
    steps = []
    ranker = grid_of_words(progress=lambda step: steps.append(step) or step.iteration == 40)
    assert ranker.n_iter_ == len(steps) == 40
    assert [step.iteration for step in steps] == list(range(1, 41))
    assert np.isfinite(ranker.held_out_value_)
    assert np.isnan(ranker.history_["residual"][:, 0]).all()  # the smallest alpha was not begun


def test_a_grid_solved_one_by_one_says_which_did_not_converge():
    with pytest.warns(ConvergenceWarning, match="max_iter"):
        ranker = grid_of_words(max_iter=2)
    assert ranker.n_iter_ == 2 * len(FEW_ALPHAS)


def test_alphas_solved_one_by_one_start_from_the_solutions_before():
    found = grid_of_words()
    X, y, qid = words()
    alone = [LinearRankRLS(a, tol=1e-12, max_iter=5000).fit(X, y, qid=qid) for a in FEW_ALPHAS]
    assert found.n_iter_ < 0.7 * sum(ranker.n_iter_ for ranker in alone)
    chosen = alone[int(np.flatnonzero(found.alpha_ == FEW_ALPHAS)[0])]
    np.testing.assert_allclose(found.coef_, chosen.coef_, rtol=1e-6, atol=1e-10)


def test_without_early_stopping_only_last_weights_are_validated():
    ranker = LinearRankRLS(alphas=ALPHAS, random_state=0).fit(P.X, P.y, P.qid)
    known = ~np.isnan(ranker.history_["value"])
    assert (known.sum(axis=0) == 1).all()
    lasts = (~np.isnan(ranker.history_["residual"])).sum(axis=0) - 1
    assert known[lasts, np.arange(len(ALPHAS))].all()
    assert ranker.plot_history().get_ylabel() == "relative residual"


def test_history_holds_a_row_for_every_iteration():
    ranker = LinearRankRLS(alphas=ALPHAS, tol=1e-4, random_state=0).fit(P.X, P.y, P.qid)
    shape = (ranker.n_iter_, len(ALPHAS))
    assert ranker.history_["residual"].shape == ranker.history_["value"].shape == shape
    np.testing.assert_array_equal(ranker.history_["iteration"], np.arange(1, ranker.n_iter_ + 1))
    last = [column[~np.isnan(column)][-1] for column in ranker.history_["residual"].T]
    assert max(last) <= 1e-4


def test_warm_start_goes_on_from_the_previous_weights():
    ranker = LinearRankRLS(0.2, warm_start=True, tol=1e-8).fit(P.X, P.y, P.qid)
    first = ranker.n_iter_
    assert ranker.fit(P.X, P.y, P.qid).n_iter_ < first
    again = ranker.set_params(alpha=0.21, tol=1e-13).fit(P.X, P.y, P.qid)
    exact = RankRLS(0.21).fit(P.X, P.y, P.qid)
    np.testing.assert_allclose(again.coef_, exact.coef_, rtol=1e-8)


def test_an_unfinished_fit_goes_on_from_its_checkpoint(tmp_path):
    path = tmp_path / "run"
    options = {"alphas": ALPHAS, "random_state": 0, "tol": 1e-12}
    whole = LinearRankRLS(**options).fit(P.X, P.y, P.qid)
    ranker = LinearRankRLS(**options, max_iter=3, checkpoint=path)
    with pytest.warns(ConvergenceWarning, match="max_iter=3"):
        ranker.fit(P.X, P.y, P.qid)
    steps = []
    resumed = ranker.set_params(max_iter=500, progress=lambda step: steps.append(step.iteration))
    resumed.fit(P.X, P.y, P.qid)
    assert steps[0] == 4
    np.testing.assert_array_equal(resumed.coef_, whole.coef_)
    np.testing.assert_array_equal(resumed.history_["value"], whole.history_["value"])
    with pytest.raises(ModelFileError, match="expected a checkpoint of the same data"):
        ranker.fit(P.X, -P.y, P.qid)


@pytest.mark.parametrize(
    "other",
    [
        {"early_stopping": True},
        {"measure": "NDCG @ 3"},
        {"alphas": 2.0 * ALPHAS},
        {"validation_fraction": 0.5},
    ],
    ids=lambda other: next(iter(other)),
)
def test_a_checkpoint_of_other_parameters_is_refused(tmp_path, other):
    ranker = LinearRankRLS(alphas=ALPHAS, random_state=0, checkpoint=tmp_path / "run")
    ranker.fit(P.X, P.y, P.qid)
    with pytest.raises(ModelFileError, match="expected a checkpoint of the same data and param"):
        ranker.set_params(**other).fit(P.X, P.y, P.qid)


def test_a_checkpoint_holds_for_sums_in_another_order(tmp_path):
    X, backwards, steps = csr_array(P.X), slice(None, None, -1), []
    ranker = LinearRankRLS(0.3, tol=1e-3, checkpoint=tmp_path / "run").fit(X, P.y, P.qid)
    ranker.set_params(tol=1e-12, progress=lambda step: steps.append(step.iteration))
    ranker.fit(X[backwards], P.y[backwards], P.qid[backwards])
    assert steps[0] > 1
    exact = RankRLS(0.3).fit(P.X, P.y, P.qid)
    np.testing.assert_allclose(ranker.coef_, exact.coef_, rtol=1e-8)


def test_ctrl_c_ends_with_the_best_model_so_far_and_says_so():
    def press(step):
        if step.iteration == 3:
            signal.raise_signal(signal.SIGINT)

    ranker = LinearRankRLS(0.0, early_stopping=True, progress=press, random_state=0, tol=0.0)
    with pytest.warns(ConvergenceWarning, match="Ctrl-C after 3 iterations; the best so far"):
        ranker.fit(P.X, P.y, P.qid)
    assert ranker.n_iter_ == 3
    assert ranker.held_out_value_ == np.max(ranker.history_["value"])


def test_a_callback_stops_without_a_warning():
    ranker = LinearRankRLS(progress=lambda step: step.iteration == 2).fit(P.X, P.y, P.qid)
    assert ranker.n_iter_ == 2


def test_the_bar_shows_iteration_residual_and_validation(capsys):
    ranker = LinearRankRLS(alphas=ALPHAS, early_stopping=True, progress=True, random_state=0)
    ranker.fit(P.X, P.y, P.qid)
    shown = capsys.readouterr()
    assert "residual" in shown.err
    assert "validation" in shown.err
    assert shown.out == ""


def test_plot_draws_a_line_for_each_of_several_alphas():
    ranker = LinearRankRLS(alphas=ALPHAS, early_stopping=True, random_state=0)
    ax = ranker.fit(P.X, P.y, P.qid).plot_history()
    assert len(ax.lines) == 8
    assert ax.get_ylabel() == "Concordance"
    labels = [float(line.get_label()) for line in ax.lines]
    assert min(labels) == pytest.approx(ALPHAS.min(), rel=1e-2)
    assert max(labels) == ALPHAS.max()
    residual = LinearRankRLS().fit(P.X, P.y, P.qid).plot_history(ax)
    assert residual is ax
    assert ax.get_ylabel() == "relative residual"
    np.testing.assert_array_equal(ax.lines[0].get_ydata(), ranker.history_["value"][:, 0])


def test_constant_features_get_no_weight():
    X = np.hstack([P.X, np.full((len(P.y), 1), 3.0)])
    for rows in (X, csr_array(X)):
        ranker = LinearRankRLS(1e-6, **EXACT).fit(rows, P.y, P.qid)
        assert abs(ranker.coef_[-1]) < 1e-9


def test_a_large_offset_changes_nothing():
    exact = np.round(P.X * 2**20) / 2**20
    coef = LinearRankRLS(1e-2, **EXACT).fit(exact, P.y, P.qid).coef_
    moved = LinearRankRLS(1e-2, **EXACT).fit(exact + 2.0**20, P.y, P.qid).coef_
    np.testing.assert_allclose(moved, coef, rtol=1e-8)


def test_a_saved_ranker_is_read_back_whole(tmp_path):
    ranker = LinearRankRLS(alphas=ALPHAS, dtype="float32", random_state=0).fit(P.X, P.y, P.qid)
    ranker.save(tmp_path / "model")
    again = load(tmp_path / "model")
    np.testing.assert_array_equal(again.predict(V.X), ranker.predict(V.X))
    np.testing.assert_array_equal(again.history_["value"], ranker.history_["value"])
    assert again.alpha_ == ranker.alpha_


WITH_VAL = {"X_val": V.X, "y_val": V.y}


@pytest.mark.parametrize(
    ("options", "data", "message"),
    [
        ({"alpha": 0}, {}, "`alpha` must be a finite number above 0: got 0"),
        ({"alpha": -1, "early_stopping": True}, {}, "`alpha` must be a finite number from 0"),
        ({"alpha": True}, {}, "`alpha` must be"),
        ({"alphas": []}, {}, "`alphas` must hold at least one"),
        ({"alphas": [1e308, 1e308]}, {}, "`alphas` must be .* to 1e.300 or None: got 1e.308"),
        ({"alphas": [1, np.inf]}, {}, "`alphas` must be an array of finite numbers .*: got inf"),
        ({"alphas": [1, 2], "warm_start": True}, {}, "`warm_start` must be used with a single"),
        ({"tol": -1}, {}, "`tol` must be"),
        ({"max_iter": 0}, {}, "`max_iter` must be"),
        ({"early_stopping": True, "n_iter_no_change": 0.5}, {}, "`n_iter_no_change` must be"),
        (
            {"early_stopping": True, "validation_fraction": 1},
            {},
            "`validation_fraction` must be .* between 0 and 1",
        ),
        ({"dtype": "int32"}, {}, "`dtype` must be one of"),
        ({"measure": "NDGC"}, WITH_VAL, "Unknown measure"),
        ({}, {"X_val": V.X}, "must have `X_val` and `y_val`"),
        ({}, {"y_val": V.y}, "got no `X_val`"),
        ({}, {**WITH_VAL, "qid": P.qid}, "and `qid_val` if `fit` is given `qid`"),
        ({}, {"X_val": V.X, "y_val": V.y[:-1]}, "y_val has"),
        ({}, {"X_val": V.X, "y_val": np.column_stack([V.y, V.y])}, "outputs of `y`, 1: got 2"),
        ({}, {**WITH_VAL, "qid_val": V.qid[:-1]}, "qid_val has"),
        ({}, {"X_val": V.X, "y_val": np.ones(len(V.y))}, "must define Concordance"),
        ({}, {"y": P.y[:-1]}, "y has 90"),
        ({"alphas": [1, 2]}, {"qid": P.qid[:-1]}, "qid has 90"),
        ({}, {"y": None}, "requires y to be passed"),
        ({}, {"pairs": [[0, 1]]}, "got both"),
        ({}, {"pair_weight": [1.0]}, "`pair_weight` must come with `pairs`"),
        (
            {},
            {"y": None, "pairs": [[0, 1]], "sample_weight": np.ones(len(P.y))},
            "Use `pair_weight`",
        ),
    ],
)
def test_bad_input_is_refused(options, data, message):
    with pytest.raises(InvalidInputError, match=message):
        LinearRankRLS(**options).fit(P.X, **({"y": P.y} | data))


def test_other_refusals():
    with pytest.raises(NothingToLearnError):
        LinearRankRLS().fit(P.X, np.ones(len(P.y)))
    ranker = LinearRankRLS(warm_start=True).fit(P.X, P.y)
    with pytest.raises(InvalidInputError, match="`warm_start` must have the features"):
        ranker.fit(P.X[:, :2], P.y)
    with pytest.warns(ConvergenceWarning, match="Raise max_iter or alpha") as caught:
        LinearRankRLS(1e-9, max_iter=1).fit(P.X, P.y)
    assert caught[0].filename == __file__


def test_a_checkpoint_that_cannot_be_written_does_not_end_the_fit(tmp_path):
    plain = LinearRankRLS(alphas=None).fit(P.X, P.y, P.qid)
    with pytest.warns(RuntimeWarning, match="checkpoint could not be written; the fit continues"):
        ranker = LinearRankRLS(checkpoint=tmp_path / "none" / "c").fit(P.X, P.y, P.qid)
    np.testing.assert_array_equal(ranker.coef_, plain.coef_)


def rare_positives(n_items=200, seed=0):
    """Draw a single query in which one item of twenty is relevant."""
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n_items, 30))
    signal = X[:, :3].sum(axis=1) + rng.normal(size=n_items)
    return X, (signal > np.quantile(signal, 0.95)).astype(float)


def test_alphas_of_a_single_query_are_judged_by_several_hold_outs_of_every_grade():
    X, y = rare_positives()
    splits = several_hold_outs(
        X, TrainingData.of(len(y), y), 0.1, parse_measure("AUC"), np.random.default_rng(0)
    )
    held = [np.flatnonzero(split.training.weight == 0) for split in splits]
    assert [int(y[rows].sum()) for rows in held] == [1] * 5
    assert [len(rows) for rows in held] == [20] * 5
    assert len(np.unique(np.concatenate(held))) == 100


def test_the_best_alpha_of_several_hold_outs_is_fitted_to_all_items():
    X, y = rare_positives()
    alphas = [0.01, 1.0, 100.0]
    ranker = LinearRankRLS(alphas=alphas, random_state=0).fit(X, y)
    assert ranker.alpha_ in alphas
    assert 0.5 < ranker.held_out_value_ <= 1.0
    again = LinearRankRLS(alpha=ranker.alpha_).fit(X, y)
    np.testing.assert_allclose(ranker.coef_, again.coef_, rtol=1e-2, atol=1e-4)
    with pytest.raises(InvalidInputError, match="`validation_fraction` must be .* between 0 and 1"):
        LinearRankRLS(alphas=alphas, validation_fraction=2.0).fit(X, y)


OUTPUTS = np.column_stack([P.y, np.round(P.X[:, 0]), np.round(2 * P.X[:, 1] + P.X[:, 2])])
"""Three outputs of the same items, with ties of their own."""

WAYS = {
    "one alpha": {"alpha": 0.1},
    "ties kept": {"alpha": 0.1, "ties": "keep"},
    "relative cost": {"alpha": 2.0, "cost": "relative"},
    "grid": {"alphas": ALPHAS, "random_state": 0},
    "early stopping": {"alphas": ALPHAS, "early_stopping": True, "random_state": 0},
    "another direction": {"alphas": ALPHAS, "measure": "Disagreement", "random_state": 0},
}


@pytest.mark.parametrize("form", [csr_array, np.asarray], ids=["sparse", "dense"])
@pytest.mark.parametrize("options", WAYS.values(), ids=WAYS)
def test_outputs_are_learned_as_if_each_were_alone(options, form):
    options = options if "early_stopping" in options else options | EXACT
    X = form(P.X)
    together = LinearRankRLS(**options).fit(X, OUTPUTS, qid=P.qid)
    alone = [LinearRankRLS(**options).fit(X, y, qid=P.qid) for y in OUTPUTS.T]
    coefs = np.stack([ranker.coef_ for ranker in alone])
    np.testing.assert_allclose(together.coef_, coefs, rtol=1e-8, atol=1e-8 * np.abs(coefs).max())
    for name in ("alpha_", "best_iter_", "held_out_value_"):
        np.testing.assert_allclose(
            getattr(together, name), [getattr(ranker, name) for ranker in alone], atol=1e-12
        )
    assert together.coef_.shape == (3, 8)
    assert together.predict(X).shape == (len(P.y), 3)
    expected = np.mean([r.score(X, y, qid=P.qid) for r, y in zip(alone, OUTPUTS.T, strict=True)])
    assert together.score(X, OUTPUTS, qid=P.qid) == pytest.approx(expected)
    assert (together.n_queries_, together.n_ignored_queries_) == (
        alone[0].n_queries_,
        alone[0].n_ignored_queries_,
    )


@pytest.mark.parametrize("given", [False, True], ids=["several hold-outs", "given"])
def test_alphas_of_outputs_of_a_single_query_are_chosen_as_if_each_were_alone(given):
    X, y = rare_positives()
    Y = np.column_stack([y, np.round(X[:, 5]), X[:, 7]])  # the last without two grades
    val = {"X_val": X[:60]} if given else {}
    options = {"alphas": [0.01, 1.0, 100.0], "random_state": 3} | EXACT
    together = LinearRankRLS(**options).fit(X, Y, **val, **({"y_val": Y[:60]} if given else {}))
    for k, column in enumerate(Y.T):
        own = {"y_val": column[:60]} if given else {}
        alone = LinearRankRLS(**options).fit(X, column, **val, **own)
        np.testing.assert_allclose(together.coef_[k], alone.coef_, rtol=1e-8, atol=1e-10)
        assert together.alpha_[k] == alone.alpha_
        assert together.held_out_value_[k] == pytest.approx(alone.held_out_value_, abs=1e-12)


def test_grids_of_outputs_solved_one_by_one_equal_those_of_each_alone():
    X, y, qid = words()
    Y = np.column_stack([y, np.round(y / 2), -y])
    options = {"alphas": FEW_ALPHAS, "tol": 1e-12, "max_iter": 5000, "random_state": 0}
    together = LinearRankRLS(**options).fit(X, Y, qid=qid)
    for k, column in enumerate(Y.T):
        alone = LinearRankRLS(**options).fit(X, column, qid=qid)
        assert was_solved_one_by_one(alone)
        scale = np.abs(alone.coef_).max()
        np.testing.assert_allclose(together.coef_[k], alone.coef_, rtol=0, atol=1e-8 * scale)
        assert together.alpha_[k] == alone.alpha_


def test_several_outputs_keep_histories_of_their_own(tmp_path):
    ranker = LinearRankRLS(alphas=ALPHAS, random_state=0).fit(P.X, OUTPUTS, qid=P.qid)
    n_iter = int(ranker.n_iter_.max())
    assert ranker.history_["iteration"].tolist() == list(range(1, n_iter + 1))
    assert ranker.history_["alpha"].shape == (len(ALPHAS), 3)
    assert ranker.history_["residual"].shape == (n_iter, len(ALPHAS), 3)
    for k, own in enumerate(ranker.n_iter_):
        assert np.isnan(ranker.history_["residual"][own:, :, k]).all()
    assert ranker.plot_history(output=2).get_xlabel() == "iteration"
    with pytest.raises(InvalidInputError, match="`output` must be a number from 0 to 2: got 3"):
        ranker.plot_history(output=3)
    ranker.save(tmp_path / "model")
    again = load(tmp_path / "model")
    np.testing.assert_array_equal(again.predict(P.X), ranker.predict(P.X))
    np.testing.assert_array_equal(again.alpha_, ranker.alpha_)
    LinearRankRLS().fit(P.X, OUTPUTS).save(tmp_path / "unvalidated")
    assert np.isnan(load(tmp_path / "unvalidated").held_out_value_).all()
    with pytest.raises(InvalidInputError, match="`rank` needs a single output: this ranker has 3"):
        ranker.rank(P.X, qid=P.qid)


def test_a_column_of_scores_is_one_output_with_an_axis_of_its_own():
    ranker = LinearRankRLS().fit(P.X, P.y[:, None], qid=P.qid)
    assert ranker.coef_.shape == (1, 8)
    assert ranker.predict(P.X).shape == (len(P.y), 1)


def test_steps_of_several_outputs_are_labelled_and_stop_all_of_them():
    steps = []
    ranker = LinearRankRLS(progress=lambda step: steps.append(step) or len(steps) == 5)
    ranker.fit(P.X, OUTPUTS, qid=P.qid)
    assert [step.label for step in steps[:4]] == ["output 1", "output 2", "output 3", "output 1"]
    assert ranker.n_iter_.max() == 2
    assert len(steps) <= 6


def test_more_outputs_than_run_side_by_side_stop_together():
    Y = np.column_stack([np.roll(P.y, k) for k in range(run_module.SIDE_BY_SIDE + 2)])
    ranker = LinearRankRLS(progress=lambda step: step.iteration == 2).fit(P.X, Y)
    assert ranker.n_iter_[0] == 2
    assert (ranker.n_iter_[run_module.SIDE_BY_SIDE :] == 0).all()
    assert not ranker.coef_[run_module.SIDE_BY_SIDE :].any()


def test_outputs_start_from_the_weights_of_the_previous_fit():
    ranker = LinearRankRLS(warm_start=True, tol=1e-10).fit(P.X, OUTPUTS, qid=P.qid)
    assert ranker.fit(P.X, OUTPUTS, qid=P.qid).n_iter_.max() <= 1
    with pytest.raises(InvalidInputError, match=r"weights have shape \(3, 8\), X and y need"):
        ranker.fit(P.X, OUTPUTS[:, :2], qid=P.qid)


def test_several_outputs_are_refused_where_one_file_or_too_few_scores_are_given(tmp_path):
    with pytest.raises(InvalidInputError, match="`checkpoint` must be None with several outputs"):
        LinearRankRLS(checkpoint=tmp_path / "run").fit(P.X, OUTPUTS, qid=P.qid)
    with pytest.raises(InvalidInputError, match="`y_val` must have the outputs of `y`, 3: got 1"):
        LinearRankRLS(alphas=ALPHAS).fit(
            P.X, OUTPUTS, qid=P.qid, X_val=V.X, y_val=V.y, qid_val=V.qid
        )
