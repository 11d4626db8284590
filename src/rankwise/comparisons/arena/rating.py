"""Leaderboards of named items from comparisons or rankings, without features."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from functools import cached_property, partial
from typing import Any, Literal, Self, TypeAlias, TypeVar, final

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import csc_array, csr_array, triu
from scipy.special import expit, ndtri

from rankwise.comparisons.arena.decay import learned_half_life
from rankwise.comparisons.arena.deviation import (
    deviations_of_many,
    plausible_deviations,
    plausible_deviations_of_choices,
)
from rankwise.comparisons.arena.groups import groups_of, refuse_unbeaten
from rankwise.comparisons.arena.judges import fitted_judges, judge_report
from rankwise.comparisons.arena.newton import (
    LOOSE_DEVIATION_TOL,
    LocalExpansion,
    Mode,
    ScoreModel,
    ScoreSpread,
    approximate_mode,
    flatness,
    refined_mode,
)
from rankwise.comparisons.arena.paired import Cells, PairedModel, odds_of_ties
from rankwise.comparisons.audit.audit import Audit
from rankwise.comparisons.audit.evidence import Evidence
from rankwise.comparisons.judges import JudgeReport
from rankwise.comparisons.leaderboard import (
    Effect,
    Leaderboard,
    RankSpread,
    TieModel,
    win_and_loss,
)
from rankwise.core.arrays import FloatArray, IntArray, sum_by
from rankwise.core.checks import check_flag, real_number
from rankwise.core.comparisons.choice_table import ChoiceTable
from rankwise.core.comparisons.comparison_table import ComparisonTable
from rankwise.core.errors import InvalidInputError
from rankwise.core.params import Share, check_value
from rankwise.core.threads import few_threads
from rankwise.io.choices import read_answers
from rankwise.io.comparison_columns import ComparisonColumns
from rankwise.io.comparisons import read_comparisons
from rankwise.rankers.base import generator


@final
@dataclass(frozen=True, eq=False)
class ChosenModel(ScoreModel):
    """Let an item be chosen as the best with probability proportional to exp(f), worst to exp(-f).

    Parameters
    ----------
    table : ChoiceTable
    flatness : (n_choices,) or None
        Factor of the scores, and divisor of the log-likelihood, when it is averaged over uncertain
        scores.
    """

    table: ChoiceTable
    flatness: FloatArray | None = None

    @property
    def n_items(self) -> int:
        """Number of items."""
        return self.table.n_items

    @property
    def start(self) -> FloatArray:
        """No further parameters."""
        return np.zeros(0)

    @cached_property
    def _starts(self) -> IntArray:
        return np.searchsorted(self.table.choice, np.arange(self.table.n_choices))

    @cached_property
    def _scale(self) -> FloatArray:
        """The factor of the scores in every choice."""
        return self.table.sign if self.flatness is None else self.table.sign * self.flatness

    @cached_property
    def _weight(self) -> FloatArray:
        """The factor of the curvature of every choice."""
        return self.table.weight if self.flatness is None else self.table.weight * self.flatness

    def _log_shares(self, f: FloatArray) -> tuple[FloatArray, FloatArray]:
        """Return the log of each entry's probability, and of the choice made."""
        table = self.table
        # log-sum-exp over the items of each choice
        logit = self._scale[table.choice] * f[table.item]
        top = np.maximum.reduceat(logit, self._starts)
        total = np.add.reduceat(np.exp(logit - top[table.choice]), self._starts)
        norm = top + np.log(total)
        return logit - norm[table.choice], self._scale * f[table.chosen] - norm

    def expand(self, f: FloatArray, parameters: FloatArray) -> LocalExpansion:
        """Return its derivatives: the curvature of a choice is diag(p) - p p'."""
        table, n_items = self.table, self.n_items
        log_shares, log_chosen = self._log_shares(f)
        p, weight = np.exp(log_shares), self._weight[table.choice]
        signed_weight = table.weight * table.sign
        # gradient: what was chosen, less what was expected
        slope = sum_by(table.chosen, signed_weight, n_items)
        slope -= sum_by(table.item, signed_weight[table.choice] * p, n_items)
        # curvature: diag(p) - p p', summed over choices
        P = self._shares(np.sqrt(weight) * p)
        PtP = csr_array(P.T @ P)
        diagonal = sum_by(table.item, weight * p, n_items) - PtP.diagonal()
        upper, none = csr_array(triu(PtP, 1)), np.zeros((n_items, 0))
        log_chosen = log_chosen if self.flatness is None else log_chosen / self.flatness
        value = float(table.weight @ log_chosen)
        return LocalExpansion(value, slope, diagonal, upper, parameters, none, np.zeros((0, 0)))

    def _shares(self, values: FloatArray) -> csr_array:
        """Return values of entries as a matrix of choices and items."""
        table = self.table
        ends = np.append(self._starts, len(table.item))
        return csr_array((values, table.item, ends), shape=(table.n_choices, self.n_items))

    def lead_variance(
        self,
        f: FloatArray,
        parameters: FloatArray,  # noqa: ARG002
        spread: ScoreSpread,
    ) -> FloatArray:
        """Return the variance of the leads of every choice, weighted as in the choice.

        It is 2 trace((diag(p) - p p') covariance) / sum p (1 - p): for two items, of their lead.
        """
        p = np.exp(self._log_shares(f)[0])
        weight = np.add.reduceat(p * (1.0 - p), self._starts)
        return 2.0 * self._traces(p, spread) / np.maximum(weight, 1e-300)

    def _traces(self, p: FloatArray, spread: ScoreSpread) -> FloatArray:
        """Return trace((diag(p) - p p') covariance) of every choice."""
        own = np.add.reduceat(p * np.square(spread.std)[self.table.item], self._starts)
        return np.maximum(own - spread.quadratic_forms(self._shares(p)), 0.0)

    def judge_information(
        self,
        f: FloatArray,
        parameters: FloatArray,  # noqa: ARG002
        spread: ScoreSpread,
    ) -> tuple[FloatArray, FloatArray]:
        """Sum the traces of a judge's choices; one among m items has m - 1 contrasts."""
        table, p = self.table, np.exp(self._log_shares(f)[0])
        information = sum_by(table.judge, self._weight * self._traces(p, spread), table.n_judges)
        sizes = np.diff(np.append(self._starts, len(table.item)))
        return information, sum_by(table.judge, sizes - 1.0, table.n_judges)

    def averaged(self, parameters: FloatArray, variance: FloatArray) -> Self:  # noqa: ARG002
        """Flatten every choice by the variance of its leads."""
        return replace(self, flatness=flatness(variance))

    def kept(self, parameters: FloatArray) -> FloatArray:
        """Return the parameters: there are none."""
        return parameters

    def noise_root(self, f: FloatArray, parameters: FloatArray, *, clustered: bool) -> csc_array:  # noqa: ARG002
        """Return a column for every entry, or for every judge."""
        table, n_items = self.table, self.n_items
        p = np.exp(self._log_shares(f)[0])
        if clustered:
            signed_weight = table.weight * table.sign
            rows = np.concatenate([table.chosen, table.item])
            values = np.concatenate([signed_weight, -signed_weight[table.choice] * p])
            columns = np.concatenate([table.judge, table.judge[table.choice]])
            return csc_array((values, (rows, columns)), shape=(n_items, table.n_judges))
        # root of diag(p) - p p': a column for each entry, less its mean in the choice
        n_entries = len(p)
        root = np.sqrt(self._weight[table.choice] * p)
        entry = np.arange(n_entries)
        own = csr_array((root, (table.item, entry)), shape=(n_items, n_entries))
        of_choice = csr_array((root, (table.choice, entry)), shape=(table.n_choices, n_entries))
        return csc_array(own - self._shares(p).T @ of_choice)


