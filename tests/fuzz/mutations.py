"""Random changes of documents and arrays that keep them almost right."""

import copy
import os

import numpy as np

N_CASES = int(os.environ.get("RANKWISE_FUZZ", "0"))
"""Number of cases of each fuzz test; 0 for the few that the tests run."""

SEED = int(os.environ.get("RANKWISE_FUZZ_SEED", "0"))
"""Other seeds draw other cases."""


def seeded_rng(*parts):
    """Return a generator that depends on the seed, the number of cases and ``parts``."""
    return np.random.default_rng([SEED, N_CASES, *parts])


PLAIN = [
    None, True, False, 0, 1, -1, 2**31, 2**63, 10**30, 0.5, -0.5, 1e308, float("nan"),
    float("inf"), "", "a", "x" * 300, "array/0", "array/99", "linear", "NDCG @ 10", [], {},
    [[]], {"array": "array/0"}, {"list": [], "tuple": True}, {"dict": [["a", 1]]},
    {"measure": "NDCG("}, {"value": "Gaussian", "fields": {"gamma": -1.0}},
    {"value": "Identity", "fields": {}}, {"csr": [], "shape": [1, 1]},
]  # fmt: skip


def places(document, at=()):
    """List the paths of all nodes inside a JSON document."""
    found = [at] if at else []
    children = document.items() if isinstance(document, dict) else enumerate(document)
    for key, child in children:
        inner = (*at, key)
        found += places(child, inner) if isinstance(child, dict | list) else [inner]
    return found


def mutated_document(document, rng):
    """Return a copy in which one to three nodes are changed."""
    document = copy.deepcopy(document)
    for _ in range(rng.integers(1, 4)):
        paths = places(document)
        if not paths:
            break
        path = paths[rng.integers(len(paths))]
        parent = document
        for key in path[:-1]:
            parent = parent[key]
        _change(document, parent, path[-1], paths, rng)
    return document


def _change(document, parent, key, paths, rng):
    action = rng.integers(5)
    if action == 0:
        del parent[key]
    elif action == 1:  # what stands elsewhere
        other = document
        for step in paths[rng.integers(len(paths))]:
            other = other[step]
        parent[key] = copy.deepcopy(other)
    elif action == 2 and isinstance(parent, dict):
        parent[str(key) + "x"] = parent.pop(key)
    elif action == 3 and isinstance(parent, list):
        parent.insert(int(rng.integers(len(parent) + 1)), copy.deepcopy(parent[key]))
    else:
        parent[key] = copy.deepcopy(PLAIN[rng.integers(len(PLAIN))])


def mutated_arrays(arrays, rng):
    """Return a copy in which one array is changed, dropped or taken for another."""
    arrays = dict(arrays)
    names = sorted(arrays)
    name, other = (names[rng.integers(len(names))] for _ in range(2))
    arrays[name] = [
        _other_values,
        lambda array, _: array[: len(array) // 2] if array.ndim else array,
        lambda array, _: array.reshape(-1),
        lambda array, _: array[None],
        lambda array, _: array.astype(bool) if array.dtype.kind != "U" else array,
        lambda array, _: array.astype(np.int32) if array.dtype.kind in "if" else array,
        lambda array, _: np.zeros((0, *array.shape)),
        lambda array, _: np.concatenate([array, array]) if array.ndim else array,
        lambda *_: arrays[other],
        lambda array, _: array.T,
    ][rng.integers(10)](arrays[name], rng)
    if rng.integers(20) == 0:
        del arrays[name]
    return arrays


def _other_values(array, rng):
    changed = np.array(array)
    if changed.size == 0 or changed.dtype.kind == "U":
        return changed
    at = tuple(int(rng.integers(n)) for n in changed.shape)
    if changed.dtype.kind == "f":
        changed[at] = rng.choice([np.nan, np.inf, -1.0, 0.0, 1e300])
    else:
        largest = np.iinfo(changed.dtype).max if changed.dtype.kind in "iu" else True
        lowest = np.iinfo(changed.dtype).min if changed.dtype.kind in "iu" else False
        changed[at] = [largest, lowest, 0, 1][rng.integers(4)]
    return changed


TOKENS = [
    b"", b" ", b"\n", b"\r\n", b"\t", b":", b"::", b"#", b",", b'"', b"'", b";", b"|", b"qid:",
    b"qid:-1", b"0:1", b"1:", b":1", b"-1:2", b"2147483647:1", b"2147483648:1",
    b"99999999999999999999:1", b"nan", b"NaN", b"inf", b"-inf", b"1e400", b"-1e-400", b"0x10",
    b"1_000", b"+1", b"--1", b"1e", b".", b"1.", b".5", b"1,5", b"\x00", b"\xff\xfe",
    b"\xef\xbb\xbf", b"\xc3\xa9", b"\xf0\x9f\x8d\x93", b"9" * 400, b"1" + b"0" * 30, b"true",
    b"None", b"NULL", b"NA", b"a" * 3000, b"=1+1", b"winner", b"label",
]  # fmt: skip
"""What goes wrong in text files."""


def mutated_text(text, rng):
    """Return bytes in which one to four places are changed."""
    for _ in range(rng.integers(1, 5)):
        text = _mutated_once(text, rng)
    return text


def _mutated_once(text, rng):
    at, end = np.sort(rng.integers(0, len(text) + 1, size=2))
    end = min(end, at + 8)
    token = TOKENS[rng.integers(len(TOKENS))]
    return [
        lambda: text[:at] + token + text[at:],
        lambda: text[:at] + token + text[end:],
        lambda: text[:at] + text[end:],
        lambda: text[:at],
        lambda: text[:at] + bytes([rng.integers(256)]) + text[at + 1 :],
        lambda: text[:end] + text[at:],
        lambda: _swapped_lines(text, rng),
    ][rng.integers(7)]()


def _swapped_lines(text, rng):
    lines = text.split(b"\n")
    i, j = rng.integers(len(lines), size=2)
    lines[i], lines[j] = lines[j], lines[i]
    return b"\n".join(lines)
