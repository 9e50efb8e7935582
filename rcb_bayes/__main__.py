"""``python -m rcb_bayes`` is ``rcb``."""

import sys

from rcb_bayes import INSTALL

if __name__ == "__main__":
    try:
        from rcb_bayes.cli import main
    except ModuleNotFoundError as error:
        sys.exit(f"{error}. {INSTALL}")
    main()
