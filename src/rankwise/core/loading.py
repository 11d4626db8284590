"""Load modules of the package, and nothing that none of them calls.

scikit-learn loads ``scipy.stats`` and pandas, and pandas loads pyarrow, for a function each that
rankers never call. That was half of the time to load a model and predict with it. Here something
else stands in for them until one of their names is asked for.
"""

import sys
import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, nullcontext
from importlib import import_module
from importlib.machinery import ModuleSpec, PathFinder
from types import ModuleType
from typing import Any, cast, final

from rankwise.core.collector import paused_collector

DEFERRED = frozenset(["scipy.stats", "pandas"])
"""Modules that scikit-learn loads for a function each."""

_LOCK = threading.Lock()


def load_module(name: str) -> ModuleType:
    """Import a module of the package, and with it most of what it needs, quickly.

    Other threads, as notebooks have them, may import pandas meanwhile: then nothing stands in.
    """
    is_alone = threading.active_count() == 1
    with paused_collector(all_stays=True), stand_ins() if is_alone else nullcontext():
        return import_module(name)


@final
class StandIn(ModuleType):
    """Stand in for a module until one of its names is asked for; then the module is loaded."""

    def __init__(self, spec: ModuleSpec) -> None:
        super().__init__(spec.name)
        # what Python asks a new module for
        self.__path__ = spec.submodule_search_locations or []
        self.__file__, self.__cached__ = spec.origin, spec.cached

    def __getattr__(self, name: str) -> Any:
        self.leave()
        return getattr(import_module(self.__name__), name)

    def leave(self) -> None:
        """Let the next import load the module."""
        package, _, last = self.__name__.rpartition(".")
        with _LOCK:
            if sys.modules.get(self.__name__) is self:
                del sys.modules[self.__name__]
            if package and vars(sys.modules[package]).get(last) is self:
                delattr(sys.modules[package], last)


@final
class StandInFinder:
    """Find deferred modules for one thread, and make what stands in for them.

    A finder and a loader as ``importlib`` wants them; its own abstract ones are slow to import.
    """

    def __init__(self, deferred: frozenset[str]) -> None:
        self.deferred = deferred
        self.thread = threading.get_ident()
        self.made: dict[str, StandIn] = {}

    def find_spec(
        self, name: str, path: Sequence[str] | None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        """Return how to make a stand-in; None for other modules, and when it was asked for more."""
        if name not in self.deferred or name in self.made or threading.get_ident() != self.thread:
            return None
        spec = PathFinder.find_spec(name, path, target)
        if spec is not None:
            spec.loader = cast(Any, self)
        return spec

    def create_module(self, spec: ModuleSpec) -> StandIn:
        """Return what stands in for a module."""
        self.made[spec.name] = StandIn(spec)
        return self.made[spec.name]

    def exec_module(self, module: ModuleType) -> None:
        """Run nothing."""


@contextmanager
def stand_ins(deferred: frozenset[str] = DEFERRED) -> Iterator[None]:
    """Load deferred modules meanwhile only if one of their names is asked for.

    An import that comes later loads them as ever. With scikit-learn loaded already there is nothing
    to gain.
    """
    if "sklearn" in sys.modules:
        yield
        return
    finder = StandInFinder(deferred)
    sys.meta_path.insert(0, cast(Any, finder))
    try:
        yield
    finally:
        sys.meta_path.remove(cast(Any, finder))
        for one in finder.made.values():
            one.leave()
