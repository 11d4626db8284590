"""Large-margin learning of rankings: column generation with a certified duality gap."""

import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Literal, TypeAlias, final

import numpy as np

from rankwise.core.arrays import FloatArray, IntArray, freeze
from rankwise.rankers.dorm.losses import RankingLoss
from rankwise.rankers.dorm.oracles.assignment import OracleTargets, Scratch, make_scratch
from rankwise.rankers.dorm.plane_spaces import PlaneSpace
from rankwise.solve.iteration import (
    Certificate,
    CertifiedSolution,
    Interrupts,
    Reason,
    Step,
    StepCallback,
    StoppingRule,
    deferred_interrupts,
    wants_to_stop,
)

Part: TypeAlias = Literal["oracle passes", "cached passes", "certificates"]

REMEDY = "Raise max_iter or tol, lower C, or scale the features."

_PARTS: tuple[Part, ...] = ("oracle passes", "cached passes", "certificates")
_CHUNK = 2e8  # multiplications in one call of compiled code, at most
_WORK_PER_ITEM = 100  # multiplications that the oracle and the planes cost, about
_WORTHWHILE = 0.05  # share of the gap that a pass over known planes has to find


def solve(
    space: PlaneSpace,
    loss: RankingLoss,
    C: float,
    rule: StoppingRule | None = None,
    on_step: StepCallback | None = None,
    rng: np.random.Generator | None = None,
) -> CertifiedSolution:
    """Minimise ``1/2 |w - w0|^2 + C * sum_q weight_q slack_q(w)``; w0 is an earlier function or 0.

    Visits the queries in random order. A visit calls the oracle, takes the plane it finds into the
    working set of the query and maximises the dual over the weights of this set. Passes over the
    planes already known follow as long as they find a fair share of the gap. A certificate, one
    call of the oracle for each query at a fixed point, proves the gap. Ctrl-C ends the run with
    what it has found.

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
        When to stop; an iteration is a pass over all queries with the oracle.
    on_step
        Gets a ``Step`` after each pass, whose error is the relative gap, an estimate as long as
        there is no objective; stops the run by returning True.
    rng
        Draws the order of the visits.

    Returns
    -------
    CertifiedSolution
        With details "slacks" (n_queries,) at the point, "n_oracle_calls", those of certificates
        included, "n_planes", the number of planes that carry weight, and "seconds" by part.

    Notes
    -----
    The problem is [LS08] eq. (27), its dual (28): structured estimation, (5) with the solution (6)
    and the dual (7), whose oracle is (8). In place of solving (28) over all planes whenever one is
    found, as Algorithms 1 and 2 do, a visit improves the block of one query; both ascend the same
    dual.
    """
    rule, rng = rule or StoppingRule(), rng or np.random.default_rng(0)
    run = _ColumnGeneration(C, space, loss, loss.targets(C), make_scratch(loss.plan))
    space.move_to(run.targets)
    with deferred_interrupts() as interrupts:
        reason = run.make_passes(rule, on_step, rng, interrupts)
    return run.report(rule, reason)


def solve_path(
    space: PlaneSpace,
    loss: RankingLoss,
    Cs: Sequence[float],
    rule: StoppingRule | None = None,
    on_step: StepCallback | None = None,
    rng: np.random.Generator | None = None,
) -> Iterator[CertifiedSolution]:
    """Solve for each C in turn, every one starting from the planes of the one before.

    Ascending values make the most of that. See ``solve`` for the parameters.
    """
    rng = rng or np.random.default_rng(0)
    for C in Cs:
        solution = solve(space, loss, C, rule, on_step, rng)
        yield solution
        if solution.ending.was_stopped:
            return


@final
@dataclass(frozen=True, eq=False)
class _Incumbent:
    """The best point certified so far."""

    objective: float
    slacks: FloatArray
    point: FloatArray


