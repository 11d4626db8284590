from rankwise.core.arrays import FloatArray, IntArray

def refit_without_each(
    grams: FloatArray,
    rhs: FloatArray,
    behind: FloatArray,
    behind_rhs: FloatArray,
    alphas: FloatArray,
    W: FloatArray,
    worst: FloatArray,
) -> None: ...
def solve_each(A: FloatArray, B: FloatArray, worst: FloatArray) -> None: ...
def complete_pairs(
    B: FloatArray,
    A: FloatArray,
    Y: FloatArray,
    tie: FloatArray,
    decisive: IntArray,
    rows: IntArray,
    right: FloatArray,
    total: FloatArray,
) -> float: ...
def eliminate_panel(
    panel: FloatArray, first: int, n_columns: int, floor: FloatArray, pivots: FloatArray
) -> None: ...
