"""RankRLS: least-squares ranking in closed form."""

from __future__ import annotations

from typing import Annotated, Any, Literal, Never, Self, final

import numpy as np
from numpy.typing import ArrayLike

from rankwise.core.arrays import FloatArray, Matrix
from rankwise.core.namespaces import memory_of, on_device
from rankwise.core.params import CheckedWith, RandomSeed, check_call, checked
from rankwise.core.queries import TrainingData
from rankwise.features.function_space import (
    ExplicitSpace,
    FunctionSpace,
    Identity,
    choose_basis,
    smallest_space,
    unknowns_of_sparse_rows,
)
from rankwise.features.kernels import KernelLike
from rankwise.graph.preference_graph import Cost, OutputGraphs, PreferenceGraph, QueryWeight, Ties
from rankwise.rankers.base import RankerPath, basis_generator, generator
from rankwise.rankers.closed_form import Alpha, ClosedFormRanker
from rankwise.rankers.reading import read_training, refuse_other_arguments
from rankwise.selection.path import Alphas
from rankwise.solve.conjugate_gradients import Hooks, ShiftedSystems, side_by_side_cg
from rankwise.solve.iteration import StoppingRule
from rankwise.solve.kernel_iteration import (
    ConjugateGradients,
    MatrixFree,
)
from rankwise.solve.normal_equations import System
from rankwise.solve.operators import SIDE_BY_SIDE, joint_operator
from rankwise.solve.rows import as_rows

FEW_UNKNOWNS = 2000
"""Dense equations of a lower order are solved at once."""

MOST_ITERATIONS = 1000
"""Of conjugate gradients, before dense equations take over."""

ITERATED_TO = 1e-12
"""The residual that conjugate gradients go on to, as a share of the right-hand side."""

MEMORY_SHARE = 0.5
"""A kernel matrix that takes more than this share of the memory is not formed."""


