"""Record what RLScore answers to small problems, for ``test_rlscore.py``.

RLScore is not installed with the tests: its last release, 0.8.1, needs Python 3.6 and NumPy 1.19.
There it is built by ``python setup.py build_ext --inplace``, and with it on the path::

    python tests/oracles/record_rlscore.py > tests/oracles/rlscore_outputs.json
"""

import json
import sys

import numpy as np

REGPARAMS = [0.25, 32.0]


def small_problem(seed, n_items, n_features):
    """Return rows, grades with many ties, and unequal queries."""
    rng = np.random.RandomState(seed)
    X = np.round(rng.normal(size=(n_items, n_features)), 3) + 2.0
    y = np.round(X[:, 0] - X[:, 1] + rng.normal(size=n_items))
    sizes = [2, 3, 7, 5]
    qid = np.repeat(np.arange(len(sizes)), sizes)
    return X, y, np.append(qid, np.full(n_items - sum(sizes), len(sizes)))


def answers(rlscore, X, y, qid, regparam):
    """Return coefficients and hold-outs of every learner."""
    n_items = len(y)
    queries = rlscore.QueryRankRLS(X, y, qid.tolist(), regparam)
    every = rlscore.GlobalRankRLS(X, y, regparam)
    one, other = (ends.tolist() for ends in np.triu_indices(n_items, 1))
    # comparisons: an item beats the next one of a lower grade
    pairs = [(i, i + 1) if y[i] > y[i + 1] else (i + 1, i) for i in range(n_items - 1)]
    pairs = [pair for pair in pairs if y[pair[0]] != y[pair[1]]]
    start, end = zip(*pairs)  # noqa: B905 - Python 3.6
    gaussian = {"kernel": "GaussianKernel", "gamma": 0.3}

    def queries_of(options):
        return rlscore.QueryRankRLS(X, y, qid.tolist(), regparam, **options)

    return {
        "regparam": regparam,
        "query": queries.predictor.W.tolist(),
        "query_held_out": [
            queries.holdout(np.flatnonzero(qid == q).tolist()).tolist() for q in np.unique(qid)
        ],
        "global": every.predictor.W.tolist(),
        "global_pairs_held_out": [s.tolist() for s in every.leave_pair_out(one, other)],
        "comparisons": rlscore.PPRankRLS(X, start, end, regparam).predictor.W.tolist(),
        "winner": start,
        "loser": end,
        "gradients": rlscore.CGRankRLS(X, y, regparam, qid.tolist()).predictor.W.tolist(),
        "gradients_global": rlscore.CGRankRLS(X, y, regparam).predictor.W.tolist(),
        "query_gaussian": queries_of(gaussian).predict(X).tolist(),
        "query_basis": queries_of({**gaussian, "basis_vectors": X[:6]}).predict(X).tolist(),
        "global_gaussian": rlscore.GlobalRankRLS(X, y, regparam, **gaussian).predict(X).tolist(),
    }


def main():
    """Print everything as JSON."""
    from rlscore import learner as rlscore  # not installed where the tests are
    from rlscore.measure import cindex

    problems = []
    for seed, n_items, n_features in ((0, 20, 3), (1, 20, 24)):
        X, y, qid = small_problem(seed, n_items, n_features)
        chosen = rlscore.LeaveQueryOutRankRLS(
            X, y, qid.tolist(), regparams=REGPARAMS, measure=cindex
        )
        problems.append(
            {
                "X": X.tolist(),
                "y": y.tolist(),
                "qid": qid.tolist(),
                "answers": [answers(rlscore, X, y, qid, regparam) for regparam in REGPARAMS],
                "leave_query_out": {"regparams": REGPARAMS, "cindex": list(chosen.cv_performances)},
            }
        )
    json.dump({"rlscore": "0.8.1", "problems": problems}, sys.stdout)


if __name__ == "__main__":
    main()
