"""The plots of the documentation: each function draws one, with rankwise itself, on a figure."""

import re
import sys
from pathlib import Path

import numpy as np
from matplotlib.patches import FancyArrowPatch
from scipy.sparse import coo_array
from sklearn.datasets import load_breast_cancer
from sklearn.linear_model import Ridge
from sklearn.model_selection import KFold
from sklearn.preprocessing import scale

from rankwise import (
    DORM,
    ERR,
    ERU,
    NDCG,
    RR,
    ConditionalRankRLS,
    Gaussian,
    KPCRankCV,
    LinearRankRLS,
    PreferenceGP,
    QueryKFold,
    RankingFactorization,
    RankRLS,
    RankRLSCV,
    WithinQueryScaler,
    click_propensities,
    evaluate,
    explain,
    leaderboard,
    leave_pair_out,
    permutation_test,
)
from rankwise.datasets import load_digits_queries

ROOT = Path(__file__).parents[1]
sys.path.insert(0, str(ROOT))
from benchmarks.history import series  # noqa: E402 - of this repository

CHOICES = {
    "items with\ngrades": {
        "a table as it is": "AutoRanker",
        "the same, within seconds": "SearchRanker",
        "a few dozen samples": "leave_pair_out, RankRLSCV",
        "few features wanted": "GreedyRankRLS",
        "larger than memory, or sparse": "LinearRankRLS",
        "NDCG itself is to be optimised": "DORM",
    },
    "comparisons": {
        "names, and who beat whom": "leaderboard",
        "items with features": "PreferenceGP",
        "nobody has answered yet": "rankwise ask",
    },
    "users and\nitems": {
        "ratings, or choices": "RankingFactorization",
        "features of both sides": "ConditionalRankRLS",
        "clicks instead of grades": "click_propensities",
    },
}
"""Which ranker: what is given, what matters, what to begin with."""
SMALL, WIDE = (4.6, 3.0), (7.6, 3.1)
PICTURES = {
    "peers": (7.6, 2.9),
    "search": SMALL,
    "small_samples": SMALL,
    "comparisons": SMALL,
    "clicks": SMALL,
    "queries": WIDE,
    "in_query": WIDE,
    "alpha": SMALL,
    "unseen_pairs": (3.6, 3.2),
    "scores": WIDE,
    "leaders": SMALL,
    "measures": SMALL,
    "folds": (7.6, 2.6),
    "large_data": SMALL,
    "partitions": (7.6, 2.2),
    "gpu": (7.6, 2.9),
    "losses": SMALL,
    "bound": SMALL,
    "factors": SMALL,
    "conditions": WIDE,
    "components": SMALL,
    "explanation": SMALL,
    "which": (7.4, 4.9),
    "history": (7.6, 3.3),
}
"""Every picture with its width and height."""


def peers(figure):
    """Draw the recorded lead of AutoRanker over tuned peers, with errors of the differences."""
    text = (ROOT / "experiments" / "RESULTS.md").read_text(encoding="utf-8")
    part = text.split("## Rankers that choose by themselves")[1].split("\n## ")[0]
    sets = re.split(r"^### ", part, flags=re.M)[1:]
    names = ["LightGBM", "XGBoost", "CatBoost"]
    row = rf"^\| ({'|'.join(names)})[^|]*\| [^|]*\| ([+-][\d.]+) ± ([\d.]+) \|"
    axes = figure.subplots(1, len(sets), sharey=True, sharex=True)
    for ax, table in zip(axes, sets, strict=True):
        for name, value, error in re.findall(row, table, re.M):
            colour = "C0" if float(value) < 0 else "C1"
            ax.errorbar(-float(value), names.index(name), xerr=float(error), fmt="o", capsize=3,
                        color=colour)  # fmt: skip
        ax.axvline(0, color="0.55", lw=1)
        ax.set_title(
            table.splitlines()[0].split(",")[0].replace("LightGBM's example", "LightGBM's own")
        )
        ax.set_yticks(range(len(names)), [f"tuned {name}" for name in names])
        ax.set(ylim=(len(names) - 0.5, -0.5), xticks=[0, 0.02])
    figure.supxlabel("lead of AutoRanker in NDCG @ 10, with its standard error", fontsize=11)


