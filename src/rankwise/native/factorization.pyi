from rankwise.core.arrays import FloatArray, IntArray
from rankwise.native.oracles import OracleRoom, OracleTargets
from rankwise.native.planes import Planes

def rated_scores(
    starts: IntArray, items: IntArray, U: FloatArray, V: FloatArray, scores: FloatArray
) -> None: ...
def fit_users(
    targets: OracleTargets,
    room: OracleRoom,
    planes: Planes,
    items: IntArray,
    bias: FloatArray,
    V: FloatArray,
    tol: float,
    max_visits: int,
    first: int,
    last: int,
    U: FloatArray,
) -> None: ...
def visit_users(
    targets: OracleTargets,
    room: OracleRoom,
    planes: Planes,
    items: IntArray,
    U: FloatArray,
    users: IntArray,
    with_oracle: bool,
    given: FloatArray | None,
    loss: float,
    V: FloatArray,
) -> float: ...
