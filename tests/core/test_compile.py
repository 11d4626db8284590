"""Kernels compile anywhere, and loading and predicting needs none of them."""

import gc
import os
import pickle
import pty
import signal
import subprocess
import sys

import numpy as np
import pytest
from numba.core import event
from numba.core.types.functions import BaseFunction
from scipy.sparse import csr_array

from problems import problem
from rankwise import Gaussian, RankRLS
from rankwise.core.compile import MAKES_NO_ARRAYS, CompiledFunction, njit

P = problem(seed=0)

POISONED = """
import sys

class Poison:
    def find_spec(self, name, path=None, target=None):
        if name.split(".")[0] in ("numba", "llvmlite"):
            raise ImportError("numba was asked for")

sys.meta_path.insert(0, Poison())
import numpy as np
import rankwise
print(rankwise.load(sys.argv[1]).predict(np.ones((2, 3))).tolist())
"""

KERNELS = """
from rankwise.core.compile import njit

@njit(cache=True)
def square(x):
    return x * x

@njit(cache=True)
def shifted_square(x):
    return square(x) + 1
"""


@njit()
def double(x):
    """Return twice x."""
    return 2 * x


@njit()
def double_and_one(x):
    return double(x) + 1


def test_a_kernel_is_compiled_at_its_first_call_with_those_it_calls():
    assert isinstance(double_and_one, CompiledFunction)
    assert double_and_one.__name__ == "double_and_one"
    assert double.__doc__ == "Return twice x."
    assert double_and_one(3) == 7
    assert double(2.5) == 5.0


@pytest.mark.parametrize("kernel", ["linear", Gaussian(0.5)], ids=repr)
@pytest.mark.parametrize("sparse", [False, True])
def test_predicting_needs_no_compiled_code(kernel, sparse, tmp_path):
    X = csr_array(np.where(P.X > 0, P.X, 0.0)) if sparse else P.X
    ranker = RankRLS(kernel=kernel).fit(X, P.y, P.qid)
    ranker.save(tmp_path / "m")
    out = subprocess.run(
        [sys.executable, "-c", POISONED, tmp_path / "m"], capture_output=True, text=True, check=True
    )
    assert out.stdout.strip() == str(ranker.predict(np.ones((2, 3))).tolist())


def run_kernels(folder, code, **environment):
    """Run code in a process that may write nowhere but where it is told."""
    kernels = folder / "kernels.py"
    if not kernels.exists():  # old numba compiles anew after each change of the time of a file
        kernels.write_text(KERNELS)
    source = f"import sys; sys.path.insert(0, {str(folder)!r}); {code}"
    clean = {k: v for k, v in os.environ.items() if k != "NUMBA_CACHE_DIR"}
    return subprocess.run(
        [sys.executable, "-c", source],
        env=clean | {"HOME": "/nonexistent", "XDG_CACHE_HOME": "/dev/null/none"} | environment,
        capture_output=True,
        text=True,
        check=True,
    )


NOWHERE = (
    "import os, tempfile; "
    "access = os.access; "
    "os.access = lambda path, mode: access(path, mode) and not mode & os.W_OK; "
    "tempfile.TemporaryFile = lambda **_: open('/nonexistent/file'); "
)
"""Root may write anywhere: make numba believe that nobody may."""


def test_code_is_compiled_without_a_cache_where_nothing_can_be_written(tmp_path):
    code = NOWHERE + "from kernels import shifted_square as f; print(f(3), f(2.0))"
    out = run_kernels(tmp_path, code, PYTHONDONTWRITEBYTECODE="1")
    assert out.stdout == "10 5.0\n"
    assert out.stderr.count("Compiled code cannot be cached") == 1
    assert "NUMBA_CACHE_DIR" in out.stderr


