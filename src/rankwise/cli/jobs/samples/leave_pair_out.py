"""Estimate the AUC on unseen items."""

from rankwise.cli.commands import LeavePairOut
from rankwise.cli.jobs.files import given_scores, read_items
from rankwise.cli.jobs.fits.training import kernel_of
from rankwise.cli.output import print_json
from rankwise.core.errors import InvalidInputError
from rankwise.rankers.rls.small_samples import leave_pair_out_auc


def run(command: LeavePairOut) -> None:
    """Print the value and its interval."""
    data = read_items(command.data, command.layout)
    if data.qid is not None:
        raise InvalidInputError(
            f"{command.data} must be one ranking of all items to leave out pairs: it has queries. "
            "Leave out whole queries with rankwise fit rls --alphas, or drop their column."
        )
    estimate = leave_pair_out_auc(
        data.X,
        given_scores(command.data, data),
        alpha=command.alpha,
        kernel=kernel_of(command),
        confidence=command.confidence,
    )
    if command.json:
        print_json(estimate.to_dict())
    else:
        print(f"AUC on unseen items: {estimate}")
