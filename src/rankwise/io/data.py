"""The items of a data file."""

from dataclasses import dataclass
from typing import Any, final

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import csr_array

from rankwise.core.arrays import FloatArray
from rankwise.io.columns import ItemColumns


@final
@dataclass(frozen=True, eq=False)
class RankingData:
    """Hold the items of a data file, one row each, in the order of the file.

    Parameters
    ----------
    X : (n_items, n_features)
        The features, dense or sparse.
    y : (n_items,)
        The given scores; None when the file has none, as in data to be predicted.
    qid : (n_items,)
        The query of each item, numbers or strings; None when the file has none.
    comments : list of n_items strings
        The comment of each item, empty where there is none; None when there are no comments.
    feature_names : list of n_features strings
        The names of the columns; None when the file does not name them.
    zero_based : bool
        Whether the features of a svmlight file were numbered from 0; None for other formats. A
        model goes with one numbering: keep it as the ranker's ``zero_based_``, and read other
        files with it.
    items : (n_items,)
        The name of each item, numbers or strings; None when they were not read.
    columns : ItemColumns
        Which columns of a table hold what; None for other formats.

    Examples
    --------
    >>> import numpy as np
    >>> from rankwise.io import RankingData
    >>> RankingData(np.eye(3), np.array([2.0, 0.0, 1.0]), qid=np.array([7, 7, 8]))
    RankingData(3 items, 3 features, dense, with y, qid)
    """

    X: NDArray[Any] | csr_array
    y: FloatArray | None = None
    qid: NDArray[Any] | None = None
    comments: list[str] | None = None
    feature_names: list[str] | None = None
    zero_based: bool | None = None
    items: NDArray[Any] | None = None
    columns: ItemColumns | None = None

    @property
    def n_items(self) -> int:
        """Number of items."""
        return int(self.X.shape[0])

    @property
    def n_features(self) -> int:
        """Number of features."""
        return int(self.X.shape[1])

    def __repr__(self) -> str:
        storage = "dense" if isinstance(self.X, np.ndarray) else "sparse"
        optional = ["y", "qid", "comments", "feature_names", "items"]
        present = ", ".join(name for name in optional if getattr(self, name) is not None)
        suffix = f", with {present}" if present else ""
        return f"RankingData({self.n_items} items, {self.n_features} features, {storage}{suffix})"
