"""Preference Gaussian processes: what they predict, and what they agree with."""

import io
import pickle
from dataclasses import replace

import numpy as np
import pandas as pd
import pytest
from scipy.sparse import csr_array
from scipy.special import ndtr
from scipy.stats import multivariate_normal
from sklearn.base import clone
from sklearn.gaussian_process.kernels import RBF

import reference
from problems import problem
from rankwise import (
    ComparisonTable,
    Gaussian,
    InvalidInputError,
    NothingToLearnError,
    PreferenceGP,
    RankRLS,
    SquaredExponential,
    explain,
    load,
)
from rankwise.comparisons.gp.answers import pairs_of_queries
from rankwise.comparisons.gp.questions import candidate_items, least_asked, period_of_checks
from rankwise.rankers.base import generator

KERNEL = SquaredExponential(1.5, 1.2)


def comparisons(seed=0, n_items=12, n_pairs=25, n_features=2):
    """Draw rows and comparisons with repeats, contradictions and an item never compared."""
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n_items, n_features))
    f = 2.0 * np.sin(X).sum(axis=1)
    i = rng.integers(n_items - 1, size=n_pairs)
    j = (i + 1 + rng.integers(n_items - 2, size=n_pairs)) % (n_items - 1)
    swap = f[i] + rng.normal(size=n_pairs) < f[j]
    pairs = np.where(swap[:, None], np.stack([j, i], 1), np.stack([i, j], 1))
    return X, np.concatenate([pairs, pairs[:3], pairs[3:5, ::-1]])


X, PAIRS = comparisons()
TIED = np.array([[0, 1], [2, 3], [5, 4], [1, 0]])


def fixed(**options):
    return PreferenceGP(**{"kernel": KERNEL, "likelihood": "probit", "optimize": False, **options})


MODELS = {
    "probit": (fixed(), {}),
    "laplace": (fixed(method="laplace"), {}),
    "robust": (fixed(likelihood="robust", flip_rate=0.05), {}),
    "ties": (fixed(tie_width=0.6), {"tied": TIED}),
    "robust ties": (fixed(likelihood="robust", tie_width=0.6), {"tied": TIED}),
    "logistic": (fixed(likelihood="logistic"), {}),
    "logistic ties": (fixed(likelihood="logistic", tie_width=0.6), {"tied": TIED}),
    "logistic laplace": (fixed(likelihood="logistic", method="laplace"), {}),
    "gaussian": (fixed(likelihood="gaussian", noise=0.5), {"tied": TIED}),
    "basis": (fixed(basis=[0, 3, 6, 8]), {}),
    "item effects": (fixed(kernel=SquaredExponential(1.5, 1.2, 0.4)), {}),
}


@pytest.fixture(params=MODELS, scope="module")
def gp(request):
    model, options = MODELS[request.param]
    return model.fit(X, pairs=PAIRS, **options)


def test_probit_posterior_equals_the_reference():
    ranker = fixed().fit(X, pairs=PAIRS)
    A = reference.difference_rows(PAIRS, len(X))
    mean, cov, log_evidence, _, _ = reference.ep_by_quadrature(
        KERNEL(X, X), A, [ndtr] * len(A), n_passes=12
    )
    got, got_cov = ranker.predict(X, return_cov=True)
    np.testing.assert_allclose(got, mean, atol=1e-5)
    np.testing.assert_allclose(got_cov, cov, atol=1e-5)
    assert ranker.log_marginal_likelihood_ == pytest.approx(log_evidence, abs=1e-5)


@pytest.mark.parametrize("n_pairs", [4, 30, 200])
def test_gaussian_mean_equals_rankrls_at_alpha_equal_to_the_noise(n_pairs):
    rng = np.random.default_rng(n_pairs)
    rows, pairs = comparisons(n_pairs, 15, n_pairs)
    margin, weight = rng.normal(size=len(pairs)), rng.uniform(0.5, 3.0, len(pairs))
    options = {"pairs": pairs, "pair_margin": margin, "pair_weight": weight}
    ranker = fixed(kernel=SquaredExponential(1.0, 0.8), likelihood="gaussian", noise=0.3)
    mean = ranker.fit(rows, **options).predict(rows)
    scores = RankRLS(0.3, kernel=Gaussian(0.5 / 0.8**2)).fit(rows, **options).predict(rows)
    np.testing.assert_allclose(mean - mean[0], scores - scores[0], atol=1e-8)


@pytest.mark.parametrize("ties", ["drop", "keep"])
def test_gaussian_mean_of_scores_equals_rankrls(ties):
    p = problem(seed=2)
    ranker = fixed(kernel=Gaussian(0.3), likelihood="gaussian", noise=0.4, ties=ties)
    scores = ranker.fit(p.X, p.y, qid=p.qid).predict(p.X)
    twin = RankRLS(0.4, kernel=Gaussian(0.3), ties=ties, query_weight="pairs")
    expected = twin.fit(p.X, p.y, qid=p.qid).predict(p.X)
    for q in set(p.qid):
        own = p.qid == q
        np.testing.assert_allclose(
            scores[own] - scores[own].mean(), expected[own] - expected[own].mean(), atol=1e-8
        )


def test_gaussian_evidence_is_the_density_of_the_margins():
    pairs = np.unique(PAIRS, axis=0)
    margin = np.random.default_rng(0).normal(size=len(pairs))
    ranker = fixed(likelihood="gaussian", noise=0.3).fit(X, pairs=pairs, pair_margin=margin)
    A = reference.difference_rows(pairs, len(X))
    cov = A @ KERNEL(X, X) @ A.T + 0.3 * np.eye(len(A))
    expected = multivariate_normal(cov=cov).logpdf(margin)
    assert ranker.log_marginal_likelihood_ == pytest.approx(expected, abs=1e-8)


def test_swapped_answers_give_the_opposite_scores():
    one, other = fixed().fit(X, pairs=PAIRS), fixed().fit(X, pairs=PAIRS[:, ::-1])
    np.testing.assert_allclose(one.predict(X), -other.predict(X), atol=1e-6)


def test_weights_count_repeats():
    weighted = fixed().fit(X, pairs=PAIRS[:10], pair_weight=np.full(10, 3.0))
    repeated = fixed().fit(X, pairs=np.tile(PAIRS[:10], (3, 1)))
    np.testing.assert_allclose(weighted.predict(X), repeated.predict(X), atol=1e-6)


