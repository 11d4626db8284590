from typing import Any

from numpy.typing import NDArray

from rankwise.core.arrays import FloatArray, IntArray

def number_texts(
    text: NDArray[Any], starts: NDArray[Any], stops: NDArray[Any], code: IntArray
) -> IntArray: ...
def count_answers(
    first: IntArray,
    second: IntArray,
    outcome: IntArray,
    weight: FloatArray,
    n_items: int,
    total: FloatArray,
) -> None: ...
