"""Learning in partitions gives the numbers of one machine, however queries are split."""

import dask
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import sparse

import rankwise
from rankwise import InvalidInputError, LinearRankRLS, NothingToLearnError, RankRLS, RankRLSCV
from rankwise.apps.distributed import DaskLinearRankRLS, DaskRankRLS, DaskRankRLSCV, evaluate
from rankwise.apps.distributed.partitions import PartitionFile
from rankwise.apps.distributed.shares import share_of_file, share_of_statistics
from rankwise.graph.split_queries import GradeCounts, SplitQueries

da = pytest.importorskip("dask.array")
OPTIONS = [("magnitude", "drop"), ("magnitude", "keep"), ("unit", "drop"), ("relative", "drop")]
GIVEN = {q: 1.0 + q for q in range(9)}


@pytest.fixture(autouse=True)
def _in_this_thread():
    with dask.config.set(scheduler="synchronous"):
        yield


def data(seed=0, n_items=120, n_queries=9, n_features=5):
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n_items, n_features)) + 3
    qid = rng.integers(0, n_queries, n_items)
    y = np.clip(np.round(X[:, 0] + X[:, 1] - 6 + rng.normal(size=n_items)), -2, 2)
    return X, y, qid


def cut(X, n_parts, seed=0):
    edges = np.sort(np.random.default_rng(seed).integers(1, len(X), n_parts - 1))
    sizes = np.diff(np.concatenate([[0], edges, [len(X)]]))
    return da.from_array(X, chunks=(tuple(sizes[sizes > 0].tolist()), X.shape[1]))


def close(found, expected, tol=1e-10):
    np.testing.assert_allclose(found, expected, atol=tol * np.abs(expected).max())


def test_rank_rls_cv_chooses_cost_and_ties():
    X, y, qid = data(3, n_items=200)
    lists = {"cost": ["magnitude", "unit", "relative"], "ties": ["keep", "drop"]}
    alphas = [0.01, 1.0, 100.0]
    expected = RankRLSCV(alphas, **lists).fit(X, y, qid=qid)
    found = DaskRankRLSCV(alphas, **lists).fit(cut(X, 5), y, qid=qid).ranker_
    assert len(found.search_) == len(expected.search_) == 4
    for one, other in zip(found.search_, expected.search_, strict=True):
        assert [one.settings[k] for k in lists] == [other.settings[k] for k in lists]
        close(one.path.values, other.path.values)
    assert (found.cost_, found.ties_, found.alpha_) == (
        expected.cost_, expected.ties_, expected.alpha_,
    )  # fmt: skip
    close(found.coef_, expected.coef_)
    assert found.get_params()["ties"] == lists["ties"]


@pytest.mark.parametrize(("cost", "ties"), OPTIONS)
@pytest.mark.parametrize(
    "query_weight", ["items", "pairs", "equal", {q: 1.0 + q for q in range(9)}]
)
@pytest.mark.parametrize("n_parts", [1, 2, 7])
def test_rank_rls(cost, ties, query_weight, n_parts):
    X, y, qid = data()
    options = {"cost": cost, "ties": ties, "query_weight": query_weight}
    expected = RankRLS(0.5, **options).fit(X, y, qid=qid)
    found = DaskRankRLS(0.5, **options).fit(cut(X, n_parts), y, qid=qid).ranker_
    close(found.coef_, expected.coef_)
    for name in ("n_queries_", "n_ignored_queries_", "fitted_with_qid_", "n_features_in_"):
        assert getattr(found, name) == getattr(expected, name)


@settings(max_examples=20, deadline=None)
@given(seed=st.integers(0, 2**32 - 1), n_parts=st.integers(1, 9), n_queries=st.integers(1, 40))
def test_any_split_in_any_order(seed, n_parts, n_queries):
    X, y, qid = data(seed, n_queries=n_queries)
    order = np.random.default_rng(seed).permutation(len(y))
    weight = np.random.default_rng(seed).integers(1, 4, len(y)).astype(float)
    expected = RankRLS(0.1).fit(X, y, qid=qid, sample_weight=weight)
    ranker = DaskRankRLS(0.1).fit(
        cut(X[order], n_parts, seed), y[order], qid=qid[order], sample_weight=weight[order]
    )
    close(ranker.coef_, expected.coef_)


