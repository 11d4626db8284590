"""Ending a long loop by Ctrl-C without losing what it has found."""

import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from types import FrameType


@dataclass
class Interrupts:
    """Tell whether Ctrl-C was pressed since the loop began."""

    pending: bool = False


@contextmanager
def deferred_interrupts() -> Iterator[Interrupts]:
    """Turn the first Ctrl-C into a mark that the loop looks at; a second one ends it at once.

    Python handles signals in the main thread only; in others nothing changes.
    """
    interrupts = Interrupts()
    if threading.current_thread() is not threading.main_thread():
        yield interrupts
        return
    previous = signal.getsignal(signal.SIGINT)

    def note(_number: int, _frame: FrameType | None) -> None:
        interrupts.pending = True
        signal.signal(signal.SIGINT, previous)

    signal.signal(signal.SIGINT, note)
    try:
        yield interrupts
    finally:
        signal.signal(signal.SIGINT, previous)
