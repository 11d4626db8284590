"""What rankers of pairs of objects share: the data they take, scores, orders, saving."""

from abc import ABC
from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import cached_property, partial
from os import PathLike
from typing import Annotated, Any, Literal, Self, final

import numpy as np
import scipy
from numpy.typing import ArrayLike, NDArray
from scipy import sparse
from sklearn.base import BaseEstimator
from sklearn.utils.validation import check_array, check_is_fitted

from rankwise.core.arrays import BoolArray, FloatArray, IntArray, Matrix
from rankwise.core.checks import (
    as_array,
    missing_cells,
    refuse_huge_rows,
    refuse_overflow,
    refuse_unusable_rows,
)
from rankwise.core.errors import InvalidInputError, NothingToLearnError, NumericalError
from rankwise.core.namespaces import place, to_host
from rankwise.core.params import AtLeast, Count, Shape, Size, check_call
from rankwise.core.queries import Queries, TrainingData
from rankwise.core.storable import Finite
from rankwise.features.function_space import Expansion
from rankwise.features.kernels import Kernel, finite_kernel, refuse_sparse
from rankwise.graph.preference_graph import Cost, PreferenceGraph, Ties
from rankwise.measures.pairwise import Concordance
from rankwise.rankers.conditional.closed_form import (
    SIGNS,
    FullRelation,
    Relation,
    centred,
)
from rankwise.rankers.conditional.known_cells import KnownCells, PairKernels, VecTrick
from rankwise.rankers.storage import save
from rankwise.solve.conjugate_gradients import ShiftedSystems, multishift_cg
from rankwise.solve.iteration import StoppingRule
from rankwise.solve.kernel_iteration import ConjugateGradients, CoordinateOperator, MatrixFree
from rankwise.transformers.categories import is_numeric
from rankwise.transformers.indicators import IndicatorEncoder

TRUSTED = 1e-3
"""Scores that rounding may change by more than this share are refused."""

FEW_FEATURES = 200
"""Eigenfunctions of the preconditioner: products are cheap, and more cost more than they save."""


