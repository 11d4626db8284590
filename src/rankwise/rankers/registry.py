"""All rankers by name, for files that hold one."""

from os import PathLike
from typing import Any

from rankwise.rankers import storage as _persistence
from rankwise.rankers.base import Ranker
from rankwise.rankers.dorm.dorm import DORM
from rankwise.rankers.dorm.dorm_cv import DORMCV
from rankwise.rankers.dorm.factorization.ranking_factorization import RankingFactorization
from rankwise.rankers.gp.preference_gp import PreferenceGP
from rankwise.rankers.kpcrank.kpc_rank import KPCRank
from rankwise.rankers.kpcrank.kpc_rank_cv import KPCRankCV
from rankwise.rankers.linear.linear_rank_rls import LinearRankRLS
from rankwise.rankers.rls.rank_rls import RankRLS
from rankwise.rankers.rls.rank_rls_cv import RankRLSCV
from rankwise.rankers.svm.rank_svm import RankSVM

RANKERS: dict[str, type[Ranker]] = {
    cls.__name__: cls
    for cls in (
        DORM,
        DORMCV,
        KPCRank,
        KPCRankCV,
        LinearRankRLS,
        PreferenceGP,
        RankRLS,
        RankRLSCV,
        RankSVM,
    )
}


def load(path: str | PathLike[str]) -> Any:
    """Read a ranker or factorisation that `save` wrote: same class, parameters and scores.

    No code from the file is run. Two rows saved with their scores are scored again; a file that
    does not give the same scores, or is damaged or foreign, is refused.

    Parameters
    ----------
    path : path
        The file.

    Examples
    --------
    >>> import tempfile, pathlib
    >>> import rankwise
    >>> ranker = rankwise.RankRLS(alpha=0.5).fit([[0.0], [1.0]], [0, 1])
    >>> path = pathlib.Path(tempfile.mkdtemp()) / "ranker.rankwise"
    >>> ranker.save(path)
    >>> rankwise.load(path)
    RankRLS(alpha=0.5)
    """
    classes: dict[str, type] = {**RANKERS, RankingFactorization.__name__: RankingFactorization}
    return _persistence.load(path, classes)
