"""Where the factors of items move when those of the users stay."""

from typing import final

import numpy as np

from rankwise.core.arrays import FloatArray, IntArray
from rankwise.inference import _factorization_kernels as kernels
from rankwise.inference._assignment_kernels import Scratch
from rankwise.inference._structured_kernels import Aims
from rankwise.inference.structured_spaces import Space


@final
class ItemFactorSpace(Space):
    """Factors V of items, which a user with factors u scores ``<u, V_i>``; a query is a user.

    Keeps the planes of each user when the factors of the users or the target change, since a plane
    is a ranking of the user's items.

    Parameters
    ----------
    items : (n_ratings,)
        The item of each rating, user by user.
    starts : (n_users + 1,)
        Where the ratings of each user begin.
    shape : (n_items, n_factors)
        Of V.
    """

    max_cached = 5

    def __init__(self, items: IntArray, starts: IntArray, shape: tuple[int, int]) -> None:
        super().__init__(starts, np.diff(starts))
        self._items = items
        self._U = np.zeros((len(starts) - 1, shape[1]))
        self._V = np.zeros(shape)
        self._target = np.zeros(len(items))

    def aim(self, U: FloatArray, target: FloatArray) -> None:
        """Take other factors of the users, and another ranking of each user to aim at."""
        squares = np.einsum("uk,uk->u", U, U)
        kernels.move_planes(self._starts, self.planes, target - self._target, squares)
        self._U, self._target = U, target

    @property
    def point(self) -> FloatArray:
        """The factors of the items."""
        return self._V

    def work_of_visits(self) -> float:
        """Return about how many multiplications a pass over all users needs."""
        return 2.0 * len(self._items) * self._V.shape[1]

    def scores(self) -> FloatArray:
        """Return the scores of all rated items."""
        scores = np.empty(len(self._items))
        kernels.rated_scores(self._starts, self._items, self._U, self._V, scores)
        return scores

    def query_scores(self, q: int) -> FloatArray:
        """Return the scores of the items of one user."""
        rated = self._items[self._starts[q] : self._starts[q + 1]]
        scores: FloatArray = self._V[rated] @ self._U[q]
        return scores

    def overlap(self) -> tuple[float, float]:
        """Return the squared norm of the factors; there is no base."""
        return float(np.sum(self._V**2)), 0.0

    def visit(self, aims: Aims, scratch: Scratch, queries: IntArray) -> float:
        """Visit users in turn with the oracle; return the sum of their gaps."""
        state = self._items, self._U, self.planes, scratch
        gap: float = kernels.visit(aims, *state, queries, self._V)
        return gap

    def visit_given(self, aims: Aims, q: int, beta: FloatArray, loss: float) -> float:
        """Visit one user with a plane found elsewhere."""
        state = self._items, self._U, self.planes
        gap: float = kernels.visit_given(aims, *state, q, beta, loss, self._V)
        return gap

    def revisit(self, aims: Aims, queries: IntArray) -> float:
        """Visit users in turn with the planes they have; return the gaps these show."""
        state = self._items, self._U, self.planes
        gap: float = kernels.revisit(aims, *state, queries, self._V)
        return gap

    def refresh(self, aims: Aims) -> None:
        """Compute the factors anew from the planes."""
        self._V[:] = 0.0
        kernels.sum_planes(aims, self._items, self._U, self.planes, self._V)
