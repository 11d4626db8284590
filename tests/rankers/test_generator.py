"""Randomness at the public boundary."""

import numpy as np
import pytest

from rankwise import InvalidInputError
from rankwise.rankers.base import generator


@pytest.mark.parametrize("state", [-1, 2**32, "seed", 1.5])
def test_a_random_state_that_is_none_is_refused(state):
    with pytest.raises(InvalidInputError, match="`random_state` must be None"):
        generator(state)


def test_a_seed_gives_the_same_numbers_again():
    assert generator(3).random() == generator(np.int64(3)).random()
