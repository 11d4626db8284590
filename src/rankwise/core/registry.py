"""What the package offers by name: its root enters the names, so that no layer imports upwards."""

from collections.abc import Callable, Collection
from typing import Any

_OFFERED: dict[str, Callable[[str], Any]] = {}


def offer(names: Collection[str], load: Callable[[str], Any]) -> None:
    """Enter public names; ``load`` returns what a name stands for, and is called at first use."""
    _OFFERED.update(dict.fromkeys(names, load))


def offered(name: Any) -> Any:
    """Return what a public name stands for; None if there is no such name."""
    load = _OFFERED.get(name) if isinstance(name, str) else None
    return None if load is None else load(name)
