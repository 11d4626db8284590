"""Scores from aggregated comparisons of two items: ties, covariates, judges with given habits."""

from dataclasses import dataclass, replace
from functools import cached_property
from typing import Self, final

import numpy as np
from scipy.sparse import csc_array, csr_array
from scipy.special import expit, log_expit

from rankwise.comparisons.arena.newton import LocalExpansion, ScoreModel, ScoreSpread, flatness
from rankwise.comparisons.leaderboard import TieModel
from rankwise.core.arrays import FloatArray, IntArray, sum_by
from rankwise.core.comparisons.comparison_table import ComparisonTable
from rankwise.native.names import count_answers

KEYS_PER_ROW = 4
"""Number of possible keys for each row up to which they are counted without sorting."""

TIE_STEPS, ODDS_PRIOR = 3, 2.0
"""Steps of Newton's method after which two models of ties are compared, and what odds of ties are
ahead by before: their scores, the odds of decided answers, are plainer where answers do not tell.
"""


@final
@dataclass(frozen=True, eq=False)
class Cells:
    """Hold each set of items, judge, question and covariates once, with the number of each answer.

    Parameters
    ----------
    n_items : int
    first, second : (n_cells,)
        The items, the smaller number first.
    won, lost, tied : (n_cells,)
        How often the first item won, the second item won, and neither did.
    covariates : (n_cells, n_covariates)
        Covariates, positive in favour of the first item.
    judge : (n_cells,) or None
    n_judges : int
    question : (n_cells,) or None
        What was asked, if answers to one question depend on each other, in place of those of a
        judge.
    n_questions : int
    """

    n_items: int
    first: IntArray
    second: IntArray
    won: FloatArray
    lost: FloatArray
    tied: FloatArray
    covariates: FloatArray
    judge: IntArray | None = None
    n_judges: int = 0
    question: IntArray | None = None
    n_questions: int = 0

    @classmethod
    def of(
        cls,
        table: ComparisonTable,
        covariates: FloatArray,
        *,
        by_judge: bool = False,
        by_question: bool = False,
    ) -> Self:
        """Aggregate a table, linearly in its rows for few items, with one sort otherwise."""
        n_items, n_pairs = table.n_items, table.n_items**2
        # few possible pairs, and nothing but items: count them without sorting
        is_plain = covariates.shape[1] == 0 and not by_judge and not by_question
        if is_plain and 3 * n_pairs <= KEYS_PER_ROW * table.n_rows:
            sums = np.zeros(3 * n_pairs)
            count_answers(table.first, table.second, table.outcome, table.weight, n_items, sums)
            pair, *answers = _occurring(sums.reshape(-1, 3))
            lost, tied, won = answers
            first, second = np.divmod(pair, n_items)
            return cls(n_items, first, second, won, lost, tied, np.zeros((len(pair), 0)))
        swap = table.first > table.second
        low, high = np.minimum(table.first, table.second), np.maximum(table.first, table.second)
        # code of the pair and of who was asked what, the smaller item first
        labels = _Askings.of(table if by_judge else None, table if by_question else None)
        code, n_codes = low * n_items + high, n_pairs
        if labels is not None:
            code, n_codes = code * labels.n_labels + labels.index, n_codes * labels.n_labels
        answer = 1 + table.outcome * (1 - 2 * swap.astype(np.intp))
        # without covariates the code is the cell
        if covariates.shape[1] == 0:
            code, lost, tied, won = _counted(code, n_codes, answer, table.weight)
            pair, label = (code, code) if labels is None else np.divmod(code, labels.n_labels)
            of_label = () if labels is None else labels.of_labels(label)
            first, second = np.divmod(pair, n_items)
            none = np.zeros((len(code), 0))
            return cls(n_items, first, second, won, lost, tied, none, *of_label)
        # otherwise a cell is a code with its covariates, in favour of the first item
        signed = np.where(swap[:, None], -covariates, covariates)
        row, cell = _distinct_rows(code, signed)
        _, lost, tied, won = _counted(cell, len(row), answer, table.weight)
        of_label = () if labels is None else labels.of_labels(labels.index[row])
        return cls(n_items, low[row], high[row], won, lost, tied, signed[row], *of_label)

    @property
    def n_cells(self) -> int:
        """Number of cells."""
        return len(self.first)

    @property
    def clusters(self) -> tuple[IntArray, int]:
        """The question of each cell, or else its judge, and how many there are."""
        if self.question is not None:
            return self.question, self.n_questions
        assert self.judge is not None
        return self.judge, self.n_judges

    @cached_property
    def has_ties(self) -> bool:
        """Whether there are ties."""
        return bool(self.tied.any())

    @cached_property
    def total(self) -> FloatArray:
        """Number of answers of each cell."""
        return self.won + self.lost + self.tied

    @cached_property
    def _pattern(self) -> csr_array:
        """The sparsity pattern of the pairs of items; cells are ordered by their first items."""
        index = np.int32 if max(self.n_items, self.n_cells) < 2**31 else np.int64
        starts = np.append(0, np.cumsum(np.bincount(self.first, minlength=self.n_items)))
        parts = np.ones(self.n_cells), self.second.astype(index), starts.astype(index)
        return csr_array(parts, shape=(self.n_items, self.n_items))

    def weighted(self, weight: FloatArray) -> csr_array:
        """Return the upper half of the symmetric matrix with weights of cells as its entries."""
        pattern = self._pattern
        return csr_array((weight, pattern.indices, pattern.indptr), shape=pattern.shape)

    def weighing(self, share: float) -> Self:
        """Return the same answers, each of which counts for a share of one."""
        won, lost, tied = share * self.won, share * self.lost, share * self.tied
        return replace(self, won=won, lost=lost, tied=tied)

    def scatter(self, values: FloatArray) -> FloatArray:
        """Add values to first items and subtract them from second ones."""
        plus = sum_by(self.first, values, self.n_items)
        return plus - sum_by(self.second, values, self.n_items)

    def degrees(self, weight: FloatArray) -> FloatArray:
        """Return the sum of the weights at each item."""
        return sum_by(self.first, weight, self.n_items) + sum_by(self.second, weight, self.n_items)


