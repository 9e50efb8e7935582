"""The command line, ``rcb``: the same words as the Python interface.

Exit codes: 0 pass, 1 fail, 2 bad input, 3 inconclusive, 70 internal error, 130 stopped (Ctrl-C).
"""

import os
import sys
from collections.abc import Sequence

__all__ = ["main"]


def main(arguments: Sequence[str] | None = None) -> None:
    """Run the command line and exit with its code."""
    try:
        from rcb_bayes.cli.app import main as run_and_exit
    except KeyboardInterrupt:  # loading takes part of a second
        sys.stderr.write("rcb: stopped. Nothing was written.\n")
        sys.stderr.flush()
        os._exit(130)
    run_and_exit(arguments)
