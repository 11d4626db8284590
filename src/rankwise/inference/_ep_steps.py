"""From one sweep to the next: plain steps first, Anderson acceleration when they slow down."""

from dataclasses import dataclass, replace
from math import inf
from typing import Self, final

import numpy as np

from rankwise.core.arrays import FloatArray

WINDOW = 5
PLAIN_SWEEPS = 4


@final
@dataclass(frozen=True, eq=False)
class StepRule:
    """Choose the next point from what the last sweeps found.

    Undamped parallel sweeps can cycle, and no fixed damping is good everywhere. So plain steps are
    taken as long as they halve the residual, and from then on Anderson acceleration over the last
    sweeps; when the residual grows, the past is forgotten and the steps are shortened, to 0.3 at
    first and further if that keeps happening.

    Parameters
    ----------
    history : tuple of (x, F)
        The last points, and what a plain step would have added to each.
    n_sweeps, n_restarts, n_rejected : int
        Sweeps so far, how often the residual grew, and how often a point was no valid state.
    best, last : float
        The smallest and the last residual.
    accelerated : bool
        Whether plain steps are over.
    damping : float
        The share of F that a step takes.
    """

    history: tuple[tuple[FloatArray, FloatArray], ...] = ()
    n_sweeps: int = 0
    n_restarts: int = 0
    n_rejected: int = 0
    best: float = inf
    last: float = inf
    accelerated: bool = False
    damping: float = 1.0

    def observe(self, x: FloatArray, F: FloatArray, residual: float) -> Self:
        """Take note that a plain step at the point x would add F."""
        slow = self.n_sweeps >= PLAIN_SWEEPS and residual > 0.5 * self.last
        accelerated = self.accelerated or slow
        history, damping = self.history, self.damping
        restart = accelerated and residual > 2.0 * self.best
        if restart:
            floor = 0.3 * 0.8 ** max(0, self.n_restarts - 6)
            history, damping = (), max(min(floor, damping), 0.7 * damping)
        return replace(
            self,
            history=(*history, (x, F))[-WINDOW - 1 :] if accelerated else ((x, F),),
            n_sweeps=self.n_sweeps + 1,
            n_restarts=self.n_restarts + (restart and self.last <= 2.0 * self.best),
            best=min(self.best, residual),
            last=residual,
            accelerated=accelerated,
            damping=damping,
        )

    def reject(self) -> Self:
        """Take note that the last proposal was no valid state: forget the past, halve the steps."""
        return replace(
            self,
            history=self.history[-1:],
            n_sweeps=self.n_sweeps + 1,
            n_rejected=self.n_rejected + 1,
            accelerated=True,
            damping=0.5 * self.damping,
        )

    def propose(self, scale: FloatArray) -> FloatArray:
        """Return the next point; ``scale`` brings the entries of F to one unit."""
        x, F = self.history[-1]
        if len(self.history) == 1:
            return x + self.damping * F
        points, steps = (np.stack(part, axis=1) for part in zip(*self.history, strict=True))
        dX, dF = np.diff(points, axis=1), np.diff(steps, axis=1)
        scaled = scale[:, None] * dF
        gamma = np.linalg.lstsq(scaled.T @ scaled, scaled.T @ (scale * F), rcond=1e-12)[0]
        return x + self.damping * F - (dX + self.damping * dF) @ gamma
