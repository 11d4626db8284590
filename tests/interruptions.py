"""Ctrl-C at every line of a step, one run each."""

import sys
from collections.abc import Callable, Iterator
from types import FrameType
from typing import Any, TypeVar

T = TypeVar("T")


class _Interruption:
    """Raise KeyboardInterrupt at the n-th line of the package after some calls of a function."""

    def __init__(self, function: Callable[..., Any], n_calls: int, line: int) -> None:
        self.code, self.calls_left, self.lines_left = function.__code__, n_calls, line
        self.was_raised = False

    def __call__(self, frame: FrameType, event: str, _: Any) -> Any:
        if event == "call" and frame.f_code is self.code:
            self.calls_left -= 1
        if not frame.f_globals.get("__name__", "").startswith("rankwise"):
            return None
        if event == "line" and self.calls_left <= 0 and not self.was_raised:
            self.lines_left -= 1
            if self.lines_left == 0:
                self.was_raised = True
                sys.settrace(None)
                raise KeyboardInterrupt
        return self


def interrupted_runs(
    run: Callable[[], T], function: Callable[..., Any], *, n_calls: int
) -> Iterator[T]:
    """Yield what a run returns when Ctrl-C comes at a line of one of its steps, for all lines.

    The step begins with a call of ``function``, after so many of them, and ends with the next.
    """
    for line in range(1, 10_000):
        interruption = _Interruption(function, n_calls, line)
        before = sys.gettrace()
        sys.settrace(interruption)
        try:
            found = run()
        finally:
            sys.settrace(before)
        if not interruption.was_raised or interruption.calls_left < 0:
            return
        yield found
