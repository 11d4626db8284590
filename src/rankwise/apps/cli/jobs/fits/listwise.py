"""Fits that train for a measure of whole rankings: DORM and RankingFactorization.

Public names are written ``rankwise.name``: they are loaded when first used, so that no command
waits for what another one needs.
"""

import time
from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import coo_array

import rankwise
from rankwise.apps.cli.fit_commands import FitDORM, FitFactorization
from rankwise.apps.cli.jobs.files import check_target, read_words
from rankwise.apps.cli.jobs.fits.training import (
    FitInput,
    fit_and_save,
    fit_or_choose,
    measure_of,
)
from rankwise.apps.cli.jobs.parameters import refuse_alone, refuse_idle, values_of
from rankwise.apps.cli.output import counted, duration, print_json
from rankwise.core.errors import DataFileError
from rankwise.io.tables.reading import open_table, require_column, write_table
from rankwise.rankers.dorm.losses import default_measure

DEFAULT_NUMBER = 10


# DORM


def fit_dorm(command: FitDORM) -> None:
    """Fit, save and report."""
    texts, classes = command.parameters, (rankwise.DORM, rankwise.DORMCV)
    refuse_idle(command, *classes, "Cs")
    values = values_of(classes["Cs" in texts], texts)
    objective = values.get("objective", rankwise.DORM().objective)
    measure = measure_of(command, chooses="Cs" in texts) or default_measure(objective)
    refuse_alone(command, ["n_diverse"], "sources")
    learned, judged = _sources(command)
    read = FitInput.read(command)
    problem = replace(
        read, preferences=read.preferences | learned, validation=read.validation | judged
    )
    fit_and_save(
        command, problem, lambda: fit_or_choose(command, problem, *classes, "Cs", "C", measure)
    )


def _sources(command: FitDORM) -> tuple[dict[str, Any], dict[str, Any]]:
    """Return the sources of the items, and of those that choose C, as arguments of ``fit``."""
    if command.sources is None:
        return {}, {}
    learned = {"sources": read_words(command.train, command.sources, "sources")}
    if command.validate is None or "Cs" not in command.parameters:
        return learned, {}
    return learned, {"sources_val": read_words([command.validate], command.sources, "sources")}


# RankingFactorization


def fit_factorization(command: FitFactorization) -> None:
    """Fit, save, report, and write recommendations if requested."""
    refuse_alone(command, ["top"], "recommend")
    check_target(command.output, command.ratings)
    check_target(command.recommend, command.ratings)
    ratings, users, items = _read_ratings(command)
    values = values_of(rankwise.RankingFactorization, command.parameters)
    model = rankwise.RankingFactorization(**values)
    start = time.perf_counter()
    model.fit(ratings)
    seconds = time.perf_counter() - start
    model.set_params(progress=False)  # of this run, and not of the model
    model.save(command.output)
    if command.recommend is not None:
        number = command.top or DEFAULT_NUMBER
        write_table(command.recommend, _recommended(model, users, items, number))
    _print_factorization(command, model, ratings, seconds)


def _read_ratings(command: FitFactorization) -> tuple[Any, NDArray[Any], NDArray[Any]]:
    """Return the ratings as a sparse matrix, and the users and items it refers to."""
    path = command.ratings
    table = open_table(path)
    user, item, rating = (
        require_column(path, table, getattr(command, option), option)
        for option in ("user", "item", "rating")
    )
    (values,), (given_users, given_items) = table.read([[rating]], [user, item])
    # number users and items in sorted order
    users, rows = np.unique(given_users, return_inverse=True)
    items, columns = np.unique(given_items, return_inverse=True)
    _, first, count = np.unique(rows * len(items) + columns, return_index=True, return_counts=True)
    if (count > 1).any():
        row = first[int(np.argmax(count > 1))]
        raise DataFileError(
            f"{path}: expected one rating for each user and item, got several by "
            f"{given_users[row]!s} of {given_items[row]!s}. Keep one of them."
        )
    shape = (len(users), len(items))
    return coo_array((values[:, 0], (rows, columns)), shape=shape).tocsr(), users, items


def _recommended(
    model: "rankwise.RankingFactorization", users: NDArray[Any], items: NDArray[Any], number: int
) -> dict[str, NDArray[Any]]:
    """Return the best items of every user, with their scores."""
    chosen = [model.recommend(row, number) for row in range(len(users))]
    rows = np.repeat(np.arange(len(users)), [len(one) for one in chosen])
    columns = np.concatenate(chosen)
    ranks = np.concatenate([np.arange(1, len(one) + 1) for one in chosen])
    scores = model.predict(rows, columns)
    return {"user": users[rows], "item": items[columns], "rank": ranks, "score": scores}


def _print_factorization(
    command: FitFactorization, model: "rankwise.RankingFactorization", ratings: Any, seconds: float
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