def search(figure):
    """Show the quality of every query, linear and with a kernel."""
    ax = figure.subplots()
    data = load_digits_queries(n_queries=60, n_items=15)
    ranker = RankRLS(kernel="gaussian").fit(data.train.X, data.train.y, qid=data.train.qid)
    plain = RankRLS().fit(data.train.X, data.train.y, qid=data.train.qid)
    for name, model in (("Gaussian kernel", ranker), ("linear", plain)):
        found = evaluate(data.test.y, model.predict(data.test.X), data.test.qid, "NDCG @ 5")
        values = np.sort(found.values[:, 0])
        ax.plot(np.linspace(0, 1, len(values)), values, label=f"{name}, mean {found.mean[0]:.2f}")
    ax.set_xlabel("share of queries")
    ax.set_ylabel("NDCG @ 5")
    ax.legend()


def small_samples(figure):
    """Show that 60 samples hold more than luck."""
    ax = figure.subplots()
    X, y = load_breast_cancer(return_X_y=True)
    rows = np.random.default_rng(0).permutation(len(y))[:60]
    test = permutation_test(scale(X[rows]), y[rows], n_permutations=999, random_state=0)
    test.plot(ax)
    ax.set_title(f"p = {test.pvalue:.2g}")


def comparisons(figure):
    """Show how certain the ranks of ten items are after 40 answers."""
    rng = np.random.default_rng(0)
    X = np.linspace(0, 1, 10)[:, None]
    worth = np.sin(3 * X[:, 0])
    pairs = [rng.choice(10, 2, replace=False) for _ in range(40)]
    answers = [(a, b) if worth[a] + 0.2 * rng.normal() > worth[b] else (b, a) for a, b in pairs]
    process = PreferenceGP().fit(X, pairs=answers)
    process.rank_distribution(X, n_draws=500, random_state=0).plot(figure.subplots())


def clicks(figure):
    """Show how often positions are looked at, and what a log of clicks says about it."""
    ax, rng = figure.subplots(), np.random.default_rng(0)
    n_items, n_shows = 12, 3000
    looked_at = 1 / np.arange(1.0, n_items + 1)
    good = rng.uniform(0.1, 0.8, n_items)
    shown = np.argsort(rng.normal(size=(n_shows, n_items)) - good, axis=1)
    position = np.tile(np.arange(n_items), (n_shows, 1))
    clicked = rng.random(shown.shape) < looked_at * good[shown]
    found = click_propensities(position.ravel(), clicked.ravel(), shown.ravel())
    place = np.arange(1, n_items + 1)
    ax.plot(place, looked_at, color="0.55", label="looked at")
    ax.plot(place, found, "o", label="estimated from clicks")
    ax.set_xlabel("position")
    ax.set_ylabel("probability")
    ax.legend()


def queries(figure):
    """Show that preferences connect items of one query only."""
    ax, grades = figure.subplots(), {"lamp": [0, 1, 2], "chair": [0, 0, 2], "table": [1, 2]}
    for column, (name, levels) in enumerate(grades.items()):
        at = [(3 * column + 0.8 * i, level) for i, level in enumerate(levels)]
        for x, grade in at:
            ax.plot(x, grade, "o", ms=13, color=f"C{column}")
        for x, grade in at:
            for other, lower in at:
                if lower < grade:
                    line = {"arrowstyle": "-|>", "mutation_scale": 13, "color": "0.55"}
                    bent = "arc3,rad=0.15"
                    arrow = FancyArrowPatch((x, grade), (other, lower), connectionstyle=bent,
                                            shrinkA=9, shrinkB=9, **line)  # fmt: skip
                    ax.add_patch(arrow)
        ax.text(3 * column + 0.8, -0.75, f'qid "{name}"', ha="center")
    ax.set_yticks([0, 1, 2])
    ax.set_ylabel("grade")
    ax.set_xticks([])
    ax.set(xlim=(-0.7, 7.6), ylim=(-1, 2.4))


def in_query(figure):
    """Show a feature that means different things in different queries, before and after scaling."""
    rng = np.random.default_rng(1)
    left, right = figure.subplots(1, 2, sharey=True)
    qid = np.repeat(np.arange(4), 12)
    relevance = rng.uniform(0, 2, 48)
    X = (relevance + 0.2 * rng.normal(size=48) + [0, 6, 2, 9] @ np.eye(4)[qid].T)[:, None]
    inside = WithinQueryScaler().fit_transform(X, qid=qid)
    for query in range(4):
        rows = qid == query
        left.plot(X[rows], relevance[rows], "o", label=f"query {query + 1}")
        right.plot(inside[rows], relevance[rows], "o")
    left.set(xlabel="BM25, as it is", ylabel="relevance")
    right.set_xlabel("BM25, scaled inside queries")