@final
@dataclass(frozen=True, eq=False)
class _Askings:
    """Who was asked, what, or both at once."""

    index: IntArray
    n_labels: int
    judge: IntArray | None
    n_judges: int
    question: IntArray | None
    n_questions: int

    @classmethod
    def of(cls, judged: ComparisonTable | None, asked: ComparisonTable | None) -> Self | None:
        judge = None if judged is None else judged.judge
        question = None if asked is None else asked.question
        if judge is None and question is None:
            return None
        if question is None:
            assert judge is not None
            return cls(judge.index, judge.n_names, np.arange(judge.n_names), judge.n_names, None, 0)
        n = question.n_names
        if judge is None:
            return cls(question.index, n, None, 0, np.arange(n), n)
        # only those judges and questions that occur together
        both, index = np.unique(judge.index * n + question.index, return_inverse=True)
        of_judge, of_question = np.divmod(both, n)
        return cls(index, len(both), of_judge, judge.n_names, of_question, n)

    def of_labels(self, label: IntArray) -> tuple[IntArray | None, int, IntArray | None, int]:
        """Return judges and questions with their numbers."""
        judge = None if self.judge is None else self.judge[label]
        question = None if self.question is None else self.question[label]
        return judge, self.n_judges, question, self.n_questions


def _distinct_rows(code: IntArray, columns: FloatArray) -> tuple[IntArray, IntArray]:
    """Return a row for each distinct (code, columns), sorted, and the number of each row's."""
    row = np.zeros(0, dtype=np.intp)
    for column in columns.T:
        _, level = np.unique(column, return_inverse=True)
        _, code = np.unique(code, return_inverse=True)
        _, row, code = np.unique(
            code * (int(level.max()) + 1) + level, return_index=True, return_inverse=True
        )
    return row, code


