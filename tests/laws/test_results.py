"""What every result must do: print shortly, show as HTML, go to a dictionary and a frame, draw."""

import json

import matplotlib as mpl
import numpy as np
import pytest
from sklearn.linear_model import Ridge

import rankwise.results
from rankwise import (
    HonestValue,
    InvalidInputError,
    PairedTest,
    PreferenceGP,
    RankerEntry,
    RankerLeaderboard,
    RankRLS,
    RankRLSCV,
    auc_interval,
    compare_auc,
    evaluate,
    evaluate_answers,
    explain,
    feature_importance,
    leaderboard,
    leave_pair_out,
    paired_test,
    permutation_test,
)

mpl.use("agg")


def results():
    rng = np.random.default_rng(0)
    X = rng.normal(size=(40, 3)) / 3.0
    y = (X[:, 0] + 0.3 * rng.normal(size=40) > 0).astype(float)
    qid = np.repeat(np.arange(8), 5)
    ranker = RankRLSCV(alphas=[0.1, 1.0, 10.0]).fit(X, y, qid=qid)
    evaluation = evaluate(y, ranker.predict(X), qid, ["Concordance", "AP"])
    other = evaluate(y, X[:, 1], qid, ["Concordance", "AP"])
    estimate = leave_pair_out(RankRLS(ties="keep"), X[:8], y[:8], roc=True)
    pairs = leave_pair_out(Ridge(), X[:8], y[:8])
    votes = {"winner": list("aaabbc") * 3, "loser": list("bbccca") * 3, "judge": list("xyz") * 6}
    board = leaderboard(votes, judges=True)
    tried = RankerEntry("linear", 0.5, 0.4, 0.6, 0.03, 1.0, 2.5)
    missed = RankerEntry("trees", float("nan"), float("nan"), float("nan"), 1.0, 0.0, 0.0, "late")
    process = PreferenceGP().fit(X[:6], pairs=[[0, 1], [1, 2], [3, 4], [5, 0]])
    return [
        evaluation,
        ranker.path_,
        paired_test(evaluation, other, "AP"),
        leave_pair_out(RankRLS(ties="keep"), X, y),
        auc_interval(y, X[:, 0]),
        compare_auc(y, X[:, 0], X[:, 1]),
        permutation_test(X, y, n_permutations=99, random_state=0),
        process.rank_distribution(X[:6], n_draws=100, random_state=0),
        explain(RankRLS().fit(X, y), X, a=0, b=1),
        feature_importance(RankRLS().fit(X, y), X, y, random_state=0),
        evaluate_answers([0.9, 0.8, 0.3], [1, 1, -1]),
        HonestValue("NDCG @ 10", 0.5, 0.45, 0.55, 120),
        RankerLeaderboard("NDCG @ 10", (tried, missed)),
        estimate.roc,
        pairs,
        pairs.minus(pairs),
        board,
        board.judges,
        board.audit(),
    ]


RESULTS = {type(result).__name__: result for result in results()}
every_result = pytest.mark.parametrize("result", RESULTS.values(), ids=RESULTS)


PARTS = {
    "Candidate",
    "Certificate",
    "CertifiedSolution",
    "Effect",
    "Ending",
    "Finding",
    "RankerEntry",
}
"""Values that results are made of."""
OTHERS = {"ExportCheck", "LengthScaleAverage", "PairCalibration", "Report", "Step"}
"""Where a file was written, what predicts, a page, what a callback is told."""


def test_every_result_is_tried():
    assert set(rankwise.results.__all__) == set(RESULTS) | PARTS | OTHERS


@every_result
def test_text_is_short(result):
    for text in (str(result), repr(result)):
        assert len(text) < 2500
        assert "nan" not in text
    digits = [len(part) for part in "".join(c if c.isdigit() else " " for c in str(result)).split()]
    assert max(digits) <= 6


@every_result
def test_html_is_one_table_with_a_caption(result):
    html = result._repr_html_()
    assert html.count("<table><caption>") == html.count("</table>") == 1
    assert "<script" not in html


@every_result
def test_dictionary_goes_to_json_and_back(result):
    content = result.to_dict()
    assert json.loads(json.dumps(content, allow_nan=False)) == content


@every_result
def test_frame_has_rows(result):
    frame = result.to_frame()
    assert len(frame) > 0
    assert frame.notna().any(axis=None)


@every_result
def test_drawing_takes_axes_and_labels_them(result):
    from matplotlib import pyplot as plt

    _, ax = plt.subplots()
    assert result.plot(ax) is ax
    assert ax.get_xlabel()
    assert result.plot() is not ax
    plt.close("all")


def test_a_test_without_differences_cannot_be_drawn():
    with pytest.raises(InvalidInputError, match="must hold the differences"):
        PairedTest(0.0, 1.0, 0.0, 1, 1, 0).plot()


def test_numbers_without_a_value_are_a_dash():
    evaluation = evaluate([1, 0], [1, 2], None, ["AP"])
    assert " - " in str(evaluation)
    assert "- to -" in evaluation._repr_html_()
    assert evaluation.to_dict()["measures"]["AP"]["standard_error"] is None
