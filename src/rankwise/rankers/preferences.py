"""The preferences given to ``fit``, as one graph per set of outputs that can share it."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any, Self, final

import numpy as np
from numpy.typing import ArrayLike

from rankwise.core.arrays import FloatArray
from rankwise.core.checks import check_length, check_scores
from rankwise.core.errors import InvalidInputError
from rankwise.graph.grades import outputs_by_ties
from rankwise.graph.preference_graph import PreferenceGraph


@final
@dataclass(frozen=True, eq=False)
class Preferences:
    """Graphs and the outputs each of them serves; several only where ties differ by output."""

    graphs: tuple[PreferenceGraph, ...]
    outputs: tuple[list[int], ...]
    is_multi_output: bool

    @classmethod
    def from_scores(cls, y: ArrayLike, qid: ArrayLike | None, n_items: int, **options: Any) -> Self:
        """Build from scores with the options of `PreferenceGraph.from_scores`."""
        scores = check_scores(y)
        check_length("y", scores, n_items)
        if scores.ndim == 1:
            return cls((PreferenceGraph.from_scores(scores, qid, **options),), ([0],), False)
        outputs = outputs_by_ties(scores, qid, options["cost"], options["ties"])
        graphs = [PreferenceGraph.from_scores(scores[:, k], qid, **options) for k in outputs]
        return cls(tuple(graphs), outputs, True)

    @classmethod
    def from_pairs(
        cls,
        pairs: ArrayLike | None,
        margin: ArrayLike | None,
        weight: ArrayLike | None,
        n_items: int,
    ) -> Self:
        """Build from comparisons."""
        graph = PreferenceGraph.from_pairs(pairs, margin, weight, n_items)
        return cls((graph,), ([0],), False)

    @property
    def rank(self) -> int:
        """Smallest rank of the graphs."""
        return min(graph.laplacian.rank() for graph in self.graphs)

    @property
    def first(self) -> PreferenceGraph:
        """The graph of the first output."""
        return self.graphs[0]

    def __iter__(self) -> Iterator[PreferenceGraph]:
        return iter(self.graphs)

    def gather(self, solve: Callable[[PreferenceGraph], FloatArray]) -> FloatArray:
        """Solve for every graph and put the outputs, the last axis, in their order."""
        parts = [solve(graph) for graph in self.graphs]
        order = np.argsort(np.concatenate(self.outputs))
        return np.concatenate(parts, axis=-1)[..., order]


@final
@dataclass(frozen=True, eq=False)
class Given:
    """What ``fit`` was given to learn from: scores with queries, or comparisons."""

    y: ArrayLike | None
    qid: ArrayLike | None
    sample_weight: ArrayLike | None
    pairs: ArrayLike | None
    pair_margin: ArrayLike | None
    pair_weight: ArrayLike | None

    def __post_init__(self) -> None:
        refuse_both(self.y, self.qid, self.pairs)

    def preferences(self, n_items: int, **options: Any) -> Preferences:
        """Return the graphs; the options are those of `PreferenceGraph.from_scores`."""
        if self.y is None:
            return Preferences.from_pairs(self.pairs, self.pair_margin, self.pair_weight, n_items)
        return Preferences.from_scores(
            self.y, self.qid, n_items, sample_weight=self.sample_weight, **options
        )


def refuse_both(y: ArrayLike | None, qid: ArrayLike | None, pairs: ArrayLike | None) -> None:
    """Refuse a fit with both scores and comparisons, or with neither."""
    if y is None and pairs is None:
        raise InvalidInputError(
            "`fit` requires y to be passed, but the target y is None. Give scores `y`, "
            "or comparisons `pairs`."
        )
    if pairs is not None and (y is not None or qid is not None):
        raise InvalidInputError(
            "`fit` takes either scores (`y`, `qid`) or comparisons (`pairs`): got both. "
            "Comparisons need no queries."
        )
