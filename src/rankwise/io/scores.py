"""Read and write predicted scores as text, one number per line, as SVMrank and RankLib do."""

import math
import os
from typing import TextIO

import numpy as np
from numpy.typing import ArrayLike

from rankwise.core.arrays import FloatArray
from rankwise.core.errors import InvalidInputError
from rankwise.io.files import open_read, open_write
from rankwise.io.numbers import bad_line, decode


def write_scores(target: str | os.PathLike[str] | TextIO, scores: ArrayLike) -> None:
    """Write one score per line to a file, plain or compressed, or to an open text stream.

    Parameters
    ----------
    target
        A file, replaced only when the new one is complete, or a stream such as ``sys.stdout``.
    scores : (n_items,)
        Finite numbers; reading them gives the same ones back.

    Examples
    --------
    >>> import sys
    >>> from rankwise.io import write_scores
    >>> write_scores(sys.stdout, [0.1, -2, 1e-300])
    0.1
    -2.0
    1e-300
    """
    values = np.asarray(scores, dtype=np.float64)
    if values.ndim != 1:
        raise InvalidInputError(f"`scores` must be a vector: got shape {values.shape}.")
    if not np.isfinite(values).all():
        raise InvalidInputError("`scores` must be finite: they hold NaN or infinity.")
    text = "".join([f"{value!r}\n" for value in values.tolist()])
    if isinstance(target, str | os.PathLike):
        with open_write(target) as stream:
            stream.write(text.encode())
    else:
        target.write(text)


def read_scores(path: str | os.PathLike[str]) -> FloatArray:
    r"""Read one finite number per line from a plain or compressed file.

    Parameters
    ----------
    path
        The file; blank lines are allowed at its end only.

    Examples
    --------
    >>> import pathlib, tempfile
    >>> from rankwise.io import read_scores
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     path = pathlib.Path(folder, "scores.txt")
    ...     _ = path.write_text("0.5\n-2\n")
    ...     read_scores(path)
    array([ 0.5, -2. ])
    """
    with open_read(path) as stream:
        lines = stream.read().rstrip().split(b"\n")
    return np.array([_score(path, number, line) for number, line in enumerate(lines, start=1)])


def _score(path: str | os.PathLike[str], number: int, line: bytes) -> float:
    try:
        value = float(line)
    except ValueError:
        value = math.nan
    if not math.isfinite(value) or b"_" in line:  # Python reads 1_000, other tools do not
        raise bad_line(path, number, "one finite number", decode(line.strip()))
    return value
