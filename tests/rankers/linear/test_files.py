"""Learning from a file gives what learning from the same rows in memory gives, in little memory."""

import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from scipy.sparse import csr_array

from problems import problem
from rankwise import DataFileError, InvalidInputError, RankRLS, load
from rankwise.io import write_svmlight, write_table
from rankwise.rankers.linear.linear_rank_rls import LinearRankRLS

SIZES = (12, 1, 30, 15, 2, 20, 8, 7)
P = problem(0, sizes=SIZES, n_features=6, shuffle=False)
V = problem(1, sizes=(9, 14, 6), n_features=6)
VALIDATION = {"X_val": V.X, "y_val": V.y, "qid_val": V.qid}
OPTIONS = [
    {"cost": "magnitude", "ties": "drop", "query_weight": "items"},
    {"cost": "magnitude", "ties": "keep", "query_weight": "equal"},
    {"cost": "unit", "ties": "drop", "query_weight": {3 + 7 * k: 1.0 + k for k in range(8)}},
    {"cost": "relative", "ties": "drop", "query_weight": "pairs"},
]


@pytest.fixture(params=["svmlight sparse", "svmlight dense", "parquet"])
def path(request, tmp_path):
    return write(request.param, tmp_path, P)


def write(form, folder, p):
    if form == "parquet":
        columns = {f"f{j}": p.X[:, j] for j in range(p.X.shape[1])}
        write_table(folder / "train.parquet", columns | {"y": p.y, "qid": p.qid})
        return folder / "train.parquet"
    X = p.X.copy()
    if form == "svmlight sparse":
        X[np.random.default_rng(0).random(X.shape) < 0.6] = 0.0
        p = type(p)(X, p.y, p.qid)
    write_svmlight(folder / "train.txt", csr_array(X), p.y, qid=p.qid)
    return folder / "train.txt"


def rows(path):
    """Return the rows of P as the file holds them."""
    X = P.X.copy()
    if path.name == "train.txt" and path.stat().st_size < 7000:
        X[np.random.default_rng(0).random(X.shape) < 0.6] = 0.0
    return X


@pytest.mark.parametrize(
    ("solver", "memory"),
    [
        ("statistics", 2 * 8 * 3 * 6**2),  # room for three grades of the largest query
        ("statistics", 1 << 28),
        ("iterations", 1),
        ("iterations", 8000),
        ("iterations", 1 << 28),
    ],
)
@pytest.mark.parametrize("options", OPTIONS, ids=lambda o: o["cost"] + o["ties"])
def test_file_equals_memory(path, options, solver, memory):
    exact = RankRLS(0.3, **options).fit(rows(path), P.y, P.qid)
    ranker = LinearRankRLS(0.3, **options, tol=1e-13)
    ranker.fit_file(path, solver=solver, memory=memory, n_features=6, features=None)
    np.testing.assert_allclose(ranker.coef_, exact.coef_, rtol=1e-8)
    assert ranker.n_queries_ == exact.n_queries_
    assert ranker.n_ignored_queries_ == exact.n_ignored_queries_
    assert ranker.fitted_with_qid_
    assert ranker.n_features_in_ == 6


@pytest.mark.parametrize("solver", ["statistics", "iterations"])
def test_grid_from_a_file_chooses_as_from_memory(path, solver):
    alphas = 2.0 ** np.arange(-5, 6)
    options = {"alphas": alphas, "tol": 1e-12}
    memory = LinearRankRLS(**options).fit(rows(path), P.y, P.qid, **VALIDATION)
    ranker = LinearRankRLS(**options)
    V_rows = dict(VALIDATION)
    if path.suffix == ".parquet":
        import pandas as pd

        V_rows["X_val"] = pd.DataFrame(V.X, columns=[f"f{j}" for j in range(6)])
    ranker.fit_file(path, solver=solver, n_features=6, **V_rows)
    assert ranker.alpha_ == memory.alpha_
    np.testing.assert_allclose(ranker.coef_, memory.coef_, rtol=1e-7)
    assert ranker.held_out_value_ == pytest.approx(memory.held_out_value_)


def test_early_stopping_from_a_file(tmp_path):
    path = write("svmlight dense", tmp_path, P)
    options = {"alpha": 0.0, "early_stopping": True, "n_iter_no_change": 3}
    memory = LinearRankRLS(**options).fit(P.X, P.y, P.qid, **VALIDATION)
    ranker = LinearRankRLS(**options).fit_file(path, memory=2000, **VALIDATION)
    np.testing.assert_allclose(ranker.coef_, memory.coef_, rtol=1e-8)
    assert ranker.best_iter_ == memory.best_iter_


def test_unsorted_rows_and_many_scores_go_to_iterations(tmp_path):
    shuffled = problem(3, sizes=SIZES, n_features=6)
    path = write("svmlight dense", tmp_path, shuffled)
    exact = RankRLS().fit(shuffled.X, shuffled.y, shuffled.qid).coef_
    ranker = LinearRankRLS(tol=1e-12)
    with pytest.raises(InvalidInputError, match="must be contiguous.*solver='iterations'"):
        ranker.fit_file(path, solver="statistics")
    for solver in ("auto", "iterations"):
        ranker.fit_file(path, solver=solver, memory=1000)
        np.testing.assert_allclose(ranker.coef_, exact, rtol=1e-8)
    continuous = problem(4, sizes=(60,), n_features=6, grades=None)
    path = write("svmlight dense", tmp_path, continuous)
    ranker.fit_file(path, memory=4000)
    exact = RankRLS().fit(continuous.X, continuous.y).coef_
    np.testing.assert_allclose(ranker.coef_, exact, rtol=1e-8)
    with pytest.raises(InvalidInputError, match="distinct scores are too many"):
        ranker.fit_file(path, memory=4000, solver="statistics")


