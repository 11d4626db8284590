"""Jobs about small samples: leave-pair-out and permutation-test."""

import rankwise
from rankwise.apps.cli.commands import LeavePairOut, PermutationCommand
from rankwise.apps.cli.jobs.files import given_scores, read_data
from rankwise.apps.cli.jobs.parameters import values_of
from rankwise.apps.cli.output import print_json
from rankwise.core.errors import InvalidInputError
from rankwise.measures.registry import parse_measure


def leave_pair_out(command: LeavePairOut) -> None:
    """Print the value and its interval."""
    data = read_data(command.data, command.layout)
    if data.qid is not None:
        raise InvalidInputError(
            f"{command.data} must be one ranking of all items to leave pairs out: it has queries. "
            "Leave out whole queries with rankwise fit rls --alphas, or drop their column."
        )
    estimate = rankwise.leave_pair_out_auc(
        data.X,
        given_scores(command.data, data),
        confidence=command.level,
        **values_of(rankwise.leave_pair_out_auc, command.parameters),
    )
    if command.json:
        print_json(estimate.to_dict())
    else:
        print(f"AUC on unseen items: {estimate}")


def permutation_test(command: PermutationCommand) -> None:
    """Print the held-out value, its p-value and the values of shuffled scores."""
    measure = None if command.measure is None else parse_measure(command.measure)
    values = values_of(rankwise.permutation_test, command.parameters)
    data = read_data(command.data, command.layout)
    found = rankwise.permutation_test(
        data.X,
        given_scores(command.data, data),
        data.qid,
        measure=measure,
        **values,
    )
    if command.json:
        print_json(found.to_dict())
    else:
        print(found)
