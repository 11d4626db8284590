"""``rankwise leave-pair-out``, ``permutation-test`` and ``fit factorization``: as in Python."""

import json

import numpy as np
import pytest
from scipy.sparse import csr_array

import rankwise
from rankwise.io import write_table

RNG = np.random.default_rng(0)
X = RNG.normal(size=(30, 2))
Y = (X[:, 0] + 0.5 * RNG.normal(size=30) > 0).astype(int)
RATINGS = np.where(RNG.random((12, 7)) < 0.7, RNG.integers(1, 6, (12, 7)), 0)


@pytest.fixture
def patients(folder):
    write_table(folder / "patients.csv", {"age": X[:, 0], "size": X[:, 1], "ill": Y})
    return "patients.csv"


@pytest.fixture
def ratings(folder):
    users, items = np.nonzero(RATINGS)
    names = {"user": [f"u{u:02d}" for u in users], "item": [f"i{i}" for i in items]}
    write_table(folder / "ratings.csv", {**names, "rating": RATINGS[users, items]})
    return "ratings.csv"


def test_leave_pair_out_equals_python(succeed, patients):
    options = ("--y", "ill", "--alpha", 2, "--level", 0.9)
    expected = rankwise.leave_pair_out(
        rankwise.RankRLS(alpha=2.0, ties="keep"), X, Y, confidence=0.9
    )
    found = json.loads(succeed("leave-pair-out", patients, *options, "--json"))
    assert {"value", "low", "high", "standard_error", "n_pairs"} <= found.keys()
    assert found == pytest.approx({name: getattr(expected, name) for name in found})
    said = succeed("leave-pair-out", patients, *options).splitlines()
    assert said[-1] == f"AUC on unseen items: {expected}"


def test_permutation_test_equals_python(succeed, patients):
    options = ("--y", "ill", "--alphas", "0.1,1", "--n-permutations", 99, "--kernel", "gaussian")
    expected = rankwise.permutation_test(
        X, Y, alphas=[0.1, 1.0], kernel="gaussian", n_permutations=99, random_state=0
    )
    assert succeed("permutation-test", patients, *options).splitlines()[-1] == f"{expected}"
    found = json.loads(succeed("permutation-test", patients, *options, "--json"))
    assert found["null"] == pytest.approx(expected.null.tolist())


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("leave-pair-out", "train.txt"), "must be one ranking of all items"),
        (("leave-pair-out", "patients.csv"), "expected a column of scores"),
        (("leave-pair-out", "patients.csv", "--y", "ill", "--alpha", 0), "--alpha must be"),
        (("leave-pair-out", "patients.csv", "--y", "ill", "--gamma", 1), "linear has no gamma"),
        (("permutation-test", "train.txt", "--alphas", "x"), "--alphas must be a list"),
        (("fit", "factorization", "ratings.csv", "-o", "m", "--top", 3), "--top must come with"),
        (("fit", "factorization", "ratings.csv", "-o", "m", "--user", "usr"), "mean 'user'"),
        (("fit", "factorization", "twice.csv", "-o", "m"), "got several by a of x"),
    ],
)
def test_what_makes_no_sense_is_refused(refuse, folder, patients, ratings, arguments, message):
    write_table(folder / "twice.csv", {"user": ["a", "a"], "item": ["x", "x"], "rating": [1, 2]})
    assert message in refuse(*arguments)


def test_factorization_equals_python(succeed, ratings, tmp_path):
    top = tmp_path / "top.csv"
    options = ("--n-components", 2, "--C", 5, "--recommend", top, "--top", 2)
    printed = succeed("fit", "factorization", ratings, "-o", tmp_path / "m", *options)
    assert f"{np.count_nonzero(RATINGS)} ratings, 12 users, 7 items" in printed
    model = rankwise.RankingFactorization(2, C=5.0, random_state=0).fit(csr_array(RATINGS))
    loaded = rankwise.load(tmp_path / "m")
    np.testing.assert_allclose(loaded.user_factors_, model.user_factors_, rtol=1e-9)
    lines = [line.split(",") for line in top.read_text().splitlines()]
    assert lines[0] == ["user", "item", "rank", "score"]
    expected = [f"i{i}" for user in range(12) for i in model.recommend(user, 2)]
    assert [line[1] for line in lines[1:]] == expected
    again = ("-o", tmp_path / "m", "--C", 5, "--n-components", 2, "--json")
    report = json.loads(succeed("fit", "factorization", ratings, *again))
    assert report["n_users"] == 12
    assert report["C"] == 5.0


def test_columns_may_be_asked_for_in_another_spelling(run, folder):
    lines = ["Person,Film,Stars", *(f"p{i % 6},f{i % 7},{i % 5}" for i in range(42))]
    (folder / "stars.csv").write_text("\n".join(lines) + "\n")
    options = (
        "--user",
        "person",
        "--item",
        "FILM",
        "--rating",
        "stars",
        "-o",
        "stars.model",
        "--n-components",
        2,
    )
    result = run("fit", "factorization", "stars.csv", *options)
    assert result.exit_code == 0, result.output + result.stderr