@pytest.mark.parametrize("continuous", [True, False])
@pytest.mark.parametrize("is_sparse", [True, False])
def test_one_global_ranking(continuous, is_sparse):
    X, y, _ = data()
    if continuous:
        y = y + np.random.default_rng(1).normal(size=len(y))
    if is_sparse:
        X = X * (X > 3)
    rows = cut(X, 4)
    if is_sparse:
        rows = rows.map_blocks(sparse.csr_array)
    close(DaskRankRLS().fit(rows, y).coef_, RankRLS().fit(X, y).coef_)


@pytest.mark.parametrize("ids", ["text", "tuples"])
def test_ids_of_any_type(ids):
    X, y, qid = data()
    names = np.array([f"q{q}" for q in qid])
    if ids == "tuples":
        names = np.empty(len(qid), dtype=object)
        names[:] = [(int(q), "x") for q in qid]
    found = DaskRankRLS().fit(cut(X, 3), y, qid=names)
    close(found.coef_, RankRLS().fit(X, y, qid=qid).coef_)


@pytest.mark.parametrize(("cost", "ties"), OPTIONS)
@pytest.mark.parametrize("n_parts", [1, 2, 7])
def test_rank_rls_cv(cost, ties, n_parts):
    X, y, qid = data()
    expected = RankRLSCV(cost=cost, ties=ties).fit(X, y, qid=qid)
    found = DaskRankRLSCV(cost=cost, ties=ties).fit(cut(X, n_parts), y, qid=qid)
    close(found.ranker_.path_.values, expected.path_.values)
    close(found.ranker_.path_.standard_errors, expected.path_.standard_errors)
    assert found.alpha_ == expected.alpha_
    close(found.coef_, expected.coef_)
    assert found.ranker_.held_out_value_ == pytest.approx(expected.held_out_value_)


def test_a_partition_without_preferences_is_judged_by_the_others():
    X, y, qid = data()
    X, y = np.concatenate([X, X[:4]]), np.append(y, [1.0, 1.0, 2.0, 2.0])
    qid = np.append(qid, [50, 50, 51, 51])
    rows = da.from_array(X, chunks=((120, 4), 5))
    expected = RankRLSCV().fit(X, y, qid=qid)
    found = DaskRankRLSCV().fit(rows, y, qid=qid).ranker_
    close(found.path_.values, expected.path_.values)
    assert found.n_ignored_queries_ == expected.n_ignored_queries_ == 2


@pytest.mark.parametrize(("cost", "ties"), OPTIONS)
@pytest.mark.parametrize("is_sparse", [True, False])
@pytest.mark.parametrize("n_parts", [1, 2, 7])
def test_linear_rank_rls(cost, ties, is_sparse, n_parts):
    X, y, qid = data()
    options = {"cost": cost, "ties": ties, "tol": 1e-13}
    rows = cut(X * (X > 3) if is_sparse else X, n_parts)
    if is_sparse:
        X = X * (X > 3)
        rows = rows.map_blocks(sparse.csr_array)
    expected = LinearRankRLS(0.5, **options).fit(X, y, qid=qid)
    found = DaskLinearRankRLS(0.5, **options).fit(rows, y, qid=qid).ranker_
    close(found.coef_, expected.coef_)
    assert (found.n_queries_, found.n_ignored_queries_) == (9, 0)
    assert found.n_iter_ >= 1


def test_a_grid_with_validation_data_on_the_workers():
    X, y, qid = data(n_items=300, n_queries=20)
    train, rest = qid < 15, qid >= 15
    options = {"alphas": [0.01, 1.0, 100.0], "tol": 1e-13}
    expected = LinearRankRLS(**options).fit(
        X[train], y[train], qid=qid[train], X_val=X[rest], y_val=y[rest], qid_val=qid[rest]
    )
    found = DaskLinearRankRLS(**options).fit(
        cut(X[train], 3), y[train], qid=qid[train],
        X_val=cut(X[rest], 2), y_val=y[rest], qid_val=qid[rest],
    ).ranker_  # fmt: skip
    assert found.alpha_ == expected.alpha_
    close(found.coef_, expected.coef_)
    assert found.held_out_value_ == pytest.approx(expected.held_out_value_, abs=1e-12)


