"""The kernel of a preference Gaussian process: the given one as one with parameters."""

from collections.abc import Callable
from typing import Any, TypeAlias

from sklearn.gaussian_process.kernels import Kernel as SklearnBase

from rankwise.core.errors import InvalidInputError
from rankwise.estimators._gp_sklearn import SklearnKernel
from rankwise.features.gp_kernels import OWN_MEDIAN, Scaled, SquaredExponential
from rankwise.features.kernels import Kernel, Precomputed, as_kernel
from rankwise.features.parametric import ParametricKernel

GivenKernel: TypeAlias = str | Kernel | SklearnBase | Callable[[Any, Any], Any] | None


def choose_kernel(kernel: GivenKernel, amplitude: float) -> ParametricKernel:
    """Return the given kernel, or the default one of this amplitude."""
    if kernel is None:
        return SquaredExponential(amplitude, "per_feature", OWN_MEDIAN)
    if isinstance(kernel, SklearnBase):
        return SklearnKernel(kernel)
    known = as_kernel(kernel)
    if isinstance(known, Precomputed):
        raise InvalidInputError(
            "`kernel` must be a function of rows, since prediction needs the variance of new "
            "items: a precomputed kernel has none."
        )
    return known if isinstance(known, ParametricKernel) else Scaled(known)
