"""One factorisation gives the solution and the held-out scores for every number of components."""

import numpy as np
import pytest
from sklearn.model_selection import GroupKFold

import reference
from laws.namespaces import every_namespace
from problems import close, problem
from rankwise import (
    Concordance,
    Disagreement,
    InvalidInputError,
    NumericalError,
    PreferenceGraph,
    SelectionPath,
)
from rankwise.rankers.kpcrank.component_fit import (
    Moments,
    NestedSolutions,
    leave_query_out_components,
)
from rankwise.selection.holdouts import Folds, HeldOut
from rankwise.selection.path import judge_scores

CONVENTIONS = [
    ("magnitude", "drop"),
    ("magnitude", "keep"),
    ("unit", "drop"),
    ("relative", "drop"),
]
SIZES = (6, 1, 5, 9, 2, 3)


def solved(X, graph, alpha, rows=None, **options):
    rows = np.eye(X.shape[1]) if rows is None else rows
    return NestedSolutions.of(Moments.of(graph, X), rows, alpha, **options)


def dense(p, cost="magnitude", ties="drop"):
    return reference.laplacian(reference.score_pairs(p.y, p.qid, cost, ties, "items"), len(p.y))


@pytest.mark.parametrize("panel_width", [1, 3, 32])
@pytest.mark.parametrize("alpha", [0.0, 1e-3, 10.0])
@pytest.mark.parametrize(("cost", "ties"), CONVENTIONS)
def test_every_number_of_features_equals_a_separate_fit(cost, ties, alpha, panel_width):
    p = problem(seed=1, n_features=7)
    graph = PreferenceGraph.from_scores(p.y, p.qid, cost=cost, ties=ties)
    L, r = dense(p, cost, ties)
    solutions = solved(p.X, graph, alpha, panel_width=panel_width)
    new = np.random.default_rng(0).normal(size=(4, 7))
    scores = solved(p.X, graph, alpha, new, panel_width=panel_width).scores()
    for k in range(1, 8):
        w = reference.fit_primal(p.X[:, :k], L, r, alpha)
        np.testing.assert_allclose(solutions.at(k)[:k, 0], w, rtol=1e-8)
        np.testing.assert_array_equal(solutions.at(k)[k:], 0.0)
        np.testing.assert_allclose(scores[k - 1, :, 0], new[:, :k] @ w, rtol=1e-8)


def test_outputs_are_solved_together():
    p = problem(seed=2, n_features=5, grades=None)
    Y = np.column_stack([p.y, np.sin(p.y), -p.y])
    together = solved(p.X, PreferenceGraph.from_scores(Y, p.qid), 0.1).scores()
    for k, y in enumerate(Y.T):
        alone = solved(p.X, PreferenceGraph.from_scores(y, p.qid), 0.1).scores()
        np.testing.assert_allclose(together[:, :, k], alone[:, :, 0], atol=1e-12)


@pytest.mark.parametrize("panel_width", [2, 32])
@pytest.mark.parametrize("offset", [0.0, 1e4])
def test_features_that_add_nothing_get_no_weight(panel_width, offset):
    p = problem(seed=3, n_features=4)
    graph = PreferenceGraph.from_scores(p.y, p.qid)
    a, b, c, d = p.X.T
    constant = np.cos(p.qid)  # inside queries
    X = np.column_stack(
        [constant + offset, a, b, a - 2 * b + np.sin(p.qid), np.zeros_like(a), c, d]
    )
    useful = [1, 2, 5, 6]
    found = solved(X, graph, 0.0, panel_width=panel_width)
    plain = solved(p.X, graph, 0.0, panel_width=panel_width)
    np.testing.assert_array_equal(found.at(7)[[0, 3, 4]], 0.0)
    np.testing.assert_allclose(found.at(7)[useful], plain.at(4), rtol=1e-7)
    np.testing.assert_allclose(found.at(4)[useful[:2]], plain.at(2)[:2], rtol=1e-7)
    assert found.errors.max() < 1e-10


