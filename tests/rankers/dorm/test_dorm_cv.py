"""DORMCV: what it chooses by, and what it refuses."""

import signal

import numpy as np
import pytest
from sklearn.model_selection import GroupKFold

from problems import problem
from rankwise import (
    AP,
    DORM,
    DORMCV,
    NDCG,
    WTA,
    Concordance,
    ConvergenceWarning,
    Gaussian,
    InvalidInputError,
    Queries,
    SelectionPath,
)
from rankwise.rankers.dorm import dorm_cv
from rankwise.solve.iteration import StoppingRule

P = problem(seed=0, sizes=(6, 5, 1, 7, 4, 6, 8, 5, 6))
V = problem(seed=1, sizes=(7, 5, 1, 8))
CS = [0.05, 0.5, 5.0]
EXACT = {"tol": 1e-8, "max_iter": 20_000, "random_state": 0}


def folds():
    return list(GroupKFold(3).split(P.X, P.y, P.qid))


@pytest.mark.parametrize("kernel", ["linear", Gaussian(0.3)], ids=repr)
def test_held_out_values_are_those_of_refitted_rankers(kernel):
    search = DORMCV(CS, objective="NDCG @ 3", measure="MAP", cv=folds(), kernel=kernel, **EXACT)
    search.fit(P.X, P.y, qid=P.qid)
    for C, value in zip(CS, search.path_.values, strict=True):
        scores = np.empty(len(P.y))
        for rest, out in folds():
            ranker = DORM("NDCG @ 3", C, kernel=kernel, **EXACT)
            scores[out] = ranker.fit(P.X[rest], P.y[rest], qid=P.qid[rest]).predict(P.X[out])
        assert value == pytest.approx(AP.overall(P.y, scores, Queries.from_qid(P.qid)), abs=1e-9)
    chosen = int(np.argmax(search.path_.values))
    assert CS[chosen] == search.C_
    assert search.held_out_value_ == search.path_.values[chosen]
    again = DORM("NDCG @ 3", search.C_, kernel=kernel, **EXACT).fit(P.X, P.y, qid=P.qid)
    np.testing.assert_allclose(search.predict(P.X), again.predict(P.X), atol=1e-3)


@pytest.mark.parametrize("basis", [None, 6], ids=["features", "basis"])
def test_validation_data_decide_in_place_of_folds(basis):
    options = {"kernel": Gaussian(0.3) if basis else "linear", "basis": basis, **EXACT}
    search = DORMCV(CS, **options)
    search.fit(P.X, P.y, qid=P.qid, X_val=V.X, y_val=V.y, qid_val=V.qid)
    queries = Queries.from_qid(V.qid)
    for C, value in zip(CS, search.path_.values, strict=True):
        ranker = DORM(C=C, **options).fit(P.X, P.y, qid=P.qid)
        assert value == pytest.approx(NDCG.overall(V.y, ranker.predict(V.X), queries), abs=1e-9)
    assert search.held_out_value_ == NDCG.overall(V.y, search.predict(V.X), queries)
    assert search.solution_.gap <= 1e-8
    assert (search.path_.errors <= 1e-8).all()


@pytest.mark.parametrize("shares", [False, True], ids=["sources", "conditions"])
def test_diverse_rankings_are_judged_as_they_are_shown(shares):
    names = np.arange(len(P.y)) % 3
    sources = 0.5 * np.eye(3)[names] if shares else names
    search = DORMCV(CS[:2], objective="NDCG @ 3", cv=folds(), **EXACT)
    search.fit(P.X, P.y, qid=P.qid, sources=sources)
    for C, value in zip(CS, search.path_.values, strict=False):
        scores = np.empty(len(P.y))
        for rest, out in folds():
            ranker = DORM("NDCG @ 3", C, **EXACT)
            ranker.fit(P.X[rest], P.y[rest], qid=P.qid[rest], sources=sources[rest])
            order = out[ranker.predict_diverse(P.X[out], sources[out], n=3, qid=P.qid[out])]
            scores[order] = -np.arange(len(out))
        queries = Queries.from_qid(P.qid)
        expected = (NDCG @ 3).overall(P.y, scores, queries)
        assert value == pytest.approx(expected, abs=1e-9)


