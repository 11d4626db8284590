"""Conjugate gradients reach the exact solution, and stop where they are told to."""

import signal
from dataclasses import dataclass, replace

import numpy as np
import pytest

from interruptions import interrupted_runs
from problems import problem
from rankwise import InvalidInputError, PreferenceGraph
from rankwise.solve.conjugate_gradients import (
    Descent,
    Hooks,
    ShiftedSystems,
    Validator,
    _CGRun,
    jacobi_scale,
    multishift_cg,
    raised_diagonal,
)
from rankwise.solve.iteration import StoppingRule
from rankwise.solve.operators import GraphOperator, normal_operator
from rankwise.solve.rows import ItemRows, as_rows

ALPHAS = 10.0 ** np.arange(-3, 4)
EXACT = StoppingRule(tol=1e-13, max_iter=200)
P = problem(1, sizes=(8, 1, 6, 9, 2), n_features=6)
HELD_OUT = problem(2, sizes=(30,), n_features=6)
GRAPH = PreferenceGraph.from_scores(P.y, P.qid)
OPERATOR = normal_operator(as_rows(P.X), GRAPH)
G, H = P.X.T @ (GRAPH @ P.X), P.X.T @ GRAPH.rhs


def exact(alpha):
    return np.linalg.solve(G + alpha * np.eye(6), H)


def squared_error(scores):
    return np.mean((scores - scores.mean(axis=1, keepdims=True) - HELD_OUT.y) ** 2, axis=1)


VALIDATOR = Validator(as_rows(HELD_OUT.X), squared_error, greater_is_better=False)


@pytest.mark.parametrize("precondition", [False, True])
@pytest.mark.parametrize("alpha", ALPHAS)
def test_one_alpha_equals_the_exact_solution(alpha, precondition):
    systems = ShiftedSystems.of(OPERATOR, np.array([alpha]), precondition=precondition)
    found = multishift_cg(systems, EXACT)
    np.testing.assert_allclose(found.best.coef, exact(alpha), rtol=1e-9)
    assert found.ending.reason == "converged"
    assert found.best.residual <= 1e-13


def test_all_alphas_of_one_run_equal_their_exact_solutions():
    found = multishift_cg(
        ShiftedSystems.of(OPERATOR, np.random.default_rng(0).permutation(ALPHAS)), EXACT
    )
    for alpha, coef in zip(found.alphas, found.coefs, strict=True):
        np.testing.assert_allclose(coef, exact(alpha), rtol=1e-9)


def test_iterates_of_every_alpha_are_those_of_a_run_of_its_own():
    rule = StoppingRule(tol=0.0, max_iter=3)
    together = multishift_cg(ShiftedSystems.of(OPERATOR, ALPHAS), rule)
    for k, alpha in enumerate(ALPHAS):
        alone = multishift_cg(ShiftedSystems.of(OPERATOR, np.array([alpha])), rule)
        np.testing.assert_allclose(together.coefs[k], alone.coefs[0], rtol=1e-10, atol=1e-13)
        np.testing.assert_allclose(together.residuals[:, k], alone.residuals[:, 0], rtol=1e-8)


def test_residuals_are_true_ones():
    for precondition in (False, True):
        systems = ShiftedSystems.of(OPERATOR, np.array([0.1]), precondition=precondition)
        for n_iter in (1, 2, 4):
            found = multishift_cg(systems, StoppingRule(0.0, n_iter))
            left = H - (G + 0.1 * np.eye(6)) @ found.best.coef
            relative = np.linalg.norm(left) / np.linalg.norm(H)
            assert found.residuals[-1, 0] == pytest.approx(relative, rel=1e-9)


def test_preconditioning_pays_when_features_differ_in_size():
    scaled = as_rows(P.X * 100.0 ** np.arange(6))
    operator = normal_operator(scaled, GRAPH)
    runs = [
        multishift_cg(
            ShiftedSystems.of(operator, np.ones(1), precondition=precondition),
            StoppingRule(1e-10, 1000),
        )
        for precondition in (False, True)
    ]
    assert runs[1].n_iter < runs[0].n_iter / 2