@pytest.mark.parametrize("ties", ["drop", "keep"])
@pytest.mark.parametrize("likelihood", ["probit", "robust", "gaussian"])
def test_weights_of_items_count_repeats(likelihood, ties):
    p = problem(seed=3)
    weight = np.random.default_rng(0).integers(1, 4, size=len(p.y))
    weight[:2] = 0
    effects = SquaredExponential(1.5, 1.2, 0.4)
    model = fixed(kernel=effects, likelihood=likelihood, ties=ties)
    weighted = clone(model).fit(p.X, p.y, qid=p.qid, sample_weight=weight)
    rows = np.repeat(np.arange(len(p.y)), weight)
    repeated = clone(model).fit(p.X[rows], p.y[rows], qid=p.qid[rows])
    if ties == "drop":  # copies of an item tie with each other
        np.testing.assert_allclose(weighted.predict(p.X), repeated.predict(p.X), atol=1e-5)
        assert weighted.log_marginal_likelihood_ == pytest.approx(
            repeated.log_marginal_likelihood_, abs=1e-5
        )
    else:
        counts = weighted.posterior_.prior.comparisons
        np.testing.assert_array_equal(counts.count, weight[counts.winner] * weight[counts.loser])


@pytest.mark.parametrize("method", ["ep", "laplace"])
def test_light_items_give_light_comparisons(method):
    p = problem(seed=3)
    light = fixed(method=method).fit(p.X, p.y, sample_weight=np.full(len(p.y), 0.5))
    assert (light.posterior_.prior.comparisons.count == 0.25).all()


@pytest.mark.parametrize("likelihood", ["probit", "robust"])
def test_light_answers_say_less(likelihood):
    strength = [
        fixed(likelihood=likelihood).fit(X, pairs=PAIRS, pair_weight=np.full(len(PAIRS), weight))
        for weight in (0.1, 0.4, 1.0)
    ]
    spread = [np.std(ranker.predict(X)) for ranker in strength]
    assert spread == sorted(spread)
    doubt = [ranker.predict(X, return_std=True)[1].mean() for ranker in strength]
    assert doubt == sorted(doubt, reverse=True)


def test_weights_of_ties_count_repeats():
    weighted = fixed().fit(X, pairs=PAIRS, tied=TIED[:2], tied_weight=[3.0, 0.0])
    repeated = fixed().fit(X, pairs=PAIRS, tied=np.tile(TIED[:1], (3, 1)))
    np.testing.assert_allclose(weighted.predict(X), repeated.predict(X), atol=1e-6)


@pytest.mark.parametrize("likelihood", ["probit", "robust"])
def test_laplaces_method_takes_ties_and_flips(likelihood):
    exact = fixed(likelihood=likelihood).fit(X, pairs=PAIRS, tied=TIED)
    ranker = fixed(likelihood=likelihood, method="laplace").fit(X, pairs=PAIRS, tied=TIED)
    np.testing.assert_allclose(ranker.predict(X), exact.predict(X), atol=0.35)
    assert ranker.predict_pair(X[:1], X[1:2]).shape == (1, 3)


def test_items_with_equal_features_are_items_of_their_own():
    twins = np.array([[0.0], [0.0], [1.0]])
    gp = PreferenceGP().fit(twins, pairs=[[1, 0]] * 30 + [[2, 0], [1, 2]] * 5)
    assert gp.rank(twins).tolist() == [1, 2, 0]
    assert gp.predict_pair([1], [0])[0] > 0.9
    assert gp.predict_pair([0], [1])[0] < 0.1
    assert gp.suggest(twins, 1).shape == (1, 2)
    again = gp.update([[0, 1]] * 60)
    assert again.rank(twins).tolist()[0] == 0


def test_a_row_that_could_be_either_of_two_items_is_a_new_one():
    twins = np.array([[0.0], [0.0], [1.0]])
    gp = PreferenceGP().fit(twins, pairs=[[1, 0]] * 30 + [[2, 0], [1, 2]] * 5)
    mean, std = gp.predict(twins[:1], return_std=True)
    low, high = gp.predict([0, 1])
    assert low < mean[0] < high
    assert std[0] > gp.predict([0], return_std=True)[1][0]


def test_items_with_equal_features_survive_saving(tmp_path):
    twins = np.array([[0.0], [0.0], [1.0]])
    gp = PreferenceGP().fit(twins, pairs=[[1, 0]] * 30 + [[2, 0], [1, 2]] * 5)
    gp.save(tmp_path / "gp.rankwise")
    np.testing.assert_allclose(load(tmp_path / "gp.rankwise").predict(twins), gp.predict(twins))


def test_a_basis_keeps_the_own_part_of_every_item():
    rng = np.random.default_rng(0)
    n_items = 60
    rows, truth = rng.normal(size=(n_items, 2)), rng.normal(size=n_items)
    i, j = rng.integers(n_items, size=(2, 4000))
    i, j = i[i != j], j[i != j]
    wins = truth[i] - truth[j] + rng.normal(size=len(i)) > 0
    pairs = np.where(wins[:, None], np.stack([i, j], 1), np.stack([j, i], 1))
    basis = PreferenceGP(basis=15, random_state=0).fit(rows, pairs=pairs)
    assert np.corrcoef(basis.predict(rows), truth)[0, 1] > 0.98


def test_many_items_are_searched_through_a_basis_and_fitted_in_full():
    rows, pairs = comparisons(3, 450, 900)
    model = PreferenceGP(SquaredExponential(1.0, "one", 0.3)).fit(rows, pairs=pairs)
    assert model.process_.model.basis is None
    fixed_there = PreferenceGP(
        model.kernel_, optimize=False, flip_rate=model.likelihood_.flip_rate
    ).fit(rows, pairs=pairs)
    np.testing.assert_allclose(model.predict(rows), fixed_there.predict(rows), atol=1e-4)


def test_equal_rows_are_one_item_if_told_so():
    twins = np.concatenate([X, X])
    pairs = PAIRS + 12 * np.random.default_rng(0).integers(2, size=PAIRS.shape)
    effects = fixed(kernel=SquaredExponential(1.5, 1.2, 0.4), equal_rows="merged")
    apart = clone(effects).fit(twins, pairs=pairs)
    together = clone(effects).fit(X, pairs=PAIRS)
    np.testing.assert_allclose(apart.predict(X), together.predict(X), atol=1e-6)
    assert len(apart.posterior_.prior.comparisons.items) == 11
    undecided = clone(effects).fit(twins, pairs=[*pairs, [0, 12]])
    assert undecided.log_marginal_likelihood_ == pytest.approx(
        apart.log_marginal_likelihood_ + np.log(0.5), abs=1e-5
    )


def test_item_effects_are_learnt_of_compared_items_only():
    answers = np.tile([[0, 1], [0, 2], [3, 1]], (10, 1))
    shared = fixed(kernel=SquaredExponential(2.0, 50.0)).fit(X, pairs=answers)
    effects = fixed(kernel=SquaredExponential(2.0, 50.0, 1.0)).fit(X, pairs=answers)
    close = X[:1] + 1e-4  # further than rounding
    assert effects.predict_pair(X[:1], X[1:2])[0] > 0.9 > shared.predict_pair(X[:1], X[1:2])[0]
    assert effects.predict_pair(close, X[1:2] + 1e-4)[0] < 0.6
    deviations = (effects.predict(rows, return_std=True)[1] for rows in (close, X[:1]))
    assert next(deviations) > next(deviations)


