"""How time grows with size: log-log plots with the measured slope beside the promised one."""

import gc
import math
import time
import warnings
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from threadpoolctl import threadpool_limits

from benchmarks.figures import figure
from benchmarks.growth_curves import CURVES, Curve
from rankwise import ConvergenceWarning

FIGURE = Path(__file__).with_name("growth.svg")
LEAST_SECONDS = 0.2
MOST_REPEATS = 20
UPPER = 3
"""How many of the largest sizes the slope is fitted to."""

MARKERS = "osD^vP"
EXPLANATION = f"""
![Time against size, log-log, a panel for each kind of size]({FIGURE.name})

Processor seconds of all threads, BLAS held to one; the least of several runs. The slope is that
of a line through the {UPPER} largest sizes on log-log axes; the promised one is that of the stated
cost over the same sizes, a range where its terms grow differently. The figure draws the larger
promised slope, dashed, through the last point.
"""


@dataclass(frozen=True)
class Growth:
    """What was measured of a curve."""

    curve: Curve
    seconds: tuple[float, ...]

    @property
    def slope(self) -> float:
        """The exponent that the times of the largest sizes follow."""
        return _slope(self.curve.sizes, self.seconds)

    @property
    def promised(self) -> tuple[float, float]:
        """The smallest and the largest exponent of the terms of the stated cost."""
        slopes = [
            _slope(self.curve.sizes, map(term, self.curve.sizes)) for term in self.curve.terms
        ]
        return min(slopes), max(slopes)

    @property
    def cells(self) -> list[str]:
        """The cells of a Markdown row."""
        low, high = self.promised
        sizes = f"{self.curve.sizes[0]:,} to {self.curve.sizes[-1]:,} {self.curve.axis}"
        times = f"{self.seconds[0]:.2g} to {self.seconds[-1]:.2g}"
        promised = f"{high:.2f}" if high - low < 0.01 else f"{low:.2f} to {high:.2f}"
        measured = f"{self.slope:.2f}"
        return [self.curve.job, sizes, times, self.curve.cost, promised, measured, self.curve.note]


HEADER = ["job", "size", "seconds", "stated cost", "promised slope", "measured", "note"]


def section() -> str:
    """Measure all curves, draw them, and return the table."""
    with threadpool_limits(1), warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)  # a fixed number of iterations is timed
        found = [Growth(curve, tuple(map(_timer(curve), curve.sizes))) for curve in CURVES]
    panels = list(dict.fromkeys(growth.curve.panel for growth in found))
    with figure(
        FIGURE, math.ceil(len(panels) / 2), 2, (10, 4 * math.ceil(len(panels) / 2))
    ) as axes:
        for ax, panel in zip(axes.flat, panels, strict=False):
            _draw(ax, panel, [growth for growth in found if growth.curve.panel == panel])
    rows = [HEADER, ["---"] * len(HEADER), *(growth.cells for growth in found)]
    return "\n".join("| " + " | ".join(row) + " |" for row in rows) + "\n" + EXPLANATION


def _timer(curve: Curve) -> Callable[[int], float]:
    """Return what prepares the job of a size and returns its least time."""

    def least(size: int) -> float:
        job = curve.prepare(size)
        job()  # page faults
        gc.collect()
        times: list[float] = []
        while len(times) < MOST_REPEATS and (len(times) < 3 or sum(times) < LEAST_SECONDS):
            start = time.process_time()
            job()
            times.append(time.process_time() - start)
        return min(times)

    return least


def _slope(sizes: Any, values: Any) -> float:
    x, y = np.log(list(sizes)[-UPPER:]), np.log(list(values)[-UPPER:])
    return float(np.polyfit(x, y, 1)[0])


def _draw(ax: Any, panel: str, found: list[Growth]) -> None:
    for growth, marker in zip(found, MARKERS, strict=False):
        label = f"{growth.curve.job}: {growth.slope:.2f}"
        (line,) = ax.loglog(growth.curve.sizes, growth.seconds, marker=marker, ms=4, label=label)
        sizes = np.array(growth.curve.sizes[-UPPER:], dtype=float)
        guide = growth.seconds[-1] * (sizes / sizes[-1]) ** growth.promised[1]
        ax.plot(sizes, guide, "--", color=line.get_color(), lw=1)
    axes = dict.fromkeys(growth.curve.axis for growth in found)
    ax.set(title=panel, xlabel=" or ".join(axes), ylabel="processor seconds")
    ax.minorticks_off()
    for axis in (ax.xaxis, ax.yaxis):
        axis.set_major_formatter("{x:g}")
    ax.grid(visible=True, which="major", lw=0.3)
    ax.legend(fontsize=6)


if __name__ == "__main__":
    print(section())
