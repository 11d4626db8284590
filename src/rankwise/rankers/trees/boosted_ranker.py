"""Boosted trees that are grown for exact losses over all pairs of a query."""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from functools import cached_property, partial
from typing import Annotated, Any, Never, Self, final
from weakref import WeakKeyDictionary

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy import sparse
from sklearn.utils.validation import check_is_fitted, validate_data

from rankwise.core.arrays import FloatArray, IntArray, Matrix
from rankwise.core.checks import (
    are_plain_rows,
    refuse_overflow,
    refuse_unusable_rows,
)
from rankwise.core.errors import InvalidInputError
from rankwise.core.namespaces import as_given
from rankwise.core.params import (
    Above,
    Advice,
    AtLeast,
    AtMost,
    CheckedWith,
    Count,
    Positive,
    RandomSeed,
    Shape,
    check_value,
    checked,
)
from rankwise.core.queries import TrainingData
from rankwise.core.storable import Counted, Finite, FitsState
from rankwise.core.threads import n_threads
from rankwise.graph.preference_graph import Cost, PreferenceGraph, QueryWeight, Ties
from rankwise.io.frames import read_columns
from rankwise.io.tree_text import are_trees, trees_only
from rankwise.measures.registry import MeasureLike
from rankwise.measures.value import Judgements, Measure, Rankings
from rankwise.rankers.base import Ranker, generator
from rankwise.rankers.reading import read_rows, read_training, refuse_other_arguments
from rankwise.rankers.trees.library import lightgbm
from rankwise.rankers.trees.monotone import directions_of
from rankwise.rankers.trees.objectives import TreeLoss, TreeObjective, sizes_of_runs, tree_objective
from rankwise.selection.holdouts import (
    Folds,
    ValidationData,
    refuse_partial_validation,
    resolve_folds,
)
from rankwise.selection.path import SelectionPath, as_measure
from rankwise.solve.iteration import (
    Ending,
    Reason,
    Step,
    StepCallback,
    StoppingRule,
    steps_shown,
    wants_to_stop,
)

BLOCK_ROWS = 1024
"""Rows that are compared at a time."""

FEW_ENTRIES = 1 << 23
"""Number of entries of X below which one thread is quickest."""

ALL_TRUNCATION = 30
"""What LightGBM takes for lambdarank's truncation when nothing is said."""

Rate = Callable[[FloatArray], tuple[float, float]]
"""The weighted sum of a measure over held-out queries at given scores, and the sum of weights."""


def _are_trees(model: NDArray[np.uint8], state: Mapping[str, Any]) -> bool:
    """Return whether bytes are the text of trees over the features of a ranker."""
    return are_trees(model.tobytes(), state["n_features_in_"])


