"""Progress bars on standard error, shown only when asked for."""

from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from typing import TypeAlias, TypeVar

from rich.console import Console
from rich.progress import BarColumn, Progress, TextColumn, TimeElapsedColumn, track

from rankwise.solve.iteration import Step

T = TypeVar("T")
StepCallback: TypeAlias = Callable[[Step], object]


def followed(items: Iterable[T], total: int, label: str, *, shown: bool) -> Iterator[T]:
    """Yield the items, with a bar on standard error if ``shown``."""
    yield from track(items, description=label, total=total, disable=not shown)


@contextmanager
def steps_shown(
    progress: bool | StepCallback,
    label: str = "fit",
    total: int | None = None,
    describe: Callable[[Step], str] = str,
) -> Iterator[StepCallback | None]:
    """Yield what to call after each step: nothing, the caller's function, or a bar on stderr.

    Parameters
    ----------
    progress
        Whether to show a bar; or what to call instead.
    label
        The description before the first step.
    total : int, optional
        Number of iterations at which the bar ends; without one it only tells the time.
    describe
        A step in words.
    """
    if callable(progress):
        yield progress
        return
    if not progress:
        yield None
        return
    columns = (TextColumn("{task.description}"), BarColumn(), TimeElapsedColumn())
    with Progress(*columns, console=Console(stderr=True)) as bar:
        task = bar.add_task(label, total=total)

        def show(step: Step) -> None:
            completed = None if total is None else step.iteration
            bar.update(task, description=describe(step), completed=completed)

        yield show