@pytest.mark.parametrize("early_stopping", [True, False])
def test_what_is_held_out_does_not_depend_on_partitions(early_stopping):
    X, y, qid = data(n_items=300, n_queries=20)
    options = {"alphas": [0.01, 1.0, 100.0], "early_stopping": early_stopping, "random_state": 3}
    one, several = (DaskLinearRankRLS(**options).fit(cut(X, n), y, qid=qid).ranker_ for n in (1, 5))
    close(several.coef_, one.coef_, 1e-9)
    assert one.n_queries_ == several.n_queries_ == 18
    assert one.held_out_value_ == pytest.approx(several.held_out_value_, abs=1e-12)


def test_the_result_is_an_ordinary_ranker(tmp_path):
    X, y, qid = data()
    ranker = DaskRankRLS().fit(cut(X, 3), y, qid=qid)
    ranker.save(tmp_path / "ranker.model")
    loaded = rankwise.load(tmp_path / "ranker.model")
    assert type(loaded) is RankRLS
    np.testing.assert_array_equal(loaded.predict(X), ranker.predict(X))


def test_lazy_predictions_and_ranks():
    X, y, qid = data()
    ranker = DaskRankRLS().fit(cut(X, 3), y, qid=qid)
    rows = cut(X, 4, seed=1)
    expected = ranker.ranker_
    np.testing.assert_allclose(ranker.predict(rows).compute(), expected.predict(X))
    for k in (None, 1, 3):
        np.testing.assert_array_equal(ranker.rank(rows, qid, k).compute(), expected.rank(X, qid, k))
    with pytest.raises(InvalidInputError, match="`rank` must be given `qid`"):
        ranker.rank(rows)
    with pytest.raises(InvalidInputError, match="`k` must be at least 1: got 0"):
        ranker.rank(rows, qid, 0)


@pytest.mark.parametrize("measures", [None, ["NDCG @ 3", "AP"]])
@pytest.mark.parametrize("n_parts", [1, 2, 7])
def test_evaluate(measures, n_parts):
    X, y, qid = data()
    grades = (y > 0).astype(float)
    expected = rankwise.evaluate(grades, X[:, 0], qid, measures)
    scores = cut(X, n_parts)[:, 0]
    found = evaluate(grades, scores, qid, measures)
    np.testing.assert_allclose(found.mean, expected.mean, rtol=1e-12)
    np.testing.assert_allclose(found.standard_error, expected.standard_error, rtol=1e-12)
    assert sorted(found.ids.tolist()) == sorted(expected.ids.tolist())


def test_default_measures_suit_all_partitions():
    scores = da.from_array(np.arange(4.0), chunks=2)
    found = evaluate([1.0, 2.0, 0.0, -1.0], scores, [0, 0, 1, 1])
    assert len(found.measures) == 2


# Dataframes and files


def frame(X, y, qid):
    pd = pytest.importorskip("pandas")
    columns = {f"f{k}": X[:, k] for k in range(X.shape[1])}
    return pd.DataFrame(columns | {"score": y, "query": qid})


def test_dataframes():
    dd = pytest.importorskip("dask.dataframe")
    X, y, qid = data()
    table = dd.from_pandas(frame(X, y, qid), npartitions=4)
    expected = RankRLS().fit(X, y, qid=qid)
    ranker = DaskRankRLS().fit(table, "score", qid="query")
    close(ranker.coef_, expected.coef_)
    assert ranker.ranker_.feature_names_in_.tolist() == [f"f{k}" for k in range(5)]
    features = table[[f"f{k}" for k in range(5)]]
    by_series = DaskRankRLS().fit(features, table["score"], qid=table["query"])
    close(by_series.coef_, expected.coef_)
    np.testing.assert_allclose(ranker.predict(features).compute(), expected.predict(X), rtol=1e-9)
    with pytest.raises(InvalidInputError, match="'grade' is not in"):
        DaskRankRLS().fit(table, "grade")


