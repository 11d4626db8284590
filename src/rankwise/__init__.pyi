from rankwise.core.errors import ConvergenceWarning as ConvergenceWarning
from rankwise.core.errors import DataFileError as DataFileError
from rankwise.core.errors import InvalidInputError as InvalidInputError
from rankwise.core.errors import MissingExtraError as MissingExtraError
from rankwise.core.errors import ModelFileError as ModelFileError
from rankwise.core.errors import NothingToLearnError as NothingToLearnError
from rankwise.core.errors import NumericalError as NumericalError
from rankwise.core.errors import RankwiseError as RankwiseError
from rankwise.core.queries import Queries as Queries
from rankwise.features.covariances import SquaredExponential as SquaredExponential
from rankwise.features.kernels import Gaussian as Gaussian
from rankwise.features.kernels import Kernel as Kernel
from rankwise.features.kernels import Laplacian as Laplacian
from rankwise.features.kernels import Linear as Linear
from rankwise.features.kernels import Polynomial as Polynomial
from rankwise.features.kernels import Precomputed as Precomputed
from rankwise.graph.preference_graph import PreferenceGraph as PreferenceGraph
from rankwise.measures.binary import AP as AP
from rankwise.measures.binary import RR as RR
from rankwise.measures.binary import Precision as Precision
from rankwise.measures.correlation import KendallTau as KendallTau
from rankwise.measures.correlation import Spearman as Spearman
from rankwise.measures.evaluation import Evaluation as Evaluation
from rankwise.measures.evaluation import PairedTest as PairedTest
from rankwise.measures.evaluation import evaluate as evaluate
from rankwise.measures.evaluation import paired_test as paired_test
from rankwise.measures.graded import DCG as DCG
from rankwise.measures.graded import ERU as ERU
from rankwise.measures.graded import NDCG as NDCG
from rankwise.measures.graded import WTA as WTA
from rankwise.measures.graded import Utility as Utility
from rankwise.measures.pairwise import AUC as AUC
from rankwise.measures.pairwise import Concordance as Concordance
from rankwise.measures.pairwise import Disagreement as Disagreement
from rankwise.measures.registry import parse_measure as parse_measure
from rankwise.measures.value import Measure as Measure
from rankwise.rankers.base import RankerPath as RankerPath
from rankwise.rankers.dorm.dorm import DORM as DORM
from rankwise.rankers.dorm.dorm_cv import DORMCV as DORMCV
from rankwise.rankers.dorm.factorization.ranking_factorization import (
    RankingFactorization as RankingFactorization,
)
from rankwise.rankers.gp.average import LengthScaleAverage as LengthScaleAverage
from rankwise.rankers.gp.average import average_over_length_scales as average_over_length_scales
from rankwise.rankers.gp.preference_gp import PreferenceGP as PreferenceGP
from rankwise.rankers.gp.questions import RankDistribution as RankDistribution
from rankwise.rankers.kpcrank.kpc_rank import KPCRank as KPCRank
from rankwise.rankers.kpcrank.kpc_rank_cv import KPCRankCV as KPCRankCV
from rankwise.rankers.linear.linear_rank_rls import LinearRankRLS as LinearRankRLS
from rankwise.rankers.rls.rank_rls import RankRLS as RankRLS
from rankwise.rankers.rls.rank_rls_cv import RankRLSCV as RankRLSCV
from rankwise.rankers.rls.small_samples import AUCEstimate as AUCEstimate
from rankwise.rankers.rls.small_samples import PermutationTest as PermutationTest
from rankwise.rankers.rls.small_samples import leave_pair_out_auc as leave_pair_out_auc
from rankwise.rankers.rls.small_samples import permutation_test as permutation_test
from rankwise.rankers.scorer import make_ranking_scorer as make_ranking_scorer
from rankwise.rankers.storage import load as load
from rankwise.rankers.svm.rank_svm import RankSVM as RankSVM
from rankwise.selection.path import Candidate as Candidate
from rankwise.selection.path import SelectionPath as SelectionPath
from rankwise.solve.iteration import Certificate as Certificate
from rankwise.solve.iteration import CertifiedSolution as CertifiedSolution
from rankwise.solve.iteration import Ending as Ending
from rankwise.solve.iteration import Step as Step

__all__: list[str]
__version__: str
