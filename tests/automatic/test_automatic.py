"""Rankers that choose by themselves: raw data in, one file, honest numbers."""

import signal
import subprocess
import sys
from dataclasses import replace

import numpy as np
import pandas as pd
import pytest
import scipy.optimize
import scipy.stats
from sklearn.base import clone

import rankwise
from rankwise import (
    AutoRanker,
    InvalidInputError,
    RankerEntry,
    RankerLeaderboard,
    SearchRanker,
    evaluate,
    parse_measure,
)
from rankwise.automatic import auto_ranker, families
from rankwise.automatic import board as board_module
from rankwise.automatic.board import (
    LEAST_WEIGHT,
    Board,
    Tried,
    least_squares_shares,
    likelihood_shares,
)
from rankwise.automatic.families import FAMILIES, SettingsPath, Trial
from rankwise.automatic.sum_of_rankers import crosses_of, fit_preparation, prepared_without
from rankwise.core.errors import MissingExtraError
from rankwise.core.queries import Queries, TrainingData
from rankwise.rankers.dorm.cutting_planes import _ColumnGeneration
from rankwise.rankers.svm.newton import NewtonDescent
from rankwise.rankers.trees import boosted_ranker
from rankwise.selection.holdouts import Folds

MEASURE = "NDCG @ 5"


def drawn(n_queries=30, seed=0, raw=False):
    """Draw queries whose grades depend on features relative to their query."""
    rng = np.random.default_rng(seed)
    qid = np.repeat(np.arange(n_queries), 8)
    X = rng.uniform(size=(len(qid), 4))
    signal = 2.0 * X[:, 0] + np.abs(X[:, 1] - 0.5) + 0.1 * rng.normal(size=len(qid))
    y = np.digitize(signal, np.quantile(signal, [0.4, 0.8])).astype(float)
    if raw:  # each query and feature with an offset and a scale of its own
        X = X * 10.0 ** np.array([3, -3, 0, 1]) * (1 + qid[:, None]) + 100.0 * qid[:, None]
    return X, y, qid


def as_table(X, y, seed=0):
    """Turn one feature into text and blank some others."""
    rng = np.random.default_rng(seed)
    table = X.astype(object)
    table[:, 3] = np.where(y > 1, "good", "poor")
    table[rng.random(len(X)) < 0.1, 0] = None
    return table


def drawn_for_users(seed, n_queries=150):
    """Draw queries in which a text that is constant in each decides what a feature means."""
    rng = np.random.default_rng(seed)
    qid = np.repeat(np.arange(n_queries), 8)
    x, user = rng.normal(size=len(qid)), rng.integers(4, size=n_queries)[qid]
    likes = np.where(user % 2 == 0, x, -x) + 0.2 * rng.normal(size=len(qid))
    table = np.column_stack([x.astype(object), np.array(["a", "b", "c", "d"], object)[user]])
    return table, np.digitize(likes, [0.0, 1.0]).astype(float), qid


@pytest.mark.parametrize("seed", range(3))
def test_text_that_is_constant_in_queries_is_used_by_trees_and_judged_honestly(seed):
    X, y, qid = drawn_for_users(seed)
    ranker = AutoRanker(MEASURE, time_budget=None).fit(X, y, qid=qid)
    fresh = drawn_for_users(seed + 10)
    scores = ranker.predict(fresh[0], qid=fresh[2])
    value = evaluate(fresh[1], scores, fresh[2], MEASURE).mean[0]
    assert value > 0.9  # 0.7 without the text
    assert abs(value - ranker.honest_value_.value) < 0.05
    assert "trees" in ranker.leaderboard_.entries[1].name


def drawn_with_rare_categories(seed, strength, n_queries=60, n_columns=6):
    """Draw queries of text only, whose many categories have effects of some strength."""
    effects = np.random.default_rng(99).normal(size=(n_columns, 60))
    rng = np.random.default_rng(seed)
    qid = np.repeat(np.arange(n_queries), 6)
    names = rng.integers(60, size=(len(qid), n_columns))
    y = strength * effects[np.arange(n_columns), names].sum(axis=1) + rng.normal(size=len(qid))
    return np.char.add("c", names.astype(str)).astype(object), y, qid


def honest_and_test_value(seed, strength, n_queries=60):
    X, y, qid = drawn_with_rare_categories(seed, strength, n_queries)
    ranker = AutoRanker("Concordance", time_budget=None).fit(X, y, qid=qid)
    fresh = drawn_with_rare_categories(1000 + seed, strength, n_queries=200)
    scores = ranker.predict(fresh[0], qid=fresh[2])
    return ranker.honest_value_, evaluate(fresh[1], scores, fresh[2], "Concordance").mean[0]


def test_without_signal_the_honest_value_of_rare_categories_covers_chance():
    found = [honest_and_test_value(seed, 0.0)[0] for seed in range(100, 120)]
    assert sum(honest.low < 0.5 < honest.high for honest in found) >= 17
    assert abs(np.mean([honest.value for honest in found]) - 0.5) < 0.015


def test_with_signal_the_honest_value_of_rare_categories_is_not_too_high():
    """It may be a little too low, since a third of the data is held out."""
    found = [honest_and_test_value(seed, 0.5, n_queries=400) for seed in range(6)]
    assert all(honest.low < test for honest, test in found)
    assert -0.03 < np.mean([honest.value - test for honest, test in found]) < 0.01