def test_features_beyond_the_rank_of_the_graph_change_nothing():
    p = problem(seed=4, n_features=40)
    graph = PreferenceGraph.from_scores(p.y, p.qid, ties="keep")
    rank = graph.laplacian.rank()
    solutions = solved(p.X, graph, 0.0, p.X)
    scores = solutions.scores()[:, :, 0]
    np.testing.assert_array_equal(
        scores[rank:], np.broadcast_to(scores[rank - 1], scores[rank:].shape)
    )
    fitted = scores[rank - 1]
    for q in set(p.qid):
        gap = (fitted - p.y)[p.qid == q]
        np.testing.assert_allclose(gap, gap[0], atol=1e-7)


def test_moments_of_disjoint_graphs_add_up():
    p = problem(seed=5)
    first = p.qid == p.qid[0]
    whole = Moments.of(PreferenceGraph.from_scores(p.y, p.qid), p.X)
    parts = [
        Moments.of(PreferenceGraph.from_scores(p.y[rows], p.qid[rows]), p.X[rows])
        for rows in (first, ~first)
    ]
    for name in ("gram", "rhs", "size"):
        total = sum(getattr(part, name) for part in parts)
        np.testing.assert_allclose(total, getattr(whole, name))


def test_lost_digits_are_admitted():
    p = problem(seed=6, n_features=3)
    graph = PreferenceGraph.from_scores(p.y, p.qid)
    near = p.X[:, :1] + 1e-5 * p.X[:, 1:2]
    solutions = solved(np.hstack([p.X[:, :1], near, p.X[:, 2:]]), graph, 0.0)
    assert solutions.errors[0] < 1e-14
    assert solutions.errors[1] > 1e-8
    assert solutions.errors[2] >= solutions.errors[1]


def refitted(p, Z, folds, alpha, cost="magnitude", ties="drop"):
    out = np.full((Z.shape[1], len(p.y)), np.nan)
    for q in range(folds.n_folds):
        test, train = folds.fold == q, folds.fold != q
        pairs = reference.score_pairs(p.y[train], p.qid[train], cost, ties, "items")
        L, r = reference.laplacian(pairs, train.sum())
        for k in range(Z.shape[1]):
            w = reference.fit_primal(Z[train, : k + 1], L, r, alpha)
            out[k, test] = Z[test, : k + 1] @ w
    return out


@pytest.mark.parametrize("alpha", [0.0, 0.1])
@pytest.mark.parametrize(("cost", "ties"), CONVENTIONS)
def test_leave_query_out_equals_refit(cost, ties, alpha):
    p = problem(seed=1, sizes=SIZES, n_features=6)
    graph = PreferenceGraph.from_scores(p.y, p.qid, cost=cost, ties=ties)
    folds = Folds.by_query(graph.queries)
    found = leave_query_out_components(p.X, graph, folds, alpha)
    expected = refitted(p, p.X, folds, alpha, cost, ties)
    np.testing.assert_allclose(found.scores[:, :, 0], expected, rtol=1e-7, atol=1e-9)


@pytest.mark.parametrize("seed", range(8))
def test_random_problems_equal_refit(seed):
    rng = np.random.default_rng(seed)
    sizes = rng.integers(1, 8, size=rng.integers(3, 14))
    p = problem(seed, sizes=np.append(sizes, (4, 4)), n_features=5, grades=rng.choice([2, 5, 50]))
    graph = PreferenceGraph.from_scores(p.y, p.qid)
    folds = Folds.by_query(graph.queries)
    found = leave_query_out_components(p.X, graph, folds, 0.01).scores[:, :, 0]
    np.testing.assert_allclose(found, refitted(p, p.X, folds, 0.01), rtol=1e-8, atol=1e-10)


def test_folds_of_several_queries_equal_refit_and_others_have_no_score():
    p = problem(seed=2, sizes=SIZES)
    folds = Folds.from_lists(list(GroupKFold(3).split(p.X, p.y, p.qid))[:2], len(p.y))
    graph = PreferenceGraph.from_scores(p.y, p.qid)
    found = leave_query_out_components(p.X, graph, folds, 0.0).scores[:, :, 0]
    np.testing.assert_allclose(found, refitted(p, p.X, folds, 0.0), rtol=1e-8)
    assert np.isnan(found[:, folds.fold < 0]).all()