def _occurring(total: FloatArray) -> tuple[IntArray, FloatArray, FloatArray, FloatArray]:
    """Return the codes that occur, and the weight of the answers 0, 1 and 2 of each."""
    codes = np.flatnonzero(total @ np.ones(3))  # weights are above 0
    return codes, *np.ascontiguousarray(total[codes].T)


def _counted(
    code: IntArray, n_codes: int, answer: IntArray, weight: FloatArray
) -> tuple[IntArray, FloatArray, FloatArray, FloatArray]:
    """Return the distinct codes, sorted, and the weight of the answers 0, 1 and 2 of each."""
    key, n_keys = 3 * code + answer, 3 * n_codes
    # few possible keys: count them without sorting
    if n_keys <= KEYS_PER_ROW * len(key):
        return _occurring(sum_by(key, weight, n_keys).reshape(-1, 3))
    # equal weights: run lengths of the sorted keys; otherwise sums over the runs
    if (weight == weight[0]).all():
        key = np.sort(key)
        starts = np.flatnonzero(np.append(True, key[1:] != key[:-1]))
        sums = weight[0] * np.diff(np.append(starts, len(key)))
    else:
        order = np.argsort(key)
        key = key[order]
        starts = np.flatnonzero(np.append(True, key[1:] != key[:-1]))
        sums = np.add.reduceat(weight[order], starts)
    # weights of the answers of each code
    of_keys, which = np.divmod(key[starts], 3)
    is_new = np.append(True, of_keys[1:] != of_keys[:-1])
    total = np.zeros((3, int(is_new.sum())))
    total[which, np.cumsum(is_new) - 1] = sums
    return of_keys[is_new], *total


@final
@dataclass(frozen=True, eq=False)
class Answers:
    """Hold the log-likelihood of all cells, and its derivatives in the lead s and the width.

    The first item wins with probability p = sigma(s - width), the second with
    q = sigma(-s - width), and the rest are ties (Rao and Kupper, 1967); a width of 0 is the model
    of Bradley and Terry. The log-likelihood is concave in s and width together.

    Parameters
    ----------
    value, slope, curvature : (n_cells,)
        The log-likelihood, its derivative in s, and minus the second derivative.
    by_width, width_curvature, mixed : (n_cells,)
        Derivative in the width, minus the second derivative, and minus the mixed one.
    """

    value: FloatArray
    slope: FloatArray
    curvature: FloatArray
    by_width: FloatArray
    width_curvature: FloatArray
    mixed: FloatArray

    @classmethod
    def at(cls, cells: Cells, s: FloatArray, width: FloatArray | float) -> Self:
        """Evaluate all cells. Where a lead is beyond 700, the value is not finite."""
        won, lost, tied = cells.won, cells.lost, cells.tied
        with np.errstate(all="ignore"):
            if not cells.has_ties:  # Bradley and Terry: no width, and q = 1 - p
                total, p, none = cells.total, 1.0 / (1.0 + np.exp(-s)), np.zeros(1)
                value = total * np.log(p) - lost * s
                return cls(value, won - total * p, total * p * (1.0 - p), none, none, none)
            # Rao and Kupper: p and q of a win and a loss, ties between them
            p, q = 1.0 / (1.0 + np.exp(width - s)), 1.0 / (1.0 + np.exp(width + s))
            up, down = (won + tied) * p * (1.0 - p), (lost + tied) * q * (1.0 - q)
            double = 2.0 * np.asarray(width)
            # derivatives in the width
            by_width = tied * (p + q + 2.0 / np.expm1(double))
            by_width -= won * (1.0 - p) + lost * (1.0 - q)
            width_curvature = up + down + tied / np.sinh(0.5 * double) ** 2
            # value and derivatives in the lead
            slope = won * (1.0 - p) - lost * (1.0 - q) + tied * (q - p)
            value = (won + tied) * np.log(p) + (lost + tied) * np.log(q)
            value += tied * (double + np.log(-np.expm1(-double)))
            return cls(value, slope, up + down, by_width, width_curvature, down - up)

    @classmethod
    def by_odds(cls, cells: Cells, s: FloatArray, log_odds: FloatArray | float) -> Self:
        """Evaluate the model of Davidson (1970), with the logarithm of its odds for a width.

        The odds of a win to a loss are exp(s), and those of a tie to their geometric mean are nu:
        p = exp(s / 2) / Z with Z = exp(s / 2) + exp(-s / 2) + nu. It is concave in s and log nu.
        """
        total = cells.total
        with np.errstate(all="ignore"):
            up, nu = np.exp(0.5 * s), np.exp(log_odds)
            z = up + 1.0 / up + nu
            p, q, t = up / z, 1.0 / (up * z), nu / z
            value = 0.5 * (cells.won - cells.lost) * s + cells.tied * log_odds - total * np.log(z)
            slope = 0.5 * (cells.won - cells.lost - total * (p - q))
            curvature = 0.25 * total * (p + q - (p - q) ** 2)
            by_width, width_curvature = cells.tied - total * t, total * t * (1.0 - t)
            return cls(
                value, slope, curvature, by_width, width_curvature, -0.5 * total * t * (p - q)
            )