def test_validation_data_are_judged_as_they_are_shown():
    names, of_v = np.arange(len(P.y)) % 3, np.arange(len(V.y)) % 3
    validation = {"X_val": V.X, "y_val": V.y, "qid_val": V.qid, "sources_val": of_v}
    search = DORMCV(CS, objective="NDCG", n_diverse=2, **EXACT)
    search.fit(P.X, P.y, qid=P.qid, sources=names, **validation)
    scores = np.empty(len(V.y))
    scores[search.predict_diverse(V.X, of_v, n=2, qid=V.qid)] = -np.arange(len(V.y))
    expected = NDCG.overall(V.y, scores, Queries.from_qid(V.qid))
    assert search.held_out_value_ == pytest.approx(expected, abs=1e-12)


def test_sources_of_half_the_rows_are_refused():
    validation = {"X_val": V.X, "y_val": V.y, "qid_val": V.qid}
    ranker, names = DORMCV(CS, objective="NDCG @ 2"), np.arange(len(P.y))
    with pytest.raises(InvalidInputError, match="both or neither"):
        ranker.fit(P.X, P.y, qid=P.qid, sources=names, **validation)
    with pytest.raises(InvalidInputError, match="must come with `X_val`"):
        ranker.fit(P.X, P.y, qid=P.qid, sources=names, sources_val=names)
    with pytest.raises(InvalidInputError, match="`sources_val` must have one entry"):
        ranker.fit(P.X, P.y, qid=P.qid, sources=names, sources_val=[1], **validation)


def test_the_best_of_several_settings_is_taken():
    search = DORMCV(
        4, objective=["NDCG", "NDCG @ 2"], decay=[0.5, "log", (2.0, 1.0)], cv=3, random_state=0
    )
    search.fit(P.X, P.y, qid=P.qid)
    values = [candidate.path.values.max() for candidate in search.search_]
    best = search.search_[int(np.argmax(values))]
    assert len(values) == 6
    assert search.held_out_value_ == max(values)
    assert search.objective_ == best.settings["objective"]
    assert search.decay_ == best.settings["decay"]
    assert all(candidate.path.measure == NDCG for candidate in search.search_)
    assert best.path.grid[-1] == pytest.approx(100 * best.path.grid[0])


def test_what_decides_follows_what_is_trained():
    for objective, decides in [
        ("WTA", WTA),
        ("mWTA", WTA),
        (lambda y: np.outer(-y, 1 / (1 + np.arange(len(y)))), Concordance),
    ]:
        search = DORMCV([0.1], objective=objective, cv=2, random_state=0).fit(P.X, P.y, qid=P.qid)
        assert search.path_.measure == decides


def test_one_standard_error_takes_a_smaller_value():
    path = SelectionPath(
        "C",
        np.array(CS),
        NDCG,
        np.array([0.5, 0.55, 0.6]),
        np.full(3, 0.06),
        np.zeros((3, 9)),
        np.zeros(3),
        "smallest",
    )
    assert [path.best(), path.best("one_standard_error")] == [2, 1]
    search = DORMCV(CS, rule="one_standard_error", cv=3, random_state=0).fit(P.X, P.y, qid=P.qid)
    assert search.path_.grid[search.path_.best("one_standard_error")] == search.C_


def test_items_of_a_single_ranking_are_held_out():
    search = DORMCV([0.01, 0.1], measure=Concordance, cv=4, random_state=0).fit(P.X, P.y)
    assert search.path_.per_query.shape == (2, 4)
    assert search.score(P.X, P.y) > 0.7