def test_scores_are_compared_inside_queries():
    p = problem(seed=4)
    i, j = np.triu_indices(len(p.y), 1)
    inside = (p.qid[i] == p.qid[j]) & (p.y[i] != p.y[j])
    pairs = np.stack([i, j], 1)[inside]
    pairs = np.where((p.y[pairs[:, 0]] < p.y[pairs[:, 1]])[:, None], pairs[:, ::-1], pairs)
    by_pairs, by_scores = fixed().fit(p.X, pairs=pairs), fixed().fit(p.X, p.y, qid=p.qid)
    np.testing.assert_allclose(by_scores.predict(p.X), by_pairs.predict(p.X), atol=1e-5)
    assert by_scores.fitted_with_qid_
    assert not by_pairs.fitted_with_qid_
    assert by_scores.score(p.X, p.y, p.qid) > 0.9


@pytest.mark.parametrize(("ties", "n_ignored"), [("drop", 3), ("keep", 2)])
def test_queries_without_a_comparison_are_counted(ties, n_ignored):
    qid = np.repeat([0, 1, 2, 3], [5, 4, 2, 1])
    y = np.array([0, 1, 2, 3, 4, 7, 7, 7, 7, 0, 1, 5])
    weight = np.ones(12)
    weight[9] = 0
    ranker = fixed(ties=ties).fit(X, y, qid=qid, sample_weight=weight)
    assert (ranker.n_queries_, ranker.n_ignored_queries_) == (4, n_ignored)
    by_pairs = fixed().fit(X, pairs=PAIRS)
    assert (by_pairs.n_queries_, by_pairs.n_ignored_queries_) == (1, 0)


def test_comparisons_of_weight_zero_do_not_count():
    weight = np.append(np.ones(20), np.zeros(len(PAIRS) - 20))
    weighted = fixed().fit(X, pairs=PAIRS, pair_weight=weight)
    np.testing.assert_array_equal(weighted.predict(X), fixed().fit(X, pairs=PAIRS[:20]).predict(X))


def test_kept_ties_are_tied_comparisons():
    p = problem(seed=4)
    ranker = fixed(ties="keep").fit(p.X, p.y, qid=p.qid)
    recorded = ranker.posterior_.prior.comparisons
    assert (p.y[recorded.winner] == p.y[recorded.loser]).tolist() == recorded.tied.tolist()
    assert ranker.predict_pair(p.X[:2], p.X[2:4]).shape == (2, 3)


@pytest.mark.parametrize("max_pairs", [None, 5])
def test_pairs_of_queries_are_all_pairs_or_a_choice_of_them(max_pairs):
    from rankwise.core.queries import Queries

    qid = np.array([3, 1, 3, 2, 3, 1, 3])
    rng = np.random.default_rng(0)
    first, second = pairs_of_queries(Queries.from_qid(qid), max_pairs, rng)
    got = {frozenset(pair) for pair in zip(first.tolist(), second.tolist(), strict=True)}
    expected = {frozenset((i, j)) for i in range(7) for j in range(i) if qid[i] == qid[j]}
    assert len(got) == len(first)
    assert got == expected if max_pairs is None else (got < expected and len(got) <= max_pairs)


def test_max_pairs_limits_the_comparisons_of_scores():
    rng = np.random.default_rng(0)
    rows, y = rng.normal(size=(40, 2)), rng.normal(size=40)
    ranker = fixed(max_pairs=50, random_state=0).fit(rows, y)
    assert 30 < ranker.posterior_.prior.comparisons.n_pairs <= 50


def test_standard_deviation_is_the_diagonal_of_the_covariance(gp):
    rows = np.concatenate([X, X[:2] + 3.0])
    scores, std = gp.predict(rows, return_std=True)
    again, cov = gp.predict(rows, return_cov=True)
    np.testing.assert_allclose(scores, gp.predict(rows))
    np.testing.assert_allclose(again, scores)
    np.testing.assert_allclose(std**2, cov.diagonal(), atol=1e-10)


def test_latent_probability_of_a_pair_comes_from_the_joint_gaussian(gp):
    mean, cov = gp.predict(X, return_cov=True)
    i, j = np.triu_indices(len(X), 1)
    spread = cov[i, i] + cov[j, j] - 2.0 * cov[i, j]
    expected = ndtr((mean[i] - mean[j]) / np.sqrt(spread))
    np.testing.assert_allclose(gp.predict_pair(X[i], X[j], noisy=False), expected, atol=1e-8)


def test_answers_are_less_certain_than_scores(gp):
    i, j = np.triu_indices(len(X), 1)
    answers, latent = gp.predict_pair(X[i], X[j]), gp.predict_pair(X[i], X[j], noisy=False)
    reverse = gp.predict_pair(X[j], X[i])
    if answers.ndim == 2:
        np.testing.assert_allclose(answers.sum(axis=1), 1.0)
        np.testing.assert_allclose(answers, reverse[:, ::-1], atol=1e-12)
        answers = answers[:, 0] / (answers[:, 0] + answers[:, 2])
    else:
        np.testing.assert_allclose(answers + reverse, 1.0)
    np.testing.assert_array_equal(answers > 0.5, latent > 0.5)
    if gp.likelihood_.parameters.keys() == {"noise"}:
        assert (np.abs(answers - 0.5) < np.abs(latent - 0.5)).all()


def test_flips_pull_answers_towards_one_half():
    ranker = fixed(likelihood="robust", flip_rate=0.05).fit(X, pairs=PAIRS)
    np.testing.assert_allclose(ranker.predict_pair(X, X + 1e-9), 0.5, atol=1e-6)
    sure = fixed(kernel=SquaredExponential(100.0, 1.2), likelihood="robust", flip_rate=0.05)
    sure.fit(X, pairs=np.tile(PAIRS[:1], (30, 1)))
    best = sure.predict_pair(X[PAIRS[:1, 0]], X[PAIRS[:1, 1]])
    np.testing.assert_allclose(best, 0.95, atol=5e-3)


def test_samples_have_the_moments_of_the_posterior(gp):
    draws = gp.sample(X, 20_000, random_state=0)
    mean, cov = gp.predict(X, return_cov=True)
    np.testing.assert_allclose(draws.mean(axis=0), mean, atol=0.06)
    np.testing.assert_allclose(np.cov(draws.T), cov, atol=0.12)
    np.testing.assert_array_equal(gp.sample(X, 3, random_state=1), gp.sample(X, 3, random_state=1))


def test_rank_distribution_counts_how_often_an_item_is_best(gp):
    ranks = gp.rank_distribution(X, n_draws=4000, random_state=0)
    draws = gp.sample(X, 4000, random_state=0)
    np.testing.assert_allclose(ranks.best, np.bincount(draws.argmax(axis=1), minlength=12) / 4000)
    intervals = ranks.interval(0.9)
    assert (intervals[:, 0] <= ranks.expected).all()
    assert (ranks.expected <= intervals[:, 1]).all()


GAMES = {
    "winner": ["ann", "bob", "ann", "dan"],
    "loser": ["bob", "cid", "cid", "bob"],
    "tied": [0, 0, 1, 0],
    "count": [2.0, 3.0, 1.0, 0.5],
}


