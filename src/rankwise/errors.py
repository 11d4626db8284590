"""The errors and warnings of the package, to be caught by name."""

from rankwise.core.errors import (
    ConvergenceWarning,
    DataFileError,
    FeatureScaleWarning,
    InvalidInputError,
    LeftOutWarning,
    MissingExtraError,
    ModelFileError,
    NothingToLearnError,
    NumericalError,
    RankwiseError,
    SeenQueriesWarning,
)

__all__ = [
    "ConvergenceWarning",
    "DataFileError",
    "FeatureScaleWarning",
    "InvalidInputError",
    "LeftOutWarning",
    "MissingExtraError",
    "ModelFileError",
    "NothingToLearnError",
    "NumericalError",
    "RankwiseError",
    "SeenQueriesWarning",
]