@final
@dataclass(frozen=True, eq=False)
class RelationProblem:
    """The learning problem: known cells, preferences between them, and both kernels."""

    cells: KnownCells
    data: TrainingData
    kernels: PairKernels

    def of_cells(self, chosen: BoolArray) -> "RelationProblem":
        """Return the problem restricted to some of the cells, with the same objects."""
        cells = self.cells.take(chosen)
        if self.data.is_scored:
            return replace(self, cells=cells, data=cells.training_data())
        pairs, margin, weight = self.data.comparisons
        # comparisons whose two cells remain, in the new numbering
        inside = chosen[pairs].all(axis=1)
        left = (np.cumsum(chosen) - 1)[pairs[inside]]
        given = {"pair_margin": margin[inside], "pair_weight": weight[inside]}
        return replace(self, cells=cells, data=TrainingData.of(len(cells.row), pairs=left, **given))

    def system(self, settings: ConjugateGradients, **options: Any) -> MatrixFree:
        """Return the equations of the known cells, to be iterated; options are of the graph."""
        graph = PreferenceGraph.of(self.data, **options)
        n_features = FEW_FEATURES if settings.n_basis is None else settings.n_basis
        features = self.features(min(n_features, self.cells.n_cells))
        return MatrixFree.of(graph, self.product, features, settings, self.kernels.size())

    def full_relation(self, cost: Cost, ties: Ties, query_weight: str) -> FullRelation | None:
        """Return the closed form if every row has the same complete graph, else None."""
        # a closed form needs the complete graph of every row
        refused = ties == "keep" and cost != "magnitude"  # by the graph, with a reason
        if refused or not (self.data.is_scored and self.cells.is_full) or cost == "relative":
            return None
        Y = self.cells.spread(self.cells.values)
        if ties == "drop" and (np.diff(np.sort(Y, axis=1), axis=1) == 0).any():
            return None
        if Y.shape[1] < 2 or not np.ptp(Y, axis=1).any():
            raise NothingToLearnError(
                "`y` must hold at least one preference: all scores of every condition are equal. "
                "Check `y`; its rows are conditions, its columns items."
            )
        factor, kernels = PAIR_FACTOR[query_weight], self.kernels
        return FullRelation(
            kernels.K, kernels.G, Y, kernels.sign, TARGETS[cost], factor, kernels.where,
            roots=kernels.roots,
        )  # fmt: skip

    def shifted_weights(
        self, alphas: FloatArray, rule: StoppingRule, **options: Any
    ) -> tuple[FloatArray, FloatArray]:
        """Return dual weights of the known cells for every alpha, and the residuals left.

        All alphas come from one Krylov space; options are of the graph.
        """
        graph = PreferenceGraph.of(self.data, **options)
        operator = CoordinateOperator.of(graph, self.product, self.kernels.size())
        found = multishift_cg(ShiftedSystems.of(operator, alphas), rule)
        if found.ending.was_stopped:
            raise KeyboardInterrupt
        return operator.root.to_items(found.coefs.T).T, found.last_residuals

    def product(self, V: FloatArray) -> FloatArray:
        """Return the kernel of pairs times V, (n_cells, k), without forming it."""
        return np.column_stack([self.scores_at(column, self.cells) for column in V.T])

    def scores_at(self, values: FloatArray, cells: KnownCells) -> FloatArray:
        """Return the scores of some pairs for dual weights of the known cells."""
        if self._vec_trick is not None:
            return self._vec_trick.scores_at(values, self.cells, cells)
        F = self.kernels.scores(self.cells.spread(values))
        return F[cells.row, cells.column]

    @cached_property
    def _vec_trick(self) -> VecTrick | None:
        """The product over known cells alone, where it costs less than that of all pairs."""
        on_host = isinstance(self.kernels.where, np.ndarray)
        return VecTrick.of(self.kernels, self.cells) if on_host else None

    def features(self, n_features: int) -> FloatArray:
        """Return the largest eigenfunctions of the kernel of pairs at the known cells."""
        # eigenvalues of the product kernel are products of eigenvalues: keep the largest
        first, second = self.kernels.spectra
        U, V = to_host(first.vectors), to_host(second.vectors)
        products = np.outer(first.values, second.values).ravel()
        n_kept = min(n_features, len(products))
        largest = np.argpartition(-products, n_kept - 1)[:n_kept]
        i, j = np.unravel_index(largest, self.cells.shape)
        # their eigenfunctions at the known cells, (anti)symmetrised
        row, column = self.cells.row, self.cells.column
        Z = U[np.ix_(row, i)] * V[np.ix_(column, j)]
        if self.kernels.sign:
            Z = (Z + self.kernels.sign * U[np.ix_(column, i)] * V[np.ix_(row, j)]) / 2
        return Z * np.sqrt(products[largest])


def _unit_targets(Y: FloatArray) -> FloatArray:
    """Return wins minus losses of every item within its row, as a share of the row."""
    n_items = Y.shape[1]
    return (2.0 * scipy.stats.rankdata(Y, axis=1) - n_items - 1.0) / n_items


TARGETS: dict[str, Callable[[FloatArray], FloatArray]] = {
    "magnitude": centred,
    "unit": _unit_targets,
}
"""The right-hand side of a full row, by cost."""

PAIR_FACTOR: dict[str, Callable[[int], float]] = {
    "items": lambda n_items: 1.0,  # noqa: ARG005
    "pairs": float,
    "equal": lambda n_items: 2.0 / (n_items - 1),
}
"""Factor of the loss of a full row by the weight of queries, from its number of items."""


