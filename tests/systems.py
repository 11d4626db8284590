"""What not every system has."""

import os
import subprocess
import sys

import pytest

needs_named_pipes = pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="needs named pipes")
needs_unix = pytest.mark.skipif(sys.platform == "win32", reason="needs signals and files of Unix")


def loaded_by_scikit_learn():
    """Return the modules that are loaded with the base of scikit-learn's estimators."""
    code = "import sys, sklearn.base, sklearn.utils.validation; print(*sys.modules)"
    done = subprocess.run([sys.executable, "-c", code], check=True, capture_output=True, text=True)
    return set(done.stdout.split())