def log_likelihoods(cells: Cells, s: FloatArray, width: FloatArray | float) -> FloatArray:
    """Return the log-likelihood of every cell at leads s, however large."""
    if not cells.has_ties:
        log_q = log_expit(-s)
        return cells.won * (log_q + s) + cells.lost * log_q
    log_p, log_q = log_expit(s - width), log_expit(-s - width)
    double = 2.0 * np.asarray(width)
    of_ties = log_p + log_q + double + np.log(-np.expm1(-double))
    return cells.won * log_p + cells.lost * log_q + cells.tied * of_ties


@final
@dataclass(frozen=True, eq=False)
class PairedModel(ScoreModel):
    """Let the lead of the first item be reliability * (f_first - f_second + covariates @ effects).

    Parameters
    ----------
    cells : Cells
    reliability : (n_cells,) or None
        The judge's factor of a lead; 1 by default.
    width : (n_cells,) or None
        Lead within which a judge ties, or the log odds of a tie. If None, and there are ties, one
        width is the first parameter; the effects of covariates follow.
    variance : (n_cells,) or None
        Variance of every lead, over which the log-likelihood is averaged; it needs a width.
    ties : {"lead", "odds"}
        Whether short leads tie (Rao and Kupper), or a tie has odds (Davidson).
    """

    cells: Cells
    reliability: FloatArray | None = None
    width: FloatArray | None = None
    variance: FloatArray | None = None
    ties: TieModel = "lead"

    def lead_variance(
        self,
        f: FloatArray,  # noqa: ARG002
        parameters: FloatArray,  # noqa: ARG002
        spread: ScoreSpread,
    ) -> FloatArray:
        """Return the variance of the lead of the first item in every cell."""
        return spread.lead_variance(self.cells.first, self.cells.second)

    def judge_information(
        self, f: FloatArray, parameters: FloatArray, spread: ScoreSpread
    ) -> tuple[FloatArray, FloatArray]:
        """Sum the curvatures of a judge's cells times the variances of their leads."""
        cells, variance = self.cells, self.lead_variance(f, parameters, spread)
        cluster, n_clusters = cells.clusters
        weight = self._flatness * self._factor**2 * self.answers(f, parameters).curvature
        information = sum_by(cluster, weight * variance, n_clusters)
        return information, sum_by(cluster, np.ones(cells.n_cells), n_clusters)

    def averaged(self, parameters: FloatArray, variance: FloatArray) -> Self:
        """Average over leads f_first - f_second of this variance, with the width as learned."""
        width = self.width
        if self.learns_width:
            width = np.full(self.cells.n_cells, parameters[0])
        return replace(self, width=width, variance=self._factor**2 * variance)

    def kept(self, parameters: FloatArray) -> FloatArray:
        """Return the effects: the width stays."""
        return self.effects(parameters)

    def effects(self, parameters: FloatArray) -> FloatArray:
        """Return the effects of covariates, which follow the width."""
        return parameters[1:] if self.learns_width else parameters

    @property
    def n_items(self) -> int:
        """Number of items."""
        return self.cells.n_items

    @property
    def learns_width(self) -> bool:
        """Whether the width is the first parameter."""
        return self.width is None and self.cells.has_ties

    @property
    def start(self) -> FloatArray:
        """A width that gives the share of ties to equal items, and no effects."""
        effects = np.zeros(self.cells.covariates.shape[1])
        if not self.learns_width:
            return effects
        share = self.cells.tied.sum() / self.cells.total.sum()
        share = min(max(float(share), 1e-3), 0.9)
        width = np.log((1.0 + share) / (1.0 - share))
        return np.append(np.log(np.expm1(width)) if self.ties == "odds" else width, effects)

    @cached_property
    def _flatness(self) -> FloatArray | float:
        if self.variance is None:
            return 1.0
        if self.ties == "lead" or self.width is None:
            return flatness(self.variance)
        # log Z bends by 1 / (4 + 2 nu) at a lead of 0, where log sigma bends by 1 / 4
        return flatness(self.variance / (1.0 + 0.5 * np.exp(self.width)) ** 2)

    @cached_property
    def _factor(self) -> FloatArray | float:
        return 1.0 if self.reliability is None else self.reliability

    def leads(self, f: FloatArray, parameters: FloatArray) -> FloatArray:
        """Return the lead of the first item in every cell, before reliability."""
        s = f[self.cells.first] - f[self.cells.second]
        effects = self.effects(parameters)
        return s + self.cells.covariates @ effects if len(effects) else s

    def _leads_and_width(
        self, f: FloatArray, parameters: FloatArray
    ) -> tuple[FloatArray, FloatArray | float]:
        k, leads, width = self._flatness, self.leads(f, parameters), self._width_at(parameters)
        leads = leads if self.reliability is None else self.reliability * leads
        if self.variance is None:
            return leads, width
        return k * leads, width if self.ties == "odds" else k * width

    def answers(self, f: FloatArray, parameters: FloatArray) -> Answers:
        """Return the derivatives of the log-likelihood of all cells."""
        return self.answers_at(*self._leads_and_width(f, parameters))

    def answers_at(self, s: FloatArray, width: FloatArray | float) -> Answers:
        """Return the derivatives of the log-likelihood of all cells, by leads and widths."""
        return (Answers.by_odds if self.ties == "odds" else Answers.at)(self.cells, s, width)

    def _width_at(self, parameters: FloatArray) -> FloatArray | float:
        if self.learns_width:
            return float(parameters[0])
        return 0.0 if self.width is None else self.width

    def tie_width(self, parameters: FloatArray) -> float:
        """Return the lead within which answers tie, or that would tie equal items as often."""
        if not self.learns_width:
            return 0.0
        return float(np.log1p(np.exp(parameters[0])) if self.ties == "odds" else parameters[0])

    def likelihoods(self, s: FloatArray, parameters: FloatArray) -> FloatArray:
        """Return the log-likelihood of every cell at leads of scores s, (n_points, n_cells)."""
        effects = self.effects(parameters)
        leads = s + self.cells.covariates @ effects if len(effects) else s
        leads, width = self._factor * leads, self._width_at(parameters)
        if self.ties == "odds":
            return self.answers_at(leads, width).value
        return log_likelihoods(self.cells, leads, width)

    def expand(self, f: FloatArray, parameters: FloatArray) -> LocalExpansion:
        """Return the log-likelihood and its derivatives."""
        cells, a = self.cells, self._factor
        # derivatives in the leads, then in the scores by the factors of the leads
        found = self.answers(f, parameters)
        slope, weight, value = found.slope, found.curvature, found.value
        if self.reliability is not None:
            slope, weight = a * slope, a * a * weight
        if self.variance is not None:
            weight, value = self._flatness * weight, value / self._flatness
        total = float(value.sum()) if self._is_in_domain(parameters) else -np.inf
        # in the scores: gradient, and the Laplacian of the curvatures
        of_scores = cells.scatter(slope), cells.degrees(weight), cells.weighted(weight)
        if len(parameters) == 0:
            none = np.zeros((cells.n_items, 0))
            return LocalExpansion(total, *of_scores, parameters, none, np.zeros((0, 0)))
        # in the effects of covariates, and mixed with the scores
        x = cells.covariates
        gradient, curvature = x.T @ slope, x.T @ (weight[:, None] * x)
        mixed = [cells.scatter(weight * column) for column in x.T]
        if self.learns_width:
            # in the width, which comes first
            mixed_width = x.T @ (a * found.mixed)
            gradient = np.append(found.by_width.sum(), gradient)
            top = np.append(found.width_curvature.sum(), mixed_width)
            curvature = np.block(
                [[top[:1, None], top[None, 1:]], [mixed_width[:, None], curvature]]
            )
            mixed.insert(0, cells.scatter(a * found.mixed))
        return LocalExpansion(total, *of_scores, gradient, np.stack(mixed, 1), curvature)

    def _is_in_domain(self, parameters: FloatArray) -> bool:
        """Whether the width is above 0."""
        return self.ties == "odds" or not self.learns_width or bool(parameters[0] > 0.0)

    def noise_root(self, f: FloatArray, parameters: FloatArray, *, clustered: bool) -> csc_array:
        """Return a column for every cell, or for every judge or question."""
        cells, found = self.cells, self.answers(f, parameters)
        rows = np.stack([cells.first, cells.second], 1).ravel()
        if clustered:
            cluster, n_clusters = cells.clusters
            value, shape = self._factor * found.slope, (cells.n_items, n_clusters)
            values, columns = np.stack([value, -value], 1).ravel(), np.repeat(cluster, 2)
            return csc_array((values, (rows, columns)), shape=shape)
        value = self._factor * np.sqrt(self._flatness * found.curvature)
        values, starts = np.stack([value, -value], 1).ravel(), np.arange(0, len(rows) + 1, 2)
        return csc_array((values, rows, starts), shape=(cells.n_items, cells.n_cells))


