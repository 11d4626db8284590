"""Comparisons by name: the same rankers as from row numbers, and names in what comes back."""

import numpy as np
import pandas as pd
import polars as pl
import pytest
from sklearn.base import clone

from rankwise import (
    KPCRank,
    KPCRankCV,
    LinearRankRLS,
    PairCalibration,
    PairKFold,
    PreferenceGP,
    RankRLS,
    RankRLSCV,
    RankSVM,
    evaluate_answers,
)
from rankwise.core.errors import InvalidInputError
from rankwise.core.queries import TrainingData
from rankwise.selection.path import as_measure, judge_comparisons

RNG = np.random.default_rng(0)
N_ITEMS, N_PAIRS = 24, 120
X = RNG.normal(size=(N_ITEMS, 3))
SCORES = X @ [1.0, 0.5, -1.0]
NAMES = np.array([f"wine {k}" for k in range(N_ITEMS)], dtype=object)
QID = np.repeat(["red", "white"], N_ITEMS // 2)


def draw_pairs():
    """Compare items of one colour, winner first."""
    half, ends = N_ITEMS // 2, RNG.integers(N_ITEMS // 2, size=(N_PAIRS, 2))
    ends[:, 1] = (ends[:, 0] + 1 + RNG.integers(half - 1, size=N_PAIRS)) % half
    ends += half * RNG.integers(2, size=(N_PAIRS, 1))
    swap = SCORES[ends[:, 0]] + RNG.normal(size=N_PAIRS) < SCORES[ends[:, 1]]
    return np.where(swap[:, None], ends[:, ::-1], ends)


PAIRS, WEIGHT = draw_pairs(), RNG.integers(1, 4, size=N_PAIRS).astype(float)
ITEMS = pd.DataFrame(X, columns=["body", "fruit", "oak"], index=NAMES)
TABLE = pd.DataFrame({"Winner": NAMES[PAIRS[:, 0]], "LOSER": NAMES[PAIRS[:, 1]], "count": WEIGHT})
RANKERS = [
    RankRLS(),
    RankRLS(kernel="gaussian"),
    RankRLSCV(),
    LinearRankRLS(),
    KPCRank(4),
    KPCRankCV(),
    RankSVM(),
]


def polars_items():
    return pl.DataFrame(
        {"wine": NAMES.tolist(), **{name: ITEMS[name].to_numpy() for name in ITEMS}}
    )


@pytest.mark.parametrize("ranker", RANKERS, ids=repr)
def test_names_and_row_numbers_give_the_same_ranker(ranker):
    plain = clone(ranker).fit(X, pairs=PAIRS, pair_weight=WEIGHT)
    for items, table in [(ITEMS, TABLE), (polars_items(), pl.from_pandas(TABLE))]:
        named = clone(ranker).fit(items, pairs=table)
        np.testing.assert_allclose(named.predict(items), plain.predict(X), rtol=1e-6, atol=1e-9)
        ranked = named.rank(items, k=5, as_frame=True)
        assert list(ranked["item"]) == NAMES[plain.rank(X, k=5)].tolist()
        expected = plain.score(X, pairs=PAIRS, pair_weight=WEIGHT)
        assert named.score(items, pairs=table) == pytest.approx(expected)


def test_names_come_with_queries_and_validation_pairs():
    frame = ITEMS.assign(colour=QID)
    named = RankRLSCV().fit(frame, qid="colour", pairs=TABLE[:80], pairs_val=TABLE[80:])
    plain = RankRLSCV().fit(
        X,
        qid=QID,
        pairs=PAIRS[:80],
        pair_weight=WEIGHT[:80],
        pairs_val=PAIRS[80:],
        pair_weight_val=WEIGHT[80:],
    )
    assert named.alpha_ == plain.alpha_
    np.testing.assert_allclose(named.predict(frame), plain.predict(X))
    value = named.score(frame, qid="colour", pairs=TABLE)
    assert value == pytest.approx(plain.score(X, qid=QID, pairs=PAIRS, pair_weight=WEIGHT))
    other = RankRLSCV().fit(ITEMS, pairs=TABLE[:80], X_val=ITEMS[::-1], pairs_val=TABLE[80:])
    assert other.alpha_ == RankRLSCV().fit(ITEMS, pairs=TABLE[:80], pairs_val=TABLE[80:]).alpha_


def test_ties_are_left_out_and_margins_are_read():
    rows = {"a": ["x", "y", "z"], "b": ["y", "z", "x"], "winner": ["a", "tie", "b"]}
    items = pd.DataFrame({"f": [1.0, 2.0, 4.0], "g": [0.0, 3.0, 1.0]}, index=["x", "y", "z"])
    plain = RankRLS().fit(items.to_numpy(), pairs=[[0, 1], [0, 2]])
    np.testing.assert_allclose(RankRLS().fit(items, pairs=rows).coef_, plain.coef_)
    lead = {"winner": ["x", "z"], "loser": ["y", "y"], "margin": [2.0, 3.0]}
    plain = RankRLS().fit(items.to_numpy(), pairs=[[0, 1], [2, 1]], pair_margin=[2.0, 3.0])
    np.testing.assert_allclose(RankRLS().fit(items, pairs=lead).coef_, plain.coef_)


def test_probabilities_folds_and_calibration_take_names():
    folds = list(PairKFold(3, random_state=0).split(TABLE))
    assert sorted(np.concatenate([held_out for _, held_out in folds])) == list(range(N_PAIRS))
    for kept, held_out in folds:
        known = {frozenset(pair) for pair in PAIRS[kept].tolist()}
        assert not known & {frozenset(pair) for pair in PAIRS[held_out].tolist()}
    kept, held_out = folds[0]
    ranker = RankRLS().fit(ITEMS, pairs=TABLE.iloc[kept])
    calibrated = PairCalibration.of(ranker, ITEMS, TABLE.iloc[held_out])
    plain = PairCalibration.of(ranker, ITEMS, PAIRS[held_out], WEIGHT[held_out])
    assert calibrated.scale == pytest.approx(plain.scale)
    ends = TABLE.iloc[held_out]
    first, second = (ITEMS.loc[ends[side]] for side in ("Winner", "LOSER"))
    judged = evaluate_answers(calibrated.predict_pair(first, second))
    assert judged.disagreement < 0.5
    drawn = judged.plot().collections[0].get_offsets()
    np.testing.assert_allclose(drawn, np.column_stack([judged.predicted, judged.observed]))


def test_the_process_and_frames_of_row_numbers_stay_as_they_were():
    named = PreferenceGP("linear").fit(pairs=TABLE)
    ranked = named.rank(["wine 3", "wine 1"], as_frame=True)
    assert set(ranked["item"]) == {"wine 3", "wine 1"}
    plain = RankRLS().fit(X, pairs=PAIRS)
    np.testing.assert_allclose(RankRLS().fit(X, pairs=pd.DataFrame(PAIRS)).coef_, plain.coef_)
    assert plain.rank(X, k=3, as_frame=True)["item"].tolist() == plain.rank(X, k=3).tolist()


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: RankRLS().fit(ITEMS, pairs=[("wine 1", "wien 2")]), "got 'wien 2'"),
        (
            lambda: RankRLS().fit(ITEMS, pairs=TABLE, pair_weight=WEIGHT),
            "got `pair_weight` separately",
        ),
        (
            lambda: RankRLSCV().fit(ITEMS, pairs=TABLE, pairs_val=TABLE, pair_weight_val=WEIGHT),
            "got `pair_weight_val` separately",
        ),
    ],
)
def test_what_is_unclear_is_refused(call, message):
    with pytest.raises(InvalidInputError, match=message):
        call()