@final
class RankRLS(ClosedFormRanker):
    r"""Learn to rank by regularised least squares on the differences of scores.

    Minimises, over linear functions or functions of a kernel,

    .. math:: \sum_q \omega_q \sum_{(i,j) \in q} w_{ij} \bigl(z_{ij} - (f_i - f_j)\bigr)^2
              + \alpha |f|^2

    each pair of items of a query counted once. The solution is exact. With n items, d features and
    Q queries it costs O(n d^2) if d is at most n - Q, O(n^3) with a kernel or if d is larger, and
    O(n r^2) with r basis rows, whatever the number of pairs.

    Parameters
    ----------
    alpha : float
        Regularisation: the factor of :math:`|f|^2`. It has the same meaning in every least-squares
        ranker of this package; with the default `query_weight`, ties kept and a single query it is
        the alpha of scikit-learn's ``Ridge`` with an intercept.
    kernel : {"linear", "gaussian", "laplacian", "polynomial", "precomputed"}, kernel or function
        The space of ranking functions.
    cost : {"magnitude", "unit", "relative"}
        The target z and weight w of a pair, from its difference of scores, or margin, m:
        (m, 1), (sign m, 1) or (m, 1 / m^2).
    ties : {"drop", "keep"}
        Whether items of equal score, and ties of comparisons by name, form pairs with target 0;
        "keep" needs cost "magnitude".
    query_weight : {"items", "pairs", "equal"}, mapping or (n_queries,)
        The weight :math:`\omega_q` of a query: 1 / n_q, 1, 1 / number of pairs of q, or given. For
        comparisons it needs `qid`.
    basis : int, (n_basis,) of indices or (n_basis, n_features), optional
        Restrict the function to the span of the kernel functions of some rows: a number of random
        rows, indices of rows of X, or the rows themselves.
    device : str, optional
        Where to do the expensive computations: a device of PyTorch such as "cuda", in double
        precision. Needs the extra "gpu". By default NumPy on the CPU.
    solver : {"auto", "direct", "iterations"} or ConjugateGradients
        How kernel problems are solved: with the kernel matrix, or by conjugate gradients, which
        form the matrix one block at a time and never store it. "auto" iterates if the matrix would
        take more than half of the memory. `ConjugateGradients` sets sizes and tolerance.
    random_state : int, RandomState or None
        Draws the basis rows if `basis` is a number, and those of the preconditioner.

    Attributes
    ----------
    coef_ : (n_features,) or (n_outputs, n_features)
        Weights of the features, with the linear kernel and no basis.
    dual_coef_ : (n_rows,) or (n_rows, n_outputs)
        Weights of the training rows, or of the basis rows, otherwise.
    kernel_ : Kernel
        The kernel with all its parameters.
    n_queries_ : int
        Number of queries in the training data.
    n_ignored_queries_ : int
        Number of them without a preference.
    fitted_with_qid_ : bool
        Whether `fit` was given `qid`.
    n_features_in_ : int
        Number of features.
    feature_names_in_ : (n_features,)
        The names of the features, if X had names.

    Notes
    -----
    The objective is [PTAB07] (1) with (4), that is (5) to (7), and (9) in matrices; for any
    preferences [PTA09] (5), (15) and (16), an instance of (2) with a cost (3), whose least is (4).
    The primal form is [PTA09] (28), the dual one solves (17) in the smallest symmetric form, the
    basis is (41). The costs are (21), (20) and (22), for scores and comparisons alike. The default
    query weight follows [APS10] (3). Sparse rows with many features are solved by conjugate
    gradients, [APS10] (8), to a residual of 1e-12, if that is faster than dense equations.

    Examples
    --------
    >>> import numpy as np
    >>> from rankwise import RankRLS
    >>> X = np.array([[1.0, 0.0], [0.0, 1.0], [1.0, 1.0], [0.0, 2.0], [3.0, 1.0]])
    >>> y, qid = [2, 1, 2, 0, 1], ["a", "a", "a", "b", "b"]
    >>> ranker = RankRLS(alpha=0.1).fit(X, y, qid=qid)
    >>> ranker.rank(X, qid=qid, k=1)
    array([0, 4])
    >>> round(ranker.score(X, y, qid=qid), 2)
    1.0

    Comparisons in place of scores, winner first:

    >>> RankRLS().fit(X, pairs=[[0, 1], [2, 1], [4, 3]]).coef_.round(2)
    array([ 0.35, -0.2 ])
    """

    def __init__(
        self,
        alpha: Alpha = 1.0,
        *,
        kernel: KernelLike = "linear",
        cost: Cost = "magnitude",
        ties: Ties = "drop",
        query_weight: QueryWeight = "items",
        basis: Annotated[int | ArrayLike | None, CheckedWith("X")] = None,
        device: str | None = None,
        solver: Literal["auto", "direct", "iterations"] | ConjugateGradients = "auto",
        random_state: RandomSeed = None,
    ) -> None:
        self.alpha = alpha
        self.kernel = kernel
        self.cost = cost
        self.ties = ties
        self.query_weight = query_weight
        self.basis = basis
        self.device = device
        self.solver = solver
        self.random_state = random_state

    def fit(
        self,
        X: Any,
        y: ArrayLike | None = None,
        qid: ArrayLike | None = None,
        sample_weight: ArrayLike | None = None,
        *,
        pairs: ArrayLike | None = None,
        pair_margin: ArrayLike | None = None,
        pair_weight: ArrayLike | None = None,
        **others: Never,
    ) -> Self:
        """Learn from scores, optionally inside queries, or from comparisons.

        Parameters
        ----------
        X : (n_items, n_features), dense or sparse
            The items. Centring or a common offset makes no difference.
        y : (n_items,) or (n_items, n_outputs)
            Scores of the items, higher is better. Outputs are learned independently.
        qid : (n_items,), optional
            The query of each item, of any type and in any order; by default all items form one
            query.
        sample_weight : (n_items,), optional
            Weights of the items; the weight of a pair is the product of its two.
        pairs : (n_pairs, 2), optional
            Comparisons in place of `y`: row numbers, winner first. They may repeat and contradict
            each other. With `qid`, both items of a pair belong to one query, and `query_weight`
            applies; without it, comparisons have the given weights.
        pair_margin : (n_pairs,), optional
            By how much each winner leads; 1 by default.
        pair_weight : (n_pairs,), optional
            How much each comparison counts; 1 by default.
        """
        refuse_other_arguments(others)
        given = checked(self)
        rows, data = read_training(
            self, X, y, qid, sample_weight, pairs, pair_margin, pair_weight,
            ties=given.ties, cost=given.cost,
        )  # fmt: skip
        graphs, space = self._problem(given, rows, data, on_device(rows, given.device, X))
        iterated = self._iterated(space.X, graphs, np.array([given.alpha]))
        if iterated is not None:
            return self._keep_solution(_linear_space(rows), iterated[0], graphs, data)
        # the least of [PTAB07] eq. (1), (9) and [PTA09] eq. (5), (15)
        weights = graphs.gather(lambda graph: given._system(space, graph).solve(given.alpha))
        return self._keep_solution(space, weights, graphs, data)

    def fit_path(
        self,
        X: Any,
        y: ArrayLike | None = None,
        qid: ArrayLike | None = None,
        sample_weight: ArrayLike | None = None,
        *,
        alphas: Alphas,
        pairs: ArrayLike | None = None,
        pair_margin: ArrayLike | None = None,
        pair_weight: ArrayLike | None = None,
    ) -> RankerPath:
        """Learn for many alphas from one reduction, in about the time of a few of them.

        Parameters
        ----------
        X, y, qid, sample_weight, pairs, pair_margin, pair_weight
            As in `fit`.
        alphas : (n_alphas,)
            The values of alpha, each above 0.

        Returns
        -------
        path : RankerPath
            A fitted ranker for each alpha, and the scores of all of them at once.

        Notes
        -----
        [PTA09] Sect. 3.2, by a tridiagonal reduction, which costs about half of the
        eigendecomposition in (31). Sparse rows with many features are iterated, as in `fit`.

        Examples
        --------
        >>> import numpy as np
        >>> from rankwise import RankRLS
        >>> X = np.array([[1.0, 0.0], [0.0, 1.0], [1.0, 1.0]])
        >>> path = RankRLS().fit_path(X, [2, 1, 3], alphas=[0.1, 10.0])
        >>> path.predict(X).round(2)
        array([[1.61, 0.7 , 2.31],
               [0.09, 0.  , 0.1 ]])
        >>> path[1].alpha
        10.0
        """
        given, grid = checked(self), check_call(RankRLS.fit_path, alphas=alphas)["alphas"]
        rows, data = read_training(
            self, X, y, qid, sample_weight, pairs, pair_margin, pair_weight,
            ties=given.ties, cost=given.cost,
        )  # fmt: skip
        graphs, space = self._problem(given, rows, data, on_device(rows, given.device, X))
        solutions = self._iterated(space.X, graphs, grid)
        if solutions is None:
            solutions = graphs.gather(lambda graph: given._system(space, graph).path(grid))
        else:
            space = _linear_space(rows)
        rankers = [
            self._at("alpha", alpha)._keep_solution(space, weights, graphs, data)
            for alpha, weights in zip(grid.tolist(), solutions, strict=True)
        ]
        return RankerPath(rankers, "alpha")

    def _problem(
        self, given: Any, X: Matrix, data: TrainingData, rows: Matrix
    ) -> tuple[OutputGraphs, FunctionSpace]:
        """Return the preferences, and the space of the ranking functions over rows that compute."""
        graphs = OutputGraphs.of(
            data, cost=given.cost, ties=given.ties, query_weight=given.query_weight
        )
        self.kernel_ = given.kernel.fitted_to(X, data.sample_weight)
        basis_rows = choose_basis(given.basis, X, basis_generator(given))
        return graphs, smallest_space(X, self.kernel_, basis_rows, graphs.rank, rows)

    def _iterated(self, X: Matrix, graphs: OutputGraphs, alphas: FloatArray) -> FloatArray | None:
        """Return weights of features found by iteration; None if dense equations are faster."""
        n_unknowns = unknowns_of_sparse_rows(X, self.kernel_, self.basis, graphs.rank)
        if not _iterations_are_quicker(X, n_unknowns):
            return None
        return iterate(X, graphs, alphas)

    def _system(self, space: FunctionSpace, graph: PreferenceGraph) -> System | MatrixFree:
        """Return the normal equations, without their matrix if it is not formed."""
        kernel = space.implicit_kernel()
        fits = 8.0 * graph.n_items**2 <= MEMORY_SHARE * memory_of(space.X)
        if kernel is None or self.solver == "direct" or (self.solver == "auto" and fits):
            return System.of(graph, space)
        settings = ConjugateGradients() if isinstance(self.solver, str) else self.solver
        n_basis = settings.basis_size(graph.n_items, kernel.X)
        features = kernel.spanned_features(n_basis, generator(self.random_state))
        single = kernel.single_product() if settings.precision == "mixed" else None
        return MatrixFree.of(graph, kernel.product, features, settings, kernel.size(), single)


