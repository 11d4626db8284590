"""Fit RankingFactorization to a table of ratings, and recommend."""

import sys
import time
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import coo_array

from rankwise.cli.fit_commands import FitFactorization
from rankwise.cli.jobs.files import check_target
from rankwise.cli.jobs.fits.training import refuse_if
from rankwise.cli.output import counted, duration, print_json
from rankwise.core.errors import DataFileError
from rankwise.io.tables.reading import open_table, require_column, write_table
from rankwise.rankers.dorm.factorization.ranking_factorization import RankingFactorization

DEFAULT_NUMBER = 10


def run(command: FitFactorization) -> None:
    """Fit, save, report, and write recommendations where asked."""
    refuse_if(
        command.n is not None and command.recommend is None,
        "--n must come with --recommend: got it alone. Add --recommend, or leave it out.",
    )
    check_target(command.output, command.ratings)
    check_target(command.recommend, command.ratings)
    ratings, users, items = _read(command)
    model = RankingFactorization(
        command.n_components,
        objective=command.objective,
        C="scale" if command.c is None else command.c,
        max_iter=command.max_iter,
        progress=sys.stderr.isatty(),
        random_state=command.random_state,
    )
    start = time.perf_counter()
    model.fit(ratings)
    seconds = time.perf_counter() - start
    model.set_params(progress=False)  # of this run, and not of the model
    model.save(command.output)
    if command.recommend is not None:
        number = command.n or DEFAULT_NUMBER
        write_table(command.recommend, _recommended(model, users, items, number))
    _report(command, model, ratings, seconds)


def _read(command: FitFactorization) -> tuple[Any, NDArray[Any], NDArray[Any]]:
    """Return the ratings as a sparse matrix, and the users and items of its rows and columns."""
    path = command.ratings
    table = open_table(path)
    user, item, rating = (
        require_column(path, table, getattr(command, option), option)
        for option in ("user", "item", "rating")
    )
    (values,), (given_users, given_items) = table.read([[rating]], [user, item])
    users, rows = np.unique(given_users, return_inverse=True)
    items, columns = np.unique(given_items, return_inverse=True)
    _, first, count = np.unique(rows * len(items) + columns, return_index=True, return_counts=True)
    if (count > 1).any():
        row = first[int(np.argmax(count > 1))]
        raise DataFileError(
            f"{path}: expected one rating of an item by a user, got several by "
            f"{given_users[row]!s} of {given_items[row]!s}. Keep one of them."
        )
    shape = (len(users), len(items))
    return coo_array((values[:, 0], (rows, columns)), shape=shape).tocsr(), users, items


def _recommended(
    model: RankingFactorization, users: NDArray[Any], items: NDArray[Any], number: int
) -> dict[str, NDArray[Any]]:
    """Return the best items of every user, with their scores."""
    chosen = [model.recommend(row, number) for row in range(len(users))]
    rows = np.repeat(np.arange(len(users)), [len(one) for one in chosen])
    columns = np.concatenate(chosen)
    ranks = np.concatenate([np.arange(1, len(one) + 1) for one in chosen])
    scores = model.predict(rows, columns)
    return {"user": users[rows], "item": items[columns], "rank": ranks, "score": scores}


def _report(
    command: FitFactorization, model: RankingFactorization, ratings: Any, seconds: float
) -> None:
    n_users, n_items = ratings.shape
    if command.json:
        sizes = {"n_users": n_users, "n_items": n_items, "n_ratings": int(ratings.nnz)}
        ignored = {"n_ignored_users": model.n_ignored_users_, "C": model.C_}
        found = {"n_iter": model.n_iter_, "objective_value": float(model.objective_values_[-1])}
        head = {"model": str(command.output), "ranker": type(model).__name__}
        print_json({**head, **sizes, **ignored, **found, "seconds": seconds})
        return
    learned_from = ", ".join(
        [
            counted(ratings.nnz, "rating", "ratings"),
            counted(n_users, "user", "users"),
            counted(n_items, "item", "items"),
        ]
    )
    print(f"Trained RankingFactorization(C={model.C_:g}) on {learned_from} in {duration(seconds)}.")
    if model.n_ignored_users_:
        print(f"{counted(model.n_ignored_users_, 'user', 'users')} showed no preference.")
    print(f"Saved as {command.output}; users and items are its rows and columns in sorted order.")
    if command.recommend is not None:
        print(f"Wrote {command.recommend}.")
