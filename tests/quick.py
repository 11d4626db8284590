"""Run the tests of what has changed since main, and those of the architecture, within a minute."""

import ast
import re
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parent.parent
SOURCE, TESTS = ROOT / "src" / "rankwise", ROOT / "tests"

MOST_FILES = 3
"""Test files that are run for a source file which has none of its own."""


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


def tests_of(path: Path) -> list[Path]:
    """Return the tests of a file: itself, its mirror, or those near it that name what is in it."""
    if path.is_relative_to(TESTS):
        return [path] if path.name.startswith("test_") and path.exists() else []
    if path.suffix == ".rst" and path.exists():
        return [path]
    if not path.is_relative_to(SOURCE):
        return []
    folder = TESTS / path.parent.relative_to(SOURCE)
    mirror = folder / f"test_{path.stem}.py"
    if mirror.exists():
        return [mirror]
    while not folder.exists():
        folder = folder.parent
    return naming(path, folder) if folder != TESTS else []


def naming(path: Path, folder: Path) -> list[Path]:
    """Return the tests of a folder that name most often what a source file defines."""
    names = {path.stem}
    if path.suffix == ".py" and path.exists():
        body = ast.parse(path.read_text(encoding="utf-8")).body
        names |= {node.name for node in body if isinstance(node, ast.FunctionDef | ast.ClassDef)}
    pattern = re.compile(rf"\b({'|'.join(map(re.escape, sorted(names)))})\b")
    counts = {
        one: len(pattern.findall(one.read_text(encoding="utf-8")))
        for one in sorted(folder.rglob("test_*.py"))
    }
    most = sorted(counts, key=lambda one: -counts[one])
    return [one for one in most if counts[one]][:MOST_FILES] or most[:1]


def main() -> int:
    """Run them; stop at the first failure."""
    found = {one for path in changed_files() for one in tests_of(path)}
    chosen = [str(TESTS / "architecture"), *sorted(map(str, found))]
    return subprocess.call([sys.executable, "-m", "pytest", "-q", "-x", *sys.argv[1:], *chosen])


if __name__ == "__main__":
    sys.exit(main())
