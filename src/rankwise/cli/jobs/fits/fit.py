"""Fit what suits the file: AutoRanker for several queries, RankRLS otherwise."""

from functools import partial

from rankwise.automatic.auto_ranker import AutoRanker
from rankwise.cli.fit_commands import Fit
from rankwise.cli.jobs.fits.auto import search
from rankwise.cli.jobs.fits.cluster import fit_on_cluster
from rankwise.cli.jobs.fits.rls import chosen_by_queries, describe, fit_best
from rankwise.cli.jobs.fits.training import FitInput, fit_and_save
from rankwise.core.queries import Queries
from rankwise.distributed.closed_form import DaskRankRLSCV
from rankwise.measures.graded import NDCG
from rankwise.measures.pairwise import Concordance
from rankwise.measures.registry import parse_measure
from rankwise.rankers.rls.rank_rls import RankRLS
from rankwise.rankers.rls.rank_rls_cv import ALPHAS


def run(command: Fit) -> None:
    """Fit, save and report."""
    asked = None if command.measure is None else parse_measure(command.measure)
    if command.is_on_cluster:
        fit_on_cluster(command, DaskRankRLSCV(measure=asked or NDCG @ 10), chosen_by_queries, {})
        return
    problem = FitInput.read(command, takes_raw=command.validate is None)
    queries = Queries.of(problem.preferences["qid"], problem.data.n_items)
    if problem.is_raw or (queries.n_queries > 1 and command.validate is None):
        search(command, problem, AutoRanker())
        return
    measure = asked or (NDCG @ 10 if problem.has_qid else Concordance)
    fit = partial(fit_best, command, RankRLS(), ALPHAS, problem, measure)
    fit_and_save(command, problem, fit, describe)
