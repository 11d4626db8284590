"""Run a sample of the tests as on the machines of others: ``make test-portable``.

The checkout is copied into a folder with a space and a letter beyond ASCII in its name, installed
there as a wheel, and tested under every setting below: other BLAS kernels and vector units,
threads, locales, rights and systems.
"""

import argparse
import contextlib
import ctypes
import fnmatch
import os
import platform
import re
import shutil
import stat
import subprocess
import sys
import sysconfig
import tempfile
import time
import tomllib
import venv
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path

import numpy as np

ROOT = Path(__file__).resolve().parents[1]
SAMPLE = "20"
LEAST_TESTS = 3000
GENERATED = (
    ".git",
    ".venv*",
    "__pycache__",
    "build",
    "dist",
    "_build",
    ".*_cache",
    ".hypothesis",
    "*.egg-info",
)


@dataclass(frozen=True)
class Setting:
    """One machine: what is set, and what is taken away.

    ``core`` is a processor that OpenBLAS knows; ``plain`` leaves NumPy only the instructions that
    every processor has; ``elsewhere`` takes away what only Linux or Unix has; ``locked`` is a
    checkout and a home that cannot be written to, for a user without rights; ``bare`` is the locale
    C, a strict umask and no terminal.
    """

    name: str
    threads: int
    core: str | None = None
    plain: bool = False
    elsewhere: bool = False
    locked: bool = False
    bare: bool = False
    touched: bool = False


SETTINGS = [
    Setting("an old processor, another system", 2, "Prescott", plain=True, elsewhere=True),
    Setting("a laptop, a locked checkout", 1, "Haswell", locked=True, bare=True),
    Setting("another maker, another system, locked", 2, "Zen", elsewhere=True, locked=True),
    Setting("a server in the locale C", 1, "SkylakeX", bare=True, touched=True),
    Setting("no vector units, no rights, no terminal", 2, plain=True, locked=True, bare=True),
]


