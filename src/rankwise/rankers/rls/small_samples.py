"""Honest estimates from small samples: the AUC of unseen pairs, and whether it is luck."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Any, final

import numpy as np
import scipy
from numpy.typing import ArrayLike
from sklearn.utils import check_array

from rankwise.core.arrays import BoolArray, FloatArray, Matrix
from rankwise.core.checks import (
    refuse_huge_rows,
    refuse_overflow,
    refuse_unusable_rows,
)
from rankwise.core.display import (
    Result,
    decimals,
    listed,
    p_value,
)
from rankwise.core.errors import (
    InvalidInputError,
    NothingToLearnError,
    NumericalError,
)
from rankwise.core.params import Count, check_call
from rankwise.core.queries import Queries, TrainingData
from rankwise.features.function_space import FunctionSpace, smallest_space
from rankwise.features.kernels import as_kernel
from rankwise.graph.preference_graph import PreferenceGraph
from rankwise.measures.value import Measure
from rankwise.rankers.base import generator
from rankwise.selection.holdouts import Folds
from rankwise.selection.leave_pair_out import leave_each_pair_out
from rankwise.selection.leave_query_out import leave_query_out
from rankwise.selection.path import (
    as_measure,
    check_alphas,
    judge_pairs,
    judge_scores,
    refuse_listwise,
)
from rankwise.solve.iteration import followed

ROUNDING = 1e-10
"""Leads below this share of the largest are ties."""

BATCH = 64
"""Permutations that are cross-validated together."""


@final
@dataclass(frozen=True, eq=False, repr=False)
class TournamentROC(Result):
    """Hold the ROC curve of unseen pairs, by tournament leave-pair-out.

    Scores of different models must not be compared, so leave-pair-out alone gives an area but no
    curve. Here every two items, also those of one class, are left out together and compared by the
    model that has seen neither. The share of its comparisons that an item wins is its score, and
    the curve is that of these scores.

    Parameters
    ----------
    wins : (n_items,)
        The share of comparisons that each item wins; NaN for an item without any.
    is_positive : (n_items,)
        Whether an item is of the class that should win.

    Notes
    -----
    I. Montoya Perez, A. Airola, P. J. Bostrom, I. Jambor, T. Pahikkala, "Tournament leave-pair-out
    cross-validation for receiver operating characteristic analysis", Statistical Methods in Medical
    Research 28, 2019. The area under this curve is close to the share of left-out pairs in the
    right order, and equal to it if the comparisons never contradict each other.

    Examples
    --------
    >>> from rankwise import RankRLS, leave_pair_out
    >>> X = [[0.0], [1.0], [2.0], [3.0], [4.0], [5.0]]
    >>> roc = leave_pair_out(RankRLS(ties="keep"), X, [0, 0, 1, 0, 1, 1], roc=True).roc
    >>> roc.false_positive_rate.tolist()[:3], round(roc.area, 3)
    ([0.0, 0.0, 0.0], 0.889)
    """

    wins: FloatArray
    is_positive: BoolArray

    def _curve(self) -> tuple[FloatArray, FloatArray, FloatArray]:
        known = ~np.isnan(self.wins)
        least, place = np.unique(self.wins[known], return_inverse=True)
        above = np.zeros((2, len(least)))
        for k, of_class in enumerate((~self.is_positive, self.is_positive)):
            count = np.bincount(place[of_class[known]], minlength=len(least))
            above[k] = count[::-1].cumsum() / max(count.sum(), 1)
        rates = np.hstack([np.zeros((2, 1)), above])
        return rates[0], rates[1], np.append(np.inf, least[::-1])

    @property
    def false_positive_rate(self) -> FloatArray:
        """The share of the other class above each threshold, from 0 to 1."""
        return self._curve()[0]

    @property
    def true_positive_rate(self) -> FloatArray:
        """The share of the positive class above each threshold, from 0 to 1."""
        return self._curve()[1]

    @property
    def thresholds(self) -> FloatArray:
        """The share of won comparisons above which an item counts as positive, descending."""
        return self._curve()[2]

    @property
    def area(self) -> float:
        """The area under the curve."""
        return float(np.trapezoid(self.true_positive_rate, self.false_positive_rate))

    def __repr__(self) -> str:
        n_positive = int(self.is_positive.sum())
        others = len(self.wins) - n_positive
        return f"TournamentROC(area {decimals(self.area, 3)}, {n_positive} against {others})"

    def to_dict(self) -> dict[str, Any]:
        """Return the curve in types that JSON can hold; the first threshold, infinity, as None."""
        false_positive, true_positive, least = (part.tolist() for part in self._curve())
        return {
            "area": self.area,
            "false_positive_rate": false_positive,
            "true_positive_rate": true_positive,
            "thresholds": [None, *least[1:]],
        }

    def _columns(self) -> dict[str, Any]:
        """Return the curve, one threshold per row."""
        names = ("false_positive_rate", "true_positive_rate", "thresholds")
        return dict(zip(names, self._curve(), strict=True))

    def _cells(self) -> list[list[str]]:
        n_positive = int(self.is_positive.sum())
        counts = [str(n_positive), str(len(self.wins) - n_positive)]
        return [["area", "positive", "other"], [decimals(self.area, 3), *counts]]

    def _caption(self) -> str:
        return "ROC curve of a tournament"

    def _draw(self, ax: Any) -> None:
        """Draw the curve, next to chance."""
        ax.plot(self.false_positive_rate, self.true_positive_rate)
        ax.plot([0.0, 1.0], [0.0, 1.0], linestyle="--", color="grey")
        ax.set_xlabel("false positive rate")
        ax.set_ylabel(f"true positive rate, area {decimals(self.area, 3)}")
        ax.set_aspect("equal")


def tournament(leads: FloatArray, is_positive: BoolArray) -> TournamentROC:
    """Return the curve of leads between all items, (n_items, n_items); NaN if not compared."""
    none = np.isnan(leads)
    smallest = ROUNDING * float(np.abs(leads[~none]).max(initial=0.0))
    won = np.where(none, 0.0, (np.sign(np.where(np.abs(leads) > smallest, leads, 0.0)) + 1.0) / 2.0)
    met = np.count_nonzero(~none, axis=1)
    wins = np.divide(won.sum(axis=1), met, out=np.full(len(met), np.nan), where=met > 0)
    return TournamentROC(wins, is_positive)


def _as_numbers(y: ArrayLike, positive: Any) -> ArrayLike:
    """Return 1 for the positive class and 0 for others, where labels are classes, else labels."""
    try:
        given = np.asarray(y)
    except ValueError:  # rows of different lengths, which the check of scores refuses
        return y
    labels = given.tolist() if given.ndim == 1 else []
    if positive is not None:
        if positive not in labels:
            known = listed([repr(label) for label in dict.fromkeys(labels)])
            raise InvalidInputError(f"`positive` must be one of {known}: got {positive!r}.")
        return np.array([label == positive for label in labels])
    is_text = all(isinstance(label, str) for label in labels)
    classes = sorted(set(labels)) if is_text else []
    return np.array([label == classes[1] for label in labels]) if len(classes) == 2 else y


def positives(y: FloatArray) -> BoolArray:
    """Return which items are of the higher of two classes; refuse other numbers of classes."""
    classes = np.unique(y)
    if len(classes) != 2:
        raise InvalidInputError(
            f"`roc` needs two classes in `y`: got {len(classes)} different values. Leave it "
            "out, or turn `y` into two classes."
        )
    return np.asarray(y == classes[1])


def logit_interval(
    value: float, error: float, confidence: float, n_items: int
) -> tuple[float, float]:
    """Return an interval on the logit scale; for a perfect value, an exact binomial bound."""
    tail = (1 - confidence) / 2
    if value in (0.0, 1.0) or error == 0.0:
        reach = 1 - tail ** (2.0 / n_items)
        return max(0.0, value - reach), min(1.0, value + reach)
    logit = np.log(value / (1 - value))
    width = scipy.stats.norm.isf(tail) * error / (value * (1 - value))
    low, high = 1 / (1 + np.exp(-(logit + np.array([-width, width]))))
    return float(low), float(high)


@final
@dataclass(frozen=True, eq=False, repr=False)
class PermutationTest(Result):
    """Hold a permutation test: the value with the true labels and with shuffled ones.

    Parameters
    ----------
    value : float
        The held-out value with the true labels.
    pvalue : float
        The share of values at least as good, including the true one.
    null : (n_permutations,)
        The held-out values with shuffled labels.
    measure : Measure
        The measure.

    Examples
    --------
    >>> import numpy as np
    >>> from rankwise import permutation_test
    >>> X = np.arange(16.0)[:, None]
    >>> test = permutation_test(X, X[:, 0] > 7, n_permutations=99, random_state=0)
    >>> test.value, test.pvalue, test.null.shape
    (1.0, 0.01, (99,))
    """

    value: float
    pvalue: float
    null: FloatArray
    measure: Measure

    def __str__(self) -> str:
        mean, largest = (decimals(float(v)) for v in (self.null.mean(), self.null.max()))
        return (
            f"{self.measure!r} {decimals(self.value)}, {p_value(self.pvalue)}; shuffled labels: "
            f"mean {mean}, largest {largest} of {len(self.null)}"
        )

    def __repr__(self) -> str:
        return f"PermutationTest({self})"

    def _columns(self) -> dict[str, Any]:
        """Return the values with shuffled labels, one per row."""
        return {repr(self.measure): self.null}

    def _cells(self) -> list[list[str]]:
        head = ["measure", "value", "p-value", "shuffled, mean", "shuffled, largest"]
        null = [decimals(float(self.null.mean())), decimals(float(self.null.max()))]
        probability = p_value(self.pvalue).removeprefix("p = ")
        row = [repr(self.measure), decimals(self.value), probability, *null]
        return [head, row]

    def _caption(self) -> str:
        return f"{len(self.null)} permutations"

    def _draw(self, ax: Any) -> None:
        """Draw the values of shuffled labels, and the true value."""
        ax.hist(self.null, bins=min(30, max(5, len(self.null) // 10)), color="tab:grey")
        ax.axvline(self.value, color="tab:blue")
        ax.set_xlabel(f"{self.measure!r}, held out")
        ax.set_ylabel("number of permutations")


def permutation_test(
    X: Any,
    y: ArrayLike,
    qid: ArrayLike | None = None,
    *,
    alphas: ArrayLike = 1.0,
    kernel: Any = "linear",
    measure: Measure | str | None = None,
    positive: Any = None,
    n_permutations: Count = 999,
    progress: bool = False,
    random_state: Any = None,
) -> PermutationTest:
    """Test whether RankRLS learns anything, by training on shuffled labels too.

    Shuffled labels are additional outputs of the same problem, so all of them are learned and
    cross-validated from one decomposition. Labels are shuffled inside queries. With several alphas
    the best one is chosen for every shuffle too, so that the choice does not bias the p-value.

    Parameters
    ----------
    X : (n_items, n_features)
        The items.
    y : (n_items,)
        Scores or classes, as in `leave_pair_out`.
    qid : (n_items,), optional
        Queries, which are left out in turn; without them, all pairs of items are.
    alphas : float or (n_alphas,)
        The regularisation; see `RankRLS`. Ties are kept.
    kernel : kernel or str
        As in `RankRLS`.
    measure : Measure or str, optional
        By default the share of pairs in the right order.
    positive : optional
        The class of `y` that should rank above all others.
    n_permutations : int
        Number of shuffles.
    progress : bool
        Show a progress bar over batches of shuffles.
    random_state : int, RandomState or None
        Draws the shuffles.

    Raises
    ------
    NothingToLearnError
        If no two labels of a query differ: there is nothing to shuffle.
    NumericalError
        If rounding errors are too large for a held-out value at every alpha.

    Examples
    --------
    >>> import numpy as np
    >>> from rankwise import permutation_test
    >>> rng = np.random.default_rng(0)
    >>> X = rng.normal(size=(40, 4))
    >>> permutation_test(X, X[:, 0] > 0, random_state=0).pvalue
    0.001
    >>> bool(permutation_test(X, rng.permutation(40) > 20, random_state=0).pvalue > 0.05)
    True
    """
    check_call(permutation_test, n_permutations=n_permutations)
    grid, judged, rows = check_alphas(alphas), as_measure(measure), check_rows(X)
    data = TrainingData.of(rows.shape[0], _as_numbers(y, positive), qid)
    scores = data.single_output("Test one output at a time.")
    refuse_equal_labels(scores, data.queries)
    if not data.has_qid:
        refuse_listwise(judged, "Leaving out pairs")
    space = smallest_of(rows, kernel, data)
    batches = _shuffles(scores, data.queries, n_permutations, generator(random_state))
    n_batches = -(-(1 + n_permutations) // BATCH)
    shown = followed(batches, n_batches, "shuffled labels", shown=progress)
    values = np.concatenate(
        [_best_values(space, replace(data, y=batch), grid, judged) for batch in shown]
    )
    value, null = float(values[0]), values[1:]
    if np.isnan(value):
        raise NumericalError(
            "The held-out value must be known for some alpha: the measure is undefined for "
            "everything held out, or rounding errors are too large. Regularise more, or scale the "
            "features."
        )
    sign = 1 if judged.greater_is_better else -1
    worse = int(np.count_nonzero(sign * null < sign * value))  # what is unknown may be as good
    as_good = n_permutations - worse
    return PermutationTest(value, (1 + as_good) / (1 + n_permutations), null, judged)


def _best_values(
    space: FunctionSpace, data: TrainingData, alphas: FloatArray, measure: Measure
) -> FloatArray:
    """Leave out all queries, or all pairs; return the value of each output at its best alpha."""
    sign = 1.0 if measure.greater_is_better else -1.0
    if data.has_qid:
        graph, rows = PreferenceGraph.of(data, ties="keep"), np.arange(data.n_items)
        found = leave_query_out(space, graph, Folds.by_query(data.queries), alphas)
        queries = found.tied(data.queries.index)
        paths = [
            judge_scores(queries.output(k), y[:, None], data.queries, rows, measure, alphas)
            for k, y in enumerate(data.scores.T)
        ]
    else:
        pairs = leave_each_pair_out(
            space, data, alphas, cost="magnitude", ties="keep", query_weight="items"
        )
        n_outputs = data.scores.shape[1]
        paths = [judge_pairs(pairs.output(k), measure, alphas) for k in range(n_outputs)]
    goodness = sign * np.stack([path.values for path in paths], axis=1)
    best = np.where(np.isnan(goodness), -np.inf, goodness).max(axis=0)
    return np.where(np.isinf(best), np.nan, sign * best)


def _shuffles(
    scores: FloatArray, queries: Queries, n_permutations: int, rng: np.random.Generator
) -> Iterator[FloatArray]:
    """Yield the true scores and shuffled ones as columns, a batch at a time."""
    order = queries.order
    columns = [scores]
    for number in range(n_permutations):
        shuffled = np.empty_like(scores)
        by_query = np.lexsort((rng.random(len(scores)), queries.index))
        shuffled[order] = scores[by_query]
        columns.append(shuffled)
        if len(columns) == BATCH or number == n_permutations - 1:
            yield np.column_stack(columns)
            columns = []


def refuse_equal_labels(scores: FloatArray, queries: Queries) -> None:
    """Refuse labels that are equal inside every query: there is no pair to put in order."""
    if not np.any(scores != scores[queries.order[queries.starts[:-1]]][queries.index]):
        raise NothingToLearnError(
            "`y` must hold different labels, within a query if there are queries: all that "
            "can be compared are equal. Give items of at least two classes or scores."
        )


def check_rows(X: Any) -> Matrix:
    """Return a table of numbers, dense in C order or sparse; refuse what is none."""
    refuse_unusable_rows(X)
    with refuse_overflow():
        rows = check_array(X, accept_sparse="csr", dtype=[np.float64, np.float32], order="C")
    refuse_huge_rows(rows)
    return rows


def smallest_of(
    X: Matrix, kernel: Any, data: TrainingData, rows: Matrix | None = None
) -> FunctionSpace:
    """Return the smallest space for items whose queries are joined completely.

    ``rows`` are those of X that compute, where they are others.
    """
    rank = data.n_items - data.queries.n_queries
    return smallest_space(X, as_kernel(kernel).fitted_to(X, data.sample_weight), None, rank, rows)
