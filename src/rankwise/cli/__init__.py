"""The command line: parse, call, print.

A command is a frozen value (``commands``, quick to import); what it does is a job (``jobs``, loaded
only when the command is run), so that ``--help`` need not wait for SciPy, scikit-learn and numba.
"""
