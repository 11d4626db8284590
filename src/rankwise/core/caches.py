"""Where numba keeps compiled code: folders to read, and one to write if there is any.

Imports numba, and is itself imported when the first kernel is called.
"""

import functools
import os
import signal
import sys
import threading
import time
import warnings
from abc import ABC
from collections.abc import Iterator
from contextlib import suppress
from types import FrameType, FunctionType
from typing import Any, ClassVar, final

import llvmlite.binding as llvm
import numba
from numba.core import caching, cgutils, config, event, sigutils
from numba.core.codegen import JITCodeLibrary
from numba.core.compiler import CompilerBase, PassManager
from numba.core.compiler_machinery import register_pass
from numba.core.typed_passes import (
    IRLegalization,
    NativeLowering,
    NoPythonBackend,
    NopythonTypeInference,
    PreLowerStripPhis,
)
from numba.core.types.functions import BaseFunction
from numba.core.types.misc import unliteral
from numba.core.typing.templates import ConcreteTemplate, infer_global
from numba.core.untyped_passes import (
    FixupArgs,
    GenericRewrites,
    InlineInlinables,
    IRProcessing,
    ReconstructSSA,
    TranslateByteCode,
)
from numba.extending import lower_builtin

from rankwise.core.collector import PAUSES, paused_collector

_LOCK = threading.Lock()
_HAS_WARNED = threading.Event()
_WATCHED = threading.Event()

_SCALAR: set[FunctionType] = set()
"""Kernels of branches and short loops, which vector units would not make faster."""


def compile_function(
    function: FunctionType,
    options: dict[str, Any],
    fingerprint: str,
    *,
    is_kept: bool,
    is_scalar: bool,
) -> Any:
    """Return numba's function, with a cache if wanted, whose entries belong to a fingerprint."""
    if is_scalar:
        _SCALAR.add(function)
    plain = {} if options.get("_nrt", True) else {"pipeline_class": PlainCompiler}
    compiled = numba.njit(**options, **plain, no_cfunc_wrapper=True)(function)
    _compile_constants_as_values(compiled)
    _watch_once()
    if not is_kept:
        return compiled
    readable = [cache for cache in _read_only_caches(function) if cache is not None]
    try:
        written: Any = WrittenCache(function)
        written.fingerprint = fingerprint
    except RuntimeError:  # no folder that may be written
        written = None
        if not readable:
            _say_once()
    for cache in readable:
        cache.fingerprint = fingerprint
    compiled._cache = _layered_cache(readable, written)
    return compiled


@final
class PlainLibrary(JITCodeLibrary):
    """Compiled code that is optimised once.

    numba optimises twice before that, because of reference counts: there are none here.
    """

    is_scalar = False

    def _optimize_functions(self, ll_module: Any) -> None:
        pass

    def _optimize_final_module(self) -> None:
        if self.is_scalar:
            builder = llvm.create_pass_builder(self._codegen._tm, _loops_as_written())
            builder.getModulePassManager().run(self._final_module, builder)
            return
        found = self._codegen._module_pass_manager()
        passes, *others = found if isinstance(found, tuple) else (found,)  # alone before 0.62
        passes.run(self._final_module, *others)


def _loops_as_written() -> Any:
    """Return options of LLVM's that make loops neither wider nor longer."""
    options = llvm.create_pipeline_tuning_options()
    options.loop_vectorization = options.slp_vectorization = options.loop_unrolling = False
    return options


@register_pass(mutates_CFG=True, analysis_only=False)
@final
class PlainLowering(NativeLowering):
    """Translate to LLVM, into a plain library."""

    _name = "plain_lowering"

    def run_pass(self, state: Any) -> bool:
        """Make the library before numba makes one of its own."""
        state.library = PlainLibrary(state.targetctx.codegen(), state.func_id.func_qualname)
        state.library.is_scalar = state.func_id.func in _SCALAR
        state.library.enable_object_caching()
        return bool(super().run_pass(state))


@final
class PlainCompiler(CompilerBase):
    """Compile loops over given arrays, without what numba has for closures and array expressions.

    Meant for kernels that make no arrays: a fifth faster than numba's own list of passes.
    """

    def define_pipelines(self) -> list[PassManager]:
        """Return the passes."""
        passes = PassManager("plain")
        for one in _PLAIN_PASSES:
            passes.add_pass(one, one.__name__)
        passes.finalize()
        return [passes]


_PLAIN_PASSES = (
    TranslateByteCode,
    FixupArgs,
    IRProcessing,
    GenericRewrites,  # constants in brackets
    InlineInlinables,
    ReconstructSSA,
    NopythonTypeInference,
    PreLowerStripPhis,
    IRLegalization,
    PlainLowering,
    NoPythonBackend,
)


def _compile_constants_as_values(compiled: Any) -> None:
    """Let kernels that call this one with 0, 1 or True share one compilation with all others."""
    template_of = compiled.get_call_template

    def get_call_template(args: Any, kws: Any) -> Any:
        plain = [unliteral(arg) for arg in args]
        return template_of(plain, {name: unliteral(arg) for name, arg in kws.items()})

    compiled.get_call_template = get_call_template