@pytest.mark.parametrize("given", [True, False])
def test_a_cache_that_can_only_be_read_is_read(tmp_path, given):
    folder = {"NUMBA_CACHE_DIR": str(tmp_path / "cache")} if given else {}
    run_kernels(tmp_path, "from kernels import shifted_square as f; f(3)", **folder)
    count = "; print(sum(f.compiled().stats.cache_hits.values()))"
    code = NOWHERE + "from kernels import shifted_square as f; f(3)" + count
    out = run_kernels(tmp_path, code, **folder)
    assert out.stdout == "1\n"
    assert "cannot be cached" not in out.stderr


FOREIGN = b"crankwise_that_is_gone\nTable\n."
"""A pickle of a class whose module does not exist: what an upgrade leaves behind."""


def stale(path):
    """Let an index name a module that is gone, as a release that moves a module does."""
    with path.open("rb") as file:
        version = pickle.load(file)
    path.write_bytes(pickle.dumps(version) + FOREIGN)


DAMAGES = {
    "stale": ("*.nbi", stale),
    "cut off": ("*.nbi", lambda path: path.write_bytes(path.read_bytes()[:50])),
    "empty": ("*.nbi", lambda path: path.write_bytes(b"")),
    "stale code": ("*.nbc", lambda path: path.write_bytes(FOREIGN)),
    "code cut off": ("*.nbc", lambda path: path.write_bytes(path.read_bytes()[:500])),
    "no code": ("*.nbc", lambda path: path.unlink()),
}
HITS = (
    "from kernels import shifted_square as f; "
    "print(f(3), sum(f.compiled().stats.cache_hits.values()))"
)


@pytest.mark.parametrize("damage", DAMAGES)
def test_compiled_code_that_cannot_be_read_is_compiled_anew_and_kept(damage, tmp_path):
    folder = {"NUMBA_CACHE_DIR": str(tmp_path / "cache")}
    assert run_kernels(tmp_path, HITS, **folder).stdout == "10 0\n"
    pattern, change = DAMAGES[damage]
    changed = list((tmp_path / "cache").rglob(pattern))
    assert changed
    for path in changed:
        change(path)
    assert run_kernels(tmp_path, HITS, **folder).stdout == "10 0\n"
    assert run_kernels(tmp_path, HITS, **folder).stdout == "10 1\n"


def test_a_read_only_cache_that_cannot_be_read_counts_as_none(tmp_path):
    folder = {"NUMBA_CACHE_DIR": str(tmp_path / "cache")}
    run_kernels(tmp_path, HITS, **folder)
    for path in (tmp_path / "cache").rglob("*.nbi"):
        stale(path)
    out = run_kernels(tmp_path, NOWHERE + HITS, **folder)
    assert out.stdout == "10 0\n"
    assert out.stderr.count("Compiled code cannot be cached") == 1


def test_a_full_disk_under_the_cache_stops_nothing(tmp_path):
    code = "import resource; resource.setrlimit(resource.RLIMIT_FSIZE, (100, 100)); "
    ignored = "import signal; signal.signal(signal.SIGXFSZ, signal.SIG_IGN); "
    folder = {"NUMBA_CACHE_DIR": str(tmp_path / "cache"), "PYTHONDONTWRITEBYTECODE": "1"}
    out = run_kernels(tmp_path, ignored + code + HITS, **folder)
    assert out.stdout == "10 0\n"
    assert out.stderr.count("Compiled code cannot be cached") == 1


CONSTANTS = """
from rankwise.core.compile import njit

@njit(cache=True)
def power(x, n, negated):
    out = 1
    for _ in range(n):
        out *= x
    return -out if negated else out

@njit(cache=True)
def both(x, n):
    return power(x, n, False) + power(x, 2, False) + power(3, 2, True)
"""


def test_constants_are_compiled_as_the_values_they_are(tmp_path):
    (tmp_path / "constants.py").write_text(CONSTANTS)
    code = "from constants import both, power; print(both(2, 3), len(power.compiled().overloads))"
    assert run_kernels(tmp_path, code).stdout == "3 1\n"


