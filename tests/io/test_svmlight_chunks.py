import tracemalloc

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from scipy import sparse

from rankwise.io.svmlight import (
    SvmlightScan,
    iter_svmlight,
    read_svmlight,
    scan_svmlight,
    write_svmlight,
)

FAST = settings(
    deadline=None, max_examples=60, suppress_health_check=[HealthCheck.function_scoped_fixture]
)


def random_file(path, seed, dense, ids):
    rng = np.random.default_rng(seed)
    n_items = int(rng.integers(1, 30))
    X = rng.normal(size=(n_items, 4)) * (rng.random((n_items, 4)) < (0.9 if dense else 0.2))
    X[0, 3] = 1.0
    qid = {
        "none": None,
        "numbers": rng.integers(0, 5, n_items),
        "names": rng.choice(["a", "bb", "7"], n_items),
        "late name": np.array([*map(str, rng.integers(0, 5, n_items - 1)), "x"]),
    }[ids]
    comments = [f"item {i}" if rng.random() < 0.5 else "" for i in range(n_items)]
    table = X if dense else sparse.csr_array(X)
    write_svmlight(path, table, rng.normal(size=n_items), qid, comments)


@FAST
@given(
    seed=st.integers(0, 10**6),
    dense=st.booleans(),
    ids=st.sampled_from(["none", "numbers", "names", "late name"]),
    chunk_bytes=st.integers(1, 3000),
    suffix=st.sampled_from(["", ".gz"]),
)
def test_chunks_below_each_other_are_the_whole(tmp_path, seed, dense, ids, chunk_bytes, suffix):
    path = tmp_path / f"a.txt{suffix}"
    random_file(path, seed, dense, ids)
    whole = read_svmlight(path)
    chunks = list(iter_svmlight(path, chunk_bytes=chunk_bytes))
    assert {type(chunk.X) for chunk in chunks} == {type(whole.X)}
    if isinstance(whole.X, np.ndarray):
        np.testing.assert_array_equal(np.vstack([chunk.X for chunk in chunks]), whole.X)
    else:
        stacked = sparse.vstack([chunk.X for chunk in chunks]).tocsr()
        for part in ["indptr", "indices", "data"]:
            np.testing.assert_array_equal(getattr(stacked, part), getattr(whole.X, part))
    np.testing.assert_array_equal(np.concatenate([chunk.y for chunk in chunks]), whole.y)
    if whole.qid is None:
        assert all(chunk.qid is None for chunk in chunks)
    else:
        assert {chunk.qid.dtype.kind for chunk in chunks} == {whole.qid.dtype.kind}
        np.testing.assert_array_equal(np.concatenate([c.qid for c in chunks]), whole.qid)
    comments = [text for chunk in chunks for text in chunk.comments or [""] * chunk.n_items]
    assert comments == (whole.comments or [""] * whole.n_items)


@pytest.mark.parametrize("chunk_bytes", [1, 10, 10**6])
def test_scan_counts_what_the_whole_holds(tmp_path, chunk_bytes):
    path = tmp_path / "a.txt"
    path.write_text("1 qid:1 2:0 7:1\n# remark\n2 qid:b\n3 qid:2 1:4\n")
    assert scan_svmlight(path, chunk_bytes=chunk_bytes) == SvmlightScan(
        n_items=3, n_features=7, n_nonzeros=3, has_qid=True, integer_qid=False, zero_based=False
    )
    assert scan_svmlight(path, n_features=9, zero_based=True).n_features == 9


def test_scan_fixes_the_columns_of_every_chunk(tmp_path):
    path = tmp_path / "a.txt"
    path.write_text("1 1:1\n2 2:1\n3 0:1\n")
    scan = scan_svmlight(path, n_features=5)
    chunks = list(iter_svmlight(path, scan, chunk_bytes=1, dense=True))
    assert [chunk.X.tolist() for chunk in chunks] == [
        [[0.0, 1.0, 0.0, 0.0, 0.0]],
        [[0.0, 0.0, 1.0, 0.0, 0.0]],
        [[1.0, 0.0, 0.0, 0.0, 0.0]],
    ]


def test_memory_of_a_stream_does_not_grow_with_the_file(tmp_path):
    lines = [f"{i % 3} qid:{i // 10} 1:0.123456 2:{i} 3:1e-5 # item {i}\n" for i in range(4000)]

    def peak(text):
        path = tmp_path / "a.txt"
        path.write_text(text)
        tracemalloc.start()
        n_items = sum(chunk.n_items for chunk in iter_svmlight(path, chunk_bytes=1 << 14))
        peak = tracemalloc.get_traced_memory()[1]
        tracemalloc.stop()
        return n_items, peak

    short, long = "".join(lines), "".join(lines) * 8
    peak(short)  # loads the compiled code
    n_short, peak_short = peak(short)
    n_long, peak_long = peak(long)
    assert n_long == 8 * n_short
    assert peak_long < 1.5 * peak_short < len(long)
