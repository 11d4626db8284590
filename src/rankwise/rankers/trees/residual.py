"""RankRLS in closed form for the residual preferences of trees."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Self, final

import numpy as np
from scipy import linalg, sparse

from rankwise.core.arrays import FloatArray, IntArray, Matrix, dense_rows
from rankwise.core.queries import TrainingData
from rankwise.core.storable import storable
from rankwise.features.function_space import ExplicitSpace, FeatureMap, explicit_space
from rankwise.features.kernels import Kernel, as_kernel
from rankwise.graph.preference_graph import Cost, PreferenceGraph, QueryWeight, Ties
from rankwise.measures.value import Measure

ALPHAS: FloatArray = np.append(np.exp2(np.arange(-8.0, 17.0, 2.0)), np.inf)
"""What is tried; infinity leaves the trees as they are."""

N_BASIS = 200
"""Basis rows of a kernel, at most."""


@final
@dataclass(frozen=True)
class ResidualPreferences:
    """The residual preferences: those that the trees are grown for."""

    cost: Cost
    ties: Ties
    query_weight: QueryWeight

    def solutions(
        self, Z: FloatArray, data: TrainingData, scores: FloatArray, alphas: FloatArray
    ) -> FloatArray:
        """Return the weights of the residual preferences, (n_features, n_alphas); 0 for infinity.

        Scores f are first multiplied by the factor c that fits the preferences best, since
        lambdarank has its own scale: ``(Z'LZ + alpha I)^-1 Z'(r - c L f) / c``.
        """
        graph = PreferenceGraph.of(
            data, cost=self.cost, ties=self.ties, query_weight=self.query_weight
        )
        Lf = graph @ scores
        square, product = float(scores @ Lf), float(scores @ graph.rhs)
        factor = product / square if min(square, product) > 0.0 else 1.0
        values, vectors = linalg.eigh(Z.T @ (graph @ Z))
        rhs = vectors.T @ (Z.T @ (graph.rhs - factor * Lf)) / factor
        shrunk = 1.0 / (np.maximum(values, 0.0)[:, None] + alphas)
        return np.asarray(vectors @ (shrunk * rhs[:, None]))


@storable
@final
@dataclass(frozen=True, eq=False)
class ResidualRLS:
    """Hold a linear or kernel function that is added to the scores of trees.

    Parameters
    ----------
    centre, scale : (n_features,)
        What is subtracted from the features, and what they are then divided by; blanks become 0.
    predictor : FeatureMap
        How scaled rows become features.
    weights : (n_weights, 1)
        The weights of these.
    alpha : float
        The chosen regularisation; infinity if nothing is added.
    """

    centre: FloatArray
    scale: FloatArray
    predictor: FeatureMap
    weights: FloatArray
    alpha: float

    @classmethod
    def fit(
        cls,
        X: Matrix,
        data: TrainingData,
        trees: FloatArray,
        parts: Sequence[IntArray],
        kernel: Any,
        measure: Measure,
        preferences: ResidualPreferences,
        rng: np.random.Generator,
    ) -> Self:
        """Choose alpha by the folds of the trees, then learn from the residuals of all items.

        Parameters
        ----------
        X, data
            The items.
        trees : (n_items,)
            Their scores by trees that have not seen them.
        parts : list of arrays
            The rows that were held out together.
        kernel : kernel or str
            As in `RankRLS`.
        measure : Measure
            The measure that decides.
        preferences : ResidualPreferences
            The preferences to learn.
        rng : Generator
            Draws the basis rows of a kernel.
        """
        centre, scale = _scales(X)
        rows = _scaled(X, centre, scale)
        space = _space(rows, as_kernel(kernel).fitted_to(rows, data.sample_weight), rng)
        Z = dense_rows(space.features())
        held_out = np.tile(trees, (len(ALPHAS), 1))
        for out in parts:
            kept = np.setdiff1d(np.arange(len(trees)), out)
            weights = preferences.solutions(Z[kept], data.take(kept), trees[kept], ALPHAS)
            held_out[:, out] += (Z[out] @ weights).T
        values = np.array([measure.overall(data.scores, s, data.queries) for s in held_out])
        sign = 1.0 if measure.greater_is_better else -1.0
        best = len(ALPHAS) - 1 - int(np.argmax(sign * values[::-1]))  # of equals the smoothest
        w = preferences.solutions(Z, data, trees, ALPHAS[best : best + 1])
        return cls(centre, scale, space.predictor, space.fold(w), float(ALPHAS[best]))

    def scores(self, X: Matrix) -> FloatArray:
        """Return what is added to the scores of rows."""
        return self.predictor.product(_scaled(X, self.centre, self.scale), self.weights)[:, 0]


def _space(X: Matrix, kernel: Kernel, rng: np.random.Generator) -> ExplicitSpace:
    basis = None if kernel.is_linear else min(N_BASIS, X.shape[0])
    return explicit_space(X, kernel, basis, rng)


def _scales(X: Matrix) -> tuple[FloatArray, FloatArray]:
    """Return the mean and the spread of each feature; sparse rows are not centred."""
    if sparse.issparse(X):
        spread = np.sqrt(np.asarray(X.multiply(X).mean(axis=0), dtype=float).ravel())
        return np.zeros(X.shape[1]), np.where(spread > 0.0, spread, 1.0)
    known = ~np.isnan(X)
    count = np.maximum(known.sum(axis=0), 1)
    centre = np.where(known, X, 0.0).sum(axis=0) / count
    spread = np.sqrt(np.square(np.where(known, X - centre, 0.0)).sum(axis=0) / count)
    return centre, np.where(spread > 0.0, spread, 1.0)


def _scaled(X: Matrix, centre: FloatArray, scale: FloatArray) -> Matrix:
    if sparse.issparse(X):
        return sparse.csr_array(X.multiply(1.0 / scale))
    return np.nan_to_num((X - centre) / scale)