def alpha(figure):
    """Show the exact held-out value of every alpha."""
    data = load_digits_queries(n_queries=40, n_items=12).train
    ranker = RankRLSCV(kernel="gaussian", measure="NDCG @ 10", alphas=2.0 ** np.arange(-12, 9))
    ax = figure.subplots()
    ranker.fit(data.X, data.y, qid=data.qid).plot_path(ax)


def unseen_pairs(figure):
    """Draw the ROC curve of pairs that no model had seen."""
    X, y = load_breast_cancer(return_X_y=True)
    rows = np.random.default_rng(4).permutation(len(y))[:20]
    X, y = scale(X[rows][:, [1, 5, 9, 18]]), y[rows]
    estimate = leave_pair_out(Ridge(), X, y, roc=True)
    estimate.plot(figure.subplots())


def scores(figure):
    """Show scores of three queries: the order inside a query counts, the level does not."""
    rng = np.random.default_rng(3)
    X, qid = (
        rng.normal(size=(36, 3)) + np.repeat([[0], [2.0], [-1.5]], 12, axis=0),
        np.repeat(range(3), 12),
    )
    y = np.digitize(X @ [1.0, -2.0, 0.0] + np.repeat([0, 2, -2], 12), [-1.0, 1.0])
    found = RankRLS().fit(X, y, qid=qid).predict(X)
    ax = figure.subplots()
    for grade in range(3):
        rows = y == grade
        ax.plot(
            found[rows],
            qid[rows] + 0.12 * rng.uniform(-1, 1, rows.sum()),
            "o",
            label=f"grade {grade}",
        )
    ax.set_yticks(range(3), ["lamp", "chair", "table"])
    ax.set_xlabel("predicted score")
    ax.set_ylim(-0.5, 2.5)
    ax.legend(loc="center left", bbox_to_anchor=(1, 0.5))


def leaders(figure):
    """Draw a leaderboard of six items."""
    rng, strength = np.random.default_rng(0), np.array([1.2, 1.0, 0.4, 0.0, -0.4, -1.0])
    a, b = rng.integers(0, 6, (2, 400))
    a, b = a[a != b], b[a != b]
    won = rng.random(len(a)) < 1 / (1 + np.exp(strength[b] - strength[a]))
    names = np.array(["ant", "bee", "cat", "dog", "elk", "fox"])
    battles = {"a": names[a], "b": names[b], "winner": np.where(won, "a", "b")}
    leaderboard(battles, random_state=0).plot(figure.subplots())


def measures(figure):
    """Show what one relevant item is worth at each position."""
    ax, n = figure.subplots(), 12
    for measure in (NDCG, NDCG @ 5, RR, ERR, ERU):
        values = []
        for place in range(n):
            y = np.zeros(n)
            y[place] = 1
            values.append(evaluate(y, -np.arange(n), np.zeros(n), measure).mean[0])
        values = np.array(values)
        ax.plot(np.arange(1, n + 1), values / values[0], label=str(measure))
    ax.set(xlabel="position of the only relevant item", ylabel="value, position 1 = 1")
    ax.legend()


def folds(figure):
    """Show folds that keep queries whole, and folds that tear them."""
    qid = np.sort(np.random.default_rng(0).integers(0, 8, 40))
    axes = figure.subplots(1, 2, sharey=True)
    torn = KFold(4, shuffle=True, random_state=0).split(qid)
    splits = {"QueryKFold(4)": QueryKFold(4).split(qid, qid, qid), "KFold(4, shuffle=True)": torn}
    for ax, (title, parts) in zip(axes, splits.items(), strict=True):
        for fold, (_, test) in enumerate(parts):
            ax.bar(np.arange(40), 0.8, bottom=fold, width=1, color="0.85", align="edge")
            ax.bar(test, 0.8, bottom=fold, width=1, color=f"C{fold}", align="edge")
        for border in np.flatnonzero(np.diff(qid)) + 1:
            ax.axvline(border, color="0.4", lw=0.8)
        ax.set_title(title)
        ax.set(
            yticks=np.arange(4) + 0.4, yticklabels=[f"fold {i + 1}" for i in range(4)], xticks=[]
        )
        ax.set_xlabel("rows; lines between queries")


