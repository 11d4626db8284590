"""Large-margin learning of rankings: column generation with a certified duality gap."""

import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Literal, TypeAlias, final

import numpy as np

from rankwise.core.arrays import FloatArray, IntArray, freeze
from rankwise.rankers.dorm.losses import RankingLoss
from rankwise.rankers.dorm.oracles.plans import Scratch, make_scratch
from rankwise.rankers.dorm.planes import Aims
from rankwise.rankers.dorm.spaces import Space
from rankwise.solve.iteration import Interrupts, deferred_interrupts

Ending: TypeAlias = Literal["converged", "max_passes", "callback", "interrupted"]
Part: TypeAlias = Literal["oracle passes", "cached passes", "certificates"]

_PARTS: tuple[Part, ...] = ("oracle passes", "cached passes", "certificates")
_CHUNK = 2e8  # multiplications in one call of compiled code, at most


@final
@dataclass(frozen=True)
class Rule:
    """When to stop.

    Parameters
    ----------
    tol : float
        The duality gap that counts as solved, as a share of the objective.
    max_passes : int
        Number of passes with the oracle at most.
    """

    tol: float = 1e-3
    max_passes: int = 1000


@final
@dataclass(frozen=True)
class Progress:
    """Where a run stands after a pass over all queries."""

    C: float
    n_passes: int
    bound: float
    """Lower bound on the objective: the dual objective."""
    stale_gap: float
    """Sum of the gaps of the queries, each at its visit: an estimate of the gap."""
    objective: float
    """The best objective certified so far, inf before the first certificate."""


@final
@dataclass(frozen=True, eq=False)
class Solution:
    """A point, and the proof of how far its objective can be from the smallest.

    Parameters
    ----------
    C : float
        What multiplies the slacks.
    point : (n_features,) or (n_items,)
        The weights of the features, or of the items for a kernel.
    objective : float
        ``1/2 |w|^2 + C * sum of slacks`` at the point.
    bound : float
        The dual objective, which no point can go below.
    slacks : (n_queries,)
        At the point.
    n_passes, n_oracle_calls : int
        Passes over all queries, and calls of the oracle, those of certificates included.
    n_planes : int
        How many planes carry weight: the support of the solution.
    seconds : mapping
        Time spent in each part.
    ending : str
        Why the run ended.
    """

    C: float
    point: FloatArray
    objective: float
    bound: float
    slacks: FloatArray
    n_passes: int
    n_oracle_calls: int
    n_planes: int
    seconds: Mapping[Part, float]
    ending: Ending

    @property
    def gap(self) -> float:
        """How far the objective is from the bound, as a share of the objective."""
        return (self.objective - self.bound) / self.objective if self.objective > 0 else 0.0

    @property
    def converged(self) -> bool:
        """Whether the gap reached the tolerance."""
        return self.ending == "converged"


def solve(
    space: Space,
    loss: RankingLoss,
    C: float,
    rule: Rule | None = None,
    on_pass: Callable[[Progress], object] | None = None,
    rng: np.random.Generator | None = None,
) -> Solution:
    """Minimise ``1/2 |w - base|^2 + C * sum_q weight_q slack_q(w)``.

    Visits the queries in random order. A visit calls the oracle, takes the plane it finds into the
    working set of the query and maximises the dual over the weights of this set. Passes over the
    planes already known follow as long as they pay. A certificate, one call of the oracle for each
    query at a fixed point, proves the gap. Ctrl-C ends the run with what it has found.

    Parameters
    ----------
    space
        Where to search. It keeps its planes, so that solving again with another C starts from them:
        with a larger one from the same point.
    loss
        What to bound.
    C
        What multiplies the slacks.
    rule
        When to stop.
    on_pass
        Gets the ``Progress`` after each pass; stops the run by returning True.
    rng
        Draws the order of the visits.

    Notes
    -----
    The problem is [LS08] eq. (27), its dual (28). In place of solving (28) over all planes whenever
    one is found, as Algorithm 2 does, a visit improves the block of one query; both ascend the same
    dual.
    """
    rule, rng = rule or Rule(), rng or np.random.default_rng(0)
    run = _Run(space, loss, loss.aims(C), make_scratch(loss.plan))
    space.move_to(run.aims)
    ending: Ending = "max_passes"
    with deferred_interrupts() as interrupts:
        best = _Certificate(np.inf, np.zeros(0), np.zeros(0))
        share = 1.0 / 3.0  # of the stale gap that the true gap may be
        while ending == "max_passes" and run.n_passes < rule.max_passes:
            stale_gap = run.make_pass(rng, interrupts)
            bound = run.dual_objective()
            if share * stale_gap <= rule.tol * bound:
                best = run.certify(best)
                share = (best.objective - bound) / stale_gap if stale_gap > 0.0 else 1.0
            progress = Progress(C, run.n_passes, bound, stale_gap, best.objective)
            stop = on_pass is not None and on_pass(progress)
            if (1.0 - rule.tol) * best.objective <= bound:
                ending = "converged"
            elif interrupts.pending:
                ending = "interrupted"
            elif stop:
                ending = "callback"
        if ending != "converged":
            best = run.certify(best)
            if ending == "max_passes" and (1.0 - rule.tol) * best.objective <= run.dual_objective():
                ending = "converged"
    return run.report(C, best, ending)