def test_folds_are_drawn_by_the_random_state():
    def values(seed):
        return DORMCV([0.1], cv=3, random_state=seed).fit(P.X, P.y, qid=P.qid).path_.values

    np.testing.assert_array_equal(values(0), values(0))
    assert values(0) != values(1)


def test_an_interrupt_keeps_the_settings_that_are_done(monkeypatch):
    solve_path, calls = dorm_cv.solve_path, []

    def interrupted(*arguments):
        calls.append(1)
        for solution in solve_path(*arguments):
            if len(calls) == 4:
                signal.raise_signal(signal.SIGINT)
            yield solution

    monkeypatch.setattr(dorm_cv, "solve_path", interrupted)
    search = DORMCV(CS, decay=[0.5, 1.0], cv=3, random_state=0)
    with pytest.warns(ConvergenceWarning, match="Interrupted after 1 of 2 settings"):
        search.fit(P.X, P.y, qid=P.qid)
    assert search.decay_ == 0.5
    calls[:] = [1, 1, 1]
    with pytest.raises(KeyboardInterrupt):
        DORMCV(CS, cv=3).fit(P.X, P.y, qid=P.qid)


def test_an_interrupt_inside_a_run_ends_the_search(monkeypatch):
    monkeypatch.setattr(dorm_cv, "solve_path", _interrupted_path)
    with pytest.raises(KeyboardInterrupt):
        DORMCV(CS, cv=3).fit(P.X, P.y, qid=P.qid)


def _interrupted_path(*_):
    class Ended:
        ending = StoppingRule().end("interrupted", 1, 1.0)

    yield Ended()


def test_unfinished_solutions_are_told():
    with pytest.warns(ConvergenceWarning, match="solutions have not converged within max_iter=1"):
        DORMCV([100.0], cv=2, tol=1e-9, max_iter=1).fit(P.X, P.y, qid=P.qid)


def test_progress_is_shown_on_standard_error(capfd):
    DORMCV([0.1], cv=2, progress=True).fit(P.X, P.y, qid=P.qid)
    assert "gap" in capfd.readouterr().err


def test_the_path_is_drawn():
    pytest.importorskip("matplotlib").use("Agg")
    search = DORMCV(CS, cv=3, random_state=0).fit(P.X, P.y, qid=P.qid)
    axes = search.plot_path()
    assert axes.get_xlabel() == "C"


@pytest.mark.parametrize(
    ("options", "match"),
    [
        ({"cv": 1}, "`cv` as a number must be at least 2: got 1"),
        ({"cv": [[0, 1], [2]]}, "A fold must hold out whole queries"),
        ({"Cs": [0.1, -1]}, "`Cs` must be a number of values up to 10,000, or a list"),
        ({"Cs": 0}, "`Cs` must be a number of values up to 10,000, or a list"),
        ({"Cs": "many"}, "`Cs` must be a number of values up to 10,000, or a list"),
        ({"rule": "worst"}, "`rule` must be one of"),
        ({"measure": "AP(relevant=9)"}, "At least one held-out query must define AP"),
        ({"objective": "MAP"}, "`objective` must add up gains times discounts"),
    ],
)
def test_settings_without_sense_are_refused(options, match):
    with pytest.raises(InvalidInputError, match=match):
        DORMCV(**options).fit(P.X, P.y, qid=P.qid)


@pytest.mark.parametrize(
    ("given", "match"),
    [
        ({"X_val": V.X}, "Validation data must have `X_val` and `y_val`"),
        ({"X_val": V.X, "y_val": V.y}, "and `qid_val` if `fit` is given `qid`"),
        ({"X_val": V.X, "y_val": V.y[:3], "qid_val": V.qid[:3]}, "`y_val` must have one entry"),
        ({"X_val": V.X, "y_val": V.y, "qid_val": V.qid[:3]}, "`qid_val` must have one entry"),
    ],
)
def test_incomplete_validation_data_are_refused(given, match):
    with pytest.raises(InvalidInputError, match=match):
        DORMCV().fit(P.X, P.y, qid=P.qid, **given)