@final
class BoostedRanker(Ranker):
    r"""Learn to rank by boosted trees, grown by LightGBM for exact losses over all pairs.

    Each tree is a step of Newton's method on the loss of the scores f so far. With RankRLS the
    gradient is :math:`Lf - r`, over every pair of a query, in O(n); with the squared hinge it is a
    sum over the pairs whose slack is positive, in O(n log n). LightGBM's own lambdarank is
    available too. The number of trees is chosen on held-out queries by any measure.

    Needs LightGBM: ``pip install "rankwise[trees]"``.

    Parameters
    ----------
    loss : {"rank_rls", "squared_hinge", "lambdarank"}
        The loss that the trees minimise.
    cost, ties, query_weight
        The preferences, as in `RankRLS`. The squared hinge has no ties and no relative cost;
        lambdarank ignores all three.
    n_trees : int
        Number of trees; with `early_stopping`, the largest number.
    learning_rate : float
        Factor of each tree.
    max_leaf_nodes, min_samples_leaf : int
        Largest number of leaves of a tree, and smallest number of items of a leaf.
    alpha : float
        Regularisation: it is added to the curvature of each leaf, to which an item adds about 1.
    feature_share : float
        Share of the features that each tree uses, drawn anew for each tree.
    max_bins : int
        Largest number of distinct values per feature; fewer bins make growing faster.
    monotone : dict or None
        Features, by name or position, in which scores may only rise (1) or only fall (-1), as in
        ``{"price": -1}``.
    early_stopping : bool
        Whether to choose the number of trees by held-out queries and to stop when the value has not
        risen for `n_iter_no_change` trees. Otherwise all `n_trees` are grown.
    cv : int, splitter or list of folds
        Number of folds of queries (of items without `qid`, of comparisons with `pairs`) that are
        held out in turn, or the folds, as in `RankRLSCV`. The final trees are grown from all data.
    n_iter_no_change : int
        Number of trees without improvement after which growing stops.
    measure : Measure or str, optional
        The measure that decides; by default the share of pairs in the right order. Its cut-off also
        sets how far down a ranking counts for lambdarank.
    progress : bool or function
        Whether to show the trees; or a function that is called with a `Step` after each, and stops
        by returning True.
    random_state : int, RandomState or None
        Draws folds and features.

    Attributes
    ----------
    model_ : (n_bytes,)
        LightGBM's text of the model.
    n_trees_ : int
        Number of trees.
    path_ : SelectionPath or None
        The held-out value of each number of trees.
    held_out_value_ : float
        The best of these; NaN without early stopping.
    held_out_scores_ : (n_items,) or None
        The score of every item by trees that have not seen its query.
    ending_ : Ending
        Why growing ended.
    feature_importances_ : (n_features,)
        The share of the reduction of the loss due to the splits on each feature.
    n_queries_, n_ignored_queries_, fitted_with_qid_, n_features_in_
        As in `RankRLS`.

    Notes
    -----
    The second derivative of the RankRLS loss is L; its diagonal, the degrees, is used in its place.
    Blanks (NaN) are allowed. Rows may be in any order, and scores may be any real numbers with
    every loss.

    Examples
    --------
    >>> import numpy as np
    >>> from rankwise import BoostedRanker
    >>> rng = np.random.default_rng(0)
    >>> X, qid = rng.normal(size=(600, 3)), np.repeat(np.arange(60), 10)
    >>> y = np.round(np.abs(X[:, 0]) + 0.2 * rng.normal(size=600))
    >>> ranker = BoostedRanker(measure="NDCG @ 5", random_state=0).fit(X, y, qid=qid)
    >>> bool(ranker.held_out_value_ > 0.95)
    True
    """

    n_trees_: Counted
    model_: Annotated[NDArray[np.uint8], Shape("n_bytes"), FitsState(_are_trees)]
    feature_importances_: Annotated[FloatArray, Finite(), Shape("n_features")]
    path_: SelectionPath | None
    held_out_value_: float
    held_out_scores_: FloatArray | None
    ending_: Ending

    def __init__(
        self,
        loss: TreeLoss = "rank_rls",
        *,
        cost: Cost = "magnitude",
        ties: Ties = "drop",
        query_weight: QueryWeight = "items",
        n_trees: Count = 500,
        learning_rate: Annotated[float, Positive(), Advice("0.05 and 0.1 are usual.")] = 0.05,
        max_leaf_nodes: Annotated[int, AtLeast(2)] = 15,
        min_samples_leaf: Count = 20,
        alpha: Annotated[float, Positive(), Advice("It is added to each leaf.")] = 1.0,
        feature_share: Annotated[float, Above(0), AtMost(1)] = 1.0,
        max_bins: Annotated[int, AtLeast(2)] = 255,
        monotone: Annotated[dict[str, int] | dict[int, int] | None, CheckedWith("X")] = None,
        early_stopping: bool = True,
        cv: Any = 3,
        n_iter_no_change: Count = 50,
        measure: MeasureLike | None = None,
        progress: bool | StepCallback = False,
        random_state: RandomSeed = None,
    ) -> None:
        self.loss = loss
        self.cost = cost
        self.ties = ties
        self.query_weight = query_weight
        self.n_trees = n_trees
        self.learning_rate = learning_rate
        self.max_leaf_nodes = max_leaf_nodes
        self.min_samples_leaf = min_samples_leaf
        self.alpha = alpha
        self.feature_share = feature_share
        self.max_bins = max_bins
        self.monotone = monotone
        self.early_stopping = early_stopping
        self.cv = cv
        self.n_iter_no_change = n_iter_no_change
        self.measure = measure
        self.progress = progress
        self.random_state = random_state

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.allow_nan = True
        return tags

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
        X_val: Any = None,
        y_val: ArrayLike | None = None,
        qid_val: ArrayLike | None = None,
        **others: Never,
    ) -> Self:
        """Choose the number of trees on held-out data, then grow them from all data.

        Parameters
        ----------
        X : (n_items, n_features), dense or sparse
            The items; NaN is a blank.
        y, qid, sample_weight, pairs, pair_margin, pair_weight
            As in `RankRLS`, with a single output.
        X_val, y_val, qid_val : optional
            Validation data that choose the number of trees in place of folds.
        """
        refuse_other_arguments(others)
        checked(self)  # refuses parameters before anything is done
        X, data = read_training(self, X, y, qid, sample_weight, pairs, pair_margin, pair_weight)
        refuse_partial_validation(X_val, y_val, qid_val)
        validation = None
        if X_val is not None:
            y_val, qid_val = read_columns(X_val, "X_val", y_val=y_val, qid_val=qid_val)
            rows = read_rows(self, X_val)
            validation = ValidationData.of(rows, y_val, qid_val, has_qid=data.has_qid)
        return self._fit_problem(TreeProblem.of(X, data, self.max_bins), validation)

    def _fit_problem(self, problem: TreeProblem, validation: ValidationData | None) -> Self:
        """Grow trees from rows that are in bins."""
        with steps_shown(self.progress, "BoostedRanker", total=self.n_trees) as on_step:
            found = self._grow(problem, validation, on_step)
        self._keep_trees(found, problem)
        return self

    def _growth(self, n_features: int) -> dict[str, Any]:
        """Return the parameters of the trees in LightGBM's words."""
        names = vars(self).get("feature_names_in_")
        directions = directions_of(self.monotone, names, n_features)
        constraints = {"monotone_constraints": directions} if any(directions) else {}
        return {
            **constraints,
            "learning_rate": self.learning_rate,
            "num_leaves": self.max_leaf_nodes,
            "min_data_in_leaf": self.min_samples_leaf,
            "min_sum_hessian_in_leaf": 1e-6,
            "lambda_l2": self.alpha,
            "feature_fraction": self.feature_share,
            "lambdarank_truncation_level": _truncation(as_measure(self.measure)),
            "metric": "none",
            "seed": int(generator(self.random_state).integers(2**31 - 1)),
        }

    def _objective(self, data: TrainingData) -> TreeObjective:
        return tree_objective(self.loss, data, self.cost, self.ties, self.query_weight)

    def _grow(
        self,
        problem: TreeProblem,
        validation: ValidationData | None,
        on_step: StepCallback | None,
    ) -> _Chosen:
        """Grow trees from all data, as many as held-out data ask for."""
        measure, n_trees = as_measure(self.measure), self.n_trees
        grow = partial(problem.grow, self, on_step=on_step)
        whole = _Part(np.arange(problem.X.shape[0]), problem.data)
        # validation data choose the number of trees, grown from all data
        if validation is not None:
            rate = _rate_queries(validation, measure)
            grown = grow(replace(whole, held_out=validation.X, rate=rate), n_trees)
            path = _path([grown], measure)
            n_trees = int(path.grid[path.best()])
            return _Chosen(grown, n_trees, path)
        if not self.early_stopping:
            return _Chosen(grow(whole, n_trees), n_trees)
        # folds choose it: held-out value after each tree, averaged over folds
        parts = problem.parts(self.cv, measure, generator(self.random_state))
        folds = []
        for part in parts:
            folds.append(grow(part, n_trees))
            if folds[-1].reason == "interrupted":
                break
        path = _path(folds, measure)
        n_trees = int(path.grid[path.best()])
        # held-out scores by that number of trees of each fold, then the trees of all data
        scores = None
        if problem.data.is_scored:
            scores = np.full(problem.X.shape[0], np.nan)
            for part, fold in zip(parts, folds, strict=False):
                rows = part.held_out
                scores[rows] = _scores_of(fold.booster, problem.X[rows], n_trees)
        grown = grow(whole, n_trees)
        if folds[-1].reason == "interrupted":
            grown = replace(grown, reason="interrupted")
        return _Chosen(grown, n_trees, path, scores)

    def _keep_trees(self, found: _Chosen, problem: TreeProblem) -> None:
        """Store the text of the model and what was held out."""
        # the trees as text, without what LightGBM writes besides
        booster, data = found.grown.booster, problem.data_given
        self.n_trees_ = min(found.n_trees, booster.current_iteration())
        text = booster.model_to_string(num_iteration=self.n_trees_)
        self.model_ = np.frombuffer(trees_only(text), dtype=np.uint8).copy()
        gain = booster.feature_importance("gain", iteration=self.n_trees_)
        self.feature_importances_ = gain / max(gain.sum(), np.finfo(float).tiny)
        # what was held out, in the given order of rows
        self.path_ = found.path
        self.held_out_value_ = float("nan")
        if found.path is not None:
            self.held_out_value_ = float(found.path.values[found.path.best()])
        self.held_out_scores_ = None
        if found.scores is not None:
            self.held_out_scores_ = np.empty_like(found.scores)
            self.held_out_scores_[problem.order] = found.scores
        # why growing ended, and the queries
        rule = StoppingRule(np.inf, self.n_trees)
        reason = found.grown.reason
        self.ending_ = rule.end(reason, self.n_trees_, float("nan"))
        self._remember(data)
        graph = PreferenceGraph.of(data, query_weight=self.query_weight)
        self.n_ignored_queries_ = graph.n_ignored_queries
        self.ending_.warn()

    def predict(self, X: Any, qid: ArrayLike | None = None) -> FloatArray:  # noqa: ARG002
        """Return a score for every row of X; higher is better, comparable only within a query.

        Parameters
        ----------
        X : (n_items, n_features)
            Rows to score.
        qid : (n_items,), optional
            Ignored: every row is scored by itself.

        Returns
        -------
        scores : (n_items,)
        """
        if "model_" not in vars(self):
            check_is_fitted(self)
        return as_given(self._scores(read_rows(self, X)), X)

    def _check_rows(self, X: Any, *, reset: bool) -> Matrix:
        if not reset and are_plain_rows(X, self, allow_nan=True):
            return X
        refuse_unusable_rows(X)
        with refuse_overflow():
            rows = validate_data(
                self,
                X,
                reset=reset,
                accept_sparse="csr",
                dtype=[np.float64, np.float32],
                ensure_all_finite="allow-nan",
                ensure_min_samples=2 if reset else 1,
            )
        return sparse.csr_matrix(rows) if sparse.issparse(rows) else rows  # what LightGBM takes

    def tree_structures(self) -> list[dict[str, Any]]:
        """Return the trees as LightGBM describes them: nested nodes, from the root."""
        check_is_fitted(self)
        trees = _booster_of(self).dump_model()["tree_info"]
        return [tree["tree_structure"] for tree in trees]

    def _scores(self, X: Matrix) -> FloatArray:
        return _scores_of(_booster_of(self), X)


