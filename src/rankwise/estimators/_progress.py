"""A progress bar for long searches, shown only when asked for."""

from collections.abc import Iterable, Iterator
from typing import TypeVar

from rich.progress import track

T = TypeVar("T")


def followed(items: Iterable[T], total: int, label: str, *, shown: bool) -> Iterator[T]:
    """Yield the items, with a bar on standard error if ``shown``."""
    yield from track(items, description=label, total=total, disable=not shown)