def test_comparisons_by_name_are_those_by_position():
    import pandas as pd

    frame = pd.DataFrame(X[:4], index=["ann", "bob", "cid", "dan"], columns=["x", "y"])
    named = fixed().fit(frame, pairs=pd.DataFrame(GAMES))
    positions = fixed().fit(
        X[:4], pairs=[[0, 1], [1, 2], [3, 1]], pair_weight=[2, 3, 0.5], tied=[[0, 2]]
    )
    np.testing.assert_allclose(named.predict(["dan", "ann"]), positions.predict([3, 0]))
    np.testing.assert_allclose(named.predict(frame), positions.predict(X[:4]))
    np.testing.assert_allclose(named.predict(), positions.predict(X[:4]))
    board = named.leaderboard(random_state=0)
    assert board.names.tolist() == [frame.index[k] for k in positions.rank(X[:4])]
    assert sorted(board.answers.tolist()) == [0.5, 3.0, 4.0, 5.5]
    assert set(named.suggest()[0]) <= set(frame.index)
    more = named.update([("cid", "ann")] * 4)
    np.testing.assert_allclose(
        more.predict(), positions.update([[2, 0]] * 4).predict(X[:4]), atol=1e-8
    )


def test_a_name_alone_is_one_item():
    gp = PreferenceGP().fit(pairs=[("ann", "bob"), ("bob", "cid"), ("ann", "cid")])
    np.testing.assert_array_equal(gp.predict_pair("ann", "bob"), gp.predict_pair(["ann"], ["bob"]))
    with pytest.raises(InvalidInputError, match="Did you mean 'ann'"):
        gp.predict_pair("anna", "bob")


def test_a_column_of_text_names_the_items():
    polars = pytest.importorskip("polars")
    names = ["ann", "bob", "cid", "dan"]
    frame = polars.DataFrame({"name": names, "x": X[:4, 0], "y": X[:4, 1]})
    ranker = fixed().fit(frame, pairs=polars.DataFrame(GAMES))
    assert ranker.item_names_.tolist() == names
    np.testing.assert_allclose(ranker.predict(frame), ranker.predict(names))


def test_items_need_no_features():
    answers = [("ann", "bob", "a"), ("bob", "cid", "a"), ("cid", "ann", "tie")] * 3
    ranker = PreferenceGP(likelihood="probit").fit(pairs=answers)
    board = ranker.leaderboard(random_state=0)
    assert board.names.tolist() == ["ann", "bob", "cid"]
    assert ranker.predict_pair(["ann"], ["cid"]).shape == (1, 3)
    twin = PreferenceGP("linear", likelihood="probit").fit(
        np.eye(3), pairs=[[0, 1], [1, 2]] * 3, tied=[[2, 0]] * 3
    )
    np.testing.assert_allclose(ranker.predict(), twin.predict(np.eye(3)))
    win = board.win_matrix(["ann", "cid"])[0, 1]
    assert win == pytest.approx(ranker.predict_pair(["ann"], ["cid"])[0, 0], abs=1e-6)


def test_named_processes_survive_saving(tmp_path):
    ranker = PreferenceGP().fit(pairs=[("ann", "bob"), ("bob", "cid")])
    ranker.save(tmp_path / "gp.rankwise")
    again = load(tmp_path / "gp.rankwise")
    np.testing.assert_allclose(again.predict(["cid"]), ranker.predict(["cid"]))
    assert again.suggest().tolist() == ranker.suggest().tolist()


NEW = np.array([[0, 11], [3, 0], *PAIRS[:2], [11, 4]])


@pytest.mark.parametrize("name", MODELS)
def test_update_equals_a_fit_with_all_answers(name):
    model, options = MODELS[name]
    more = {"tied": [[6, 7]]} if "ties" in name else {}
    updated = clone(model).fit(X, pairs=PAIRS, **options).update(NEW, **more)
    tied = [*options.get("tied", []), *more.get("tied", [])]
    again = clone(model).fit(X, pairs=np.concatenate([PAIRS, NEW]), tied=tied)
    np.testing.assert_allclose(updated.predict(X), again.predict(X), atol=2e-5)
    assert updated.log_marginal_likelihood_ == pytest.approx(
        again.log_marginal_likelihood_, abs=1e-5
    )


def test_update_with_known_pairs_counts_them_again():
    repeated = fixed().fit(X, pairs=PAIRS).update(PAIRS[:4])
    again = fixed().fit(X, pairs=np.concatenate([PAIRS, PAIRS[:4]]))
    np.testing.assert_allclose(repeated.predict(X), again.predict(X), atol=2e-5)


def test_update_with_many_answers_and_light_ones_works_too():
    rows, pairs = comparisons(5, 40, 700)
    start = fixed().fit(rows, pairs=pairs[:20]).update(pairs[20:])
    np.testing.assert_allclose(
        start.predict(rows), fixed().fit(rows, pairs=pairs).predict(rows), atol=1e-4
    )
    light = fixed(method="laplace").fit(X, pairs=PAIRS[:5], pair_weight=np.full(5, 0.5))
    light.update(PAIRS[5:7], pair_weight=[0.5, 0.25])
    weight = [0.5] * 6 + [0.25]
    again = fixed(method="laplace").fit(X, pairs=PAIRS[:7], pair_weight=weight)
    np.testing.assert_allclose(light.predict(X), again.predict(X), atol=1e-6)


@pytest.mark.parametrize("name", MODELS)
def test_questions_after_an_update_are_those_of_the_whole_posterior(name):
    model, options = MODELS[name]
    rows, pairs = comparisons(7, 30, 60)
    ranker = clone(model).fit(rows, pairs=pairs[:40], **options)
    assert ranker.suggest().shape == (1, 2)
    for pair in pairs[40:]:
        ranker.update(pair[None])
    mean, covariance = ranker._joint(None, np.arange(30))
    quick = ranker.suggest(None, 3)
    scores, exact = ranker.predict(rows, return_cov=True)
    deviation = np.sqrt(exact.diagonal())
    assert np.abs((mean - scores) / deviation).max() < 0.05
    assert np.abs((covariance - exact) / np.outer(deviation, deviation)).max() < 0.05
    assert quick.shape == (3, 2)
    tied = options.get("tied")
    again = clone(model).fit(rows, pairs=pairs, tied=tied)
    np.testing.assert_allclose(scores, again.predict(rows), atol=2e-5)


@pytest.mark.parametrize("name", MODELS)
def test_forgetting_answers_is_the_opposite_of_adding_them(name):
    model, options = MODELS[name]
    more = {"tied": [[6, 7]]} if "ties" in name else {}
    ranker = clone(model).fit(X, pairs=PAIRS, **options)
    before = ranker.predict(X)
    ranker.update(NEW, **more).forget(NEW, **more)
    np.testing.assert_allclose(ranker.predict(X), before, atol=2e-5)
    ranker.forget(PAIRS[:1])
    again = clone(model).fit(X, pairs=PAIRS[1:], **options)
    np.testing.assert_allclose(ranker.predict(X), again.predict(X), atol=2e-5)


