from rankwise.core.arrays import FloatArray, IntArray

def most_informative_pair(
    mean: FloatArray, S: FloatArray, noise: float, taken: IntArray
) -> tuple[int, int]: ...
def most_promising_pair(
    mean: FloatArray, S: FloatArray, noise: float, taken: IntArray
) -> tuple[int, int]: ...
