"""Draw the pictures of the front page with rankwise itself, before each build."""

from pathlib import Path

import matplotlib as mpl
import numpy as np
from matplotlib.figure import Figure
from sklearn.datasets import load_breast_cancer
from sklearn.preprocessing import scale

from rankwise import PreferenceGP, RankRLS, evaluate, permutation_test
from rankwise.datasets import load_digits_queries

FOLDER = Path(__file__).parent / "_static" / "generated"
STYLE = {
    "svg.hashsalt": "rankwise",
    "font.size": 11,
    "axes.spines.top": False,
    "axes.spines.right": False,
}


def search(ax):
    """Show the quality of every query, with the features alone and learned."""
    data = load_digits_queries(n_queries=60, n_items=15)
    ranker = RankRLS(kernel="gaussian").fit(data.train.X, data.train.y, qid=data.train.qid)
    plain = RankRLS().fit(data.train.X, data.train.y, qid=data.train.qid)
    for name, model in (("Gaussian kernel", ranker), ("linear", plain)):
        found = evaluate(data.test.y, model.predict(data.test.X), data.test.qid, "NDCG @ 5")
        values = np.sort(found.values[:, 0])
        ax.plot(np.linspace(0, 1, len(values)), values, label=f"{name}, mean {found.mean[0]:.2f}")
    ax.set_xlabel("share of queries")
    ax.set_ylabel("NDCG @ 5")
    ax.legend(frameon=False)


def small_samples(ax):
    """Show that 60 samples hold more than luck."""
    X, y = load_breast_cancer(return_X_y=True)
    rows = np.random.default_rng(0).permutation(len(y))[:60]
    test = permutation_test(scale(X[rows]), y[rows], n_permutations=999, random_state=0)
    test.plot(ax)
    ax.set_title(f"p = {test.pvalue:.2g}", fontsize=11)


def comparisons(ax):
    """Show how certain the ranks of ten items are after 40 answers."""
    rng = np.random.default_rng(0)
    X = np.linspace(0, 1, 10)[:, None]
    worth = np.sin(3 * X[:, 0])
    pairs = [rng.choice(10, 2, replace=False) for _ in range(40)]
    answers = [(a, b) if worth[a] + 0.2 * rng.normal() > worth[b] else (b, a) for a, b in pairs]
    process = PreferenceGP().fit(X, pairs=answers)
    process.rank_distribution(X, n_draws=500, random_state=0).plot(ax)


def write_pictures(_app=None):
    """Write all pictures, on white so that they read in light and dark."""
    FOLDER.mkdir(parents=True, exist_ok=True)
    for paint in (search, small_samples, comparisons):
        with mpl.rc_context(STYLE):
            figure = Figure(figsize=(4.4, 2.9), layout="constrained")
            paint(figure.subplots())
            figure.savefig(FOLDER / f"{paint.__name__}.svg", metadata={"Date": None})