def test_ties_alone_can_be_added_and_forgotten():
    ranker = fixed(tie_width=0.6).fit(X, pairs=PAIRS, tied=TIED)
    before = ranker.predict(X)
    more = ranker.update(tied=[[0, 2], [4, 2]]).predict(X)
    again = fixed(tie_width=0.6).fit(X, pairs=PAIRS, tied=[*TIED.tolist(), [0, 2], [4, 2]])
    np.testing.assert_allclose(more, again.predict(X), atol=2e-5)
    np.testing.assert_allclose(ranker.forget(tied=[[0, 2], [4, 2]]).predict(X), before, atol=2e-5)
    named = PreferenceGP().fit(pairs=[("ann", "bob"), ("bob", "cid"), ("ann", "bob")])
    assert named.forget([("ann", "bob")]).leaderboard().answers.sum() == 4


def test_questions_end_once_the_goal_is_certain():
    ranker = PreferenceGP().fit(pairs=[("a", "b"), ("b", "c"), ("c", "d")])
    assert ranker.suggest(goal="top", k=2, until=0.99).shape == (1, 2)
    before = ranker.certainty(goal="top", k=2)
    ranker.update([("a", "c"), ("b", "c"), ("a", "d"), ("b", "d")] * 10)
    after = ranker.certainty(goal="top", k=2)
    assert before < 0.9 < after
    assert ranker.suggest(goal="top", k=2, until=0.9).shape == (0, 2)
    assert ranker.suggest(goal="top", k=2, candidates=[[0, 1], [1, 2]]).tolist() in (
        [["a", "b"]],
        [["b", "c"]],
    )


def test_few_answers_are_told_with_caution():
    """Where answers do not tell how far scores lie apart, they are taken to be close."""
    gp = PreferenceGP("linear", random_state=0).fit(np.eye(4), pairs=[[0, 1], [1, 2], [2, 3]])
    draws = gp.sample(n=4000, random_state=0)
    i, j = np.triu_indices(4, 1)
    alone = np.mean(draws[:, i] > draws[:, j])
    assert 0.5 < alone < 0.65
    assert 0.5 < gp.certainty() < 0.65
    gp = PreferenceGP(random_state=0).fit(np.eye(4), pairs=[[0, 1], [1, 2], [2, 3]])
    draws = gp.sample(n=4000, random_state=0)
    assert 0.5 < gp.certainty() < np.mean(draws[:, i] > draws[:, j]) - 0.02
    many = [[0, 1], [1, 2], [2, 3], [0, 2], [1, 3], [0, 3]] * 100
    assert PreferenceGP("linear").fit(np.eye(4), pairs=many).certainty() > 0.97


def test_certainty_of_a_kernel_without_amplitude_is_that_of_its_posterior():
    ranker = PreferenceGP(RBF(1.0, "fixed"), likelihood="probit").fit(X, pairs=PAIRS)
    scores, draws = ranker.predict(X), ranker.sample(X, 4000, random_state=1)
    best = np.mean(draws.argmax(axis=1) == scores.argmax())
    assert ranker.certainty(goal="best", n_draws=4000) == pytest.approx(best, abs=0.05)


@pytest.mark.parametrize("likelihood", ["probit", "robust", "logistic"])
def test_first_ties_in_update_equal_a_fit_with_all_answers(likelihood):
    options = {"likelihood": likelihood, "tie_width": 0.6}
    ranker = fixed(**options).fit(X, pairs=PAIRS).update(tied=TIED)
    again = fixed(**options).fit(X, pairs=PAIRS, tied=TIED)
    assert ranker.likelihood_ == again.likelihood_
    np.testing.assert_allclose(ranker.predict(X), again.predict(X), atol=1e-5)


def test_ties_alone_make_items_equal():
    ranker = fixed(tie_width=0.6).fit(X, pairs=np.zeros((0, 2), int), tied=TIED)
    ends = X[np.ravel(TIED)]
    np.testing.assert_allclose(ranker.predict(ends), 0.0, atol=1e-8)
    named = PreferenceGP().fit(pairs=[("a", "b", "tie"), ("b", "c", "tie")])
    np.testing.assert_allclose(named.predict(["a", "b", "c"]), 0.0, atol=1e-8)
    named.update([("a", "c")])
    assert named.rank(["c", "b", "a"])[0] == named.rank(k=1).item() == "a"
    assert named.rank(["c", "b", "a"], as_frame=True)["item"][0] == "a"


@pytest.mark.parametrize(
    ("pairs", "message"),
    [
        ([[11, 10]], "1 of items 11 and 10, recorded 0 times"),
        (np.tile(PAIRS[:1], (9, 1)), r"got 9 of items \d+ and \d+, recorded"),
        (PAIRS, "At least one answer must be left"),
    ],
)
def test_answers_that_were_not_recorded_cannot_be_forgotten(pairs, message):
    with pytest.raises((InvalidInputError, NothingToLearnError), match=message):
        fixed().fit(X, pairs=PAIRS).forget(pairs)


def answers_of(noise, n_pairs=60, seed=0):
    """Draw answers about all twelve items, with noise in units of the scores' deviation."""
    rng = np.random.default_rng(seed)
    f = rng.normal(size=12)
    i = np.arange(n_pairs) % 12
    j = (i + 1 + rng.integers(11, size=n_pairs)) % 12
    won = f[i] - f[j] + noise * rng.normal(size=n_pairs) > 0.0
    return np.where(won[:, None], np.stack([i, j], 1), np.stack([j, i], 1))


def test_every_third_question_of_a_batch_is_a_check():
    noisy = answers_of(1.0)
    ranker = fixed().fit(X, pairs=noisy)
    assert len(noisy) % 3 == 0
    plain, even = (ranker.suggest(X, 3, balance=every) for every in (None, 3))
    np.testing.assert_array_equal(plain[:2], even[:2])
    assert tuple(even[2]) not in {tuple(sorted(pair)) for pair in noisy.tolist()}
    np.testing.assert_array_equal(ranker.suggest(X, 3), ranker.suggest(None, 3))
    every = ranker.suggest(X, 66, balance=2)
    assert len({tuple(pair) for pair in every.tolist()}) == 66
    with pytest.raises(InvalidInputError, match="`balance` must be"):
        ranker.suggest(X, balance=0)


def test_checks_end_where_sure_answers_come_as_expected():
    for noise, ends in ((0.0, True), (1.5, False)):
        ranker = PreferenceGP(random_state=0).fit(pairs=answers_of(noise))
        check, informative = (ranker.suggest(balance=every)[0] for every in (1, None))
        assert np.array_equal(check, informative) == ends