def test_rows_of_a_fold_are_prepared_without_its_scores():
    X, y, qid = drawn_with_rare_categories(0, 1.0)
    data = TrainingData.of(len(y), y, qid)
    folds = Folds.random(3, data.queries.index, np.random.default_rng(0))
    steps, _ = fit_preparation(X, data)
    found = prepared_without(steps, X, data, folds)
    for fold in range(3):
        changed = TrainingData.of(len(y), np.where(folds.fold == fold, -y, y), qid)
        again = prepared_without(steps, X, changed, folds)
        np.testing.assert_array_equal(again[fold], found[fold])
        assert not np.array_equal(again[fold - 1], found[fold - 1])
    # crosses and frequencies too
    X, y, qid = drawn_with_crosses(30, seed=0)
    data = TrainingData.of(len(y), y, qid)
    folds = Folds.random(3, data.queries.index, np.random.default_rng(0))
    steps, _ = fit_preparation(X, data, crosses=True)
    assert list(crosses_of(steps)) == [2, 3, 4]
    found = prepared_without(steps, X, data, folds)
    for fold in range(3):
        out = folds.fold == fold
        changed = TrainingData.of(len(y), np.where(out, -y, y), qid)
        np.testing.assert_array_equal(prepared_without(steps, X, changed, folds)[fold], found[fold])
        share = [np.mean(X[~out, 0] == value) for value in X[out, 0]]
        np.testing.assert_allclose(found[fold][out, 3], share)
    numbers = np.random.default_rng(0).normal(size=(len(y), 2))
    assert prepared_without(fit_preparation(numbers, data)[0], numbers, data, folds) == []


@pytest.fixture(params=[SearchRanker(MEASURE, basis=50), AutoRanker(MEASURE, time_budget=1e-6)],
                ids=["SearchRanker", "AutoRanker"])  # fmt: skip
def ranker(request):
    return clone(request.param)


def test_scales_of_queries_make_no_difference(ranker):
    X, y, qid = drawn()
    rough = drawn(raw=True)[0]
    smooth_scores = ranker.fit(X, y, qid=qid).predict(X, qid=qid)
    np.testing.assert_allclose(
        ranker.fit(rough, y, qid=qid).predict(rough, qid=qid), smooth_scores, atol=1e-5
    )


def test_tables_with_text_and_blanks_are_one_file(ranker, tmp_path):
    X, y, qid = drawn()
    table = as_table(X, y)
    ranker.fit(table, y, qid=qid)
    assert ranker.score(table, y, qid=qid) > 0.8
    ranker.save(tmp_path / "model")
    loaded = rankwise.load(tmp_path / "model")
    fresh = drawn(seed=1)
    rows = as_table(fresh[0], fresh[1], seed=1)
    np.testing.assert_array_equal(
        loaded.predict(rows, qid=fresh[2]), ranker.predict(rows, qid=fresh[2])
    )
    with pytest.raises(InvalidInputError, match="compares the rows"):
        loaded.predict(rows)


def test_held_out_value_of_the_recipe_is_that_of_its_held_out_scores():
    X, y, qid = drawn()
    ranker = SearchRanker(MEASURE, basis=50).fit(X, y, qid=qid)
    value = evaluate(y, ranker.held_out_scores_, qid, MEASURE).mean[0]
    assert ranker.held_out_value_ == pytest.approx(value)
    fresh = drawn(seed=1)
    test = evaluate(fresh[1], ranker.predict(fresh[0], qid=fresh[2]), fresh[2], MEASURE).mean[0]
    assert abs(test - value) < 0.1


def test_large_sparse_rows_are_refused():
    from scipy.sparse import csr_array

    rows = csr_array((1000, 1_000_000))  # 8 GB as a dense array
    with pytest.raises(InvalidInputError, match="makes features dense"):
        SearchRanker().fit(rows, np.arange(1000) % 2)


@pytest.fixture(scope="module")
def searched():
    X, y, qid = drawn(n_queries=40)
    return AutoRanker(MEASURE, cv=3, time_budget=None).fit(X, y, qid=qid)


def test_all_families_are_tried_and_weighed(searched):
    board = searched.leaderboard_
    assert board.entries[0].name == "sum"
    assert {entry.name for entry in board.entries[1:]} == {family.name for family in FAMILIES}
    assert all(not entry.note for entry in board.entries)
    values = [entry.value for entry in board.entries[1:]]
    assert values == sorted(values, reverse=True)
    assert sum(entry.weight for entry in board.entries) == pytest.approx(1.0)
    assert all(entry.low <= entry.value <= entry.high for entry in board.entries)
    assert all(0.0 <= entry.pvalue <= 1.0 for entry in board.entries)
    used = [entry for entry in board.entries if entry.weight > 0]
    assert len(used) == len(searched.members_)
    assert searched.ending_reason_ == "done"
    report = searched.report()
    assert "unseen queries" in report
    assert "All families were tried." in report


def test_the_honest_value_is_that_of_all_queries_and_holds_on_new_ones(searched):
    honest = searched.honest_value_
    assert honest.n_queries == 40
    assert honest.low <= honest.value <= honest.high
    fresh = drawn(seed=9, n_queries=100)
    scores = searched.predict(fresh[0], qid=fresh[2])
    value = evaluate(fresh[1], scores, fresh[2], MEASURE).mean[0]
    assert abs(value - honest.value) < 0.1


def test_the_best_feature_by_itself_is_named():
    X, y, qid = drawn(n_queries=20)
    X = X.copy()
    X[:, 1] = -y - 0.3 * X[:, 0]
    frame = pd.DataFrame(X, columns=[f"f{j}" for j in range(X.shape[1])])
    ranker = AutoRanker(MEASURE, time_budget=1e-6).fit(frame, y, qid=qid)
    columns = {f"f{j}": X[:, j] for j in range(X.shape[1])}
    alone = columns | {f"{name}, lowest first": -x for name, x in columns.items()}
    values = {name: evaluate(y, x, qid, MEASURE).mean[0] for name, x in alone.items()}
    best = ranker.best_feature_
    assert best.name == max(values, key=values.get) == "f1, lowest first"
    assert best.value == pytest.approx(values[best.name])
    assert 0.0 <= best.pvalue <= 1.0
    assert "The best feature by itself, f1, lowest first" in ranker.report()
    ranker.feature_names_in_ = np.array(["a", "b", *"cdefghij"][: X.shape[1]], dtype=object)
    assert ranker.best_feature_.name == "b, lowest first"  # named after a file was read