def _scores_of(booster: Any, X: Matrix, n_trees: int | None = None) -> FloatArray:
    """Return the sum of the first trees."""
    threads = _n_threads(X)
    scores = booster.predict(X, raw_score=True, num_iteration=n_trees, num_threads=threads)
    return np.asarray(scores, dtype=float)


def scores_after(ranker: BoostedRanker, X: Matrix, n_trees: int) -> FloatArray:
    """Return the scores of rows by the first trees of a fitted ranker."""
    return _scores_of(_booster_of(ranker), X, n_trees)


def _truncation(measure: Measure) -> int:
    """Return lambdarank's truncation level: a few positions below the cut-off of the measure."""
    cutoff = measure.parameters.get("cutoff")
    return ALL_TRUNCATION if cutoff is None else int(cutoff) + 3


def _n_threads(X: Matrix) -> int:
    return 1 if X.shape[0] * X.shape[1] < FEW_ENTRIES else n_threads()


def _refuse_constant_features(X: Matrix) -> None:
    """Refuse rows that are all equal, for which LightGBM's own error is unclear."""
    first = X[:1].toarray() if sparse.issparse(X) else X[:1]
    width = X.shape[1]
    for start in range(0, X.shape[0], BLOCK_ROWS):
        rows = X[start : start + BLOCK_ROWS]
        rows = rows.toarray() if sparse.issparse(rows) else rows
        if not np.array_equal(rows, np.broadcast_to(first, (len(rows), width)), equal_nan=True):
            return
    raise InvalidInputError(
        "At least one feature must vary for trees to be grown: all rows of `X` are the same."
    )