def test_sure_answers_are_those_that_the_others_foretell():
    options = {"likelihood": "gaussian", "noise": 0.5}
    distinct = np.unique(answers_of(1.0), axis=0)
    live = fixed(**options).fit(X, pairs=distinct)._live_scores()
    n_sure = n_upset = 0
    for k, (winner, loser) in enumerate(distinct):
        others = fixed(**options).fit(X, pairs=np.delete(distinct, k, axis=0))
        mean, cov = others.predict(X[[winner, loser]], return_cov=True)
        z = (mean[0] - mean[1]) / np.sqrt(0.5 + cov[0, 0] + cov[1, 1] - 2.0 * cov[0, 1])
        n_sure, n_upset = n_sure + (abs(z) > 0.3), n_upset + (z < -0.3)
    assert live.sure_answers(0.3) == (n_sure, n_upset)
    assert 0 < n_upset < n_sure < len(distinct)


def test_a_check_is_about_the_most_certain_pair_that_has_no_answer():
    noisy = answers_of(1.0)
    by_noisy = PreferenceGP(random_state=0).fit(pairs=noisy)
    check = by_noisy.suggest(balance=1)[0]
    i, j = np.triu_indices(12, 1)
    certainty = np.abs(by_noisy.predict_pair(i, j) - 0.5)
    known = {tuple(sorted(pair)) for pair in noisy.tolist()}
    certainty[[pair in known for pair in zip(i.tolist(), j.tolist(), strict=True)]] = -1.0
    best = int(np.argmax(certainty))
    assert sorted(check) == [i[best], j[best]]
    free = [[a, b] for a, b in zip(i.tolist(), j.tolist(), strict=True) if (a, b) not in known][:9]
    chosen = by_noisy.suggest(candidates=[*noisy.tolist(), *free], balance=1)[0].tolist()
    assert chosen == max(free, key=lambda pair: certainty[(i == pair[0]) & (j == pair[1])][0])


def test_where_all_pairs_have_answers_checks_give_way_to_the_items_asked_least():
    pairs = [[i, j] if (i + j) % 2 else [j, i] for i in range(4) for j in range(i)]
    ranker = PreferenceGP(random_state=0).fit(pairs=ComparisonTable.of(*np.transpose(pairs)))
    ranker.update([pairs[0]])
    assert len(set(ranker.suggest(balance=1)[0]) - set(pairs[0])) > 0


NO_PAIRS = np.zeros((0, 2), dtype=int)


def by_name(n_items, pairs=NO_PAIRS, **options):
    """Fit items known by name alone."""
    ranker = PreferenceGP("linear", optimize=False, random_state=0)
    return ranker.fit(np.eye(n_items), pairs=pairs, **options)


@pytest.mark.parametrize("answer", ["won", "tied"])
@pytest.mark.parametrize("goal", [{}, {"goal": "best"}, {"goal": "top", "k": 3}])
def test_by_name_alone_questions_are_balanced_until_every_item_has_an_answer(answer, goal):
    first = np.array([[3, 8]])
    ranker = by_name(12, first) if answer == "won" else by_name(12, tied=first)
    counts = np.zeros(12)
    counts[first[0]] += 1
    for seed in range(5):
        pair = ranker.suggest(random_state=seed, **goal)
        balanced = least_asked(counts, None, NO_PAIRS, generator(seed))
        np.testing.assert_array_equal(pair[0], balanced)
        ranker = ranker.update(pair) if answer == "won" else ranker.update(tied=pair)
        counts[pair[0]] += 1
    assert (counts == 1.0).all()
    assert ranker.suggest(**goal).tolist() == ranker.suggest(balance=None, **goal).tolist()


def test_a_first_batch_by_name_alone_asks_about_every_item():
    ranker = by_name(12, [[3, 8]])
    assert sorted([3, 8, *ranker.suggest(n=5).ravel().tolist()]) == list(range(12))
    assert ranker.suggest(n=66).shape == (66, 2)


def test_a_question_by_name_alone_is_asked_again_once_its_answer_is_taken_back():
    ranker = by_name(12, [[3, 8]])
    pair = ranker.suggest(random_state=1)
    other = ranker.update(pair).suggest(random_state=1)
    assert not set(other[0]) & set(pair[0])
    np.testing.assert_array_equal(ranker.forget(pair).suggest(random_state=1), pair)


def test_items_that_no_candidate_is_about_are_not_waited_for():
    ranker = by_name(6, [[0, 1], [2, 3]])
    listed = [[0, 1], [0, 2], [1, 2], [1, 3]]  # 4 and 5 have no answers, and cannot get any
    for goal in ({}, {"goal": "top", "k": 2}):
        options = {"candidates": listed, **goal}
        plain = ranker.suggest(balance=None, **options)
        assert ranker.suggest(**options).tolist() == plain.tolist()
    assert 4 in ranker.suggest(candidates=[*listed, [3, 4]])[0]


@pytest.mark.parametrize("kernel", ["linear", KERNEL])
def test_a_new_item_known_by_name_alone_is_asked_about_next(kernel):
    options = {"optimize": False, "random_state": 0}
    ranker = PreferenceGP(kernel, **options).fit(np.eye(5), pairs=[[0, 1], [2, 3], [1, 2]])
    assert 4 in ranker.suggest()[0]
    known = [[0, 1], [2, 3], [1, 2], [3, 0]]  # a pair with the new item has two answers
    ranker = PreferenceGP(kernel, **options).fit(np.eye(5), pairs=known)
    assert ranker.suggest().tolist() == ranker.suggest(balance=None).tolist()
    assert 4 in ranker.suggest()[0]


def test_with_features_informative_questions_come_first():
    ranker = fixed().fit(X, pairs=[[0, 1]])
    assert ranker.suggest(n=1).tolist() == ranker.suggest(n=1, balance=None).tolist()


def test_by_name_alone_checks_are_half_as_many_until_one_surprises():
    right = [[i, j] for i in range(5) for j in range(i + 1, 5)]
    for surprises, period in (([], 6), ([[4, 0]], 3)):
        ranker = by_name(5, right[: 10 - len(surprises)] + surprises)
        live = ranker._live_scores()
        n_sure, n_upset = live.sure_answers(1.0)
        assert (n_upset > 0) == (period == 3)
        assert n_sure < 10
        assert period_of_checks(live, 3, are_scarce=True) == period
        assert period_of_checks(live, 3, are_scarce=False) == 3


def test_an_update_leaves_the_posterior_to_be_computed_when_it_is_read(tmp_path):
    ranker = fixed().fit(X, pairs=PAIRS).update(NEW)
    assert "posterior_" not in vars(ranker)
    again = pickle.loads(pickle.dumps(ranker))
    np.testing.assert_allclose(again.predict(X), ranker.predict(X))
    ranker.update(PAIRS[:1]).save(tmp_path / "gp.rankwise")
    loaded = load(tmp_path / "gp.rankwise")
    np.testing.assert_allclose(loaded.predict(X), ranker.predict(X))
    assert loaded.suggest(X).tolist() == ranker.suggest(X).tolist()
    with pytest.raises(AttributeError, match="not fitted yet"):
        _ = fixed().posterior_
    with pytest.raises(AttributeError, match="no attribute 'unknown_'"):
        _ = ranker.unknown_