@final
@dataclass(eq=False)
class _ColumnGeneration:
    """One run for one C: what it works on, the best point, and what it has cost so far."""

    C: float
    space: PlaneSpace
    loss: RankingLoss
    targets: OracleTargets
    scratch: Scratch
    best: _Incumbent = field(default_factory=lambda: _Incumbent(np.inf, np.zeros(0), np.zeros(0)))
    n_passes: int = 0
    n_oracle_calls: int = 0
    seconds: dict[Part, float] = field(default_factory=lambda: dict.fromkeys(_PARTS, 0.0))

    def make_passes(
        self,
        rule: StoppingRule,
        on_step: StepCallback | None,
        rng: np.random.Generator,
        interrupts: Interrupts,
    ) -> Reason:
        """Make passes, with certificates where the gap may be small; return why they end."""
        share = 1.0 / 3.0  # of the stale gap that the true gap may be
        reason: Reason = "max_iter"
        while reason == "max_iter" and self.n_passes < rule.max_iter:
            stale_gap = self.make_pass(rng, interrupts)
            bound = self.dual_objective()
            if share * stale_gap <= rule.tol * bound:
                self.certify()
                share = (self.best.objective - bound) / stale_gap if stale_gap > 0.0 else 1.0
            stop = on_step is not None and wants_to_stop(on_step(self.step(bound, stale_gap)))
            if self.is_within(rule.tol, bound):
                reason = "converged"
            elif interrupts.pending:
                reason = "interrupted"
            elif stop:
                reason = "callback"
        if reason == "converged":
            return reason
        self.certify()
        is_solved = self.is_within(rule.tol, self.dual_objective())
        return "converged" if reason == "max_iter" and is_solved else reason

    def is_within(self, tol: float, bound: float) -> bool:
        """Tell whether the best objective is proved to be close enough to the smallest."""
        return (1.0 - tol) * self.best.objective <= bound

    def make_pass(self, rng: np.random.Generator, interrupts: Interrupts) -> float:
        """Visit all queries with the oracle, then with known planes while that is worthwhile.

        Returns the sum of the queries' gaps, each at its visit; inf for a pass cut short.
        """
        queries = rng.permutation(np.flatnonzero(self.targets.slack_weights > 0.0))
        chunks = self._chunks(queries)
        start, gap = time.perf_counter(), 0.0
        for chunk in chunks:
            gap += self._visit(chunk)
            self.n_oracle_calls += len(chunk)
            if interrupts.pending:
                gap = np.inf
                break
        self.n_passes += 1
        self.seconds["oracle passes"] += time.perf_counter() - start
        start = time.perf_counter()
        for _ in range(self.space.max_cached_passes):
            if interrupts.pending or self._revisit(chunks, interrupts) <= _WORTHWHILE * gap:
                break
        self.seconds["cached passes"] += time.perf_counter() - start
        return gap

    def _visit(self, queries: IntArray) -> float:
        if self.loss.oracle is None:
            return self.space.visit(self.targets, self.scratch, queries)
        gap = 0.0
        for q in queries.tolist():
            beta, loss = self.loss.cut(self.loss.oracle, q, self.space.query_scores(q))
            gap += self.space.visit_given(self.targets, self.scratch, q, beta, loss)
        return gap

    def _revisit(self, chunks: list[IntArray], interrupts: Interrupts) -> float:
        gap = 0.0
        for chunk in chunks:
            if interrupts.pending:
                break
            gap += self.space.revisit(self.targets, self.scratch, chunk)
        return gap

    def _chunks(self, queries: IntArray) -> list[IntArray]:
        """Split a pass into parts of a fraction of a second, so that Ctrl-C is noticed."""
        work = self.space.work_of_visits() + _WORK_PER_ITEM * len(self.loss.target)
        work *= len(queries) / max(1, len(self.targets.slack_weights))
        return np.array_split(queries, max(1, int(work / _CHUNK)))

    def step(self, bound: float, stale_gap: float) -> Step:
        """Return where the run stands."""
        label, objective = f"C={self.C:.3g}", self.best.objective
        if np.isfinite(objective):
            gap = Certificate(objective, bound).gap
            return Step(self.n_passes, gap, objective, label)
        return Step(self.n_passes, stale_gap / max(bound + stale_gap, 1e-300), label=label)

    def dual_objective(self) -> float:
        """Return the value that no objective can go below."""
        planes = self.space.planes
        gain = self.targets.slack_weights @ (planes.weights * planes.losses).sum(axis=1)
        norm, along_earlier = self.space.overlap()
        return float(gain - along_earlier - 0.5 * norm)  # [LS08] eq. (28), negated

    def certify(self) -> None:
        """Take the current point if its objective is the best so far."""
        start = time.perf_counter()
        self.space.refresh(self.targets)
        slacks = self.loss.slacks(self.space.scores())
        self.n_oracle_calls += len(slacks)
        norm, _ = self.space.overlap()
        objective = float(0.5 * norm + self.targets.slack_weights @ slacks)  # [LS08] eq. (27)
        self.seconds["certificates"] += time.perf_counter() - start
        if objective < self.best.objective:
            self.best = _Incumbent(objective, slacks, self.space.point.copy())

    def report(self, rule: StoppingRule, reason: Reason) -> CertifiedSolution:
        """Put together the result."""
        certificate = Certificate(self.best.objective, self.dual_objective())
        details = {
            "slacks": freeze(self.best.slacks),
            "n_oracle_calls": self.n_oracle_calls,
            "n_planes": int(np.count_nonzero(self.space.planes.weights[:, 1:])),
            "seconds": dict(self.seconds),
        }
        ending = rule.end(reason, self.n_passes, certificate.gap, REMEDY)
        return CertifiedSolution(
            self.C, freeze(self.best.point), certificate, self.n_passes, ending, details
        )
