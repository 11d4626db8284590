"""Translate the kernels to C: all by one Cython, whose start takes longer than most of them.

A file of C that would stay as it is is left untouched, and so is not compiled again.

Usage: translate_kernels.py CYTHON FOLDER OPTION... SOURCE...
"""

import subprocess
import sys
import tempfile
from pathlib import Path


def translate(cython: str, folder: str, *options_and_sources: str) -> None:
    """Write the C of every source into the folder, where it differs from what is there."""
    with tempfile.TemporaryDirectory(dir=folder) as translated:
        subprocess.run([cython, "-o", translated, *options_and_sources], check=True)
        for new in Path(translated).iterdir():
            old = Path(folder, new.name)
            if not old.exists() or old.read_bytes() != new.read_bytes():
                new.replace(old)


translate(*sys.argv[1:])
