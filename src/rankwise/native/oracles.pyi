from typing import Any

import numpy as np
from numpy.typing import NDArray

from rankwise.core.arrays import FloatArray, IntArray

SORT: int
TRUNCATED: int
TWO_GRADES: int
GENERAL: int
STATES_PER_SQUARE: int
FEW_STATES: int

class OracleTargets:
    plan: Any
    target: FloatArray
    ideal: FloatArray
    slack_weights: FloatArray
    def __init__(
        self, plan: object, target: FloatArray, ideal: FloatArray, slack_weights: FloatArray
    ) -> None: ...

class StateTable:
    def __init__(self, n_states: int, depth: int, n_grades: int, n_items: int) -> None: ...

class OracleRoom:
    longest: int
    def __init__(self, longest: int, table: StateTable) -> None: ...

def find_planes(
    targets: OracleTargets,
    room: OracleRoom,
    first: int,
    last: int,
    scores: FloatArray,
    positions: IntArray,
    beta: FloatArray,
    losses: FloatArray,
) -> None: ...
def place_first_relevant(
    scores: FloatArray,
    hits: NDArray[np.uint8],
    decay: FloatArray,
    discounts: FloatArray,
    positions: IntArray,
) -> None: ...
