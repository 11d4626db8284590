from rankwise.core.arrays import FloatArray

def gaussian_scores(
    X: FloatArray, shift: FloatArray, factors: FloatArray, weights: FloatArray, out: FloatArray
) -> None: ...
