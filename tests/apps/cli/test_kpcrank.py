"""``rankwise fit kpcrank``: as in Python, and what is refused."""

import numpy as np
import pytest

import rankwise
from rankwise import Gaussian, KPCRank, KPCRankCV
from rankwise.io import read_scores, write_svmlight, write_table

VALIDATE = ["--validate", "validation.txt"]


def trained(folder, ranker, *, validate=False):
    held_out, data = folder.validation, folder.train
    given = {"X_val": held_out.X, "y_val": held_out.y, "qid_val": held_out.qid} if validate else {}
    return ranker.fit(data.X, data.y, qid=data.qid, **given)


def test_options_reach_the_ranker(succeed, folder, tmp_path):
    succeed(
        *("fit", "kpcrank", "train.txt", "-o", tmp_path / "model", "--n-components", 5),
        *("--gamma", 0.3, "--alpha", 0.1, "--cost", "unit", "--query-weight", "equal"),
    )
    succeed("predict", tmp_path / "model", "test.txt", "-o", tmp_path / "scores.txt")
    expected = trained(
        folder, KPCRank(5, Gaussian(0.3), alpha=0.1, cost="unit", query_weight="equal")
    )
    assert rankwise.load(tmp_path / "model").get_params() == expected.get_params()
    np.testing.assert_allclose(
        read_scores(tmp_path / "scores.txt"), expected.predict(folder.test.X), rtol=1e-9
    )


@pytest.mark.parametrize("validate", [False, True], ids=["folds", "file"])
def test_the_number_of_components_is_chosen(fit, folder, validate):
    arguments = ["--max-components", 12, "--measure", "NDCG @ 3", "--ties", "keep"]
    report, ranker = fit("kpcrank", "train.txt", *arguments, *(VALIDATE if validate else []))
    search = KPCRankCV(12, measure="NDCG @ 3", ties="keep")
    expected = trained(folder, search, validate=validate)
    assert report["ranker"] == "KPCRankCV"
    assert report["n_components"] == ranker.n_components_ == expected.n_components_
    assert report["selection"]["grid"] == list(range(1, 13))
    np.testing.assert_allclose(report["selection"]["values"], expected.path_.values)
    judged = "on validation.txt" if validate else "by leaving out each query in turn"
    assert report["selection"]["judged"] == judged


def test_without_queries_folds_of_items_decide(fit, folder, tmp_path):
    path = tmp_path / "flat.txt"
    write_svmlight(path, folder.train.X, folder.train.y)
    report, ranker = fit("kpcrank", path, "--max-components", 8)
    expected = KPCRankCV(8).fit(folder.train.X, folder.train.y)
    assert report["selection"]["judged"] == "by five folds of items"
    assert ranker.n_components_ == expected.n_components_


def test_one_number_is_measured_on_the_validation_file(fit, folder):
    report, _ = fit("kpcrank", "train.txt", *VALIDATE)
    value = trained(folder, KPCRank()).score(
        folder.validation.X, folder.validation.y, qid=folder.validation.qid
    )
    assert report["selection"]["values"] == pytest.approx([value])
    assert report["n_components"] == 10


def test_a_long_grid_is_printed_in_part_and_with_the_chosen_row(succeed, tmp_path):
    arguments = ["--max-components", 41]
    printed = succeed("fit", "kpcrank", "train.txt", "-o", tmp_path / "model", *arguments)
    ranker = rankwise.load(tmp_path / "model")
    lines = printed.splitlines()
    n_rows = next(i for i, line in enumerate(lines) if line.startswith("Judged")) - 1
    assert len(ranker.path_.grid) > 32 >= n_rows
    assert [line.split()[0] for line in lines if line.endswith("  chosen")] == [
        str(ranker.n_components_)
    ]


def test_comparisons_equal_python(fit, folder):
    pairs = np.array([[0, 5], [7, 5], [20, 3], [3, 41]])
    write_table(folder / "kpc_pairs.csv", {"winner": pairs[:, 0], "loser": pairs[:, 1]})
    arguments = ["--pairs", "kpc_pairs.csv", "--n-components", 2, "--kernel", "linear"]
    report, ranker = fit("kpcrank", "train.txt", *arguments)
    expected = KPCRank(2, "linear").fit(folder.train.X, pairs=pairs)
    np.testing.assert_allclose(ranker.coef_, expected.coef_)
    assert report["n_pairs"] == 4


@pytest.mark.parametrize("judged", [False, True], ids=["folds", "comparisons"])
def test_the_number_of_components_is_chosen_by_comparisons(fit, folder, tmp_path, judged):
    rng = np.random.default_rng(0)
    pairs = rng.integers(0, len(folder.train.y), (60, 2))
    pairs = pairs[pairs[:, 0] != pairs[:, 1]]
    for name, rows in [("learned.csv", pairs[:40]), ("judged.csv", pairs[40:])]:
        write_table(tmp_path / name, {"winner": rows[:, 0], "loser": rows[:, 1]})
    options = ["--max-components", 9, "--pairs", tmp_path / "learned.csv"]
    options += ["--pairs-val", tmp_path / "judged.csv"] if judged else []
    report, ranker = fit("kpcrank", "train.txt", *options)
    judges = {"pairs_val": pairs[40:]} if judged else {}
    expected = KPCRankCV(9).fit(folder.train.X, pairs=pairs[:40], **judges)
    assert ranker.n_components_ == expected.n_components_
    np.testing.assert_allclose(report["selection"]["values"], expected.path_.values)
    says = f"on {tmp_path / 'judged.csv'}" if judged else "by five folds of comparisons"
    assert report["selection"]["judged"] == says


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--n-components", 3, "--max-components", 5], "Only one of --n-components and --max-co"),
        (["--max-components", 5, "--pairs-val", "p.csv"], "--pairs-val must come with --pairs"),
        (["--pairs", "p.csv", "--pairs-val", "p.csv"], "--pairs-val must come with --max-comp"),
        (
            ["--max-components", 5, "--pairs", "p.csv", "--pairs-val", "p.csv", *VALIDATE],
            "Only one of --pairs-val and --validate",
        ),
        (["--measure", "AP"], "--measure must come with --validate"),
        (["--n-components", 0], "--n-components must be a whole number above 0"),
        (["--kernel", "gaussian", "--degree", 2], "gaussian has no degree"),
    ],
)
def test_options_without_sense_are_refused(refuse, tmp_path, arguments, message):
    assert message in refuse("fit", "kpcrank", "train.txt", "-o", tmp_path / "model", *arguments)
    assert not (tmp_path / "model").exists()