def large_data(figure):
    """Show how conjugate gradients approach the solution of every alpha."""
    rng = np.random.default_rng(0)
    X = rng.normal(size=(2000, 60)) * np.linspace(0.2, 1.5, 60)
    y, qid = X @ rng.normal(size=60) + rng.normal(size=2000), np.repeat(np.arange(100), 20)
    ranker = LinearRankRLS(alphas=[0.01, 1.0, 100.0, 1e4], random_state=0).fit(X, y, qid=qid)
    ax = figure.subplots()
    for value, residuals in zip(ranker.alphas, ranker.history_["residual"].T, strict=True):
        kept = residuals[np.isfinite(residuals) & (residuals > 0)]
        ax.semilogy(np.arange(1, len(kept) + 1), kept, label=f"alpha = {value:g}")
    ax.set(xlabel="passes over the data", ylabel="residual")
    ax.legend()


def partitions(figure):
    """Show queries that are split over partitions."""
    ax, rng = figure.subplots(), np.random.default_rng(0)
    names = rng.permuted(np.repeat(np.arange(5), 12))
    for part in range(4):
        for i, query in enumerate(np.sort(names[15 * part : 15 * part + 15])):
            ax.bar(18 * part + i, 1, width=0.9, color=f"C{query}", align="edge")
        ax.text(18 * part + 7.5, -0.35, f"partition {part + 1}", ha="center")
    ax.text(35, 1.25, "every colour is a query: its rows lie in several partitions", ha="center")
    ax.set(xlim=(-1, 71), ylim=(-0.5, 1.6))
    ax.axis("off")


def gpu(figure):
    """Draw the recorded times of a GPU and of a CPU."""
    text = (ROOT / "benchmarks" / "RESULTS.md").read_text(encoding="utf-8")
    part = text.split("## On a GPU")[1].split("\n## ")[0]
    rows = re.findall(r"^\| ([^|]+) \| ([\d.]+) \| ([\d.]+) \| (\d+) \|", part, re.M)
    rows = [row for row in rows if row[0].startswith(("basis", "fit,", "leave"))]
    ax = figure.subplots()
    at = np.arange(len(rows))
    for shift, column, label in ((-0.2, 1, "GPU"), (0.2, 2, "CPU, 16 threads")):
        ax.barh(at + shift, [float(row[column]) for row in rows], 0.38, label=label)
    ax.set_xscale("log")
    ax.set_yticks(at, [re.sub(r",.*", "", row[0]) + f": {row[3]}x" for row in rows])
    ax.invert_yaxis()
    ax.set_xlabel("seconds")
    ax.legend(loc="center left", bbox_to_anchor=(1, 0.5))


def losses(figure):
    """Draw what the lead of a winner costs, for three losses."""
    ax, lead = figure.subplots(), np.linspace(-1, 3, 200)
    ax.plot(lead, np.maximum(1 - lead, 0), label="RankSVM, hinge")
    ax.plot(lead, np.maximum(1 - lead, 0) ** 2, label="RankSVM, squared hinge")
    ax.plot(lead, (1 - lead) ** 2, "--", label="RankRLS, least squares")
    ax.set(xlabel="lead of the winner", ylabel="cost of the pair", ylim=(0, 4))
    ax.legend()


def bound(figure):
    """Draw the proven gap while DORM trains."""
    data, steps = load_digits_queries(n_queries=40, n_items=12).train, []
    for objective in ("NDCG", "Precision @ 5"):
        steps.clear()
        DORM(
            objective, progress=lambda step: steps.append((step.iteration, step.error)) or False
        ).fit(data.X, data.y, qid=data.qid)
        figure.gca().semilogy(*np.transpose(steps), "o-", ms=3, label=objective)
    figure.gca().set(xlabel="pass over the queries", ylabel="proven gap to the optimum")
    figure.gca().legend()


def factors(figure):
    """Show what hidden factors bring, and when there are too many."""
    rng = np.random.default_rng(0)
    stars = np.digitize(
        rng.normal(size=(200, 2)) @ rng.normal(size=(2, 80)) + rng.normal(size=(200, 80)),
        [-2, -1, 1, 2],
    )
    order = rng.random(stars.shape).argsort(axis=1)

    def rated(shown):
        users, items = np.nonzero(shown)
        return coo_array((stars[users, items], (users, items)), shape=stars.shape)

    train, test = rated(order < 25), rated(order >= 25)
    number = [1, 2, 3, 4, 6]
    values = [RankingFactorization(k, random_state=0).fit(train).score(test) for k in number]
    ax = figure.subplots()
    ax.plot(number, values, "o-")
    ax.set(xlabel="hidden factors", ylabel="NDCG @ 10, ratings held out")


