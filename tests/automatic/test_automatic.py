"""Rankers that choose by themselves: raw data in, one file, honest numbers."""

import signal
import subprocess
import sys

import numpy as np
import pandas as pd
import pytest
from sklearn.base import clone

import rankwise
from rankwise import AutoRanker, InvalidInputError, SearchRanker, evaluate, parse_measure
from rankwise.automatic import families
from rankwise.automatic.auto_ranker import _Board, _Tried
from rankwise.automatic.families import FAMILIES, SettingsPath, Trial
from rankwise.automatic.sum_of_rankers import fit_preparation, prepared_without
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
    found = [honest_and_test_value(seed, 0.0)[0] for seed in range(12)]
    assert sum(honest.low < 0.5 < honest.high for honest in found) >= 10
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


def test_one_global_ranking_is_held_out_by_items():
    X, y, _ = drawn(n_queries=15)
    ranker = AutoRanker("Concordance", time_budget=None).fit(X, y)
    assert ranker.honest_value_.n_queries == 3
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
        assert "best so far" in step.label
        if step.iteration == 3:
            monkeypatch.setattr(
                families.RankSVM, "fit_path", lambda *_, **__: signal.raise_signal(signal.SIGINT)
            )

    ranker = AutoRanker(MEASURE, progress=interrupt).fit(X, y, qid=qid)
    assert ranker.ending_reason_ == "interrupted"
    assert len(ranker.leaderboard_.entries) == 4


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
        _Tried(family, 1.0, (SettingsPath(path, None),), (trial.values(path),))
        for family, path in zip(FAMILIES, scores, strict=False)
    ]
    return _Board(trial, tried)


def test_families_are_weighed_by_the_evidence_that_they_are_as_good_as_the_best():
    rng = np.random.default_rng(0)
    qid = np.repeat(np.arange(50), 6)
    y = rng.normal(size=300)
    one, two = (y + 2.0 * rng.normal(size=300) for _ in range(2))
    noise = rng.normal(size=300)
    board = board_of(y, qid, [path[None] for path in (100.0 * one, two, noise)])
    choice = board.choice()
    assert choice.shares.sum() == pytest.approx(1.0)
    assert choice.shares[2] == 0.0
    means = choice.values[:2].mean(axis=1)
    best, other = np.argmax(means), np.argmin(means)
    deficit = choice.values[best] - choice.values[other]
    t = deficit.mean() / (deficit.std() / np.sqrt(50))
    weights = np.array([1.0, np.exp(-0.5 * t**2)])
    np.testing.assert_allclose(choice.shares[[best, other]], weights / weights.sum())
    entries = board.leaderboard(choice).entries
    assert entries[0].value > max(entry.value for entry in entries[1:])


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
    AutoRanker(time_budget=None).fit(X, y, qid=np.arange(n_items) // 20)
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