def test_answers_that_no_quick_update_settles_are_swept_over_in_full():
    ranker = fixed().fit(X, pairs=PAIRS)
    ranker._live = replace(ranker._live_scores(), max_rounds=1)
    ranker.update(NEW)
    assert ranker._live is None
    again = fixed().fit(X, pairs=np.concatenate([PAIRS, NEW]))
    np.testing.assert_allclose(ranker.predict(X), again.predict(X), atol=2e-5)


def test_a_basis_of_all_items_changes_nothing():
    full, basis = fixed().fit(X, pairs=PAIRS), fixed(basis=len(X)).fit(X, pairs=PAIRS)
    by_rows = fixed(basis=X).fit(X, pairs=PAIRS)
    for ranker in (basis, by_rows):
        for got, expected in zip(
            ranker.predict(X, return_cov=True), full.predict(X, return_cov=True), strict=True
        ):
            np.testing.assert_allclose(got, expected, atol=1e-5)


def test_sparse_rows_are_made_dense():
    dense, rows = fixed().fit(X, pairs=PAIRS), csr_array(X)
    sparse = fixed().fit(rows, pairs=PAIRS)
    np.testing.assert_array_equal(sparse.predict(rows), dense.predict(X))


def test_suggestions_are_the_most_telling_pairs():
    ranker = fixed().fit(X, pairs=PAIRS)
    pairs = ranker.suggest(X, 5)
    assert len({frozenset(pair) for pair in pairs.tolist()}) == 5
    np.testing.assert_array_equal(ranker.suggest(X, 2), pairs[:2])
    i, j = np.triu_indices(len(X), 1)
    before = ranker.predict_pair(X[i], X[j], noisy=False)
    doubt = np.minimum(before, 1.0 - before)
    asked = np.flatnonzero((i == pairs[0, 0]) & (j == pairs[0, 1]))
    assert doubt[asked] > np.median(doubt)


def test_suggestions_for_the_best_item_ask_about_the_top():
    ranker = fixed().fit(X, pairs=np.tile(PAIRS, (5, 1)))
    first, second = ranker.suggest(X[:11], goal="best")[0]
    assert {first, second} & set(ranker.rank(X[:11], k=2).tolist())


def test_suggestions_come_from_the_candidates():
    ranker = fixed().fit(X, pairs=PAIRS)
    candidates = [[3, 0], [5, 6]]
    assert ranker.suggest(X, 1, candidates=candidates)[0].tolist() in candidates
    scores = ranker.predict(X)
    for goal in ("order", "best"):
        items = candidate_items(scores, goal, np.random.default_rng(0), max_items=5)
        assert len(np.unique(items)) == 5
    assert set(items.tolist()) == set(ranker.rank(X, k=5).tolist())


@pytest.mark.parametrize("name", MODELS)
def test_a_saved_process_predicts_and_learns_on_as_before(name, tmp_path):
    model, options = MODELS[name]
    ranker = model.fit(X, pairs=PAIRS, **options)
    ranker.save(tmp_path / "gp.rankwise")
    again = load(tmp_path / "gp.rankwise")
    for got, expected in zip(
        again.predict(X, return_std=True), ranker.predict(X, return_std=True), strict=True
    ):
        np.testing.assert_allclose(got, expected, atol=1e-12)
    np.testing.assert_allclose(
        again.update(NEW).predict(X), ranker.update(NEW).predict(X), atol=1e-10
    )


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: fixed(likelihood="logit").fit(X, pairs=PAIRS), "`likelihood` must be one of"),
        (lambda: fixed(method="mcmc").fit(X, pairs=PAIRS), "`method` must be one of"),
        (lambda: fixed(ties="x").fit(X, pairs=PAIRS), "`ties` must be one of"),
        (
            lambda: fixed(hyperprior="strong").fit(X, pairs=PAIRS),
            "`hyperprior` must be 'weak' or None",
        ),
        (
            lambda: fixed(n_starts=0).fit(X, pairs=PAIRS),
            "`n_starts` must be a whole",
        ),
        (
            lambda: fixed(n_starts=2**31).fit(X, pairs=PAIRS),
            "`n_starts` must be a whole number from 1 to 10,000",
        ),
        (lambda: fixed(tie_width="a").fit(X, pairs=PAIRS), "`tie_width` must be a finite number"),
        (
            lambda: fixed(likelihood="robust", flip_rate="a").fit(X, pairs=PAIRS),
            "`flip_rate` must be a finite number between 0 and 0.5",
        ),
        (
            lambda: fixed(max_pairs=0).fit(X, pairs=PAIRS),
            "`max_pairs` must be a whole",
        ),
        (lambda: fixed(noise=-1.0).fit(X, pairs=PAIRS), "`noise` must be a finite number"),
        (lambda: fixed(kernel="precomputed").fit(X, pairs=PAIRS), "a precomputed kernel has none"),
        (lambda: fixed(kernel=3).fit(X, pairs=PAIRS), "`kernel` must be a name"),
        (lambda: fixed().fit(X), "requires y to be passed"),
        (lambda: fixed().fit(X, np.arange(12), pairs=PAIRS), "got both"),
        (lambda: fixed().fit(X, pairs=[[0, 12]]), "rows 0 to 11"),
        (lambda: fixed().fit(X, pairs=PAIRS, tied=[[1, 1]]), "item 1 with itself"),
        (
            lambda: fixed().fit(X, pairs=[[0, 1]], pair_margin=[2.0]),
            "`pair_margin` is used only by",
        ),
        (lambda: fixed().fit(X, pairs=PAIRS, tied_weight=[0.5]), "`tied_weight` must come with"),
        (lambda: fixed().fit(), "got neither"),
        (lambda: fixed().fit(X, pairs=[("a", "b")]), "12 items given: got 'a'"),
        (
            lambda: fixed().fit(pairs=[("a", "b")], pair_weight=[1.0]),
            r"got \['pair_weight'\] separately",
        ),
        (lambda: fixed().fit(pairs=[("a", "b")]).predict(["bo"]), "items of `fit`: got 'bo'"),
        (
            lambda: fixed().fit(pairs=[("a", "b")]).leaderboard(level=2.0),
            "`level` must be a finite number between 0 and 1",
        ),
        (lambda: fixed(equal_rows="x").fit(X, pairs=PAIRS), "`equal_rows` must be one of"),
        (lambda: fixed().fit(X, pairs=PAIRS).predict([99]), "12 items of `fit`: got 99"),
        (
            lambda: fixed().fit(X, pairs=PAIRS, sample_weight=np.ones(12)),
            "`sample_weight` must come with scores",
        ),
        (lambda: fixed().fit(X, np.eye(12)), "Fit each column"),
        (lambda: fixed().fit(X, np.arange(12), tied=TIED), "`tied` must come with `pairs`"),
        (lambda: fixed().fit(X, np.arange(11)), "X has 12 rows, y has 11"),
        (lambda: fixed().fit(X, np.arange(12), qid=[1]), "X has 12 rows, qid has 1"),
        (lambda: fixed().fit(X, np.ones(12)), "at least one preference"),
        (lambda: fixed(ties="keep").fit(X, np.ones(12)), "at least one preference"),
        (
            lambda: fixed().fit(X, pairs=PAIRS).predict(X, return_std=True, return_cov=True),
            "either `std` or `cov`",
        ),
        (lambda: fixed().fit(X, pairs=PAIRS).predict_pair(X, X[:3]), "got 12 and 3"),
        (lambda: fixed().fit(X, pairs=PAIRS).suggest(X, 1, goal="x"), "`goal` must be one of"),
        (lambda: fixed().fit(X, pairs=PAIRS).suggest(goal="top"), "`k` and goal='top'"),
        (
            lambda: fixed().fit(X, pairs=PAIRS).certainty(goal="best", k=3),
            "`k` and goal='top' must",
        ),
        (lambda: fixed().fit(X, pairs=PAIRS).certainty(goal="top", k=12), "`k` must be below"),
        (
            lambda: fixed().fit(X, pairs=PAIRS).suggest(until=1.0),
            "`until` must be a finite number between 0 and 1",
        ),
        (lambda: fixed().fit(X, pairs=PAIRS).suggest(X, 99), "between 1 and the 66"),
    ],
)
def test_bad_input_is_refused(call, message):
    with pytest.raises(InvalidInputError, match=message):
        call()


