"""Compiled kernels: numba is loaded at the first call, and what it compiles is kept if possible.

Loading a model and predicting with it calls no kernel, and so needs neither numba nor a folder to
write to.
"""

import threading
from collections.abc import Callable, Iterator
from importlib import import_module
from types import CodeType, FunctionType
from typing import Any, cast, final

_LOCK = threading.RLock()


def njit(**options: Any) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    """Compile a function at its first call, with the options of numba's ``njit``.

    With ``cache=True`` compiled code is read from wherever it can be read (the folder that
    ``NUMBA_CACHE_DIR`` names, beside the source, the user's folder) and written where that is
    allowed. Where nothing can be written it is compiled anew by every process, and said so once.
    """
    return lambda function: CompiledFunction(cast(FunctionType, function), options)


@final
class CompiledFunction:
    """A function that is compiled when it is first called, together with those it calls."""

    def __init__(self, function: FunctionType, options: dict[str, Any]) -> None:
        self.py_func = function
        self.options = dict(options)
        self.is_kept = self.options.pop("cache", False)
        self._compiled: Any = None
        self.__doc__, self.__name__ = function.__doc__, function.__name__
        self.__wrapped__ = function

    def __call__(self, *arguments: Any) -> Any:
        """Call the compiled function."""
        if self._compiled is None:
            self.compiled()
        return self._compiled(*arguments)

    def compiled(self) -> Any:
        """Return numba's function; the kernels it calls take their place in its module."""
        with _LOCK:
            if self._compiled is None:
                place = self.py_func.__globals__
                for name in _names(self.py_func.__code__):
                    if isinstance(place.get(name), CompiledFunction):
                        place[name] = place[name].compiled()
                caches = import_module("rankwise.core.caches")  # and with it numba
                self._compiled = caches.compile_function(
                    self.py_func, self.options, is_kept=self.is_kept
                )
            return self._compiled


def _names(code: CodeType) -> Iterator[str]:
    """Yield the global names that a function and those inside it use."""
    yield from code.co_names
    for constant in code.co_consts:
        if isinstance(constant, CodeType):
            yield from _names(constant)
