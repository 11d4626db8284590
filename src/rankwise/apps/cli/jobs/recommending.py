"""Jobs about ratings of items by users: fit, recommend, and scores of users and items.

Public names are written ``rankwise.name``: they are loaded when first used, so that no command
waits for what another one needs.
"""

import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

import rankwise
from rankwise.apps.cli.commands import Predict, RankCommand, Recommend, ReportCommand
from rankwise.apps.cli.fit_commands import FitFactorization
from rankwise.apps.cli.jobs.files import check_target, refused
from rankwise.apps.cli.jobs.objects import DEFAULT_NUMBER, NamedObjects, best_items
from rankwise.apps.cli.jobs.parameters import is_watched, refuse_alone, refuse_if, values_of
from rankwise.apps.cli.output import counted, duration, print_json, print_table
from rankwise.core.errors import DataFileError, InvalidInputError
from rankwise.io.rankings import RankedItems
from rankwise.io.ratings import RatingTable
from rankwise.io.reading import files_of
from rankwise.io.tables.reading import write_table
from rankwise.rankers.conditional.conditional_ranker import ConditionalRanker
from rankwise.rankers.storage import load

# Fit


def fit_factorization(command: FitFactorization) -> None:
    """Fit, say what it is worth on ratings set aside, save, and write recommendations."""
    refuse_alone(command, ["top"], "recommend")
    check_target(command.output, *command.ratings)
    check_target(command.recommend, *command.ratings)
    given = {role: getattr(command, role) for role in ("user", "item", "rating", "count")}
    table = RatingTable.of_files(files_of(command.ratings), **given)
    values = values_of(rankwise.RankingFactorization, command.parameters)
    model = rankwise.RankingFactorization(**values, held_out=command.held_out)
    start = time.perf_counter()
    model.fit(table)
    seconds = time.perf_counter() - start
    model.set_params(progress=False)  # of this run, and not of the model
    model.save(command.output)
    if command.recommend is not None:
        write_table(command.recommend, _best(model, model.users_, command.top or DEFAULT_NUMBER))
    if command.json:
        _print_as_json(command, model, seconds)
    else:
        _print_fit(command, model, table, seconds)


def _print_as_json(
    command: FitFactorization, model: "rankwise.RankingFactorization", seconds: float
) -> None:
    n_users, n_items = model.ratings_.shape
    head = {"model": str(command.output), "ranker": type(model).__name__}
    sizes = {"n_users": n_users, "n_items": n_items, "n_ratings": int(model.ratings_.nnz)}
    ignored = {"n_ignored_users": model.n_ignored_users_, "C": model.C_}
    found = {"n_iter": model.n_iter_, "objective_value": float(model.objective_values_[-1])}
    value, honest = model.honest_value_, None
    if value is not None and value.n_queries:
        ends = {"low": value.low, "high": value.high, "n_users": value.n_queries}
        honest = {"measure": value.measure, "value": value.value, **ends}
    columns = {"columns": model.rating_columns_, "honest_value": honest}
    print_json({**head, **sizes, **ignored, **found, **columns, "seconds": seconds})


def _print_fit(
    command: FitFactorization,
    model: "rankwise.RankingFactorization",
    table: RatingTable,
    seconds: float,
) -> None:
    columns = dict(model.rating_columns_)
    time_of = columns.pop("time", None)
    found = ", ".join(f"{role}s from {name!r}" for role, name in columns.items())
    later = f"; of two ratings the later by {time_of!r} counts" if time_of else ""
    what = "choice" if model.is_implicit_ else "rating"
    if model.is_implicit_:
        later = "; no ratings: what was chosen ranks above what was not"
    print(f"Read {table.owner}: {found}{later}.")
    n_users, n_items = model.ratings_.shape
    sizes = [
        counted(model.ratings_.nnz, what, f"{what}s"),
        counted(n_users, "user", "users"),
        counted(n_items, "item", "items"),
    ]
    print(
        f"Trained RankingFactorization(C={model.C_:g}) on {', '.join(sizes)} in "
        f"{duration(seconds)}."
    )
    if model.n_ignored_users_:
        number = counted(model.n_ignored_users_, "user", "users")
        print(f"{number} showed no preference, and get what all users agree on.")
    if model.honest_value_ is not None:
        print(f"{model.honest_value_}.")
    print(f"Saved as {command.output}. Next: rankwise recommend {command.output} --user NAME")
    if command.recommend is not None:
        print(f"Wrote {command.recommend}.")


# Recommend


def recommend(command: Recommend) -> None:
    """Print or write the best items of some users, of new users, or the items like another."""
    refuse_if(
        command.similar_to is not None and (command.user or command.ratings) is not None,
        "Only one of --similar-to and --user or --ratings may be given: got both. Leave one out.",
    )
    given = (*(command.ratings or []), command.conditions, command.items)
    check_target(command.output, command.model, *given)
    model = load(command.model)
    number = command.top or DEFAULT_NUMBER
    if isinstance(model, ConditionalRanker):
        _show(command, _best_by_features(command, model, number))
        return
    refuse_if(
        (command.conditions or command.items) is not None,
        "--conditions and --items must come with a model of fit conditional: this one knows "
        "ratings, and no features. Leave them out; --ratings are of new users.",
    )
    model = load_factorization(command.model)
    if command.similar_to is not None:
        items = model.similar_items(command.similar_to, number)
        found = {"item": items, "rank": np.arange(1, len(items) + 1)}
    else:
        if command.ratings is not None:
            frame = _table_like(model, command.ratings)
            model = model.fold_in(frame)
        users = _asked_users(command, model)
        found = _best(model, users, number)
    _show(command, found)


