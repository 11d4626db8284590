"""The command line: parse, call, print.

What can be typed stands in ``commands``, which is quick to import; what a command does is a job in
``jobs``, loaded when the command is run, so that ``--help`` does not wait for NumPy and
scikit-learn.
"""