@pytest.mark.parametrize(
    "ranker", [DaskRankRLS(), DaskLinearRankRLS(tol=1e-13), DaskRankRLSCV([1.0])]
)
def test_parquet_files(tmp_path, ranker):
    X, y, qid = data()
    table = frame(X, y, qid)
    for k in range(3):
        table.iloc[40 * k : 40 * k + 40].to_parquet(tmp_path / f"part-{k}.parquet", index=False)
    ranker.fit_files(tmp_path / "part-*.parquet", y="score", qid="query")
    close(ranker.coef_, RankRLS().fit(X, y, qid=qid).coef_)
    assert ranker.ranker_.fitted_with_qid_


@pytest.mark.filterwarnings("ignore:The inplace keyword")  # of Dask, with pandas 3.1
def test_dataframes_of_files_of_which_few_columns_are_read(tmp_path):
    """Dask's optimiser joins files there, so that columns are cut in other ways than rows."""
    dd = pytest.importorskip("dask.dataframe")
    pytest.importorskip("pyarrow")
    X, y, qid = data(n_items=600, n_features=40)
    for k, rows in enumerate(np.array_split(np.arange(len(y)), 5)):
        frame(X[rows], y[rows], qid[rows]).to_parquet(tmp_path / f"part-{k}.parquet", index=False)
    table = dd.read_parquet(tmp_path / "part-*.parquet")
    assert len(table["score"].to_delayed()) < table.npartitions
    expected = RankRLS().fit(X, y, qid=qid).coef_
    close(DaskRankRLS().fit(table, "score", qid="query").coef_, expected)
    rows = table.drop(columns=["score", "query"])
    ranker = DaskRankRLS().fit(rows, table["score"], qid=table["query"])
    close(ranker.coef_, expected)
    whole = table.compute()
    order = ranker.rank(rows, qid=table["query"], k=2).compute()
    expected = ranker.ranker_.rank(whole.drop(columns=["score", "query"]), qid=whole["query"], k=2)
    np.testing.assert_array_equal(order, expected)


@pytest.mark.parametrize("order", ["query by query", "any"])
@pytest.mark.parametrize(("cost", "ties"), OPTIONS)
def test_a_file_is_added_up_part_by_part(tmp_path, cost, ties, order):
    X, y, qid = data(n_items=400)
    if order == "query by query":
        qid = np.sort(qid)
    path = str(tmp_path / "part.parquet")
    frame(X, y, qid).to_parquet(path, index=False)
    file = PartitionFile(path, {"y": "score", "qid": "query", "features": None}, memory=8192)
    assert len(list(file.chunks())) > 5
    options = {"cost": cost, "ties": ties, "query_weight": "pairs"}
    ids = np.array([2, 5])
    counts = GradeCounts.of(
        y[np.isin(qid, ids)], qid[np.isin(qid, ids)], np.ones(np.isin(qid, ids).sum()), ties=ties
    )
    (share,) = SplitQueries.of([counts.without_items()], **options).shares
    found, bundles = share_of_file(file, ids, share, options, 5)
    expected, means = share_of_statistics(file.read(), ids, share, options, 5)
    close(found.gram, expected.gram)
    close(found.moment, expected.moment)
    close(bundles, means)
    assert (found.n_queries, found.n_ignored) == (expected.n_queries, expected.n_ignored)


def test_svmlight_files_agree_on_their_features(tmp_path):
    X, y, qid = data()
    X[:40, 4] = X[40:80, 0] = 0.0
    for k in range(3):
        rows = slice(40 * k, 40 * k + 40)
        rankwise.io.write_svmlight(
            tmp_path / f"part-{k}.txt", sparse.csr_array(X[rows]), y[rows], qid[rows]
        )
    ranker = DaskRankRLS().fit_files(tmp_path / "part-*.txt")
    close(ranker.coef_, RankRLS().fit(X, y, qid=qid).coef_)


# Bad data


def test_a_bad_partition_is_named():
    X, y, qid = data()
    bad = X.copy()
    bad[70, 2] = np.nan
    with pytest.raises(InvalidInputError, match="Partition 1: .*X.*NaN"):
        DaskRankRLS().fit(da.from_array(bad, chunks=(60, 5)), y, qid=qid)
    parts = [da.from_array(X[:60], chunks=(60, 5)).to_delayed()[0, 0], dask.delayed(X[60:, :4])]
    uneven = da.concatenate([da.from_delayed(p, (60, 5), float) for p in parts])
    with pytest.raises(InvalidInputError, match="Partition 1: `X` must have the 5 features"):
        DaskRankRLS().fit(uneven, y, qid=qid)
    words = da.from_delayed(dask.delayed(X[60:].astype(str)), (60, 5), float)
    with pytest.raises(InvalidInputError, match="Partition 1: `X` must hold numbers"):
        DaskRankRLS().fit(da.concatenate([da.from_array(X[:60], chunks=(60, 5)), words]), y)
    wrong = y.copy()
    wrong[100] = np.inf
    with pytest.raises(InvalidInputError, match="Partition 1: .*y"):
        DaskRankRLS().fit(da.from_array(X, chunks=(60, 5)), wrong, qid=qid)