SLOW = """
import sys, time
sys.path.insert(0, sys.argv[1])
from numba.core import event
from numba.core.types.functions import BaseFunction
from rankwise.core import caches
from kernels import square
caches.SECONDS_WITHOUT_A_WORD = 0.2

class Delay(event.Listener):
    def on_start(self, event):
        time.sleep(0.5)
    def on_end(self, event):
        pass

square.compiled()
event.register("numba:compile", Delay())
square(3), square(2.5)
print("done", file=sys.stderr)
"""


def test_a_terminal_is_told_once_of_long_compilations_and_never_of_kept_code(tmp_path):
    (tmp_path / "kernels.py").write_text(KERNELS)
    environment = os.environ | {"NUMBA_CACHE_DIR": str(tmp_path / "cache")}
    command = [sys.executable, "-c", SLOW, str(tmp_path)]
    assert on_terminal(command, environment) == "compiling, once ...\r\ndone\r\n"
    assert on_terminal(command, environment) == "done\r\n"
    environment["NUMBA_CACHE_DIR"] = str(tmp_path / "other")
    piped = subprocess.run(command, env=environment, capture_output=True, text=True, check=True)
    assert piped.stderr == "done\n"


def on_terminal(command, environment):
    """Run a command whose standard error is a terminal, and return what it shows."""
    ours, theirs = pty.openpty()
    try:
        subprocess.run(command, env=environment, stderr=theirs, check=True)
        os.set_blocking(ours, False)
        return os.read(ours, 10_000).decode()
    finally:
        os.close(ours)
        os.close(theirs)


@njit()
def halved(x):
    return x / 2


@njit()
def halved_and_one(x):
    return halved(x) + 1


@pytest.mark.skipif(sys.platform == "win32", reason="Windows has no alarm signal")
def test_handlers_of_signals_wait_until_a_kernel_is_compiled():
    compiled = halved_and_one.compiled()

    class Alarm(event.Listener):
        def on_start(self, _):
            signal.raise_signal(signal.SIGALRM)

        def on_end(self, _):
            pass

    def too_late(_number, _frame):
        raise TimeoutError("too late")

    before = signal.signal(signal.SIGALRM, too_late)
    try:
        with (
            event.install_listener("numba:run_pass", Alarm()),
            pytest.raises(TimeoutError, match="too late"),
        ):
            compiled(3.0)
        assert signal.getsignal(signal.SIGALRM) is too_late
    finally:
        signal.signal(signal.SIGALRM, before)
    assert len(compiled.signatures) == 1  # compiled all the same, and so the next call only calls
    assert compiled(3.0) == 2.5


def test_ctrl_c_while_compiling_goes_through_and_does_no_harm():
    @njit()
    def third(x):
        return x / 3

    class CtrlC(event.Listener):
        def on_start(self, found):
            if found.data["name"].startswith("nopython_type_inference"):
                raise KeyboardInterrupt

        def on_end(self, _):
            pass

    with (
        event.install_listener("numba:run_pass", CtrlC()),
        pytest.raises(KeyboardInterrupt),
    ):
        third(3.0)
    assert third(3.0) == 1.0


@njit()
def _triple(x):
    return 3 * x


@njit()
def six_times(x):
    return 2 * _triple(x)


def test_a_kernel_with_a_private_name_serves_kernels_and_python():
    assert six_times(7) == 42
    assert _triple(7) == 21


@pytest.mark.parametrize("is_on", [True, False])
def test_no_garbage_is_collected_while_a_kernel_is_compiled(is_on):
    seen = []

    class Watch(event.Listener):
        def on_start(self, _):
            seen.append(gc.isenabled())

        def on_end(self, _):
            pass

    @njit()
    def half(x):
        return x / 2

    double(1)  # numba is loaded, and watched
    was_on = gc.isenabled()
    (gc.enable if is_on else gc.disable)()
    try:
        with event.install_listener("numba:run_pass", Watch()):
            assert half(3.0) == 1.5
        assert gc.isenabled() == is_on
    finally:
        (gc.enable if was_on else gc.disable)()
    assert seen
    assert not any(seen)


# --- kernels that stay apart ----------------------------------------------------------------


