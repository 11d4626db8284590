"""Ctrl-C in the process of a command: at once while modules load, as an exception in its job.

An exception that is raised anywhere in the import of other packages shows their lines, or is lost.
"""

import os
import signal
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from typing import Any

STOPPED = 130  # 128 + SIGINT, as shells have it


def stop_at_once() -> None:
    """End the process at Ctrl-C from now on, unless the caller chose something else."""
    if signal.getsignal(signal.SIGINT) is signal.default_int_handler:
        signal.signal(signal.SIGINT, _leave_at_once)


@contextmanager
def interrupts_raised() -> Iterator[None]:
    """Raise KeyboardInterrupt again for a while, so that a job can put its things in order."""
    if signal.getsignal(signal.SIGINT) is not _leave_at_once:
        yield
        return
    signal.signal(signal.SIGINT, signal.default_int_handler)
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, _leave_at_once)


def _leave_at_once(*_: Any) -> None:
    with suppress(OSError):  # nobody may be reading
        os.write(2, b"stopped\n")
    os._exit(STOPPED)