class ConditionalRanker(BaseEstimator, ABC):
    """A ranker of items for each condition, by a product of two kernels."""

    condition_kernel: Any
    item_kernel: Any
    relation: Relation
    cost: Cost
    ties: Ties
    query_weight: Literal["items", "pairs", "equal"]
    device: str | None
    n_features_in_: Annotated[int, AtLeast(0), Size("n_features")]
    condition_predictor_: Annotated[Expansion, Shape("n_conditions", "n_features", of="rows")]
    item_predictor_: Annotated[Expansion, Shape("n_items", "n_item_features", of="rows")]
    dual_coef_: Annotated[FloatArray, Finite(), Shape("n_conditions", "n_items")]
    condition_encoder_: IndicatorEncoder | None
    item_encoder_: IndicatorEncoder | None
    # of tables: names of rows, and which columns were read how
    condition_names_: Annotated[NDArray[np.str_], Shape("n_conditions")]
    item_names_: Annotated[NDArray[np.str_], Shape("n_items")]
    condition_columns_: dict[str, list[str]]
    item_columns_: dict[str, list[str]]

    def _problem(
        self,
        given: Any,
        conditions: Any,
        items: Any,
        y: Any,
        comparisons: ArrayLike | None = None,
        pair_margin: ArrayLike | None = None,
        pair_weight: ArrayLike | None = None,
    ) -> RelationProblem:
        """Check the arguments of `fit`, keep the objects, and form both kernels.

        ``given`` holds the parameters in their one form.
        """
        for name in ("condition_names_", "item_names_", "condition_columns_", "item_columns_"):
            self.__dict__.pop(name, None)
        C, self.condition_encoder_ = _read("conditions", conditions, given.condition_kernel)
        # both sides are of one kind where the relation has a symmetry
        same = items is None or given.relation in SIGNS
        if given.relation in SIGNS and items is not None and items is not conditions:
            raise InvalidInputError(
                f"`items` must be None with relation={given.relation!r}: both objects of a pair "
                "are of one kind, given as `conditions`."
            )
        V, self.item_encoder_ = C, self.condition_encoder_
        if not same:
            V, self.item_encoder_ = _read("items", items, given.item_kernel)
        # kernels fitted to the objects of both sides, which predictions expand in
        first = given.condition_kernel
        second = first if given.relation in SIGNS else given.item_kernel
        self.condition_predictor_ = _predictor(first, C)
        self.item_predictor_ = _predictor(second, V)
        self.n_features_in_ = int(C.shape[1])
        shape = (C.shape[0], V.shape[0])
        # known cells, and the preferences between them
        if (y is None) == (comparisons is None):
            raise InvalidInputError("`fit` must be given either `y` or `comparisons`.")
        cells, data = (
            _from_scores(y, shape)
            if comparisons is None
            else _from_comparisons(comparisons, shape, pair_margin, pair_weight)
        )
        K, G = _own_kernel(self.condition_predictor_), _own_kernel(self.item_predictor_)
        where = place(given.device)
        roots = _root(self.condition_predictor_), _root(self.item_predictor_)
        kernels = PairKernels(K, G, SIGNS.get(given.relation, 0), where, roots)
        return RelationProblem(cells, data, kernels)

    def _keep_full(self, full: FullRelation, alpha: float) -> Self:
        """Store the solution of a full matrix; refuse one dominated by rounding errors."""
        at = float(full.shares(np.array(alpha), full.Y.shape[1]))
        spectrum = full.spectrum()
        if spectrum.rounding(at) > TRUSTED:
            raise NumericalError(
                "The scores must be larger than their rounding errors: the relative error may be "
                f"{spectrum.rounding(at):.2g}. Raise `alpha`, or scale the features."
            )
        return self._keep(spectrum.weights(at))

    def _in_two_steps(self, full: FullRelation | None, item_alpha: float | None) -> FullRelation:
        """Return the closed form that learns items first, then conditions."""
        if full is None or full.sign:
            raise InvalidInputError(
                "Two steps must have a full matrix of scores between objects of two kinds, with "
                "ties='keep' or no ties, and the cost 'magnitude' or 'unit'. Leave `item_alpha` "
                "out, or fill the matrix."
            )
        return replace(full, item_alpha=item_alpha)

    def _graph_options(self) -> dict[str, Any]:
        return {"cost": self.cost, "ties": self.ties, "query_weight": self.query_weight}

    def _keep_iterated(
        self, problem: RelationProblem, settings: ConjugateGradients, alpha: float
    ) -> Self:
        """Store the solution for the known cells, found by conjugate gradients."""
        found = problem.system(settings, **self._graph_options()).solve(alpha)
        return self._keep(problem.kernels.mirrored(problem.cells.spread(found[:, 0])))

    def _keep(self, weights: FloatArray) -> Self:
        if not np.isfinite(weights).all():
            raise NumericalError(
                "The weights must be finite: this problem cannot be solved in double precision. "
                "Regularise more, or scale the features."
            )
        self.dual_coef_ = weights
        return self

    def predict(self, conditions: Any = None, items: Any = None) -> FloatArray:
        """Return scores; higher is better, comparable only within a condition.

        Parameters
        ----------
        conditions : (n_conditions, n_features), optional
            Known or new conditions; by default the training conditions. With a precomputed kernel,
            their kernel with the training conditions.
        items : (n_items, n_item_features), optional
            Known or new items; by default the training items.

        Returns
        -------
        scores : (n_conditions, n_items)
        """
        check_is_fitted(self)
        left = _kernel_with(
            self.condition_predictor_, self.condition_encoder_, conditions, "conditions"
        )
        right = _kernel_with(self.item_predictor_, self.item_encoder_, items, "items")
        if len(left) * right.shape[1] <= len(right) * left.shape[1]:
            return (left @ self.dual_coef_) @ right.T
        return left @ (self.dual_coef_ @ right.T)

    def rank(self, conditions: Any = None, items: Any = None, k: Count | None = None) -> IntArray:
        """Return the items for each condition, best first.

        Parameters
        ----------
        conditions, items
            As in `predict`.
        k : int, optional
            Largest number of items; by default all of them.

        Returns
        -------
        order : (n_conditions, k)
            Positions in `items`.
        """
        check_call(ConditionalRanker.rank, k=k)
        return np.argsort(-self.predict(conditions, items), axis=1, kind="stable")[:, :k]

    def score(self, conditions: Any, items: Any, y: Any) -> float:
        """Return the share of pairs of items in the right order, averaged over conditions.

        Parameters
        ----------
        conditions, items
            As in `predict`; None for the training ones.
        y : (n_conditions, n_items)
            The given scores; NaN, or an entry that a sparse matrix does not store, is left out.
        """
        scores = self.predict(conditions, items)
        cells = KnownCells.of_scores(y, (scores.shape[0], scores.shape[1]))
        if cells.n_cells == 0:
            raise InvalidInputError("`y` must hold at least one known score: got none.")
        queries = Queries.of(cells.row, cells.n_cells)
        return Concordance.overall(cells.values, scores[cells.row, cells.column], queries)

    def save(self, path: str | PathLike[str]) -> None:
        """Write this fitted ranker to one file without pickle; `rankwise.load` reads it.

        Parameters
        ----------
        path : path
            The file, replaced only once the new one is complete.
        """
        check_is_fitted(self)
        save(self, path)

    def _scores(self, X: FloatArray) -> FloatArray:
        """Return the scores of the known items for conditions: what a model file is checked by."""
        right = _own_kernel(self.item_predictor_)
        return self.condition_predictor_.map(X) @ self.dual_coef_ @ right


