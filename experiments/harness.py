"""What the experiments share: where the data are, and how a table is written."""

import os
import sys
import time
from collections.abc import Iterable, Sequence
from pathlib import Path

import numpy as np
from numpy.typing import ArrayLike

DATA = Path(os.environ.get("RANKWISE_DATA", "../shared/data"))
HERE = Path(__file__).parent
TOL = 1e-5
"""Relative gap to which DORM is trained where that is quick. At its default of 1e-3 the seed alone
moves NDCG @ 10 by 0.1 points (standard deviation, one fold of MQ2008), at 1e-5 by 0.03."""


class DataMissingError(Exception):
    """Says which data an experiment looked for and did not find."""


def data_path(*parts: str) -> Path:
    """Return the path of a file or folder of the data, which must exist."""
    path = DATA.joinpath(*parts)
    if not path.exists():
        message = f"{path} is absent; set RANKWISE_DATA to the folder that holds the data"
        raise DataMissingError(message)
    return path


def markdown_table(header: Sequence[str], rows: Iterable[Sequence[object]]) -> str:
    """Return a Markdown table."""
    lines = ["| " + " | ".join(header) + " |", "|" + "---|" * len(header)]
    lines += ["| " + " | ".join(map(str, row)) + " |" for row in rows]
    return "\n".join(lines) + "\n"


def with_error(values: ArrayLike, digits: int = 2, sign: str = "") -> str:
    """Return the mean of independent values with its standard error; ``sign="+"`` shows the sign.

    Values that are not a number, such as those of queries without pairs, are left out.

    >>> with_error([1.0, 2.0, 3.0])
    '2.00 ± 0.58'
    """
    each = np.asarray(values, dtype=float)
    each = each[~np.isnan(each)]
    error = each.std(ddof=1) / np.sqrt(len(each)) if len(each) > 1 else np.nan
    return f"{each.mean():{sign}.{digits}f} ± {error:.{digits}f}"


def is_quick() -> bool:
    """Tell whether to run on small sizes, to see that everything works: ``--quick``."""
    return os.environ.get("RANKWISE_QUICK") == "1"


def progress(message: str) -> None:
    """Say on standard error where an experiment stands."""
    print(f"{time.strftime('%H:%M:%S')}  {message}", file=sys.stderr, flush=True)
