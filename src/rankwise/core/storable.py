"""The values that a model file may hold: each class registers itself."""

from typing import Any, TypeVar

T = TypeVar("T", bound=type)

STORABLE: dict[str, type[Any]] = {}
"""The frozen values a model file may hold, by the names of their classes."""


def storable(cls: T) -> T:
    """Let model files hold values of this frozen dataclass; its fields are stored one by one."""
    known = STORABLE.setdefault(cls.__name__, cls)
    if (known.__module__, known.__qualname__) != (cls.__module__, cls.__qualname__):
        raise TypeError(f"Two storable classes are called {cls.__name__}: rename one of them.")
    STORABLE[cls.__name__] = cls
    return cls
