"""What all tests need; options for a sample, a random order, and what the tests touch.

Tests run anywhere: in a folder of any name that cannot be written to, in any order.
"""

import os
import random
import signal
import sys
import tempfile
import threading
import zlib
from pathlib import Path

os.environ.setdefault(
    "HYPOTHESIS_STORAGE_DIRECTORY", os.path.join(tempfile.gettempdir(), "hypothesis")
)

import hypothesis
import pytest

import rankwise

hypothesis.settings.register_profile("anywhere", database=None, deadline=None, print_blob=True)
hypothesis.settings.load_profile("anywhere")

if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    # Shells start background jobs so, and children inherit it: tests of Ctrl-C would wait for ever
    signal.signal(signal.SIGINT, signal.default_int_handler)

PACKAGE = Path(rankwise.__file__).parent
collect_ignore = ["elsewhere"]  # it would take functions from Python itself


@pytest.fixture
def torch_on_one_thread():
    """Small matrices on many threads that wait for each other take minutes on a busy machine."""
    torch = pytest.importorskip("torch", reason="the extra 'gpu' (torch) is not installed")
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    yield torch
    torch.set_num_threads(before)


def pytest_addoption(parser):
    parser.addoption(
        "--shuffle", type=int, metavar="SEED", help="run in the order of this seed; 0 draws one"
    )
    parser.addoption(
        "--sample",
        type=float,
        default=100.0,
        metavar="PERCENT",
        help="run so many of the tests, always the same ones",
    )
    parser.addoption(
        "--touched",
        action="store_true",
        help="fail where the tests call nothing in a module of the package",
    )


def pytest_configure(config):
    if config.getoption("shuffle") == 0:
        drawn = getattr(config, "workerinput", {}).get("shuffle") or random.randrange(1, 1 << 30)
        config.option.shuffle = drawn
    if config.getoption("touched"):
        config.pluginmanager.register(Touched(), "touched")


@pytest.hookimpl(optionalhook=True)
def pytest_configure_node(node):
    """Tell a worker of xdist the seed."""
    node.workerinput["shuffle"] = node.config.getoption("shuffle")


def pytest_report_header(config):
    seed = config.getoption("shuffle")
    return None if seed is None else f"in random order: --shuffle {seed}"


@pytest.hookimpl(trylast=True)
def pytest_collection_modifyitems(config, items):
    left_out = _beyond(items, config.getoption("sample"))
    if left_out:
        config.hook.pytest_deselected(items=left_out)
        items[:] = [item for item in items if item not in left_out]
    if config.getoption("shuffle") is not None:
        _shuffle(items, random.Random(config.getoption("shuffle")))


def _beyond(items, percent):
    """Return what a sample leaves out: never what is marked, nor the first test of a file."""
    first = {item.path: item for item in reversed(items)}
    return {
        item
        for item in items
        if _place(item) >= percent
        and item is not first[item.path]
        and item.get_closest_marker("portable") is None
    }


def _place(item):
    """Return a number below 100 that only the name of a test decides."""
    return zlib.crc32(item.nodeid.rpartition("/")[2].encode()) % 10_000 / 100


def _shuffle(items, rng):
    """Shuffle files, and tests inside each: a fixture of a file is made once."""
    files = {}
    for item in items:
        files.setdefault(item.path, []).append(item)
    groups = list(files.values())
    rng.shuffle(groups)
    for group in groups:
        rng.shuffle(group)
    items[:] = [item for group in groups for item in group]


class Touched:
    """Which modules of the package run a function while the tests run, in all workers together."""

    def __init__(self):
        self.files = set()
        if hasattr(sys, "monitoring"):  # since Python 3.12: once for each function
            watch = sys.monitoring
            watch.use_tool_id(watch.PROFILER_ID, "touched")
            watch.register_callback(watch.PROFILER_ID, watch.events.PY_START, self._start)
            watch.set_events(watch.PROFILER_ID, watch.events.PY_START)
        else:
            threading.setprofile(self._call)
            sys.setprofile(self._call)

    def _start(self, code, _offset):
        if code.co_name != "<module>":
            self.files.add(code.co_filename)
        return sys.monitoring.DISABLE

    def _call(self, frame, event, _):
        if event == "call" and frame.f_code.co_name != "<module>":
            self.files.add(frame.f_code.co_filename)

    @pytest.hookimpl(optionalhook=True)
    def pytest_testnodedown(self, node):
        self.files.update(getattr(node, "workeroutput", {}).get("touched", ()))

    def pytest_sessionfinish(self, session):
        if hasattr(session.config, "workeroutput"):
            session.config.workeroutput["touched"] = sorted(self.files)
        elif self.untouched():
            session.exitstatus = pytest.ExitCode.TESTS_FAILED

    def pytest_terminal_summary(self, terminalreporter):
        for path in self.untouched():
            said = f"UNTOUCHED {path}: mark a test that touches it with pytest.mark.portable"
            terminalreporter.line(said, red=True)

    def untouched(self):
        """Return the modules with functions of which none ran; compiled ones are not seen."""
        return [
            path
            for path in sorted(PACKAGE.rglob("*.py"))
            if str(path) not in self.files
            and "def " in path.read_text(encoding="utf-8")
            and path.name != "__main__.py"
        ]
