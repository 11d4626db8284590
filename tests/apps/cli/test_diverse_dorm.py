"""``rankwise fit dorm --sources`` trains for what ``rank --sources`` does ([LS08] Sect. 5.1)."""

import numpy as np
import pytest

import rankwise
from rankwise import DORM, DORMCV
from rankwise.io import write_table

OPTIONS = ("--qid", "city", "--y", "rating", "--sources", "chain", "--n-diverse", 2)


@pytest.fixture
def sourced(folder):
    chains = {}
    for name in ("train", "validation"):
        p = getattr(folder, name)
        chains[name] = np.array(["a", "b", "c"])[np.arange(len(p.y)) % 3]
        columns = dict(zip(("stars", "price", "age"), p.X.T, strict=True))
        table = {"city": p.qid, "chain": chains[name], **columns, "rating": p.y}
        write_table(folder / f"{name}_sourced.csv", table)
    return chains


def test_one_constant_is_trained_for_diverse_rankings(fit, folder, sourced):
    report, ranker = fit("dorm", "train_sourced.csv", *OPTIONS, "--C", 0.5)
    p = folder.train
    expected = DORM(C=0.5, n_diverse=2, random_state=0).fit(
        p.X, p.y, p.qid, sources=sourced["train"]
    )
    np.testing.assert_allclose(ranker.coef_, expected.coef_)
    plain = DORM(C=0.5, random_state=0).fit(p.X, p.y, p.qid)
    assert np.abs(plain.coef_ - ranker.coef_).max() > 1e-3
    assert report["n_features"] == 3


@pytest.mark.parametrize("validate", [False, True])
def test_the_constant_is_chosen_by_diverse_rankings(fit, folder, sourced, validate):
    file = ["--validate", "validation_sourced.csv"] if validate else []
    _, ranker = fit("dorm", "train_sourced.csv", *OPTIONS, "--Cs", "0.01,1", *file)
    p, v = folder.train, folder.validation
    judges = {"X_val": v.X, "y_val": v.y, "qid_val": v.qid, "sources_val": sourced["validation"]}
    expected = DORMCV([0.01, 1.0], measure=ranker.measure, n_diverse=2, random_state=0)
    expected.fit(p.X, p.y, p.qid, sources=sourced["train"], **(judges if validate else {}))
    np.testing.assert_allclose(ranker.path_.values, expected.path_.values)
    assert ranker.C_ == expected.C_


def test_the_model_ranks_with_sources(succeed, folder, sourced, tmp_path):
    train = folder / "train_sourced.csv"
    succeed("fit", "dorm", train, "-o", tmp_path / "m", *OPTIONS)
    succeed("rank", tmp_path / "m", train, "--qid", "city", "--sources", "chain")
    assert isinstance(rankwise.load(tmp_path / "m"), DORM)


def test_options_without_sense_are_refused(refuse, folder, tmp_path):
    given = ("fit", "dorm", "train.txt", "-o", tmp_path / "m")
    assert "--n-diverse must come with --sources" in refuse(*given, "--n-diverse", 2)
    assert "--sources must name a column of a table" in refuse(*given, "--sources", "chain")
