"""Run the command line: ``rankwise``, or ``python -m rankwise``."""

from importlib import import_module

from rankwise.apps.cli.stopping import stop_at_once


def run_command() -> None:
    """Load the command line and run it; Ctrl-C ends it at any time without a traceback."""
    stop_at_once()
    import_module("rankwise.apps.cli.app").main()


if __name__ == "__main__":
    run_command()
