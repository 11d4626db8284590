"""The job that is run first, after installing: the demo."""

import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import final

import numpy as np
from sklearn.linear_model import Ridge

from rankwise.apps.cli.jobs.fits.training import judge
from rankwise.apps.cli.output import print_table
from rankwise.core.arrays import FloatArray
from rankwise.core.display import decimals
from rankwise.core.queries import Queries
from rankwise.core.threads import serial_blas
from rankwise.datasets.digits import DigitsPart, DigitsQueries, load_digits_queries
from rankwise.measures.evaluation import Evaluation, evaluate, paired_test
from rankwise.measures.graded import NDCG
from rankwise.measures.pairwise import Concordance, KendallTau
from rankwise.rankers.rls.rank_rls import RankRLS

ALPHAS: FloatArray = np.power(10.0, np.arange(-3, 4))
MEASURE = NDCG @ 10
MEASURES = (MEASURE, Concordance, KendallTau)
SIDE = 8  # pixels
N_DRAWN = 7
BLOCKS = " ▄▀█"  # neither pixel, the lower, the upper, both
ASCII = " .':"
INK = 0.4  # of the brightest pixel
GAP = "   "

INTRODUCTION = """\
Putting handwritten digits in order
-----------------------------------
A query shows {n_items} images of four neighbouring digits, graded 0 to 3 within
the query: a 5 has grade 3 among 2, 3, 4, 5 and grade 0 among 5, 6, 7, 8.
Nothing says which digit an image shows. There are {train} queries to train on,
{validation} to choose alpha by {measure!r} and {test} to test, over disjoint images.
"""


@final
@dataclass(frozen=True, eq=False)
class Contestant:
    """A way to score items, with the alpha that is best on the validation queries."""

    name: str
    alpha: float
    scores: FloatArray
    evaluation: Evaluation


Scorer = Callable[[FloatArray], FloatArray]
"""Items to scores, one row for each of ``ALPHAS``."""


def demo() -> None:
    """Choose, train, compare and show, on the digits of scikit-learn."""
    with serial_blas():
        show(load_digits_queries())


def show(data: DigitsQueries) -> None:
    """Rank queries of digits by RankRLS and by plain regression on the grades."""
    _print_introduction(data)
    ridge = _enter("ridge regression", _ridge(data.train), data)
    linear = _enter("RankRLS", _rankrls(data.train, "linear"), data)
    kernel_ridge = _enter("kernel ridge regression", _kernel_ridge(data.train, "gaussian"), data)
    kernel = _enter("kernel RankRLS", _rankrls(data.train, "gaussian"), data)
    _print_measures([ridge, linear, kernel_ridge, kernel])
    _print_test(linear, ridge)
    _print_test(kernel, kernel_ridge)
    print("(paired Wilcoxon signed-rank tests over queries)\n")
    _print_query(kernel, data.test)


def _rankrls(train: DigitsPart, kernel: str) -> Scorer:
    path = RankRLS(kernel=kernel).fit_path(train.X, train.y, train.qid, alphas=ALPHAS)
    return path.predict


def _ridge(train: DigitsPart) -> Scorer:
    models = [Ridge(alpha).fit(train.X, train.y) for alpha in ALPHAS]
    return lambda X: np.array([model.predict(X) for model in models])


def _kernel_ridge(train: DigitsPart, kernel: str) -> Scorer:
    """Regress on the grades: with one query and ties kept, RankRLS is ridge with an intercept."""
    path = RankRLS(kernel=kernel, ties="keep").fit_path(train.X, train.y, alphas=ALPHAS)
    return path.predict


def _enter(name: str, scorer: Scorer, data: DigitsQueries) -> Contestant:
    """Choose alpha on the validation queries and measure on the test queries."""
    held_out = data.validation
    scores = scorer(held_out.X)
    best = judge("alpha", ALPHAS, scores, held_out.y, held_out.qid, MEASURE).best()
    scores = scorer(data.test.X)[best]
    evaluation = evaluate(data.test.y, scores, data.test.qid, MEASURES)
    return Contestant(name, float(ALPHAS[best]), scores, evaluation)


def _print_introduction(data: DigitsQueries) -> None:
    print(
        INTRODUCTION.format(
            n_items=data.test.n_items // data.test.n_queries,
            train=data.train.n_queries,
            validation=data.validation.n_queries,
            test=data.test.n_queries,
            measure=MEASURE,
        )
    )


def _print_measures(contestants: list[Contestant]) -> None:
    rows = [
        [entry.name, f"{entry.alpha:g}", *(decimals(mean) for mean in entry.evaluation.mean)]
        for entry in contestants
    ]
    print_table(["ranker", "alpha", *map(repr, MEASURES)], rows)
    evaluation = contestants[0].evaluation
    print(f"{evaluation.n_queries} test queries, {evaluation.n_undefined.max()} undefined\n")


def _print_test(a: Contestant, b: Contestant) -> None:
    result = paired_test(a.evaluation, b.evaluation, MEASURE)
    print(
        f"{a.name} over {b.name}: {result.mean_difference:+.4f} {MEASURE!r}, "
        f"p = {result.pvalue:.1g}"
    )


def _print_query(contestant: Contestant, data: DigitsPart) -> None:
    """Show the query with the median value."""
    values = contestant.evaluation.values[:, 0]
    middle = int(np.argsort(values)[len(values) // 2])
    rows = list(Queries.from_qid(data.qid))[middle]
    order = rows[np.argsort(-contestant.scores[rows], kind="stable")]
    print(f"A typical test query as {contestant.name} ranks it ({MEASURE!r} {values[middle]:.4f}):")
    print("  digit  " + " ".join(f"{digit}" for digit in data.digits[order]))
    print("  grade  " + " ".join(f"{grade:g}" for grade in data.y[order]) + "\n")
    pictures = [data.X[row].reshape(SIDE, SIDE) for row in order[:N_DRAWN]]
    for line in draw(pictures, sys.stdout.encoding):
        print(f"  {line}")


def draw(images: Sequence[FloatArray], encoding: str) -> list[str]:
    """Return the lines of small grey pictures side by side, two rows of pixels in each.

    Parameters
    ----------
    images : sequence of (height, width)
        Pixels between 0 and 1, of the same even height.
    encoding
        How the text will be written; it decides whether blocks can be used.
    """
    marks = BLOCKS if encoding.lower().startswith("utf") else ASCII
    drawn = [_lines(image, marks) for image in images]
    return [GAP.join(parts).rstrip() for parts in zip(*drawn, strict=True)]


def _lines(image: FloatArray, marks: str) -> list[str]:
    inked = np.asarray(image) > INK
    codes = 2 * inked[0::2].astype(int) + inked[1::2]
    return ["".join(marks[code] for code in line) for line in codes]
