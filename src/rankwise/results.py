"""The classes of results: what functions and fitted rankers return, for annotations and docs."""

from typing import Any

import rankwise

_NAMES = (
    "AUCComparison",
    "AUCInterval",
    "AnswerEvaluation",
    "Audit",
    "Candidate",
    "Certificate",
    "CertifiedSolution",
    "Effect",
    "Ending",
    "Evaluation",
    "Explanation",
    "ExportCheck",
    "FeatureImportance",
    "Finding",
    "HonestValue",
    "JudgeReport",
    "Leaderboard",
    "LengthScaleAverage",
    "PairCalibration",
    "PairDifference",
    "PairEstimate",
    "PairedTest",
    "PermutationTest",
    "RankDistribution",
    "RankerEntry",
    "RankerLeaderboard",
    "Report",
    "SelectionPath",
    "Step",
    "TournamentROC",
)

__all__ = [*_NAMES]  # noqa: PLE0604 - all of them are strings


def __getattr__(name: str) -> Any:
    if name not in _NAMES:
        raise AttributeError(f"module 'rankwise.results' has no attribute {name!r}")
    return getattr(rankwise, name)  # loaded at first use, as everywhere


def __dir__() -> list[str]:
    return __all__