def test_measures_that_are_better_when_small_are_shown_as_they_are():
    X, y, qid = drawn(n_queries=20)
    ranker = AutoRanker("ERU", time_budget=1e-6).fit(X, y, qid=qid)
    lower = AutoRanker("Disagreement", time_budget=1e-6).fit(X, y, qid=qid)
    assert ranker.honest_value_.value > 0.0
    assert 0.0 <= lower.honest_value_.low <= lower.honest_value_.value <= 0.5


def test_intervals_end_where_the_best_order_does():
    rng = np.random.default_rng(0)
    X, y = rng.normal(size=(20, 2)), np.arange(20) % 2 * 1.0
    honest = AutoRanker("NDCG @ 10", time_budget=1e-6).fit(X, y).honest_value_
    assert honest.n_queries < 10
    assert 0.0 <= honest.low < honest.value < honest.high == 1.0


def test_two_items_are_too_few_to_hold_one_out():
    with pytest.raises(InvalidInputError, match="at least 3 items to hold one out: got 2"):
        AutoRanker().fit([[0.5], [0.1]], [1.0, 0.0])


def test_one_global_ranking_is_held_out_by_items():
    X, y, _ = drawn(n_queries=15)
    ranker = AutoRanker("Concordance", time_budget=None).fit(X, y)
    assert ranker.honest_value_.n_queries == 10
    assert 0.7 < ranker.honest_value_.value <= 1.0
    assert ranker.score(X, y) > 0.8


def test_without_lightgbm_trees_are_left_out_and_it_is_said(monkeypatch):
    def missing():
        raise MissingExtraError("BoostedRanker", "lightgbm", "trees")

    monkeypatch.setattr(boosted_ranker, "_lightgbm", missing)
    X, y, qid = drawn(n_queries=20)
    ranker = AutoRanker(MEASURE, time_budget=None).fit(X, y, qid=qid)
    notes = {entry.name: entry.note for entry in ranker.leaderboard_.entries if entry.note}
    assert set(notes) == {"RankRLS trees with ranks", "lambdarank trees with ranks"}
    assert all('pip install "rankwise[trees]"' in note for note in notes.values())
    assert 'pip install "rankwise[trees]"' in ranker.report()


def test_noise_has_no_value_beyond_chance():
    rng = np.random.default_rng(0)
    qid = np.repeat(np.arange(100), 6)
    X, y = rng.normal(size=(600, 3)), rng.integers(2, size=600)
    ranker = AutoRanker("Concordance", time_budget=0.5).fit(X, y, qid=qid)
    assert ranker.honest_value_.low < 0.5 < ranker.honest_value_.high


def test_the_same_random_state_gives_the_same_ranker(ranker):
    X, y, qid = drawn()
    first = ranker.fit(X, y, qid=qid).predict(X, qid=qid)
    np.testing.assert_array_equal(ranker.fit(X, y, qid=qid).predict(X, qid=qid), first)


def test_time_ends_the_search_after_the_first_family():
    X, y, qid = drawn()
    ranker = AutoRanker(MEASURE, time_budget=1e-6).fit(X, y, qid=qid)
    assert len(ranker.leaderboard_.entries) == 2
    assert ranker.ending_reason_ == "time"
    assert "time budget" in ranker.report()


def test_a_callback_or_ctrl_c_keeps_the_best_so_far(monkeypatch):
    X, y, qid = drawn()
    ranker = AutoRanker(MEASURE, progress=lambda step: step.iteration == 2).fit(X, y, qid=qid)
    assert len(ranker.leaderboard_.entries) == 3
    assert ranker.ending_reason_ == "callback"

    def interrupt(step):
        assert ("best so far" in step.label) == (step.iteration > 0)
        if step.iteration == 4:
            monkeypatch.setattr(
                families.RankSVM, "fit_path", lambda *_, **__: signal.raise_signal(signal.SIGINT)
            )

    ranker = AutoRanker(MEASURE, progress=interrupt).fit(X, y, qid=qid)
    assert ranker.ending_reason_ == "interrupted"
    assert len(ranker.leaderboard_.entries) == 5


@pytest.mark.parametrize(
    ("name", "solver", "method"),
    [
        ("RankSVM", NewtonDescent, "run"),
        ("linear DORM", _ColumnGeneration, "make_pass"),
        ("Gaussian DORM", _ColumnGeneration, "make_pass"),
    ],
)
def test_ctrl_c_inside_a_solver_ends_the_search(monkeypatch, name, solver, method):
    """Solvers keep their best point at Ctrl-C, and the search must not take it for a result."""

    def interrupt(*_, **__):
        raise KeyboardInterrupt

    def watch(step):
        if step.label.endswith(f"trying {name}"):
            monkeypatch.setattr(solver, method, interrupt)
        elif "fitting the best" in step.label:
            monkeypatch.undo()

    X, y, qid = drawn(n_queries=15)
    ranker = AutoRanker(MEASURE, time_budget=None, progress=watch).fit(X, y, qid=qid)
    assert ranker.ending_reason_ == "interrupted"
    names = [family.name for family in FAMILIES]
    tried = {entry.name for entry in ranker.leaderboard_.entries} - {"sum"}
    assert tried == set(names[: names.index(name)])
    assert ranker.predict(X, qid=qid).shape == y.shape


def test_trees_are_tried_directly_after_the_first_linear_family():
    assert [family.name for family in FAMILIES[:2]] == [
        "linear RankRLS",
        "RankRLS trees with ranks",
    ]
    X, y, qid = drawn()
    ranker = AutoRanker(MEASURE, progress=lambda step: step.iteration == 2).fit(X, y, qid=qid)
    names = [entry.name for entry in ranker.leaderboard_.entries]
    assert "RankRLS trees with ranks" in names


