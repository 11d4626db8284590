from rankwise.core.arrays import FloatArray, IntArray
from rankwise.native.oracles import StateTable

def best_diverse_head(
    table: StateTable,
    scores: FloatArray,
    grades: IntArray,
    grade_gains: FloatArray,
    decay: FloatArray,
    discounts: FloatArray,
    sources: IntArray,
    n_sources: int,
    depth: int,
    max_nodes: int,
    positions: IntArray,
) -> bool: ...