def _iterations_are_quicker(X: Matrix, n_unknowns: int) -> bool:
    """Return whether sparse products solve sooner than dense equations of this order."""
    if n_unknowns < FEW_UNKNOWNS:
        return False
    return 4.0 * MOST_ITERATIONS * X.nnz < n_unknowns**3 / 3


def _linear_space(X: Matrix) -> FunctionSpace:
    return ExplicitSpace(X, Identity(), Identity())


def iterate(
    X: Matrix, graphs: OutputGraphs, alphas: FloatArray, max_iter: int = MOST_ITERATIONS
) -> FloatArray | None:
    """Return the weights of the features, (n_alphas, n_features, n_outputs), or None.

    Outputs are iterated side by side, the alphas of each in one Krylov space. None is returned if
    iterations do not converge; dense equations are then faster.
    """
    rows, rule = as_rows(X), StoppingRule(ITERATED_TO, max_iter, None)
    outputs, weights = graphs.by_output(), []
    for first in range(0, len(outputs), SIDE_BY_SIDE):
        operators, product = joint_operator(rows, outputs[first : first + SIDE_BY_SIDE])
        systems = [
            ShiftedSystems.of(operator, alphas, precondition=len(alphas) == 1)
            for operator in operators
        ]
        for found in side_by_side_cg(systems, product, rule, [Hooks()] * len(systems)):
            if found.ending.was_stopped:
                raise KeyboardInterrupt
            if not found.converged:
                return None
            weights.append(found.coefs)  # [APS10] (8)
    return np.stack(weights, axis=-1)