@pytest.mark.parametrize("form", ["svmlight dense", "parquet"])
def test_ids_of_queries_may_be_words_of_any_length(tmp_path, form):
    words = np.array(["a" * (1 + q % 11) + str(q) for q in P.qid])
    path = write(form, tmp_path, type(P)(P.X, P.y, words))
    weight = {word: 1.0 + len(word) for word in words}
    ranker = LinearRankRLS(query_weight=weight, tol=1e-12)
    ranker.fit_file(path, solver="iterations", memory=1000)
    exact = RankRLS(query_weight=weight).fit(P.X, P.y, words)
    np.testing.assert_allclose(ranker.coef_, exact.coef_, rtol=1e-8)


def test_single_precision_and_feature_names(tmp_path):
    path = write("parquet", tmp_path, P)
    ranker = LinearRankRLS(0.3, dtype="float32").fit_file(path, solver="iterations")
    np.testing.assert_allclose(ranker.coef_, RankRLS(0.3).fit(P.X, P.y, P.qid).coef_, rtol=1e-4)
    assert ranker.feature_names_in_.tolist() == [f"f{j}" for j in range(6)]
    ranker.fit_file(write("svmlight dense", tmp_path, P))
    assert "feature_names_in_" not in vars(ranker)


def test_what_a_file_cannot_do_is_refused(tmp_path):
    path = write("svmlight dense", tmp_path, P)
    with pytest.raises(InvalidInputError, match="must be given to `fit_file`"):
        LinearRankRLS(alphas=[1, 2]).fit_file(path)
    with pytest.raises(InvalidInputError, match="`solver` must be one of"):
        LinearRankRLS().fit_file(path, solver="magic")
    with pytest.raises(InvalidInputError, match="`memory` must be a whole number above 0"):
        LinearRankRLS().fit_file(path, memory=0)
    bare = tmp_path / "bare.svm"
    bare.write_text("1 qid:1\n2 qid:1\n")
    with pytest.raises(DataFileError, match="bare.svm: expected at least one feature, got none"):
        LinearRankRLS().fit_file(bare)


MEASURE = """
import sys
from pathlib import Path
from rankwise.rankers.linear.linear_rank_rls import LinearRankRLS

def peak(path, memory):
    ranker = LinearRankRLS(max_iter=3, tol=0.9)
    ranker.fit_file(path, solver=sys.argv[3], memory=memory, n_features=100)
    status = Path("/proc/self/status").read_text()  # ru_maxrss would include the parent's
    return 1024 * int(status.split("VmHWM:")[1].split()[0])

for _ in range(12):  # a megabyte of small files is read without compiled code
    before = peak(sys.argv[2], 1 << 28)
print(peak(sys.argv[1], int(sys.argv[4])) - before)
"""
N_ITEMS, N_ENTRIES = 20_000, 60


@pytest.fixture(scope="module")
def files(tmp_path_factory):
    rng = np.random.default_rng(0)
    folder = tmp_path_factory.mktemp("files")
    indices = np.concatenate([np.arange(0, 100, 2)[:30], np.arange(1, 100, 2)[:30]])
    indices = np.tile(np.sort(indices), N_ITEMS)
    indptr = N_ENTRIES * np.arange(N_ITEMS + 1)
    values = rng.integers(1, 100, len(indices)) / 64
    X = csr_array((values, indices, indptr), shape=(N_ITEMS, 100))
    y, qid = rng.integers(0, 3, N_ITEMS), np.arange(N_ITEMS) // 20
    for name, part in {"large": slice(None), "small": slice(200)}.items():
        write_svmlight(folder / f"{name}.txt", X[part], y[part], qid=qid[part])
    return folder


@pytest.mark.skipif(not Path("/proc/self/status").exists(), reason="needs Linux to measure memory")
@pytest.mark.parametrize("solver", ["statistics", "iterations"])
def test_memory_is_bounded_by_the_parameter(files, solver):
    memory = 2 << 20
    arguments = [files / "large.txt", files / "small.txt", solver, memory]
    out = subprocess.run(
        [sys.executable, "-c", MEASURE, *map(str, arguments)],
        check=True,
        capture_output=True,
        text=True,
    )
    per_item = 150 * N_ITEMS if solver == "iterations" else 0
    assert int(out.stdout) < memory + per_item + (1 << 20)
    assert 2 * (memory + per_item) < 12 * N_ITEMS * N_ENTRIES


def test_the_numbering_of_the_file_is_kept_and_saved(tmp_path):
    path = tmp_path / "train.txt"
    path.write_text("1 qid:1 0:1 1:2\n0 qid:1 0:2 1:1\n")
    ranker = LinearRankRLS().fit_file(path)
    assert ranker.zero_based_ is True
    ranker.save(tmp_path / "m")
    assert load(tmp_path / "m").zero_based_ is True
    path.write_text("1 qid:1 1:1 2:2\n0 qid:1 1:2 2:1\n")
    assert ranker.fit_file(path).zero_based_ is False
    ranker.fit(np.eye(2), [0, 1])
    assert "zero_based_" not in vars(ranker)