_READ: WeakKeyDictionary[BoostedRanker, tuple[NDArray[np.uint8], Any]] = WeakKeyDictionary()
"""The trees of rankers that predicted, with the text that they were read from."""


def _booster_of(ranker: BoostedRanker) -> Any:
    """Return the trees of a ranker; reading them takes longer than scoring a few rows."""
    text, booster = _READ.get(ranker, (None, None))
    if text is not ranker.model_:
        booster = _lightgbm().Booster(model_str=ranker.model_.tobytes().decode())
        _READ[ranker] = ranker.model_, booster
    return booster


@contextmanager
def _refused_options() -> Iterator[None]:
    """Name the options that LightGBM refuses as our own errors do."""
    try:
        yield
    except _lightgbm().basic.LightGBMError as error:
        raise InvalidInputError(f"LightGBM must accept the options: {error}.") from error


def _lightgbm() -> Any:
    return lightgbm("BoostedRanker")


@final
@dataclass(frozen=True, eq=False)
class _Part:
    """The rows and the data to learn from, and what is held out of them.

    Held-out rows are given as such, or as row numbers; ``rate`` says how good their scores are.
    """

    rows: IntArray
    data: TrainingData
    held_out: Matrix | IntArray | None = None
    rate: Rate | None = None


@final
@dataclass(frozen=True, eq=False)
class _Grown:
    """Trees, the sums of the held-out measure after each, and why growing ended."""

    booster: Any
    sums: FloatArray
    weight: float
    reason: Reason


