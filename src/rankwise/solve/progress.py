"""Progress bars on standard error, shown only when asked for."""

from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any, TypeVar

from rich.console import Console
from rich.progress import BarColumn, Progress, TextColumn, TimeElapsedColumn, track

T = TypeVar("T")
Step = TypeVar("Step")


def followed(items: Iterable[T], total: int, label: str, *, shown: bool) -> Iterator[T]:
    """Yield the items, with a bar on standard error if ``shown``."""
    yield from track(items, description=label, total=total, disable=not shown)


@contextmanager
def steps_shown(
    progress: bool | Callable[[Step], object],
    update: Callable[[Step], Mapping[str, Any]],
    label: str = "fit",
    total: int | None = None,
) -> Iterator[Callable[[Step], object] | None]:
    """Yield what to call after each step: nothing, the caller's function, or a bar on stderr.

    Parameters
    ----------
    progress
        Whether to show a bar; or what to call instead.
    update
        What a step changes in the bar: its ``description``, and how far it has come.
    label
        The description before the first step.
    total : int, optional
        Where the bar ends.
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
        yield lambda step: bar.update(task, **update(step))
