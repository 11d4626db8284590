"""Read comparisons from tables: who beat whom."""

import os
from dataclasses import dataclass
from typing import Any, final

import numpy as np
from numpy.typing import NDArray

from rankwise.core.arrays import FloatArray, IntArray
from rankwise.core.errors import DataFileError
from rankwise.io.numbers import join_ids
from rankwise.io.tables.reading import if_any, open_table, require_column


@final
@dataclass(frozen=True, eq=False)
class PairData:
    """Hold the comparisons of a file.

    Parameters
    ----------
    pairs : (n_pairs, 2)
        Positions of the items compared, winner first.
    items : (n_items,)
        The names at these positions; None when the file holds positions itself.
    margin, weight : (n_pairs,)
        The margin and the weight of each comparison; None when not read.

    Examples
    --------
    >>> import numpy as np
    >>> from rankwise.io import PairData
    >>> matches = PairData(np.array([[2, 0]]), items=np.array(["Italy", "Norway", "Spain"]))
    >>> matches.items[matches.pairs]
    array([['Spain', 'Italy']], dtype='<U6')
    """

    pairs: IntArray
    items: NDArray[Any] | None = None
    margin: FloatArray | None = None
    weight: FloatArray | None = None


def read_pairs(
    path: str | os.PathLike[str],
    *,
    winner: str = "winner",
    loser: str = "loser",
    margin: str | None = None,
    weight: str | None = None,
) -> PairData:
    r"""Read comparisons from a CSV, TSV or Parquet file, one "winner beats loser" per row.

    Parameters
    ----------
    path
        The file; its suffix gives the format.
    winner, loser
        The columns of the items: row numbers of X, from 0, or names. Names are numbered in sorted
        order.
    margin, weight
        The columns of the margins and weights, if any.

    Examples
    --------
    >>> import pathlib, tempfile
    >>> from rankwise.io import read_pairs
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     path = pathlib.Path(folder, "matches.csv")
    ...     _ = path.write_text("winner,loser,goals\nItaly,Norway,2\nSpain,Italy,1\n")
    ...     matches = read_pairs(path, margin="goals")
    >>> matches.items.tolist(), matches.pairs.tolist(), matches.margin.tolist()
    (['Italy', 'Norway', 'Spain'], [[0, 1], [2, 0]], [2.0, 1.0])
    """
    table = open_table(path)
    names = {"winner": winner, "loser": loser, "margin": margin, "weight": weight}
    for option, name in names.items():
        if name is not None:
            require_column(path, table, name, option)
    (margins, weights), ends = table.read([if_any(margin), if_any(weight)], [winner, loser])
    pairs, items = _number_items(path, join_ids(ends))
    return PairData(
        pairs.reshape(2, -1).T,
        items,
        margin=margins[:, 0] if margin is not None else None,
        weight=weights[:, 0] if weight is not None else None,
    )


def _number_items(
    path: str | os.PathLike[str], ends: NDArray[Any]
) -> tuple[IntArray, NDArray[Any] | None]:
    """Return the positions of the items, and their names unless they are positions already."""
    if ends.dtype != np.int64:
        items, positions = np.unique(ends, return_inverse=True)
        return positions, items
    if ends.min() < 0:
        raise DataFileError(
            f"{os.fspath(path)}: expected names or row numbers from 0 as winners and losers, "
            f"got {ends.min()}."
        )
    return ends.astype(np.intp), None