@njit(apart="float64(float64[::1], int64)", error_model="numpy")
def total_of_power(x, power):
    """Sum powers."""
    total = 0.0
    for i in range(len(x)):
        total += x[i] ** power
    return total


@njit()
def norm(x):
    return np.sqrt(total_of_power(x, 2))


@njit()
def mean(x):
    return total_of_power(x, np.int32(1)) / len(x)


@njit(apart="int64(int64)", is_optional=True)
def doubled(x):
    return 2 * x


@njit()
def double_if_asked(x, address):
    return doubled(x, address) if address else x


def test_a_kernel_that_stays_apart_is_compiled_once_for_all_that_call_it():
    x = np.array([3.0, 4.0])
    assert (norm(x), mean(x)) == (5.0, 3.5)
    apart = norm.py_func.__globals__["total_of_power"]
    assert apart(x, 1) == 7.0  # from Python as well
    assert apart.__doc__ == "Sum powers."
    assert not any("total_of_power" in code and "define" in code for code in ir_of(norm))


def ir_of(kernel):
    return [line for ir in kernel.compiled().inspect_llvm().values() for line in ir.splitlines()]


def test_a_kernel_that_stays_apart_takes_no_other_types():
    kernel = CompiledFunction(total_of_power_of_integers, {}, "int64(int64)")
    assert kernel(3) == 9
    with pytest.raises(TypeError, match="No matching definition"):
        kernel(np.ones(2))
    assert len(kernel.compiled().signatures) == 1


def total_of_power_of_integers(x):
    return x * x


def test_an_optional_kernel_is_compiled_when_its_address_is_asked_for():
    assert double_if_asked(3, 0) == 3
    optional = CompiledFunction(doubled_again, {}, "int64(int64)", is_optional=True)
    optional.callee()
    assert not optional.compiled().signatures
    assert double_if_asked(3, optional.address()) == 6
    assert len(optional.compiled().signatures) == 1


def doubled_again(x):
    return 2 * x


CALLEE = """
from rankwise.core.compile import njit

@njit(cache=True)
def scaled(x):
    return FACTOR * x

@njit(cache=True, apart="int64(int64)")
def scaled_apart(x):
    return FACTOR * x
"""

CALLER = """
from callee import scaled, scaled_apart
from rankwise.core.compile import njit

@njit(cache=True)
def both(x):
    return scaled(x) + scaled_apart(x)
"""


def test_a_change_in_a_kernel_of_another_file_is_noticed(tmp_path):
    (tmp_path / "caller.py").write_text(CALLER)
    folder = {"NUMBA_CACHE_DIR": str(tmp_path / "cache"), "PYTHONDONTWRITEBYTECODE": "1"}
    code = "from caller import both; print(both(3), sum(both.compiled().stats.cache_hits.values()))"
    for factor, expected in ((2, "12 0"), (2, "12 1"), (5, "30 0")):
        (tmp_path / "callee.py").write_text(CALLEE.replace("FACTOR", str(factor)))
        assert run_kernels(tmp_path, code, **folder).stdout.strip() == expected


def test_numba_is_as_before_when_a_kernel_is_compiled():
    before = BaseFunction.get_call_type

    @njit()
    def repeated(x):
        return x + x + x + x

    assert repeated(1.5) == 6.0
    assert BaseFunction.get_call_type is before


def _add_up(values, out):
    for i in range(len(values)):
        out[i] += 2.0 * values[i]


@pytest.mark.parametrize("is_scalar", [False, True])
def test_loops_of_a_scalar_kernel_stay_as_they_are(is_scalar):
    options = {name: value for name, value in MAKES_NO_ARRAYS.items() if name != "cache"}
    kernel = njit(**options, is_scalar=is_scalar)(_add_up)
    out = np.ones(9)
    kernel(np.arange(9.0), out)
    np.testing.assert_array_equal(out, 1.0 + 2.0 * np.arange(9.0))
    (text,) = kernel.compiled().inspect_llvm().values()
    assert (" x double>" in text) != is_scalar  # vectors
    assert (text.count(" = fadd ") > 1) != is_scalar  # several turns at once
