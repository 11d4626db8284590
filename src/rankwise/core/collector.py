"""Python's search for garbage, paused while modules are loaded and kernels are compiled.

Both make hundreds of thousands of small objects that stay. Python looks through them again and
again as they grow in number, a tenth of the time of a first fit.
"""

import gc
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import final


@final
class Pauses:
    """Count the pauses that have begun and not ended, in any thread."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._depth, self._was_enabled = 0, False

    def begin(self) -> None:
        """Pause as the first one begins."""
        with self._lock:
            self._depth += 1
            if self._depth == 1:
                self._was_enabled = gc.isenabled()
                gc.disable()

    def end(self) -> None:
        """Go on as the last one ends."""
        with self._lock:
            self._depth -= 1
            if self._depth == 0 and self._was_enabled:
                gc.enable()


PAUSES = Pauses()
"""Those of this process."""


@contextmanager
def paused_collector(*, all_stays: bool = False) -> Iterator[None]:
    """Keep Python from looking for garbage meanwhile.

    Parameters
    ----------
    all_stays
        What is made meanwhile is no garbage, such as modules: it need not be looked at afterwards.
    """
    PAUSES.begin()
    try:
        yield
        if all_stays:
            _grow_old()
    finally:
        PAUSES.end()


def _grow_old() -> None:
    """Make all young objects old ones, which Python looks through last."""
    if gc.get_freeze_count() == 0:  # what somebody else keeps out of the search stays out of it
        gc.freeze()
        gc.unfreeze()
