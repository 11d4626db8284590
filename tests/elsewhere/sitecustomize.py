"""Python as elsewhere than on Linux: with this folder on PYTHONPATH, what only Unix has is gone."""

import contextlib
import os

with contextlib.suppress(ImportError):
    import psutil  # noqa: F401  it asks for the system once, and would need these on this one

for name in ("sched_getaffinity", "sched_setaffinity", "sysconf", "fork", "forkpty", "mkfifo"):
    if hasattr(os, name):
        delattr(os, name)
if hasattr(os, "process_cpu_count"):
    os.process_cpu_count = os.cpu_count  # what Python makes of it where there is no affinity
