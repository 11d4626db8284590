"""Files from which an unfinished fit goes on."""

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
from rankwise.inference.cg import Rule
from rankwise.inference.cg_state import Problem
from rankwise.io.modelfile import read_model, write_model

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
