"""The array namespaces in which every formula is the same: a new one is one line in NAMESPACES."""

import array_api_strict
import numpy as np
import pytest
import torch

from rankwise.core.namespaces import to_host

NAMESPACES = {
    "numpy": np.array,
    "torch": torch.tensor,
    "strict": lambda values: array_api_strict.asarray(values, copy=True),
}

every_namespace = pytest.mark.parametrize("there", NAMESPACES.values(), ids=NAMESPACES)


def assert_same(found, expected, share=1e-13):
    """Say that numbers of any namespace are those expected, to a share of the largest."""
    assert type(found) is not np.ndarray or found.dtype == expected.dtype
    scale = np.abs(expected).max(initial=0.0)
    np.testing.assert_allclose(to_host(found), expected, rtol=0, atol=share * scale)
