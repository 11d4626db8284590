"""[PTA09] Sect. 5.1, Fig. 2: four items whose order turns round when irrelevant pairs count.

Two queries of two items each lie on a line. Inside a query the better item is on the right; all
items of the better query are on the left. The paper draws the points without coordinates; only
their order matters here.
"""

import numpy as np

from benchmarks.figures import figure
from experiments.harness import HERE, markdown_table
from rankwise import RankRLS, RankRLSCV

X = np.array([[4.0], [3.0], [1.0], [0.0]])
y = np.array([2.0, 1.0, 4.0, 3.0])
QID = np.array(["first", "first", "second", "second"])
COSTS = {"unit": 20, "magnitude": 21, "relative": 22}
SETTINGS = {"relevant pairs": QID, "all pairs": None}
FIGURE = "irrelevant_pairs.svg"


def rows() -> list[list[str]]:
    """Return, for each cost and choice of pairs, the weights' range and the relevant pairs won."""
    table = []
    for cost, number in COSTS.items():
        for name, qid in SETTINGS.items():
            path = RankRLS(cost=cost).fit_path(X, y, qid=qid, alphas=RankRLSCV().alphas)
            weights = np.array([ranker.coef_[0] for ranker in path])
            right = [ranker.predict(X) @ [1, -1, 0, 0] > 0 for ranker in path]
            right += [ranker.predict(X) @ [0, 0, 1, -1] > 0 for ranker in path]
            spread = f"{weights.min():+.2g} to {weights.max():+.2g}"
            table.append([f"({number}), {cost}", name, spread, f"{np.mean(right):.0%}"])
    return table


def draw(ax, name: str, qid) -> None:
    """Draw items, pairs from the worse to the better item, and the direction that is learned."""
    for i in range(len(y)):
        for j in np.flatnonzero(y > y[i]):
            relevant = QID[i] == QID[j]
            if qid is None or relevant:
                arrow = {
                    "arrowstyle": "->",
                    "color": "tab:blue" if relevant else "tab:red",
                    "connectionstyle": "arc3,rad=-0.5" if relevant else "arc3,rad=0.4",
                    "shrinkA": 9,
                    "shrinkB": 9,
                }
                ax.annotate("", (X[j, 0], 0), (X[i, 0], 0), arrowprops=arrow)
    for k, (x, score) in enumerate(zip(X[:, 0], y, strict=True), start=1):
        ax.plot(x, 0, "o", color="white", markeredgecolor="black", markersize=12)
        ax.annotate(f"$x_{k}$\nscore {score:g}", (x, -0.75), ha="center")
    weight = RankRLS().fit(X, y, qid=qid).coef_[0]
    ends = (2 + np.sign(weight), -1.3), (2 - np.sign(weight), -1.3)
    ax.annotate("", *ends, arrowprops={"arrowstyle": "-|>", "lw": 2})
    ax.annotate(f"learned: w = {weight:+.2f}", (2, -1.2), ha="center")
    ax.set(title=name, xlim=(-0.8, 4.8), ylim=(-1.6, 1.3))
    ax.axis("off")


def section() -> str:
    """Return the table of all costs, and draw the figure."""
    with figure(HERE / FIGURE, 1, 2, (9, 3)) as axes:
        for ax, (name, qid) in zip(axes, SETTINGS.items(), strict=True):
            draw(ax, name, qid)
    header = ["cost, [PTA09]", "learned from", "weight, 31 alphas", "relevant pairs in order"]
    return (
        f"![Four items on a line, with the pairs learned from and the learned direction]({FIGURE})"
        f"\n\n{markdown_table(header, rows())}\n"
        "Arrows lead from the worse to the better item, blue inside a query and red across. As\n"
        "the paper argues, the four irrelevant pairs outvote the two relevant ones and turn the\n"
        "ranking round; this holds for each of its costs and for every alpha from 2^-15 to\n"
        "2^15. The paper gives no numbers.\n"
    )
