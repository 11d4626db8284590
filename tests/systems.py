"""What not every system has."""

import os
import sys

import pytest

needs_named_pipes = pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="needs named pipes")
needs_unix = pytest.mark.skipif(sys.platform == "win32", reason="needs signals and files of Unix")
