"""Jobs about small samples: leave-pair-out and permutation-test."""

from dataclasses import replace
from typing import Any

import numpy as np

import rankwise
from rankwise.apps.cli.commands import LeavePairOut, PermutationCommand, SmallSampleCommand
from rankwise.apps.cli.jobs.files import (
    AS_NUMBERS,
    given_scores,
    named,
    print_columns,
    read_data,
    read_words,
)
from rankwise.apps.cli.jobs.parameters import is_watched, values_of
from rankwise.apps.cli.output import print_json
from rankwise.core.errors import InvalidInputError
from rankwise.io.data import RankingData
from rankwise.measures.registry import parse_measure


def leave_pair_out(command: LeavePairOut) -> None:
    """Print the value and its interval."""
    values = values_of(rankwise.RankRLS, command.parameters)
    data, y = _read(command, one_ranking=True)
    estimate = _leave_pairs_out(command, data, y, values, confidence=command.level)
    if command.json:
        print_json(_as_dict(estimate))
    else:
        print(f"AUC on unseen items: {estimate}")


def permutation_test(command: PermutationCommand) -> None:
    """Print the held-out value, its p-value and the values of shuffled scores."""
    measure = None if command.measure is None else parse_measure(command.measure)
    values = values_of(rankwise.permutation_test, command.parameters)
    if command.group is not None and (measure is not None or "alphas" in values):
        raise InvalidInputError(
            "--group must come without --measure and --alphas: groups are left out in pairs, "
            "by a ranker with the default alpha. Leave them out."
        )
    data, y = _read(command, one_ranking=command.group is not None)
    if command.group is None:
        found: Any = rankwise.permutation_test(data.X, y, data.qid, measure=measure, **values)
    else:
        found = _leave_pairs_out(
            command, data, y, values, n_permutations=values.get("n_permutations", 999)
        )
    if command.json:
        print_json(_as_dict(found))
    else:
        print(found)


def _read(command: SmallSampleCommand, *, one_ranking: bool) -> tuple[RankingData, Any]:
    data = read_data(command.data, command.layout, categories="auto")
    if one_ranking and data.qid is not None:
        raise InvalidInputError(
            f"{named(command.data)} must be one ranking of all items to leave pairs out: it has "
            "queries. Leave out whole queries with rankwise fit rls --alphas, or drop their column."
        )
    y = given_scores(command.data, data)
    if not command.json:
        print_columns(command.data, command.layout, data)
    X = data.X
    if isinstance(X, np.ndarray) and (X.dtype == object or np.isnan(X).any()):
        # without a look at scores, so that what is left out stays unseen
        data = replace(data, X=rankwise.IndicatorEncoder().fit_transform(X))
        if not command.json:
            print(AS_NUMBERS)
    return data, y


def _leave_pairs_out(
    command: SmallSampleCommand, data: RankingData, y: Any, values: dict[str, Any], **options: Any
) -> rankwise.PairEstimate:
    """Leave out two items, or all items of two groups, at a time."""
    known = {name: values[name] for name in ("alpha", "kernel", "ties", "device") if name in values}
    group = command.group
    return rankwise.leave_pair_out(
        rankwise.RankRLS(**{"ties": "keep", **known}),
        data.X,
        y,
        None if group is None else read_words(command.data, group, "group"),
        progress=is_watched(),
        random_state=values.get("random_state", 0),
        **options,
    )


def _as_dict(found: Any) -> dict[str, Any]:
    """Return what was found for JSON; of an estimate, its numbers that are known."""
    if not isinstance(found, rankwise.PairEstimate):
        return dict(found.to_dict())
    numbers = {name: value for name, value in vars(found).items() if np.isscalar(value)}
    return {name: value for name, value in numbers.items() if not np.isnan(value)}