@final
@dataclass(frozen=True, eq=False)
class _Chosen:
    """The trees of all data, how many of them count, and the held-out values and scores."""

    grown: _Grown
    n_trees: int
    path: SelectionPath | None = None
    scores: FloatArray | None = None


@final
@dataclass(frozen=True, eq=False)
class TreeProblem:
    """The data that trees are grown from; items are sorted by query, as lambdarank requires.

    Rows are binned once, for all folds and for every ranker that shares the problem.
    """

    X: Matrix
    data: TrainingData
    order: IntArray
    X_given: Matrix
    data_given: TrainingData
    max_bins: int

    @classmethod
    def of(cls, X: Matrix, data: TrainingData, max_bins: int) -> Self:
        """Sort the items by query; refuse rows that are all equal."""
        _refuse_constant_features(X)
        order = data.queries.order
        if not data.is_scored or data.queries.is_sorted:
            return cls(X, data, order, X, data, max_bins)
        return cls(X[order], data.take(order), order, X, data, max_bins)

    @cached_property
    def bins(self) -> Any:
        """LightGBM's data, without labels."""
        labels = np.zeros(self.X.shape[0])
        with _refused_options():
            return _lightgbm().Dataset(self.X, labels, params=self.bin_options).construct()

    @property
    def bin_options(self) -> dict[str, Any]:
        """The options that LightGBM must be given unchanged whenever it uses the bins."""
        return {
            "max_bin": self.max_bins,
            "feature_pre_filter": False,
            "verbose": -1,
            "deterministic": True,
            "force_col_wise": True,
            "num_threads": _n_threads(self.X),
        }

    def parts(self, cv: Any, measure: Measure, rng: np.random.Generator) -> list[_Part]:
        """Return the folds: of queries, of the items of one query, or of comparisons."""
        # folds of comparisons, whole queries together
        if not self.data.is_scored:
            groups = np.arange(len(self.data.comparisons[0]))
            if self.data.has_qid:
                groups = np.unique(self.data.pair_queries, return_inverse=True)[1]
            folds = Folds.random(check_value("cv", cv, Count), groups, rng)
            out = [np.flatnonzero(folds.fold == k) for k in range(folds.n_folds)]
            return [self._part_of_pairs(rows) for rows in out]
        # folds of queries or items, in the given order of rows
        folds = resolve_folds(cv, self.X_given, self.data_given, rng)
        if self.data_given.has_qid:
            folds.of_components(self.data_given.queries.index)  # refuses folds that cut queries
        fold = folds.fold[self.order]
        return [
            self._part_of_rows(np.flatnonzero(fold == k), measure) for k in range(folds.n_folds)
        ]

    def _part_of_rows(self, out: IntArray, measure: Measure) -> _Part:
        kept = np.setdiff1d(np.arange(self.data.n_items), out, assume_unique=True)
        held = self.data.take(out)
        rate = _rate_queries(ValidationData(self.X[:0], held.scores, held.queries), measure)
        return _Part(kept, self.data.take(kept), out, rate)

    def _part_of_pairs(self, out: IntArray) -> _Part:
        pairs, _, weight = self.data.comparisons
        everything = np.arange(self.data.n_items)
        rate = _rate_pairs(pairs[out], weight[out])
        return _Part(everything, self.data.without_pairs(out), everything, rate)

    def grow(
        self, ranker: BoostedRanker, part: _Part, n_trees: int, on_step: StepCallback | None
    ) -> _Grown:
        """Grow trees from some rows until the held-out value has not risen for long enough."""
        objective, patience = ranker._objective(part.data), ranker.n_iter_no_change
        booster = self._booster(ranker, part, objective)
        values: list[float] = []
        sums: list[float] = []
        weight = 1.0
        reason: Reason = "exhausted"
        try:
            # a tree for the derivatives of the loss at the scores so far, then the held-out value
            for number in range(n_trees):
                objective.add_tree(booster)
                if part.rate is not None:
                    total, weight = part.rate(_held_out_scores(booster))
                    values.append(total / weight)
                    sums.append(total)
                    if number - int(np.argmax(values)) >= patience:
                        reason = "no improvement"
                        break
                step = Step(number + 1, float("nan"), label=_label(values))
                if on_step is not None and wants_to_stop(on_step(step)):
                    reason = "callback"
                    break
        except KeyboardInterrupt:
            if (booster.current_iteration() if part.rate is None else len(sums)) == 0:
                raise  # there is nothing to keep
            reason = "interrupted"
        return _Grown(booster, np.array(sums), weight, reason)

    def _booster(self, ranker: BoostedRanker, part: _Part, objective: TreeObjective) -> Any:
        """Return a booster without trees that keeps the scores of held-out rows current."""
        # the rows learned from, in the shared bins
        labels, explained = objective.labels()
        options = {
            **ranker._growth(self.X.shape[1]),
            **self.bin_options,
            **explained,
            "objective": objective.name,
        }
        training = self.bins.subset(part.rows).construct().set_label(labels)
        if objective.name == "lambdarank":
            training.set_group(sizes_of_runs(part.data.queries.index))
            if part.data.sample_weight is not None:
                training.set_weight(part.data.sample_weight)
        with _refused_options():
            booster = _lightgbm().Booster(options, training)
        # held-out rows in the same bins, as one group: the groups do not matter for scores
        if part.held_out is not None:
            held_rows = self._binned(part.held_out)
            if objective.name == "lambdarank":
                held_rows.set_group([held_rows.num_data()])
            booster.add_valid(held_rows, "held out")
        return booster

    def _binned(self, held: Matrix | IntArray) -> Any:
        """Return rows in the same bins: rows of this problem by number, or others."""
        if held.ndim == 1:
            return self.bins.subset(held).construct()
        nothing = np.zeros(held.shape[0])
        others = _lightgbm().Dataset(held, nothing, reference=self.bins, params=self.bin_options)
        return others.construct()


