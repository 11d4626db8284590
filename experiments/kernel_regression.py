"""Regression on the scores themselves: what rankers are compared with."""

from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.linalg import eigh


def regression_path(
    K: NDArray[Any], Y: NDArray[Any], K_new: NDArray[Any], alphas: NDArray[Any]
) -> NDArray[Any]:
    """Return the scores of new rows under every alpha, by least squares without an intercept.

    The same as scikit-learn's KernelRidge for each alpha, from one decomposition.

    Parameters
    ----------
    K : (n_items, n_items)
        Kernel of the training rows.
    Y : (n_items,) or (n_items, n_outputs)
        Their scores.
    K_new : (n_new, n_items)
        Kernel of the new rows with the training rows.
    alphas : (n_alphas,)
        The regularisation.

    Returns
    -------
    scores : (n_alphas, n_new) or (n_alphas, n_new, n_outputs)
    """
    values, V = eigh(K)
    turned, turned_new = V.T @ Y, K_new @ V
    return np.stack([turned_new / (values + alpha) @ turned for alpha in alphas])
