"""Held-out scores equal those of a model fitted without the fold."""

import numpy as np
import pytest

import rankwise.selection.refits as refits_module
import reference
from problems import comparisons_of, problem
from rankwise import Gaussian, InvalidInputError, Linear, PreferenceGraph, RankRLS
from rankwise.features.function_space import ExplicitSpace, Identity, KernelSpace, smallest_space
from rankwise.native.holdouts import refit_without_each
from rankwise.selection.holdouts import Folds
from rankwise.selection.leave_query_out import blocks_of_weights, leave_query_out
from rankwise.selection.refits import Elsewhere

ALPHAS = np.array([1e-3, 1.0, 1e6])
CONVENTIONS = [
    ("magnitude", "drop"),
    ("magnitude", "keep"),
    ("unit", "drop"),
    ("relative", "drop"),
]
SIZES = (6, 1, 5, 9, 2, 3)


def held_out(p, kernel, folds, basis=None, alphas=ALPHAS, y=None, form="auto", **options):
    y = p.y if y is None else y
    graph = PreferenceGraph.from_scores(y, p.qid, **options)
    space = smallest_space(p.X, kernel, basis, graph.laplacian.rank())
    return leave_query_out(space, graph, folds, alphas, form=form)


def refitted(p, kernel, folds, basis=None, alphas=ALPHAS, y=None, **options):
    y = p.y if y is None else y
    out = np.empty((len(alphas), len(p.y), *y.shape[1:]))
    for q in range(folds.n_folds):
        test, train = folds.fold == q, folds.fold != q
        for a, alpha in enumerate(alphas):
            ranker = RankRLS(alpha, kernel=kernel, basis=basis, **options)
            ranker.fit(p.X[train], y[train], p.qid[train])
            out[a, test] = ranker.predict(p.X[test])
    return out.reshape(len(alphas), len(p.y), -1)


def centred(scores, qid):
    means = np.stack([scores[:, qid == q].mean(axis=1) for q in qid], axis=1)
    return scores - means


def assert_same(p, found, expected, rtol=1e-8):
    found, expected = centred(found, p.qid), centred(expected, p.qid)
    scale = np.abs(expected).max(axis=(1, 2), keepdims=True)
    np.testing.assert_allclose(found / scale, expected / scale, atol=rtol)


@pytest.mark.parametrize("query_weight", ["items", "pairs", "equal"])
@pytest.mark.parametrize(("cost", "ties"), CONVENTIONS)
@pytest.mark.parametrize("grades", [None, 3])
@pytest.mark.parametrize("space", ["refit", "update", "dual", "linear dual", "basis"])
def test_leave_query_out_equals_refit(space, grades, cost, ties, query_weight):
    form = "update" if space == "update" else "refit"
    p = problem(seed=1, sizes=SIZES, grades=grades, n_features=60 if space == "linear dual" else 3)
    kernel = Gaussian(0.3) if space in ("dual", "basis") else Linear()
    basis = p.X[::4] if space == "basis" else None
    options = {"cost": cost, "ties": ties, "query_weight": query_weight}
    folds = Folds.by_query(PreferenceGraph.from_scores(p.y, p.qid).queries)
    found = held_out(p, kernel, folds, basis, form=form, **options)
    assert_same(p, found.scores, refitted(p, kernel, folds, basis, **options))
    assert found.error.max() < 1e-8


@pytest.mark.parametrize("kernel", [Linear(), Gaussian(0.3)], ids=repr)
@pytest.mark.parametrize("form", ["refit", "update"])
def test_folds_of_several_queries_equal_refit(kernel, form):
    from sklearn.model_selection import GroupKFold

    p = problem(seed=2, sizes=SIZES)
    folds = Folds.from_lists(GroupKFold(3).split(p.X, p.y, p.qid), len(p.y))
    found = held_out(p, kernel, folds, form=form)
    assert_same(p, found.scores, refitted(p, kernel, folds))


