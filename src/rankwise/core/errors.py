"""The exceptions and warnings rankwise raises, all derived from standard ones."""


class RankwiseError(Exception):
    """Mark every error that rankwise raises on purpose.

    Examples
    --------
    >>> from rankwise import RankwiseError, RankRLS
    >>> try:
    ...     RankRLS(alpha=-1.0).fit([[0.0], [1.0]], [0, 1])
    ... except RankwiseError as error:
    ...     print(error)
    `alpha` must be a finite number above 0: got -1.0. Choose a positive value...
    """


class InvalidInputError(RankwiseError, ValueError):
    """Data or a parameter breaks a rule; the message says which rule and what to do."""


class NothingToLearnError(InvalidInputError):
    """The data hold no preference at all, for example because all scores are equal."""


class DataFileError(RankwiseError, ValueError):
    """A data file cannot be read; the message names the file, the line and what was expected."""


class ModelFileError(RankwiseError, ValueError):
    """A saved model is damaged, of a later format, or not a rankwise model."""


class NumericalError(RankwiseError, RuntimeError):
    """A computation cannot be carried out in double precision."""


class MissingExtraError(RankwiseError, ImportError):
    """An optional dependency is absent; the message names the extra that installs it."""

    def __init__(self, task: str, package: str, extra: str) -> None:
        super().__init__(
            f"{task} needs {package}, which is not installed. "
            f'Install it with: pip install "rankwise[{extra}]"'
        )


class ConvergenceWarning(UserWarning):
    """An iteration stopped before it reached its tolerance."""
