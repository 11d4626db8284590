"""Run the tests of what has changed since main, and those of the architecture."""

import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parent.parent
SOURCE, TESTS = ROOT / "src" / "rankwise", ROOT / "tests"


def changed_files() -> list[Path]:
    """Return what differs from main, committed or not, and what git does not know yet."""
    commands = (
        ["git", "diff", "--name-only", "main"],
        ["git", "ls-files", "-o", "--exclude-standard"],
    )
    lines = [
        line
        for command in commands
        for line in subprocess.run(
            command, cwd=ROOT, check=True, capture_output=True, text=True
        ).stdout.splitlines()
    ]
    return [ROOT / line for line in lines]


def tests_of(path: Path) -> Path | None:
    """Return the nearest tests of a file: itself, its mirror, or the mirror of its folder."""
    if path.is_relative_to(TESTS):
        return path if path.name.startswith("test_") and path.exists() else None
    if path.suffix == ".rst" and path.exists():
        return path
    if not path.is_relative_to(SOURCE):
        return None
    folder = TESTS / path.parent.relative_to(SOURCE)
    mirror = folder / f"test_{path.stem}.py"
    if mirror.exists():
        return mirror
    while not folder.exists():
        folder = folder.parent
    return folder if folder != TESTS else None


def main() -> int:
    """Run them; stop at the first failure."""
    found = {tests_of(path) for path in changed_files()} - {None}
    chosen = [str(TESTS / "architecture"), *sorted(map(str, found))]
    return subprocess.call([sys.executable, "-m", "pytest", "-q", "-x", *sys.argv[1:], *chosen])


if __name__ == "__main__":
    sys.exit(main())
