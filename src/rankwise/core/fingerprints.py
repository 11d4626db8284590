"""A compact memory of training queries, by which queries torn over folds are found."""

import hashlib
from dataclasses import dataclass
from typing import Any, Self, final

import numpy as np
from numpy.typing import NDArray

from rankwise.core.arrays import FloatArray
from rankwise.core.errors import InvalidInputError
from rankwise.core.queries import Queries
from rankwise.core.storable import storable

HashArray = NDArray[np.uint64]


@storable
@final
@dataclass(frozen=True, eq=False)
class QueryFingerprints:
    """Remember queries by 16 bytes each: a hash of the id, and one of the scores.

    Parameters
    ----------
    ids : (n_queries,)
        Hashes of the ids, rising.
    contents : (n_queries,)
        Hashes of the scores of each query, whatever the order of its items.
    """

    ids: HashArray
    contents: HashArray

    def __post_init__(self) -> None:
        if self.ids.ndim != 1 or self.ids.shape != self.contents.shape:
            raise InvalidInputError(
                "Fingerprints must have one hash of the id and one of the scores for each query: "
                f"got the shapes {self.ids.shape} and {self.contents.shape}."
            )

    @classmethod
    def of(cls, queries: Queries, scores: FloatArray) -> Self:
        """Build from queries and one score per item."""
        ids = _hash_ids(queries.ids)
        bits = np.ascontiguousarray(scores + 0.0, dtype=float).view(np.uint64)  # 0 for -0
        contents = np.zeros(queries.n_queries, dtype=np.uint64)
        np.add.at(contents, queries.index, _mixed(bits))
        order = np.argsort(ids)
        return cls(ids[order], contents[order])

    def torn(self, others: Self) -> int:
        """Count queries that are in both with different items: parts of one query.

        Queries that are the same in both do not count, so that training data can be scored.
        """
        if len(self.ids) == 0:
            return 0
        place = np.minimum(np.searchsorted(self.ids, others.ids), len(self.ids) - 1)
        same_id = self.ids[place] == others.ids
        return int(np.count_nonzero(same_id & (self.contents[place] != others.contents)))


def _mixed(bits: HashArray) -> HashArray:
    """Spread 64 bits evenly: the finisher of splitmix64, with a start other than 0."""
    x = bits + np.uint64(0x9E3779B97F4A7C15)
    x = (x ^ (x >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    x = (x ^ (x >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return x ^ (x >> np.uint64(31))


def _hash_ids(ids: NDArray[Any]) -> HashArray:
    """Hash ids of any type; whole numbers are the same whatever their type."""
    if ids.dtype.kind in "biu":
        return _mixed(ids.astype(np.int64).view(np.uint64))
    if ids.dtype.kind == "f" and np.all(ids == np.floor(ids)) and np.all(np.abs(ids) < 2.0**62):
        return _mixed(ids.astype(np.int64).view(np.uint64))
    digests = [hashlib.blake2b(repr(i).encode(), digest_size=8).digest() for i in ids.tolist()]
    return np.frombuffer(b"".join(digests), dtype=np.uint64)