@final
@dataclass(frozen=True, eq=False)
class FoldTrees:
    """Trees that grow from what a fold is held out of.

    Parameters
    ----------
    booster
        LightGBM's booster, which keeps the scores of held-out rows current.
    objective : TreeObjective
    rows : (n_held_out,)
        The rows that are held out, in the given order of rows.
    """

    booster: Any
    objective: TreeObjective
    rows: IntArray


def trees_of_folds(
    problems: Sequence[TreeProblem], ranker: BoostedRanker, folds: Folds
) -> list[FoldTrees]:
    """Return trees to grow for each fit of the folds.

    Parameters
    ----------
    problems : list of TreeProblem
        For each fold, the rows that it is held out of; they may be the same.
    ranker : BoostedRanker
        The ranker to grow.
    folds : Folds
        The rows that are held out together, in the given order of rows.
    """
    found = []
    for problem, (kept, out) in zip(problems, folds.rounds, strict=False):
        place = np.empty(len(problem.order), dtype=np.intp)
        place[problem.order] = np.arange(len(place))
        learned, held = np.sort(place[kept]), np.sort(place[out])
        part = _Part(learned, problem.data.take(learned), held)
        objective = ranker._objective(part.data)
        booster = problem._booster(ranker, part, objective)
        found.append(FoldTrees(booster, objective, problem.order[held]))
    return found


