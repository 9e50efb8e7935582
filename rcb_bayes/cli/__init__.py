"""The command line, ``rcb``: the same words as the Python interface.

Exit codes: 0 pass, 1 fail, 2 bad input, 3 inconclusive, 70 internal error.
"""

from rcb_bayes.cli.app import main

__all__ = ["main"]
