"""A run of conjugate gradients with all that goes on beside it."""

import os
from collections.abc import Mapping
from dataclasses import dataclass
from os import PathLike
from pathlib import Path
from typing import Any, Self, final

import numpy as np
from numpy.typing import NDArray

from rankwise.core.arrays import FloatArray
from rankwise.core.errors import ModelFileError
from rankwise.io.model_file import read_model, write_model
from rankwise.rankers.linear.settings import Settings, progress_of, warn_unless_converged
from rankwise.solve.conjugate_gradients import Descent, Hooks, Problem, Rule, Validation, descend
from rankwise.solve.operators import NormalOperator

AGREEMENT = 1e-9
"""Share of the largest entry by which equal equations may differ, summed in another order."""


@final
@dataclass(frozen=True, eq=False)
class Checkpoint:
    """The file of a run, and what a run must have in common with it to go on from there.

    Parameters
    ----------
    path : path
        The file.
    identity : dict
        Settings that must be the same. The tolerance and the number of iterations may change.
    equations : dict of arrays
        Equations that must be the same up to rounding errors.
    """

    path: str | PathLike[str]
    identity: dict[str, Any]
    equations: dict[str, FloatArray]

    @classmethod
    def of(cls, path: str | PathLike[str], problem: Problem, rule: Rule, measure: str) -> Self:
        """Describe a run."""
        validation = problem.validation
        identity = {
            "kind": "LinearRankRLS checkpoint",
            "alphas": problem.alphas.tolist(),
            "patience": rule.patience,
            "measure": None if validation is None else measure,
            "n_validated": 0 if validation is None else validation.rows.n_items,
        }
        equations = {
            "equations/rhs": problem.rhs,
            "equations/scale": problem.scale,
            "equations/start": problem.start,
        }
        return cls(path, identity, equations)

    def write(self, state: Mapping[str, NDArray[Any]]) -> None:
        """Write the state of the run, all or nothing."""
        write_model(self.path, self.identity, {**state, **self.equations})

    def read(self) -> Mapping[str, NDArray[Any]] | None:
        """Return the state in the file, None where there is no file yet."""
        if not Path(self.path).exists():
            return None
        identity, arrays = read_model(self.path)
        if identity != self.identity or not self._agrees(arrays):
            raise ModelFileError(
                f"{os.fspath(self.path)}: expected a checkpoint of the same data and parameters, "
                "got one of others. Remove the file to start anew, or give another path."
            )
        return arrays

    def _agrees(self, arrays: Mapping[str, NDArray[Any]]) -> bool:
        return all(
            len(arrays[name]) == len(own)
            and np.abs(arrays[name] - own).max() <= AGREEMENT * np.abs(own).max()
            for name, own in self.equations.items()
        )


def run(
    operator: NormalOperator,
    settings: Settings,
    validation: Validation | None,
    start: FloatArray | None,
) -> Descent:
    """Solve for every alpha; show progress, write and read the checkpoint, warn where it ended.

    Parameters
    ----------
    operator : NormalOperator
        The equations.
    settings : Settings
        What to solve for and when to stop.
    validation : Validation, optional
        Rates every iterate.
    start : (n_features,), optional
        The weights from which to start.
    """
    problem = Problem.of(
        operator,
        settings.alphas,
        start=start,
        validation=validation,
        precondition=settings.precondition and operator.is_determined(),
    )
    file, rule = _checkpoint(problem, settings), settings.rule
    lower = validation is not None and not validation.greater_is_better
    with progress_of(settings.progress, rule, lower) as on_step:
        hooks = Hooks(on_step, None if file is None else file.write)
        descent = descend(problem, rule, hooks, None if file is None else file.read())
    warn_unless_converged(descent, rule)
    return descent


def _checkpoint(problem: Problem, settings: Settings) -> Checkpoint | None:
    if settings.checkpoint is None:
        return None
    return Checkpoint.of(settings.checkpoint, problem, settings.rule, repr(settings.measure))
