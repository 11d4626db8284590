"""Boosted trees of two items at once, for what no score of single items can say."""

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Annotated, Any, Self, final

import numpy as np
from numpy.typing import NDArray

from rankwise.core.arrays import FloatArray, IntArray
from rankwise.core.storable import Finite, FitsState, storable
from rankwise.core.threads import n_threads
from rankwise.io.tree_text import are_trees, trees_only
from rankwise.rankers.trees.library import lightgbm

N_FOLDS, MOST_TREES, PATIENCE = 5, 1000, 30
"""Folds that choose the number of trees, the largest one, and trees without improvement."""

GROWTH = {"learning_rate": 0.05, "num_leaves": 15, "min_data_in_leaf": 20, "lambda_l2": 1.0}
"""How trees grow, in LightGBM's words: as those of `BoostedRanker`."""

N_FIELD = 100
"""Items against which an item is held where no opponent is named."""

SMALL = 1 << 17
"""Number of entries below which one thread is quickest."""


def _are_trees_of_pairs(text: NDArray[np.uint8], state: Mapping[str, Any]) -> bool:
    return are_trees(text.tobytes(), 3 * state["field"].shape[1])


@storable
@final
@dataclass(frozen=True, eq=False)
class PairTrees:
    r"""Hold trees that say how much one item leads another one, from the features of both.

    With trees g of (a, b, a - b) the lead is :math:`t(a, b) = (g(a, b) - g(b, a)) / 2`, so that
    :math:`t(b, a) = -t(a, b)`: the logarithm of the odds that a wins.

    Parameters
    ----------
    text : (n_bytes,)
        LightGBM's text of the trees.
    field : (n_field, n_features)
        The items that stand for all where no opponent is named.
    """

    text: Annotated[NDArray[np.uint8], FitsState(_are_trees_of_pairs)]
    field: Annotated[FloatArray, Finite()]

    @cached_property
    def _booster(self) -> Any:
        return lightgbm("Trees of pairs").Booster(model_str=self.text.tobytes().decode())

    def __getstate__(self) -> dict[str, Any]:
        """Leave out what the text says already."""
        return {name: value for name, value in vars(self).items() if name != "_booster"}

    def lead(self, first: FloatArray, second: FloatArray) -> FloatArray:
        """Return t for each row of ``first`` and the same row of ``second``."""
        return _lead(self._booster, first, second)

    def mean_lead(self, X: FloatArray) -> FloatArray:
        """Return the mean of t over the items of the field, for each row: a score."""
        n_field = len(self.field)
        lead = self.lead(np.repeat(X, n_field, axis=0), np.tile(self.field, (len(X), 1)))
        return lead.reshape(len(X), n_field).mean(axis=1)

    @classmethod
    def grown(
        cls,
        X: FloatArray,
        pairs: IntArray,
        tied: NDArray[np.bool_],
        weight: FloatArray,
        rng: np.random.Generator,
    ) -> tuple[Self, FloatArray]:
        """Grow trees from answers, as many as held-out answers ask for.

        Parameters
        ----------
        X : (n_items, n_features)
        pairs : (n_answers, 2)
            Row numbers, winner first.
        tied : (n_answers,)
            Ties count as half a win each way.
        weight : (n_answers,)

        Returns
        -------
        trees : PairTrees
        held_out : (n_answers,)
            The lead of the first of each pair, by trees that have not seen the answer.
        """
        first, second = X[pairs[:, 0]], X[pairs[:, 1]]
        answers = _Battles(first, second, tied, weight)
        fold = rng.permutation(np.arange(len(pairs)) % N_FOLDS)
        # the number of trees: the least held-out loss, summed over folds
        boosters, losses = [], []
        for k in range(N_FOLDS):
            booster, loss = answers.grow(fold != k, MOST_TREES, fold == k)
            boosters.append(booster)
            losses.append(weight[fold == k].sum() * np.array(loss))
        shortest = min(map(len, losses))
        n_trees = 1 + int(np.argmin(sum(loss[:shortest] for loss in losses)))
        held_out = np.empty(len(pairs))
        for k, booster in enumerate(boosters):
            out = fold == k
            held_out[out] = _lead(booster, first[out], second[out], n_trees)
        booster, _ = answers.grow(np.ones(len(pairs), dtype=bool), n_trees)
        text = trees_only(booster.model_to_string())
        compared = np.unique(pairs)
        some = np.linspace(0, len(compared) - 1, min(N_FIELD, len(compared))).astype(np.intp)
        return cls(np.frombuffer(text, dtype=np.uint8), X[compared[some]]), held_out


@final
@dataclass(frozen=True, eq=False)
class _Battles:
    """Hold the features of the first and the second item of every answer."""

    first: FloatArray
    second: FloatArray
    tied: NDArray[np.bool_]
    weight: FloatArray

    def grow(
        self, rows: NDArray[np.bool_], n_trees: int, held_out: NDArray[np.bool_] | None = None
    ) -> tuple[Any, list[float]]:
        """Grow trees from some answers; also return the loss of held-out ones after each tree."""
        library = lightgbm("Trees of pairs")
        options = {
            **GROWTH,
            "objective": "binary",
            "verbose": -1,
            "deterministic": True,
            "force_col_wise": True,
            "num_threads": 1 if self.first.size < SMALL else n_threads(),
        }
        data = self._data(library, rows)
        if held_out is None:
            return library.train(options, data, n_trees), []
        curve: dict[str, Any] = {}
        calls = [library.early_stopping(PATIENCE, verbose=False), library.record_evaluation(curve)]
        others = self._data(library, held_out, data)
        booster = library.train(options, data, n_trees, [others], ["held out"], callbacks=calls)
        return booster, curve["held out"]["binary_logloss"]

    def _data(self, library: Any, rows: NDArray[np.bool_], reference: Any = None) -> Any:
        """Return answers in both orders, and ties with either outcome."""
        first, second, tied = self.first[rows], self.second[rows], self.tied[rows]
        weight = np.where(tied, 0.5, 1.0) * self.weight[rows]
        Z = [_features(first, second), _features(second, first)]
        label = [np.ones(len(first)), np.zeros(len(first))]
        if tied.any():
            Z += [part[tied] for part in Z]
            label += [np.zeros(tied.sum()), np.ones(tied.sum())]
        weights = np.concatenate([weight, weight, *[weight[tied]] * (len(Z) - 2)])
        return library.Dataset(
            np.vstack(Z), np.concatenate(label), weight=weights, reference=reference
        )


def _features(a: FloatArray, b: FloatArray) -> FloatArray:
    return np.hstack([a, b, a - b])


def _lead(
    booster: Any, first: FloatArray, second: FloatArray, n_trees: int | None = None
) -> FloatArray:
    """Return half the difference of what the trees say of both orders."""
    threads = 1 if first.size < SMALL else n_threads()
    one, other = (
        booster.predict(
            _features(*ends), raw_score=True, num_iteration=n_trees, num_threads=threads
        )
        for ends in ((first, second), (second, first))
    )
    return 0.5 * np.asarray(one - other, dtype=np.float64)
