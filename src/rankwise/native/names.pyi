from typing import Any

from numpy.typing import NDArray

from rankwise.core.arrays import IntArray

def number_texts(text: NDArray[Any], starts: NDArray[Any], code: IntArray) -> IntArray: ...
