"""Compile everything beforehand."""

from rankwise.cli.commands import WarmUpCommand
from rankwise.rankers.warm_up import warm_up


def run(command: WarmUpCommand) -> None:
    """Compile, and print each step as it begins."""
    warm_up(command.folder, _show)
    if command.folder is not None:
        print(f"Set NUMBA_CACHE_DIR={command.folder.absolute()} to use it.")


def _show(name: str, number: int, total: int) -> None:
    print(f"{number}/{total}  {name}", flush=True)
