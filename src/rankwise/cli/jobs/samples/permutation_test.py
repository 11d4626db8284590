"""Test whether there is anything to learn."""

from rankwise.cli.commands import PermutationCommand
from rankwise.cli.jobs.files import given_scores, read_items
from rankwise.cli.jobs.fits.training import kernel_of, parse_grid
from rankwise.cli.output import print_json
from rankwise.measures.registry import parse_measure
from rankwise.rankers.rls.small_samples import permutation_test


def run(command: PermutationCommand) -> None:
    """Print the held-out value, its p-value and what shuffled scores give."""
    measure = None if command.measure is None else parse_measure(command.measure)
    alphas = parse_grid(command.alphas, "--alphas")
    data = read_items(command.data, command.layout)
    found = permutation_test(
        data.X,
        given_scores(command.data, data),
        data.qid,
        alphas=alphas,
        kernel=kernel_of(command),
        measure=measure,
        n_permutations=command.n_permutations,
        random_state=command.random_state,
    )
    if command.json:
        print_json(found.to_dict())
    else:
        print(found)