@pytest.mark.parametrize("kernel", [Linear(), Gaussian(0.3)], ids=repr)
@pytest.mark.parametrize("form", ["refit", "update"])
def test_several_outputs_at_once_equal_refit(kernel, form):
    p = problem(seed=3, sizes=SIZES, grades=None)
    Y = np.column_stack([p.y, np.sin(5 * p.y)])
    folds = Folds.by_query(PreferenceGraph.from_scores(p.y, p.qid).queries)
    found = held_out(p, kernel, folds, y=Y, form=form)
    assert_same(p, found.scores, refitted(p, kernel, folds, y=Y))


@pytest.mark.parametrize("seed", range(15))
@pytest.mark.parametrize("kernel", [Linear(), Gaussian(0.5)], ids=repr)
def test_random_problems_equal_refit(seed, kernel):
    rng = np.random.default_rng(seed)
    sizes = rng.integers(1, 40, size=rng.integers(3, 7))
    p = problem(seed, sizes=np.append(sizes, 4), grades=rng.choice([2, 5, 50]))
    cost, ties = CONVENTIONS[seed % 4]
    folds = Folds.by_query(PreferenceGraph.from_scores(p.y, p.qid).queries)
    options = {"cost": cost, "ties": ties}
    assert_same(
        p,
        held_out(p, kernel, folds, **options).scores,
        refitted(p, kernel, folds, **options),
        1e-7 if cost == "relative" else 1e-8,
    )


@pytest.mark.parametrize("alpha", [1e-7, 1e-9])
def test_a_query_that_carries_a_direction_alone_is_refitted(alpha):
    p = problem(seed=4, sizes=SIZES)
    X = np.hstack([p.X, (p.qid == p.qid[0])[:, None] * np.arange(len(p.y))[:, None]])
    p = type(p)(X, p.y, p.qid)
    folds = Folds.by_query(PreferenceGraph.from_scores(p.y, p.qid).queries)
    alphas = np.array([alpha])
    found = held_out(p, Linear(), folds, alphas=alphas, form="update")
    assert_same(p, found.scores, refitted(p, Linear(), folds, alphas=alphas), 1e-7)


@pytest.mark.parametrize("form", ["refit", "update"])
def test_lost_precision_is_admitted(form):
    p = problem(seed=5, sizes=SIZES)
    X = np.hstack([p.X, p.X @ np.ones((3, 1)), 1e3 * p.X])
    p = type(p)(X, p.y, p.qid)
    folds = Folds.by_query(PreferenceGraph.from_scores(p.y, p.qid).queries)
    found = held_out(p, Linear(), folds, alphas=np.array([1e-10, 1.0]), form=form)
    assert found.error[0] > 1e-3 > found.error[1]


@pytest.mark.parametrize("form", ["refit", "update"])
def test_constant_features_cost_no_precision(form):
    p = problem(seed=5, sizes=SIZES)
    X = np.hstack([p.X, np.full((len(p.y), 1), 1e5), 1e5 * np.cos(p.qid)[:, None]])
    folds = Folds.by_query(PreferenceGraph.from_scores(p.y, p.qid).queries)
    alphas = np.array([1e-12, 1.0])
    found = held_out(type(p)(X, p.y, p.qid), Linear(), folds, alphas=alphas, form=form)
    assert found.error.max() < 1e-10
    without = held_out(p, Linear(), folds, alphas=alphas, form=form)
    assert_same(p, found.scores, without.scores)


def test_vanishing_alpha_in_the_dual_of_a_singular_kernel_is_admitted():
    p = problem(seed=6, sizes=SIZES)
    folds = Folds.by_query(PreferenceGraph.from_scores(p.y, p.qid).queries)
    graph = PreferenceGraph.from_scores(p.y, p.qid)
    space = KernelSpace(Linear(), p.X, Identity())
    found = leave_query_out(space, graph, folds, np.array([1e-17, 1e-3]))
    assert found.error[0] > 1e-3 > found.error[1]