def test_families_that_need_too_much_memory_are_named():
    X, y, qid = drawn()
    ranker = AutoRanker(MEASURE, memory=1_000_000, time_budget=None).fit(X, y, qid=qid)
    notes = [entry for entry in ranker.leaderboard_.entries if entry.note]
    assert notes
    assert all("needs" in entry.note for entry in notes)
    assert "not tried" in str(ranker.leaderboard_)
    with pytest.raises(InvalidInputError, match="At least one family must suit"):
        AutoRanker(MEASURE, memory=1).fit(X, y, qid=qid)


def test_few_queries_leave_none_aside():
    X, y, qid = drawn(n_queries=5)
    ranker = AutoRanker(MEASURE, time_budget=1e-6).fit(X, y, qid=qid)
    assert ranker.honest_value_.n_queries == 0
    assert "too few queries" in str(ranker.honest_value_)
    with pytest.raises(InvalidInputError, match="at least 2 queries"):
        AutoRanker(MEASURE).fit(X, y, qid=np.zeros(len(y)))


def test_parameters_are_checked():
    X, y, qid = drawn(n_queries=5)
    for options, message in (
        ({"time_budget": -1}, "`time_budget` must be"),
        ({"memory": 0}, "`memory` must be"),
        ({"cv": 0}, "`cv` must be"),
    ):
        with pytest.raises(InvalidInputError, match=message):
            AutoRanker(MEASURE, **options).fit(X, y, qid=qid)
    with pytest.raises(InvalidInputError, match="`basis` must be"):
        SearchRanker(basis=0).fit(X, y, qid=qid)


def board_of(y, qid, scores):
    """Return a board with a family for each score vector."""
    data, queries = TrainingData.of(len(y), y, qid), Queries.from_qid(qid)
    folds = Folds.random(3, queries.index, np.random.default_rng(0))
    trial = Trial(np.zeros((len(y), 1)), data, folds, queries, parse_measure("Concordance"), 0, 0.0)
    tried = [
        Tried(family, 1.0, (SettingsPath(path, None),), (trial.values(path),))
        for family, path in zip(FAMILIES, scores, strict=False)
    ]
    return Board(trial, tried)


def test_families_are_weighed_by_likelihood_and_by_least_squares():
    rng = np.random.default_rng(0)
    qid = np.repeat(np.arange(50), 6)
    y = rng.normal(size=300)
    one, two = (y + 2.0 * rng.normal(size=300) for _ in range(2))
    noise = rng.normal(size=300)
    board = board_of(y, qid, [path[None] for path in (100.0 * one, two, noise)])
    choice = board.choice()
    assert choice.shares.sum() == pytest.approx(1.0)
    # the likelihood that the deficit to the best family is 0, by its t-value
    means = choice.values[:2].mean(axis=1)
    best, other = np.argmax(means), np.argmin(means)
    deficit = choice.values[best] - choice.values[other]
    t = deficit.mean() / (deficit.std() / np.sqrt(50))
    likely = np.zeros(3)
    likely[[best, other]] = np.array([1.0, np.exp(-0.5 * t**2)]) / (1.0 + np.exp(-0.5 * t**2))
    # the squares of the scores less the means of their queries
    queries = Queries.from_qid(qid)
    inside = [s - queries.spread(queries.mean(s)) for s in (*choice.parts, y)]
    squares = scipy.optimize.nnls(np.stack(inside[:-1], axis=1), inside[-1])[0]
    expected = (likely + squares / squares.sum()) / 2.0
    expected[expected < LEAST_WEIGHT * expected.max()] = 0.0
    np.testing.assert_allclose(choice.shares, expected / expected.sum(), atol=1e-9)
    entries = board.leaderboard(choice).entries
    assert entries[0].value > max(entry.value for entry in entries[1:])


def test_families_that_only_help_together_are_both_used():
    """A likelihood alone gives all to the better one as queries grow."""
    rng = np.random.default_rng(0)
    qid = np.repeat(np.arange(2000), 5)
    parts = rng.normal(size=(2, len(qid)))
    board = board_of(1.5 * parts[0] + parts[1], qid, parts[:, None])
    choice = board.choice()
    assert likelihood_shares(choice.values, board.trial.query_weight)[1] == 0.0
    assert choice.shares[1] > 0.1
    assert board.leaderboard(choice).entries[0].value > choice.values.mean(axis=1).max() + 0.05


def test_scores_that_help_nowhere_share_alike():
    shares = least_squares_shares(np.zeros((2, 4)), np.array([1.0, -1.0, 2.0, -2.0]))
    np.testing.assert_array_equal(shares, [0.5, 0.5])


def test_the_honest_value_of_settings_chosen_among_noise_is_chance():
    rng = np.random.default_rng(1)
    qid = np.repeat(np.arange(60), 5)
    y = rng.normal(size=300)
    board = board_of(y, qid, [rng.normal(size=(60, 300)) for _ in range(3)])
    honest = board.honest_value(board.unseen_values())
    flattered = board.leaderboard(board.choice()).entries[1].value
    assert honest.n_queries == 60
    assert honest.low < 0.5 < honest.high
    assert flattered > honest.value


def test_the_choice_for_a_fold_does_not_depend_on_its_queries():
    rng = np.random.default_rng(2)
    qid = np.repeat(np.arange(30), 5)
    y = rng.normal(size=150)
    paths = [y + rng.normal(size=(4, 150)) for _ in range(3)]
    board = board_of(y, qid, paths)
    out = board.trial.folds.fold == 0
    weight = np.ones(30)
    weight[qid[out]] = 0.0
    changed = board_of(y, qid, [np.where(out, rng.normal(size=path.shape), path) for path in paths])
    before, after = board.choice(weight), changed.choice(weight)
    assert before.settings == after.settings
    np.testing.assert_array_equal(before.shares, after.shares)


