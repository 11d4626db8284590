"""Propensities from clicks: recovered from simulated logs, and worth having."""

import numpy as np
import pytest

from rankwise import InvalidInputError, RankRLS, click_propensities, evaluate

LOOKED_AT = 1.0 / np.arange(1.0, 9.0)


def log(n_sessions=4000, seed=0):
    """Show eight items of forty, better ones mostly higher up, and click by the model."""
    rng = np.random.default_rng(seed)
    attractive = rng.uniform(0.1, 0.9, size=40)
    shown = np.array([rng.permutation(40)[:8] for _ in range(n_sessions)])
    noisy = attractive[shown] + 0.4 * rng.normal(size=shown.shape)
    shown = np.take_along_axis(shown, np.argsort(-noisy, axis=1), axis=1)
    position = np.tile(np.arange(8), n_sessions)
    clicked = rng.random(shown.size) < LOOKED_AT[position] * attractive[shown.ravel()]
    return position, clicked, shown.ravel()


def test_propensities_are_recovered_although_better_items_stand_higher():
    position, clicked, item = log()
    found = click_propensities(position, clicked, item)
    np.testing.assert_allclose(found, LOOKED_AT, atol=0.05)
    biased = click_propensities(position, clicked)
    assert np.abs(biased - LOOKED_AT).max() > 0.05


def test_without_items_click_rates_are_compared():
    rng = np.random.default_rng(0)
    position = rng.integers(8, size=100_000)
    clicked = rng.random(100_000) < 0.6 * LOOKED_AT[position]
    np.testing.assert_allclose(click_propensities(position, clicked), LOOKED_AT, atol=0.03)


def test_weights_recover_most_of_what_full_labels_give():
    rng = np.random.default_rng(1)
    qid = np.repeat(np.arange(300), 8)
    X = rng.normal(size=(2400, 4))
    signal = X @ [1.5, -1.0, 0.0, 0.0]
    relevant = rng.random(2400) < 1.0 / (1.0 + np.exp(-signal))
    old = X[:, 1] + 0.5 * rng.normal(size=2400)  # an earlier ranker that is wrong
    position = np.empty(2400, dtype=int)
    for q in range(300):
        rows = np.flatnonzero(qid == q)
        position[rows[np.argsort(-old[rows])]] = np.arange(8)
    clicked = relevant & (rng.random(2400) < LOOKED_AT[position])
    weight = np.where(clicked, 1.0 / LOOKED_AT[position], 1.0)
    truth = relevant.astype(int)
    values = {
        name: evaluate(truth, RankRLS().fit(X, y, qid, w).predict(X), qid, "NDCG").mean[0]
        for name, y, w in (
            ("labels", truth, None),
            ("clicks", clicked.astype(int), None),
            ("weighted", clicked.astype(int), weight),
        )
    }  # fmt: skip
    assert values["clicks"] < values["weighted"] <= values["labels"] + 1e-9
    lost, regained = values["labels"] - values["clicks"], values["weighted"] - values["clicks"]
    assert regained > 0.5 * lost


@pytest.mark.parametrize(
    ("position", "clicked", "message"),
    [
        ([0.5, 1.0], [1, 0], "`position` must hold one whole number"),
        ([-1, 0], [1, 0], "`position` must hold one whole number"),
        ([0, 1], [1], "`clicked` must have one entry"),
        ([0, 1], [1, 2], "must hold 0 and 1"),
        ([0, 1], [0, 1], "The first position must have been clicked"),
    ],
)
def test_logs_are_checked(position, clicked, message):
    with pytest.raises(InvalidInputError, match=message):
        click_propensities(position, clicked)