def _kernel_with(
    predictor: Expansion, encoder: IndicatorEncoder | None, objects: Any, name: str
) -> FloatArray:
    if objects is None:
        return _own_kernel(predictor)
    if encoder is not None:
        return predictor.map(encoder.transform(objects))
    rows = _check_objects(name, objects)
    if rows.shape[1] != predictor.rows.shape[1]:
        raise InvalidInputError(
            f"`{name}` must have as many columns as in `fit`: expected "
            f"{predictor.rows.shape[1]}, got {rows.shape[1]}."
        )
    return predictor.map(rows)


def _read(name: str, X: Any, kernel: Kernel) -> tuple[Matrix, IndicatorEncoder | None]:
    """Return the features of objects as numbers, and the encoder where they hold text or blanks."""
    if sparse.issparse(X) or not kernel.is_function:
        return _check_objects(name, X), None
    refuse_unusable_rows(X, name)
    cells = as_array(name, X)
    if cells.ndim != 2 or len(cells) == 0 or all(map(_is_known_number, cells.T)):
        return _check_objects(name, X), None
    encoder = IndicatorEncoder().fit(X)
    return encoder.transform(X), encoder


def _is_known_number(column: NDArray[Any]) -> bool:
    """Return whether a column holds numbers only; those that overflow are refused elsewhere."""
    return is_numeric(column) and not missing_cells(column).any()


