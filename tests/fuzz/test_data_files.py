"""A damaged data file is refused with its name, or read as rows that fit together."""

import gzip

import numpy as np
import pytest

from fuzz.mutations import N_CASES, mutated_text, seeded_rng
from problems import problem
from rankwise import DataFileError, NothingToLearnError
from rankwise.io import (
    iter_svmlight,
    read_comparisons,
    read_pairs,
    read_scores,
    read_svmlight,
    read_table,
    write_svmlight,
    write_table,
)

P = problem(seed=0, sizes=(3, 2, 4))


def whole(data):
    """Ask that rows, scores and queries of what was read fit together."""
    n_items = data.X.shape[0]
    assert data.y is None or data.y.shape == (n_items,)
    assert data.qid is None or data.qid.shape == (n_items,)
    assert data.comments is None or len(data.comments) == n_items
    values = data.X if isinstance(data.X, np.ndarray) else data.X.data
    assert np.isfinite(values).all()
    assert data.y is None or np.isfinite(data.y).all()


def streamed(path):
    for part in iter_svmlight(path, dense=False, chunk_bytes=64):
        whole(part)


def pairs_fit(data):
    assert data.pairs.shape == (len(data.pairs), 2)
    assert data.pairs.size == 0 or data.pairs.min() >= 0
    assert data.items is None or data.pairs.max() < len(data.items)


def svmlight_text(path):
    write_svmlight(path, P.X, P.y, P.qid, comments=[f"item {i}" for i in range(len(P.y))])


def csv_text(path):
    columns = {"query": P.qid, "a": P.X[:, 0], "b, c": P.X[:, 1], "score": P.y}
    write_table(path, columns)


NAMES = ["Rome", "Oslo", "Bern, the city", "Ö"]


def pairs_text(path):
    rows = [(NAMES[i % 4], NAMES[(i + 1) % 4], i % 3 + 0.5) for i in range(8)]
    winner, loser, margin = zip(*rows, strict=True)
    write_table(
        path,
        {"winner": np.array(winner), "loser": np.array(loser), "margin": np.array(margin)},
    )


def scores_text(path):
    path.write_text("\n".join(map(str, P.y)))


READERS = {
    "svmlight": ("a.txt", svmlight_text, lambda path: whole(read_svmlight(path, n_features=60))),
    "svmlight, sparse": (
        "a.txt", svmlight_text, lambda path: whole(read_svmlight(path, dense=False))
    ),
    "svmlight, streamed": ("a.txt", svmlight_text, streamed),
    "csv": ("a.csv", csv_text, lambda path: whole(read_table(path))),
    "tsv": ("a.tsv", csv_text, lambda path: whole(read_table(path))),
    "parquet": ("a.parquet", csv_text, lambda path: whole(read_table(path))),
    "pairs": ("a.csv", pairs_text, lambda path: pairs_fit(read_pairs(path, margin="margin"))),
    "comparisons": ("a.csv", pairs_text, read_comparisons),
    "scores": ("a.txt", scores_text, read_scores),
}  # fmt: skip
CASES = N_CASES // len(READERS) or 300


@pytest.mark.parametrize("name", READERS)
def test_damaged_files_are_refused_or_read(name, tmp_path):
    file, write, read = READERS[name]
    path = tmp_path / file
    write(path)
    text = path.read_bytes()
    read(path)
    rng = seeded_rng()
    refused = 0
    for _ in range(CASES):
        path.write_bytes(mutated_text(text, rng))
        try:
            read(path)
        except NothingToLearnError:
            refused += 1
        except DataFileError as error:
            assert file in str(error)  # noqa: PT017
            assert len(str(error)) < 1000  # noqa: PT017
            refused += 1
    assert refused > CASES / 5


@pytest.mark.parametrize("name", ["svmlight", "csv"])
def test_damaged_compressed_files_are_refused(name, tmp_path):
    file, write, read = READERS[name]
    write(tmp_path / file)
    packed = gzip.compress((tmp_path / file).read_bytes())
    path = tmp_path / f"{file}.gz"
    rng = seeded_rng(1)
    for _ in range(200):
        at = rng.integers(len(packed))
        path.write_bytes(packed[:at] + bytes([rng.integers(256)]) + packed[at + 1 :])
        try:
            read(path)
        except DataFileError as error:
            assert path.name in str(error)  # noqa: PT017
    path.write_bytes(packed[: len(packed) // 2])
    with pytest.raises(DataFileError, match=path.name):
        read(path)