def test_components_that_depend_on_others_change_nothing():
    """One is constant in every query but one, another the sum of two."""
    p = problem(seed=1, sizes=(7, 6, 5, 7, 9, 6, 1, 7), grades=3, n_features=4)
    graph = PreferenceGraph.from_scores(p.y, p.qid, ties="keep")
    folds = Folds.by_query(graph.queries)
    alone = folds.fold == 2
    Z = np.column_stack([p.X, np.where(alone, p.X[:, 0], 1.0), p.X[:, 0] + p.X[:, 1]])
    scores = leave_query_out_components(Z, graph, folds, 0.0).scores[:, :, 0]
    np.testing.assert_array_equal(scores[4, alone], scores[3, alone])
    assert not np.allclose(scores[4, ~alone], scores[3, ~alone])
    np.testing.assert_allclose(scores[5], scores[4], atol=1e-9)


def test_a_query_that_outweighs_the_others_costs_no_digits():
    p = problem(seed=3, sizes=SIZES, n_features=3)
    heavy = p.qid == p.qid[0]
    Z = np.where(heavy[:, None], 1e7, 1.0) * p.X
    graph = PreferenceGraph.from_scores(p.y, p.qid, ties="keep")
    folds = Folds.by_query(graph.queries)
    found = leave_query_out_components(Z, graph, folds, 0.0).scores[:, :, 0]
    expected = refitted(p, Z, folds, 0.0, ties="keep")
    np.testing.assert_allclose(found[:, heavy], expected[:, heavy], rtol=1e-11)


def test_several_outputs_at_once_equal_one_at_a_time():
    p = problem(seed=4, sizes=SIZES, grades=None)
    Y = np.column_stack([p.y, np.sin(5 * p.y)])
    graph = PreferenceGraph.from_scores(Y, p.qid)
    folds = Folds.by_query(graph.queries)
    together = leave_query_out_components(p.X, graph, folds, 0.1).scores
    for k, y in enumerate(Y.T):
        alone = leave_query_out_components(p.X, PreferenceGraph.from_scores(y, p.qid), folds, 0.1)
        np.testing.assert_allclose(together[:, :, k], alone.scores[:, :, 0], atol=1e-12)


def test_one_fold_alone_leaves_nothing_to_learn_from():
    p = problem(seed=5, sizes=(9, 1))
    graph = PreferenceGraph.from_scores(p.y, p.qid)
    with pytest.raises(InvalidInputError, match="At least two folds"):
        leave_query_out_components(p.X, graph, Folds.by_query(graph.queries), 0.0)


def judged(held_out, y, queries):
    grid, rows = np.arange(1, len(held_out.scores) + 1), np.arange(len(y))
    return judge_scores(
        held_out, y[:, None], queries, rows, Concordance, grid, "n_components", "smallest"
    )


def test_the_path_holds_the_measure_of_the_held_out_scores():
    p = problem(seed=6, sizes=SIZES)
    graph = PreferenceGraph.from_scores(p.y, p.qid)
    held_out = leave_query_out_components(p.X, graph, Folds.by_query(graph.queries), 0.0)
    path = judged(held_out, p.y, graph.queries)
    assert path.grid.tolist() == [1, 2, 3]
    for k in range(3):
        expected = Concordance.overall(p.y, held_out.scores[k, :, 0], graph.queries)
        assert path.values[k] == pytest.approx(expected)


def path_of(values, errors, measure=Concordance):
    n = len(values)
    return SelectionPath(
        "n_components",
        np.arange(1, n + 1),
        measure,
        np.array(values),
        np.array(errors),
        np.zeros((n, 0)),
        np.zeros(n),
        "smallest",
    )


