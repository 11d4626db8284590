"""The command line: parse, call, print.

What can be typed stands in ``commands`` and ``fit_commands``, which are quick to import. Each
command names its job, a function in ``jobs`` that is loaded when the command is run, so that
``--help`` does not wait for NumPy and scikit-learn.
"""
