"""The text that trees are kept as, checked before LightGBM reads it: LightGBM checks little."""

from collections.abc import Mapping
from itertools import pairwise

import numpy as np

from rankwise.core.arrays import FloatArray

END = b"end of trees\n\npandas_categorical:null\n"
"""What comes after the trees; parameters of the training and the like are left out."""

HEADER = {
    "version": "v4",
    "num_class": "1",
    "num_tree_per_iteration": "1",
    "label_index": "0",
}
FREE = ("feature_names", "feature_infos", "objective")
"""Lines of the header with no meaning for scores; the first two have a word per feature."""

OF_NODES = ("split_feature", "threshold", "decision_type", "left_child", "right_child")
MORE_OF_NODES = ("split_gain", "internal_value", "internal_weight", "internal_count")
MORE_OF_LEAVES = ("leaf_weight", "leaf_count")
PLAIN_DECISIONS = (0.0, 2.0, 4.0, 6.0, 8.0, 10.0)
"""Comparisons with a threshold, by where blanks and zeros go; odd ones are of categories."""


def trees_only(text: str) -> bytes:
    """Return the text of a model without what follows its trees, and what they were held to."""
    trees, _, _ = text.encode().partition(b"end of trees")
    header, blank, body = trees.partition(b"\n\n")
    lines = [line for line in header.split(b"\n") if not line.startswith(b"monotone_constraints=")]
    return b"\n".join(lines) + blank + body + END


def are_trees(text: bytes, n_features: int) -> bool:
    """Return whether a text holds complete trees over existing features.

    Indices must be in range, every node must have one parent before it, and sizes must be those of
    the text: LightGBM checks none of this, and would read and write out of bounds.
    """
    # the header: known lines, and as many words as there are features
    header, blank, body = text.partition(b"\n\n")
    if not blank or not text.isascii() or not header.startswith(b"tree\n"):
        return False
    found = _lines(header.decode().split("\n")[1:]) or {}
    sizes = _numbers(found.pop("tree_sizes", ""))
    if (
        sizes is None
        or np.isinf(sizes).any()
        or found.pop("max_feature_idx", "") != str(n_features - 1)
    ):
        return False
    free = {name: found.pop(name, "") for name in FREE}
    if found != HEADER or any(len(free[name].split()) != n_features for name in FREE[:2]):
        return False
    # the trees: as long as the header says, and nothing behind them
    if not np.all((sizes >= 0) & (sizes <= len(body)) & (sizes == np.floor(sizes))):
        return False
    ends = [0, *np.cumsum(sizes.astype(int)).tolist()]
    if len(ends) < 2 or body[ends[-1] :] != END:
        return False
    blocks = [body[start:end].decode() for start, end in pairwise(ends)]
    return all(_is_tree(block, number, n_features) for number, block in enumerate(blocks))


def _lines(lines: list[str]) -> dict[str, str] | None:
    """Return what stands behind each name, or None where lines are of another kind or repeated."""
    pairs = [line.partition("=") for line in lines]
    found = {name: value for name, _, value in pairs}
    return found if len(found) == len(pairs) and all(sign for _, sign, _ in pairs) else None


def _numbers(text: str) -> FloatArray | None:
    try:
        numbers = np.array([float(word) for word in text.split(" ")] if text else [], dtype=float)
    except ValueError:
        return None
    return None if np.isnan(numbers).any() else numbers


def _is_tree(block: str, number: int, n_features: int) -> bool:
    found = _lines(block.rstrip("\n").split("\n"))
    if found is None or not block.endswith("\n\n\n") or found.pop("Tree", "") != str(number):
        return False
    rate = _numbers(found.pop("shrinkage", ""))
    kind = (found.pop("num_cat", ""), found.pop("is_linear", ""))
    count = found.pop("num_leaves", "")
    if kind != ("0", "0") or rate is None or len(rate) != 1 or not count.isdigit():
        return False
    if not np.isfinite(rate).all():
        return False
    return _fits_together(found, int(count), n_features)


def _fits_together(found: Mapping[str, str], n_leaves: int, n_features: int) -> bool:
    """Return whether the arrays of a tree are as long as they must be, and point inside it."""
    lengths = dict.fromkeys((*OF_NODES, *MORE_OF_NODES), n_leaves - 1)
    lengths |= dict.fromkeys(("leaf_value", *MORE_OF_LEAVES), n_leaves)
    arrays = {name: _numbers(value) for name, value in found.items()}
    for name, array in arrays.items():
        if array is None or name not in lengths:
            return False
        if name != "threshold" and np.isinf(array).any():  # a threshold before blanks is infinite
            return False
        if len(array) != lengths[name] and (n_leaves > 1 or len(array) > 0):
            return False
    values = arrays.get("leaf_value")
    nodes = [arrays.get(name) for name in OF_NODES]
    if (
        n_leaves < 1
        or values is None
        or len(values) != n_leaves
        or any(array is None for array in nodes)
    ):
        return False
    feature, _, decision, left, right = (np.asarray(array) for array in nodes)
    if not np.isin(feature, np.arange(n_features)).all():
        return False
    if not np.isin(decision, PLAIN_DECISIONS).all():
        return False
    children = np.sort(np.concatenate([left, right]))
    expected = np.concatenate([np.arange(-n_leaves, 0), np.arange(1, n_leaves - 1)])
    place = np.arange(n_leaves - 1)
    below = all(np.all((side < 0) | (side > place)) for side in (left, right))
    return n_leaves == 1 or (np.array_equal(children, expected) and below)