def test_a_bad_file_is_named(tmp_path):
    X, y, qid = data()
    table = frame(X, y, qid)
    table.iloc[:60].to_parquet(tmp_path / "part-0.parquet", index=False)
    table.iloc[60:].drop(columns="f4").to_parquet(tmp_path / "part-1.parquet", index=False)
    with pytest.raises(InvalidInputError, match="Partition 1 .*part-1.parquet.*5 features"):
        DaskRankRLS().fit_files(tmp_path / "part-*.parquet", y="score", qid="query")
    with pytest.raises(rankwise.DataFileError, match="expected at least one file"):
        DaskRankRLS().fit_files(tmp_path / "none-*.parquet")
    table.iloc[60:].assign(f2=np.nan).to_parquet(tmp_path / "part-1.parquet", index=False)
    with pytest.raises(rankwise.DataFileError, match="Partition 1 .*part-1.parquet.*column 'f2'"):
        DaskRankRLS().fit_files(tmp_path / "part-*.parquet", y="score", qid="query")
    table.iloc[60:].assign(query=None).to_parquet(tmp_path / "part-1.parquet", index=False)
    with pytest.raises(rankwise.DataFileError, match="Partition 1 .*part-1.parquet.*'query'"):
        DaskRankRLS().fit_files(tmp_path / "part-*.parquet", y="score", qid="query")
    (tmp_path / "part-2.txt").write_text("1 qid:1 1:1\n")
    with pytest.raises(InvalidInputError, match="All files must be tables, or all svmlight"):
        DaskRankRLS().fit_files(tmp_path / "part-*")


def test_refusals():
    X, y, qid = data()
    rows = cut(X, 3)
    with pytest.raises(InvalidInputError, match="`X` must be a Dask array or dataframe"):
        DaskRankRLS().fit(X, y)
    with pytest.raises(InvalidInputError, match="`X` must have rows and columns"):
        DaskRankRLS().fit(rows[:, 0], y)
    with pytest.raises(InvalidInputError, match="`query_weight` must be a name or a mapping"):
        DaskRankRLS(query_weight=np.ones(9)).fit(rows, y, qid=qid)
    with pytest.raises(NothingToLearnError, match="at least one preference"):
        DaskRankRLS().fit(rows, np.zeros(len(y)), qid=qid)
    with pytest.raises(NothingToLearnError, match="at least one preference"):
        DaskLinearRankRLS().fit(rows, np.zeros(len(y)), qid=qid)
    with pytest.raises(InvalidInputError, match="At least two queries must hold preferences"):
        DaskRankRLSCV().fit(rows, y)
    with pytest.raises(InvalidInputError, match="`X_val` and `y_val` must be given"):
        DaskLinearRankRLS(alphas=[1, 2]).fit(rows, y)
    with pytest.raises(
        InvalidInputError, match="`validation_fraction` must be a finite number between 0 and 1"
    ):
        DaskLinearRankRLS(alphas=[1, 2], validation_fraction=1.5).fit(rows, y, qid=qid)
    unknown = rows[rows[:, 0] > -99]
    with pytest.raises(InvalidInputError, match="`y` must be a Dask collection if"):
        DaskRankRLS().fit(unknown, y)
    with pytest.raises(InvalidInputError, match="`y` must have the"):
        DaskRankRLS().fit(unknown, da.from_array(y, chunks=11))


def test_out_of_memory_names_the_partition():
    from rankwise.apps.distributed.engine import named

    def large():
        raise MemoryError

    with pytest.raises(MemoryError, match="Partition 3 .part-3. must fit in the memory"):
        named(large, "Partition 3 (part-3)")