def odds_of_ties(
    model: PairedModel, f: FloatArray, parameters: FloatArray
) -> tuple[float, float, float]:
    """Return the factor of scores, the log odds of ties, and how probable they are, in log odds.

    Near its mode, scores f and the width of one model tell those of the other up to a factor. Both
    models may scale the scores, since a prior has made them smaller.

    Parameters
    ----------
    model : PairedModel
        With a width that is learned.
    f, parameters : (n_items,), (n_parameters,)
        The mode.
    """
    leads, width = model.leads(f, parameters), float(parameters[0])
    by_lead = _scaled(model, leads, 1.0, width)
    odds = replace(model, ties="odds")
    by_odds = _scaled(odds, leads, 2.0 * float(expit(width)), float(np.log(np.expm1(width))))
    factor, gain = by_odds[0] / by_lead[0], by_odds[2] - by_lead[2] + ODDS_PRIOR
    return factor, by_odds[1], gain if factor > 0.0 and np.isfinite(gain) else -np.inf


def _scaled(
    model: PairedModel, leads: FloatArray, factor: float, width: float
) -> tuple[float, float, float]:
    """Maximise over a factor of all leads and the width; return both and the log-likelihood."""
    for _ in range(TIE_STEPS):
        found = model.answers_at(factor * leads, width)
        mixed = float(leads @ found.mixed)
        own = float(leads**2 @ found.curvature) + 1e-9, float(found.width_curvature.sum())
        gradient = np.array([float(leads @ found.slope), float(found.by_width.sum())])
        step = np.linalg.solve(np.array([[own[0], mixed], [mixed, own[1]]]), gradient)
        factor, before = factor + float(step[0]), width
        width = before + float(step[1])
        if model.ties == "lead":
            width = max(width, 0.5 * before)
    return factor, width, float(model.answers_at(factor * leads, width).value.sum())
