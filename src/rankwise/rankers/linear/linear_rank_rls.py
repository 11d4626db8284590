"""LinearRankRLS: least-squares ranking of large, sparse data by conjugate gradients."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from copy import deepcopy
from dataclasses import replace
from os import PathLike
from typing import TYPE_CHECKING, Annotated, Any, Never, Self, final

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.utils.validation import check_is_fitted

from rankwise.core.arrays import FloatArray, IntArray, Matrix
from rankwise.core.display import new_axes
from rankwise.core.errors import InvalidInputError
from rankwise.core.namespaces import on_host, place
from rankwise.core.params import (
    Advice,
    ArrayOf,
    AtLeast,
    AtMost,
    Below,
    Count,
    FilePath,
    RandomSeed,
    check_call,
    checked,
)
from rankwise.core.queries import TrainingData
from rankwise.core.storable import Counted, Finite, Stored
from rankwise.features.function_space import Identity
from rankwise.graph.preference_graph import Cost, OutputGraphs, PreferenceGraph, QueryWeight, Ties
from rankwise.io.frames import read_columns
from rankwise.io.reading import open_stream
from rankwise.io.svmlight import ZeroBased
from rankwise.measures.registry import MeasureLike
from rankwise.rankers.base import PointRanker, generator
from rankwise.rankers.closed_form import (
    compared_validation,
    refuse_both_validations,
    refuse_idle_weight,
)
from rankwise.rankers.linear.files import (
    FileSolver,
    gather_statistics,
    prefers_statistics,
    refuse_missing_validation,
    refuse_no_features,
    solve_statistics,
    stored_operator,
)
from rankwise.rankers.linear.run import (
    ALPHA_ADVICE,
    LARGEST_ALPHA,
    OutputProblem,
    Settings,
    Storage,
    run,
    run_in_batches,
)
from rankwise.rankers.linear.statistics import OnePassError
from rankwise.rankers.linear.validation import (
    N_HOLD_OUTS,
    HeldOutShare,
    hold_out,
    several_hold_outs,
    validate_by_data,
    validate_by_pairs,
)
from rankwise.rankers.reading import read_rows, read_training, refuse_other_arguments
from rankwise.selection.holdouts import ValidationData, refuse_partial_validation
from rankwise.selection.path import refuse_listwise
from rankwise.solve.conjugate_gradients import CGResult, Validator, best_position, last_known
from rankwise.solve.iteration import StepCallback
from rankwise.solve.moved_rows import rows_like
from rankwise.solve.rows import StoredRows

if TYPE_CHECKING:
    from matplotlib.axes import Axes

MOST_LINES = 8
"""Alphas with a line of their own, evenly spread over the grid."""


def plot_history(history: Mapping[str, NDArray[Any]], ylabel: str, ax: Axes | None = None) -> Axes:
    """Draw the validation value, or without early stopping the residual, by iteration and alpha."""
    axes = new_axes() if ax is None else ax
    validated = bool((~np.isnan(history["value"])).sum(axis=0).max(initial=0) > 1)
    values = history["value"] if validated else history["residual"]
    alphas = history["alpha"]
    spread = np.unique(np.linspace(0, len(alphas) - 1, MOST_LINES).round().astype(int))
    for k in np.argsort(alphas)[spread[spread < len(alphas)]]:
        axes.plot(history["iteration"], values[:, k], label=f"{alphas[k]:.4g}")
    axes.set_xlabel("iteration")
    axes.set_ylabel(ylabel if validated else "relative residual")
    if not validated:
        axes.set_yscale("log")
    axes.legend(title="alpha")
    return axes


@final
class LinearRankRLS(PointRanker):
    r"""Learn a linear ranking function from large or sparse data by conjugate gradients.

    Minimises what `RankRLS` minimises with a linear kernel,

    .. math:: \sum_q \omega_q \sum_{(i,j) \in q} w_{ij} \bigl(z_{ij} - (w^\top x_i - w^\top
              x_j)\bigr)^2 + \alpha |w|^2

    without ever forming a features-by-features or items-by-items matrix. An iteration costs
    O(non-zeros of X), or O(non-zeros + pairs) with comparisons. The values of X are not copied; its
    indices are copied, with 2 bytes each, if that is faster.

    Parameters
    ----------
    alpha : float
        Regularisation: the factor of :math:`|w|^2`, as in `RankRLS`. May be 0 with
        `early_stopping`.
    alphas : (n_alphas,), optional
        A grid in place of `alpha`; the alpha with the best validation value is kept. All are
        learned in one Krylov space, in little more time than the smallest without a preconditioner.
        If features differ so much in size that it is faster, they are learned one by one, each from
        the best start that the earlier ones give.
    early_stopping : bool
        Stop when the validation value has not improved for `n_iter_no_change` iterations, and keep
        the best iterate. With ``alpha=0`` the number of iterations regularises in place of alpha.
    validation_fraction : float
        Share of the queries (of the items of a single query, or of the comparisons) that is held
        out if `alphas` or `early_stopping` need validation data and none are given. On a single
        query `alphas` are judged by five such draws, each with the same share of every grade, and
        the best one is fitted to all items.
    n_iter_no_change : int
        Number of iterations without improvement after which `early_stopping` stops.
    max_iter : int
        Largest number of iterations; for each alpha, if these are learned one by one.
    tol : float
        The fit has converged when the residual is below `tol` times the right-hand side.
    warm_start : bool
        Start from the weights of the previous fit; not with `alphas`.
    dtype : {"float32", "float64"}, optional
        Store the values of X in this type. "float32" makes a copy of half the size; all sums stay
        in float64. By default the values of X are used as they are.
    cost, ties, query_weight
        As in `RankRLS`. With comparisons, `cost` applies to their margins, `query_weight` to those
        inside queries (`qid`), and `ties` to ties of comparisons by name.
    measure : str or Measure
        The measure that decides on scored validation data.
    progress : bool or callable
        Show a bar with iteration, residual and validation value; or call a function with each
        step, which stops the fit by returning True.
    checkpoint : path, optional
        A file that is written every minute, and from which an unfinished fit resumes.
    device : str, optional
        Where products with the rows are computed: a device of PyTorch such as "cuda", in double
        precision whatever `dtype`. Needs the extra "gpu". Files are read by the CPU.
    random_state : int, RandomState or None
        Draws the hold-out for validation.

    Attributes
    ----------
    coef_ : (n_features,) or (n_outputs, n_features)
        Weights of the features.
    alpha_ : float or (n_outputs,)
        The alpha of these weights.
    n_iter_ : int or (n_outputs,)
        Number of iterations made.
    best_iter_ : int or (n_outputs,)
        The iteration of these weights.
    history_ : dict of arrays
        ``"iteration"`` (n_iter,), ``"alpha"`` (n_alphas,), and ``"residual"``, ``"value"``
        (n_iter, n_alphas): the relative residual and the validation value, NaN if an alpha has
        finished or not begun, or nothing is validated. Without `early_stopping` only the last
        weights of each alpha are validated. With several outputs the last three have a further
        axis for outputs.
    held_out_value_ : float or (n_outputs,)
        The validation value of these weights; NaN without validation.
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
    [APS10]: the risk (3) with ties kept, conjugate gradients on (8), regularisation by iteration
    (Sect. 3.4) and comparisons (9) (Sect. 3.5). Ctrl-C ends a fit with the best model so far and
    warns. A single alpha without early stopping is preconditioned by the diagonal, whose small
    entries are raised if there are fewer preferences than features. A grid is solved by multi-shift
    conjugate gradients; or from the largest alpha to the smallest, preconditioned, each starting
    from the solution in the span of the earlier ones. Several outputs, and the hold-outs of a
    single query, are iterated side by side: a pass over the rows serves eight of them.

    Examples
    --------
    >>> import numpy as np
    >>> from scipy.sparse import random_array
    >>> from rankwise import LinearRankRLS
    >>> rng = np.random.default_rng(0)
    >>> X = random_array((300, 40), density=0.2, format="csr", rng=rng)
    >>> y = np.digitize(X @ rng.normal(size=40), [-1, 0, 1])
    >>> qid = np.repeat(np.arange(30), 10)
    >>> ranker = LinearRankRLS(alphas=2.0 ** np.arange(-10, 11), random_state=0).fit(X, y, qid=qid)
    >>> ranker.alpha_ in ranker.history_["alpha"], ranker.history_["value"].shape[1]
    (True, 21)
    >>> bool(ranker.score(X, y, qid=qid) > 0.9)
    True
    """

    alpha_: Annotated[Any, Stored(float | Annotated[FloatArray, Finite()])]
    n_iter_: Annotated[Any, Stored(Counted | IntArray)]
    best_iter_: Annotated[Any, Stored(Counted | IntArray)]
    held_out_value_: Annotated[Any, Stored(float | FloatArray | None)]
    history_: dict[str, Any]

    def __init__(
        self,
        alpha: Annotated[float, AtLeast(0), AtMost(LARGEST_ALPHA), Advice(ALPHA_ADVICE)] = 1.0,
        *,
        alphas: Annotated[
            ArrayLike | None,
            ArrayOf(float),
            AtLeast(0),
            AtMost(LARGEST_ALPHA),
            Advice(ALPHA_ADVICE),
        ] = None,
        early_stopping: bool = False,
        validation_fraction: HeldOutShare = 0.1,
        n_iter_no_change: Count = 10,
        max_iter: Count = 1000,
        tol: Annotated[float, AtLeast(0), Below(1)] = 1e-9,
        warm_start: bool = False,
        dtype: Storage | None = None,
        cost: Cost = "magnitude",
        ties: Ties = "drop",
        query_weight: QueryWeight = "items",
        measure: MeasureLike = "Concordance",
        progress: bool | StepCallback = False,
        checkpoint: FilePath | None = None,
        device: str | None = None,
        random_state: RandomSeed = None,
    ) -> None:
        self.alpha = alpha
        self.alphas = alphas
        self.early_stopping = early_stopping
        self.validation_fraction = validation_fraction
        self.n_iter_no_change = n_iter_no_change
        self.max_iter = max_iter
        self.tol = tol
        self.warm_start = warm_start
        self.dtype = dtype
        self.cost = cost
        self.ties = ties
        self.query_weight = query_weight
        self.measure = measure
        self.progress = progress
        self.checkpoint = checkpoint
        self.device = device
        self.random_state = random_state

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.target_tags.multi_output = True
        return tags

    def fit(
        self,
        X: Any,
        y: ArrayLike | None = None,
        qid: ArrayLike | None = None,
        sample_weight: ArrayLike | None = None,
        *,
        X_val: Any = None,
        y_val: ArrayLike | None = None,
        qid_val: ArrayLike | None = None,
        pairs: ArrayLike | None = None,
        pair_margin: ArrayLike | None = None,
        pair_weight: ArrayLike | None = None,
        pairs_val: ArrayLike | None = None,
        pair_weight_val: ArrayLike | None = None,
        **others: Never,
    ) -> Self:
        """Learn from scores, optionally inside queries, or from comparisons.

        Parameters
        ----------
        X : (n_items, n_features), sparse or dense
            The items, in any order; fits are faster if the rows of a query are contiguous.
        y : (n_items,) or (n_items, n_outputs)
            Scores of the items, higher is better. Outputs are learned independently, each with its
            own alpha and held-out items; one pass over X serves several outputs.
        qid : (n_items,), optional
            The query of each item, of any type and in any order; by default all items form one
            query.
        sample_weight : (n_items,), optional
            Weights of the items; the weight of a pair is the product of its two.
        X_val, y_val, qid_val : optional
            Validation data, in place of a hold-out of the training data.
        pairs : (n_pairs, 2), optional
            Comparisons in place of `y`: row numbers, winner first. With `qid`, both items of a
            pair belong to one query.
        pair_margin : (n_pairs,), optional
            By how much each winner leads; 1 by default.
        pair_weight : (n_pairs,), optional
            How much each comparison counts; 1 by default.
        pairs_val : (n_pairs, 2), optional
            Validation comparisons in place of `y_val`, judged by the share in the right order: rows
            of `X_val`, or of X without it.
        pair_weight_val : (n_pairs,), optional
            How much each of them counts.
        """
        refuse_other_arguments(others)
        given = checked(self)
        settings = Settings.of(given)
        where = place(given.device, X)
        rows, data = read_training(
            self, X, y, qid, sample_weight, pairs, pair_margin, pair_weight,
            ties=self.ties, cost=self.cost,
        )  # fmt: skip
        outputs = data.by_output()
        settings.refuse_checkpoint(len(outputs))
        if pairs_val is None:
            refuse_idle_weight(pair_weight_val)
            judges = (X_val, y_val, qid_val, len(outputs), data.has_qid)
            validators = self._validators(settings, *judges)
        else:
            compared = (X_val, y_val, qid_val, pairs_val, pair_weight_val)
            validators = self._compared_validators(settings, rows, data, X, *compared, (y, qid))
        starts = self._starts(rows.shape[1], len(outputs) if data.is_multi_output else None)
        if validators is None and settings.needs_validation:
            problems = self._held_out_problems(rows, outputs, settings, starts)
        else:
            problems = self._whole_problems(data, settings, validators, starts)
        stored = rows_like(rows, where, settings.dtype)
        found: list[list[CGResult]] = [[] for _ in outputs]
        for problem, result in run_in_batches(stored, problems, settings):
            found[problem.output].append(result)
            if problem.output == 0:
                n_held_out, n_ignored = problem.n_held_out, problem.graph.n_ignored_queries
        decided = self._decide(stored, outputs, found, settings)
        self._keep_results(decided, is_multi_output=data.is_multi_output)
        self._remember(data)
        n_queries = data.queries.n_queries
        return self._keep_queries(
            n_queries - n_held_out, n_ignored - n_held_out, has_qid=data.has_qid
        )

    def fit_file(
        self,
        path: str | PathLike[str],
        *,
        n_features: int | None = None,
        zero_based: ZeroBased = "auto",
        y: str | None = None,
        qid: str | None = None,
        features: str | Sequence[str] | None = None,
        drop: str | Sequence[str] = (),
        X_val: Any = None,
        y_val: ArrayLike | None = None,
        qid_val: ArrayLike | None = None,
        solver: FileSolver = "auto",
        memory: Count = 1 << 28,
        cache_dir: str | PathLike[str] | None = None,
    ) -> Self:
        r"""Learn from an svmlight or Parquet file that need not fit in memory.

        With few features, one pass gathers exact d x d statistics, which serve every alpha. With
        many, the file is first converted to binary form on disk, which every iteration reads.

        Parameters
        ----------
        path : path
            The file; ``.parquet`` and ``.pq`` are Parquet, others svmlight, plain or compressed.
        n_features, zero_based
            For svmlight files, as in `rankwise.io.read_svmlight`.
        y, qid, features, drop : optional
            Columns of Parquet files, as in `rankwise.io.read_table`.
        X_val, y_val, qid_val : optional
            Validation data in memory; needed with `alphas` and with `early_stopping`.
        solver : {"auto", "statistics", "iterations"}
            One pass, which needs contiguous rows of each query, or iterations, which take rows in
            any order. "auto" tries one pass for at most 512 features, unless stopping early.
        memory : int
            Bytes for rows at a time. In addition, iterations keep about 150 bytes per item and two
            vectors of weights per alpha; the single pass keeps a few d x d matrices.
        cache_dir : path, optional
            Folder for the binary form during the fit, which should be on a disk, not in memory; by
            default the system's folder for temporary files.

        Examples
        --------
        >>> import pathlib, tempfile
        >>> from rankwise import LinearRankRLS
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     path = pathlib.Path(folder, "train.txt")
        ...     _ = path.write_text("2 qid:7 1:0.5 3:1\n0 qid:7 2:0.25\n1 qid:8 3:4\n")
        ...     LinearRankRLS().fit_file(path).coef_.round(3)
        array([ 0.302, -0.151,  0.604])
        """
        settings = Settings.of(checked(self))
        check_call(LinearRankRLS.fit_file, solver=solver, memory=memory)
        stream = open_stream(
            path, memory=memory // 8, n_features=n_features, zero_based=zero_based,
            y=y, qid=qid, features=features, drop=drop,
        )  # fmt: skip
        refuse_no_features(path, stream)
        self._keep_features(stream.n_features, stream.feature_names)
        for name in ("zero_based_", "table_columns_"):
            self.__dict__.pop(name, None)
        if stream.zero_based is not None:
            self.zero_based_ = stream.zero_based
        has_qid = stream.has_qid
        given = self._validators(settings, X_val, y_val, qid_val, 1, has_qid)
        validator = None if given is None else given[0]
        refuse_missing_validation(settings, validator)
        if prefers_statistics(solver, stream, settings):
            try:
                found = gather_statistics(stream, settings.graph_options, memory)
                self._keep_results([solve_statistics(found, settings, validator)])
                return self._keep_queries(found.n_queries, found.n_ignored, has_qid=has_qid)
            except OnePassError:
                if solver == "statistics":
                    raise
        with stored_operator(stream, settings, memory, cache_dir) as operator:
            graph = operator.graph
            (start,) = self._starts(stream.n_features, None)
            self._keep_results([run(operator, settings, validator, start)])
            return self._keep_queries(
                graph.queries.n_queries, graph.n_ignored_queries, has_qid=has_qid
            )

    def plot_history(self, ax: Axes | None = None, output: int = 0) -> Axes:
        """Draw the validation value against the iteration, with one line per alpha.

        Without early stopping the residual is drawn. Needs matplotlib.

        Parameters
        ----------
        ax : matplotlib axes, optional
            Where to draw; by default a new figure.
        output : int
            Which output to draw, if there are several.

        Returns
        -------
        ax : matplotlib axes
        """
        check_is_fitted(self)
        history = dict(self.history_)
        if self.coef_.ndim == 2:
            if not 0 <= output < len(self.coef_):
                raise InvalidInputError(
                    f"`output` must be a number from 0 to {len(self.coef_) - 1}: got {output!r}."
                )
            kept = ~np.isnan(history["alpha"][:, output])
            history["alpha"] = history["alpha"][kept, output]
            for name in ("residual", "value"):
                history[name] = history[name][:, kept, output]
        return plot_history(history, str(self.measure), ax)

    def _validators(
        self,
        settings: Settings,
        X_val: Any,
        y_val: ArrayLike | None,
        qid_val: ArrayLike | None,
        n_outputs: int,
        has_qid: bool,
    ) -> list[Validator] | None:
        """Check the given validation data, for each output; None without any."""
        refuse_partial_validation(X_val, y_val, qid_val)
        if X_val is None:
            return None
        y_val, qid_val = read_columns(X_val, "X_val", y_val=y_val, qid_val=qid_val)
        X = read_rows(self, X_val)
        data = ValidationData.of(X, y_val, qid_val, has_qid=has_qid)
        return validate_by_data(data, settings.measure, n_outputs)

    def _compared_validators(
        self,
        settings: Settings,
        rows: Matrix,
        data: TrainingData,
        X: Any,
        X_val: Any,
        y_val: Any,
        qid_val: Any,
        pairs_val: Any,
        pair_weight_val: Any,
        named: tuple[Any, ...],
    ) -> list[Validator]:
        """Check the given validation comparisons: the error (2) of [APS10] decides."""
        refuse_both_validations(y_val)
        refuse_listwise(settings.measure, "`pairs_val`")
        if data.is_multi_output:
            data.single_output("Validation comparisons judge one output.")
        (qid_val,) = map(on_host, read_columns(X_val, "X_val", qid_val=qid_val))
        given = (X_val, qid_val, pairs_val, pair_weight_val, named)
        validation = compared_validation(self, rows, data, X, *given)
        pairs, _, weight = validation.data.comparisons
        return [validate_by_pairs(validation.X, pairs, weight)]

    def _whole_problems(
        self,
        data: TrainingData,
        settings: Settings,
        validators: list[Validator] | None,
        starts: list[FloatArray | None],
    ) -> Iterator[OutputProblem]:
        """Yield a problem for each output of all the data; outputs share what they can."""
        # [APS10] eq. (3), (9), graph-quadratic
        graphs = OutputGraphs.of(data, **settings.graph_options).by_output()
        for k, graph in enumerate(graphs):
            validator = None if validators is None else validators[k]
            label = _label(k, len(graphs))
            yield OutputProblem(k, graph, settings.alphas, validator, starts[k], label)

    def _held_out_problems(
        self,
        X: Matrix,
        outputs: list[TrainingData],
        settings: Settings,
        starts: list[FloatArray | None],
    ) -> Iterator[OutputProblem]:
        """Hold out a part of each output, drawn as if it were alone, and yield what is left."""
        rng = generator(self.random_state)
        for k, output in enumerate(outputs):
            several = self._takes_several_hold_outs(settings, output)
            options = (self.validation_fraction, settings.measure, deepcopy(rng))
            splits = (
                several_hold_outs(X, output, *options)
                if several
                else [hold_out(X, output, *options)]
            )
            for number, split in enumerate(splits):
                graph = PreferenceGraph.of(split.training, **settings.graph_options)
                label = _label(k, len(outputs), number if several else None)
                yield OutputProblem(
                    k, graph, settings.alphas, split.validator, starts[k], label, split.n_held_out
                )

    def _takes_several_hold_outs(self, settings: Settings, data: TrainingData) -> bool:
        """Return whether an alpha is to be chosen on two or more grades of a single query."""
        if len(settings.alphas) == 1 or settings.rule.patience is not None:
            return False
        if not data.is_scored or data.queries.n_queries > 1 or settings.checkpoint is not None:
            return False
        _, counts = np.unique(data.scores, return_counts=True)
        return int(np.count_nonzero(counts > N_HOLD_OUTS)) > 1

    def _decide(
        self,
        rows: StoredRows,
        outputs: list[TrainingData],
        found: list[list[CGResult]],
        settings: Settings,
    ) -> list[CGResult]:
        """Return the result of each output: of several hold-outs, the best alpha fitted to all."""
        # outputs with several hold-outs: the alpha of the best mean value
        means = {
            k: np.mean([last_known(run.values) for run in runs], axis=0)
            for k, runs in enumerate(found)
            if len(runs) > 1
        }
        sign = 1.0 if settings.measure.greater_is_better else -1.0
        best = {k: best_position(sign * mean, settings.alphas) for k, mean in means.items()}
        problems = (
            OutputProblem(
                k,
                PreferenceGraph.of(outputs[k], **settings.graph_options),
                settings.alphas[[position]],
                label=_label(k, len(outputs)),
            )
            for k, position in best.items()
        )
        # one more run of these outputs, on all data at that alpha
        results = [runs[0] for runs in found]
        alone = replace(settings, precondition=True)
        for problem, result in run_in_batches(rows, problems, alone):
            value = float(means[problem.output][best[problem.output]])
            results[problem.output] = replace(result, best=replace(result.best, value=value))
        return results

    def _keep_features(self, n_features: int, names: list[str] | None) -> None:
        self.n_features_in_ = n_features
        if names is not None:
            self.feature_names_in_ = np.array(names, dtype=object)
        elif "feature_names_in_" in vars(self):
            del self.feature_names_in_

    def _starts(self, n_features: int, n_outputs: int | None) -> list[FloatArray | None]:
        """Return where each output starts; ``n_outputs`` is None for scores of one dimension."""
        previous = vars(self).get("coef_")
        if not self.warm_start or previous is None:
            return [None] * (n_outputs or 1)
        shape = (n_features,) if n_outputs is None else (n_outputs, n_features)
        if previous.shape != shape:
            raise InvalidInputError(
                "`warm_start` must have the features and outputs of the previous fit: its "
                f"weights have shape {previous.shape}, X and y need {shape}. Fit a new ranker."
            )
        return list(np.array(previous, ndmin=2))

    def _keep_results(self, results: list[CGResult], *, is_multi_output: bool = False) -> None:
        """Store the result of each output; arrays of several end with an axis of outputs."""
        best = [result.best for result in results]

        def kept(values: list[Any]) -> Any:
            return np.array(values) if is_multi_output else values[0]

        def stacked(arrays: list[FloatArray]) -> FloatArray:
            return _side_by_side(arrays) if is_multi_output else np.array(arrays[0])

        self._keep_weights(Identity(), stacked([one.coef for one in best]))
        self.alpha_ = kept([one.alpha for one in best])
        self.n_iter_ = kept([result.n_iter for result in results])
        self.best_iter_ = kept([one.iteration for one in best])
        self.held_out_value_ = kept([one.value for one in best])
        self.history_ = {
            "iteration": np.arange(1, np.max(self.n_iter_) + 1),
            "alpha": stacked([result.alphas for result in results]),
            "residual": stacked([result.residuals for result in results]),
            "value": stacked([result.values for result in results]),
        }


def _side_by_side(arrays: list[FloatArray]) -> FloatArray:
    """Stack arrays of different lengths along a new last axis, padded with NaN."""
    shape = np.max([array.shape for array in arrays], axis=0)
    out = np.full((*shape, len(arrays)), np.nan)
    for k, array in enumerate(arrays):
        where: tuple[Any, ...] = (*(slice(length) for length in array.shape), k)
        out[where] = array
    return out


def _label(output: int, n_outputs: int, hold_out: int | None = None) -> str:
    """Return the name of a run in its steps; nothing if there is only one."""
    parts = [] if n_outputs == 1 else [f"output {output + 1}"]
    if hold_out is not None:
        parts.append(f"hold-out {hold_out + 1}")
    return ", ".join(parts)


def keep_run(
    ranker: LinearRankRLS,
    result: CGResult,
    names: list[str] | None,
    n_queries: int,
    n_ignored_queries: int,
    *,
    has_qid: bool,
) -> LinearRankRLS:
    """Store the result of a run on a cluster in a ranker.

    Parameters
    ----------
    ranker : LinearRankRLS
        An unfitted ranker with the parameters of the run.
    result : CGResult
        The result of the run.
    names : list of str, optional
        The names of the features.
    n_queries, n_ignored_queries : int
        Number of queries learned from, and of those without a preference.
    has_qid : bool
        Whether the caller named queries.
    """
    ranker._keep_features(len(result.best.coef), names)
    ranker._keep_results([result])
    return ranker._keep_queries(n_queries, n_ignored_queries, has_qid=has_qid)
