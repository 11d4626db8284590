"""KPCRank: least-squares ranking on the leading kernel principal components."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Self, final

from numpy.typing import ArrayLike

from rankwise.core.checks import check_count
from rankwise.core.devices import as_device
from rankwise.core.training_data import TrainingData
from rankwise.features.components import Solver
from rankwise.features.kernels import Kernel, as_kernel
from rankwise.graph.preference_graph import Cost, Ties
from rankwise.graph.query_weights import QueryWeight
from rankwise.rankers.closed_form import ClosedFormRanker
from rankwise.rankers.kpcrank.component_fit import ComponentFit, check_alpha


@final
class KPCRank(ClosedFormRanker):
    r"""Learn to rank by least squares on the leading kernel principal components.

    The items are projected on the directions in which they vary most in the feature space of the
    kernel, and the cost of `RankRLS`,

    .. math:: \sum_q \omega_q \sum_{(i,j) \in q} w_{ij} \bigl(z_{ij} - (f_i - f_j)\bigr)^2
              + \alpha |f|^2 ,

    is minimised over the functions of these components, without regularisation unless asked for.
    Fewer components mean a simpler function: what little the items vary in the other directions
    is taken for noise. Costs O(n^3), or O(n^2) per component found for a few components of many
    items.

    Parameters
    ----------
    n_components : int
        Number of components at most; there are fewer where the items span fewer. `KPCRankCV`
        chooses it.
    kernel : {"gaussian", "linear", "laplacian", "polynomial", "precomputed"}, kernel or function
        The space of ranking functions; it is centred, for training and new rows alike.
    alpha : float
        What multiplies :math:`|f|^2`; 0 or more, on the scale of `RankRLS`.
    cost, ties, query_weight
        As in `RankRLS`.
    solver : {"auto", "full", "truncated"}
        How components are found: all of a tridiagonal reduction, or Lanczos iterations, which are
        faster for a few components of many items. Both give the same to the precision of the
        machine.
    device : str, optional
        Where the kernel matrix is formed and decomposed, as in `RankRLS`; `KPCRankCV` leaves
        queries out there, too.

    Attributes
    ----------
    n_components_ : int
        Number of components used.
    variances_ : (n_components,)
        The eigenvalues of the centred kernel that belong to them.
    coef_ : (n_features,) or (n_outputs, n_features)
        Weights of the features, with the linear kernel.
    dual_coef_ : (n_items,) or (n_items, n_outputs)
        Weights of the training rows otherwise.
    kernel_, n_queries_, n_ignored_queries_, fitted_with_qid_, n_features_in_, feature_names_in_
        As in `RankRLS`.

    Notes
    -----
    [TH10] Theorem 1, (6) and (8), in the form of Sect. 4.2 without its eigenvalue shortcut; scores
    are (9). A component that is constant inside every query, or that the components before it
    determine on the training pairs, gets the weight 0.

    Kernel principal component regression, the baseline KPCR of [TH10], is the same on one global
    ranking with ties kept: ``KPCRank(p, ties="keep").fit(X, y)``, without `qid`.

    Examples
    --------
    >>> import numpy as np
    >>> from rankwise import KPCRank
    >>> rng = np.random.default_rng(0)
    >>> X, qid = rng.normal(size=(60, 5)), np.repeat(np.arange(6), 10)
    >>> y = X[:, 0] + 0.1 * rng.normal(size=60)
    >>> ranker = KPCRank(n_components=20).fit(X, y, qid=qid)
    >>> ranker.n_components_, bool(ranker.score(X, y, qid=qid) > 0.9)
    (20, True)
    """

    def __init__(
        self,
        n_components: int = 10,
        kernel: str | Kernel | Callable[[Any, Any], Any] = "gaussian",
        *,
        alpha: float = 0.0,
        cost: Cost = "magnitude",
        ties: Ties = "drop",
        query_weight: QueryWeight = "items",
        solver: Solver = "auto",
        device: str | None = None,
    ) -> None:
        self.n_components = n_components
        self.kernel = kernel
        self.alpha = alpha
        self.cost = cost
        self.ties = ties
        self.query_weight = query_weight
        self.solver = solver
        self.device = device

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
    ) -> Self:
        """Learn from scores, optionally inside queries, or from comparisons.

        Parameters
        ----------
        X, y, qid, sample_weight, pairs, pair_margin, pair_weight
            As in `RankRLS`. All rows of X shape the components, by `sample_weight` where given,
            whether or not a preference is known of them.
        """
        n_components = check_count("n_components", self.n_components)
        alpha = check_alpha(self.alpha)
        X = self._check_rows(X)
        data = TrainingData.of(X.shape[0], y, qid, sample_weight, pairs, pair_margin, pair_weight)
        self.kernel_ = as_kernel(self.kernel).fitted_to(X, data.sample_weight)
        fit = ComponentFit.of(
            self.kernel_,
            X,
            data,
            n_components,
            self.solver,
            alpha,
            as_device(self.device),
            cost=self.cost,
            ties=self.ties,
            query_weight=self.query_weight,
        )
        self.n_components_ = fit.components.n_components
        self.variances_ = fit.components.variances
        return self._keep_solution(fit.space, fit.weights(self.n_components_), fit.graphs, data)
