"""Compiled kernels, loaded at the first call.

Loading a model and predicting with it calls no kernel, and so needs neither numba nor a folder to
write to.
"""

import threading
from collections.abc import Callable, Iterator
from hashlib import sha256
from importlib import import_module
from types import CodeType, FunctionType
from typing import Any, ClassVar, cast, final

from rankwise.core.collector import paused_collector


@final
class UncompiledWork:
    """Count what is done without compiled code, until compiling that code would have paid."""

    is_allowed: ClassVar[bool] = True

    @classmethod
    def forbid(cls) -> None:
        """Compile even what small problems do not need, from now on in this process."""
        cls.is_allowed = False

    def __init__(self, limit: int) -> None:
        self.left = limit

    def is_small(self, n_keys: int) -> bool:
        """Return whether so many more keys are still too few to compile for, and count them."""
        self.left = max(0, self.left - n_keys - KEYS_PER_CALL)
        return self.is_allowed and self.left > 0


KEYS_PER_CALL = 2_000
"""What a call costs without compiled code, as a number of keys."""


_LOCK = threading.RLock()
_FINGERPRINTS: dict[Any, str] = {}
"""What a kernel that calls another depends on: its code, or its signature if it stays apart."""

GIVEN_FLOATS = 'Array(float64, 1, "C", True)'
GIVEN_INTEGERS = 'Array(int64, 1, "C", True)'
"""Types of arrays that a kernel only reads, for ``njit``: they may be frozen."""


MAKES_NO_ARRAYS: dict[str, Any] = {
    "cache": True,
    "nogil": True,
    "error_model": "numpy",
    "_nrt": False,
}
"""Options of a kernel that fills the arrays it is given: the quickest to compile."""

CALLED_BY_KERNELS: dict[str, Any] = {**MAKES_NO_ARRAYS, "no_cpython_wrapper": True}
"""Options of such a kernel that only kernels call."""


def njit(
    *,
    apart: str | None = None,
    is_optional: bool = False,
    is_scalar: bool = False,
    **options: Any,
) -> Callable[[Callable[..., Any]], "CompiledFunction"]:
    """Compile a function at its first call, with the options of numba's ``njit``.

    With ``cache=True`` compiled code is read from wherever it can be read (the folder that
    ``NUMBA_CACHE_DIR`` names, beside the source, the user's folder) and written where that is
    allowed. If nothing can be written, every process compiles it again, with one warning.

    Parameters
    ----------
    apart
        The types of result and arguments as numba writes them: ``"float64(int64, float64[::1])"``.
        The function is compiled once, by itself, and kernels that call it jump there. Any other
        is compiled again as a part of each kernel that calls it, and of those that call this one,
        which suits a few lines.
    is_optional
        Not every caller needs it: it is compiled when its ``address`` is asked for, which a call
        adds to the arguments.
    is_scalar
        Branches and short loops, for which vector units and unrolled loops are of no use: quicker
        to compile. Only for a kernel that makes no arrays.
    options
        Of numba's ``njit``.
    """
    return lambda function: CompiledFunction(
        cast(FunctionType, function), options, apart, is_optional, is_scalar
    )


@final
class CompiledFunction:
    """A function that is compiled when it is first called, together with those it calls."""

    def __init__(
        self,
        function: FunctionType,
        options: dict[str, Any],
        apart: str | None = None,
        is_optional: bool = False,
        is_scalar: bool = False,
    ) -> None:
        self.py_func = function
        self.options = dict(options)
        self.is_kept = self.options.pop("cache", False)
        self.apart, self.is_optional, self.is_scalar = apart, is_optional, is_scalar
        self._compiled: Any = None
        self._callee: Any = None
        self._address: int | None = None
        self.__doc__, self.__name__ = function.__doc__, function.__name__
        self.__wrapped__ = function

    def __call__(self, *arguments: Any) -> Any:
        """Call the compiled function."""
        if self._compiled is None:
            self.compiled()
        if self.apart is not None and self._address is None:
            self.address()
        return self._compiled(*arguments)

    def compiled(self) -> Any:
        """Return numba's function; the kernels it calls take their place in its module."""
        with _LOCK, paused_collector():
            if self._compiled is None:
                place, fingerprint = self.py_func.__globals__, sha256(_code(self.py_func.__code__))
                for name in _names(self.py_func.__code__):
                    if isinstance(place.get(name), CompiledFunction):
                        place[name] = place[name].callee()
                    if callable(place.get(name)):
                        fingerprint.update(_FINGERPRINTS.get(place[name], "").encode())
                caches = import_module("rankwise.core.caches")  # and with it numba
                self._compiled = self._callee = caches.compile_function(
                    self.py_func,
                    self.options,
                    fingerprint.hexdigest(),
                    is_kept=self.is_kept,
                    is_scalar=self.is_scalar,
                )
                if self.apart is not None:
                    self._callee = caches.jump_to(self._compiled, self.apart)
                _FINGERPRINTS[self._callee] = self.apart or fingerprint.hexdigest()
            return self._compiled

    def callee(self) -> Any:
        """Return what kernels call: numba's function, or one that jumps to it."""
        self.compiled()
        if self.apart is not None and not self.is_optional:
            self.address()
        return self._callee

    def address(self) -> int:
        """Return where the code of a function that stays apart is, compiled now if need be."""
        with _LOCK, paused_collector():
            if self._address is None:
                caches = import_module("rankwise.core.caches")
                self._address = int(caches.compile_apart(self.compiled(), self.apart))
            return self._address


def _code(code: CodeType) -> bytes:
    """Return what a function does, with the functions inside it."""
    inner = [_code(c) if isinstance(c, CodeType) else repr(c).encode() for c in code.co_consts]
    return b" ".join([code.co_code, repr(code.co_names).encode(), *inner])


def _names(code: CodeType) -> Iterator[str]:
    """Yield the global names that a function and those inside it use."""
    yield from code.co_names
    for constant in code.co_consts:
        if isinstance(constant, CodeType):
            yield from _names(constant)
