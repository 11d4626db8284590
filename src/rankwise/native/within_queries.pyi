from rankwise.core.arrays import FloatArray, IntArray

def find_extremes(X: FloatArray, query: IntArray, low: FloatArray, high: FloatArray) -> None: ...
def add_known(X: FloatArray, query: IntArray, counts: FloatArray, sums: FloatArray) -> None: ...
def add_squares(X: FloatArray, query: IntArray, centre: FloatArray, sums: FloatArray) -> None: ...
def shift_and_scale(
    X: FloatArray, query: IntArray, shift: FloatArray, scale: FloatArray, out: FloatArray
) -> None: ...
def fill_blanks(X: FloatArray, query: IntArray, filling: FloatArray) -> None: ...
def gather_block(
    X: FloatArray,
    order: IntArray,
    starts: IntArray,
    queries: IntArray,
    feature: int,
    keys: FloatArray,
) -> None: ...
def write_ranks(
    keys: FloatArray,
    place: IntArray,
    order: IntArray,
    starts: IntArray,
    queries: IntArray,
    feature: int,
    out: FloatArray,
) -> None: ...
def count_ranks(X: FloatArray, query: IntArray, out: FloatArray) -> None: ...
def find_quantiles(
    keys: FloatArray, shares: FloatArray, queries: IntArray, feature: int, out: FloatArray
) -> None: ...
