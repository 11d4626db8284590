"""A Laplacian in two parts: items within their groups, and the means of the groups."""

from dataclasses import dataclass, replace
from typing import Self, final

import numpy as np

from rankwise.core.arrays import FloatArray, IntArray, Matrix
from rankwise.graph.cliques import CliqueLaplacian, CliqueRoot
from rankwise.graph.laplacian import CliqueForm, GraphLaplacian, Root


@final
@dataclass(frozen=True, eq=False)
class NestedCliqueLaplacian(GraphLaplacian):
    r"""Join the items of each group, and the means of the groups to each other.

    .. math:: p^\top L p = p^\top L_{\text{within}} p + (Ap)^\top L_{\text{between}} (Ap)

    with A the weighted average of each group. This is the exact form of every cost whose pair
    weights depend only on the scores of the two items (docs/theory/preference-graphs.rst, eq.
    graph-nested).

    Parameters
    ----------
    within : CliqueLaplacian
        Over the items, grouped by query and score.
    between : GraphLaplacian
        Over the groups.
    component : (n_items,)
        The component of each item, -1 for items without a preference.
    """

    within: CliqueLaplacian
    between: GraphLaplacian
    component: IntArray

    @property
    def n_items(self) -> int:  # type: ignore[override]
        """Number of items."""
        return self.within.n_items

    def __matmul__(self, V: FloatArray) -> FloatArray:
        columns = V.reshape(self.n_items, -1)
        pull = self.within.spread(self.between @ self.within.means(columns))
        return (self.within @ columns + pull).reshape(V.shape)

    def diagonal(self) -> FloatArray:
        """Return the degree of every item."""
        across = self.within.share**2 * self.between.diagonal()[self.within.group]
        return self.within.diagonal() + across

    def gram(self, Z: Matrix) -> FloatArray:
        """Return ``Z.T @ L @ Z``."""
        return self.within.gram(Z) + self.between.gram(self.within.means(Z))

    def clique_form(self) -> CliqueForm:
        """Return the groups, with what joins their means."""
        return replace(self.within.clique_form(), between=self.between)

    def root(self) -> "NestedCliqueRoot":
        """Return the two roots side by side."""
        return NestedCliqueRoot.of(self)


@final
@dataclass(frozen=True, eq=False)
class NestedCliqueRoot(Root):
    """The root of a `NestedCliqueLaplacian`: coordinates within groups, then between them."""

    cliques: CliqueLaplacian
    within: CliqueRoot
    between: Root
    component: IntArray

    @classmethod
    def of(cls, nested: NestedCliqueLaplacian) -> Self:
        """Build both roots."""
        within, between = nested.within.root(), nested.between.root()
        component = np.concatenate([within.component, between.component])
        return cls(nested.within, within, between, component)

    def fill_coordinates(self, V: FloatArray, out: FloatArray) -> None:
        """Set ``out = R.T @ V``."""
        self.within.fill_coordinates(V, out[: self.within.rank])
        self.between.fill_coordinates(self.cliques.means(V), out[self.within.rank :])

    def to_items(self, C: FloatArray) -> FloatArray:
        """Return ``R @ C``."""
        inside, across = C[: self.within.rank], C[self.within.rank :]
        return self.within.to_items(inside) + self.cliques.spread(self.between.to_items(across))

    def to_scores(self, P: FloatArray) -> FloatArray:
        """Return scores V with ``R.T @ V = P``: deviations within groups plus group means."""
        inside, across = P[: self.within.rank], P[self.within.rank :]
        means = self.between.to_scores(across)[self.cliques.group]
        member = (self.cliques.group >= 0)[:, None]
        return self.within.to_scores(inside) + np.where(member, means, 0.0)

    def solve(self, B: FloatArray) -> FloatArray:
        """Return the C with ``R @ C = B``: each part on its own."""
        return np.vstack([self.within.solve(B), self.between.solve(self.cliques.totals(B))])
