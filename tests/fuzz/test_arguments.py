"""Whatever is passed, the answer is a result or an error that says what to pass."""

import datetime
import inspect
import traceback
import warnings
from decimal import Decimal
from functools import partial
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
import sklearn
from scipy.sparse import csr_array

import rankwise
import rankwise.io
from fuzz.mutations import N_CASES, seeded_rng
from problems import problem
from rankwise import (
    DORM,
    DORMCV,
    ConditionalRankRLS,
    GreedyRankRLS,
    KPCRank,
    KPCRankCV,
    LinearRankRLS,
    PairCalibration,
    PreferenceGP,
    PreferenceGraph,
    Queries,
    QueryKFold,
    RankerPipeline,
    RankingFactorization,
    RankRLS,
    RankRLSCV,
    RankSVM,
    WithinQueryEncoder,
    WithinQueryImputer,
    WithinQueryRanks,
    WithinQueryScaler,
)

pytestmark = pytest.mark.portable

P = problem(seed=0, sizes=(4, 3, 5))
N = len(P.y)
PAIRS = [[0, 1], [2, 1], [3, 2], [4, 0]]


class Odd:
    """An object that is no number, no array and no text."""


def matrix_of_ones():
    """Return what NumPy warns of making."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return np.matrix(np.ones((N, 3)))


ODD = [
    None, True, 0, 1, -1, 3, 2**31, 2**63, 10**30, 10**400, 0.5, -0.5, 1e-300, 1e300,
    float("nan"), float("inf"), 1j, "", "a", "linear", "x" * 500, b"bytes", Odd(), Odd, [], {}, (),
    [[]], [None], ["a", "b"], [Odd()], {"a": 1}, {1, 2}, range(3), np.float64("nan"), np.array(3.0),
    np.zeros(0), np.zeros((0, 3)), np.zeros((N, 0)), np.zeros(N), np.full(N, np.nan),
    np.full(N, np.inf), np.zeros((N, 1)), np.ones((N, 3)), np.ones((N, 3, 2)), np.ones((N - 1, 3)),
    np.arange(N) % 2 == 0, np.array(["a"] * N), np.array([None] * N, dtype=object),
    np.array([Odd()] * N, dtype=object), np.full((N, 3), 1e308), np.full((N, 3), 1e-320),
    np.zeros(N, dtype=complex), np.zeros(N, dtype="datetime64[s]"), csr_array((N, 3)),
    csr_array(P.X), [[1, 2], [3]], pd.DataFrame({"a": ["x"] * N}), pd.Series([pd.NA] * N),
    pd.NA, pd.NaT, np.datetime64("NaT", "s"), Decimal("sNaN"), datetime.date(2026, 1, 2), " ", "\0",
    np.ma.masked_all(N), matrix_of_ones(), lambda x: x, iter([1, 2]), [[0, 0]], [[0, 99]],
    [[-1, 0]], [[0.5, 1]], PAIRS, np.arange(N), -np.arange(N), np.full(N, 2**62), np.full(N, 1e18),
    float, "NDCG @ 5", "NDCG @", "gaussian", "AUC", ["linear", "gaussian"], [1.0, -1.0], [0.1, 1.0],
]  # fmt: skip

RANKER = RankRLS().fit(P.X, P.y, P.qid)
DATA = {"X": P.X, "y": P.y, "qid": P.qid}
COMPARED = {"X": P.X, "pairs": PAIRS}
RATINGS = {"R": csr_array(np.random.default_rng(0).integers(1, 5, size=(6, 5)).astype(float))}


def fit(cls, **fixed):
    """Return a call that splits its arguments between the constructor and ``fit``."""

    def call(**arguments):
        names = inspect.signature(cls.__init__).parameters
        own = {name: value for name, value in arguments.items() if name in names}
        rest = {name: value for name, value in arguments.items() if name not in names}
        ranker = cls(**{**fixed, **own})
        ranker.fit(*[rest.pop("R")] if "R" in rest else [], **rest)
        return ranker

    return call


NAMED = [("a", "b"), ("b", "c"), ("a", "c")]
LIVE = PreferenceGP().fit(pairs=NAMED)


COLUMNS = {
    "a": ["x", "y", "z", "x"],
    "b": ["y", "z", "x", "z"],
    "winner": ["a", "b", "tie", "a"],
    "judge": ["j", "k", "j", "k"],
    "date": ["2026-01-01", "2026-01-02", "2026-01-03", "2026-01-04"],
    "count": [1, 2, 1, 1],
    "weight": [1.0, 0.5, 1.0, 2.0],
    "margin": [0.5, 1.0, 0.0, 2.0],
}


def with_cells(call):
    """Return a call with columns in which what is odd is a single cell."""

    def inner(**cells):
        columns = {
            name: values if cells[name] is values else [*values[:1], cells[name], *values[2:]]
            for name, values in COLUMNS.items()
        }
        return call(columns)

    return inner


def names_of(cls):
    return [n for n in inspect.signature(cls.__init__).parameters if n not in ("self", "progress")]


def evaluate(**arguments):
    return rankwise.evaluate(**arguments)


TARGETS = {
    "RankRLS": (fit(RankRLS), DATA, [*names_of(RankRLS), "sample_weight"]),
    "RankRLS, pairs": (fit(RankRLS), COMPARED, ["pair_margin", "pair_weight"]),
    "RankRLSCV": (fit(RankRLSCV), DATA, names_of(RankRLSCV)),
    "GreedyRankRLS": (fit(GreedyRankRLS), DATA, names_of(GreedyRankRLS)),
    "LinearRankRLS": (fit(LinearRankRLS), DATA, [*names_of(LinearRankRLS), "sample_weight"]),
    "KPCRank": (fit(KPCRank), DATA, names_of(KPCRank)),
    "KPCRankCV": (fit(KPCRankCV), DATA, names_of(KPCRankCV)),
    "RankSVM": (fit(RankSVM, max_iter=50), DATA, names_of(RankSVM)),
    "PreferenceGP": (fit(PreferenceGP), COMPARED, names_of(PreferenceGP)),
    "DORM": (fit(DORM, max_iter=20), DATA, names_of(DORM)),
    "DORMCV": (fit(DORMCV, max_iter=20), DATA, names_of(DORMCV)),
    "RankingFactorization": (
        fit(RankingFactorization, n_components=2, max_iter=2), RATINGS,
        names_of(RankingFactorization),
    ),
    "RankerPipeline": (fit(RankerPipeline, steps=[RankRLS()]), DATA, names_of(RankerPipeline)),
    "WithinQueryScaler": (fit(WithinQueryScaler), DATA, names_of(WithinQueryScaler)),
    "WithinQueryRanks": (fit(WithinQueryRanks), DATA, names_of(WithinQueryRanks)),
    "WithinQueryEncoder": (fit(WithinQueryEncoder), DATA, names_of(WithinQueryEncoder)),
    "WithinQueryImputer": (fit(WithinQueryImputer), DATA, names_of(WithinQueryImputer)),
    "predict": (RANKER.predict, {"X": P.X}, []),
    "rank": (lambda X, qid: RANKER.rank(X, qid=qid), {"X": P.X, "qid": P.qid}, []),
    "score": (lambda X, y, qid: RANKER.score(X, y, qid=qid), DATA, []),
    "evaluate": (
        evaluate, {"y": P.y, "scores": P.X[:, 0], "qid": P.qid, "measures": ["NDCG"]},
        ["sample_weight"],
    ),
    "parse_measure": (rankwise.parse_measure, {"text": "NDCG @ 5"}, []),
    "leaderboard": (rankwise.leaderboard, {"comparisons": [("a", "b"), ("b", "c")]}, []),
    "Queries": (Queries.from_qid, {"qid": P.qid}, []),
    "PreferenceGraph": (PreferenceGraph.from_scores, {"y": P.y, "qid": P.qid}, ["cost", "ties"]),
    "QueryKFold": (
        lambda n_splits, groups: list(QueryKFold(n_splits).split(P.X, P.y, groups)),
        {"n_splits": 2, "groups": P.qid}, [],
    ),
    "Gaussian": (lambda gamma: rankwise.Gaussian(gamma)(P.X, P.X), {"gamma": 0.5}, []),
    "Polynomial": (
        lambda degree, coef0: rankwise.Polynomial(degree, gamma=1.0, coef0=coef0)(P.X, P.X),
        {"degree": 2, "coef0": 1.0}, [],
    ),
    "load": (rankwise.load, {"path": "no such file"}, []),
    "ConditionalRankRLS": (
        fit(ConditionalRankRLS), {"conditions": P.X[:4], "items": P.X, "y": np.ones((4, N)) * P.y},
        names_of(ConditionalRankRLS),
    ),
    "BoostedRanker": (
        fit(rankwise.BoostedRanker, n_trees=2, early_stopping=False), DATA,
        [name for name in names_of(rankwise.BoostedRanker) if name != "n_trees"],
    ),
    "PreferenceGP by name": (fit(PreferenceGP), {"pairs": NAMED}, ["first", "judge", "date"]),
    "predict_pair": (
        LIVE.predict_pair, {"X1": ["a"], "X2": ["b"]}, ["noisy", "covariates", "judge", "date"],
    ),
    "suggest": (LIVE.suggest, {"n": 2}, ["X", "goal", "k", "until", "candidates", "balance"]),
    "update": (LIVE.update, {"pairs": [("a", "c")]}, ["tied", "pair_weight", "judge", "date"]),
    "process leaderboard": (
        partial(LIVE.leaderboard, n_draws=50), {"X": ["a", "b"]}, ["level", "judge"],
    ),
    "sample": (partial(LIVE.sample, n=2), {"X": ["a", "b"]}, ["judge", "random_state"]),
    "leaderboard options": (
        rankwise.leaderboard, {"comparisons": NAMED},
        ["columns", "judges", "clustered", "first", "half_life", "deviation", "level"],
    ),
    "win_matrix": (rankwise.leaderboard(NAMED).win_matrix, {"names": ["a", "b"]}, []),
    "PairCalibration": (
        PairCalibration.of, {"ranker": RANKER, "X": P.X, "pairs": PAIRS}, ["pair_weight"],
    ),
    "evaluate_answers": (
        rankwise.evaluate_answers, {"probability": [0.9, 0.4], "outcome": [1, 0]},
        ["weight"],
    ),
    "permutation_test": (
        partial(rankwise.permutation_test, n_permutations=9), DATA,
        ["alphas", "kernel", "measure", "random_state"],
    ),
    "leave_pair_out": (
        partial(rankwise.leave_pair_out, RankRLS()),
        {"X": P.X[:6], "y": [0, 1, 0, 1, 0, 1]},
        ["groups", "positive", "confidence", "n_fits", "keep_leads", "roc"],
    ),
    "compare_auc": (
        rankwise.compare_auc, {"y": P.y > 0, "a": P.X[:, 0], "b": P.X[:, 1]},
        ["confidence", "alternative"],
    ),
    "paired_test": (rankwise.paired_test, {"a": [1.0, 2.0], "b": [2.0, 1.0]}, ["measure"]),
    "explain": (
        partial(rankwise.explain, RANKER), {"X": P.X, "qid": P.qid}, ["a", "b", "feature_names"],
    ),
    "feature_importance": (
        partial(rankwise.feature_importance, RANKER), DATA, ["measure", "feature_names"],
    ),
    "click_propensities": (
        rankwise.click_propensities, {"position": [0, 1, 0, 1], "clicked": [1, 0, 0, 1]},
        ["item", "tol"],
    ),
    "read_comparisons, a cell": (with_cells(rankwise.io.read_comparisons), COLUMNS, []),
    "leaderboard, a cell": (with_cells(rankwise.leaderboard), COLUMNS, []),
    "leaderboard, a cell of a frame": (
        with_cells(lambda columns: rankwise.leaderboard(pd.DataFrame(columns))), COLUMNS, [],
    ),
}  # fmt: skip
PACKAGE = Path(rankwise.__file__).parent
SCIKIT_LEARN = Path(sklearn.__file__).parent
ALLOWED = (rankwise.RankwiseError, OSError, MemoryError)
CASES = N_CASES // len(TARGETS) or 80


def one_change(given, others, rng):
    """Replace or add one argument, sometimes two."""
    changed = dict(given)
    for _ in range(1 + (rng.integers(4) == 0)):
        names = [*given, *others]
        changed[names[rng.integers(len(names))]] = ODD[rng.integers(len(ODD))]
    return changed


def is_ours(path):
    """Return whether a file is this one or a part of the package, wherever the checkout is."""
    return path.is_relative_to(PACKAGE) or path == Path(__file__)


def is_of_scikit_learn(error):
    """Return whether the checks of scikit-learn refuse an argument."""
    frames = [Path(frame.filename) for frame in traceback.extract_tb(error.__traceback__)]
    ours = max(k for k, path in enumerate(frames) if is_ours(path))
    is_theirs = any(path.is_relative_to(SCIKIT_LEARN) for path in frames[ours + 1 :])
    return is_theirs and isinstance(error, ValueError | TypeError)


def test_a_checkout_may_be_called_anything():
    assert is_ours(PACKAGE / "core" / "errors.py")
    assert is_ours(Path(__file__))
    assert not is_ours(PACKAGE.parent / ".venv" / "site-packages" / "sklearn" / "base.py")
    assert not is_ours(PACKAGE.with_name("rankwise_of_others") / "base.py")


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("name", TARGETS)
def test_odd_arguments_give_a_result_or_say_what_to_pass(name, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)  # some arguments are paths
    call, given, others = TARGETS[name]
    rng = seeded_rng()
    refused = 0
    if name != "load":
        call(**given)
    for _ in range(CASES):
        arguments = one_change(given, others, rng)
        with warnings.catch_warnings(), np.errstate(all="ignore"):
            warnings.simplefilter("ignore")
            try:
                call(**arguments)
            except Exception as error:
                refused += 1
                assert len(str(error)) < 2000, arguments  # noqa: PT017
                is_own = any(map(callable, arguments.values()))  # a kernel, an objective
                if not (isinstance(error, ALLOWED) or is_own or is_of_scikit_learn(error)):
                    raise AssertionError(f"{name}({arguments}): {error!r}") from error
    assert refused > CASES / 10