def main() -> int:
    """Run every setting; return 1 if a test fails under any."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--workers", default="2")
    parser.add_argument("--sample", default=SAMPLE, help="per cent of the tests")
    parser.add_argument(
        "--seed", default=int(time.time()), type=int, help="of the order of the tests"
    )
    parser.add_argument("--only", default="", help="settings whose name contains this")
    options = parser.parse_args()
    top = Path(tempfile.mkdtemp(prefix="portable-"))
    try:
        top.chmod(0o755)
        checkout = top / "rank wise ü" / "rankwise"
        copy_checkout(checkout)
        checkout.parent.chmod(0o755)
        python = install(checkout)
        results = [
            run(setting, checkout, python, options)
            for setting in SETTINGS
            if options.only in setting.name
        ]
    finally:
        unlock(top)
        shutil.rmtree(top)
    print("\n".join(["", *(line for line, _ in results)]))
    return int(not results or not all(is_green for _, is_green in results))


# The copy


def copy_checkout(target: Path) -> None:
    """Copy what git knows or would add; where there is no git, what is not generated."""
    for name in tracked() or unpacked():
        if (ROOT / name).is_file():
            (target / name).parent.mkdir(parents=True, exist_ok=True)
            shutil.copy2(ROOT / name, target / name)


def tracked() -> list[str]:
    """Return the files of a git checkout; none where this is not one."""
    command = ["git", "-C", str(ROOT)]
    try:
        top = subprocess.run(
            [*command, "rev-parse", "--show-prefix"], capture_output=True, check=False
        )
        if top.returncode != 0 or top.stdout.strip():
            return []
        listed = [*command, "ls-files", "-z", "--cached", "--others", "--exclude-standard"]
        found = subprocess.run(listed, capture_output=True, check=True).stdout
        return os.fsdecode(found).split("\0")[:-1]
    except OSError:
        return []


def unpacked() -> list[str]:
    """Return the files of an unpacked archive."""
    names = []
    for folder, folders, files in os.walk(ROOT):
        folders[:] = [
            name for name in folders if not any(fnmatch.fnmatch(name, g) for g in GENERATED)
        ]
        names += [os.path.relpath(os.path.join(folder, name), ROOT) for name in files]
    return names


def install(checkout: Path) -> str:
    """Install the copy into an environment of its own inside it, with the packages of this one."""
    home = checkout / ".venv"
    venv.EnvBuilder(symlinks=os.name != "nt", with_pip=False).create(home)
    python = str(home / ("Scripts" if os.name == "nt" else "bin") / "python")
    ask = "import sysconfig; print(sysconfig.get_path('purelib'))"
    new = Path(
        subprocess.run(
            [python, "-c", ask], capture_output=True, text=True, check=True
        ).stdout.strip()
    )
    for entry in Path(sysconfig.get_path("purelib")).iterdir():
        if "rankwise" not in entry.name and entry.name != "__pycache__":
            (new / entry.name).symlink_to(entry)
    backend = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["build-system"][
        "build-backend"
    ]
    is_here = find_spec(backend.partition(".")[0]) is not None
    alone = ["--no-build-isolation"] if is_here else []
    pip = [
        python,
        "-m",
        "pip",
        "--disable-pip-version-check",
        "install",
        "--quiet",
        "--no-deps",
        *alone,
        ".",
    ]
    scripts = sysconfig.get_path("scripts")  # of the tools that build
    path = os.pathsep.join([scripts, os.environ.get("PATH", "")])
    subprocess.run(pip, cwd=checkout, check=True, env=os.environ | {"PATH": path})
    shutil.rmtree(checkout / "build", ignore_errors=True)
    return python


# The settings


def run(
    setting: Setting, checkout: Path, python: str, options: argparse.Namespace
) -> tuple[str, bool]:
    """Run the sample under one setting; return a line about it, and whether all is well."""
    home, temporary = checkout.parent / "home", checkout.parent / "tmp ü"
    home.mkdir(exist_ok=True)
    shutil.rmtree(temporary, ignore_errors=True)  # of another user, perhaps
    temporary.mkdir()
    temporary.chmod(0o1777)
    told, environment = surroundings(setting, checkout, home, temporary)
    process: dict[str, object] = {}
    if setting.locked:
        lock(checkout)
        lock(home)
        rights, process = without_rights(python)
        told.append(rights)
    if setting.bare:
        process |= {"umask": 0o077, "start_new_session": True}
        told.append("umask 077, no terminal")
    command = sampled(setting, python, options)
    print(f"\n== {setting.name}: {', '.join(told)}", *command[1:], flush=True)
    start = time.monotonic()
    done = subprocess.run(
        command, cwd=checkout, env=environment, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT, encoding="utf-8", errors="replace", check=False, **process,
    )  # fmt: skip
    unlock(checkout)
    unlock(home)
    minutes = (time.monotonic() - start) / 60
    last = (done.stdout.strip().splitlines() or ["no output"])[-1]
    few = options.sample == SAMPLE and n_passed(last) < LEAST_TESTS
    is_green = done.returncode == 0 and not few
    print(last if is_green else done.stdout, flush=True)
    said = f"{setting.name}: {last}" + f"; fewer than {LEAST_TESTS} passed" * few
    return f"{'ok ' if is_green else 'RED'} {said} ({minutes:.1f} minutes)", is_green


def sampled(setting: Setting, python: str, options: argparse.Namespace) -> list[str]:
    """Return the command that runs the sample: tests, guides, and the package that is installed."""
    package = next(Path(python).parents[1].glob("**/site-packages/rankwise"))
    seed = options.seed + SETTINGS.index(setting)  # another order each time
    command = [python, "-m", "pytest", "-q", "-n", options.workers, "-m", "not browser"]
    command += ["--shuffle", str(seed), "--sample", options.sample, "--collect-in-virtualenv"]
    return [*command, *["--touched"] * setting.touched, "tests", "docs", str(package)]


def n_passed(last: str) -> int:
    """Return how many tests passed, from the last line that pytest prints."""
    return sum(map(int, re.findall(r"(\d+) passed", last)))


def surroundings(
    setting: Setting, checkout: Path, home: Path, temporary: Path
) -> tuple[list[str], dict[str, str]]:
    """Return in words what is set, and the environment."""
    told = [f"{setting.threads} thread" + "s" * (setting.threads > 1)]
    dropped = ("PYTHON", "OPENBLAS", "NPY_", "LC_", "LANG", "XDG_", "MPL")
    environment = {
        name: value for name, value in os.environ.items() if not name.startswith(dropped)
    }
    environment |= {
        name: str(setting.threads) for name in ("OMP_NUM_THREADS", "RANKWISE_NUM_THREADS")
    }
    environment |= {"TMPDIR": str(temporary), "LANG": "C.UTF-8"}
    if setting.core and platform.machine().lower() in ("x86_64", "amd64"):
        if setting.core == "SkylakeX" and not (
            features().get("AVX512F") or features().get("X86_V4")
        ):
            told.append("no AVX-512 here, so the BLAS kernels of this processor")
        else:
            environment["OPENBLAS_CORETYPE"] = setting.core
            told.append(f"OPENBLAS_CORETYPE={setting.core}")
    if setting.plain:
        environment["NPY_DISABLE_CPU_FEATURES"] = " ".join(dispatched())
        told.append(f'NPY_DISABLE_CPU_FEATURES="{" ".join(dispatched())}"')
    if setting.elsewhere:
        environment["PYTHONPATH"] = str(checkout / "tests" / "elsewhere")
        told.append("without sched_getaffinity and friends")
    if setting.locked:
        environment |= {"HOME": str(home)}
        told.append("checkout and home read-only")
    if setting.bare:
        environment["LANG"] = "C"
        told.append("LANG=C")
    return told, environment


def features() -> dict[str, bool]:
    """Return which vector units NumPy sees."""
    return np._core._multiarray_umath.__cpu_features__


def dispatched() -> list[str]:
    """Return the vector units that NumPy uses here and can do without."""
    return [name for name in np._core._multiarray_umath.__cpu_dispatch__ if features().get(name)]


def without_rights(python: str) -> tuple[str, dict[str, object]]:
    """Return in words how root's rights are given up, and what subprocess is told to do so."""
    if not hasattr(os, "geteuid") or os.geteuid() != 0:
        return "as this user, who is not root", {}
    with contextlib.suppress(OSError, KeyError):
        import pwd

        group = pwd.getpwnam("nobody").pw_gid
        nobody: dict[str, object] = {"user": "nobody", "group": group, "extra_groups": []}
        probe = [python, "-c", "import numpy, pytest, rankwise"]
        if subprocess.run(probe, capture_output=True, check=False, **nobody).returncode == 0:
            return "as nobody", nobody
    if sys.platform != "linux":
        return "as root: nobody may not run this Python", {}
    told = "as root without capabilities: nobody may not run this Python"
    return told, {"preexec_fn": drop_capabilities}


def drop_capabilities() -> None:
    """Let permissions bind root: after the next program starts, no capability is left."""
    libc = ctypes.CDLL(None)
    for capability in range(64):
        libc.prctl(24, capability, 0, 0, 0)  # PR_CAPBSET_DROP
    libc.prctl(47, 4, 0, 0, 0)  # PR_CAP_AMBIENT, PR_CAP_AMBIENT_CLEAR_ALL


def lock(folder: Path) -> None:
    """Take the right to write from all files and folders; everybody may read."""
    for path in [folder, *folder.rglob("*")]:
        if not path.is_symlink():
            mode = path.stat().st_mode
            runs = path.is_dir() or mode & stat.S_IXUSR
            path.chmod(0o555 if runs else 0o444)


def unlock(folder: Path) -> None:
    """Give the right to write back to the owner."""
    for path in [folder, *folder.rglob("*")]:
        if not path.is_symlink():
            path.chmod(path.stat().st_mode | stat.S_IWUSR)


if __name__ == "__main__":
    sys.exit(main())
