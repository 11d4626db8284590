from rankwise.core.arrays import FloatArray, IntArray
from rankwise.native.oracles import OracleRoom, OracleTargets

class Planes:
    vectors: FloatArray
    starts: IntArray
    sizes: IntArray
    counts: IntArray
    losses: FloatArray
    weights: FloatArray
    idle: IntArray
    grams: FloatArray
    def __init__(self, sizes: IntArray, capacity: int) -> None: ...

def visit_dense(
    targets: OracleTargets,
    room: OracleRoom,
    planes: Planes,
    X: FloatArray,
    queries: IntArray,
    with_oracle: bool,
    given: FloatArray | None,
    loss: float,
    w: FloatArray,
) -> float: ...
def visit_sparse(
    targets: OracleTargets,
    room: OracleRoom,
    planes: Planes,
    rows: object,
    queries: IntArray,
    with_oracle: bool,
    given: FloatArray | None,
    loss: float,
    w: FloatArray,
) -> float: ...
def visit_kernel(
    targets: OracleTargets,
    room: OracleRoom,
    planes: Planes,
    K: FloatArray,
    queries: IntArray,
    with_oracle: bool,
    given: FloatArray | None,
    loss: float,
    dual: FloatArray,
    scores: FloatArray,
) -> float: ...