N_DRAWS, N_DRAWS_MANY = 2000, 200
"""Draws from which ranks are counted: for few items, and for several hundred."""

AVERAGE_ROUNDS, SMALL_VARIANCE, SETTLED = 4, 0.02, 0.03
"""Rounds of averaging over leads, the mean variance of a lead below which there are none, and the
change of the logarithm of the deviation below which many items need no more."""

NO_PRIOR = 1e4
"""Deviation that stands for no prior: it moves scores by less than a millionth."""

AnyModel = TypeVar("AnyModel", bound=ScoreModel)
Estimate: TypeAlias = Literal["mean", "map"]

FLIP_RATE = 0.02
"""How often win and loss are exchanged, before anything is known about an answer."""


def leaderboard(
    comparisons: Any,
    columns: ComparisonColumns | None = None,
    *,
    judges: bool = False,
    clustered: bool | Literal["question"] = False,
    first: bool = False,
    half_life: float | Literal["auto"] | None = None,
    deviation: float | None = None,
    estimate: Estimate = "mean",
    ties: TieModel | None = None,
    level: float = 0.9,
    random_state: Any = None,
) -> Leaderboard:
    r"""Rank named items from who beat whom, with intervals of scores and ranks.

    Item i beats j with probability :math:`\sigma(f_i - f_j - w)` and loses with probability
    :math:`\sigma(f_j - f_i - w)`; the rest are ties (Bradley and Terry; Rao and Kupper). Or wins,
    losses and ties are as :math:`e^{(f_i - f_j) / 2}`, :math:`e^{(f_j - f_i) / 2}` and
    :math:`\nu` (Davidson), whichever makes the answers likelier. The scores have the prior
    N(0, deviation^2), whose deviation is learned, so that items with few answers stay near the
    mean. Newton's method on aggregated comparisons costs O(n_rows) once and
    O(n_pairs) per step; memory is linear in the number of distinct pairs.

    Parameters
    ----------
    comparisons
        A CSV, TSV, Parquet or Excel file, a pandas, polars or pyarrow frame, a dictionary of
        columns, rows (winner, loser) or (a, b, who won), or a `ComparisonTable`. For the model of
        Plackett and Luce, rankings or best-worst choices: a `ChoiceTable`, or a source of
        `read_choices`.
    columns : ComparisonColumns, optional
        The columns by name, among them covariates and ``home``, whose effects are estimated; the
        others are found by common names.
    judges : bool
        Whether to learn how often each judge ties and how reliable each one is.
    clustered : bool or "question"
        Whether answers of one judge, or to one question, depend on each other, so that intervals
        are based on the number of judges or questions, not of answers.
    first : bool
        Whether to estimate the effect of being the first of the two shown.
    half_life : float or "auto", optional
        Days after which the weight of a comparison is halved; needs dates. ``"auto"`` takes what
        predicts later comparisons from earlier ones best, among half-lives from a 64th of the time
        that the comparisons span to no decay at all; it costs up to 45 fits. Intervals are of the
        last scores, and allow for how far they moved.
    deviation : float, optional
        Standard deviation of the scores; by default learned. ``numpy.inf`` is no prior at all,
        maximum likelihood, for items of which each has lost, if indirectly, to every other one.
    estimate : {"mean", "map"}
        What the scores are: the mean of the posterior, or its maximum.
    ties : {"lead", "odds"}, optional
        The model of ties, that of Rao and Kupper or that of Davidson; by default the likelier one,
        and that of Davidson where answers hardly tell. With ``judges=True`` that of Rao and Kupper.
    level : float
        Probability of the intervals.
    random_state : int, RandomState or None
        Source of the draws from which ranks are counted.

    Notes
    -----
    Items that never met, not even through others, form groups; scores, ranks and probabilities hold
    inside a group.

    The prior of the deviation is half of a Cauchy distribution of scale 1. Where few items are
    compared, or many that hardly differ, or most have few answers, the deviation is uncertain: its
    posterior is found by expectation propagation, and five deviations stand for it (three of a
    Gaussian for more than 600 items). Intervals of scores hold both models of ties, whose scales
    differ, by their probabilities.

    Up to 600 items, intervals come from the exact Gaussian at the mean. For more items they come
    from conjugate gradients with random right-hand sides, and ranks treat scores as independent.
    The total cost is one to four times that of a plain Newton fit with a known deviation.

    Examples
    --------
    >>> from rankwise import leaderboard
    >>> battles = [("x", "y", "a"), ("y", "z", "a"), ("z", "x", "b"), ("x", "y", "tie")] * 10
    >>> board = leaderboard(battles, random_state=0)
    >>> [row["item"] for row in board.rows()]
    ['x', 'y', 'z']
    """
    by = _checked_clusters(judges=judges, clustered=clustered, first=first)
    _check_request(level, estimate, ties, deviation, judges=judges)
    # choices among several: Plackett and Luce
    rng, table = generator(random_state), read_answers(comparisons, columns)
    rating = _Rating(rng, deviation, estimate, level, judges, by, first, ties)
    if isinstance(table, ChoiceTable):
        if judges or first or half_life is not None:
            raise InvalidInputError(
                "`judges`, `first` and `half_life` need comparisons of two items: got rankings "
                "or choices among several. Leave them out."
            )
        with few_threads(table.n_items):
            board = rating.of_choices(table)
            return replace(board, reading_=(*table.reading, *_group_note(board)))
    # comparisons of two: Bradley and Terry, with ties by Rao and Kupper or Davidson
    if by == "question" and table.question is None:
        raise InvalidInputError(
            "clustered='question' must come with a column of questions: the comparisons have none. "
            "Name it."
        )
    if (judges or by is True) and table.judge is None:
        raise InvalidInputError(
            "`judges` and `clustered` need a column of judges: the comparisons have none. "
            "Name the column of the judges."
        )
    with few_threads(table.n_items):
        notes: tuple[str, ...] = ()
        if isinstance(half_life, str) and half_life == "auto":
            half_life = learned_half_life(table, rating.of_comparisons)
            notes = (_half_life_note(half_life),)
        if half_life is not None:
            table, rating = rating.faded(table, half_life)
        board = rating.of_comparisons(table)
        reading = (*table.reading, *notes, *_group_note(board))
        return replace(board, reading_=reading, auditor=partial(_audited, rating, table))


