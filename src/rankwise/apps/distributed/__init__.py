"""Learn on a Dask cluster, with the same results as on one machine, however queries are split."""

from rankwise.apps.distributed.automatic import DaskAutoRanker
from rankwise.apps.distributed.closed_form import DaskRankRLS, DaskRankRLSCV
from rankwise.apps.distributed.evaluation import evaluate
from rankwise.apps.distributed.leaderboards import count_comparisons, leaderboard
from rankwise.apps.distributed.linear import DaskLinearRankRLS

__all__ = [
    "DaskAutoRanker",
    "DaskLinearRankRLS",
    "DaskRankRLS",
    "DaskRankRLSCV",
    "count_comparisons",
    "evaluate",
    "leaderboard",
]
