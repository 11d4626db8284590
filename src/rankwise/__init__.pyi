from rankwise.apps.export.export_ranker import ExportCheck as ExportCheck
from rankwise.apps.export.export_ranker import export_ranker as export_ranker
from rankwise.apps.export.skl2onnx_converter import register_skl2onnx as register_skl2onnx
from rankwise.apps.report.report import Report as Report
from rankwise.apps.report.report import leaderboard_report as leaderboard_report
from rankwise.apps.report.report import make_report as make_report
from rankwise.apps.serve.server import make_app as make_app
from rankwise.apps.serve.server import serve_ranker as serve_ranker
from rankwise.automatic.auto_ranker import AutoRanker as AutoRanker
from rankwise.automatic.auto_ranker import HonestValue as HonestValue
from rankwise.automatic.auto_ranker import RankerEntry as RankerEntry
from rankwise.automatic.auto_ranker import RankerLeaderboard as RankerLeaderboard
from rankwise.automatic.search_ranker import SearchRanker as SearchRanker
from rankwise.comparisons.arena.rating import leaderboard as leaderboard
from rankwise.comparisons.arena.rating import suspect_answers as suspect_answers
from rankwise.comparisons.audit.audit import Audit as Audit
from rankwise.comparisons.audit.finding import Finding as Finding
from rankwise.comparisons.gp.average import LengthScaleAverage as LengthScaleAverage
from rankwise.comparisons.gp.average import average_over_length_scales as average_over_length_scales
from rankwise.comparisons.gp.preference_gp import PreferenceGP as PreferenceGP
from rankwise.comparisons.gp.questions import RankDistribution as RankDistribution
from rankwise.comparisons.judges import JudgeReport as JudgeReport
from rankwise.comparisons.leaderboard import Effect as Effect
from rankwise.comparisons.leaderboard import Leaderboard as Leaderboard
from rankwise.core.clicks import click_propensities as click_propensities
from rankwise.core.comparisons.choice_table import ChoiceTable as ChoiceTable
from rankwise.core.comparisons.comparison_table import ComparisonTable as ComparisonTable
from rankwise.core.errors import ConvergenceWarning as ConvergenceWarning
from rankwise.core.errors import DataFileError as DataFileError
from rankwise.core.errors import FeatureScaleWarning as FeatureScaleWarning
from rankwise.core.errors import InvalidInputError as InvalidInputError
from rankwise.core.errors import LeftOutWarning as LeftOutWarning
from rankwise.core.errors import MissingExtraError as MissingExtraError
from rankwise.core.errors import ModelFileError as ModelFileError
from rankwise.core.errors import NothingToLearnError as NothingToLearnError
from rankwise.core.errors import NumericalError as NumericalError
from rankwise.core.errors import RankwiseError as RankwiseError
from rankwise.core.errors import SeenQueriesWarning as SeenQueriesWarning
from rankwise.core.queries import Queries as Queries
from rankwise.features.covariances import SquaredExponential as SquaredExponential
from rankwise.features.kernels import Gaussian as Gaussian
from rankwise.features.kernels import Kernel as Kernel
from rankwise.features.kernels import Laplacian as Laplacian
from rankwise.features.kernels import Linear as Linear
from rankwise.features.kernels import Polynomial as Polynomial
from rankwise.features.kernels import Precomputed as Precomputed
from rankwise.graph.preference_graph import PreferenceGraph as PreferenceGraph
from rankwise.measures.answers import AnswerEvaluation as AnswerEvaluation
from rankwise.measures.answers import evaluate_answers as evaluate_answers
from rankwise.measures.auc import AUCComparison as AUCComparison
from rankwise.measures.auc import AUCInterval as AUCInterval
from rankwise.measures.auc import auc_interval as auc_interval
from rankwise.measures.auc import compare_auc as compare_auc
from rankwise.measures.binary import AP as AP
from rankwise.measures.binary import RR as RR
from rankwise.measures.binary import Precision as Precision
from rankwise.measures.binary import Recall as Recall
from rankwise.measures.evaluation import Evaluation as Evaluation
from rankwise.measures.evaluation import PairedTest as PairedTest
from rankwise.measures.evaluation import evaluate as evaluate
from rankwise.measures.evaluation import paired_test as paired_test
from rankwise.measures.graded import DCG as DCG
from rankwise.measures.graded import ERR as ERR
from rankwise.measures.graded import ERU as ERU
from rankwise.measures.graded import NDCG as NDCG
from rankwise.measures.graded import WTA as WTA
from rankwise.measures.graded import Utility as Utility
from rankwise.measures.pairwise import AUC as AUC
from rankwise.measures.pairwise import Concordance as Concordance
from rankwise.measures.pairwise import Disagreement as Disagreement
from rankwise.measures.pairwise import KendallTau as KendallTau
from rankwise.measures.pairwise import Spearman as Spearman
from rankwise.measures.registry import parse_measure as parse_measure
from rankwise.measures.value import Measure as Measure
from rankwise.rankers.base import RankerPath as RankerPath
from rankwise.rankers.conditional.conditional_rank_rls import (
    ConditionalRankRLS as ConditionalRankRLS,
)
from rankwise.rankers.conditional.conditional_rank_rls import (
    ConditionalRankRLSCV as ConditionalRankRLSCV,
)
from rankwise.rankers.dorm.dorm import DORM as DORM
from rankwise.rankers.dorm.dorm_cv import DORMCV as DORMCV
from rankwise.rankers.dorm.factorization.ranking_factorization import (
    RankingFactorization as RankingFactorization,
)
from rankwise.rankers.explain import Explanation as Explanation
from rankwise.rankers.explain import FeatureImportance as FeatureImportance
from rankwise.rankers.explain import explain as explain
from rankwise.rankers.explain import feature_importance as feature_importance
from rankwise.rankers.kpcrank.kpc_rank import KPCRank as KPCRank
from rankwise.rankers.kpcrank.kpc_rank import KPCRankCV as KPCRankCV
from rankwise.rankers.linear.linear_rank_rls import LinearRankRLS as LinearRankRLS
from rankwise.rankers.pair_calibration import PairCalibration as PairCalibration
from rankwise.rankers.pipeline import RankerPipeline as RankerPipeline
from rankwise.rankers.rls.any_model import PairDifference as PairDifference
from rankwise.rankers.rls.any_model import PairEstimate as PairEstimate
from rankwise.rankers.rls.any_model import leave_pair_out as leave_pair_out
from rankwise.rankers.rls.rank_rls import RankRLS as RankRLS
from rankwise.rankers.rls.rank_rls_cv import RankRLSCV as RankRLSCV
from rankwise.rankers.rls.small_samples import AUCEstimate as AUCEstimate
from rankwise.rankers.rls.small_samples import PermutationTest as PermutationTest
from rankwise.rankers.rls.small_samples import TournamentROC as TournamentROC
from rankwise.rankers.rls.small_samples import leave_pair_out_auc as leave_pair_out_auc
from rankwise.rankers.rls.small_samples import permutation_test as permutation_test
from rankwise.rankers.scorer import QueryKFold as QueryKFold
from rankwise.rankers.scorer import RankerRegressor as RankerRegressor
from rankwise.rankers.scorer import as_regressor as as_regressor
from rankwise.rankers.scorer import make_ranking_scorer as make_ranking_scorer
from rankwise.rankers.storage import load as load
from rankwise.rankers.svm.rank_svm import RankSVM as RankSVM
from rankwise.rankers.trees.boosted_ranker import BoostedRanker as BoostedRanker
from rankwise.selection.holdouts import PairKFold as PairKFold
from rankwise.selection.path import Candidate as Candidate
from rankwise.selection.path import SelectionPath as SelectionPath
from rankwise.solve.iteration import Certificate as Certificate
from rankwise.solve.iteration import CertifiedSolution as CertifiedSolution
from rankwise.solve.iteration import Ending as Ending
from rankwise.solve.iteration import Step as Step
from rankwise.solve.kernel_iteration import ConjugateGradients as ConjugateGradients
from rankwise.transformers.categories import WithinQueryEncoder as WithinQueryEncoder
from rankwise.transformers.numeric import WithinQueryImputer as WithinQueryImputer
from rankwise.transformers.numeric import WithinQueryRanks as WithinQueryRanks
from rankwise.transformers.numeric import WithinQueryScaler as WithinQueryScaler
from rankwise.transformers.text import TextFeatures as TextFeatures

__all__: list[str]
__version__: str