def _checked_clusters(
    *, judges: bool, clustered: bool | Literal["question"], first: bool
) -> bool | Literal["question"]:
    """Check what is yes or no; return whose answers depend on each other."""
    by_question = isinstance(clustered, str) and clustered == "question"
    flags = {"judges": judges, "clustered": by_question or clustered, "first": first}
    for name, flag in flags.items():
        check_flag(name, flag)
    return "question" if by_question else bool(clustered)


def _check_request(
    level: float, estimate: str, ties: str | None, deviation: float | None, *, judges: bool
) -> None:
    """Refuse what cannot be asked of a leaderboard."""
    check_value("level", level, Share)
    check_value("estimate", estimate, Estimate)
    check_value("ties", ties, TieModel | None)
    if judges and ties == "odds":
        raise InvalidInputError(
            "ties='odds' must be without judges=True, whose judges differ in the leads within "
            "which they tie. Leave `ties` out."
        )
    if deviation is not None and not _is_deviation(deviation):
        raise InvalidInputError(
            f"`deviation` must lie between 1e-100 and 1e100: got {deviation!r}. Leave it out to "
            "learn it."
        )


def _is_deviation(deviation: Any) -> bool:
    """Tell whether a value is a deviation that doubles can hold, or infinite."""
    value = real_number(deviation)
    return value == np.inf or 1e-100 < value < 1e100