def conditions(figure):
    """Show scores of pairs of which neither side was known, beside the truth."""
    rng = np.random.default_rng(0)
    drugs, targets = rng.normal(size=(60, 3)), rng.normal(size=(40, 4))
    strength = rng.normal(size=(3, 4))
    noisy = drugs @ strength @ targets.T + rng.normal(size=(60, 40))
    ranker = ConditionalRankRLS(1.0).fit(drugs[:45], targets[:20], noisy[:45, :20])
    truth = drugs[45:] @ strength @ targets[20:].T
    found = ranker.predict(drugs[45:], targets[20:])
    for ax, values, title in zip(
        figure.subplots(1, 2), (truth, found), ("the truth", "predicted"), strict=True
    ):
        values = values - values.mean(axis=1, keepdims=True)
        ax.imshow(values, cmap="PuOr", aspect="auto", vmin=-6, vmax=6)
        ax.set(title=title, xlabel="new targets", ylabel="new drugs", xticks=[], yticks=[])


def components(figure):
    """Show the held-out value of every number of components."""
    rng = np.random.default_rng(0)
    X, qid = rng.normal(size=(600, 6)), np.repeat(np.arange(60), 10)
    y = np.sin(X[:, 0]) + np.cos(X[:, 1]) + rng.normal(size=600)
    ranker = KPCRankCV(max_components=150, kernel=Gaussian(0.1)).fit(X, y, qid=qid)
    ranker.plot_path(figure.subplots())


def explanation(figure):
    """Show why one item is above another."""
    rng = np.random.default_rng(0)
    X, qid = rng.normal(size=(80, 4)), np.repeat(np.arange(8), 10)
    y = X @ [2, 1, -1, 0]
    ranker = RankRLS(kernel=Gaussian(0.2)).fit(X, y, qid=qid)
    best, second = ranker.rank(X, qid)[:2]
    names = ["text", "clicks", "price", "age"]
    explain(ranker, X, qid, best, second, feature_names=names).plot(figure.subplots())


def which(figure):
    """Show which ranker to begin with."""
    ax, row = figure.subplots(), 0.0
    line = {"color": "0.6", "lw": 1.2, "solid_capstyle": "round"}
    box = {"boxstyle": "round,pad=0.45", "facecolor": "none", "lw": 1.4}
    for i, (given, choices) in enumerate(CHOICES.items()):
        rows = row + np.arange(len(choices))
        middle = rows.mean()
        ax.text(0.0, middle, given, ha="center", va="center", weight="bold",
                bbox={**box, "edgecolor": f"C{i}"})  # fmt: skip
        ax.plot([0.75, 1.0], [middle, middle], **line)
        ax.plot([1.0, 1.0], [rows[0], rows[-1]], **line)
        for at, (matters, ranker) in zip(rows, choices.items(), strict=True):
            ax.plot([1.0, 1.15], [at, at], **line)
            ax.text(1.22, at, matters, va="center")
            ax.annotate(
                "", (4.55, at), (4.25, at), arrowprops={"arrowstyle": "-|>", "color": "0.6"}
            )
            ax.text(4.65, at, ranker, va="center", family="monospace", color=f"C{i}", weight="bold")
        row = rows[-1] + 1.6
    ax.set(xlim=(-0.75, 7.6), ylim=(row - 1.0, -0.7))
    ax.axis("off")


def history(figure):
    """Draw how the recorded times against peers and bare calls changed from day to day."""
    days, ratios = set(), {}
    for key, points in series().items():
        if len({point.date for point in points}) > 1:
            ratios[key] = {point.date: point.slowness / points[0].slowness for point in points}
            days |= set(ratios[key])
    ax, days = figure.subplots(), sorted(days)
    table = np.array([[row.get(day, np.nan) for day in days] for row in ratios.values()])
    at = np.arange(len(days))
    for values in table:
        known = np.isfinite(values)
        ax.plot(at[known], values[known], color="0.7", lw=0.7)
    low, median, high = np.nanpercentile(table, [10, 50, 90], axis=0)
    ax.fill_between(at, low, high, color="C0", alpha=0.2, label="eight rows of ten")
    ax.plot(at, median, "o-", color="C0", label=f"median of {len(table)} rows")
    ax.axhline(1, color="0.5", lw=0.8, ls="--")
    ax.set_yscale("log")
    ticks = [0.25, 0.5, 1, 2, 4]
    ax.set_yticks(ticks, [f"{tick:g}x" for tick in ticks])
    ax.minorticks_off()
    ax.set_xticks(at, [day.strftime("%d %b %Y") for day in days])
    ax.set_ylabel("time, first record = 1x")
    ax.legend(loc="upper left", bbox_to_anchor=(1, 1))
