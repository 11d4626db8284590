"""The exceptions and warnings rankwise raises, all derived from standard ones."""

import sys
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType
from typing import Self

BEGINNING, END = 600, 240
"""Characters of a message that are kept where something long was given."""


def _cut(message: str) -> str:
    """Leave out the middle of a very long message: what was given, not what to do about it."""
    left_out = len(message) - BEGINNING - END
    if left_out <= 0:
        return message
    return f"{message[:BEGINNING]} ... ({left_out} characters) ... {message[-END:]}"


class RankwiseError(Exception):
    """The base class of all errors that rankwise raises.

    Examples
    --------
    >>> from rankwise import RankwiseError, RankRLS
    >>> try:
    ...     RankRLS(alpha=-1.0).fit([[0.0], [1.0]], [0, 1])
    ... except RankwiseError as error:
    ...     print(error)
    `alpha` must be a finite number above 0: got -1.0. Choose a positive value...
    """

    def __init__(self, *arguments: object) -> None:
        super().__init__(*(_cut(a) if isinstance(a, str) else a for a in arguments))


class InvalidInputError(RankwiseError, ValueError):
    """Raised if data or a parameter break a rule; the message says which rule and what to do.

    Examples
    --------
    >>> from rankwise import PreferenceGraph
    >>> PreferenceGraph.from_scores([1, 0], qid=["a"])
    Traceback (most recent call last):
    rankwise.core.errors.InvalidInputError: `qid` must have one entry per row of `X`: X has 2...
    """


class NothingToLearnError(InvalidInputError):
    """Raised if the data hold no preference at all, for example because all scores are equal.

    Examples
    --------
    >>> from rankwise import PreferenceGraph
    >>> PreferenceGraph.from_scores([1, 1, 1])
    Traceback (most recent call last):
    rankwise.core.errors.NothingToLearnError: The data must hold at least one preference...
    """


class DataFileError(RankwiseError, ValueError):
    r"""Raised if a data file cannot be read; the message names the file, the line and the problem.

    Examples
    --------
    >>> import pathlib, tempfile
    >>> from rankwise.io import read_svmlight
    >>> path = pathlib.Path(tempfile.mkdtemp()) / "train.txt"
    >>> _ = path.write_text("1 qid:7 1:0.5 nonsense\n")
    >>> read_svmlight(path)
    Traceback (most recent call last):
    rankwise.core.errors.DataFileError: ...train.txt, line 1: expected ...
    """


class ModelFileError(RankwiseError, ValueError):
    """Raised if a saved model is damaged, of a later format, or not a rankwise model.

    Examples
    --------
    >>> import pathlib, tempfile
    >>> import rankwise
    >>> path = pathlib.Path(tempfile.mkdtemp()) / "ranker.model"
    >>> _ = path.write_text("not a model")
    >>> rankwise.load(path)
    Traceback (most recent call last):
    rankwise.core.errors.ModelFileError: ...ranker.model: expected a model saved by rankwise, ...
    """


class NumericalError(RankwiseError, RuntimeError):
    """Raised if a computation cannot be carried out in double precision.

    Examples
    --------
    >>> import numpy as np
    >>> from rankwise import NumericalError, RankRLSCV
    >>> X = np.repeat(np.arange(6.0)[:, None], 2, axis=1)
    >>> try:
    ...     RankRLSCV(alphas=[1e-30]).fit(X, [0, 1, 0, 1, 2, 1], qid=[0, 0, 1, 1, 2, 2])
    ... except NumericalError as error:
    ...     print(error)
    No value of `alpha` can be judged...
    """


class MissingExtraError(RankwiseError, ImportError):
    """Raised if an optional dependency is missing; the message names the extra that installs it.

    Examples
    --------
    >>> from rankwise import MissingExtraError
    >>> print(MissingExtraError("Plotting", "matplotlib", "plot"))
    Plotting needs matplotlib, which is not installed. Install it with: pip install \
"rankwise[plot]", or, in a clone, pip install ".[plot]"
    """

    def __init__(self, task: str, package: str, extra: str) -> None:
        missing = "are not all" if " and " in package else "is not"
        super().__init__(
            f"{task} needs {package}, which {missing} installed. "
            f'Install it with: pip install "rankwise[{extra}]", or, in a clone, '
            f'pip install ".[{extra}]"'
        )


@contextmanager
def extra(task: str, package: str, name: str) -> Iterator[None]:
    """Import optional packages inside: without them the error names the extra that installs them.

    Parameters
    ----------
    task : str
        What needs the packages.
    package : str
        The packages.
    name : str
        The extra.
    """
    try:
        yield
    except ImportError as error:
        raise MissingExtraError(task, package, name) from error


class ConvergenceWarning(UserWarning):
    """Warn that an iteration or a search stopped before it converged.

    Examples
    --------
    >>> import warnings
    >>> from rankwise import ConvergenceWarning
    >>> warnings.simplefilter("error", ConvergenceWarning)  # make it an error
    >>> warnings.simplefilter("default", ConvergenceWarning)
    """


class SeenQueriesWarning(UserWarning):
    """Warn that the training data held other items of the queries being scored.

    Examples
    --------
    >>> from rankwise import SeenQueriesWarning
    >>> print(SeenQueriesWarning.of(3))
    3 of the queries were in the training data with other items: ...
    """

    @classmethod
    def of(cls, n_torn: int) -> Self:
        """Return the warning for a number of queries."""
        return cls(
            f"{n_torn} of the queries were in the training data with other items: a value from "
            "queries torn between training and test is too high. Keep queries whole, with "
            "`QueryKFold`. If both data sets use the same ids for different queries, change the "
            "ids."
        )


class FeatureScaleWarning(UserWarning):
    """Warn that features differ so much in scale that small ones have almost no effect.

    Examples
    --------
    >>> import warnings
    >>> from rankwise import FeatureScaleWarning, RankRLS
    >>> with warnings.catch_warnings(record=True) as caught:
    ...     warnings.simplefilter("always")
    ...     _ = RankRLS().fit([[0.0, 5000.0], [1.0, 2000.0]], [0, 1])
    >>> caught[0].category is FeatureScaleWarning
    True
    """


class LeftOutWarning(UserWarning):
    """Warn that rows of a table of comparisons were left out: they do not say who won.

    Examples
    --------
    >>> import warnings
    >>> from rankwise import LeftOutWarning
    >>> from rankwise.io import read_comparisons
    >>> votes = {"a": ["x", "x"], "b": ["y", "z"], "winner": ["a", ""]}
    >>> with warnings.catch_warnings(record=True) as caught:
    ...     warnings.simplefilter("always", LeftOutWarning)
    ...     table = read_comparisons(votes)
    >>> table, str(caught[0].message)
    (ComparisonTable(1 comparisons of 2 items, 0 tied), '1 of 2 rows do not say who won, ...
    """


def warn_caller(message: str | Warning, category: type[Warning] | None = None) -> None:
    """Warn in the name of the line outside rankwise that led here, however deep that is."""
    level = 2
    frame: FrameType | None = sys._getframe(1)
    while frame is not None and str(frame.f_globals.get("__name__", "")).startswith("rankwise."):
        level, frame = level + 1, frame.f_back
    warnings.warn(message, category, stacklevel=level)
