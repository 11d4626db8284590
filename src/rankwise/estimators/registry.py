"""All rankers by name, for files that hold one."""

from os import PathLike
from typing import Any

from rankwise.estimators import _persistence
from rankwise.estimators._base import Ranker
from rankwise.estimators.dorm import DORM
from rankwise.estimators.dorm_cv import DORMCV
from rankwise.estimators.factorization import RankingFactorization
from rankwise.estimators.gp import PreferenceGP
from rankwise.estimators.kpcrank import KPCRank
from rankwise.estimators.kpcrank_cv import KPCRankCV
from rankwise.estimators.linear import LinearRankRLS
from rankwise.estimators.rankrls import RankRLS
from rankwise.estimators.rankrls_cv import RankRLSCV
from rankwise.estimators.ranksvm import RankSVM

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