def test_items_in_no_fold_have_no_score():
    p = problem(seed=7, sizes=SIZES)
    ids = np.unique(p.qid)
    folds = Folds.from_lists([np.flatnonzero(p.qid == q) for q in ids[[0, 2, 3]]], len(p.y))
    for kernel in (Linear(), Gaussian(0.3)):
        scores = held_out(p, kernel, folds).scores
        assert np.isnan(scores[:, folds.fold < 0]).all()
        kept = folds.fold >= 0
        expected = refitted(p, kernel, folds)
        assert_same(type(p)(p.X, p.y, p.qid[kept]), scores[:, kept], expected[:, kept])


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: Folds.from_lists([], 3), "at least one fold"),
        (lambda: Folds.from_lists([[0, 1], [1]], 3), "row 1 is in folds 0 and 1"),
        (lambda: Folds.from_lists([[5]], 3), "rows 0 to 2"),
        (lambda: Folds.from_lists([[0.5]], 3), "row numbers"),
        (
            lambda: Folds.from_lists([[0], [1, 2]], 3).of_components(np.zeros(3, int)),
            "items 0 and 1 belong together",
        ),
    ],
)
def test_bad_folds_are_refused(call, message):
    with pytest.raises(InvalidInputError, match=message):
        call()


def test_one_fold_alone_leaves_nothing_to_learn_from():
    p = problem(seed=8, sizes=(9, 1))
    folds = Folds.by_query(PreferenceGraph.from_scores(p.y, p.qid).queries)
    with pytest.raises(InvalidInputError, match="At least two folds"):
        held_out(p, Linear(), folds)


@pytest.mark.parametrize("n_constant", [0, 2])
def test_sums_of_folds_that_are_not_kept_give_the_same_scores(n_constant, monkeypatch):
    p = problem(seed=4, sizes=SIZES, grades=3, n_features=5)
    p.X[:, :n_constant] = 3.0
    folds = Folds.by_query(PreferenceGraph.from_scores(p.y, p.qid).queries)
    kept = held_out(p, Linear(), folds, form="refit")
    monkeypatch.setattr(refits_module, "KEPT_SUMS", 0)
    monkeypatch.setattr(refits_module, "CHUNK_BYTES", 1)
    formed_twice = held_out(p, Linear(), folds, form="refit")
    np.testing.assert_allclose(formed_twice.scores, kept.scores, rtol=1e-12, atol=1e-12)
    assert_same(p, kept.scores, refitted(p, Linear(), folds))


