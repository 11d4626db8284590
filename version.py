#!/usr/bin/env python3
"""Print the version of the package, which stands in its __init__ and nowhere else."""

import re
from pathlib import Path

text = (Path(__file__).parent / "src/rankwise/__init__.py").read_text(encoding="utf-8")
print(re.search(r'^__version__ = "(.+)"$', text, re.M)[1])