def staged_scores(
    growing: Sequence[FoldTrees], n_trees: int, folds: Folds, stage: int
) -> Generator[FloatArray]:
    """Grow the trees of all folds side by side; yield the held-out scores of every stage.

    Parameters
    ----------
    growing : list of FoldTrees
        The trees.
    n_trees : int
        Their number at most.
    folds : Folds
        The rows that are held out together.
    stage : int
        Number of trees between two evaluations.

    Yields
    ------
    scores : (n_items,)
        NaN for items that no fold holds out.
    """
    for _ in range(n_trees // stage):
        scores = np.full(len(folds.fold), np.nan)
        for trees in growing:
            for _ in range(stage):
                trees.objective.add_tree(trees.booster)
            scores[trees.rows] = _held_out_scores(trees.booster)
        yield scores


def keep_first_trees(
    ranker: BoostedRanker, problem: TreeProblem, trees: FoldTrees
) -> BoostedRanker:
    """Return a ranker of the first of some trees, as many as it has."""
    ranker._check_rows(problem.X_given, reset=True)
    grown = _Grown(trees.booster, np.zeros(0), 1.0, "exhausted")
    ranker._keep_trees(_Chosen(grown, ranker.n_trees), problem)
    return ranker


def fit_to_problem(ranker: BoostedRanker, problem: TreeProblem) -> BoostedRanker:
    """Fit a ranker to rows that others share with it; Ctrl-C is not kept for an ending."""
    ranker._check_rows(problem.X_given, reset=True)
    ranker._fit_problem(problem, None)
    if ranker.ending_.reason == "interrupted":
        raise KeyboardInterrupt
    return ranker


def _label(values: list[float]) -> str:
    return f"held out {values[-1]:.4f}, best {max(values):.4f}" if values else "all data"


def _held_out_scores(booster: Any) -> FloatArray:
    """Return the scores of held-out rows, which LightGBM updates by each tree."""
    seen: list[FloatArray] = []

    def record(scores: FloatArray, _: Any) -> tuple[str, float, bool]:
        seen.append(np.array(scores, dtype=float))
        return "seen", 0.0, True

    booster.eval_valid(record)
    return seen[0]


def _rate_queries(validation: ValidationData, measure: Measure) -> Rate:
    """Rate the scores of queries; larger sums are better for every measure."""
    judgements = Judgements.of(validation.y, validation.queries)
    plan = measure.prepare(judgements)
    # sums and weights, so that folds can be pooled
    sign = 1.0 if measure.greater_is_better else -1.0

    def rate(scores: FloatArray) -> tuple[float, float]:
        values = measure.rate(plan, Rankings.of(judgements, scores[None], plan.depth))[0]
        weight = np.where(np.isnan(values), 0.0, plan.weight)
        return sign * float(np.nan_to_num(values) @ weight), float(weight.sum())

    if rate(np.zeros(len(validation.y)))[1] == 0.0:
        raise InvalidInputError(
            f"At least one held-out query must define {measure!r}: none of "
            f"{validation.queries.n_queries} does. Use fewer folds, or early_stopping=False."
        )
    return rate


def _rate_pairs(pairs: IntArray, weight: FloatArray) -> Rate:
    """Rate scores by the weight of the comparisons in the right order."""

    def rate(scores: FloatArray) -> tuple[float, float]:
        lead = scores[pairs[:, 0]] - scores[pairs[:, 1]]
        return float((np.sign(lead) + 1.0) / 2.0 @ weight), float(weight.sum())

    return rate


def _path(folds: list[_Grown], measure: Measure) -> SelectionPath:
    """Average over folds; one that has stopped earlier keeps its last value."""
    # sums over the held-out queries of all folds after each tree, over their weights
    longest = max(len(fold.sums) for fold in folds)
    padded = [np.pad(fold.sums, (0, longest - len(fold.sums)), "edge") for fold in folds]
    values = np.sum(padded, axis=0) / sum(fold.weight for fold in folds)
    grid: NDArray[Any] = np.arange(1, longest + 1)
    signed = values if measure.greater_is_better else -values
    unknown = np.full(longest, np.nan)
    return SelectionPath(
        "n_trees", grid, measure, signed, unknown, None, np.zeros(longest), "smallest"
    )
