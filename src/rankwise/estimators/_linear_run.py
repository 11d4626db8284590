"""A run of conjugate gradients with all that goes on beside it."""

from rankwise.core.arrays import FloatArray
from rankwise.estimators._linear_checkpoint import Checkpoint
from rankwise.estimators._linear_hooks import progress_of, warn_unless_converged
from rankwise.estimators._linear_settings import Settings
from rankwise.inference.cg import Descent, Hooks, descend
from rankwise.inference.cg_operator import NormalOperator
from rankwise.inference.cg_state import Problem, Validation


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