def _check_objects(name: str, X: Any) -> Matrix:
    """Return the features of objects as floats, dense or CSR."""
    refuse_unusable_rows(X, name)
    try:
        with refuse_overflow(name):
            rows = check_array(X, accept_sparse="csr", dtype=np.float64, order="C", input_name=name)
    except (ValueError, TypeError) as error:
        raise InvalidInputError(f"`{name}` must be a table of numbers: {error}") from error
    refuse_huge_rows(rows, name)
    return rows


def _predictor(kernel: Kernel, rows: Matrix) -> Expansion:
    refuse_sparse(rows, kernel)
    return Expansion(kernel.fitted_to(rows), rows)


def _own_kernel(predictor: Expansion) -> FloatArray:
    return finite_kernel(predictor.kernel, predictor.rows, predictor.rows)


def _root(predictor: Expansion) -> FloatArray | None:
    """Return the rows if their products are the kernel, and they have fewer columns."""
    rows = predictor.rows
    if sparse.issparse(rows) or not predictor.kernel.is_linear or rows.shape[1] >= len(rows):
        return None
    found: FloatArray = rows
    return found


def _from_scores(y: Any, shape: tuple[int, int]) -> tuple[KnownCells, TrainingData]:
    cells = KnownCells.of_scores(y, shape)
    if cells.n_cells == 0:
        raise NothingToLearnError("`y` must hold at least one preference: no score is known.")
    return cells, cells.training_data()


def _from_comparisons(
    comparisons: ArrayLike,
    shape: tuple[int, int],
    pair_margin: ArrayLike | None,
    pair_weight: ArrayLike | None,
) -> tuple[KnownCells, TrainingData]:
    """Return the cells that comparisons name, and the comparisons between them."""
    given = np.asarray(comparisons)
    if given.ndim != 2 or given.shape[1] != 3 or given.dtype.kind not in "iu" or len(given) == 0:
        raise InvalidInputError(
            "`comparisons` must hold whole numbers of shape (n_pairs, 3), the condition, the "
            f"winner and the loser: got shape {given.shape} and dtype {given.dtype}."
        )
    limits = np.array([shape[0], shape[1], shape[1]])
    outside = ((given < 0) | (given >= limits)).any(axis=1)
    if outside.any():
        bad = int(np.argmax(outside))
        raise InvalidInputError(
            f"`comparisons` must name conditions 0 to {shape[0] - 1} and items 0 to "
            f"{shape[1] - 1}: comparison {bad} is {tuple(given[bad].tolist())}."
        )
    # a cell for each (condition, item) that is named; comparisons become pairs of cells
    code = given[:, :1].astype(np.intp) * shape[1] + given[:, 1:]
    known, pairs = np.unique(code, return_inverse=True)
    cells = KnownCells(known // shape[1], known % shape[1], shape, np.zeros(len(known)))
    ends = pairs.reshape(-1, 2)
    make = partial(TrainingData.of, len(known), pairs=ends)
    return cells, make(pair_margin=pair_margin, pair_weight=pair_weight)