def solve_path(
    space: Space,
    loss: RankingLoss,
    Cs: Sequence[float],
    rule: Rule | None = None,
    on_pass: Callable[[Progress], object] | None = None,
    rng: np.random.Generator | None = None,
) -> Iterator[Solution]:
    """Solve for each C in turn, every one starting from the planes of the one before.

    Ascending values make the most of that. See ``solve`` for the parameters.
    """
    rng = rng or np.random.default_rng(0)
    for C in Cs:
        solution = solve(space, loss, C, rule, on_pass, rng)
        yield solution
        if solution.ending in ("callback", "interrupted"):
            return


@final
@dataclass(frozen=True, eq=False)
class _Certificate:
    objective: float
    slacks: FloatArray
    point: FloatArray


@final
@dataclass(eq=False)
class _Run:
    """One run for one C: what it works on, and what it has cost so far."""

    space: Space
    loss: RankingLoss
    aims: Aims
    scratch: Scratch
    n_passes: int = 0
    n_oracle_calls: int = 0
    seconds: dict[Part, float] = field(default_factory=lambda: dict.fromkeys(_PARTS, 0.0))

    def make_pass(self, rng: np.random.Generator, interrupts: Interrupts) -> float:
        """Visit all queries with the oracle, then with known planes while that pays.

        Returns the sum of the queries' gaps, each at its visit; inf for a pass cut short.
        """
        queries = rng.permutation(np.flatnonzero(self.aims.C > 0.0))
        start, gap = time.perf_counter(), 0.0
        for chunk in self._chunks(queries):
            gap += self._visit(chunk)
            self.n_oracle_calls += len(chunk)
            if interrupts.pending:
                gap = np.inf
                break
        self.n_passes += 1
        self.seconds["oracle passes"] += time.perf_counter() - start
        start = time.perf_counter()
        for _ in range(self.space.max_cached):
            if interrupts.pending or self.space.revisit(self.aims, queries) <= 0.05 * gap:
                break
        self.seconds["cached passes"] += time.perf_counter() - start
        return gap

    def _visit(self, queries: IntArray) -> float:
        if self.loss.oracle is None:
            return self.space.visit(self.aims, self.scratch, queries)
        gap = 0.0
        for q in queries.tolist():
            beta, loss = self.loss.cut(self.loss.oracle, q, self.space.query_scores(q))
            gap += self.space.visit_given(self.aims, q, beta, loss)
        return gap

    def _chunks(self, queries: IntArray) -> list[IntArray]:
        """Split a pass into parts of a fraction of a second, so that Ctrl-C is noticed."""
        work = self.space.work_of_visits() * len(queries) / max(1, len(self.aims.C))
        return np.array_split(queries, max(1, int(work / _CHUNK)))

    def dual_objective(self) -> float:
        """Return the value that no objective can go below."""
        planes = self.space.planes
        gain = self.aims.C @ (planes.weights * planes.losses).sum(axis=1)
        norm, along_base = self.space.overlap()
        return float(gain - along_base - 0.5 * norm)

    def certify(self, best: _Certificate) -> _Certificate:
        """Return the better of the current point and the best so far."""
        start = time.perf_counter()
        self.space.refresh(self.aims)
        slacks = self.loss.slacks(self.space.scores())
        self.n_oracle_calls += len(slacks)
        objective = float(0.5 * self.space.overlap()[0] + self.aims.C @ slacks)
        self.seconds["certificates"] += time.perf_counter() - start
        if objective < best.objective:
            return _Certificate(objective, slacks, self.space.point.copy())
        return best

    def report(self, C: float, best: _Certificate, ending: Ending) -> Solution:
        """Put together the result."""
        weights = self.space.planes.weights
        return Solution(
            C,
            freeze(best.point),
            best.objective,
            self.dual_objective(),
            freeze(best.slacks),
            self.n_passes,
            self.n_oracle_calls,
            int(np.count_nonzero(weights[:, 1:])),
            dict(self.seconds),
            ending,
        )