def test_of_equal_values_the_fewest_components_win():
    assert path_of([0.5, 0.8, 0.7, 0.8], [0.1] * 4).best() == 1
    assert path_of([0.5, 0.2, 0.3, 0.2], [0.1] * 4, Disagreement).best() == 1
    assert path_of([np.nan, 0.2, np.nan], [0.1] * 3).best() == 1


def test_one_standard_error_takes_the_fewest_components_that_are_as_good():
    assert path_of([0.5, 0.75, 0.7, 0.8], [0.0, 0.0, 0.0, 0.06]).best("one_standard_error") == 1
    assert path_of([0.5, 0.75, 0.8], [np.nan] * 3).best("one_standard_error") == 2


def test_a_path_without_values_and_an_unknown_rule_are_refused():
    with pytest.raises(NumericalError, match="No value of `n_components` can be judged"):
        path_of([np.nan, np.nan], [0.1, 0.1]).best()
    with pytest.raises(InvalidInputError, match="`rule` must be one of"):
        path_of([0.5], [0.1]).best("first")


def test_numbers_that_rounding_spoils_have_no_value():
    p = problem(seed=7)
    graph = PreferenceGraph.from_scores(p.y, p.qid)
    held_out = HeldOut(np.zeros((2, len(p.y), 1)), np.array([1e-12, 1.0]))
    path = judged(held_out, p.y, graph.queries)
    assert np.isnan(path.values).tolist() == [False, True]


def test_the_plot_marks_the_chosen_number():
    pyplot = pytest.importorskip("matplotlib.pyplot")
    pyplot.switch_backend("agg")
    ax = path_of([0.5, 0.8, 0.7], [0.1] * 3).plot(chosen=1)
    assert ax.lines[0].get_xdata().tolist() == [1, 2, 3]
    assert ax.lines[-1].get_xdata() == [2, 2]
    pyplot.close(ax.figure)


@every_namespace
@pytest.mark.parametrize("alpha", [0.0, 0.3])
@pytest.mark.parametrize("memory", [1, 1 << 30])
def test_queries_are_left_out_in_every_namespace(there, alpha, memory, monkeypatch):
    """Those of several sizes at once, with features that are constant or depend on others."""
    monkeypatch.setattr("rankwise.rankers.kpcrank.component_fit.DEVICE_BYTES", memory)
    p = problem(seed=4, sizes=SIZES, n_features=3, grades=None)
    Z = np.column_stack([p.X, np.cos(p.qid), p.X[:, 0] - 2 * p.X[:, 1], np.sin(p.X)])
    graph = PreferenceGraph.from_scores(np.column_stack([p.y, p.y**2]), p.qid)
    folds = Folds.by_query(graph.queries)
    expected = leave_query_out_components(Z, graph, folds, alpha)
    found = leave_query_out_components(Z, graph, folds, alpha, where=there(np.zeros(1)))
    close(found.scores, expected.scores)
    np.testing.assert_allclose(found.error, expected.error, rtol=1e-6)


@every_namespace
@pytest.mark.parametrize("panel_width", [1, 3, 32])
def test_problems_of_a_stack_are_solved_as_each_alone(there, panel_width):
    rng, p = np.random.default_rng(0), problem(seed=1, n_features=7)
    graphs = [PreferenceGraph.from_scores(y, p.qid) for y in (p.y, -p.X[:, 0], p.X[:, 1])]
    moments = [Moments.of(graph, p.X) for graph in graphs]
    rows = [rng.normal(size=(n_rows, 7)) for n_rows in (4, 0, 9)]
    moved = [Moments(there(m.gram), there(m.rhs), m.size) for m in moments]
    of_rows = [there(own) for own in rows]
    found = NestedSolutions.of_each(moved, of_rows, 1e-3, panel_width=panel_width)
    for one, own, solutions in zip(moments, rows, found, strict=True):
        alone = NestedSolutions.of(one, own, 1e-3, panel_width)
        assert solutions.scores().shape == (7, len(own), 1)
        for name in ("parts", "rhs", "errors"):
            np.testing.assert_allclose(getattr(solutions, name), getattr(alone, name), rtol=1e-8)
