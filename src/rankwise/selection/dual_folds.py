"""Hold-outs in the dual: what the model without a fold says about it."""

from dataclasses import dataclass
from functools import cached_property
from typing import Self, final

import numpy as np

from rankwise.core.arrays import BoolArray, FloatArray, IntArray
from rankwise.core.graph import PreferenceGraph
from rankwise.core.laplacian import Root
from rankwise.inference.rls import as_columns
from rankwise.inference.systems import Spectrum, refuse_indefinite_matrix
from rankwise.selection.blocks import solve_blocks, weighted_blocks
from rankwise.selection.spaces import KernelSpace


@final
@dataclass(frozen=True, eq=False)
class DualFolds:
    """One decomposition of the reduced kernel S, from which every fold is left out.

    With B = (S + alpha)^-1 and c = B c0, the prediction p for the coordinates U of a fold solves
    ``B_UU (c0_U - p) = c_U``. For alpha above the largest eigenvalue the difference would cancel,
    and the same equation is solved as ``(I - H_UU) p = (H c0)_U - H_UU c0_U`` with H = S B.

    Notes
    -----
    [PTA09] (33), in the symmetric reduced form.
    """

    spectrum: Spectrum
    root: Root
    C0: FloatArray
    alphas: FloatArray
    idle: FloatArray
    """Kernel of the items without preferences, turned into the eigenbasis."""

    @classmethod
    def of(
        cls, space: KernelSpace, graph: PreferenceGraph, idle: IntArray, alphas: FloatArray
    ) -> Self:
        """Decompose; ``idle`` names items without preferences that are to be scored too."""
        root = graph.laplacian.root()
        K = space.kernel(space.X, space.X)
        aside = root.to_coordinates(np.ascontiguousarray(K[:, idle]))
        reduced = root.reduce(K)
        if not space.kernel.is_trusted:
            refuse_indefinite_matrix(reduced)
        spectrum = Spectrum.of(reduced)
        C0 = root.solve(as_columns(graph.rhs))
        return cls(spectrum, root, C0, alphas, spectrum.vectors.T @ aside)

    @property
    def _is_large(self) -> BoolArray:
        """The alphas for which the hat matrix H is used in place of B."""
        return self.alphas > self.spectrum.values[-1]

    @cached_property
    def _projected(self) -> FloatArray:
        return self.spectrum.vectors.T @ self.C0

    @cached_property
    def _weights(self) -> FloatArray:
        inverse = 1.0 / (self.spectrum.values[:, None] + self.alphas)
        return np.where(self._is_large, self.spectrum.values[:, None] * inverse, inverse)

    def predict(self, U: IntArray) -> tuple[FloatArray, FloatArray]:
        """Return p for every alpha, (n_alphas, len(U), n_outputs), and the smallest pivots."""
        V, large = self.spectrum.vectors[U], self._is_large
        blocks = weighted_blocks(V, self._weights)
        rhs = V @ (self._weights.T[:, :, None] * self._projected)
        rhs[large] -= blocks[large] @ self.C0[U]
        blocks[large] = np.eye(len(U)) - blocks[large]
        solution, pivot = solve_blocks(blocks, rhs)
        return np.where(large[:, None, None], solution, self.C0[U] - solution), pivot

    def predict_idle(self, U: IntArray, held_out: FloatArray, members: IntArray) -> FloatArray:
        """Return the scores of idle items by the model without the coordinates U."""
        gone = self.spectrum.vectors[U].T @ (self.C0[U] - held_out)
        kept = self._projected - gone
        inverse = 1.0 / (self.spectrum.values[:, None] + self.alphas)
        return self.idle[:, members].T @ (inverse.T[:, :, None] * kept)