def test_nothing_to_learn_is_an_error_of_its_own():
    with pytest.raises(NothingToLearnError):
        fixed().fit(X, np.ones(12))


def test_a_process_with_a_foreign_kernel_is_not_saved(tmp_path):

    ranker = fixed(kernel=RBF()).fit(X, pairs=PAIRS)
    with pytest.raises(InvalidInputError, match="Only built-in values can be saved"):
        ranker.save(tmp_path / "gp.rankwise")


# Items that are known again


def clouded(n_items=12, n_features=2, seed=0):
    """Return items whose answers their features explain in part only."""
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n_items, n_features))
    own = rng.normal(size=n_items)
    pairs = [
        (i, j)
        for i in range(n_items)
        for j in range(n_items)
        if i != j and X[i, 0] + own[i] + rng.normal() > X[j, 0] + own[j]
    ]
    return X, pairs


def written(X, form="%.6g"):
    text = io.StringIO()
    np.savetxt(text, X, fmt=form, delimiter=",")
    text.seek(0)
    return np.loadtxt(text, delimiter=",")


ROUNDED = {
    "float32": lambda X: X.astype(np.float32),
    "six digits": written,
    "six decimals": lambda X: written(X, "%.6f"),
    "a factor": lambda X: X * (1.0 + 1e-12),
}


@pytest.mark.parametrize("rounded", ROUNDED.values(), ids=ROUNDED)
@pytest.mark.parametrize("options", [{}, {"intransitive": True}, {"equal_rows": "merged"}], ids=str)
def test_items_keep_their_effect_through_rounding(rounded, options, tmp_path):
    """The item effect of a training item does not depend on its features bit for bit."""
    X, pairs = clouded()
    gp = PreferenceGP(random_state=0, **options).fit(X, pairs=pairs)
    gp.save(tmp_path / "gp")
    for process in (gp, load(tmp_path / "gp")):
        scores, std = process.predict(X, return_std=True)
        again, std_again = process.predict(rounded(X), return_std=True)
        np.testing.assert_array_equal(again, scores)
        np.testing.assert_array_equal(std_again, std)
        np.testing.assert_array_equal(process.rank(rounded(X)), process.rank(X))
        probability = process.predict_pair(rounded(X)[:5], rounded(X)[5:10])
        np.testing.assert_array_equal(probability, process.predict_pair(X[:5], X[5:10]))


def test_near_items_are_new_items():
    """A row that is merely near has the features of an item and not its effect."""
    X, pairs = clouded()
    gp = PreferenceGP(SquaredExponential(1.0, 1.0, 0.5), optimize=False).fit(X, pairs=pairs)
    scores, std = gp.predict(X, return_std=True)
    moved, std_moved = gp.predict(X + 1e-3, return_std=True)
    assert np.abs(moved - scores).max() > 0.05 * np.ptp(scores)
    assert (std_moved > 1.05 * std).all()


def test_equal_rows_are_told_apart_by_the_names_of_a_frame():
    X, pairs = clouded()
    X[1] = X[0]
    names = [f"item {place}" for place in range(len(X))]
    frame = pd.DataFrame(X, index=names, columns=["u", "v"])
    named = [(names[i], names[j]) for i, j in pairs]
    gp = PreferenceGP(random_state=0).fit(frame, pairs=named)
    scores = gp.predict(names)
    assert abs(scores[0] - scores[1]) > 1e-3
    for place in range(len(X)):
        alone = gp.predict(frame[place : place + 1])
        np.testing.assert_allclose(alone, scores[[place]], rtol=1e-12)
    backwards = gp.predict(frame[::-1].astype(np.float32))
    np.testing.assert_allclose(backwards, scores[::-1], rtol=1e-12)
    strange = frame.rename(index={"item 1": "somebody"})[1:2]  # of whom nothing is known
    assert np.abs(gp.predict(strange)[0] - scores[:2]).min() > 1e-4


def test_explanations_add_up_for_rounded_and_shared_rows():
    X, pairs = clouded()
    X[1] = X[0]
    gp = PreferenceGP(SquaredExponential(1.0, 1.0, 0.5), optimize=False).fit(X, pairs=pairs)
    rows = X[[0, 2, 3]].astype(np.float32)
    for a, b in [(0, 1), (1, 2), (0, 2)]:
        found = explain(gp, rows, a=a, b=b)
        np.testing.assert_allclose(found.contributions.sum(), found.score_a - found.score_b)
        np.testing.assert_allclose(found.score_a, gp.predict(rows[[a]])[0])


def test_few_noisy_answers_about_names_are_not_overrated():
    """Predictions from a handful of answers are hardly worse than chance, and soon better."""
    losses = []
    for seed in range(12):
        rng = np.random.default_rng(seed)
        f = 0.3 * rng.normal(size=10)
        first = rng.integers(10, size=410)
        second = (first + rng.integers(1, 10, size=410)) % 10
        outcome = np.sign(f[first] - f[second] + rng.normal(size=410)).astype(int)
        table = ComparisonTable.of(first, second, outcome, names=np.arange(10))
        tail = table.take(np.arange(100, 410))
        heads = [table.take(np.arange(n)) for n in (10, 100)]
        parts = [PreferenceGP().fit(pairs=h).predict_pair(tail.first, tail.second) for h in heads]
        losses.append([-np.mean(np.log(np.where(tail.outcome > 0, p, 1.0 - p))) for p in parts])
    few, many = np.mean(losses, axis=0)
    assert few < np.log(2.0) + 0.03
    assert many < np.log(2.0)
