"""The experiments: all of them can be found and shortened, and one runs from end to end."""

import ast
import importlib
import sys
from pathlib import Path

import numpy as np
import pytest

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