def test_the_diagonal_is_raised_only_with_fewer_preferences_than_features():
    np.testing.assert_array_equal(raised_diagonal(OPERATOR), OPERATOR.diagonal())
    wide = normal_operator(as_rows(np.hstack([P.X * 2.0**k for k in range(8)])), GRAPH)
    assert wide.rank < wide.n_features
    d, raised = wide.diagonal(), raised_diagonal(wide)
    t = raised.min() / 3.0
    np.testing.assert_allclose(np.minimum(d, t).sum(), wide.rank * t, rtol=1e-12)
    np.testing.assert_array_equal(raised, np.maximum(d, 3.0 * t))


def test_the_raised_diagonal_pays_with_fewer_preferences_than_features():
    """A few frequent features among many rare ones, as words are."""
    rng = np.random.default_rng(0)
    X = rng.normal(size=(200, 1000)) / np.arange(1, 1001)
    graph = PreferenceGraph.from_scores(X @ rng.normal(size=1000))
    operator, alpha, rule = normal_operator(as_rows(X), graph), 1e-4, StoppingRule(1e-8, 2000)
    n_iter = [
        multishift_cg(ShiftedSystems.of(operator, np.array([alpha]), precondition=p), rule).n_iter
        for p in (False, True)
    ]
    plain = ShiftedSystems.of(operator, np.array([alpha]))
    diagonal = replace(plain, scale=jacobi_scale(operator.diagonal(), alpha))
    assert n_iter[1] < 0.8 * min(n_iter[0], multishift_cg(diagonal, rule).n_iter)


def test_validation_scores_follow_the_recurrences():
    seen = []
    validator = Validator(
        as_rows(HELD_OUT.X), lambda scores: seen.append(scores.copy()) or scores[:, 0]
    )
    for n_iter in (1, 3):
        systems = ShiftedSystems.of(OPERATOR, ALPHAS, validator=validator)
        found = multishift_cg(systems, StoppingRule(0.0, n_iter))
        expected = found.coefs @ (HELD_OUT.X - HELD_OUT.X[0]).T
        np.testing.assert_allclose(seen[-1], expected, atol=1e-12)


def test_validation_scores_follow_the_recurrences_from_a_warm_start():
    start = np.random.default_rng(0).normal(size=6)
    validator = Validator(as_rows(HELD_OUT.X), squared_error, greater_is_better=False)
    systems = ShiftedSystems.of(OPERATOR, np.ones(1), start=start, validator=validator)
    found = multishift_cg(systems, StoppingRule(0.0, 2))
    scores = found.coefs @ (HELD_OUT.X - HELD_OUT.X[0]).T
    np.testing.assert_allclose(found.values[-1], squared_error(scores))


@pytest.mark.parametrize("alphas", [np.zeros(1), ALPHAS])
def test_early_stopping_returns_the_best_iterate_seen_and_not_the_last(alphas):
    systems = ShiftedSystems.of(OPERATOR, alphas, validator=VALIDATOR)
    stopped = multishift_cg(systems, StoppingRule(tol=1e-14, max_iter=50, patience=2))
    full = multishift_cg(systems, StoppingRule(tol=1e-14, max_iter=50))
    assert stopped.best.value == pytest.approx(np.nanmin(stopped.values))
    where = np.argwhere(stopped.values == stopped.best.value)[-1]
    assert (stopped.best.iteration, stopped.best.alpha) == (where[0] + 1, alphas[where[1]])
    again = multishift_cg(
        ShiftedSystems.of(OPERATOR, np.array([stopped.best.alpha])),
        StoppingRule(0.0, stopped.best.iteration),
    )
    np.testing.assert_allclose(stopped.best.coef, again.best.coef, rtol=1e-8, atol=1e-12)
    assert np.any(stopped.coefs != stopped.best.coef)
    assert stopped.n_iter <= full.n_iter


