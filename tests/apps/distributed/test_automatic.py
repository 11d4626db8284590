"""AutoRanker on a cluster: exact members, choices by held-out queries, whole queries to score."""

import dask
import numpy as np
import pytest

from rankwise import (
    AutoRanker,
    InvalidInputError,
    RankerPipeline,
    RankRLS,
    WithinQueryScaler,
    load,
)
from rankwise.apps.distributed import DaskAutoRanker

da = pytest.importorskip("dask.array")
pytestmark = pytest.mark.portable


@pytest.fixture(autouse=True)
def _in_this_thread():
    with dask.config.set(scheduler="synchronous"):
        yield


def data(n_queries=45, seed=0):
    rng = np.random.default_rng(seed)
    qid = np.repeat(np.arange(n_queries), 8)
    X = (
        rng.normal(size=(len(qid), 3)) * [1.0, 100.0, 0.01]
        + 50.0 * rng.normal(size=n_queries)[qid, None]
    )
    y = np.round(X[:, 0] - 0.5 * X[:, 1] / 100.0 + rng.normal(size=len(qid)))
    y -= np.array([y[qid == q].min() for q in range(n_queries)])[qid]
    return X, np.minimum(y, 4.0), qid


def dask_rows(X, size):
    return da.from_array(X, chunks=(size, X.shape[1]))


def in_one_process(member, X, y, qid, sample_weight=None):
    """Return the same member as fitted to all data at once."""
    steps = [type(step)(**step.get_params()) for step in member.steps_[:-1]]
    fitted = member.steps_[-1]
    ranker = RankRLS(fitted.alpha, ties=fitted.ties)
    return RankerPipeline([*steps, ranker]).fit(X, y, qid=qid, sample_weight=sample_weight)


@pytest.mark.parametrize("size", [45, 100, 1000])
@pytest.mark.parametrize("weighted", [False, True])
def test_members_are_those_of_all_data_in_one_process(size, weighted):
    X, y, qid = data()
    weight = np.random.default_rng(1).integers(1, 4, len(y)).astype(float) if weighted else None
    found = DaskAutoRanker().fit(dask_rows(X, size), y, qid=qid, sample_weight=weight).ranker_
    linear = [m for m in found.members_ if type(m.steps_[0]) is WithinQueryScaler]
    assert linear
    for member in linear:
        expected = in_one_process(member, X, y, qid, weight).predict(X, qid=qid)
        atol = 1e-9 * np.abs(expected).max()
        np.testing.assert_allclose(member.predict(X, qid=qid), expected, rtol=0.0, atol=atol)


@pytest.mark.parametrize("ids", ["numbers", "text"])
def test_partitions_do_not_matter(ids):
    X, y, qid = data()
    qid = qid if ids == "numbers" else np.array([f"q{q}" for q in qid])
    order = np.random.default_rng(2).permutation(len(y))  # all queries are split
    one = DaskAutoRanker().fit(dask_rows(X, 1000), y, qid=qid).ranker_
    other = DaskAutoRanker().fit(dask_rows(X[order], 90), y[order], qid=qid[order]).ranker_
    assert one.n_queries_ == other.n_queries_ == 45
    assert one.honest_value_.value == pytest.approx(other.honest_value_.value, rel=1e-9)
    expected = one.predict(X, qid=qid)
    np.testing.assert_allclose(
        other.predict(X, qid=qid), expected, rtol=0.0, atol=1e-9 * np.abs(expected).max()
    )


def test_held_out_values_are_of_models_without_these_queries():
    X, y, qid = data()
    noise = np.random.default_rng(3).permutation(len(y))
    ranker = DaskAutoRanker().fit(dask_rows(X, 100), y[noise], qid=qid).ranker_
    values = [one for one in ranker.leaderboard_.entries if not one.note]
    assert {one.name for one in values} > {"sum", "linear RankRLS", "single feature"}
    assert ranker.honest_value_.n_queries == 15
    chance = np.mean([one.low for one in values])
    signal = DaskAutoRanker().fit(dask_rows(X, 100), y, qid=qid).ranker_.honest_value_
    assert signal.low > ranker.honest_value_.value > chance


def test_all_other_families_are_named():
    X, y, qid = data()
    board = DaskAutoRanker().fit(dask_rows(X, 100), y, qid=qid).ranker_.leaderboard_
    notes = [one.note for one in board.entries if one.note]
    assert len(notes) == 7
    assert set(notes) == {"not tried: a cluster adds up statistics of linear rankers"}


def test_scores_and_ranks_of_whole_queries(tmp_path):
    X, y, qid = data()
    ranker = DaskAutoRanker().fit(dask_rows(X, 100), y, qid=qid)
    whole = ranker.ranker_.predict(X, qid=qid)
    np.testing.assert_allclose(ranker.predict(dask_rows(X, 80), qid).compute(), whole, rtol=1e-12)
    np.testing.assert_array_equal(ranker.predict(X, qid), whole)
    order = ranker.rank(dask_rows(X, 80), qid, k=3).compute()
    np.testing.assert_array_equal(order, ranker.ranker_.rank(X, qid=qid, k=3))
    ranker.save(tmp_path / "model")
    loaded = load(tmp_path / "model")
    assert type(loaded) is AutoRanker
    np.testing.assert_array_equal(loaded.predict(X, qid=qid), whole)


def test_the_report_says_what_was_not_tried_and_what_is_repeated():
    X, y, qid = data()
    X[:] = X[:8][np.arange(len(y)) % 8]  # the same items in every query
    report = DaskAutoRanker().fit(dask_rows(X, 100), y, qid=qid).ranker_.report()
    assert "All families were tried but 7" in report
    assert "100% of the rows stand in several queries: the values are those" in report


def test_frames_and_their_names():
    pd = pytest.importorskip("pandas")
    frames = pytest.importorskip("dask.dataframe")
    X, y, qid = data()
    table = pd.DataFrame(X, columns=["a", "b", "c"]).assign(y=y, q=qid)
    ranker = DaskAutoRanker().fit(frames.from_pandas(table, npartitions=3), y="y", qid="q")
    assert ranker.ranker_.feature_names_in_.tolist() == ["a", "b", "c"]
    whole = frames.from_pandas(table.drop(columns="y"), npartitions=1)
    expected = ranker.ranker_.predict(table[["a", "b", "c"]], qid=qid)
    np.testing.assert_allclose(ranker.predict(whole, "q").compute(), expected, rtol=1e-12)


def test_what_cannot_be_done_is_refused():
    X, y, qid = data()
    rows = dask_rows(X, 100)
    with pytest.raises(InvalidInputError, match="`qid` must be given, since features are scaled"):
        DaskAutoRanker().fit(rows, y)
    with pytest.raises(InvalidInputError, match="At least two queries must be given.*got 1"):
        DaskAutoRanker().fit(rows, y, qid=np.zeros(len(y)))
    ranker = DaskAutoRanker().fit(rows, y, qid=qid)
    with pytest.raises(InvalidInputError, match="`qid` must be given, since DaskAutoRanker"):
        ranker.predict(rows)
    for call in (ranker.predict, ranker.rank):
        with pytest.raises(InvalidInputError, match="query 12 is in several"):
            call(rows, qid)


def test_large_data_hold_out_a_share(monkeypatch):
    X, y, qid = data(60)
    monkeypatch.setattr("rankwise.apps.distributed.automatic.MANY_CELLS", 288)
    found = DaskAutoRanker().fit(dask_rows(X, 100), y, qid=qid).ranker_
    assert found.honest_value_.n_queries == 12  # of 1,440 numbers in 60 queries
