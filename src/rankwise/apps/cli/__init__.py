"""The command line: parse, call, print.

``commands`` and ``fit_commands`` define the commands and are quick to import. Each command names
its job, a function in ``jobs`` that is loaded when the command runs, so that ``--help`` does not
wait for NumPy and scikit-learn.
"""
