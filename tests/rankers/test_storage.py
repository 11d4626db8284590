"""Saved rankers come back as they were, or not at all."""

import numpy as np
import pytest
from scipy.sparse import csr_array

import rankwise
from problems import problem
from rankwise import Gaussian, InvalidInputError, ModelFileError, RankRLS, RankRLSCV
from rankwise.io.model_file import read_model, write_model

P = problem(seed=0)


@pytest.mark.parametrize(
    "ranker",
    [
        RankRLS(),
        RankRLS(0.3, kernel="gaussian", cost="unit"),
        RankRLS(kernel="polynomial", basis=4, random_state=0),
        RankRLS(query_weight={int(q): 1.5 for q in P.qid}),
        RankRLSCV(kernel=[Gaussian(0.1), Gaussian(1.0)], measure="NDCG @ 3"),
    ],
    ids=repr,
)
def test_everything_fitted_comes_back(ranker, tmp_path):
    ranker.fit(P.X, P.y, qid=P.qid).save(tmp_path / "m")
    loaded = rankwise.load(tmp_path / "m")
    np.testing.assert_array_equal(loaded.predict(P.X), ranker.predict(P.X))
    assert set(vars(loaded)) == set(vars(ranker))
    assert loaded.n_queries_ == ranker.n_queries_
    assert loaded.kernel_ == ranker.kernel_


def test_the_path_of_a_search_comes_back(tmp_path):
    ranker = RankRLSCV(measure="AP").fit(P.X, P.y, qid=P.qid)
    ranker.save(tmp_path / "m")
    path = rankwise.load(tmp_path / "m").path_
    assert path.measure == rankwise.AP
    np.testing.assert_array_equal(path.per_query, ranker.path_.per_query)


def test_sparse_training_rows_come_back(tmp_path):
    X = csr_array(np.where(P.X > 0, P.X, 0))
    ranker = RankRLS(kernel="gaussian").fit(X, P.y, qid=P.qid)
    ranker.save(tmp_path / "m")
    np.testing.assert_array_equal(rankwise.load(tmp_path / "m").predict(X), ranker.predict(X))


def test_column_names_come_back(tmp_path):
    pd = pytest.importorskip("pandas")
    frame = pd.DataFrame(P.X, columns=["a", "b", "c"])
    RankRLS().fit(frame, P.y).save(tmp_path / "m")
    assert rankwise.load(tmp_path / "m").feature_names_in_.tolist() == ["a", "b", "c"]


def test_python_functions_are_not_saved_and_the_old_file_stays(tmp_path):
    RankRLS().fit(P.X, P.y).save(tmp_path / "m")
    before = (tmp_path / "m").read_bytes()
    ranker = RankRLS(kernel=lambda A, B: A @ B.T).fit(P.X, P.y)
    with pytest.raises(InvalidInputError, match="Only built-in values"):
        ranker.save(tmp_path / "m")
    assert (tmp_path / "m").read_bytes() == before


def test_unfitted_rankers_are_not_saved(tmp_path):
    with pytest.raises(ValueError, match="not fitted"):
        RankRLS().save(tmp_path / "m")


def test_a_model_of_an_unknown_class_is_refused(tmp_path):
    write_model(tmp_path / "m", {"class": "Mystery"}, {"x": np.zeros(1)})
    with pytest.raises(ModelFileError, match="must hold one of .*RankRLS"):
        rankwise.load(tmp_path / "m")


def test_a_model_that_gives_other_scores_is_refused(tmp_path):
    RankRLS().fit(P.X, P.y).save(tmp_path / "m")
    metadata, arrays = read_model(tmp_path / "m")
    write_model(tmp_path / "m", metadata, {**arrays, "probe/scores": arrays["probe/scores"] + 1})
    with pytest.raises(ModelFileError, match="must give the scores"):
        rankwise.load(tmp_path / "m")


def test_a_foreign_file_is_refused(tmp_path):
    (tmp_path / "m").write_text("## Coordinate Ascent\n1:0.3 2:-0.5\n")
    with pytest.raises(ModelFileError, match="expected a model saved by rankwise"):
        rankwise.load(tmp_path / "m")
