"""Learn to rank from scores, from queries of scored items, and from comparisons.

The public names are loaded on first use, so that ``import rankwise`` and the command line stay
quick; ``__init__.pyi`` lists them for type checkers.
"""

from importlib import import_module
from typing import Any

__version__ = "0.1.0"

_HOMES = {
    "rankwise.core.errors": [
        "ConvergenceWarning",
        "DataFileError",
        "InvalidInputError",
        "MissingExtraError",
        "ModelFileError",
        "NothingToLearnError",
        "NumericalError",
        "RankwiseError",
    ],
    "rankwise.core.graph": ["PreferenceGraph"],
    "rankwise.core.queries": ["Queries"],
    "rankwise.estimators.dorm": ["DORM"],
    "rankwise.estimators.dorm_cv": ["DORMCV"],
    "rankwise.estimators.factorization": ["RankingFactorization"],
    "rankwise.estimators.gp": ["PreferenceGP"],
    "rankwise.estimators.gp_average": ["LengthScaleAverage", "average_over_length_scales"],
    "rankwise.estimators.kpcrank": ["KPCRank"],
    "rankwise.estimators.kpcrank_cv": ["KPCRankCV"],
    "rankwise.estimators.linear": ["LinearRankRLS"],
    "rankwise.estimators.rankrls": ["RankRLS", "RankRLSPath"],
    "rankwise.estimators.rankrls_cv": ["RankRLSCV"],
    "rankwise.estimators.ranksvm": ["RankSVM"],
    "rankwise.estimators.registry": ["load"],
    "rankwise.estimators.scorer": ["make_ranking_scorer"],
    "rankwise.estimators.small_samples": [
        "AUCEstimate",
        "PermutationTest",
        "leave_pair_out_auc",
        "permutation_test",
    ],
    "rankwise.features.gp_kernels": ["SquaredExponential"],
    "rankwise.features.kernels": [
        "Gaussian",
        "Kernel",
        "Laplacian",
        "Linear",
        "Polynomial",
        "Precomputed",
    ],
    "rankwise.inference.acquisition": ["RankDistribution"],
    "rankwise.measures.binary": ["AP", "RR", "Precision"],
    "rankwise.measures.comparison": ["PairedTest", "paired_test"],
    "rankwise.measures.correlation": ["KendallTau", "Spearman"],
    "rankwise.measures.evaluate": ["Evaluation", "evaluate"],
    "rankwise.measures.graded": ["DCG", "ERU", "NDCG", "WTA"],
    "rankwise.measures.pairwise": ["AUC", "Concordance", "Disagreement"],
    "rankwise.measures.registry": ["parse_measure"],
    "rankwise.measures.utility": ["Utility"],
    "rankwise.measures.value": ["Measure"],
    "rankwise.selection.c_path": ["CPath"],
    "rankwise.selection.component_path": ["ComponentPath"],
    "rankwise.selection.path": ["Path"],
}
_HOME_OF = {name: home for home, names in _HOMES.items() for name in names}

__all__ = ["__version__", *sorted(_HOME_OF)]  # noqa: PLE0604 - all of them are strings


def __getattr__(name: str) -> Any:
    if name not in _HOME_OF:
        raise AttributeError(f"module 'rankwise' has no attribute {name!r}")
    return getattr(import_module(_HOME_OF[name]), name)


def __dir__() -> list[str]:
    return __all__