def test_an_alpha_finishes_after_iterations_without_improvement():
    rising = iter(range(100))
    worse = Validator(as_rows(HELD_OUT.X), lambda scores: np.full(len(scores), -next(rising)))
    found = multishift_cg(
        ShiftedSystems.of(OPERATOR, np.zeros(1), validator=worse), StoppingRule(0.0, 50, patience=3)
    )
    assert found.n_iter == 4
    assert found.best.iteration == 1
    assert found.ending.reason == "no improvement"


def test_without_patience_the_converged_alpha_that_validates_best_is_chosen():
    found = multishift_cg(ShiftedSystems.of(OPERATOR, ALPHAS, validator=VALIDATOR), EXACT)
    scores = np.stack([exact(a) for a in ALPHAS]) @ HELD_OUT.X.T
    best = ALPHAS[np.argmin(squared_error(scores - (HELD_OUT.X[0] @ found.coefs.T)[:, None]))]
    assert found.best.alpha == best
    np.testing.assert_allclose(found.best.coef, exact(best), rtol=1e-9)


def test_equal_merit_goes_to_the_largest_alpha():
    same = Validator(as_rows(HELD_OUT.X), lambda scores: np.ones(len(scores)))
    systems = ShiftedSystems.of(OPERATOR, ALPHAS, validator=same)
    assert multishift_cg(systems, EXACT).best.alpha == ALPHAS.max()
    assert multishift_cg(systems, StoppingRule(1e-13, 50, patience=2)).best.alpha == ALPHAS.max()


def test_warm_start_reaches_the_same_solution_sooner():
    near = exact(1.0) * (1 + 1e-6)
    cold = multishift_cg(ShiftedSystems.of(OPERATOR, np.ones(1)), StoppingRule(1e-5, 100))
    warm = multishift_cg(
        ShiftedSystems.of(OPERATOR, np.ones(1), start=near), StoppingRule(1e-5, 100)
    )
    assert warm.n_iter < cold.n_iter
    there = multishift_cg(ShiftedSystems.of(OPERATOR, np.ones(1), start=near), EXACT)
    np.testing.assert_allclose(there.best.coef, exact(1.0), rtol=1e-10)


@pytest.mark.parametrize("patience", [None, 4])
@pytest.mark.parametrize("cut", [1, 3])
def test_a_resumed_run_ends_as_if_never_cut(cut, patience):
    rule = StoppingRule(1e-12, 40, patience)
    systems = ShiftedSystems.of(OPERATOR, ALPHAS, validator=VALIDATOR)
    whole = multishift_cg(systems, rule)
    saved = []
    multishift_cg(systems, StoppingRule(1e-12, cut, patience), Hooks(save=saved.append))
    resumed = multishift_cg(systems, rule, saved=saved[-1])
    np.testing.assert_array_equal(resumed.coefs, whole.coefs)
    np.testing.assert_array_equal(resumed.best.coef, whole.best.coef)
    np.testing.assert_array_equal(resumed.values, whole.values)
    assert resumed.best.iteration == whole.best.iteration


def test_state_is_saved_as_often_as_wanted():
    often, seldom = [], []
    systems = ShiftedSystems.of(OPERATOR, ALPHAS)
    found = multishift_cg(systems, EXACT, Hooks(save=often.append, seconds=0.0))
    multishift_cg(systems, EXACT, Hooks(save=seldom.append, seconds=1e9))
    assert len(often) == found.n_iter + 1
    assert len(seldom) == 1


def saved_run(alphas, rule):
    states = []
    multishift_cg(ShiftedSystems.of(OPERATOR, alphas), rule, Hooks(save=states.append))
    return states[-1]


def test_one_alpha_goes_on_to_a_smaller_tolerance():
    one = ALPHAS[:1]
    state = saved_run(one, StoppingRule(1e-2, 200))
    found = multishift_cg(ShiftedSystems.of(OPERATOR, one), EXACT, saved=state)
    whole = multishift_cg(ShiftedSystems.of(OPERATOR, one), EXACT)
    assert found.converged
    assert found.n_iter == whole.n_iter > len(state["residuals"])
    np.testing.assert_array_equal(found.best.coef, whole.best.coef)


