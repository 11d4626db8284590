"""Python as elsewhere than on Linux: with this folder on PYTHONPATH, what only Unix has is gone.

macOS has no sched_getaffinity; Windows has no named pipes either.
"""

import os

for name in ("sched_getaffinity", "sched_setaffinity", "mkfifo"):
    if hasattr(os, name):
        delattr(os, name)
if hasattr(os, "process_cpu_count"):
    os.process_cpu_count = os.cpu_count  # what Python makes of it where there is no affinity
