"""Sites for answers that come in after a fit."""

import numpy as np

from rankwise.core.arrays import FloatArray
from rankwise.estimators._gp_evidence import Sites
from rankwise.features.parametric import ParametricKernel
from rankwise.inference.comparisons import Comparisons
from rankwise.inference.ep import sequential_sites
from rankwise.inference.likelihoods import GaussianMargin
from rankwise.inference.posterior import Posterior
from rankwise.inference.tilted import Answers

MAX_SEQUENTIAL = 500
"""New comparisons up to which their sites are found one after the other."""


def extended_sites(
    posterior: Posterior,
    comparisons: Comparisons,
    X: FloatArray,
    basis_rows: FloatArray,
    kernel: ParametricKernel,
) -> Sites | None:
    """Return sites for all comparisons: the old ones, and for new pairs those they ask for.

    Parameters
    ----------
    posterior : Posterior
        Before the new answers.
    comparisons : Comparisons
        All of them; the old ones come first.
    X, basis_rows
        The items, and the rows that the posterior's basis is made of.
    kernel : ParametricKernel
    """
    n_old = posterior.prior.comparisons.n_pairs
    n_new = comparisons.n_pairs - n_old
    small = (comparisons.count < 1.0).any()  # known to Laplace's method only, which needs no start
    if small or n_new > MAX_SEQUENTIAL or isinstance(posterior.likelihood, GaussianMargin):
        return None
    if n_new == 0:
        return posterior.tau, posterior.nu
    new = np.arange(n_old, comparisons.n_pairs)
    items, ends = np.unique([comparisons.winner[new], comparisons.loser[new]], return_inverse=True)
    first, second = ends.reshape(2, n_new)
    K_cross, K = kernel(basis_rows, X[items]), kernel(X[items], X[items])
    mean, covariance = posterior.mean_at(K_cross), posterior.covariance_at(K_cross, K)
    D = covariance[first] - covariance[second]
    answers = Answers(comparisons.tied[new], comparisons.margin[new], np.zeros(n_new))
    tau, nu = sequential_sites(
        mean[first] - mean[second],
        D[:, first] - D[:, second],
        comparisons.count[new],
        answers,
        posterior.likelihood,
    )
    return np.append(posterior.tau, tau), np.append(posterior.nu, nu)
