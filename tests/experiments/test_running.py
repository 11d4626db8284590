"""The experiments: all of them can be found and shortened, and one runs from end to end."""

import ast
import importlib
import sys
from pathlib import Path

import numpy as np
import pytest

import reference
from problems import problem
from rankwise import Gaussian, Linear, Queries
from rankwise.measures.value import Judgements
from rankwise.rankers.dorm.losses import PositionObjective, RankingLoss
from rankwise.rankers.dorm.oracles.assignment import plan_assignments

ROOT = Path(__file__).parents[2]


@pytest.fixture
def module(monkeypatch):
    """Return what imports a module of the experiments."""
    monkeypatch.syspath_prepend(str(ROOT))
    monkeypatch.setenv("RANKWISE_QUICK", "0")
    return lambda name: importlib.import_module(f"experiments.{name}")


def constants(name):
    tree = ast.parse((ROOT / "experiments" / f"{name}.py").read_text(encoding="utf-8"))
    found = set()
    for node in tree.body:
        targets = node.targets if isinstance(node, ast.Assign) else [getattr(node, "target", None)]
        for target in targets:
            names = target.elts if isinstance(target, ast.Tuple) else [target]
            found |= {each.id for each in names if isinstance(each, ast.Name)}
    functions = {node.name for node in tree.body if isinstance(node, ast.FunctionDef)}
    return found, functions


def test_every_experiment_has_a_section_and_the_constants_that_shorten_it(module):
    main = module("__main__")
    assert set(main.QUICK) <= set(main.EXPERIMENTS)
    for name in main.EXPERIMENTS:
        found, functions = constants(name)
        assert "section" in functions, name
        assert set(main.QUICK.get(name, {})) <= found, name


def test_a_quick_run_prints_and_records_nothing(module, capsys, monkeypatch):
    main = module("__main__")
    before = main.RESULTS.read_text()
    monkeypatch.setitem(sys.modules, "experiments.small_sample_auc", module("small_sample_auc"))
    main.main(["--quick", "small_sample_auc"])
    printed = capsys.readouterr()
    assert "leave-pair-out" in printed.out
    assert "[1 of 1] small_sample_auc" in printed.err
    assert main.RESULTS.read_text() == before


def test_failures_are_told_at_the_end(module, capsys, monkeypatch):
    main = module("__main__")
    monkeypatch.setattr(main, "EXPERIMENTS", {"no_such": "a", "small_sample_auc": "b"})
    with pytest.raises(SystemExit, match="failed: no_such"):
        main.main(["--quick"])
    assert "leave-pair-out" in capsys.readouterr().out
    with pytest.raises(SystemExit, match="unknown experiments"):
        main.main(["other"])


def test_the_total_time_is_the_sum_of_those_recorded(module):
    main = module("__main__")
    results = "`a`: run on 2026-11-16 in 1.5 min; x\n`b`: run on 2026-11-17 in 20.0 min; y"
    readme = main.with_total("All experiments together: nothing.\nMore.", results)
    assert "22 minutes for the 2 that" in readme
    assert readme.endswith("recorded.\nMore.")


def test_rank_boost_learns_the_order_of_a_feature(module):
    baselines = module("baselines")
    rng = np.random.default_rng(0)
    X, qid = rng.normal(size=(300, 4)), np.repeat(np.arange(30), 10)
    y = np.digitize(X[:, 1] - 0.5 * X[:, 2] + 0.3 * rng.normal(size=300), [-0.5, 0.5])
    pairs = baselines.all_pairs(y, qid)
    assert (y[pairs[:, 0]] > y[pairs[:, 1]]).all()
    assert (qid[pairs[:, 0]] == qid[pairs[:, 1]]).all()
    errors = []
    for n_rounds in (1, 10, 100):
        scores = baselines.RankBoost(n_rounds).fit(X, y, qid).predict(X)
        lead = scores[pairs[:, 0]] - scores[pairs[:, 1]]
        errors.append(np.mean(lead < 0) + 0.5 * np.mean(lead == 0))
    assert errors[0] > errors[1] > errors[2]
    assert errors[2] < 0.12


