"""Failures as one line on standard error and an exit status."""

import sys
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import typer

from rankwise.core.errors import RankwiseError

REFUSED = 2  # as for options that cannot be understood
STOPPED = 130  # 128 + SIGINT, as shells have it


@contextmanager
def failures_reported() -> Iterator[None]:
    """Turn errors that the user can act on into a line; let defects show where they happened.

    A closed pipe is left to typer, which ends quietly.
    """
    with warnings.catch_warnings():
        warnings.showwarning = _show_warning
        try:
            yield
        except KeyboardInterrupt:
            _leave("stopped", STOPPED)
        except BrokenPipeError:
            raise
        except RankwiseError as error:
            _leave(f"error: {error}", REFUSED)
        except OSError as error:
            _leave(f"error: {_sentence(error)}", REFUSED)
        except MemoryError as error:
            _leave(f"error: not enough memory: {error}", REFUSED)


def _leave(line: str, status: int) -> None:
    print(line, file=sys.stderr)
    raise typer.Exit(status)


def _sentence(error: OSError) -> str:
    if error.filename is None or error.strerror is None:
        return str(error)
    return f"{error.filename}: {error.strerror}"


def _show_warning(message: Warning | str, *_: Any, **__: Any) -> None:
    print(f"warning: {message}", file=sys.stderr)