def test_alphas_that_finished_before_others_do_not_go_on_to_a_smaller_tolerance():
    state = saved_run(ALPHAS, StoppingRule(1e-2, 200))
    with pytest.raises(InvalidInputError, match="`tol` must not be smaller .* Start again"):
        multishift_cg(ShiftedSystems.of(OPERATOR, ALPHAS), EXACT, saved=state)
    done = multishift_cg(ShiftedSystems.of(OPERATOR, ALPHAS), StoppingRule(1e-1, 200), saved=state)
    assert done.n_iter == len(state["residuals"])


def test_a_callback_sees_every_step_and_may_stop():
    steps = []
    systems = ShiftedSystems.of(OPERATOR, ALPHAS, validator=VALIDATOR)
    found = multishift_cg(
        systems,
        StoppingRule(EXACT.tol, EXACT.max_iter, patience=50),
        Hooks(on_step=lambda step: steps.append(step) or np.equal(len(steps), 3)),
    )
    assert found.ending.reason == "callback"
    assert not found.converged
    assert [step.iteration for step in steps] == [1, 2, 3]
    np.testing.assert_array_equal([step.values for step in steps], found.values)
    np.testing.assert_array_equal([step.residuals for step in steps], found.residuals)
    assert [step.error for step in steps] == found.residuals.max(axis=1).tolist()


def test_ctrl_c_ends_the_run_after_the_current_iteration():
    def press(step):
        if step.iteration == 2:
            signal.raise_signal(signal.SIGINT)

    before = signal.getsignal(signal.SIGINT)
    found = multishift_cg(ShiftedSystems.of(OPERATOR, ALPHAS), EXACT, Hooks(on_step=press))
    assert found.ending.reason == "interrupted"
    assert found.n_iter == 2
    assert signal.getsignal(signal.SIGINT) is before


def test_a_second_ctrl_c_ends_at_once():
    def press(_):
        signal.raise_signal(signal.SIGINT)

    hooks = Hooks(on_step=press, save=press)  # the last save is made while the run ends
    with pytest.raises(KeyboardInterrupt):
        multishift_cg(ShiftedSystems.of(OPERATOR, ALPHAS), EXACT, hooks)


def test_ctrl_c_at_any_line_leaves_weights_with_the_residuals_that_they_have():
    systems, rhs = ShiftedSystems.of(OPERATOR, ALPHAS), OPERATOR.rhs()
    saved = []

    def run():
        saved.clear()
        return multishift_cg(systems, EXACT, Hooks(save=saved.append))

    n_interrupted = 0
    for found in interrupted_runs(run, _CGRun.goes_on, n_calls=3):
        n_interrupted += 1
        assert found.ending.reason == "interrupted"
        for alpha, w, residual in zip(ALPHAS, found.coefs, found.last_residuals, strict=True):
            if found.n_iter:
                left = rhs - OPERATOR.apply(w) - alpha * w
                true = np.linalg.norm(left) / np.linalg.norm(rhs)
                np.testing.assert_allclose(residual, true, rtol=1e-6, atol=1e-12)
        for arrays in saved:  # what is saved goes on to the same result
            assert multishift_cg(systems, EXACT, saved=arrays).converged
    assert n_interrupted > 20


def test_too_few_iterations_do_not_count_as_converged():
    found = multishift_cg(ShiftedSystems.of(OPERATOR, ALPHAS), StoppingRule(1e-13, 1))
    assert found.ending.reason == "max_iter"
    assert not found.converged
    reached = f"the relative error is {np.nanmax(found.residuals[-1]):.1e}, tol is 1.0e-13"
    assert reached in found.ending.message
    assert found.ending.message.endswith("Raise max_iter or alpha, or scale the features.")


def test_contradicting_preferences_give_weights_of_zero():
    graph = PreferenceGraph.from_pairs([[0, 1], [1, 0]], n_items=len(P.y))
    found = multishift_cg(ShiftedSystems.of(normal_operator(as_rows(P.X), graph), ALPHAS), EXACT)
    assert found.converged
    assert not found.coefs.any()
    assert found.n_iter == 0