def test_confusing_distant_grades_costs_more(module):
    costs = module("baselines").confusion_costs(np.array([2.0, 1.0, 1.0, 0.0, 0.0]))
    assert costs[0, 3] > costs[0, 1] > 0
    assert costs[0, 3] > costs[1, 3] > 0


def test_a_mean_comes_with_its_standard_error(module):
    harness = module("harness")
    assert harness.with_error([1.0, 2.0, 3.0]) == "2.00 ± 0.58"
    assert harness.with_error([1.0, np.nan, 3.0, 2.0], 1, "+") == "+2.0 ± 0.6"
    assert harness.with_error([1.0]) == "1.00 ± nan"


def graded(n_queries, rng, n_items=8):
    """Draw queries of items whose grades follow two of four features."""
    X = rng.random((n_queries * n_items, 4))
    noise = 0.2 * rng.normal(size=len(X))
    y = np.digitize(X[:, 0] + X[:, 1] + noise, [0.8, 1.3]).astype(float)
    return X, y, np.repeat(np.arange(n_queries), n_items).astype(str)


def parts_of(module, seed=0):
    rng = np.random.default_rng(seed)
    data = module("letor_data")
    drawn = [graded(12, rng) for _ in range(5)]
    return [data.Part(X, y, np.char.add(f"{k}:", qid)) for k, (X, y, qid) in enumerate(drawn)]


def test_rankers_that_choose_are_compared_on_stand_ins(module, monkeypatch, tmp_path):
    for package in ("lightgbm", "xgboost", "catboost"):
        pytest.importorskip(package)
    auto = module("auto")
    parts = parts_of(module)
    monkeypatch.setattr(auto, "read_parts", lambda _: parts)
    monkeypatch.setattr(auto, "SETS", ["MQ2008"])
    monkeypatch.setattr(auto, "N_FOLDS", 1)
    few = {name: auto.METHODS[name] for name in ("SearchRanker", "BoostedRanker, RankRLS")}
    monkeypatch.setattr(auto, "METHODS", {"AutoRanker": few["SearchRanker"], **few})
    before = (
        "## Rankers that choose by themselves\n\n### OHSUMED, LETOR 3.0\n\n| kept |\n\n`auto`: x\n"
    )
    (tmp_path / "RESULTS.md").write_text(before)
    monkeypatch.setattr(auto, "HERE", tmp_path)
    lines = auto.section().splitlines()
    same = next(line for line in lines if line.startswith("| SearchRanker"))
    assert "+0.0000 ± 0.0000" in same
    assert any("NDCG @ 10 of 12 queries" in line for line in lines)
    assert lines.index("| kept |") < lines.index("### MQ2008, LETOR 4.0")
    assert "`auto`: x" not in lines


def test_every_third_query_is_kept_whole(module):
    pytest.importorskip("lightgbm")
    pytest.importorskip("xgboost")
    pytest.importorskip("catboost")
    part = parts_of(module)[0]
    kept = module("auto").some_queries(part, 3)
    assert list(dict.fromkeys(kept.qid)) == ["0:0", "0:3", "0:6", "0:9"]
    assert len(kept.y) == 32


def test_the_learning_curves_of_dorm_on_stand_ins(module):
    curves = module("dorm_curves")
    all_folds = list(module("letor_data").folds(parts_of(module)))[:2]
    fits = {"DORM for NDCG": curves.dorm("NDCG"), "RankRLS": curves.least_squares}
    sizes, measure = (5, 30), curves.NDCG10
    found = {name: curves.curve(fit, all_folds, sizes, measure) for name, fit in fits.items()}
    for values in found.values():
        assert values.shape == (2, 24)
        assert 70.0 < values.mean() <= 100.0
    text = curves.curve_table("stand-in", found, sizes)
    assert text.count(" ± ") == 6
    lead = (found["DORM for NDCG"] - found["RankRLS"]).mean(axis=1)
    row = next(line for line in text.splitlines() if "DORM for NDCG less RankRLS" in line)
    shown = [float(cell.split("±")[0]) for cell in row.split("|")[2:4]]
    np.testing.assert_allclose(shown, lead, atol=0.006)


