"""The posterior and the evidence of comparisons under a kernel and a likelihood."""

import warnings
from dataclasses import dataclass
from typing import Literal, Self, TypeAlias, final

import numpy as np

from rankwise.core.arrays import FloatArray
from rankwise.core.errors import ConvergenceWarning, InvalidInputError
from rankwise.features.parametric import Hyperprior, ParametricKernel
from rankwise.inference.comparisons import Comparisons
from rankwise.inference.ep import expectation_propagation
from rankwise.inference.laplace import laplace
from rankwise.inference.likelihoods import Flip, GaussianMargin, Likelihood, SmoothLikelihood
from rankwise.inference.posterior import Posterior, inducing_gradient, kernel_gradient
from rankwise.inference.prior import Prior, factorise, inducing_factor

Method: TypeAlias = Literal["ep", "laplace"]
Sites: TypeAlias = tuple[FloatArray, FloatArray]


@final
@dataclass(frozen=True, eq=False)
class Inference:
    """Turn a kernel and a likelihood into a posterior over the compared items.

    Parameters
    ----------
    rows : (n_items, n_features)
        The compared items, in the order of ``comparisons.items``.
    comparisons : Comparisons
    basis : (n_basis, n_features) or None
        Rows through which the kernel is approximated.
    method : {"ep", "laplace"}
        How the posterior is approximated; Gaussian margins need no approximation.
    """

    rows: FloatArray
    comparisons: Comparisons
    basis: FloatArray | None
    method: Method

    def posterior(
        self,
        kernel: ParametricKernel,
        likelihood: Likelihood,
        *,
        start: Sites | None = None,
        tol: float = 1e-6,
        rank_tol: float = 1e-10,
        max_sweeps: int = 300,
    ) -> Posterior:
        """Return the posterior, from sites close to its own where these are known."""
        prior = self._prior(kernel, rank_tol)
        if isinstance(likelihood, GaussianMargin) or self.method == "laplace":
            decrement = max(tol**2, 1e-20)  # a squared distance
            return laplace(prior, _smooth(likelihood), start=start, tol=decrement)
        return expectation_propagation(
            prior, likelihood, start=start, tol=tol, max_sweeps=max_sweeps
        )

    def gradient(self, kernel: ParametricKernel, posterior: Posterior) -> FloatArray:
        """Return the derivative of the evidence in the kernel's ``theta``."""
        if self.basis is None:
            return kernel.contract(self.rows, self.rows, kernel_gradient(posterior))
        G_cross, G_basis, g_spread = inducing_gradient(posterior)
        Z = self.basis[posterior.items]
        return (
            kernel.contract(Z, self.rows, G_cross)
            + kernel.contract(Z, Z, G_basis)
            + kernel.contract_spread(*self._ends(), g_spread)
        )

    def _prior(self, kernel: ParametricKernel, rank_tol: float) -> Prior:
        if self.basis is None:
            return factorise(kernel(self.rows, self.rows), self.comparisons, tol=rank_tol)
        return inducing_factor(
            kernel(self.basis, self.basis),
            kernel(self.basis, self.rows),
            kernel.spread(*self._ends()),
            np.arange(len(self.basis)),
            self.comparisons,
        )

    def _ends(self) -> tuple[FloatArray, FloatArray]:
        return self.rows[self.comparisons.first], self.rows[self.comparisons.second]


def _smooth(likelihood: Likelihood) -> SmoothLikelihood:
    if not isinstance(likelihood, SmoothLikelihood):
        raise InvalidInputError(
            "method='laplace' knows wins and margins, not ties or flips: got "
            f"{type(likelihood).__name__}. Use method='ep'."
        )
    return likelihood


@final
class Objective:
    """Minus the log of evidence times hyperprior, as a function of all parameters' logarithms.

    Every evaluation starts from the sites of the one before, which saves most of the sweeps.

    Parameters
    ----------
    inference : Inference
    kernel : ParametricKernel
        Whose ``theta`` is the head of the parameters.
    likelihood : Likelihood
    free : names of the likelihood's parameters that make up the tail
        The evidence does not depend on those that the likelihood does not have.
    hyperprior : Hyperprior
        Of all of them.
    """

    TOL, MAX_SWEEPS = 1e-4, 100
    ROUGH_TOL, ROUGH_SWEEPS = 1e-2, 20
    RANK_TOL = 1e-7

    def __init__(
        self,
        inference: Inference,
        kernel: ParametricKernel,
        likelihood: Likelihood,
        free: tuple[str, ...],
        hyperprior: Hyperprior,
    ) -> None:
        self.inference = inference
        self.kernel = kernel
        self.likelihood = likelihood
        self.free = free
        self.hyperprior = hyperprior
        self.sites: Sites | None = None
        self._last: tuple[FloatArray, float, FloatArray] | None = None

    @property
    def start(self) -> FloatArray:
        """The parameters of kernel and likelihood as given."""
        values = [self.likelihood.parameters[name] for name in self.free]
        return np.append(self.kernel.theta, np.log(values))

    def parts(self, x: FloatArray) -> tuple[ParametricKernel, Likelihood]:
        """Return kernel and likelihood with the parameters x."""
        n_kernel = len(self.kernel.theta)
        values = dict(zip(self.free, np.exp(x[n_kernel:]).tolist(), strict=True))
        known = {name: values[name] for name in self.free if name in self.likelihood.parameters}
        return self.kernel.with_theta(x[:n_kernel]), self.likelihood.replace(**known)

    def without_flips(self) -> Self:
        """Return the same without flipped answers: log-concave, hence found in fewer sweeps."""
        if not isinstance(self.likelihood, Flip):
            return self
        base = self.likelihood.base
        return type(self)(self.inference, self.kernel, base, self.free, self.hyperprior)

    def __call__(self, x: FloatArray) -> tuple[float, FloatArray]:
        """Return the value and the gradient; those of the last point are remembered."""
        if self._last is None or not np.array_equal(self._last[0], x):
            self._last = x.copy(), *self._evaluate(x)
        return self._last[1:]

    def _evaluate(self, x: FloatArray) -> tuple[float, FloatArray]:
        kernel, likelihood = self.parts(x)
        posterior = self._posterior(kernel, likelihood, self.TOL, self.MAX_SWEEPS)
        scale = likelihood.parameters
        tail = [
            posterior.by_parameter[name] * scale[name] if name in scale else 0.0
            for name in self.free
        ]
        gradient = np.append(self.inference.gradient(kernel, posterior), tail)
        gradient += self.hyperprior.gradient(x)
        return -posterior.log_evidence - self.hyperprior.log_density(x), -gradient

    def roughly(self, x: FloatArray) -> float:
        """Return the value to two or three decimals: enough to tell good starts from bad ones."""
        posterior = self._posterior(*self.parts(x), self.ROUGH_TOL, self.ROUGH_SWEEPS)
        return -posterior.log_evidence - self.hyperprior.log_density(x)

    def _posterior(
        self, kernel: ParametricKernel, likelihood: Likelihood, tol: float, max_sweeps: int
    ) -> Posterior:
        """Return the posterior; what does not converge here is reported by the final one."""
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", ConvergenceWarning)
            posterior = self.inference.posterior(
                kernel,
                likelihood,
                start=self.sites,
                tol=tol,
                rank_tol=self.RANK_TOL,
                max_sweeps=max_sweeps,
            )
        self.sites = (posterior.tau, posterior.nu) if posterior.converged else None
        return posterior
