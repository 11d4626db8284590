"""Reading and writing data files against scikit-learn and NumPy."""

import os
import tempfile
from pathlib import Path

import numpy as np
import pandas as pd
import polars
from scipy import sparse
from sklearn.datasets import dump_svmlight_file, load_svmlight_file

from benchmarks.harness import Row, faster, markdown
from rankwise.io import read_svmlight, read_table, write_svmlight, write_table

N_ITEMS, N_FEATURES = 50_000, 46  # about the size of MQ2007
PEERS = ["pandas", "polars"]
SKLEARN = "scikit-learn load_svmlight_file"


def letor_file(path: Path, digits: int) -> Path:
    """Write a file like those of LETOR; 17 digits make it one of doubles written in full."""
    rng = np.random.default_rng(0)
    X = rng.random((N_ITEMS, N_FEATURES))
    y = rng.integers(0, 3, N_ITEMS)
    comments = [f"docid = GX{i:03d}-00-{i:07d} inc = 1 prob = 0.5" for i in range(N_ITEMS)]
    write_svmlight(path, np.round(X, digits), y, np.arange(N_ITEMS) // 40, comments)
    return path


def sparse_file(path: Path) -> Path:
    rng = np.random.default_rng(0)
    X = sparse.random_array((20_000, 40_000), density=76 / 40_000, rng=rng, format="csr")
    X.data = np.round(X.data, 6)
    write_svmlight(path, X, rng.integers(0, 2, X.shape[0]))
    return path


def read_row(job: str, path: Path, *, query_id: bool = True) -> Row:
    size = f"{path.stat().st_size / 1e6:.0f} MB"
    return faster(
        f"read {job}, {size}",
        lambda: read_svmlight(path),
        SKLEARN,
        lambda: load_svmlight_file(str(path), query_id=query_id),
        3,
        repeats=3,
    )


def svmlight_rows(folder: Path) -> list[Row]:
    short = letor_file(folder / "short.txt", digits=6)
    full = letor_file(folder / "full.txt", digits=17)
    zipped = letor_file(folder / "short.txt.gz", digits=6)
    data = read_svmlight(full)
    size = f"{N_ITEMS:,} x {N_FEATURES}"
    write = faster(
        f"write {size}, every double exactly",
        lambda: write_svmlight(folder / "ours.txt", data.X, data.y, data.qid),
        "scikit-learn dump_svmlight_file, 16 digits",
        lambda: dump_svmlight_file(data.X, data.y, str(folder / "theirs.txt"), query_id=data.qid),
        0.5,
        repeats=3,
    )
    return [
        read_row(f"LETOR {size}, 6 digits, comments kept", short),
        read_row(f"LETOR {size}, 17 digits, comments kept", full),
        read_row(f"LETOR {size}, 6 digits, .gz", zipped),
        read_row("sparse 20,000 x 40,000", sparse_file(folder / "sparse.txt"), query_id=False),
        write,
    ]


def csv_rows(folder: Path) -> list[Row]:
    data = read_svmlight(folder / "full.txt")
    path = folder / "table.csv"
    write_table(path, {f"f{j}": column for j, column in enumerate(data.X.T)} | {"y": data.y})
    job = f"read CSV {N_ITEMS:,} x {N_FEATURES + 1}, 17 digits"
    peers = {
        "numpy.loadtxt": (2.0, lambda: np.loadtxt(path, delimiter=",", skiprows=1)),
        "pandas.read_csv": (1.0, lambda: pd.read_csv(path, float_precision="round_trip")),
        "polars.read_csv": (1.0, lambda: polars.read_csv(path)),
    }
    return [
        faster(job, lambda: read_table(path), name, theirs, bar, repeats=3)
        for name, (bar, theirs) in peers.items()
    ]


def real_rows() -> list[Row]:
    """Read MQ2007 where the RANKWISE_DATA folder holds it."""
    path = Path(os.environ.get("RANKWISE_DATA", ""), "MQ2007", "S1.txt.gz")
    return [read_row("MQ2007 S1, .gz", path)] if path.is_file() else []


def table() -> list[Row]:
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        return [
            *svmlight_rows(folder),
            *csv_rows(folder),
            *real_rows(),
        ]


if __name__ == "__main__":
    print(markdown("Files", table()))