def test_a_learned_decay_falls_from_one_to_zero(module):
    decay = module("learned_decay").learned_decay(parts_of(module)[0])
    assert len(decay) == 8
    assert decay[0] == 1.0
    assert decay[-1] == pytest.approx(0.0, abs=1e-12)
    assert (np.diff(decay) < 0).all()


def test_the_mixture_of_decays_is_the_best_at_fixed_scores(module):
    """No random mixture has smaller slacks; the slacks are written out as a maximum."""
    learned = module("learned_decay")
    P = problem(seed=3, sizes=(4, 5, 3, 5), n_features=2, shuffle=False)
    rng = np.random.default_rng(0)
    queries = Queries.from_qid(P.qid)
    form = PositionObjective.of("NDCG", Judgements.of(P.y, queries))
    scores = 0.3 * rng.normal(size=len(P.y))

    def loss_of(c):
        plan = plan_assignments(form.gains, form.discounts, c, queries.starts)
        return RankingLoss.from_gains(plan, np.zeros(len(c)))

    family = np.stack([learned.falling_by_one(decay, queries) for decay in learned.DECAYS])
    targets = np.stack([loss_of(c).target for c in family])
    mixtures = np.eye(len(family))
    found = learned.best_mixture(mixtures[2], family, targets, scores, loss_of)
    least = loss_of(found @ family).slacks(scores).sum()
    assert found.sum() == pytest.approx(1.0)
    assert (found >= 0).all()
    mixtures = [*mixtures, *rng.dirichlet(np.full(len(family), 0.3), size=200)]
    others = [loss_of(mixture @ family).slacks(scores).sum() for mixture in mixtures]
    assert least <= min(others) * (1 + 2e-3)
    assert least < others[2]


@pytest.mark.parametrize("alpha", [0.1, 10.0])
@pytest.mark.parametrize("kernel", [Linear(), Gaussian(0.1)], ids=repr)
@pytest.mark.parametrize(
    ("ties", "query_weight"), [("drop", "items"), ("keep", "pairs"), ("drop", "equal")]
)
def test_scored_together_means_the_smallest_left_out_residuals(
    module, ties, query_weight, kernel, alpha
):
    P = problem(seed=4, sizes=(5, 1, 6, 4, 4, 1), n_features=4, shuffle=False)
    new = np.isin(P.qid, [24, 31, 38])  # two queries of four items, and one of a single item
    parts = [module("letor_data").Part(P.X[at], P.y[at], P.qid[at]) for at in (~new, new)]
    found = module("transductive").scored_together(
        *parts, kernel, alpha, ties=ties, query_weight=query_weight
    )
    K = kernel(P.X, P.X)
    expected = reference.transductive_scores(K, P.y[~new], P.qid, ties, query_weight, alpha)
    for q in np.unique(P.qid[new]):
        rows = P.qid[new] == q
        lead, wanted = (s[rows] - s[rows][0] for s in (found, expected))
        np.testing.assert_allclose(lead, wanted, atol=1e-7)
    assert found[-1] == 0.0  # the query of one item


def test_different_sources_on_stand_ins(module, monkeypatch):
    diversity = module("diversity")
    rng = np.random.default_rng(0)

    def read_part(k):
        X, y, qid = graded(6, rng, n_items=15)
        return diversity.Part(X, y, np.char.add(f"{k}:", qid), rng.integers(12, size=len(y)))

    monkeypatch.setattr(diversity, "read_part", read_part)
    rows = [line for line in diversity.section().splitlines() if line.startswith("| ")][1:]
    assert len(rows) == 3
    assert all("100.0 ± 0.0" in row for row in rows[1:])