def test_alpha_zero_ends_before_rounding_errors_take_over():
    graph = PreferenceGraph.from_pairs([[0, 1]], n_items=len(P.y))
    found = multishift_cg(
        ShiftedSystems.of(normal_operator(as_rows(P.X), graph), np.zeros(1)), StoppingRule(0.0, 50)
    )
    assert found.converged
    gap = P.X[0] - P.X[1]
    np.testing.assert_allclose(found.best.coef, gap / (gap @ gap), rtol=1e-9)


def test_a_direction_without_curvature_exhausts_the_krylov_space():
    @dataclass
    class Flat(GraphOperator):
        rows: ItemRows
        graph: PreferenceGraph

        def apply(self, w):
            return np.zeros_like(w)

        def diagonal(self):
            return np.zeros(self.n_features)

    found = multishift_cg(ShiftedSystems.of(Flat(as_rows(P.X), GRAPH), np.zeros(1)), EXACT)
    assert found.ending.reason == "exhausted"
    assert not found.best.coef.any()


def positive_definite(eigenvalues):
    Q, _ = np.linalg.qr(np.random.default_rng(3).normal(size=(len(eigenvalues),) * 2))
    return (Q * eigenvalues) @ Q.T


@pytest.mark.parametrize("precondition", [None, lambda V: V])
def test_as_many_steps_as_there_are_eigenvalues(precondition):
    """A preconditioner may return its argument: the direction is a copy of it."""
    A = positive_definite(np.repeat([1.0, 10.0, 100.0], 7))
    descent = Descent(lambda V: A @ V, np.ones(21), precondition=precondition)
    assert descent.run(StoppingRule(tol=1e-11)) == "converged"
    assert descent.iteration == 3
    np.testing.assert_allclose(A @ descent.X, np.ones(21), atol=1e-10)


def test_columns_stop_by_themselves_or_together():
    A = positive_definite(np.geomspace(1.0, 100.0, 30))
    B = np.column_stack([np.arange(30.0), np.linalg.eigh(A)[1][:, 3], np.zeros(30)])
    rule, alone = StoppingRule(tol=1e-9), Descent(lambda v: A @ v, B[:, 1])
    assert alone.run(rule) == "converged"
    assert alone.iteration == 1
    each = Descent(lambda V: A @ V, B)
    assert each.run(rule) == "converged"
    np.testing.assert_allclose(each.X[:, 1], alone.X, rtol=1e-12, atol=1e-15)
    np.testing.assert_array_equal(each.X[:, 2], 0.0)
    together = Descent(lambda V: A @ V, B, error=lambda here: float(here.residuals().max()))
    assert together.run(rule) == "converged"
    np.testing.assert_allclose(A @ together.X, B, atol=1e-9 * np.abs(B).max() * 30)


def test_a_start_is_gone_on_from():
    A = positive_definite(np.geomspace(1.0, 100.0, 30))
    B = np.ones((30, 2))
    exact = np.linalg.solve(A, B)
    descent = Descent(lambda V: A @ V, B, start=exact)
    assert descent.run(StoppingRule(tol=1e-9)) == "converged"
    assert descent.iteration == 0
    np.testing.assert_array_equal(descent.X, exact)


@pytest.mark.parametrize("factor", [-1.0, np.nan, np.inf])
def test_an_operator_that_is_not_positive_definite_ends_the_run(factor):
    descent = Descent(lambda v: factor * v, np.ones(4))
    with np.errstate(invalid="ignore"):
        assert descent.run(StoppingRule()) == "precision"


def test_a_callback_ends_the_descent():
    A = positive_definite(np.geomspace(1.0, 100.0, 30))
    descent = Descent(lambda v: A @ v, np.ones(30))
    assert descent.run(StoppingRule(tol=1e-9), lambda step: step.iteration == 2) == "callback"
    assert descent.iteration == 2