MEMORY = """
import re
from pathlib import Path
import numpy as np
from rankwise import AutoRanker
from rankwise.automatic.families import FAMILIES

def most_memory(n_items):
    rng = np.random.default_rng(0)
    X = rng.normal(size=(n_items, 20))
    y = np.digitize(X[:, :3].sum(axis=1) + rng.normal(size=n_items), [1.0, 2.0])
    AutoRanker(time_budget=None, cv=3).fit(X, y, qid=np.arange(n_items) // 20)
    status = Path("/proc/self/status").read_text()  # getrusage tells of the parent's memory too
    return 1024 * int(re.search(r"VmHWM:\\s+(\\d+) kB", status)[1])

before = most_memory(400)  # with libraries and compiled code
if "{compile}" == "no":
    taken = most_memory(10_000) - before
    print(taken, max(10_000 * family.bytes_per_item(20) for family in FAMILIES))
"""


@pytest.mark.skipif(sys.platform != "linux", reason="the peak is read from Linux's /proc")
def test_no_more_memory_is_taken_than_stated():
    for compiles in ("yes", "no"):  # compiling takes memory too, and would hide what a fit takes
        command = [sys.executable, "-c", MEMORY.replace("{compile}", compiles)]
        done = subprocess.run(command, capture_output=True, check=True)
    taken, stated = map(int, done.stdout.split())
    assert 0 < taken < stated


