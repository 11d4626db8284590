"""Kernels that are compiled when the package is built: loops that NumPy and SciPy do not have.

One module a job. A kernel gets its arrays from the caller, releases the interpreter lock, and adds
up in the order that its text says: the same doubles on every machine. Each is compared with its
plain form in ``tests/reference.py``.
"""