@pytest.mark.parametrize("n", [1, 2, 5, 9, 14])
def test_weights_without_each_fold_solve_its_equations(n):
    rng = np.random.default_rng(n)
    H, C = rng.normal(size=(3, 20, n)), rng.normal(size=(3, 20, 2))
    H[0, :, n // 2] = 0.0
    grams, rhs = H.transpose(0, 2, 1) @ H, C.transpose(0, 2, 1) @ H
    behind, behind_rhs = (np.cumsum(a[::-1], axis=0)[::-1] - a for a in (grams, rhs))
    expected = reference.weights_without_each(grams, rhs, ALPHAS)
    W, worst = np.empty((3, 2, n, 3)), np.empty((3, 3))
    refit_without_each(
        grams, rhs, np.ascontiguousarray(behind), np.ascontiguousarray(behind_rhs),
        ALPHAS, W, worst,
    )  # fmt: skip
    np.testing.assert_allclose(W, expected, rtol=1e-9, atol=1e-12)
    assert (worst > 0).all()


def test_blocks_are_the_products_of_rows_for_all_weights():
    rng = np.random.default_rng(0)
    V, weights = rng.normal(size=(7, 5)), rng.normal(size=(5, 8))
    expected = np.einsum("ik,ka,jk->aij", V, weights, V)
    np.testing.assert_allclose(blocks_of_weights(V[None], weights)[0], expected, atol=1e-12)


@pytest.mark.parametrize("form", ["refit", "update"])
def test_what_lies_elsewhere_counts_as_if_it_were_here(form):
    rng = np.random.default_rng(4)
    X, qid = rng.normal(size=(60, 5)), np.repeat(np.arange(12), 5)
    X[:30, 4] = 1.0  # varies elsewhere only
    y = np.round(X[:, 0] + rng.normal(size=60))
    alphas = np.array([0.1, 10.0])
    whole = PreferenceGraph.from_scores(y, qid)
    expected = leave_query_out(
        ExplicitSpace(X, Identity(), Identity()),
        whole,
        Folds.by_query(whole.queries),
        alphas,
        form=form,
    ).scores[:, :30]
    here, there = (PreferenceGraph.from_scores(y[s], qid[s]) for s in (slice(30), slice(30, 60)))
    others = Elsewhere(there.laplacian.gram(X[30:]), X[30:].T @ there.rhs[:, None])
    found = leave_query_out(
        ExplicitSpace(X[:30], Identity(), Identity()),
        here,
        Folds.by_query(here.queries),
        alphas,
        form=form,
        elsewhere=others,
    )
    np.testing.assert_allclose(found.scores, expected, atol=1e-10)


@pytest.mark.parametrize("query_weight", ["items", "pairs", "equal"])
@pytest.mark.parametrize("cost", ["magnitude", "unit", "relative"])
@pytest.mark.parametrize("form", ["refit", "update"])
@pytest.mark.parametrize("kernel", [Linear(), Gaussian(0.01)], ids=repr)
@pytest.mark.parametrize("n_features", [3, 40])
def test_queries_of_comparisons_left_out_equal_refits(n_features, kernel, form, cost, query_weight):
    p = problem(seed=5, sizes=SIZES, n_features=n_features)
    c = comparisons_of(p)
    options = {"cost": cost, "query_weight": query_weight}
    graph = PreferenceGraph.from_pairs(c.pairs, c.margin, c.weight, qid=p.qid, **options)
    listed = reference.compared_pairs_in_queries(c.pairs, c.margin, c.weight, p.qid, **options)
    space = smallest_space(p.X, kernel, None, graph.laplacian.rank())
    names = np.unique(p.qid)
    folds = [names[:1], names[1:3], names[3:]]  # one query, then several together
    fold_of = np.array([next(k for k, f in enumerate(folds) if q in f) for q in p.qid])
    found = leave_query_out(space, graph, Folds(fold_of, 3), ALPHAS, form=form)
    K = kernel(p.X, p.X)
    for fold, out in enumerate(folds):
        rows = np.flatnonzero(fold_of == fold)
        for a, alpha in enumerate(ALPHAS):
            expected = reference.scores_without_queries(K, listed, p.qid, out, alpha)[rows]
            scores, scale = found.scores[a, rows, 0], np.abs(expected).max()
            for q in out:
                inside = p.qid[rows] == q
                lead = scores[inside] - scores[inside][0]
                wanted = expected[inside] - expected[inside][0]
                np.testing.assert_allclose(lead, wanted, atol=1e-7 * scale)


@pytest.mark.parametrize(("kernel", "n_features"), [(Gaussian(0.3), 3), (Linear(), 40)], ids=repr)
@pytest.mark.parametrize("share", [1e-14, 1e-6, 1.0, 1e3, 1e12])
def test_an_alpha_alone_is_judged_as_among_many(kernel, n_features, share):
    """One alpha is factorised, many are decomposed together."""
    p = problem(seed=4, sizes=SIZES, n_features=n_features)
    folds, many = Folds.by_query(PreferenceGraph.from_scores(p.y, p.qid).queries), np.ones(9)
    alone = held_out(p, kernel, folds, alphas=np.array([share]))
    among = held_out(p, kernel, folds, alphas=share * many)
    assert alone.error[0] <= 1e3 * among.error[0]
    assert_same(p, alone.scores, among.scores[:1], rtol=1e-9 + 100 * among.error[0])
    np.testing.assert_allclose(
        p.X @ p.X.T @ alone.solve(share) if kernel == Linear() else alone.solve(share),
        p.X @ p.X.T @ among.solve(share) if kernel == Linear() else among.solve(share),
        rtol=0,
        atol=(1e-9 + 100 * among.error[0]) * np.abs(among.solve(share)).max() * (p.X**2).sum(),
    )