def _best_by_features(
    command: Recommend, model: ConditionalRanker, number: int
) -> dict[str, NDArray[Any]]:
    """Return the best items of known or new objects, by their features."""
    refuse_if(
        (command.similar_to or command.ratings) is not None,
        "--similar-to and --ratings must come with a model of fit factorization: this one knows "
        "features. Use --conditions and --items.",
    )
    conditions, items = (
        NamedObjects.of_model(command.model, model, conditions=side) for side in (True, False)
    )
    if command.conditions is not None:
        conditions = conditions.others(command.conditions)
    if command.items is not None:
        items = items.others(command.items)
    chosen = None
    if command.user is not None:
        chosen = conditions.positions(np.array(list(dict.fromkeys(command.user))), Path("--user"))
    refuse_if(
        chosen is None and command.output is None and command.conditions is None,
        f"--user must name somebody, or -o a file for all: {command.model} knows "
        f"{len(conditions.names)} conditions, such as {conditions.names[0]!s}.",
    )
    return best_items(model, conditions, items, number, chosen)


def _asked_users(command: Recommend, model: "rankwise.RankingFactorization") -> Any:
    if command.user is not None:
        return list(dict.fromkeys(command.user))
    everyone = np.arange(len(model.user_factors_)) if model.users_ is None else model.users_
    refuse_if(
        command.output is None and command.ratings is None,
        f"--user must name somebody, or -o a file for all users: {command.model} knows "
        f"{len(everyone)} users, such as {everyone[0]!s}.",
    )
    return everyone


def _show(command: Recommend, found: dict[str, NDArray[Any]]) -> None:
    if command.output is not None:
        write_table(command.output, found)
        print(f"{counted(len(found['item']), 'item', 'items')} written to {command.output}.")
    elif command.json:
        print_json({name: values.tolist() for name, values in found.items()})
    else:
        rows = zip(*(values.tolist() for values in found.values()), strict=True)
        shown = [[f"{v:.4g}" if isinstance(v, float) else str(v) for v in row] for row in rows]
        print_table(list(found), shown)


def _best(
    model: "rankwise.RankingFactorization", users: Any, number: int
) -> dict[str, NDArray[Any]]:
    """Return the best items of users with their ranks and scores."""
    chosen = [model.recommend(user, number) for user in users]
    sizes = [len(one) for one in chosen]
    names, items = np.repeat(np.asarray(users), sizes), np.concatenate(chosen)
    ranks = np.concatenate([np.arange(1, size + 1) for size in sizes])
    return {"user": names, "item": items, "rank": ranks, "score": model.predict(names, items)}


# Scores


def load_factorization(path: Path) -> "rankwise.RankingFactorization":
    """Load a model of users and items; refuse others."""
    model = load(path)
    if not isinstance(model, rankwise.RankingFactorization):
        raise InvalidInputError(
            f"{path} must hold a model of fit factorization or fit conditional: it holds a "
            f"{type(model).__name__}. Use rankwise rank, which goes by the features of items."
        )
    return model


def _table_like(model: "rankwise.RankingFactorization", paths: Sequence[Path]) -> RatingTable:
    """Read ratings from the columns that the model was fitted with."""
    roles = ("user", "item", "count" if model.is_implicit_ else "rating")
    columns = model.rating_columns_
    table = RatingTable.of_files(files_of(paths), **{role: columns.get(role) for role in roles})
    return table.as_choices() if model.is_implicit_ else table


def scored(model: Any, command: Predict | RankCommand) -> RankedItems:
    """Score users and items of files: the users are queries."""
    if not isinstance(model, rankwise.RankingFactorization):
        raise refused(command.model, model)
    columns = model.rating_columns_
    user, item = command.qid or columns.get("user"), command.item or columns.get("item")
    table = RatingTable.of_files(files_of(command.data), user=user, item=item)
    return RankedItems.of(model.predict(table), table.users, table.items)


def report_of_ratings(
    models: Mapping[str, Any], first: "rankwise.RankingFactorization", command: ReportCommand
) -> "rankwise.Report":
    """Make a page about models of users and items, judged on the ratings of files."""
    columns, files = first.rating_columns_, files_of(command.data)
    table = RatingTable.of_files(
        files,
        user=command.qid or columns.get("user"),
        item=command.item or columns.get("item"),
        rating=command.y or columns.get("rating"),
    )
    if table.values is None:
        raise DataFileError(
            f"{table.owner}: expected a column of ratings to judge by, got none. Name it with --y."
        )
    return rankwise.make_report(
        dict(models),
        np.column_stack([table.users.astype(str), table.items.astype(str)]),
        table.values,
        table.users,
        measures=command.measure,
        item_names=table.items.astype(str).tolist(),
        progress=is_watched(),
    )