def drawn_in_time(n_queries=80, seed=0, drift=0.0):
    """Draw queries of some dates, a few on each, whose weights drift."""
    rng = np.random.default_rng(seed)
    day = np.sort(rng.integers(n_queries // 2, size=n_queries))
    qid = np.repeat(np.arange(n_queries), 6)
    X = rng.normal(size=(len(qid), 3))
    turn = drift * day[qid] / day.max()
    signal = np.cos(turn) * X[:, 0] + np.sin(turn) * X[:, 1] + 0.3 * rng.normal(size=len(qid))
    dates = np.datetime64("2026-01-01") + day.astype("timedelta64[D]")
    return X, np.digitize(signal, [0.0, 1.0]).astype(float), qid, dates[qid]


def test_folds_in_time_learn_from_earlier_dates_only_and_keep_dates_whole():
    rng = np.random.default_rng(0)
    for n_folds in (2, 3, 5):
        groups, days = np.repeat(np.arange(40), 3), np.repeat(rng.integers(15, size=40), 3)
        folds = Folds.forward(n_folds, groups, days.astype(float))
        assert folds.n_folds == n_folds
        for day in range(15):
            assert len(set(folds.fold[days == day])) <= 1
        for k in range(n_folds):
            kept = folds.learned_from(k)
            assert days[kept].max() < days[folds.fold == k].min()
    one = Folds.forward(3, np.arange(10), np.r_[np.zeros(9), 1.0])
    assert one.fold.tolist() == [-1] * 9 + [0]
    with pytest.raises(InvalidInputError, match="at least 2 dates"):
        Folds.forward(3, np.arange(4), np.zeros(4))


@pytest.fixture
def shuffled_in_time():
    X, y, qid, dates = drawn_in_time()
    order = np.random.default_rng(5).permutation(len(y))
    return X[order], y[order], qid[order], dates[order]


@pytest.mark.filterwarnings("ignore:Features differ")
def test_what_is_held_out_in_time_does_not_depend_on_later_grades(shuffled_in_time):
    """Every family's held-out scores of a part stay the same whatever the later grades."""
    X, y, qid, dates = shuffled_in_time
    table = X.astype(object)
    table[:, 2] = np.where(X[:, 2] > 0, "up", "down")
    late = dates >= np.quantile(np.unique(dates).astype(int), 0.7).astype("datetime64[D]")
    rng = np.random.default_rng(6)
    found = []
    for grades in (y, np.where(late, rng.permutation(y), y)):
        watched = AutoRanker(MEASURE, time_budget=None)
        data = TrainingData.of(len(y), grades, qid)
        steps, rows = fit_preparation(table, data)
        trial = watched._trial(rows, data, np.inf, dates.astype(float))
        without = prepared_without(steps, table, data, trial.folds)
        trial = replace(trial, without=tuple(replace(trial, X=part) for part in without))
        found.append(watched._search(trial))
    first, second = found
    early = ~late[first.trial.judged_rows]
    assert early.sum() > 20
    for one, other in zip(first.known, second.known, strict=True):
        for path, again in zip(one.paths, other.paths, strict=True):
            n = min(len(path.scores), len(again.scores))  # trees end by the value of all parts
            np.testing.assert_allclose(path.scores[:n, early], again.scores[:n, early], atol=1e-9)


def test_the_honest_value_in_time_is_of_later_queries_than_chose(shuffled_in_time):
    X, y, qid, dates = shuffled_in_time
    ranker = AutoRanker(MEASURE, time_budget=1e-6, cv=3).fit(X, y, qid=qid, time=dates)
    honest = ranker.honest_value_
    assert honest.unit == "later queries"
    assert 30 < honest.n_queries < 50  # two of four parts of 80 queries
    assert "unseen later queries" in ranker.report()
    assert "later queries than were learned from" in ranker.report()
    frame = pd.DataFrame(X, columns=["a", "b", "c"]).assign(q=qid, day=dates, y=y)
    same = AutoRanker(MEASURE, time_budget=1e-6, cv=3).fit(frame, "y", qid="q", time="day")
    assert same.honest_value_ == honest
    assert list(same.feature_names_in_) == ["a", "b", "c"]
    words = AutoRanker(MEASURE, time_budget=1e-6, cv=3).fit(X, y, qid=qid, time=dates.astype(str))
    assert words.honest_value_ == honest


def test_where_tastes_drift_random_folds_flatter_and_folds_in_time_do_not():
    X, y, qid, dates = drawn_in_time(400, drift=np.pi)
    later = drawn_in_time(400, seed=1, drift=np.pi)
    new = later[3] >= np.quantile(later[3].astype(int), 0.9).astype("datetime64[D]")
    known = dates < np.quantile(dates.astype(int), 0.75).astype("datetime64[D]")
    options = {"measure": MEASURE, "time_budget": 1e-6, "cv": 5}
    data = X[known], y[known], qid[known]
    random = AutoRanker(**options).fit(*data)
    in_time = AutoRanker(**options).fit(*data, time=dates[known])
    scores = in_time.predict(later[0][new], qid=later[2][new])
    value = evaluate(later[1][new], scores, later[2][new], MEASURE).mean[0]
    honest = in_time.honest_value_.value
    assert value < honest < random.honest_value_.value
    assert abs(value - honest) < abs(value - random.honest_value_.value)


def test_dates_that_are_not_used_are_named(shuffled_in_time):
    X, y, qid, dates = shuffled_in_time
    frame = pd.DataFrame(X, columns=["a", "b", "c"]).assign(q=qid, day=dates.astype(str), y=y)
    ranker = AutoRanker(MEASURE, time_budget=1e-6).fit(frame, "y", qid="q")
    assert "The column day holds dates" in ranker.report()
    for wrong, message in (
        (dates[:-1], "one entry per row"),
        (np.full(len(y), "x"), "`time` must"),
    ):
        with pytest.raises(InvalidInputError, match=message):
            AutoRanker(MEASURE).fit(X, y, qid=qid, time=wrong)


def test_the_machine_s_other_work_does_not_end_the_search(monkeypatch):
    """The budget counts the computing of this thread, so that a busy machine gives the same."""
    ticks = iter(range(0, 10**9, 10**4))
    monkeypatch.setattr("time.perf_counter", lambda: float(next(ticks)))
    X, y, qid = drawn(n_queries=15)
    assert AutoRanker(MEASURE, time_budget=1000).fit(X, y, qid=qid).ending_reason_ == "done"


def interrupted_at(monkeypatch, name):
    """Fit with Ctrl-C in the fit to all data of a family."""
    X, y, qid = drawn(n_queries=25)

    original, pressed = Board.fitted, []

    def once(fit):
        def interrupted(setting):
            if not pressed:
                pressed.append(1)
                raise KeyboardInterrupt
            return fit(setting)

        return interrupted

    def fitted(board, choice):
        for entry in board.known:
            for path in entry.paths if entry.family.name == name and not pressed else ():
                object.__setattr__(path, "fit", once(path.fit))
        return original(board, choice)

    monkeypatch.setattr(Board, "fitted", fitted)
    ranker = AutoRanker(MEASURE, time_budget=None, progress=lambda step: step.iteration == 6)
    ranker.fit(X, y, qid=qid)
    return ranker, X, qid


def test_ctrl_c_in_the_last_fits_keeps_what_is_fitted(monkeypatch):
    X, y, qid = drawn(n_queries=25)
    whole = AutoRanker(MEASURE, time_budget=None, progress=lambda step: step.iteration == 6)
    whole.fit(X, y, qid=qid)
    used = [entry.name for entry in whole.leaderboard_.entries if entry.weight > 0.0]
    for name in used:
        ranker, X, qid = interrupted_at(monkeypatch, name)
        monkeypatch.undo()
        assert ranker.ending_reason_ == "interrupted"
        entries = {entry.name: entry for entry in ranker.leaderboard_.entries}
        assert len(ranker.members_) >= 1
        assert all(not entry.note for entry in entries.values() if entry.weight > 0.0)
        assert sum(entry.weight for entry in entries.values()) == pytest.approx(1.0)
        assert ranker.honest_value_.n_queries == 25
        assert ranker.predict(X, qid=qid).shape == (len(X),)
        assert "Ctrl-C ended the search" in ranker.report()


@pytest.mark.parametrize("stage", ["leaderboard", "unseen_values", "best_column", "choice"])
def test_ctrl_c_after_the_search_keeps_the_ranker(monkeypatch, stage):
    original, calls = getattr(Board, stage), []

    def once(board, *given):
        if not calls:
            calls.append(1)
            raise KeyboardInterrupt
        return original(board, *given)

    monkeypatch.setattr(Board, stage, once)
    X, y, qid = drawn(n_queries=15)
    ranker = AutoRanker(MEASURE, time_budget=None, progress=lambda step: step.iteration == 3)
    ranker.fit(X, y, qid=qid)
    assert ranker.ending_reason_ == "interrupted"
    assert ranker.predict(X, qid=qid).shape == y.shape


@pytest.mark.filterwarnings("ignore:Stopped by Ctrl-C")
def test_ctrl_c_in_the_last_trees_is_not_taken_for_an_ending():
    def interrupt(*_, **__):
        raise KeyboardInterrupt

    X, y, qid = drawn(n_queries=25)
    data = TrainingData.of(len(y), y, qid)
    problem = boosted_ranker.TreeProblem.of(X, data, max_bins=63)
    ranker = rankwise.BoostedRanker(early_stopping=False, n_trees=5, random_state=0)
    ranker.set_params(progress=lambda step: interrupt() if step.iteration == 3 else None)
    with pytest.raises(KeyboardInterrupt):
        boosted_ranker.fit_to_problem(ranker, problem)


def test_an_item_never_rises_when_a_monotone_feature_does(tmp_path):
    X, y, qid = drawn(n_queries=40)
    names = ["price", "size", "age", "kind"]
    frame = pd.DataFrame(X, columns=names)
    # grades rise with the price here and there; the order must not
    options = {"measure": MEASURE, "time_budget": None}
    ranker = AutoRanker(monotone={"price": -1}, **options).fit(frame, y, qid=qid)
    tried = {entry.name for entry in ranker.leaderboard_.entries if not entry.note}
    assert tried == {"sum", "RankRLS trees with ranks", "lambdarank trees with ranks"}
    ranker.save(tmp_path / "model")
    loaded = rankwise.load(tmp_path / "model")
    assert loaded.monotone == {"price": -1}
    one = frame[qid == 0]
    places = []
    for price in np.linspace(-0.5, 1.5, 30):
        changed = one.copy()
        changed.iloc[2, 0] = price
        scores = loaded.predict(changed, qid=np.zeros(len(one)))
        places.append(np.count_nonzero(scores > scores[2]))
    assert np.all(np.diff(places) >= 0)
    table = as_table(X, y)
    with pytest.raises(InvalidInputError, match="feature 3 holds text"):
        AutoRanker(monotone={3: 1}, **options).fit(table, y, qid=qid)


def drawn_with_crosses(n_queries, seed):
    """Draw queries in which pairs of categories decide, the second constant in each query."""
    effects = np.random.default_rng(7).normal(size=(20, 3))
    rng = np.random.default_rng(seed)
    qid = np.repeat(np.arange(n_queries), 6)
    a, b = rng.integers(20, size=len(qid)), rng.integers(3, size=n_queries)[qid]
    signal = effects[a, b] + 0.3 * rng.normal(size=len(qid))
    table = np.column_stack([np.char.add("j", a.astype(str)), np.char.add("g", b.astype(str))])
    return table.astype(object), np.digitize(signal, [0.0, 1.0]).astype(float), qid


def test_crosses_of_categories_are_used_where_held_out_queries_gain(tmp_path):
    X, y, qid = drawn_with_crosses(150, seed=0)
    ranker = AutoRanker(MEASURE, cv=3, time_budget=None).fit(X, y, qid=qid)
    assert ranker.best_feature_.name == "feature 0 and feature 1"
    fresh = drawn_with_crosses(200, seed=1)
    value = evaluate(fresh[1], ranker.predict(fresh[0], qid=fresh[2]), fresh[2], MEASURE).mean[0]
    alone = SearchRanker(MEASURE).fit(X, y, qid=qid).predict(fresh[0], qid=fresh[2])
    assert value > evaluate(fresh[1], alone, fresh[2], MEASURE).mean[0] + 0.05
    assert abs(ranker.honest_value_.value - value) < 0.05
    ranker.save(tmp_path / "model")
    again = rankwise.load(tmp_path / "model").predict(fresh[0], qid=fresh[2])
    np.testing.assert_array_equal(again, ranker.predict(fresh[0], qid=fresh[2]))


def test_a_single_feature_is_a_family_with_a_direction():
    X, y, qid = drawn(n_queries=20)
    X = X.copy()
    X[:, 1] = -y - 0.01 * X[:, 0]
    data = TrainingData.of(len(y), y, qid)
    trial = AutoRanker(MEASURE, cv=3)._trial(X, data, np.inf)
    paths = families._single(trial)
    values = [trial.values(path.scores).mean(axis=1) for path in paths]
    assert int(np.argmax(values[1])) == 1
    assert values[1][1] == values[1].max() > values[0].max()
    member = paths[1].fit(1)
    np.testing.assert_array_equal(np.argsort(member.predict(X[:8], qid=qid[:8])),
                                  np.argsort(-X[:8, 1]))  # fmt: skip
    # neighbours among features are no neighbours on a grid
    tried = Tried(
        FAMILIES[0], 0.0, tuple(paths), tuple(map(trial.values, (p.scores for p in paths)))
    )
    assert tried.best(trial.query_weight) == (1, 1)
    wide = replace(trial, X=np.zeros((len(y), 1 + families.MANY_CELLS // len(y))))
    with pytest.raises(InvalidInputError, match="to look at one by one"):
        families._single(wide)


def test_the_value_of_each_feature_by_itself_is_that_of_its_order(monkeypatch):
    X, y, qid = drawn(n_queries=20)
    X = np.round(X, 1)  # with ties
    trial = AutoRanker(MEASURE, cv=3)._trial(X, TrainingData.of(len(y), y, qid), np.inf)
    monkeypatch.setattr(families, "BLOCK_CELLS", len(y) + 1)  # feature by feature
    for sign, values in zip((1.0, -1.0), trial.column_values, strict=True):
        np.testing.assert_array_equal(values, trial.values(sign * X.T))
    means = trial.column_values.mean(axis=2)
    best = trial.best_column
    assert means[int(best.is_down), best.at] == means.max() == best.value
    # the family does not work them out again
    for path, values in zip(families._single(trial), trial.column_values, strict=True):
        np.testing.assert_array_equal(path.values, values)


def test_what_learns_the_same_functions_as_a_family_far_behind_is_not_tried():
    X, y, qid = drawn(n_queries=120)
    X = X - X.mean(axis=0)
    y = np.digitize(np.abs(X[:, 1]), [0.15, 0.35]).astype(float)  # which no line ranks
    ranker = AutoRanker(MEASURE, cv=3, time_budget=None).fit(X, y, qid=qid)
    notes = {entry.name: entry.note for entry in ranker.leaderboard_.entries if entry.note}
    assert {"RankSVM", "linear DORM"} <= set(notes) <= {"RankSVM", "linear DORM", "Gaussian DORM"}
    assert "linear RankRLS is " in notes["RankSVM"]
    assert all(note.endswith("standard errors behind the best") for note in notes.values())


@pytest.mark.parametrize("kind", ["text", "again", "in time", "items"])
def test_what_few_items_are_measured_by_has_not_seen_their_grades(kind, monkeypatch):
    """Scores of held-out items stay the same whatever their grades, choices included."""
    X, y, qid = drawn(n_queries=15)
    rows = as_table(X, 0.0 * y) if kind == "text" else X
    time = qid if kind == "in time" else None
    item = np.arange(len(y)) % 97 if kind == "again" else None
    given = None if kind == "items" else qid
    found, measure = [], AutoRanker._unseen_by_repeats

    def keep(self, rows, trial, *others):
        found.append((measure(self, rows, trial, *others), trial.folds))
        return found[-1][0]

    monkeypatch.setattr(AutoRanker, "_unseen_by_repeats", keep)
    rng = np.random.default_rng(5)
    first = AutoRanker(MEASURE, time_budget=None).fit(rows, y, qid=given, time=time, folds_by=item)
    ((before, folds),) = found
    rounds = folds.merged(auto_ranker.N_REPEATS[kind != "items"]).rounds
    assert first.n_repeats_ == len(rounds) - (kind == "in time")
    kept, out = rounds[-1]
    if item is not None:
        assert not set(item[kept]) & set(item[out])
    grades = y.copy()
    grades[out] = rng.permutation(y[out])
    AutoRanker(MEASURE, time_budget=None).fit(rows, grades, qid=given, time=time, folds_by=item)
    after, _ = found[1]
    place = np.searchsorted(np.flatnonzero(folds.fold >= 0), out)
    np.testing.assert_array_equal(after[place], before[place])
    assert not np.isnan(before[place]).any()


def test_a_choice_by_few_queries_that_was_not_measured_by_itself_is_said(monkeypatch):
    X, y, qid = drawn(n_queries=15)
    ranker = AutoRanker(MEASURE, time_budget=None).fit(X, y, qid=qid)
    assert ranker.n_repeats_ == 10
    many = drawn(n_queries=30)
    assert AutoRanker(MEASURE, time_budget=None).fit(*many[:2], qid=many[2]).n_repeats_ == 5
    assert "was not repeated" not in ranker.report()
    short = AutoRanker(MEASURE, time_budget=1e-6).fit(X, y, qid=qid)
    assert short.n_repeats_ == 0
    assert "The search was not repeated without each part" in short.report()
    # Ctrl-C in a repeat keeps the ranker and what is known of it
    fits, search = [], AutoRanker._search

    def interrupted(self, trial):
        fits.append(trial)
        if len(fits) == 3:
            self.progress = lambda step: step.iteration == 1 and signal.raise_signal(signal.SIGINT)
        return search(self, trial)

    monkeypatch.setattr(AutoRanker, "_search", interrupted)
    stopped = AutoRanker(MEASURE, time_budget=None).fit(X, y, qid=qid)
    assert len(fits) == 3
    assert (stopped.n_repeats_, stopped.ending_reason_) == (0, "interrupted")
    np.testing.assert_array_equal(stopped.predict(X, qid=qid), ranker.predict(X, qid=qid))
    large = drawn(n_queries=130)
    assert AutoRanker(MEASURE, time_budget=None).fit(*large[:2], qid=large[2]).n_repeats_ == 0


def test_few_items_are_held_out_in_more_folds():
    for n_queries, n_folds in ((40, 10), (1000, 5), (2000, 3)):
        X, y, qid = drawn(n_queries=n_queries)
        trial = AutoRanker()._trial(X, TrainingData.of(len(y), y, qid), np.inf)
        assert trial.folds.n_folds == n_folds


def test_intervals_of_few_queries_are_wider():
    X, y, qid = drawn(n_queries=15)
    trial = AutoRanker(MEASURE)._trial(X, TrainingData.of(len(y), y, qid), np.inf)
    values = np.linspace(0.2, 0.8, 15)
    mean, low, high = Board(trial, [])._mean_and_interval(values)
    naive = scipy.stats.sem(values) * scipy.stats.t.ppf(0.975, 14)
    assert mean == pytest.approx(0.5)
    assert high - mean == mean - low == pytest.approx(naive * np.sqrt(2.0))


def test_large_tables_hold_a_tenth_out_once_and_try_the_quickest_families(monkeypatch, tmp_path):
    X, y, qid = drawn(n_queries=200)
    for module in (families, auto_ranker, board_module):
        monkeypatch.setattr(module, "MANY_CELLS", 1000)
    data = TrainingData.of(len(y), y, qid)
    trial = AutoRanker(MEASURE)._trial(X, data, np.inf)
    assert trial.folds.is_at_once
    assert trial.judged.n_queries == 20
    assert np.unique(trial.fold_of_query, return_counts=True)[1].tolist() == [10, 10]
    ((kept, out),) = trial.folds.rounds
    assert len(kept) + len(out) == len(y)
    assert not set(qid[kept]) & set(qid[out])
    ranker = AutoRanker(MEASURE, time_budget=None).fit(X, y, qid=qid)
    notes = {entry.name: entry.note for entry in ranker.leaderboard_.entries if entry.note}
    assert set(notes) == {family.name for family in FAMILIES if not family.is_quick}
    assert all("set `cv` to try it" in note for note in notes.values())
    honest = ranker.honest_value_
    assert honest.n_queries == 20
    fresh = drawn(seed=9, n_queries=200)
    value = evaluate(fresh[1], ranker.predict(fresh[0], qid=fresh[2]), fresh[2], MEASURE).mean[0]
    assert honest.low - 0.02 < value < honest.high + 0.02
    ranker.save(tmp_path / "model")
    again = rankwise.load(tmp_path / "model").predict(fresh[0], qid=fresh[2])
    np.testing.assert_array_equal(again, ranker.predict(fresh[0], qid=fresh[2]))
    # the trees that were held out from are kept: what they learned from does not change by others
    path = families._trees("rank_rls")(trial)[0]
    member = path.fit(2)
    scores = member.predict(X, qid=qid)
    np.testing.assert_allclose(scores[out], path.scores[2][out], rtol=1e-6, atol=1e-9)
    assert not AutoRanker(MEASURE, cv=3)._trial(X, data, np.inf).folds.is_at_once


def test_a_p_value_beyond_all_digits_is_below_a_bound():
    entries = [
        RankerEntry(name, 0.5, 0.4, 0.6, p, 0.0, 1.0) for name, p in (("sum", 1.0), ("a", 0.0))
    ]
    line = str(RankerLeaderboard("NDCG @ 10", tuple(entries))).splitlines()[-1]
    assert "< 1e-99" in line