def _audited(rating: _Rating, table: ComparisonTable, board: Leaderboard) -> Audit:
    """Return the audit of a leaderboard made from a table."""

    def rate(
        table: ComparisonTable, *, first: bool = rating.first, clustered: bool = False
    ) -> Leaderboard:
        other = replace(rating, clustered="question" if clustered else False, first=first)
        return other.of_comparisons(table)

    with few_threads(table.n_items):
        return Audit.of(Evidence(table, board, rate, board.level, np.random.default_rng(0)))


def _group_note(board: Leaderboard) -> tuple[str, ...]:
    if board.n_groups == 1:
        return ()
    return (f"{board.n_groups} groups of items never met: ranked inside groups",)


def _half_life_note(half_life: float) -> str:
    if half_life == np.inf:
        return "half-life: none, since no decay predicts later comparisons best"
    return f"half-life: {half_life:.3g} days, which predict later comparisons best"


@final
@dataclass(frozen=True, eq=False)
class _ArenaFit:
    """A model at its mode, and what else the leaderboard needs.

    Where the deviation of the scores is uncertain there are several models, one for each deviation,
    in equal shares. Scores have a scale that depends on the model of ties; ``scale_std`` is the
    deviation of its factor.
    """

    modes: tuple[tuple[ScoreModel, Mode], ...]
    answers: FloatArray
    effect_names: tuple[str, ...] = ()
    usual: FloatArray = field(default_factory=lambda: np.zeros(0))
    width: float = 0.0
    ties: TieModel = "lead"
    scale_std: float = 0.0
    judges: JudgeReport | None = None

    @property
    def mode(self) -> Mode:
        """The mode at the middle deviation."""
        return self.modes[len(self.modes) // 2][1]


@final
@dataclass(frozen=True, eq=False)
class _Rating:
    """What was asked of a leaderboard, beside the answers."""

    rng: np.random.Generator
    deviation: float | None
    estimate: Estimate
    level: float
    judges: bool
    clustered: bool | Literal["question"]
    first: bool
    ties: TieModel | None = None
    drift_share: float = 1.0

    def faded(self, table: ComparisonTable, half_life: float) -> tuple[ComparisonTable, Self]:
        """Return comparisons whose weights fade, and what rates them.

        Scores that move are off by the noise of the answers, which the effective number of answers
        tells, and by how far they moved since: for a random walk that decay follows best, each as
        much as the other. Their spread is that of the faded weights themselves, whose sum is the
        ``drift_share`` of the effective number: a half of it where all fades, all of it without
        decay.
        """
        faded = table.decayed(half_life)
        assert table.date is not None
        last = int(np.argmax(table.date))
        share = float(table.weight[last] / faded.weight[last])
        return faded, replace(self, drift_share=share)

    def of_comparisons(self, table: ComparisonTable) -> Leaderboard:
        """Rate items by comparisons of two."""
        table = table.with_order() if self.first else table
        by_question = self.clustered == "question"
        by_judge = self.judges or self.clustered is True
        cells = Cells.of(table, table.covariates, by_judge=by_judge, by_question=by_question)
        if self.deviation == np.inf:
            refuse_unbeaten(table)
        group = groups_of(cells.first, cells.second, cells.n_items)
        return self._board(table.names, self._fitted(table, cells), group)

    def of_choices(self, table: ChoiceTable) -> Leaderboard:
        """Rate items by choices among several."""
        if self.deviation == np.inf:
            raise InvalidInputError(
                "`deviation` must be finite for rankings and choices: got inf. Leave it out to "
                "learn it."
            )
        model = ChosenModel(table)
        answers = sum_by(table.item, table.weight[table.choice], table.n_items)
        mode = approximate_mode(model, self.deviation, self.rng, tol=LOOSE_DEVIATION_TOL)
        group = groups_of(table.chosen[table.choice], table.item, table.n_items)
        return self._board(table.names, _ArenaFit(self._modes(model, mode), answers), group)

    def _fitted(self, table: ComparisonTable, cells: Cells) -> _ArenaFit:
        names, deviation = table.covariate_names, self._prior_deviation
        usual = np.where(np.ptp(table.covariates, axis=0) == 0.0, table.covariates[0], 0.0)
        answers = cells.degrees(cells.total)
        # scores and habits of judges in turn
        if self.judges:
            assert table.judge is not None
            model, mode, habits = fitted_judges(cells, deviation, self.rng)
            report = judge_report(table.judge.names, cells, model, mode, habits)
            width = float(np.exp(habits.mean_width)) if cells.has_ties else 0.0
            modes = self._modes(model, mode)
            return _ArenaFit(modes, answers, names, usual, width, judges=report)
        # one width for all, or odds of ties: the mode, which the averages start from
        model = PairedModel(cells)
        mode = approximate_mode(model, deviation, self.rng, tol=LOOSE_DEVIATION_TOL)
        if not model.learns_width:
            return _ArenaFit(self._modes(model, mode), answers, names, usual)
        mode = refined_mode(model, mode)
        factor, log_odds, gain = odds_of_ties(model, mode.f, mode.parameters)
        if self.ties is not None:
            gain = np.inf if self.ties == "odds" else -np.inf
        other = 1.0 / factor if gain > 0.0 else factor
        scale_std = abs(other - 1.0) * float(np.sqrt(expit(-abs(gain))))
        if gain > 0.0:
            model = replace(model, ties="odds")
            mode = self._mode_by_odds(model, mode, factor, log_odds)
        width = model.tie_width(mode.parameters)
        modes = self._modes(model, mode)
        return _ArenaFit(modes, answers, names, usual, width, model.ties, scale_std)

    def _mode_by_odds(self, model: PairedModel, mode: Mode, factor: float, log_odds: float) -> Mode:
        """Return the mode where ties have odds, from that where short leads tie."""
        start = replace(
            mode,
            f=factor * mode.f,
            parameters=np.append(log_odds, factor * mode.parameters[1:]),
            deviation=mode.deviation if self.deviation is not None else factor * mode.deviation,
        )
        mode = approximate_mode(model, self._prior_deviation, self.rng, start)
        return refined_mode(model, mode)

    @property
    def _prior_deviation(self) -> float | None:
        return NO_PRIOR if self.deviation == np.inf else self.deviation

    def _modes(
        self, model: PairedModel | ChosenModel, mode: Mode
    ) -> tuple[tuple[ScoreModel, Mode], ...]:
        """Return the model and its mode, or the mean; for some deviations where they are unsure."""
        found = self._estimated(model, mode, self.deviation)
        if self.estimate == "map" or self.deviation is not None:
            return (found,)
        if not mode.precision.is_dense:
            deviations = deviations_of_many(found[1])
        elif isinstance(model, ChosenModel):
            deviations = plausible_deviations_of_choices(model, mode, found[1].deviation)
        else:
            spread = ScoreSpread.of(*found, self.rng, clustered=False)
            deviations = plausible_deviations(model, mode, spread)
        if deviations is None:
            return (found,)
        modes: list[tuple[ScoreModel, Mode]] = []
        for deviation in deviations.tolist():
            mode = refined_mode(model, replace(mode, deviation=deviation))
            modes.append(self._estimated(model, mode, deviation))
        return tuple(modes)

    def _estimated(
        self, model: AnyModel, mode: Mode, deviation: float | None
    ) -> tuple[AnyModel, Mode]:
        """Return the model and its mode, or the mean of the posterior."""
        if self.estimate == "map" or self.deviation == np.inf:
            return model, refined_mode(model, mode)
        return _averaged(model, mode, deviation, self.rng)

    def _board(self, names: NDArray[Any], fit: _ArenaFit, group: IntArray | None) -> Leaderboard:
        fit.mode.ending.warn()
        # scores around their mean with their spread, for every width of the prior
        centres = [_centred(mode.f, group) for _, mode in fit.modes]
        spreads = [
            ScoreSpread.of(*self._of_now(model, mode), self.rng, clustered=bool(self.clustered))
            for model, mode in fit.modes
        ]
        if group is not None:
            spreads = [spread.inside(group) for spread in spreads]
        # one Gaussian for the mixture, wider since the scale is not known exactly
        f, spread = ScoreSpread.mixed(centres, spreads)
        spread = spread.scaled(f, fit.scale_std)
        widening = spread.widening(self.level)
        return Leaderboard.of(
            names,
            f,
            spread.std,
            self._ranks(centres, spreads, (f, spread), widening, group),
            fit.answers,
            self.level,
            widening=widening,
            width=fit.width,
            ties=fit.ties,
            covariance=spread.covariance,
            effects=_effects(fit, self.level),
            judges=fit.judges,
            group=group,
        )

    def _of_now(self, model: ScoreModel, mode: Mode) -> tuple[ScoreModel, Mode]:
        """Return what the spread of scores that move comes from; judges tell theirs themselves."""
        if self.drift_share == 1.0 or self.clustered or not isinstance(model, PairedModel):
            return model, mode
        cells = model.cells.weighing(self.drift_share)
        now = replace(model, cells=cells)
        return now, replace(mode, point=now.expand(*mode.start))

    def _ranks(
        self,
        centres: list[FloatArray],
        spreads: list[ScoreSpread],
        mixed: tuple[FloatArray, ScoreSpread],
        widening: float,
        group: IntArray | None,
    ) -> RankSpread:
        """Count ranks over draws of the scores, wider for few degrees of freedom.

        Many items have no draws: their scores are taken for independent, around those of the
        mixture.
        """
        f, spread = mixed
        # ranks are counted inside groups that met
        members = [np.arange(len(f))]
        if group is not None:
            members = [np.flatnonzero(group == number) for number in range(group.max() + 1)]
        if spread.covariance is None:
            parts = [
                RankSpread.of_independent(f[at], widening * spread.std[at], self.level, self.rng)
                for at in members
            ]
        else:
            n_draws = (N_DRAWS if len(f) <= 200 else N_DRAWS_MANY) // len(spreads)
            draws = np.concatenate(
                [
                    centre + widening * one.draws(n_draws, self.rng)
                    for centre, one in zip(centres, spreads, strict=True)
                ]
            )
            parts = [RankSpread.of_draws(draws[:, at], self.level) for at in members]
        # back to the order of the items
        back = np.argsort(np.concatenate(members))
        low, high, best = (
            np.concatenate([getattr(part, name) for part in parts])[back]
            for name in ("low", "high", "best")
        )
        return RankSpread(low, high, best)


def _centred(f: FloatArray, group: IntArray | None) -> FloatArray:
    """Return scores around their mean, or the means of their groups."""
    if group is None:
        return f - f.mean()
    sizes = np.bincount(group)
    return f - (sum_by(group, f, len(sizes)) / sizes)[group]


def _averaged(
    model: AnyModel, mode: Mode, deviation: float | None, rng: np.random.Generator
) -> tuple[AnyModel, Mode]:
    """Move from the mode to the mean if leads are uncertain; the width stays.

    With few answers the posterior is skewed, and the Gaussian at its mode is too narrow.
    """
    found, is_dense = model, mode.precision.is_dense
    for _ in range(AVERAGE_ROUNDS):
        if is_dense:
            spread = ScoreSpread.of(found, mode, rng, clustered=False)
        else:
            spread = ScoreSpread.approximate(mode, rng)
        # average the log-likelihood over the leads, and maximise again
        variance = found.lead_variance(*mode.start, spread)
        if variance.mean() < SMALL_VARIANCE:
            break
        start = replace(mode, parameters=found.kept(mode.parameters))
        found = found.averaged(mode.parameters, variance)
        mode = approximate_mode(found, deviation, rng, start)
        # the deviation at a mode is too small; a few rounds find that at the mean
        if not is_dense and abs(np.log(mode.deviation / start.deviation)) < SETTLED:
            break
    return found, refined_mode(found, mode)


def _effects(fit: _ArenaFit, level: float) -> tuple[Effect, ...]:
    from_end = len(fit.effect_names)
    if from_end == 0:
        return ()
    half_width = float(ndtri(0.5 + 0.5 * level)) * fit.mode.parameter_deviations[-from_end:]
    values = fit.mode.parameters[-from_end:]
    return tuple(
        Effect(name, float(value), float(value - half), float(value + half), float(usual))
        for name, value, half, usual in zip(
            fit.effect_names, values, half_width, fit.usual, strict=True
        )
    )


def suspect_answers(
    comparisons: Any, board: Leaderboard, columns: ComparisonColumns | None = None
) -> tuple[IntArray, FloatArray]:
    """Return the rows that may have been recorded the wrong way round, most likely first.

    Parameters
    ----------
    comparisons
        The comparisons that the leaderboard was made from.
    board : Leaderboard
    columns : ComparisonColumns, optional

    Returns
    -------
    rows : (n_decided,)
        Row numbers of decided comparisons, in the source.
    probability : (n_decided,)
        The probability that win and loss were exchanged; the prior is one answer in fifty.

    Examples
    --------
    >>> from rankwise import leaderboard, suspect_answers
    >>> games = [("ann", "bob"), ("bob", "cid"), ("ann", "cid")] * 20 + [("cid", "ann")]
    >>> rows, probability = suspect_answers(games, leaderboard(games))
    >>> int(rows[0]), bool(probability[0] > 10 * probability[1])
    (60, True)
    """
    if not isinstance(board, Leaderboard):
        raise InvalidInputError(f"`board` must be a Leaderboard: got {type(board).__name__}.")
    table = read_comparisons(comparisons, columns)
    row_of = {name: row for row, name in enumerate(board.names.tolist())}
    score = board.score[[row_of[name] for name in table.names.tolist()]]
    rows, pairs = table.decided, table.pairs
    lead = score[pairs[:, 0]] - score[pairs[:, 1]]
    # posterior odds that win and loss were exchanged
    won, lost = win_and_loss(lead, np.zeros(1), board.width, board.link, board.ties)
    log_odds = np.log(FLIP_RATE / (1.0 - FLIP_RATE)) + np.log(lost / won)
    probability = expit(log_odds)
    order = np.argsort(-probability, kind="stable")
    return table.row[rows[order]], probability[order]