def compile_apart(compiled: Any, text: str) -> int:
    """Compile for one signature and no other; return the address of the code."""
    arguments, _ = sigutils.normalize_signature(text)
    compiled.compile(text)
    compiled.disable_compile()
    found = compiled.overloads[arguments]
    address: int = found.library.get_pointer_to_function(found.fndesc.llvm_func_name)
    llvm.add_symbol(_symbol(compiled), address)
    return address


def jump_to(compiled: Any, text: str) -> Any:
    """Return a function that kernels call without taking in its code.

    numba makes the code of a callee a part of each caller, where it is optimised and translated
    again. A symbol that is bound to the address of the code, or the address as one more argument
    at the end, avoids it.
    """
    arguments, result = sigutils.normalize_signature(text)

    @functools.wraps(compiled.py_func)
    def call(*given: Any) -> Any:
        return compiled(*given)

    @final
    class Signatures(ConcreteTemplate):
        key = call
        cases: ClassVar = [result(*arguments), result(*arguments, numba.types.intp)]

    def jump(context: Any, builder: Any, _: Any, values: Any) -> Any:
        declared = context.call_conv.get_function_type(result, arguments)
        if len(values) > len(arguments):
            there = builder.inttoptr(values[-1], declared.as_pointer())
        else:
            there = cgutils.get_or_insert_function(builder.module, declared, _symbol(compiled))
        status, answer = context.call_conv.call_function(
            builder, there, result, arguments, values[: len(arguments)]
        )
        with cgutils.if_unlikely(builder, status.is_error):
            context.call_conv.return_status_propagate(builder, status)
        return answer

    infer_global(call, numba.types.Function(Signatures))
    for case in Signatures.cases:
        lower_builtin(call, *case.args)(jump)
    return call


def _symbol(compiled: Any) -> str:
    return f"rankwise.{compiled.py_func.__module__}.{compiled.__name__}"


SECONDS_WITHOUT_A_WORD = 1.0
"""Compiling may take this long before a terminal says so."""


@final
class CompilationNotice(event.Listener):
    """Say once on a terminal that the package is compiling, when that takes more than a second."""

    def __init__(self) -> None:
        self._depth, self._spent, self._begun = 0, 0.0, 0.0
        self._timer: threading.Timer | None = None

    def on_start(self, _: Any) -> None:
        """Start the clock as the outermost kernel begins to compile."""
        self._depth += 1
        if self._depth == 1 and self._spent < SECONDS_WITHOUT_A_WORD and _on_terminal():
            self._begun = time.monotonic()
            self._timer = threading.Timer(SECONDS_WITHOUT_A_WORD - self._spent, self._say)
            self._timer.daemon = True
            self._timer.start()

    def on_end(self, _: Any) -> None:
        """Stop the clock."""
        self._depth -= 1
        if self._depth == 0 and self._timer is not None:
            self._timer.cancel()
            self._timer = None
            self._spent += time.monotonic() - self._begun

    def _say(self) -> None:
        sys.stderr.write("compiling, once ...\n")
        sys.stderr.flush()


@final
class DeferredHandlers(event.Listener):
    """Let handlers of signals wait until a kernel is compiled.

    numba's type inference takes an exception raised by a handler for one of its own, and kernels
    can then no longer be compiled in that process. Ctrl-C is not an ``Exception``: it passes
    through at once and does no harm.
    """

    def __init__(self) -> None:
        self._depth = 0
        self._handlers: dict[int, Any] = {}
        self._pending: list[int] = []

    def on_start(self, _: Any) -> None:
        """Take the handlers away as the outermost kernel begins to compile."""
        if threading.current_thread() is not threading.main_thread():
            return  # Python runs handlers in the main thread only
        self._depth += 1
        if self._depth == 1:
            for number in signal.valid_signals() - {signal.SIGINT}:
                handler = signal.getsignal(number)
                if callable(handler):
                    self._handlers[number] = handler
                    signal.signal(number, self._note)

    def on_end(self, _: Any) -> None:
        """Put them back, and raise the signals that came meanwhile."""
        if threading.current_thread() is not threading.main_thread():
            return
        self._depth -= 1
        if self._depth == 0:
            for number, handler in self._handlers.items():
                signal.signal(number, handler)
            pending, self._pending = self._pending, []
            self._handlers = {}
            for number in pending:
                signal.raise_signal(number)

    def _note(self, number: int, _frame: FrameType | None) -> None:
        self._pending.append(number)


@final
class PausedCollector(event.Listener):
    """Keep Python from looking for garbage while a kernel is compiled."""

    def on_start(self, _: Any) -> None:
        """Pause as a kernel begins to compile."""
        PAUSES.begin()

    def on_end(self, _: Any) -> None:
        """Go on as it is done."""
        PAUSES.end()


_LOOK_UP = "get_call_type"


