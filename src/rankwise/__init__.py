"""Learn to rank from scores, from queries of scored items, and from comparisons.

The public names are loaded on first use, so that ``import rankwise`` and the command line stay
quick; ``__init__.pyi`` is made from the list below, for type checkers.
"""

from importlib import import_module
from typing import Any

from rankwise.core.registry import offer

__version__ = "0.1.0"

_HOMES = {
    "rankwise.automatic.auto_ranker": ["AutoRanker"],
    "rankwise.automatic.next_query": ["NextQuery"],
    "rankwise.automatic.results": ["RankerEntry", "RankerLeaderboard"],
    "rankwise.automatic.search_ranker": ["SearchRanker"],
    "rankwise.core.clicks": ["click_propensities"],
    "rankwise.core.errors": [
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
    ],
    "rankwise.apps.export.export_ranker": ["ExportCheck", "export_ranker"],
    "rankwise.apps.export.skl2onnx_converter": ["register_skl2onnx"],
    "rankwise.graph.preference_graph": ["PreferenceGraph"],
    "rankwise.core.queries": ["Queries"],
    "rankwise.core.comparisons.choice_table": ["ChoiceTable"],
    "rankwise.core.comparisons.comparison_table": ["ComparisonTable"],
    "rankwise.comparisons.audit.audit": ["Audit"],
    "rankwise.comparisons.audit.finding": ["Finding"],
    "rankwise.comparisons.judges": ["JudgeReport"],
    "rankwise.comparisons.arena.rating": ["leaderboard", "suspect_answers"],
    "rankwise.comparisons.leaderboard": ["Effect", "Leaderboard"],
    "rankwise.rankers.conditional.conditional_rank_rls": [
        "ConditionalRankRLS",
        "ConditionalRankRLSCV",
    ],
    "rankwise.rankers.dorm.dorm": ["DORM"],
    "rankwise.rankers.dorm.dorm_cv": ["DORMCV"],
    "rankwise.rankers.dorm.factorization.ranking_factorization": ["RankingFactorization"],
    "rankwise.comparisons.gp.preference_gp": ["PreferenceGP"],
    "rankwise.comparisons.gp.average": ["LengthScaleAverage", "average_over_length_scales"],
    "rankwise.measures.honest_value": ["HonestValue"],
    "rankwise.rankers.kpcrank.kpc_rank": ["KPCRank", "KPCRankCV"],
    "rankwise.rankers.linear.linear_rank_rls": ["LinearRankRLS"],
    "rankwise.rankers.base": ["RankerPath"],
    "rankwise.rankers.explain": [
        "Explanation",
        "FeatureImportance",
        "explain",
        "feature_importance",
    ],
    "rankwise.rankers.pipeline": ["RankerPipeline"],
    "rankwise.rankers.rls.rank_rls": ["RankRLS"],
    "rankwise.rankers.rls.greedy_rank_rls": ["GreedyRankRLS"],
    "rankwise.rankers.rls.rank_rls_cv": ["RankRLSCV"],
    "rankwise.rankers.trees.boosted_ranker": ["BoostedRanker"],
    "rankwise.rankers.svm.rank_svm": ["RankSVM"],
    "rankwise.rankers.storage": ["load"],
    "rankwise.rankers.scorer": [
        "QueryKFold",
        "RankerRegressor",
        "as_regressor",
        "make_ranking_scorer",
    ],
    "rankwise.rankers.rls.any_model": ["PairDifference", "PairEstimate", "leave_pair_out"],
    "rankwise.rankers.rls.small_samples": [
        "PermutationTest",
        "TournamentROC",
        "permutation_test",
    ],
    "rankwise.apps.report.report": ["Report", "make_report"],
    "rankwise.apps.serve.server": ["make_app", "serve_ranker"],
    "rankwise.features.covariances": ["SquaredExponential"],
    "rankwise.features.kernels": [
        "Gaussian",
        "Kernel",
        "Laplacian",
        "Linear",
        "Polynomial",
        "Precomputed",
    ],
    "rankwise.comparisons.gp.questions": ["RankDistribution"],
    "rankwise.measures.answers": ["AnswerEvaluation", "evaluate_answers"],
    "rankwise.measures.auc": ["AUCComparison", "AUCInterval", "auc_interval", "compare_auc"],
    "rankwise.measures.binary": ["AP", "RR", "Precision", "Recall"],
    "rankwise.measures.evaluation": ["Evaluation", "PairedTest", "evaluate", "paired_test"],
    "rankwise.measures.graded": ["DCG", "ERR", "ERU", "NDCG", "WTA", "Utility"],
    "rankwise.measures.pairwise": [
        "AUC",
        "Concordance",
        "Disagreement",
        "KendallTau",
        "Spearman",
    ],
    "rankwise.measures.registry": ["parse_measure"],
    "rankwise.measures.value": ["Measure"],
    "rankwise.rankers.pair_calibration": ["PairCalibration"],
    "rankwise.selection.holdouts": ["GroupPairs", "PairKFold"],
    "rankwise.transformers.categories": ["WithinQueryEncoder"],
    "rankwise.transformers.indicators": ["IndicatorEncoder"],
    "rankwise.transformers.rows": ["FeatureScaler", "KeptFeatures"],
    "rankwise.transformers.text": ["TextFeatures"],
    "rankwise.transformers.numeric": [
        "WithinQueryImputer",
        "WithinQueryRanks",
        "WithinQueryScaler",
    ],
    "rankwise.selection.path": ["Candidate", "SelectionPath"],
    "rankwise.solve.iteration": ["Certificate", "CertifiedSolution", "Ending", "Step"],
    "rankwise.solve.kernel_iteration": ["ConjugateGradients"],
}
_HOME_OF = {name: home for home, names in _HOMES.items() for name in names}

__all__ = ["__version__", *sorted(_HOME_OF)]  # noqa: PLE0604 - all of them are strings


def __getattr__(name: str) -> Any:
    if name not in _HOME_OF:
        raise AttributeError(f"module 'rankwise' has no attribute {name!r}")
    return getattr(import_module(_HOME_OF[name]), name)


def __dir__() -> list[str]:
    return __all__


offer(_HOME_OF, __getattr__)