TIED_NAMES = NAMES[np.array([[0, 5], [3, 7], [20, 14]])]
WITH_TIES = pd.DataFrame(
    {
        "a": [*TABLE["Winner"], *TIED_NAMES[:, 0]],
        "b": [*TABLE["LOSER"], *TIED_NAMES[:, 1]],
        "winner": ["a"] * N_PAIRS + ["tie"] * 3,
        "count": [*WEIGHT, 2.0, 1.0, 4.0],
    }
)


@pytest.mark.parametrize(
    "ranker", [RankRLS(), RankRLSCV(), LinearRankRLS(), KPCRank(4), KPCRankCV()], ids=repr
)
def test_ties_are_preferences_of_no_difference_or_left_out(ranker):
    """[PTA09]: an edge whose target is 0."""
    level = np.array([[0, 5], [3, 7], [20, 14]])
    kept = clone(ranker).set_params(ties="keep").fit(ITEMS, pairs=WITH_TIES)
    plain = clone(ranker).fit(
        X,
        pairs=np.vstack([PAIRS, level]),
        pair_weight=np.append(WEIGHT, [2.0, 1.0, 4.0]),
        pair_margin=np.append(np.ones(N_PAIRS), np.zeros(3)),
    )
    np.testing.assert_allclose(kept.predict(ITEMS), plain.predict(X), rtol=1e-8, atol=1e-10)
    dropped = clone(ranker).fit(ITEMS, pairs=WITH_TIES)
    without = clone(ranker).fit(ITEMS, pairs=TABLE)
    np.testing.assert_allclose(dropped.predict(ITEMS), without.predict(ITEMS), rtol=1e-10)
    assert kept.score(ITEMS, pairs=WITH_TIES) == kept.score(ITEMS, pairs=TABLE)


def test_ties_pull_scores_together():
    gaps = [
        np.ptp(RankRLS(ties=ties).fit(ITEMS, pairs=WITH_TIES).predict(ITEMS)[[20, 14]])
        for ties in ("keep", "drop")
    ]
    assert gaps[0] < gaps[1]


def test_held_out_ties_are_not_judged():
    rng = np.random.default_rng(1)
    leads, margin = rng.normal(size=(3, 8)), np.array([1.0, 0.0, 2.0, 0.0, 1.0, 1.0, 0.5, 0.0])
    pairs = np.column_stack([np.arange(8), np.arange(8) + 1])
    values = []
    for rows in (np.arange(8), np.flatnonzero(margin)):
        data = TrainingData.of(9, pairs=pairs[rows], pair_margin=margin[rows])
        path = judge_comparisons(
            leads[:, rows], data, np.zeros(3), as_measure("disagreement"), np.arange(3.0)
        )
        values.append((path.values, path.standard_errors))
    np.testing.assert_allclose(*values)


def test_kept_ties_need_the_cost_of_magnitudes():
    with pytest.raises(InvalidInputError, match="ties='keep' is defined only for cost='magnitude'"):
        RankRLS(ties="keep", cost="unit").fit(ITEMS, pairs=WITH_TIES)


def test_ties_alone_teach_nothing():
    only = WITH_TIES[WITH_TIES["winner"] == "tie"]
    with pytest.raises(ValueError, match="at least one"):
        RankRLS(ties="keep").fit(ITEMS, pairs=only)


def test_a_number_has_no_rows_to_compare():
    with pytest.raises(InvalidInputError, match="`X` must have rows that are compared: got float"):
        RankRLS().fit(0.5, pairs=[[1, 2], [3]])