@final
class RememberedSignatures(event.Listener):
    """Look up the types of an operation once for the same arguments while a kernel is compiled.

    numba goes through all that an operator could mean for every single use of it, which is a sixth
    of the time of compiling.
    """

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._depth = 0
        self._found: dict[Any, Any] = {}
        self._look_up: Any = None

    def on_start(self, _: Any) -> None:
        """Remember as the first thread begins to compile."""
        with self._lock:
            self._depth += 1
            if self._depth == 1:
                self._look_up = BaseFunction.get_call_type
                setattr(BaseFunction, _LOOK_UP, self._remember())

    def on_end(self, _: Any) -> None:
        """Forget as the last thread is done."""
        with self._lock:
            self._depth -= 1
            if self._depth == 0:
                setattr(BaseFunction, _LOOK_UP, self._look_up)
                self._found.clear()

    def _remember(self) -> Any:
        look_up, found = self._look_up, self._found

        def get_call_type(function: Any, context: Any, args: Any, kws: Any) -> Any:
            if kws:
                return look_up(function, context, args, kws)
            key = function, context, tuple(args)
            signature = found.get(key)
            if signature is None:
                signature = found[key] = look_up(function, context, args, kws)
            return signature

        return get_call_type


def _on_terminal() -> bool:
    return sys.stderr is not None and sys.stderr.isatty()


def _watch_once() -> None:
    with _LOCK:
        if not _WATCHED.is_set():
            _WATCHED.set()
            event.register("numba:compile", CompilationNotice())
            event.register("numba:compile", PausedCollector())
            event.register("numba:compile", RememberedSignatures())
            event.register("numba:compile", DeferredHandlers())  # last, as handlers may raise


class FingerprintedCache(caching.FunctionCache, ABC):
    """A cache that also notices changes in kernels that a kernel calls, wherever they stand."""

    fingerprint = ""

    def load_overload(self, sig: Any, target_context: Any) -> Any:
        """Return the compiled code of a signature; the first of all loads much of numba."""
        with paused_collector():
            return super().load_overload(sig, target_context)

    def _index_key(self, sig: Any, codegen: Any) -> Any:
        return *super()._index_key(sig, codegen), self.fingerprint


@final
class WrittenCache(FingerprintedCache):
    """A cache whose unreadable entries are compiled anew, and which need not be writable for ever.

    An entry cannot be read if it was cut off, or if it names a module of another release.
    """

    def load_overload(self, sig: Any, target_context: Any) -> Any:
        """Return the compiled code of a signature, None if there is none that can be read."""
        try:
            return super().load_overload(sig, target_context)
        except Exception:  # whatever unpickling foreign bytes raises
            with suppress(OSError):
                self.flush()  # an index that cannot be read could not be added to either
            return None

    def save_overload(self, sig: Any, data: Any) -> None:
        """Keep the compiled code of a signature; a full disk is said once and stops nothing."""
        try:
            super().save_overload(sig, data)
        except OSError:
            _say_once()


def _read_only_caches(function: FunctionType) -> Iterator[Any]:
    """Yield caches in folders that may be read but not written, such as those of an image."""
    in_tree = getattr(caching, "InTreeCacheLocator", None) or caching._InTreeCacheLocator
    given = getattr(caching, "UserProvidedCacheLocator", None) or caching._UserProvidedCacheLocator
    for locator in [given, in_tree] if config.CACHE_DIR else [in_tree]:
        yield _read_only_cache(function, locator)


def _read_only_cache(function: FunctionType, locator: Any) -> Any:
    """Return a cache that is never written, None where there is none to read."""

    @final
    class ReadableLocator(locator):
        def ensure_cache_path(self) -> None:
            folder = self.get_cache_path()
            if not os.access(folder, os.R_OK | os.X_OK) or os.access(folder, os.W_OK):
                raise OSError(folder)

    @final
    class ReadableImplementation(caching.CompileResultCacheImpl):
        _locator_classes = (ReadableLocator,)

    @final
    class ReadableCache(FingerprintedCache):
        _impl_class = ReadableImplementation

    try:
        return ReadableCache(function)
    except RuntimeError:
        return None


def _layered_cache(readable: list[Any], written: Any) -> Any:
    """Return a cache that looks in several places and writes into one of them, or none."""
    last = caching.NullCache() if written is None else written
    if not readable:
        return last

    @final
    class LayeredCache(caching.NullCache):
        @property
        def cache_path(self) -> Any:
            return (readable[0] if written is None else written).cache_path

        def load_overload(self, sig: Any, target_context: Any) -> Any:
            for cache in readable:
                with suppress(Exception):  # what cannot be read is compiled anew
                    found = cache.load_overload(sig, target_context)
                    if found is not None:
                        return found
            return last.load_overload(sig, target_context)

        def save_overload(self, sig: Any, data: Any) -> None:
            if written is None:
                _say_once()
            last.save_overload(sig, data)

    return LayeredCache()


def _say_once() -> None:
    if _HAS_WARNED.is_set():
        return
    _HAS_WARNED.set()
    warnings.warn(
        "Compiled code cannot be cached: no folder for it is writable, so every process compiles "
        "again, which takes seconds. Set NUMBA_CACHE_DIR to a writable folder, or fill one "
        "beforehand with rankwise.warm_up.",
        RuntimeWarning,
        stacklevel=2,
    )
